//! What rows met on their way back through a trajectory graph: for finding out where a bound loses.

use std::collections::HashMap;
use std::sync::Arc;

use gains_core::relaxation::Lines;

/// What rows met on their way back through a graph.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// At every non-linear node.
    pub entries: Vec<Entry>,
    /// At every stage that rows passed both ways.
    pub forks: Vec<Fork>,
    /// For every edge that does not lead to the end, by row: the shares of the blocks kept at the vertex it
    /// enters, in the order of the graph's rejecting edges there, then of the others.
    pub shares: HashMap<usize, Vec<Vec<f64>>>,
    /// The same for the start.
    pub start: Vec<Vec<f64>>,
}

/// Where in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The step, by the vertex it starts from.
    pub vertex: usize,
    /// The stage.
    pub stage: usize,
    /// The value of the dynamics.
    pub value: usize,
    /// Whether it is the change since the stage before rather than the value.
    pub change: bool,
}

/// What a block of rows met at one non-linear node on its way back.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where.
    pub site: Site,
    /// Entries the coefficients are on.
    pub neurons: Vec<u32>,
    /// Which rows of the step's block these are: those of the first edge, group by group, then those of the
    /// next edge.
    pub(crate) rows: Arc<[usize]>,
    pub(crate) coefficients: Vec<f64>,
    pub(crate) lines: Vec<Lines>,
    pub(crate) per_group: usize,
}

impl Entry {
    /// What one row of the step's block met: its coefficients behind the neurons, and the lines it took.
    pub fn of_row(&self, row: usize) -> Option<(&[f64], &Lines)> {
        let at = self.rows.binary_search(&row).ok()?;
        let width = self.neurons.len();
        let lines = &self.lines[at / self.per_group % self.lines.len()];
        Some((&self.coefficients[at * width..(at + 1) * width], lines))
    }
}

/// Where rows in chain form were divided: a part of every coefficient on a stage's slope passed the stage directly.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The step, by the vertex it starts from.
    pub vertex: usize,
    /// The stage.
    pub stage: usize,
    /// Entries of the slope.
    pub entries: Arc<[u32]>,
    /// The part of each that passed directly.
    pub direct: Vec<f64>,
    pub(crate) rows: Arc<[usize]>,
    pub(crate) coefficients: Vec<f64>,
}

impl Fork {
    /// The coefficients of one row of the step's block, before they were divided.
    pub fn of_row(&self, row: usize) -> Option<&[f64]> {
        let at = self.rows.binary_search(&row).ok()?;
        let width = self.entries.len();
        Some(&self.coefficients[at * width..(at + 1) * width])
    }
}
