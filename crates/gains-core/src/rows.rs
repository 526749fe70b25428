//! Rows of linear lower bounds.

use crate::arithmetic::{TINY, analysis_error, down};
use crate::interval::{BoxVec, Centred};
use crate::kernels;
use crate::relaxation::Lines;
use crate::shape::Window;

/// A block of rows, each a linear lower bound of some quantity over one window of one tensor `x`:
/// `quantity ≥ coefficients·x + constant − slack` for every `x` the analysis considers.
///
/// An upper bound is the lower bound of the negated quantity. `slack` collects what rounding may have
/// cost so far; it is kept apart so that a caller can see it, and is subtracted on concretisation.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Number of rows.
    pub count: usize,
    /// Where the coefficients live.
    pub window: Window,
    /// Coefficients, row by row, each of the window's length.
    pub coefficients: Vec<f64>,
    /// Constant terms.
    pub constant: Vec<f64>,
    /// Rounding already owed, never negative.
    pub slack: Vec<f64>,
}

impl Rows {
    /// Rows that are identically zero.
    pub fn zeros(count: usize, window: Window) -> Self {
        Self {
            count,
            window,
            coefficients: vec![0.0; count * window.len()],
            constant: vec![0.0; count],
            slack: vec![0.0; count],
        }
    }

    /// Rows with the given coefficients and no constant.
    pub fn new(window: Window, coefficients: Vec<f64>) -> Self {
        let count = coefficients.len() / window.len().max(1);
        Self { count, window, coefficients, constant: vec![0.0; count], slack: vec![0.0; count] }
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

    /// Coefficients of one row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.coefficients[row * self.window.len()..][..self.window.len()]
    }

    /// Coefficients of one row.
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        let length = self.window.len();
        &mut self.coefficients[row * length..][..length]
    }

    /// Adds `constant` to a row's constant and `owed` to its slack, accounting for the rounding of that
    /// addition.
    pub fn absorb(&mut self, row: usize, constant: f64, owed: f64) {
        let sum = self.constant[row] + constant;
        let owed = owed + f64::EPSILON * (sum.abs() + constant.abs());
        self.slack[row] = (self.slack[row] + owed) * (1.0 + 4.0 * f64::EPSILON);
        self.constant[row] = sum;
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
            let lines = lines.cut(&self.window);
            for row in group * per_group..(group + 1) * per_group {
                let (constant, owed) = kernels::relax_row(self.row_mut(row), &lines);
                self.absorb(row, constant, gamma * owed);
            }
        }
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
