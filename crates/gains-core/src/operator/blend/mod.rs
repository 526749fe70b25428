//! Convex combinations with a gate: `(1 − u)·g + u·y`, entry by entry.

mod rows;
#[cfg(test)]
mod tests;

pub use rows::BlendKnown;

use crate::affine_form::{AffineForm, Symbols};
use crate::arithmetic::Arithmetic;
use crate::interval::{BoxVec, Interval, hull_of};
use crate::relaxation::{Lines, Relaxation};
use crate::support::Support;

use super::product::product;
use super::{ChangeKnown, Changing};

/// How the image of a blend is enclosed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Blend {
    /// By its exact range: `u` is the same in both terms.
    #[default]
    Exact,
    /// By two independent products, as the authors of GAINS do.
    Products,
}

pub(super) fn evaluate(arguments: &[&[f64]]) -> Vec<f64> {
    let [u, g, y] = [arguments[0], arguments[1], arguments[2]];
    (0..u.len()).map(|i| (1.0 - u[i]) * g[i] + u[i] * y[i]).collect()
}

pub(super) fn gradient(arguments: &[&[f64]], cotangent: &[f64]) -> Vec<Vec<f64>> {
    let [u, g, y] = [arguments[0], arguments[1], arguments[2]];
    let each = |f: &dyn Fn(usize) -> f64| (0..u.len()).map(|i| cotangent[i] * f(i)).collect();
    vec![each(&|i| y[i] - g[i]), each(&|i| 1.0 - u[i]), each(&|i| u[i])]
}

/// Encloses `(1 − u)·g + u·y` for `u` inside [0, 1].
///
/// The value grows with `g` and `y`, whose factors are not negative, and is linear in `u`: the least value is
/// attained at both lower ends and one of the ends of `u`, the largest at both upper ends. So this is the exact
/// range, widened by the rounding of three operations in the analysis and in the program.
pub fn mix(u: Interval, g: Interval, y: Interval, arithmetic: Arithmetic) -> Interval {
    let at = |u: f64, g: f64, y: f64| (1.0 - u) * g + u * y;
    let low = hull_of([at(u.lower, g.lower, y.lower), at(u.upper, g.lower, y.lower)]).lower;
    let high = hull_of([at(u.lower, g.upper, y.upper), at(u.upper, g.upper, y.upper)]).upper;
    let size = (1.0 - u.lower) * g.magnitude() + u.upper * y.magnitude();
    let owed = arithmetic.short_sum(4) * size + arithmetic.underflow();
    Interval::new(low - owed, high + owed)
}

/// The same as the authors compute it: `1 − u` and `u` taken as independent factors.
pub fn mix_products(u: Interval, g: Interval, y: Interval, arithmetic: Arithmetic) -> Interval {
    let rest = Interval::new(1.0 - u.upper, 1.0 - u.lower);
    let (new, old) = (product(rest, g, arithmetic), product(u, y, arithmetic));
    let owed = arithmetic.short_sum(4) * (new.magnitude() + old.magnitude()) + arithmetic.underflow();
    Interval::new(new.lower + old.lower - owed, new.upper + old.upper + owed)
}

impl Blend {
    pub(super) fn image(self, arguments: &[&BoxVec], arithmetic: Arithmetic) -> BoxVec {
        let [u, g, y] = [arguments[0], arguments[1], arguments[2]];
        BoxVec::collect(u.len(), |i| match self {
            Self::Exact => mix(u.get(i), g.get(i), y.get(i), arithmetic),
            Self::Products => mix_products(u.get(i), g.get(i), y.get(i), arithmetic),
        })
    }
}

/// The slopes of the change in `u`, `g` and `y`: the difference of two blends is
/// `(y − g)·(u' − u) + (1 − u')·(g' − g) + u'·(y' − y)`, with the old `y` and `g` and the new `u`.
fn slopes(c: &Changing<'_>, i: usize) -> [Interval; 3] {
    let (u, g, y) = (c.after.0[0].get(i), c.before.0[1].get(i), c.before.0[2].get(i));
    [y.minus(g), Interval::point(1.0).minus(u), u]
}

/// What a program rounds in both evaluations.
fn rounding(c: &Changing<'_>, i: usize) -> f64 {
    let one = |arguments: &[&BoxVec]| arguments[1].get(i).magnitude() + arguments[2].get(i).magnitude();
    let size = one(c.before.0) + one(c.after.0);
    let tiny = 2.0 * c.arithmetic.program_underflow();
    if size > 0.0 { c.arithmetic.program_short_sum(4) * size + tiny } else { 0.0 }
}

pub(super) fn change(c: &Changing<'_>) -> BoxVec {
    let mut moved = BoxVec::collect(c.apart[0].len(), |i| {
        let terms = slopes(c, i).into_iter().zip(c.apart);
        let terms = terms.map(|(slope, moved)| product(slope, moved.get(i), Arithmetic::Real));
        terms.reduce(Interval::plus).unwrap_or(Interval::point(0.0))
    });
    moved.widen(|i| rounding(c, i));
    moved
}

pub(super) fn known_change(c: &Changing<'_>, on: Support) -> ChangeKnown {
    let indices = on.indices();
    let lines = |argument: usize| -> Lines {
        let one = |&i: &u32| {
            let i = i as usize;
            let error = if argument == 0 { rounding(c, i) } else { 0.0 };
            Relaxation::of_term(slopes(c, i)[argument], c.apart[argument].get(i)).widened(error)
        };
        indices.iter().map(one).collect()
    };
    ChangeKnown { lines: (0..3).map(lines).collect(), on }
}

/// `g + u·(y − g)`, cut by the box of the blend, which knows that `u` lies inside [0, 1].
///
/// A program computes `(1 − u)·g + u·y` instead, and rounds each term at most three times: an error of at most
/// `γ₃ ((1 − u)|g| + u|y|)`, and `u|y| ≤ u|y − g| + u|g|` makes that at most `γ₃ (|g| + |u·(y − g)|)`. The last sum charges
/// seven roundings of exactly these sizes, so that nothing is left to charge for the program's order.
pub(super) fn form(arguments: &[&AffineForm], arithmetic: Arithmetic, symbols: &mut Symbols) -> AffineForm {
    let [u, g, y] = [arguments[0], arguments[1], arguments[2]];
    let apart = AffineForm::combination(None, &[(1.0, y), (-1.0, g)], arithmetic);
    let gated = super::product::form(u, &apart, arithmetic, symbols);
    let mut sum = AffineForm::combination(Some(g), &[(1.0, &gated)], arithmetic);
    sum.meet(&Blend::Exact.image(&[&u.bounds, &g.bounds, &y.bounds], arithmetic));
    sum
}
