//! The operators of programs as training sees them, one file each, all with the same rules:
//!
//! | rule | what it does |
//! |---|---|
//! | value | a batch of points to points, a batch of boxes to boxes around all values |
//! | change | how far two values are apart, for steps in difference form |
//! | back | gradients of arguments and parameters, for both |
//!
//! Boxes are centres and radii; rounding is not accounted for, training proves nothing. Gradients of boxes are those of
//! centre and radius. Elementwise operators say their rules once, over numbers that may carry slopes (`each`), and have
//! no gradients of their own. What an elementwise function is, `gains-core` knows. Here the rules are those of the
//! processor; the kernels of devices say them once more (`../device/kernels`), and tests hold one against the other.

pub(super) mod batch_norm;
mod blend;
mod columns;
mod curve;
pub(crate) mod each;
mod fixed;
pub(super) mod layer;
mod maximum;
mod product;
mod scale;
pub(super) mod sum;

use std::ops::Range;

pub use batch_norm::{BatchNorm, Statistics};
pub use each::{Each, Rule};
pub use fixed::Fixed;
pub use layer::Layer;
pub use scale::Scale;

use crate::cpu::Real;
use crate::gradients::Gradients;
use crate::matrix::Matrix;

/// The parameters, and their magnitudes for radii to go through.
#[derive(Clone, Debug, Default)]
pub struct Weights<F> {
    /// The parameters.
    pub values: Vec<F>,
    /// Their magnitudes.
    pub magnitudes: Vec<F>,
}

impl<F: Real> Weights<F> {
    /// Parameters with their magnitudes.
    pub fn new(values: Vec<F>) -> Self {
        let magnitudes = values.iter().map(|value| value.abs()).collect();
        Self { values, magnitudes }
    }

    /// Brings the magnitudes up to date.
    pub fn refresh(&mut self) {
        for (magnitude, value) in self.magnitudes.iter_mut().zip(&self.values) {
            *magnitude = value.abs();
        }
    }
}

/// The time of an evaluation, or how far the times of two are apart.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The time, or the time that passed.
    pub time: f64,
    /// Whether what is added counts: not for changes.
    pub biased: bool,
}

impl Clock {
    /// An evaluation at a time.
    pub fn at(time: f64) -> Self {
        Self { time, biased: true }
    }

    /// A change while so much time passes.
    pub fn passed(time: f64) -> Self {
        Self { time, biased: false }
    }
}

/// An operator.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A convolution or a linear layer.
    Layer(Layer),
    /// Learned factors and summands.
    Scale(Scale),
    /// Normalisation by statistics of the batch.
    BatchNorm(BatchNorm),
    /// An affine map without parameters.
    Fixed(Fixed),
    /// Something entry by entry.
    Each(Each),
    /// A weighted sum.
    Sum(Vec<f64>),
    /// One after the other.
    Concat,
    /// Some entries.
    Slice(Range<usize>),
}

/// Whose gradients are wanted, and where those of parameters go.
pub struct Return<'a, F> {
    /// The parameters.
    pub weights: &'a Weights<F>,
    /// Gradients of the parameters.
    pub into: &'a mut Gradients<F>,
    /// Whether the gradient of the first argument is wanted; others always are.
    pub wanted: bool,
}

impl Operation {
    /// The value, given the arguments, or its change, given those of the arguments. Elementwise operators have rules of
    /// their own for changes, batch normalisation needs statistics besides.
    pub fn forward<F: Real>(&self, weights: &Weights<F>, x: &[&Matrix<F>], clock: Clock) -> Matrix<F> {
        match self {
            Self::Layer(layer) => layer.forward(weights, x[0], clock),
            Self::Scale(scale) => scale.forward(weights, x[0], clock),
            Self::BatchNorm(norm) => norm.forward(weights, x[0], clock, &norm.running(weights)),
            Self::Fixed(fixed) => fixed.forward(x[0], clock),
            Self::Each(each) if x[0].is_box() => Rule::Over(*each).forward(x),
            Self::Each(each) => each::forward(*each, x),
            Self::Sum(coefficients) => sum::forward(coefficients, x),
            Self::Concat => columns::concat(x),
            Self::Slice(range) => columns::slice(x[0], range.clone()),
        }
    }

    /// The gradients of [`Self::forward`], one for each argument; none where it is not wanted.
    pub fn backward<F: Real>(
        &self,
        x: &[&Matrix<F>],
        clock: Clock,
        gradient: &Matrix<F>,
        back: &mut Return<'_, F>,
    ) -> Vec<Option<Matrix<F>>> {
        let one = |part: Matrix<F>| vec![Some(part)];
        let weights = back.weights;
        match self {
            Self::Layer(layer) => {
                vec![layer.backward(weights, x[0], clock, gradient, back.into, back.wanted)]
            }
            Self::Scale(scale) => one(scale.backward(weights, x[0], clock, gradient, back.into)),
            Self::BatchNorm(norm) => {
                let statistics = norm.running(weights);
                one(norm.backward(weights, x[0], (clock, &statistics, false), gradient, back.into))
            }
            Self::Fixed(fixed) => one(fixed.backward(x[0], gradient)),
            Self::Each(each) if x[0].is_box() => {
                Rule::Over(*each).backward(x, gradient).into_iter().map(Some).collect()
            }
            Self::Each(each) => each::backward(*each, x, gradient).into_iter().map(Some).collect(),
            Self::Sum(coefficients) => {
                coefficients.iter().map(|c| Some(sum::backward(*c, gradient))).collect()
            }
            Self::Concat => {
                let mut first = 0;
                let part = |x: &&Matrix<F>| {
                    first += x.columns;
                    Some(columns::slice(gradient, first - x.columns..first))
                };
                x.iter().map(part).collect()
            }
            Self::Slice(range) => one(columns::slice_back(x[0], range.clone(), gradient)),
        }
    }
}

#[cfg(test)]
mod tests;
