//! The larger of two values, entry by entry.
//!
//! Nothing is rounded: a program's maximum is one of its arguments.

use crate::affine_form::{AffineForm, Symbols};
use crate::arithmetic::{Arithmetic, TINY};
use crate::interval::{BoxVec, Interval};
use crate::relaxation::{Line, Lines, Relaxation};
use crate::support::Support;

use super::product::{Bound, Plane};
use super::{ChangeKnown, Changing};
use crate::activation::Activation;

/// The larger one; NaN if one of them is.
fn larger(x: f64, y: f64) -> f64 {
    if x.is_nan() || x >= y { x } else { y }
}

pub(super) fn evaluate(arguments: &[&[f64]]) -> Vec<f64> {
    arguments[0].iter().zip(arguments[1]).map(|(x, y)| larger(*x, *y)).collect()
}

pub(super) fn gradient(arguments: &[&[f64]], cotangent: &[f64]) -> Vec<Vec<f64>> {
    let pairs = || arguments[0].iter().zip(arguments[1]).zip(cotangent);
    vec![
        pairs().map(|((x, y), g)| if x >= y { *g } else { 0.0 }).collect(),
        pairs().map(|((x, y), g)| if x >= y { 0.0 } else { *g }).collect(),
    ]
}

/// It grows with both arguments.
pub(super) fn image(arguments: &[&BoxVec]) -> BoxVec {
    let (x, y) = (arguments[0], arguments[1]);
    let side = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| larger(*x, *y)).collect();
    BoxVec::new(side(&x.lower, &y.lower), side(&x.upper, &y.upper))
}

/// Which argument is the larger one everywhere.
#[derive(Clone, Copy, PartialEq)]
enum Leader {
    First,
    Second,
    Either,
}

fn leader(x: Interval, y: Interval) -> Leader {
    match (x.lower >= y.upper, y.lower >= x.upper) {
        (true, _) => Leader::First,
        (_, true) => Leader::Second,
        _ => Leader::Either,
    }
}

/// A plane on one side of `max(x, y)` over a rectangle.
///
/// The maximum is convex. Below it lie both arguments, and above it every plane that is above it in the four corners. Two
/// of those are tight: the one through the corners at which both arguments are least or one of them is largest, and the
/// one through those at which both are largest or one of them is least. They agree in the centre, where no plane is closer. Where it is
/// known at which point the plane matters, `at`, the one closer there is taken, otherwise their mean; of the arguments,
/// the one that is larger there, or in the centre.
pub fn plane(x: Interval, y: Interval, side: Bound, at: Option<(f64, f64)>) -> Plane {
    let (first, second) = (Plane { x: 1.0, y: 0.0, constant: 0.0 }, Plane { x: 0.0, y: 1.0, constant: 0.0 });
    match leader(x, y) {
        Leader::First => return first,
        Leader::Second => return second,
        Leader::Either => {}
    }
    let centre = (0.5 * x.lower + 0.5 * x.upper, 0.5 * y.lower + 0.5 * y.upper);
    if side == Bound::Below {
        let (p, q) = at.unwrap_or(centre);
        return if p >= q { first } else { second };
    }
    let slope = |from: f64, to: f64, other: f64| {
        let slope = (larger(to, other) - larger(from, other)) / (to - from);
        if slope.is_finite() { slope.clamp(0.0, 1.0) } else { 0.0 }
    };
    let through = |(a, b): (f64, f64)| (slope(x.lower, x.upper, b), slope(y.lower, y.upper, a));
    let (least, most) = (through((x.lower, y.lower)), through((x.upper, y.upper)));
    let slopes = match at {
        None => (0.5 * least.0 + 0.5 * most.0, 0.5 * least.1 + 0.5 * most.1),
        Some((p, q)) => {
            let [one, other] = [least, most].map(|s| s.0 * p + s.1 * q + above_corners(x, y, s));
            if one <= other { least } else { most }
        }
    };
    Plane { x: slopes.0, y: slopes.1, constant: above_corners(x, y, slopes) }
}

/// What a plane with the given slopes needs as its constant to be above the maximum in all corners, rounded up.
fn above_corners(x: Interval, y: Interval, slopes: (f64, f64)) -> f64 {
    let corners = [(x.lower, y.lower), (x.lower, y.upper), (x.upper, y.lower), (x.upper, y.upper)];
    let rest = corners.map(|(p, q)| {
        let (a, b) = (slopes.0 * p, slopes.1 * q);
        larger(p, q) - a - b + 4.0 * f64::EPSILON * (p.abs() + q.abs()) + TINY
    });
    rest.into_iter().fold(f64::NEG_INFINITY, larger)
}

/// The change of a maximum lies between the changes of its arguments, since it is the one, the other, or something in
/// between; where the same argument is larger in both evaluations it is that one's.
pub(super) fn change(c: &Changing<'_>) -> BoxVec {
    let mut moved = BoxVec::collect(c.apart[0].len(), |i| {
        let (dx, dy) = (c.apart[0].get(i), c.apart[1].get(i));
        match steady(c, i) {
            Leader::First => dx,
            Leader::Second => dy,
            Leader::Either => Interval::new(-larger(-dx.lower, -dy.lower), larger(dx.upper, dy.upper)),
        }
    });
    moved.meet(&c.after.1.apart(c.before.1));
    moved
}

/// Which argument is larger in both evaluations.
fn steady(c: &Changing<'_>, i: usize) -> Leader {
    let of = |arguments: &[&BoxVec]| leader(arguments[0].get(i), arguments[1].get(i));
    let (before, after) = (of(c.before.0), of(c.after.0));
    if before == after { before } else { Leader::Either }
}

/// `min(dx, dy) ≤ change ≤ max(dx, dy)`: a plane above the one, the mirror image of one above the maximum of the negated
/// changes for the other.
pub(super) fn known_change(c: &Changing<'_>, on: Support) -> ChangeKnown {
    let (mut in_x, mut in_y): (Vec<Relaxation>, Vec<Relaxation>) = Default::default();
    for &i in &on.indices() {
        let i = i as usize;
        let (dx, dy) = (c.apart[0].get(i), c.apart[1].get(i));
        let negated = |d: Interval| Interval::new(-d.upper, -d.lower);
        let only = |x: f64, y: f64| Plane { x, y, constant: 0.0 };
        let (below, above) = match steady(c, i) {
            Leader::First => (only(1.0, 0.0), only(1.0, 0.0)),
            Leader::Second => (only(0.0, 1.0), only(0.0, 1.0)),
            Leader::Either => {
                let mirrored = plane(negated(dx), negated(dy), Bound::Above, None);
                (Plane { constant: -mirrored.constant, ..mirrored }, plane(dx, dy, Bound::Above, None))
            }
        };
        in_x.push(Relaxation {
            lower: Line { slope: below.x, intercept: below.constant },
            upper: Line { slope: above.x, intercept: above.constant },
            magnitude: dx.magnitude(),
        });
        in_y.push(Relaxation {
            lower: Line { slope: below.y, intercept: 0.0 },
            upper: Line { slope: above.y, intercept: 0.0 },
            magnitude: dy.magnitude(),
        });
    }
    let lines = [in_x, in_y].map(|all| all.into_iter().collect::<Lines>());
    ChangeKnown { on, lines: lines.into() }
}

/// `y + relu(x − y)`, which knows what both have in common, cut by the box of the maximum.
pub(super) fn form(x: &AffineForm, y: &AffineForm, symbols: &mut Symbols) -> AffineForm {
    let real = Arithmetic::Real;
    let apart = AffineForm::combination(None, &[(1.0, x), (-1.0, y)], real);
    let ahead = super::curve::form(Activation::Relu, &apart, None, real, symbols);
    let mut larger = AffineForm::combination(Some(y), &[(1.0, &ahead)], real);
    larger.meet(&image(&[&x.bounds, &y.bounds]));
    larger
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(random: &mut fastrand::Rng, scale: f64) -> Interval {
        let mut end = || (2.0 * random.f64() - 1.0) * scale;
        let (a, b) = (end(), end());
        if random.u8(0..4) == 0 { Interval::point(a) } else { Interval::new(a.min(b), a.max(b)) }
    }

    /// Convex minus linear: what holds in the corners holds inside; what is below touches along a diagonal.
    #[test]
    fn planes_stay_on_their_side_and_are_tight_in_the_centre() {
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..40_000 {
            let scale = 10.0_f64.powi(random.i32(-300..15));
            let (x, y) = (interval(&mut random, scale), interval(&mut random, scale));
            let inside =
                |random: &mut fastrand::Rng, x: Interval| x.lower + random.f64() * (x.upper - x.lower);
            let at = random.bool().then(|| (inside(&mut random, x), inside(&mut random, y)));
            let (below, above) = (plane(x, y, Bound::Below, at), plane(x, y, Bound::Above, at));
            let value = |p: Plane, x: f64, y: f64| p.x * x + p.y * y + p.constant;
            let mut points =
                vec![(x.lower, y.lower), (x.lower, y.upper), (x.upper, y.lower), (x.upper, y.upper)];
            points.extend((0..6).map(|_| (inside(&mut random, x), inside(&mut random, y))));
            for (p, q) in points {
                let room = 4.0 * f64::EPSILON * (p.abs() + q.abs());
                assert!(value(below, p, q) <= p.max(q) + room, "round {round}: {x:?} {y:?}");
                assert!(value(above, p, q) >= p.max(q) - room, "round {round}: {x:?} {y:?} {above:?}");
            }
            let centre = (0.5 * x.lower + 0.5 * x.upper, 0.5 * y.lower + 0.5 * y.upper);
            let hull = 0.5 * x.lower.max(y.upper) + 0.5 * x.upper.max(y.lower);
            let got = value(above, centre.0, centre.1);
            assert!(got <= hull + 1e-13 * scale + 1e-280, "round {round}: {got} for {hull}, {x:?} {y:?}");
        }
    }

    #[test]
    fn nan_is_not_hidden() {
        let one = BoxVec::point(&[1.0]);
        let broken = BoxVec::point(&[f64::NAN]);
        for arguments in [[&one, &broken], [&broken, &one]] {
            assert!(image(&arguments).upper[0].is_nan() && image(&arguments).lower[0].is_nan());
        }
        for (x, y) in [(1.0, f64::NAN), (f64::NAN, 1.0)] {
            assert!(evaluate(&[&[x], &[y]])[0].is_nan());
            let wide = Interval::new(-2.0, 2.0);
            let above = plane(Interval::new(x, x), wide, Bound::Above, None);
            assert!(above.constant.is_nan() || !x.is_nan());
        }
    }
}
