//! Rows of linear lower bounds on windows of tensors.

use std::ops::{Deref, DerefMut};

use crate::arithmetic::{TINY, analysis_error, down};
use crate::interval::{BoxVec, Centred};
use crate::kernels;
use crate::relaxation::Lines;
use crate::row_block::RowBlock;
use crate::shape::Window;

/// Rows over one window of one tensor: a [`RowBlock`] that knows where its coefficients live.
#[derive(Clone, Debug)]
pub struct Rows {
    block: RowBlock,
    /// Where the coefficients live.
    pub window: Window,
}

impl Deref for Rows {
    type Target = RowBlock;

    fn deref(&self) -> &RowBlock {
        &self.block
    }
}

impl DerefMut for Rows {
    fn deref_mut(&mut self) -> &mut RowBlock {
        &mut self.block
    }
}

impl Rows {
    /// Rows that are identically zero.
    pub fn zeros(count: usize, window: Window) -> Self {
        Self { block: RowBlock::zeros(count, window.len()), window }
    }

    /// Rows with the given coefficients and no constant.
    pub fn new(window: Window, coefficients: Vec<f64>) -> Self {
        let count = coefficients.len() / window.len().max(1);
        Self { block: RowBlock { coefficients, ..RowBlock::zeros(count, window.len()) }, window }
    }

    /// A block put into its place.
    pub fn from_block(block: RowBlock, window: Window) -> Self {
        debug_assert_eq!(block.length, window.len());
        Self { block, window }
    }

    /// The block without its place.
    pub fn into_block(self) -> RowBlock {
        self.block
    }

    /// `+x`, then `−x`, for the given channels of one pixel: the rows whose lower bounds are its bounds.
    pub fn pixel(window: Window, channels: &[usize]) -> Self {
        let mut rows = Self::zeros(2 * channels.len(), window);
        for (row, &channel) in channels.iter().enumerate() {
            rows.row_mut(row)[channel] = 1.0;
            rows.row_mut(channels.len() + row)[channel] = -1.0;
        }
        rows
    }

    /// Pulls the rows back through an activation. The rows are split into as many equal groups as there
    /// are entries in `relaxations`; group `g` uses the lines of `relaxations[g]`, one per entry of the
    /// tensor (not of the window).
    ///
    /// A positive coefficient takes the lower line, a negative one the upper line; both are sound for
    /// every pre-activation in the interval they were made for.
    pub fn relax(&mut self, relaxations: &[&Lines]) {
        let per_group = self.count / relaxations.len().max(1);
        let gamma = analysis_error(self.window.len());
        for (group, lines) in relaxations.iter().enumerate() {
            let part;
            let lines = if self.window.is_full() {
                *lines
            } else {
                part = lines.cut(&self.window);
                &part
            };
            for row in group * per_group..(group + 1) * per_group {
                let (constant, owed) = kernels::relax_row(self.row_mut(row), lines);
                self.absorb(row, constant, gamma * owed);
            }
        }
    }

    /// The same rows on the whole tensor.
    pub fn widened(self) -> Self {
        if self.window.is_full() {
            return self;
        }
        let mut full = Self::zeros(self.count, Window::full(self.window.image));
        for row in 0..self.count {
            let mut part = self.row(row);
            for run in self.window.runs() {
                let (head, tail) = part.split_at(run.len());
                full.row_mut(row)[run].copy_from_slice(head);
                part = tail;
            }
        }
        full.block.constant = self.block.constant;
        full.block.slack = self.block.slack;
        full
    }

    /// Certified lower bound of every row over a box of the whole tensor.
    pub fn lower_bounds(&self, domain: &BoxVec) -> Vec<f64> {
        let Centred { centre, radius } =
            BoxVec::new(self.window.cut(&domain.lower), self.window.cut(&domain.upper)).centres();
        let gamma = analysis_error(self.window.len() + 2);
        (0..self.count)
            .map(|row| {
                let (value, spread, size) = kernels::row_over_box(self.row(row), &centre, &radius);
                let owed = self.slack[row] + gamma * (size + spread + self.constant[row].abs());
                let bound = down(value - spread + self.constant[row] - owed * (1.0 + gamma)) - TINY;
                if bound.is_nan() { f64::NEG_INFINITY } else { bound }
            })
            .collect()
    }
}
