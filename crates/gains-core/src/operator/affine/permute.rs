//! Flattening in the order PyTorch uses.

use super::Lanes;
use crate::row_block::RowBlock;
use crate::rows::Rows;
use crate::shape::{Shape, Window};

/// Turns a channels-last image into the flat vector that lists it channel by channel, the order in which
/// the weights of a following linear layer are stored.
#[derive(Clone, Debug)]
pub struct Permutation {
    input: Shape,
    /// Output entry `i` is input entry `source[i]`.
    source: Vec<usize>,
}

impl Permutation {
    /// Channels-first flattening of an image.
    pub fn flatten(input: Shape) -> Self {
        let source = (0..input.len())
            .map(|i| (i % input.positions()) * input.channels + i / input.positions())
            .collect();
        Self { input, source }
    }

    pub(super) fn input(&self) -> Shape {
        self.input
    }

    pub(super) fn output(&self) -> Shape {
        Shape::flat(self.input.len())
    }

    pub(super) fn terms(&self) -> usize {
        1
    }

    pub(super) fn bias(&self, _: f64) -> Vec<f64> {
        vec![0.0; self.source.len()]
    }

    pub(super) fn bias_magnitude(&self, time: f64) -> Vec<f64> {
        self.bias(time)
    }

    pub(super) fn linear(&self, x: &[f64]) -> Vec<f64> {
        self.source.iter().map(|&s| x[s]).collect()
    }

    pub(super) fn absolute(&self, m: &[f64]) -> Vec<f64> {
        self.linear(m)
    }

    pub(super) fn lanes(&self, centre: &[f64], radius: &[f64], magnitude: Option<&[f64]>) -> Lanes {
        Lanes {
            centre: self.linear(centre),
            radius: self.linear(radius),
            magnitude: magnitude.map(|m| self.linear(m)).unwrap_or_default(),
        }
    }

    fn back(&self, from: &[f64], to: &mut [f64]) {
        for (&source, value) in self.source.iter().zip(from) {
            to[source] = *value;
        }
    }

    pub(super) fn transposed(&self, gradient: &[f64]) -> Vec<f64> {
        let mut pulled = vec![0.0; gradient.len()];
        self.back(gradient, &mut pulled);
        pulled
    }

    /// The output is one pixel, so its only window is the whole.
    pub(super) fn pull_rows(&self, rows: &RowBlock, _: &Window) -> Rows {
        let mut pulled = Rows::zeros(rows.count, Window::full(self.input));
        pulled.constant.copy_from_slice(&rows.constant);
        pulled.slack.copy_from_slice(&rows.slack);
        for row in 0..rows.count {
            self.back(rows.row(row), pulled.row_mut(row));
        }
        pulled
    }
}
