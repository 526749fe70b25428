//! Rows of linear lower bounds on a part of a tensor.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::arithmetic::{TINY, analysis_error, down};
use crate::interval::{BoxVec, Centred};
use crate::kernels;
use crate::relaxation::{Lines, relax_row};
use crate::row_block::RowBlock;
use crate::shape::{Shape, Window};
use crate::support::Support;

/// Rows over one part of one tensor: a [`RowBlock`] that knows where its coefficients live.
///
/// The block cannot be taken out without saying onto which entries ([`Rows::onto`], [`Rows::into_full`]), so rows
/// on a window are never read as rows on the whole.
#[derive(Clone, Debug)]
pub struct Rows {
    block: RowBlock,
    on: Support,
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
    pub fn zeros(count: usize, on: impl Into<Support>) -> Self {
        let on = on.into();
        Self { block: RowBlock::zeros(count, on.len()), on }
    }

    /// Rows with the given coefficients and no constant.
    pub fn new(on: impl Into<Support>, coefficients: Vec<f64>) -> Self {
        let on = on.into();
        let count = coefficients.len() / on.len().max(1);
        Self { block: RowBlock { coefficients, ..RowBlock::zeros(count, 0) }.of_length(on.len()), on }
    }

    /// So many rows with the given coefficients and no constant.
    pub(crate) fn of_count(count: usize, on: Support, coefficients: Vec<f64>) -> Self {
        let block = RowBlock { coefficients, ..RowBlock::zeros(count, 0) }.of_length(on.len());
        Self { block, on }
    }

    /// The same coefficients, in order, on entries of another tensor.
    pub(crate) fn placed(self, on: Support) -> Self {
        Self::from_block(self.block, on)
    }

    /// A block put into its place.
    pub fn from_block(block: RowBlock, on: impl Into<Support>) -> Self {
        let on = on.into();
        assert_eq!(block.length, on.len(), "a row has one coefficient for each entry of its place");
        Self { block, on }
    }

    /// Where the coefficients are.
    pub fn on(&self) -> &Support {
        &self.on
    }

    /// The block on the whole tensor.
    pub fn into_full(self) -> RowBlock {
        self.widened().block
    }

    /// The given rows.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self { block: self.block.select(rows), on: self.on.clone() }
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

    /// `+x`, then `−x`, for the given entries of a whole tensor.
    pub fn units(shape: Shape, entries: &[usize]) -> Self {
        let mut rows = Self::zeros(2 * entries.len(), Support::full(shape));
        for (row, &entry) in entries.iter().enumerate() {
            rows.row_mut(row)[entry] = 1.0;
            rows.row_mut(entries.len() + row)[entry] = -1.0;
        }
        rows
    }

    /// Pulls the rows back through lines. The rows are split into as many equal groups as there are entries in
    /// `relaxations`; group `g` uses the lines of `relaxations[g]`, one per entry of the tensor or one per
    /// coefficient.
    ///
    /// A positive coefficient takes the lower line, a negative one the upper line; both are sound for
    /// every pre-activation in the interval they were made for.
    pub fn relax(&mut self, relaxations: &[&Lines]) {
        let per_group = self.count / relaxations.len().max(1);
        let gamma = analysis_error(self.length);
        for (group, lines) in relaxations.iter().enumerate() {
            let part;
            let lines = if lines.len() == self.length {
                *lines
            } else {
                part = lines.cut(&self.on);
                &part
            };
            for row in group * per_group..(group + 1) * per_group {
                let (constant, owed) = relax_row(self.row_mut(row), lines);
                self.absorb(row, constant, gamma * owed);
            }
        }
    }

    /// Pulls every row back through lines of its own, one per coefficient.
    pub fn relax_each<'l>(&mut self, lines: impl Fn(usize) -> &'l Lines) {
        let gamma = analysis_error(self.length);
        for row in 0..self.count {
            let (constant, owed) = relax_row(self.row_mut(row), lines(row));
            self.absorb(row, constant, gamma * owed);
        }
    }

    /// The same rows on the whole tensor.
    pub fn widened(self) -> Self {
        if self.on.is_full() {
            return self;
        }
        let shape = self.on.shape();
        let mut full = Self::zeros(self.count, Support::full(shape));
        match &self.on {
            Support::Window(window) => {
                for row in 0..self.count {
                    let mut part = self.block.row(row);
                    for run in window.runs() {
                        let (head, tail) = part.split_at(run.len());
                        full.row_mut(row)[run].copy_from_slice(head);
                        part = tail;
                    }
                }
            }
            Support::Entries { entries, .. } => {
                for row in 0..self.count {
                    let part = self.block.row(row);
                    for (&i, a) in entries.iter().zip(part) {
                        full.block.row_mut(row)[i as usize] = *a;
                    }
                }
            }
        }
        full.block.constant = self.block.constant;
        full.block.slack = self.block.slack;
        full
    }

    /// The same rows with coefficients on other entries: what is left out must be identically zero in its place, so
    /// that its coefficients do not matter; what is new has none.
    pub fn onto(self, entries: &Arc<[u32]>) -> Self {
        let shape = self.on.shape();
        if let Support::Entries { entries: have, .. } = &self.on {
            if Arc::ptr_eq(have, entries) || have == entries {
                return self;
            }
            let from: Vec<Option<usize>> = entries.iter().map(|i| have.binary_search(i).ok()).collect();
            let width = have.len();
            let mut out = RowBlock::zeros(self.count, 0).of_length(entries.len());
            out.coefficients = (0..self.count)
                .flat_map(|row| from.iter().map(move |at| at.map(|at| row * width + at)))
                .map(|at| at.map_or(0.0, |at| self.block.coefficients[at]))
                .collect();
            out.constant = self.block.constant;
            out.slack = self.block.slack;
            return Self { block: out, on: Support::entries(shape, entries.clone()) };
        }
        let full = self.widened();
        let mut out = RowBlock::zeros(full.count, 0).of_length(entries.len());
        out.coefficients.reserve(full.count * entries.len());
        for row in 0..full.count {
            let line = full.block.row(row);
            out.coefficients.extend(entries.iter().map(|&i| line[i as usize]));
        }
        out.constant = full.block.constant;
        out.slack = full.block.slack;
        Self { block: out, on: Support::entries(shape, entries.clone()) }
    }

    /// Adds rows on the same tensor. The rounding of the sums costs in proportion to `magnitude`, the largest absolute
    /// values of the tensor's entries.
    pub fn add(&mut self, other: Self, magnitude: &[f64]) {
        if let Some(both) = self.beside(&other) {
            *self = both;
            return;
        }
        let other = if other.on == self.on {
            other
        } else {
            let mine = std::mem::replace(self, Self::zeros(0, other.on.clone()));
            *self = mine.widened();
            other.widened()
        };
        // A sum is off by at most one rounding of what it came out as.
        let gamma = analysis_error(2);
        let whole = self.on.is_full();
        let part = if whole { Vec::new() } else { self.on.cut(magnitude).into_owned() };
        let magnitude = if whole { magnitude } else { &part };
        for row in 0..self.count {
            kernels::add_scaled(self.row_mut(row), 1.0, other.row(row));
            let size = kernels::size(self.row(row), magnitude);
            self.absorb(row, other.constant[row], other.slack[row] + gamma * size);
        }
    }

    /// Rows on entries that all come before, or after, those of others: both side by side, with no sum to round but
    /// that of the constants.
    fn beside(&self, other: &Self) -> Option<Self> {
        let (Support::Entries { entries: mine, .. }, Support::Entries { entries: theirs, .. }) =
            (&self.on, &other.on)
        else {
            return None;
        };
        let (first, second) = match (mine.last(), theirs.first(), theirs.last(), mine.first()) {
            (Some(end), Some(start), _, _) if end < start => (self, other),
            (_, _, Some(end), Some(start)) if end < start => (other, self),
            _ => return None,
        };
        let entries: Arc<[u32]> = first.on.indices().into_iter().chain(second.on.indices()).collect();
        let mut coefficients = Vec::with_capacity(self.count * entries.len());
        for row in 0..self.count {
            coefficients.extend_from_slice(first.row(row));
            coefficients.extend_from_slice(second.row(row));
        }
        let mut both = Self::of_count(self.count, Support::entries(self.on.shape(), entries), coefficients);
        both.constant.clone_from(&self.constant);
        both.slack.clone_from(&self.slack);
        for row in 0..self.count {
            both.absorb(row, other.constant[row], other.slack[row]);
        }
        Some(both)
    }

    /// Charges every row `Σ |a|·owed`; `owed` has one number per coefficient, or per entry of the tensor.
    pub fn charge(&mut self, owed: &[f64]) {
        let part;
        let owed = if owed.len() == self.length {
            owed
        } else {
            part = self.on.cut(owed).into_owned();
            &part
        };
        for row in 0..self.count {
            let size = kernels::size(self.row(row), owed);
            self.absorb(row, 0.0, size);
        }
    }

    /// Certified lower bound of every row over a box of the whole tensor.
    pub fn lower_bounds(&self, domain: &BoxVec) -> Vec<f64> {
        let Centred { centre, radius } = match self.on.is_full() {
            true => domain.centres(),
            false => self.on.cut_box(domain).centres(),
        };
        let gamma = analysis_error(self.length + 2);
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
