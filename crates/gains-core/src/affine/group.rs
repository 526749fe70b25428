//! Means of groups of channels.

use super::Lanes;
use crate::row_block::RowBlock;
use crate::rows::Rows;
use crate::shape::{Shape, Window};

/// The mean of every group of channels over all pixels, in the place of each of its entries: taken, or taken off.
#[derive(Clone, Debug)]
pub struct GroupMean {
    shape: Shape,
    groups: usize,
    part: GroupPart,
}

/// What is left of an entry `x` of a group with mean `m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupPart {
    /// `m`.
    Mean,
    /// `x − m`.
    Rest,
}

impl GroupMean {
    /// Groups of equally many consecutive channels; `None` if they are not.
    pub fn new(shape: Shape, groups: usize, part: GroupPart) -> Option<Self> {
        (groups > 0 && shape.channels.is_multiple_of(groups) && !shape.is_empty()).then_some(Self {
            shape,
            groups,
            part,
        })
    }

    /// What is left of an entry.
    pub fn part(&self) -> GroupPart {
        self.part
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Entries of a group.
    fn size(&self) -> usize {
        self.shape.len() / self.groups
    }

    pub(super) fn input(&self) -> Shape {
        self.shape
    }

    pub(super) fn output(&self) -> Shape {
        self.shape
    }

    pub(super) fn terms(&self) -> usize {
        self.size() + 2
    }

    pub(super) fn bias(&self, _: f64) -> Vec<f64> {
        vec![0.0; self.shape.len()]
    }

    pub(super) fn bias_magnitude(&self, time: f64) -> Vec<f64> {
        self.bias(time)
    }

    fn group(&self, i: usize) -> usize {
        i % self.shape.channels / (self.shape.channels / self.groups)
    }

    fn means(&self, x: &[f64]) -> Vec<f64> {
        let mut means = vec![0.0; self.groups];
        for (i, x) in x.iter().enumerate() {
            means[self.group(i)] += x;
        }
        means.iter_mut().for_each(|m| *m /= self.size() as f64);
        means
    }

    pub(super) fn linear(&self, x: &[f64]) -> Vec<f64> {
        let means = self.means(x);
        let one = |(i, x): (usize, &f64)| match self.part {
            GroupPart::Mean => means[self.group(i)],
            GroupPart::Rest => x - means[self.group(i)],
        };
        x.iter().enumerate().map(one).collect()
    }

    /// Of the rest, the own entry counts `1 − 1/n` and all others `1/n`.
    pub(super) fn absolute(&self, m: &[f64]) -> Vec<f64> {
        let means = self.means(m);
        let twice = 2.0 / self.size() as f64;
        let one = |(i, m): (usize, &f64)| match self.part {
            GroupPart::Mean => means[self.group(i)],
            GroupPart::Rest => (m + means[self.group(i)] - twice * m).max(0.0),
        };
        m.iter().enumerate().map(one).collect()
    }

    pub(super) fn lanes(&self, centre: &[f64], radius: &[f64], magnitude: Option<&[f64]>) -> Lanes {
        Lanes {
            centre: self.linear(centre),
            radius: self.absolute(radius),
            magnitude: magnitude.map(|m| self.absolute(m)).unwrap_or_default(),
        }
    }

    /// The matrix is symmetric.
    pub(super) fn transposed(&self, gradient: &[f64]) -> Vec<f64> {
        self.linear(gradient)
    }

    pub(super) fn pull_rows(&self, rows: &RowBlock, window: &Window) -> Rows {
        let all = Rows::from_block(rows.clone(), *window).widened();
        let mut pulled = Rows::zeros(rows.count, Window::full(self.shape));
        pulled.constant.copy_from_slice(&rows.constant);
        pulled.slack.copy_from_slice(&rows.slack);
        for row in 0..rows.count {
            pulled.row_mut(row).copy_from_slice(&self.linear(all.row(row)));
        }
        pulled
    }
}
