//! Rows on blends, pulled back to rows on gate, new and old.

use crate::arithmetic::{Arithmetic, analysis_error};
use crate::interval::BoxVec;
use crate::rows::Rows;

use super::super::product::{Bound, plane};
use super::super::{Spot, Steering};

/// A blend of known arguments.
#[derive(Clone, Debug)]
pub struct BlendKnown {
    gate: BoxVec,
    new: BoxVec,
    old: BoxVec,
    /// What rounding costs a row, for a coefficient of one.
    owed: Vec<f64>,
}

impl BlendKnown {
    /// Slopes in `y` and `g` are at most 1 and those in the gate at most `|y| + |g|`.
    pub(in super::super) fn new(arguments: &[&BoxVec], arithmetic: Arithmetic) -> Self {
        let [gate, new, old] = [0, 1, 2].map(|k| arguments[k].clone());
        let analysis = 4.0 * analysis_error(gate.len() + 8);
        let program = arithmetic.program_short_sum(4);
        let tiny = arithmetic.program_underflow();
        let (g, y) = (new.magnitudes(), old.magnitudes());
        let owed = (0..gate.len()).map(|i| {
            let u = gate.get(i);
            analysis * (y[i] + g[i]) + program * ((1.0 - u.lower) * g[i] + u.upper * y[i]) + tiny
        });
        let owed = owed.collect();
        Self { gate, new, old, owed }
    }

    pub(in super::super) fn bytes(&self) -> usize {
        56 * self.owed.len()
    }

    /// `g + u·y − u·g`: the two products are replaced by planes.
    pub(in super::super) fn pull<S: Steering + ?Sized>(
        &self,
        mut rows: Rows,
        spot: Spot<'_>,
        steering: &mut S,
    ) -> Vec<Rows> {
        rows.charge(&self.owed);
        let indices = rows.on().indices();
        let mut on_new = Rows::zeros(rows.count, rows.on().clone());
        let mut on_old = Rows::zeros(rows.count, rows.on().clone());
        for row in 0..rows.count {
            let mut constant = 0.0;
            let point = [0, 1, 2].map(|k| steering.at(row, spot.from[k]));
            let (on_gate, new_row, old_row) = (rows.row_mut(row), on_new.row_mut(row), on_old.row_mut(row));
            for (k, &i) in indices.iter().enumerate() {
                let (i, a) = (i as usize, on_gate[k]);
                if a == 0.0 {
                    continue;
                }
                let (u, g, y) = (self.gate.get(i), self.new.get(i), self.old.get(i));
                let (with_y, with_g) =
                    if a > 0.0 { (Bound::Below, Bound::Above) } else { (Bound::Above, Bound::Below) };
                let at = |other: usize| point[0].zip(point[other]).map(|(u, x)| (u[i], x[i]));
                let old = plane(u, y, with_y, at(2));
                let new = plane(u, g, with_g, at(1));
                on_gate[k] = a * (old.x - new.x);
                new_row[k] = a * (1.0 - new.y);
                old_row[k] = a * old.y;
                constant += a * (old.constant - new.constant);
            }
            // The rounding of the constant is part of what rows are charged above.
            rows.absorb(row, constant, 0.0);
        }
        vec![rows, on_new, on_old]
    }
}
