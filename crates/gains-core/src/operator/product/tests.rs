use super::*;
use crate::interval::BoxVec;

fn interval(random: &mut fastrand::Rng, scale: f64) -> Interval {
    let mut end = || (2.0 * random.f64() - 1.0) * scale;
    let (a, b) = (end(), end());
    if random.u8(0..4) == 0 { Interval::point(a) } else { Interval::new(a.min(b), a.max(b)) }
}

fn inside(random: &mut fastrand::Rng, x: Interval) -> f64 {
    match random.u8(0..4) {
        0 => x.lower,
        1 => x.upper,
        _ => (x.lower + random.f64() * (x.upper - x.lower)).clamp(x.lower, x.upper),
    }
}

/// Wherever among the ends it stands.
#[test]
fn nan_is_not_hidden() {
    let whole = Interval::new(0.0, 1.0);
    for broken in [
        Interval::new(f64::NAN, 1.0),
        Interval::new(0.0, f64::NAN),
        Interval::new(f64::NAN, f64::NAN),
        Interval::new(f64::NEG_INFINITY, f64::INFINITY),
    ] {
        for p in [product(broken, whole, Arithmetic::Real), product(whole, broken, Arithmetic::Real)] {
            assert!(p.lower.is_nan() && p.upper.is_nan(), "{broken:?}: {p:?}");
            assert!(!BoxVec::new(vec![p.lower], vec![p.upper]).is_sane(), "{p:?}");
        }
    }
}

#[test]
fn products_hold_all_points() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let scale = 10.0_f64.powi(random.i32(-6..6));
        let (x, y) = (interval(&mut random, scale), interval(&mut random, scale));
        let all = product(x, y, Arithmetic::Real);
        for _ in 0..20 {
            assert!(all.contains(inside(&mut random, x) * inside(&mut random, y)));
        }
        let reach = x.magnitude() * y.magnitude();
        assert!(all.magnitude() <= reach * (1.0 + 1e-12) + 1e-200, "the range is exact");
    }
}

/// Points are no points once rounding is counted, of the analysis and of a float32 program.
#[test]
fn products_of_points_leave_room_for_rounding() {
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..20_000 {
        let (x, y) = (random.f32(), random.f32() * 4.0 - 2.0);
        let point = |x: f32| Interval::point(f64::from(x));
        assert!(product(point(x), point(y), Arithmetic::Float32).contains(f64::from(x * y)));
        let exact = product(point(x), point(y), Arithmetic::Real);
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
            for (p, q) in [(x.lower, y.lower), (x.lower, y.upper), (x.upper, y.lower), (x.upper, y.upper)] {
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

/// A plane chosen for a point touches the product in one corner, where it lies on its side to the last bit.
#[test]
fn planes_through_corners_are_rounded_to_their_side() {
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..5000 {
        let (x, y) = (interval(&mut random, 1.0), interval(&mut random, 1.0));
        let at = Some((inside(&mut random, x), inside(&mut random, y)));
        // At the corner `(p.y, p.x)` the plane is twice the product, and its constant.
        let below = plane(x, y, Bound::Below, at);
        assert!(below.x.mul_add(below.y, below.constant) <= 0.0, "{x:?} {y:?}: {below:?}");
        let above = plane(x, y, Bound::Above, at);
        assert!(above.x.mul_add(above.y, above.constant) >= 0.0, "{x:?} {y:?}: {above:?}");
    }
}
