//! Affine maps `x ↦ W x + b + t·u`, the only heavy operation.
//!
//! One type per kind of layer, each with the same jobs: apply to a point, apply to a box, pull a
//! gradient back, pull rows of linear bounds back. `t` is the time; only convolutions that carry a time
//! channel have `u ≠ 0`.

mod conv;
mod group;
mod matrix;
mod pool;
mod scale;
mod select;

pub use conv::{Conv2d, ConvGeometry};
pub use group::{GroupMean, GroupPart};
pub use matrix::{Matrix, multiply};
pub use pool::AveragePool;
pub use scale::{BatchStatistics, Scale, ScaleKind};
pub use select::{Purpose, Selection};

use crate::arithmetic::Arithmetic;
use crate::interval::{BoxVec, Centred};
use crate::kernels;
use crate::rows::Rows;
use crate::shape::{Shape, Window};
use crate::support::Support;

/// Largest matrix that is written out: 64 MB.
const MOST_MATRIX_ENTRIES: usize = 8 << 20;

/// What an affine map computes for centres, radii and magnitudes before any rounding is accounted for.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// `W c` (without the bias).
    pub centre: Vec<f64>,
    /// `|W| r`.
    pub radius: Vec<f64>,
    /// `|W| m`.
    pub magnitude: Vec<f64>,
}

/// An affine layer.
#[derive(Clone, Debug)]
pub enum AffineMap {
    /// Convolution or linear layer, possibly with a time channel.
    Conv(Conv2d),
    /// Average pooling, global or not.
    Pool(AveragePool),
    /// Factors and summands by channel or entry.
    Scale(Scale),
    /// Entries moved about, left out or filled up with zeros.
    Select(Selection),
    /// Means of groups of channels.
    Group(GroupMean),
}

macro_rules! each {
    ($self:expr, $map:ident => $body:expr) => {
        match $self {
            AffineMap::Conv($map) => $body,
            AffineMap::Pool($map) => $body,
            AffineMap::Scale($map) => $body,
            AffineMap::Select($map) => $body,
            AffineMap::Group($map) => $body,
        }
    };
}

impl AffineMap {
    /// Shape of the input.
    pub fn input(&self) -> Shape {
        each!(self, map => map.input())
    }

    /// Shape of the output.
    pub fn output(&self) -> Shape {
        each!(self, map => map.output())
    }

    /// Largest number of terms in one output entry, bias and time included.
    pub fn terms(&self) -> usize {
        each!(self, map => map.terms())
    }

    /// Number of trained parameters.
    pub fn parameters(&self) -> usize {
        match self {
            Self::Conv(map) => map.parameters(),
            Self::Scale(map) => map.parameters(),
            _ => 0,
        }
    }

    /// A number of the map that float32 cannot store.
    pub fn beyond_float32(&self) -> Option<f64> {
        match self {
            Self::Conv(map) => map.beyond_float32(),
            Self::Scale(map) => map.beyond_float32(),
            // They divide by counts.
            Self::Pool(_) | Self::Select(_) | Self::Group(_) => None,
        }
    }

    /// True if the map depends on the time.
    pub fn uses_time(&self) -> bool {
        matches!(self, Self::Conv(map) if map.uses_time())
    }

    /// `b + t·u`, one entry per output.
    pub fn bias(&self, time: f64) -> Vec<f64> {
        each!(self, map => map.bias(time))
    }

    /// `|b| + |t|·|u|`, one entry per output.
    pub fn bias_magnitude(&self, time: f64) -> Vec<f64> {
        each!(self, map => map.bias_magnitude(time))
    }

    /// `W x + b + t·u` in float64.
    pub fn apply(&self, x: &[f64], time: f64) -> Vec<f64> {
        let mut y = each!(self, map => map.linear(x));
        for (y, b) in y.iter_mut().zip(self.bias(time)) {
            *y += b;
        }
        y
    }

    /// `W x` in float64, without bias and time.
    pub fn apply_linear(&self, x: &[f64]) -> Vec<f64> {
        each!(self, map => map.linear(x))
    }

    /// `Wᵀ g`: the gradient with respect to the input.
    pub fn apply_transposed(&self, gradient: &[f64]) -> Vec<f64> {
        each!(self, map => map.transposed(gradient))
    }

    /// Encloses `{W x + b + t·u : x in the box}` as the given arithmetic may compute it.
    ///
    /// Centre `c' = fl(W c + b)` and radius `r' = |W| ((1 + γ) r + γ |c|) + γ |b|`: the γ terms cover the
    /// rounding of `c'`, of `r'` itself and, in float32 mode, of the analysed program.
    pub fn apply_box(&self, x: &BoxVec, time: f64, arithmetic: Arithmetic) -> BoxVec {
        self.enclose(x, time, arithmetic, None).0
    }

    /// Like [`Self::apply_box`], and also [`Self::magnitude`] for magnitudes `m` of the input.
    pub fn apply_box_traced(
        &self,
        x: &BoxVec,
        magnitude: &[f64],
        time: f64,
        arithmetic: Arithmetic,
    ) -> (BoxVec, Vec<f64>) {
        self.enclose(x, time, arithmetic, Some(magnitude))
    }

    fn enclose(
        &self,
        x: &BoxVec,
        time: f64,
        arithmetic: Arithmetic,
        magnitude: Option<&[f64]>,
    ) -> (BoxVec, Vec<f64>) {
        if let Self::Select(map) = self {
            return (map.moved(x), magnitude.map(|m| map.linear(m)).unwrap_or_default());
        }
        let gamma = arithmetic.dot(self.terms());
        let Centred { centre, radius } = x.centres();
        let inflated = kernels::inflate(&centre, &radius, gamma);
        let mut lanes = each!(self, map => map.lanes(&centre, &inflated, magnitude));
        let bias = self.bias(time);
        let bias_magnitude = self.bias_magnitude(time);
        let tiny = arithmetic.underflow();
        kernels::ends(&mut lanes.centre, &mut lanes.radius, &bias, &bias_magnitude, gamma, tiny);
        for (v, b) in lanes.magnitude.iter_mut().zip(&bias_magnitude) {
            *v = (*v + b) * (1.0 + gamma) + tiny / gamma;
        }
        (BoxVec::new(lanes.centre, lanes.radius), lanes.magnitude)
    }

    /// Encloses `{W d + elapsed·u : d in the box}`: how far the outputs are apart if the inputs are apart by
    /// `d` and the times by `elapsed`; the bias drops out. Also returns `|W| |d| + |elapsed|·|u|`, for rows.
    /// Only the rounding of the analysis is counted.
    pub fn apply_difference(&self, d: &BoxVec, elapsed: f64) -> (BoxVec, Vec<f64>) {
        if let Self::Select(map) = self {
            return (map.moved(d), map.linear(&d.magnitudes()));
        }
        let gamma = Arithmetic::Real.dot(self.terms());
        let Centred { centre, radius } = d.centres();
        let inflated = kernels::inflate(&centre, &radius, gamma);
        let mut lanes = each!(self, map => map.lanes(&centre, &inflated, Some(&d.magnitudes())));
        let (shift, magnitude) = self.time_shift(elapsed);
        let tiny = Arithmetic::Real.underflow();
        kernels::ends(&mut lanes.centre, &mut lanes.radius, &shift, &magnitude, gamma, tiny);
        for (v, m) in lanes.magnitude.iter_mut().zip(&magnitude) {
            *v = (*v + m) * (1.0 + gamma) + tiny / gamma;
        }
        (BoxVec::new(lanes.centre, lanes.radius), lanes.magnitude)
    }

    /// Relative error of what a program computes; nothing where it only moves entries.
    pub(crate) fn program_dot(&self, arithmetic: Arithmetic) -> f64 {
        match self {
            Self::Select(_) => 0.0,
            _ => arithmetic.program_dot(self.terms()),
        }
    }

    /// `elapsed·u` and `|elapsed|·|u|`: what the time channel adds while the time moves on.
    pub fn time_shift(&self, elapsed: f64) -> (Vec<f64>, Vec<f64>) {
        match self {
            Self::Conv(map) => map.time_shift(elapsed),
            _ => (vec![0.0; self.output().len()], vec![0.0; self.output().len()]),
        }
    }

    /// `|W| m + |b| + |t|·|u|`, rounded up: what the rounding of rows pulled back through the map is
    /// proportional to. The last term makes `γ v` cover underflow as well.
    pub fn magnitude(&self, m: &[f64], time: f64, arithmetic: Arithmetic) -> Vec<f64> {
        if let Self::Select(map) = self {
            return map.linear(m);
        }
        let gamma = arithmetic.dot(self.terms());
        let tiny = arithmetic.underflow() / gamma;
        let mut v = each!(self, map => map.absolute(m));
        for (v, b) in v.iter_mut().zip(self.bias_magnitude(time)) {
            *v = (*v + b) * (1.0 + gamma) + tiny;
        }
        v
    }

    /// `A ↦ A W` alone, constants and slack unchanged and no rounding charged: for callers that keep
    /// those books themselves.
    pub fn pull_linear(&self, rows: &Rows) -> Rows {
        let wide;
        let (block, window) = match rows.on() {
            Support::Window(window) => (rows, window),
            all if all.is_full() => (rows, &Window::full(self.output())),
            Support::Entries { .. } => {
                wide = rows.clone().widened();
                (&wide, &Window::full(self.output()))
            }
        };
        each!(self, map => map.pull_rows(block, window))
    }

    /// Multiplications [`Self::pull_linear`] takes per full row; what a dense product is weighed against.
    pub fn pull_cost(&self) -> usize {
        match self {
            Self::Conv(map) => map.pull_cost(),
            _ => self.output().len(),
        }
    }

    /// The same map from some entries of the input (increasing) to some of the output, where all others of the input are zero.
    /// Only of convolutions and linear layers; rounding is charged as for the whole.
    pub fn restricted(&self, outputs: &[u32], inputs: &[u32]) -> Option<Self> {
        match self {
            Self::Conv(map) => Some(Self::Conv(map.restricted(outputs, inputs))),
            _ => None,
        }
    }

    /// The whole linear part as a dense matrix (outputs × inputs), unless it would be large: beyond a few thousand
    /// entries a side the map's own way is faster, and the matrix would take gigabytes. Maps that look at each entry once
    /// or twice need none.
    pub fn to_small_matrix(&self) -> Option<Matrix> {
        if matches!(self, Self::Scale(_) | Self::Select(_) | Self::Group(_)) {
            return None;
        }
        let entries = self.input().len().checked_mul(self.output().len())?;
        (entries <= MOST_MATRIX_ENTRIES).then(|| self.to_matrix())
    }

    /// The whole linear part as a dense matrix (outputs × inputs).
    pub fn to_matrix(&self) -> Matrix {
        let (inputs, outputs) = (self.input().len(), self.output().len());
        let mut matrix = Matrix::zeros(outputs, inputs);
        let mut unit = vec![0.0; inputs];
        for column in 0..inputs {
            unit[column] = 1.0;
            let image = each!(self, map => map.linear(&unit));
            for (row, value) in image.into_iter().enumerate() {
                matrix.data[row * inputs + column] = value;
            }
            unit[column] = 0.0;
        }
        matrix
    }
}
