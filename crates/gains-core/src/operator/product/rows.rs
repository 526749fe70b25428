//! Rows on what lies between planes in two arguments, pulled back to rows on these.

use crate::arithmetic::{Arithmetic, analysis_error};
use crate::interval::BoxVec;
use crate::rows::Rows;

use super::super::{Spot, Steering};
use super::{Bound, Plane, plane};
use crate::interval::Interval;

/// A plane on one side of something over a rectangle, close at a point if one is given.
type PlaneOf = fn(Interval, Interval, Bound, Option<(f64, f64)>) -> Plane;

/// A product or a maximum of known arguments.
#[derive(Clone, Debug)]
pub struct PlanesKnown {
    of: PlaneOf,
    x: BoxVec,
    y: BoxVec,
    /// What rounding costs a row, for a coefficient of one.
    owed: Vec<f64>,
}

impl PlanesKnown {
    /// The slopes of a plane are ends of the factors, so that every number on the way is at most a few times
    /// `|x||y|`, and as many of those are added up as there are entries.
    pub(in super::super) fn of_product(arguments: &[&BoxVec], arithmetic: Arithmetic) -> Self {
        let (x, y) = (arguments[0].clone(), arguments[1].clone());
        let analysis = 4.0 * analysis_error(x.len() + 8);
        let error = analysis + arithmetic.program_short_sum(4);
        let tiny = arithmetic.program_underflow();
        let sizes = x.magnitudes().into_iter().zip(y.magnitudes());
        let owed = sizes.map(|(x, y)| error * x * y + tiny).collect();
        Self { of: plane, x, y, owed }
    }

    /// The slopes of a plane are at most 1, and nothing but the analysis rounds.
    pub(in super::super) fn of_maximum(arguments: &[&BoxVec]) -> Self {
        let (x, y) = (arguments[0].clone(), arguments[1].clone());
        let error = 4.0 * analysis_error(x.len() + 8);
        let owed = x.magnitudes().into_iter().zip(y.magnitudes()).map(|(x, y)| error * (x + y)).collect();
        Self { of: super::super::maximum::plane, x, y, owed }
    }

    pub(in super::super) fn bytes(&self) -> usize {
        40 * self.owed.len()
    }

    /// Each coefficient goes through a plane below (or, if negative, above).
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
                let p = (self.of)(self.x.get(i), self.y.get(i), side, point);
                x_row[k] = a * p.x;
                y_row[k] = a * p.y;
                constant += a * p.constant;
            }
            rows.absorb(row, constant, 0.0);
        }
        vec![rows, on_y]
    }
}
