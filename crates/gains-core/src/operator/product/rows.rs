//! Rows on products, pulled back to rows on the factors.

use crate::arithmetic::{Arithmetic, analysis_error};
use crate::interval::BoxVec;
use crate::rows::Rows;

use super::super::{Spot, Steering};
use super::{Bound, plane};

/// A product of known factors.
#[derive(Clone, Debug)]
pub struct ProductKnown {
    x: BoxVec,
    y: BoxVec,
    /// What rounding costs a row, for a coefficient of one.
    owed: Vec<f64>,
}

impl ProductKnown {
    /// The slopes of a plane are ends of the factors, so that every number on the way is at most a few times
    /// `|x||y|`, and as many of those are added up as there are entries.
    pub(in super::super) fn new(arguments: &[&BoxVec], arithmetic: Arithmetic) -> Self {
        let (x, y) = (arguments[0].clone(), arguments[1].clone());
        let analysis = 4.0 * analysis_error(x.len() + 8);
        let error = analysis + arithmetic.program_short_sum(4);
        let tiny = arithmetic.program_underflow();
        let sizes = x.magnitudes().into_iter().zip(y.magnitudes());
        let owed = sizes.map(|(x, y)| error * x * y + tiny).collect();
        Self { x, y, owed }
    }

    pub(in super::super) fn bytes(&self) -> usize {
        40 * self.owed.len()
    }

    /// Each coefficient goes through a plane below (or, if negative, above) its product.
    pub(in super::super) fn pull<S: Steering + ?Sized>(
        &self,
        mut rows: Rows,
        spot: Spot<'_>,
        steering: &mut S,
    ) -> Vec<Rows> {
        rows.charge(&self.owed);
        let indices = rows.on().indices();
        let mut on_y = Rows::zeros(rows.count, rows.on().clone());
        for row in 0..rows.count {
            let mut constant = 0.0;
            let at = (steering.at(row, spot.from[0]), steering.at(row, spot.from[1]));
            let (x_row, y_row) = (rows.row_mut(row), on_y.row_mut(row));
            for (k, &i) in indices.iter().enumerate() {
                let (i, a) = (i as usize, x_row[k]);
                if a == 0.0 {
                    continue;
                }
                let point = at.0.zip(at.1).map(|(x, y)| (x[i], y[i]));
                let side = if a > 0.0 { Bound::Below } else { Bound::Above };
                let p = plane(self.x.get(i), self.y.get(i), side, point);
                x_row[k] = a * p.x;
                y_row[k] = a * p.y;
                constant += a * p.constant;
            }
            rows.absorb(row, constant, 0.0);
        }
        vec![rows, on_y]
    }
}
