//! Products, entry by entry.

mod form;
mod plane;
mod rows;
#[cfg(test)]
mod tests;

pub(super) use form::form;
pub use plane::{Bound, Plane, plane};
pub use rows::PlanesKnown;

use crate::arithmetic::Arithmetic;
use crate::interval::{BoxVec, Interval, hull_of};
use crate::relaxation::{Lines, Relaxation};
use crate::support::Support;

use super::{ChangeKnown, Changing};

pub(super) fn evaluate(arguments: &[&[f64]]) -> Vec<f64> {
    arguments[0].iter().zip(arguments[1]).map(|(x, y)| x * y).collect()
}

pub(super) fn gradient(arguments: &[&[f64]], cotangent: &[f64]) -> Vec<Vec<f64>> {
    let times = |other: &[f64]| cotangent.iter().zip(other).map(|(g, o)| g * o).collect();
    vec![times(arguments[1]), times(arguments[0])]
}

/// Encloses `x·y` for independent `x`, `y`, as the given arithmetic may compute it: a bilinear function has its
/// extremes at the corners.
pub fn product(x: Interval, y: Interval, arithmetic: Arithmetic) -> Interval {
    let corners = [x.lower * y.lower, x.lower * y.upper, x.upper * y.lower, x.upper * y.upper];
    let Interval { lower: low, upper: high } = hull_of(corners);
    let owed = arithmetic.short_sum(1) * low.abs().max(high.abs()) + arithmetic.underflow();
    if low == 0.0 && high == 0.0 && (x.magnitude() == 0.0 || y.magnitude() == 0.0) {
        return Interval::point(0.0);
    }
    Interval::new(low - owed, high + owed)
}

pub(super) fn image(arguments: &[&BoxVec], arithmetic: Arithmetic) -> BoxVec {
    let (x, y) = (arguments[0], arguments[1]);
    BoxVec::collect(x.len(), |i| product(x.get(i), y.get(i), arithmetic))
}

/// `x'y' − xy = x'·(y' − y) + y·(x' − x)`; the program rounds both products.
pub(super) fn change(c: &Changing<'_>) -> BoxVec {
    let (x, y) = (c.after.0[0], c.before.0[1]);
    let mut moved = BoxVec::collect(x.len(), |i| {
        let by_y = product(x.get(i), c.apart[1].get(i), Arithmetic::Real);
        let by_x = product(y.get(i), c.apart[0].get(i), Arithmetic::Real);
        by_y.plus(by_x)
    });
    moved.widen(|i| rounding(c, i));
    moved
}

/// What a program rounds in both evaluations.
fn rounding(c: &Changing<'_>, i: usize) -> f64 {
    let one = |arguments: &[&BoxVec]| arguments[0].get(i).magnitude() * arguments[1].get(i).magnitude();
    let size = one(c.before.0) + one(c.after.0);
    let tiny = 2.0 * c.arithmetic.program_underflow();
    if size > 0.0 { c.arithmetic.program_short_sum(1) * size + tiny } else { 0.0 }
}

/// Lines in the change of `x`, whose slopes are the old `y`, and in that of `y`, whose slopes are the new `x`.
pub(super) fn known_change(c: &Changing<'_>, on: Support) -> ChangeKnown {
    let indices = on.indices();
    let lines = |slopes: &BoxVec, moved: &BoxVec, error: &dyn Fn(usize) -> f64| -> Lines {
        let one = |&i: &u32| {
            let i = i as usize;
            Relaxation::of_term(slopes.get(i), moved.get(i)).widened(error(i))
        };
        indices.iter().map(one).collect()
    };
    let in_x = lines(c.before.0[1], c.apart[0], &|i| rounding(c, i));
    let in_y = lines(c.after.0[0], c.apart[1], &|_| 0.0);
    ChangeKnown { lines: vec![in_x, in_y], on }
}
