//! Rows of numbers, or of intervals: what the samples of a batch are on their way through a network on the CPU.

use crate::cpu::Real;

/// Points, or boxes given by centre and radius, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix<F> {
    /// Samples.
    pub rows: usize,
    /// Entries of each.
    pub columns: usize,
    /// The points, or the centres.
    pub centre: Vec<F>,
    /// The radii; empty for points.
    pub radius: Vec<F>,
}

impl<F: Real> Matrix<F> {
    /// Zeros.
    pub fn zeros(rows: usize, columns: usize, boxes: bool) -> Self {
        let size = rows * columns;
        let radius = vec![F::ZERO; if boxes { size } else { 0 }];
        Self { rows, columns, centre: vec![F::ZERO; size], radius }
    }

    /// Zeros of the same form.
    pub fn zeros_like(&self) -> Self {
        Self::zeros(self.rows, self.columns, self.is_box())
    }

    /// Points.
    pub fn points(rows: usize, columns: usize, values: Vec<F>) -> Self {
        Self { rows, columns, centre: values, radius: Vec::new() }
    }

    /// Whether these are boxes.
    pub fn is_box(&self) -> bool {
        !self.radius.is_empty()
    }

    /// The lanes: centres and, for boxes, radii.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &[F]> {
        [&self.centre[..], &self.radius[..]].into_iter().filter(|lane| !lane.is_empty())
    }

    /// Adds another of the same form.
    pub(crate) fn add(&mut self, part: &Self) {
        for (sum, value) in self.centre.iter_mut().zip(&part.centre) {
            *sum += *value;
        }
        for (sum, value) in self.radius.iter_mut().zip(&part.radius) {
            *sum += *value;
        }
    }
}
