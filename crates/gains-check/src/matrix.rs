//! Sparse matrices: what convolutions, linear layers, pooling and moves of entries all are.

use crate::interval::{Dot, Interval};

/// Most entries of one matrix; they take twelve bytes each.
const MAX_ENTRIES: usize = 1 << 24;

/// x ↦ W x / n + b + t u, row by row; the weights of W are exact.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    /// Where each row ends among columns and weights.
    ends: Vec<usize>,
    columns: Vec<u32>,
    weights: Vec<f64>,
    /// b, one number a row.
    pub bias: Vec<f64>,
    /// u, what the time is multiplied by; empty if the time does not count.
    pub time: Vec<Interval>,
    /// n, what averages are divided by.
    pub divisor: Option<f64>,
    /// Entries of x.
    pub inputs: usize,
    /// Weights that were given, zeros among them.
    given: usize,
}

impl Matrix {
    /// No rows yet.
    pub fn new(inputs: usize) -> Self {
        Self { inputs, ..Self::default() }
    }

    /// One more entry of the row that is being written; zeros are left out.
    pub fn push(&mut self, column: usize, weight: f64) -> Result<(), String> {
        self.given += 1;
        if self.given > MAX_ENTRIES || column > u32::MAX as usize {
            return Err(format!("a layer of more than {MAX_ENTRIES} weights is too large for this checker"));
        }
        if weight != 0.0 {
            self.columns.push(column as u32);
            self.weights.push(weight);
        }
        Ok(())
    }

    /// Ends the row that is being written.
    pub fn end_row(&mut self, bias: f64) -> Result<(), String> {
        if self.ends.len() >= MAX_ENTRIES {
            return Err(format!("a layer of more than {MAX_ENTRIES} outputs is too large for this checker"));
        }
        self.ends.push(self.weights.len());
        self.bias.push(bias);
        Ok(())
    }

    /// Columns and weights of a row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = if row == 0 { 0 } else { self.ends[row - 1] }..self.ends[row];
        self.columns[range.clone()]
            .iter()
            .zip(&self.weights[range])
            .map(|(&column, &weight)| (column as usize, weight))
    }

    /// Number of weights that were given: what it took to make it.
    pub fn size(&self) -> usize {
        self.given
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    /// W x / n for all x of a box; neither b nor the time.
    pub fn times(&self, x: &[Interval]) -> Vec<Interval> {
        (0..self.rows())
            .map(|row| {
                // What is moved stays as it is, what is dead stays exactly zero.
                let mut entries = self.row(row);
                if let (Some((column, 1.0)), None) = (entries.next(), entries.next()) {
                    return self.divided(x[column]);
                }
                let (mut low, mut high) = (Dot::default(), Dot::default());
                for (column, weight) in self.row(row) {
                    let Interval { low: l, high: h } = x[column];
                    let (l, h) = if weight >= 0.0 { (l, h) } else { (h, l) };
                    if l != 0.0 {
                        low.add(weight, l);
                    }
                    if h != 0.0 {
                        high.add(weight, h);
                    }
                }
                self.divided(Interval::new(low.interval().low, high.interval().high))
            })
            .collect()
    }

    fn divided(&self, sum: Interval) -> Interval {
        self.divisor.map_or(sum, |divisor| sum / Interval::point(divisor))
    }

    /// All of it, for all x of a box and times of an interval.
    pub fn apply(&self, x: &[Interval], time: Interval) -> Vec<Interval> {
        let mut y = self.times(x);
        for (row, y) in y.iter_mut().enumerate() {
            *y = *y + self.shift(row, time);
        }
        y
    }

    /// b + t u of a row.
    pub fn shift(&self, row: usize, time: Interval) -> Interval {
        let bias = Interval::point(self.bias[row]);
        self.time.get(row).map_or(bias, |&unit| bias + time * unit)
    }
}
