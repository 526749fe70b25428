//! Operators that work entry by entry: one rule each for points, boxes and changes, written over [`Number`].

use gains_core::activation::Activation;
use gains_core::operator::Operator;
use rayon::prelude::*;

use super::{blend, curve, maximum, product};
use crate::cpu::Real;
use crate::matrix::Matrix;
use crate::program::number::{Dual, Number, Span};

/// Entries that one thread takes at a time.
const CHUNK: usize = 2048;
/// Most arguments of a rule.
const MOST: usize = 9;

/// An elementwise operator.
#[derive(Clone, Copy, Debug)]
pub enum Each {
    /// A function of one argument.
    Curve(Activation),
    /// `x·y`.
    Product,
    /// `max(x, y)`.
    Maximum,
    /// `(1 − u)·g + u·y`.
    Blend,
}

impl Each {
    /// The rules of an operator, if it is an elementwise one.
    pub fn of(operator: &Operator) -> Option<Self> {
        match operator {
            Operator::Curve(f) => Some(Self::Curve(*f)),
            Operator::Product => Some(Self::Product),
            Operator::Maximum => Some(Self::Maximum),
            Operator::Blend(_) => Some(Self::Blend),
            Operator::Affine(_) | Operator::Sum(_) | Operator::Concat(_) | Operator::Slice(_) => None,
        }
    }

    /// The value at a point.
    fn at<N: Number>(&self, x: &[N]) -> N {
        match self {
            Self::Curve(f) => curve::at(*f, x[0]),
            Self::Product => x[0] * x[1],
            Self::Maximum => x[0].larger(x[1]),
            Self::Blend => blend::at([x[0], x[1], x[2]]),
        }
    }

    /// All values over intervals.
    fn over<N: Number>(&self, x: &[Span<N>]) -> Span<N> {
        match self {
            Self::Curve(f) => curve::over(*f, x[0]),
            Self::Product => x[0].times(x[1]),
            Self::Maximum => maximum::over([x[0], x[1]]),
            Self::Blend => blend::over([x[0], x[1], x[2]]),
        }
    }

    /// How far two values are apart: arguments before, after, and how far those are apart.
    fn moved<N: Number>(&self, x: &[Span<N>]) -> Span<N> {
        match (self, x) {
            (Self::Curve(f), [before, after, apart]) => curve::moved(*f, before.hull(*after), *apart),
            (Self::Product, [_, y, after, _, dx, dy]) => product::moved(*after, *y, [*dx, *dy]),
            (Self::Maximum, [x, y, later_x, later_y, dx, dy]) => {
                maximum::moved([*x, *y], [*later_x, *later_y], [*dx, *dy])
            }
            (Self::Blend, [_, g, y, u, _, _, du, dg, dy]) => blend::moved([*u, *g, *y], [*du, *dg, *dy]),
            _ => unreachable!("three times as many intervals as arguments"),
        }
    }
}

/// A rule over intervals.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// The values of an operator.
    Over(Each),
    /// The change of an operator.
    Moved(Each),
    /// What two enclosures of the same have in common.
    Meet,
    /// What lies in one or the other.
    Hull,
    /// A value that lies in its image, and in the value before plus the change: of these three.
    Value,
    /// A change that lies in its enclosure, and between the value before and the one after: of these three.
    Change,
}

impl Rule {
    fn apply<N: Number>(&self, x: &[Span<N>]) -> Span<N> {
        match (self, x) {
            (Self::Over(each), _) => each.over(x),
            (Self::Moved(each), _) => each.moved(x),
            (Self::Meet, [a, b]) => a.meet(*b),
            (Self::Hull, [a, b]) => a.hull(*b),
            (Self::Value, [image, before, change]) => image.meet(before.plus(*change)),
            (Self::Change, [change, before, after]) => change.meet(after.minus(*before)),
            _ => unreachable!("each rule has its number of arguments"),
        }
    }

    /// Boxes of the arguments to one of the value. Should rounding have crossed the ends of an intersection, it is their
    /// middle.
    pub fn forward<F: Real>(&self, x: &[&Matrix<F>]) -> Matrix<F> {
        let mut out = x[0].zeros_like();
        let chunks = out.centre.par_chunks_mut(CHUNK).zip(out.radius.par_chunks_mut(CHUNK));
        chunks.enumerate().for_each(|(number, (centre, radius))| {
            for (offset, (c, r)) in centre.iter_mut().zip(radius).enumerate() {
                let spans = spans(x, number * CHUNK + offset, |value, _| value);
                let Span { low, high } = self.apply(&spans[..x.len()]);
                (*c, *r) = (F::of(0.5 * (low + high)), F::of(0.5 * (high - low)).relu());
            }
        });
        out
    }

    /// Gradients of the arguments.
    pub fn backward<F: Real>(&self, x: &[&Matrix<F>], gradient: &Matrix<F>) -> Vec<Matrix<F>> {
        match x.len() {
            1 => self.back::<F, 2>(x, gradient),
            2 => self.back::<F, 4>(x, gradient),
            3 => self.back::<F, 6>(x, gradient),
            6 => self.back::<F, 12>(x, gradient),
            _ => self.back::<F, 18>(x, gradient),
        }
    }

    fn back<F: Real, const N: usize>(&self, x: &[&Matrix<F>], gradient: &Matrix<F>) -> Vec<Matrix<F>> {
        let one = |at: usize| -> [f64; N] {
            let spans = spans(x, at, Dual::<N>::variable);
            let Span { low, high } = self.apply(&spans[..x.len()]);
            let (on_centre, on_radius) = (0.5 * gradient.centre[at].wide(), 0.5 * gradient.radius[at].wide());
            // A radius that was cut off at 0 does not move.
            let on_radius = if high.value() > low.value() { on_radius } else { 0.0 };
            let mut slopes = [0.0; N];
            for (slope, (l, h)) in slopes.iter_mut().zip(low.slopes().iter().zip(high.slopes())) {
                *slope = on_centre * (l + h) + on_radius * (h - l);
            }
            slopes
        };
        let slopes = slopes_of(gradient.centre.len(), &one);
        let mut parts: Vec<Matrix<F>> = x.iter().map(|x| x.zeros_like()).collect();
        for (at, slopes) in slopes.iter().enumerate() {
            for (part, ends) in parts.iter_mut().zip(slopes.chunks_exact(2)) {
                // low = centre − radius, high = centre + radius.
                part.centre[at] = F::of(ends[0] + ends[1]);
                part.radius[at] = F::of(ends[1] - ends[0]);
            }
        }
        parts
    }
}

/// The intervals of all arguments at one entry; the ends of the `k`-th are numbers `2k` and `2k + 1`.
fn spans<F: Real, N: Number>(
    x: &[&Matrix<F>],
    at: usize,
    number: impl Fn(f64, usize) -> N,
) -> [Span<N>; MOST] {
    let mut all = [Span::new(N::constant(0.0), N::constant(0.0)); MOST];
    for (index, (span, x)) in all.iter_mut().zip(x).enumerate() {
        let (centre, radius) = (x.centre[at].wide(), x.radius[at].wide());
        *span = Span::new(number(centre - radius, 2 * index), number(centre + radius, 2 * index + 1));
    }
    all
}

/// Points of the arguments to those of the value.
pub fn forward<F: Real>(each: Each, x: &[&Matrix<F>]) -> Matrix<F> {
    let mut out = x[0].zeros_like();
    out.centre.par_chunks_mut(CHUNK).enumerate().for_each(|(number, chunk)| {
        for (offset, value) in chunk.iter_mut().enumerate() {
            let mut numbers = [0.0; 3];
            for (slot, x) in numbers.iter_mut().zip(x) {
                *slot = x.centre[number * CHUNK + offset].wide();
            }
            *value = F::of(each.at(&numbers[..x.len()]));
        }
    });
    out
}

/// Gradients of the arguments of [`forward`].
pub fn backward<F: Real>(each: Each, x: &[&Matrix<F>], gradient: &Matrix<F>) -> Vec<Matrix<F>> {
    let one = |at: usize| -> [f64; 3] {
        let mut numbers = [Dual::<3>::constant(0.0); 3];
        for (index, (slot, x)) in numbers.iter_mut().zip(x).enumerate() {
            *slot = Dual::variable(x.centre[at].wide(), index);
        }
        each.at(&numbers[..x.len()]).slopes().map(|slope| slope * gradient.centre[at].wide())
    };
    let slopes = slopes_of(gradient.centre.len(), &one);
    let column = |index: usize| slopes.iter().map(|slopes| F::of(slopes[index])).collect();
    (0..x.len()).map(|index| Matrix::points(gradient.rows, gradient.columns, column(index))).collect()
}

/// Something for every entry, in their order.
fn slopes_of<const N: usize>(entries: usize, one: &(impl Fn(usize) -> [f64; N] + Sync)) -> Vec<[f64; N]> {
    (0..entries).into_par_iter().with_min_len(CHUNK).map(one).collect()
}
