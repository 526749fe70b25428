//! Normalisation by channel.

use super::Lanes;
use crate::row_block::RowBlock;
use crate::rows::Rows;
use crate::shape::{Shape, Window};

/// `(x − mean) / std`, channel by channel.
///
/// Stored as `scale·x + shift` with `scale = fl(1/std)` and `shift = fl(−mean/std)`; both are a few ulp
/// off, which the slack of [`crate::arithmetic::Arithmetic::dot`] covers.
#[derive(Clone, Debug)]
pub struct ChannelScale {
    shape: Shape,
    scale: Vec<f64>,
    shift: Vec<f64>,
}

impl ChannelScale {
    /// Normalisation with one mean and deviation per channel.
    pub fn normalise(shape: Shape, mean: &[f64], deviation: &[f64]) -> Self {
        Self {
            shape,
            scale: deviation.iter().map(|s| 1.0 / s).collect(),
            shift: mean.iter().zip(deviation).map(|(m, s)| -m / s).collect(),
        }
    }

    pub(super) fn input(&self) -> Shape {
        self.shape
    }

    pub(super) fn output(&self) -> Shape {
        self.shape
    }

    pub(super) fn terms(&self) -> usize {
        2
    }

    pub(super) fn bias(&self, _: f64) -> Vec<f64> {
        self.shift.repeat(self.shape.positions())
    }

    pub(super) fn bias_magnitude(&self, _: f64) -> Vec<f64> {
        let all: Vec<f64> = self.shift.iter().map(|b| b.abs()).collect();
        all.repeat(self.shape.positions())
    }

    fn scaled(&self, x: &[f64], factor: impl Fn(f64) -> f64) -> Vec<f64> {
        let channels = self.shape.channels;
        x.iter().enumerate().map(|(i, x)| factor(self.scale[i % channels]) * x).collect()
    }

    pub(super) fn linear(&self, x: &[f64]) -> Vec<f64> {
        self.scaled(x, |s| s)
    }

    pub(super) fn absolute(&self, m: &[f64]) -> Vec<f64> {
        self.scaled(m, f64::abs)
    }

    pub(super) fn lanes(&self, centre: &[f64], radius: &[f64], magnitude: Option<&[f64]>) -> Lanes {
        Lanes {
            centre: self.linear(centre),
            radius: self.absolute(radius),
            magnitude: magnitude.map(|m| self.absolute(m)).unwrap_or_default(),
        }
    }

    pub(super) fn transposed(&self, gradient: &[f64]) -> Vec<f64> {
        self.linear(gradient)
    }

    pub(super) fn pull_rows(&self, rows: &RowBlock, window: &Window) -> Rows {
        let mut pulled = rows.clone();
        pulled.coefficients = self.linear(&rows.coefficients);
        Rows::from_block(pulled, *window)
    }
}
