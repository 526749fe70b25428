//! Weighted sums of boxes and sums of magnitudes.

use gains_core::interval::{combine, sum_of_magnitudes};
use gains_core::{Arithmetic, BoxVec, Interval};

use crate::exact::Exact;
use crate::matrices::{numbers, random_box};

const SCALES: [(f64, f64); 6] =
    [(1.0, 0.1), (1.0, 0.0), (1e-12, 1e-12), (1e-310, 1e-311), (5e-324, 5e-324), (1e9, 1e-9)];

/// The roundings of a float32 Runge-Kutta sum: `terms` products with both factors rounded, added up.
fn program_error(arithmetic: Arithmetic, terms: usize, size: &Exact) -> Exact {
    match arithmetic {
        Arithmetic::Real => Exact::zero(),
        Arithmetic::Float32 => size * &Exact::from((terms + 4) as f64 * f64::from(f32::EPSILON) / 2.0),
    }
}

#[test]
fn combinations_hold_every_exact_sum() {
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..600 {
        let (scale, width) = SCALES[round % SCALES.len()];
        let (n, count) = (random.usize(1..5), random.usize(0..8));
        let base = random.bool().then(|| random_box(&mut random, n, scale, width));
        let boxes: Vec<BoxVec> = (0..count).map(|_| random_box(&mut random, n, scale, width)).collect();
        let step = random.f64();
        let weights = numbers(&mut random, count, 10.0);
        // The caller multiplies step and weight in floating point; the sum meant is the exact one.
        let terms: Vec<(f64, &BoxVec)> = weights.iter().map(|w| step * w).zip(&boxes).collect();
        for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
            let (sum, magnitude) = combine(base.as_ref(), &terms, n, arithmetic);
            for i in 0..n {
                let start = |side: fn(&BoxVec) -> &Vec<f64>| base.as_ref().map_or(0.0, |b| side(b)[i]);
                let mut low = Exact::from(start(|b| &b.lower));
                let mut high = Exact::from(start(|b| &b.upper));
                let mut size = low.abs().max(high.abs());
                for (w, b) in weights.iter().zip(&boxes) {
                    let factor = &Exact::from(step) * &Exact::from(*w);
                    let (p, q) = (&factor * &b.lower[i].into(), &factor * &b.upper[i].into());
                    size = &size + &p.abs().max(q.abs());
                    low = &low + &p.clone().min(q.clone());
                    high = &high + &p.max(q);
                }
                let error = program_error(arithmetic, count, &size);
                assert!(Exact::from(sum.lower[i]) <= &low - &error, "round {round} {arithmetic} lower {i}");
                assert!(Exact::from(sum.upper[i]) >= &high + &error, "round {round} {arithmetic} upper {i}");
                assert!(size.to_f64() <= magnitude[i] * (1.0 + 1e-14) + 1e-300);
                if size.is_zero() {
                    assert_eq!((sum.lower[i], sum.upper[i]), (0.0, 0.0), "zeros stay zeros");
                }
            }
        }
    }
}

/// Where every product underflows the sum is not zero, and must not be taken for zero.
#[test]
fn products_that_underflow_are_not_taken_for_zero() {
    let tiny = BoxVec::new(vec![5e-324, -5e-324], vec![5e-324, -5e-324]);
    let (sum, _) = combine(None, &[(0.1, &tiny)], 2, Arithmetic::Real);
    assert!(sum.upper[0] > 0.0 && sum.lower[1] < 0.0, "{sum:?}");
}

#[test]
fn sums_of_magnitudes_hold_every_exact_sum() {
    let mut random = fastrand::Rng::with_seed(12);
    for round in 0..600 {
        let (scale, width) = SCALES[round % SCALES.len()];
        let n = random.usize(1..40);
        let b = random_box(&mut random, n, scale, width);
        let (mut low, mut high) = (Exact::zero(), Exact::zero());
        for i in 0..n {
            let (l, u) = (Exact::from(b.lower[i]), Exact::from(b.upper[i]));
            if b.lower[i] * b.upper[i].signum() > 0.0 {
                low = &low + &l.abs().min(u.abs());
            }
            high = &high + &l.abs().max(u.abs());
        }
        for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
            let sum = sum_of_magnitudes(&b, arithmetic);
            let roundings = match arithmetic {
                Arithmetic::Real => 0.0,
                Arithmetic::Float32 => Arithmetic::depth(n) as f64 * f64::from(f32::EPSILON) / 2.0,
            };
            let (one, error) = (Exact::from(1.0), Exact::from(roundings));
            assert!(sum.lower >= 0.0 && Exact::from(sum.lower) <= &low * &(&one - &error), "round {round}");
            assert!(Exact::from(sum.upper) >= &high * &(&one + &error), "round {round}");
        }
    }
}

#[test]
fn balls_hold_every_point_within_the_radius() {
    let mut random = fastrand::Rng::with_seed(13);
    for _ in 0..2000 {
        let x = random.f64();
        let radius = random.f64() * [1.0, 1e-3, 1e-17, 5e-324][random.usize(0..4)];
        let ball = BoxVec::ball(&[x], radius, Interval::new(-10.0, 10.0));
        assert!(Exact::from(ball.lower[0]) <= &Exact::from(x) - &radius.into());
        assert!(Exact::from(ball.upper[0]) >= &Exact::from(x) + &radius.into());
        let centred = ball.centres();
        let (c, r) = (Exact::from(centred.centre[0]), Exact::from(centred.radius[0] * (1.0 + f64::EPSILON)));
        assert!(&c - &r <= ball.lower[0].into() && &c + &r >= ball.upper[0].into());
    }
}
