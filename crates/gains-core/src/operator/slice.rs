//! Consecutive entries of a vector.

use std::ops::Range;

use crate::interval::BoxVec;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::support::Support;

/// `length` entries from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The first entry.
    pub first: usize,
    /// How many.
    pub length: usize,
}

impl Slice {
    /// The entries.
    pub fn range(&self) -> Range<usize> {
        self.first..self.first + self.length
    }

    /// Shape of the value, for vectors that are long enough.
    pub fn shape(&self, argument: Shape) -> Option<Shape> {
        let end = self.first.checked_add(self.length)?;
        (argument.positions() == 1 && self.length > 0 && end <= argument.channels)
            .then(|| Shape::flat(self.length))
    }

    pub(super) fn image(&self, x: &BoxVec) -> BoxVec {
        BoxVec::new(x.lower[self.range()].to_vec(), x.upper[self.range()].to_vec())
    }

    pub(super) fn gradient(&self, length: usize, cotangent: &[f64]) -> Vec<f64> {
        let mut gradient = vec![0.0; length];
        gradient[self.range()].copy_from_slice(cotangent);
        gradient
    }

    /// Every coefficient stays on its entry.
    pub(super) fn pull(&self, rows: Rows, argument: Shape) -> Rows {
        let entries = (self.first as u32..(self.first + self.length) as u32).collect();
        rows.widened().placed(Support::entries(argument, entries))
    }
}
