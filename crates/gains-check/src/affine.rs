//! Affine maps as sparse matrices: what convolutions, linear layers, pooling, moves of entries, sums, lists one after the other and
//! steps all are.

use std::borrow::Cow;

use crate::interval::{Dot, Interval, mul_up};

/// Most weights of one map; they take twelve bytes each, and eight more if they are not exact.
const MAX_ENTRIES: usize = 1 << 24;

/// x ↦ W x + b + t u, row by row, of one or several arguments x, listed one after the other.
#[derive(Clone, Debug, Default)]
pub struct Affine {
    /// Where each row ends among columns and weights.
    ends: Vec<usize>,
    columns: Vec<u32>,
    weights: Vec<f64>,
    /// How far each weight may be off; empty while all are exact.
    offs: Vec<f64>,
    /// b, one for each row.
    shifts: Vec<Interval>,
    /// u, what the time is multiplied by; empty if the time does not count.
    times: Vec<Interval>,
    /// Weights that were given, zeros among them.
    given: usize,
}

impl Affine {
    /// One more entry of the row that is being written; zeros are left out.
    pub fn push(&mut self, column: usize, weight: Interval) -> Result<(), String> {
        self.given += 1;
        if self.given > MAX_ENTRIES || column > u32::MAX as usize {
            return Err(format!("a layer of more than {MAX_ENTRIES} weights is too large for this checker"));
        }
        if weight != Interval::ZERO {
            let (middle, off) = weight.around();
            if off != 0.0 {
                self.offs.resize(self.weights.len(), 0.0);
            }
            self.columns.push(column as u32);
            self.weights.push(middle);
            if off != 0.0 || !self.offs.is_empty() {
                self.offs.push(off);
            }
        }
        Ok(())
    }

    /// Ends the row that is being written.
    pub fn end_row(&mut self, shift: Interval, time: Option<Interval>) -> Result<(), String> {
        if self.ends.len() >= MAX_ENTRIES {
            return Err(format!("a layer of more than {MAX_ENTRIES} outputs is too large for this checker"));
        }
        self.ends.push(self.weights.len());
        self.shifts.push(shift);
        self.times.extend(time);
        Ok(())
    }

    /// The sum of so many arguments of so many entries, each times its factor.
    pub fn sum(factors: &[Interval], entries: usize) -> Result<Self, String> {
        let mut map = Self::default();
        for entry in 0..entries {
            for (argument, &factor) in factors.iter().enumerate() {
                map.push(argument * entries + entry, factor)?;
            }
            map.end_row(Interval::ZERO, None)?;
        }
        Ok(map)
    }

    /// Columns and weights of a row, and how far these may be off.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64, f64)> + '_ {
        let range = if row == 0 { 0 } else { self.ends[row - 1] }..self.ends[row];
        range.map(|i| (self.columns[i] as usize, self.weights[i], self.offs.get(i).copied().unwrap_or(0.0)))
    }

    /// Number of weights that were given: what it took to make it.
    pub fn size(&self) -> usize {
        self.given
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    /// W x for all x of a box, plus the time times u.
    pub fn changes(&self, x: &[Interval], time: Interval) -> Vec<Interval> {
        let row = |row: usize| {
            let (mut low, mut high) = (Dot::default(), Dot::default());
            for (column, weight, off) in self.row(row) {
                let x = x[column];
                let ends = if weight >= 0.0 { (x.low, x.high) } else { (x.high, x.low) };
                // What is dead stays exactly zero.
                for (dot, end) in [(&mut low, ends.0), (&mut high, ends.1)] {
                    if end != 0.0 {
                        dot.add(weight, end);
                    }
                    if off != 0.0 {
                        dot.open(mul_up(off, x.size()));
                    }
                }
            }
            let sum = Interval::new(low.interval().low, high.interval().high);
            self.times.get(row).map_or(sum, |&unit| sum + time * unit)
        };
        (0..self.rows()).map(row).collect()
    }

    /// All of it, for all x of a box and times of an interval.
    pub fn apply(&self, x: &[Interval], time: Interval) -> Vec<Interval> {
        self.changes(x, time).into_iter().zip(&self.shifts).map(|(y, &shift)| y + shift).collect()
    }

    /// b + t u of a row, or t u alone.
    pub fn shift(&self, row: usize, time: Interval, biased: bool) -> Interval {
        let bias = if biased { self.shifts[row] } else { Interval::ZERO };
        self.times.get(row).map_or(bias, |&unit| bias + time * unit)
    }
}

/// Lists one after the other.
pub fn listed<'a, T: Clone>(mut lists: impl Iterator<Item = &'a [T]>) -> Cow<'a, [T]> {
    let mut all = Cow::Borrowed(lists.next().unwrap_or_default());
    lists.for_each(|list| all.to_mut().extend_from_slice(list));
    all
}
