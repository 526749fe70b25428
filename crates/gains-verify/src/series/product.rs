//! Products and convex combinations: of intervals, and as planes for rows.

use gains_core::arithmetic::{TINY, down_product, up_product};
use gains_core::relaxation::Line;
use gains_core::{Arithmetic, Interval};

/// Encloses `x·y` for independent `x`, `y`, as the given arithmetic may compute it: a bilinear function has its
/// extremes at the corners.
pub fn product(x: Interval, y: Interval, arithmetic: Arithmetic) -> Interval {
    let corners = [x.lower * y.lower, x.lower * y.upper, x.upper * y.lower, x.upper * y.upper];
    let Interval { lower: low, upper: high } = hull(corners);
    let owed = arithmetic.short_sum(1) * low.abs().max(high.abs()) + arithmetic.underflow();
    if low == 0.0 && high == 0.0 && (x.magnitude() == 0.0 || y.magnitude() == 0.0) {
        return Interval::point(0.0);
    }
    Interval::new(low - owed, high + owed)
}

/// Encloses `(1 − u)·g + u·y` for `u` inside [0, 1].
///
/// The value grows with `g` and `y`, whose factors are not negative, and is linear in `u`: the least value is
/// attained at both lower ends and one of the ends of `u`, the largest at both upper ends. So this is the exact
/// range, widened by the rounding of three operations in the analysis and in the program.
pub fn mix(u: Interval, g: Interval, y: Interval, arithmetic: Arithmetic) -> Interval {
    let at = |u: f64, g: f64, y: f64| (1.0 - u) * g + u * y;
    let low = hull([at(u.lower, g.lower, y.lower), at(u.upper, g.lower, y.lower)]).lower;
    let high = hull([at(u.lower, g.upper, y.upper), at(u.upper, g.upper, y.upper)]).upper;
    let size = (1.0 - u.lower) * g.magnitude() + u.upper * y.magnitude();
    let owed = arithmetic.short_sum(4) * size + arithmetic.underflow();
    Interval::new(low - owed, high + owed)
}

/// From the least to the largest of some numbers; no number if one of them is none, which `min` and `max` would hide.
fn hull<const N: usize>(values: [f64; N]) -> Interval {
    if values.iter().any(|v| v.is_nan()) {
        return Interval::new(f64::NAN, f64::NAN);
    }
    Interval::new(
        values.iter().copied().fold(f64::INFINITY, f64::min),
        values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    )
}

/// The same as the authors compute it: `1 − u` and `u` taken as independent factors.
pub fn mix_products(u: Interval, g: Interval, y: Interval, arithmetic: Arithmetic) -> Interval {
    let rest = Interval::new(1.0 - u.upper, 1.0 - u.lower);
    let (new, old) = (product(rest, g, arithmetic), product(u, y, arithmetic));
    let owed = arithmetic.short_sum(4) * (new.magnitude() + old.magnitude()) + arithmetic.underflow();
    Interval::new(new.lower + old.lower - owed, new.upper + old.upper + owed)
}

/// `x_slope·x + y_slope·y + constant`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plane {
    /// Slope in the first factor.
    pub x: f64,
    /// Slope in the second factor.
    pub y: f64,
    /// Value at the origin.
    pub constant: f64,
}

/// Which side of a product a plane is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Nowhere above.
    Below,
    /// Nowhere below.
    Above,
}

/// A plane on one side of `x·y` over a rectangle (McCormick).
///
/// `(x − a)(y − b)` has a known sign at every corner `(a, b)` of the rectangle, so below lie
/// `a·y + b·x − a·b` for the corners (x̲, y̲) and (x̄, ȳ), and above for the other two. Both planes of one side agree
/// in the centre. Where it is known at which point the plane matters, `at`, the one closer there is taken;
/// otherwise their mean, whose slopes are those of the product itself in the centre.
pub fn plane(x: Interval, y: Interval, side: Bound, at: Option<(f64, f64)>) -> Plane {
    let corners = match side {
        Bound::Below => [(x.lower, y.lower), (x.upper, y.upper)],
        Bound::Above => [(x.upper, y.lower), (x.lower, y.upper)],
    };
    let through = |(a, b): (f64, f64)| Plane {
        x: b,
        y: a,
        constant: match side {
            Bound::Below => -up_product(a * b),
            Bound::Above => -down_product(a * b),
        },
    };
    let [first, second] = corners.map(through);
    let Some((p, q)) = at else {
        let half = |a: f64, b: f64| 0.5 * a + 0.5 * b;
        let slack = 4.0 * f64::EPSILON * (first.constant.abs() + second.constant.abs()) + TINY;
        let constant = half(first.constant, second.constant)
            + match side {
                Bound::Below => -slack,
                Bound::Above => slack,
            };
        return Plane { x: half(first.x, second.x), y: half(first.y, second.y), constant };
    };
    let value = |plane: &Plane| plane.x * p + plane.y * q + plane.constant;
    let first_is_higher = value(&first) >= value(&second);
    if first_is_higher == (side == Bound::Below) { first } else { second }
}

/// Encloses `|x|`.
pub fn absolute(x: Interval) -> Interval {
    if x.lower.is_nan() || x.upper.is_nan() {
        return Interval::new(f64::NAN, f64::NAN);
    }
    Interval::new(x.lower.max(-x.upper).max(0.0), x.magnitude())
}

/// Lines of `|x|`: two below, the likelier one first, and the chord above, which a convex function does not exceed
/// between its ends.
pub fn absolute_lines(x: Interval) -> ([Line; 2], Line) {
    let Interval { lower, upper } = x;
    let through = |slope: f64| Line { slope, intercept: 0.0 };
    if lower >= 0.0 {
        return ([through(1.0); 2], through(1.0));
    }
    if upper <= 0.0 {
        return ([through(-1.0); 2], through(-1.0));
    }
    let slope = ((upper + lower) / (upper - lower)).clamp(-1.0, 1.0);
    let at_upper = up_product((1.0 - slope) * upper);
    let at_lower = up_product((1.0 + slope) * -lower);
    let intercept = at_upper.max(at_lower) * (1.0 + 4.0 * f64::EPSILON);
    let first = if upper >= -lower { 1.0 } else { -1.0 };
    ([through(first), through(-first)], Line { slope, intercept })
}

#[cfg(test)]
mod tests {
    use gains_core::BoxVec;

    use super::*;

    fn interval(random: &mut fastrand::Rng, low: f64, high: f64) -> Interval {
        let (a, b) = (low + random.f64() * (high - low), low + random.f64() * (high - low));
        if random.u8(0..4) == 0 { Interval::point(a) } else { Interval::new(a.min(b), a.max(b)) }
    }

    fn inside(random: &mut fastrand::Rng, x: Interval) -> f64 {
        match random.u8(0..4) {
            0 => x.lower,
            1 => x.upper,
            _ => (x.lower + random.f64() * (x.upper - x.lower)).clamp(x.lower, x.upper),
        }
    }

    /// Wherever among the ends the number that is none stands.
    #[test]
    fn what_is_no_number_is_not_hidden() {
        let (one, whole) = (Interval::new(0.25, 0.5), Interval::new(0.0, 1.0));
        for broken in [
            Interval::new(f64::NAN, 1.0),
            Interval::new(0.0, f64::NAN),
            Interval::new(f64::NEG_INFINITY, f64::INFINITY),
        ] {
            let infinite = broken.upper == f64::INFINITY;
            for p in [product(broken, whole, Arithmetic::Real), product(whole, broken, Arithmetic::Real)] {
                assert!(p.lower.is_nan() && p.upper.is_nan(), "{broken:?}: {p:?}");
            }
            for m in [mix(one, broken, one, Arithmetic::Real), mix(one, one, broken, Arithmetic::Real)] {
                let shown = |end: f64, given: f64| !given.is_nan() && !infinite || !end.is_finite();
                assert!(shown(m.lower, broken.lower) && shown(m.upper, broken.upper), "{broken:?}: {m:?}");
            }
        }
    }

    #[test]
    fn products_and_mixtures_hold_all_points_and_touch_some() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let scale = 10.0_f64.powi(random.i32(-6..6));
            let (g, y) = (interval(&mut random, -scale, scale), interval(&mut random, -scale, scale));
            let u = interval(&mut random, 0.0, 1.0);
            let (p, m) = (product(g, y, Arithmetic::Real), mix(u, g, y, Arithmetic::Real));
            let plain = mix_products(u, g, y, Arithmetic::Real);
            let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
            for _ in 0..40 {
                let (u, g, y) = (inside(&mut random, u), inside(&mut random, g), inside(&mut random, y));
                assert!(p.contains(g * y));
                let value = (1.0 - u) * g + u * y;
                assert!(m.contains(value) && plain.contains(value));
                (low, high) = (low.min(value), high.max(value));
            }
            let room = 1e-12 * scale;
            assert!(plain.lower <= m.lower + room && m.upper <= plain.upper + room);
            let corner = |u: f64, g: f64, y: f64| (1.0 - u) * g + u * y;
            let least = corner(u.lower, g.lower, y.lower).min(corner(u.upper, g.lower, y.lower));
            assert!(m.lower >= least - room, "the range is exact");
        }
    }

    /// Points are no points once rounding is counted, of the analysis and of a float32 program.
    #[test]
    fn mixtures_and_products_of_points_leave_room_for_rounding() {
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..20_000 {
            let (u, g, y) = (random.f32(), random.f32() * 4.0 - 2.0, random.f32() * 4.0 - 2.0);
            let point = |x: f32| Interval::point(f64::from(x));
            let mixed = mix(point(u), point(g), point(y), Arithmetic::Float32);
            let programs = [(1.0 - u) * g + u * y, (1.0 - u).mul_add(g, u * y), u.mul_add(y, (1.0 - u) * g)];
            assert!(programs.iter().all(|p| mixed.contains(f64::from(*p))), "{u} {g} {y}");
            assert!(product(point(u), point(y), Arithmetic::Float32).contains(f64::from(u * y)));
            let exact = mix(point(u), point(g), point(y), Arithmetic::Real);
            assert!(exact.lower < exact.upper && exact.upper - exact.lower < 1e-13);
        }
    }

    #[test]
    fn planes_stay_on_their_side_exactly() {
        let mut random = fastrand::Rng::with_seed(2);
        // Numbers of few bits: everything below but the constants' repair is exact.
        let short = |random: &mut fastrand::Rng| f64::from(random.i32(-1024..=1024)) / 256.0;
        for _ in 0..20_000 {
            let ends = |random: &mut fastrand::Rng| {
                let (a, b) = (short(random), short(random));
                Interval::new(a.min(b), a.max(b))
            };
            let (x, y) = (ends(&mut random), ends(&mut random));
            let at = random.bool().then(|| (inside(&mut random, x), inside(&mut random, y)));
            for side in [Bound::Below, Bound::Above] {
                let plane = plane(x, y, side, at);
                for (p, q) in [(x.lower, y.lower), (x.lower, y.upper), (x.upper, y.lower), (x.upper, y.upper)]
                {
                    let value = plane.x * p + plane.y * q + plane.constant;
                    let holds = match side {
                        Bound::Below => value <= p * q,
                        Bound::Above => value >= p * q,
                    };
                    // Bilinear minus linear: what holds at the corners holds inside.
                    assert!(holds, "{side:?} {x:?} {y:?} {at:?}");
                    let gap = (x.upper - x.lower) * (y.upper - y.lower);
                    assert!((value - p * q).abs() <= gap + 1e-12);
                }
            }
        }
    }

    #[test]
    fn lines_of_the_absolute_value_are_on_their_side() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let scale = 10.0_f64.powi(random.i32(-9..9));
            let x = interval(&mut random, -scale, scale);
            let (below, above) = absolute_lines(x);
            for _ in 0..10 {
                let p = inside(&mut random, x);
                let rounding = 4.0 * f64::EPSILON * scale;
                assert!(absolute(x).contains(p.abs()));
                assert!(below.iter().all(|line| line.slope * p + line.intercept <= p.abs() + rounding));
                assert!(above.slope * p + above.intercept >= p.abs() - rounding);
            }
        }
    }

    #[test]
    fn what_is_no_number_stays_so() {
        let broken = Interval::new(f64::NAN, f64::NAN);
        let one = Interval::new(0.0, 1.0);
        assert!(absolute(broken).upper.is_nan());
        let real = Arithmetic::Real;
        for x in
            [product(broken, one, real), mix(one, broken, one, real), mix_products(one, broken, one, real)]
        {
            assert!(!BoxVec::new(vec![x.lower], vec![x.upper]).is_sane(), "{x:?}");
        }
    }
}
