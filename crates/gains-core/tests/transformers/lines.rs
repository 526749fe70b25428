//! Relaxations: lines must stay on their side of the activation, and rows that use them below the truth.

use gains_core::relaxation::{Line, Lines};
use gains_core::{Activation, Arithmetic, BoxVec, Interval, LowerSlope, Relaxation, Rows, Shape, Window};

use crate::exact::Exact;
use crate::maps::least;
use crate::matrices::{numbers, random_box};

const POLICIES: [LowerSlope; 3] = [LowerSlope::MinArea, LowerSlope::Zero, LowerSlope::One];

fn at(line: Line, x: f64) -> Exact {
    &(&Exact::from(line.slope) * &x.into()) + &line.intercept.into()
}

fn leaky(slope: f64, x: f64) -> Exact {
    if x > 0.0 { x.into() } else { &Exact::from(slope) * &x.into() }
}

/// Slopes on the negative side of everything that is linear on both.
const LEAKS: [f64; 5] = [0.0, 0.01, 0.3, 1.0, -1.0];

/// The activation with a slope on the negative side.
fn piecewise(leak: f64) -> Activation {
    match leak {
        0.0 => Activation::Relu,
        -1.0 => Activation::Absolute,
        slope => Activation::LeakyRelu { slope },
    }
}

/// Interval ends of every size, both signs.
fn ends() -> Vec<f64> {
    let mut ends =
        vec![0.0, 5e-324, 1e-310, 1e-200, 1e-17, 1e-5, 0.1, 1.0 / 3.0, 1.0, 7.7, 1e9, 1e150, 1e300];
    let negative: Vec<f64> = ends.iter().map(|x| -x).collect();
    ends.extend(negative);
    ends.sort_by(f64::total_cmp);
    ends
}

/// Piecewise linear: exact at both ends and at the kink is exact everywhere.
#[test]
fn relu_lines_are_on_their_side_exactly() {
    for leak in LEAKS {
        let activation = piecewise(leak);
        for policy in POLICIES {
            for &l in &ends() {
                for &u in ends().iter().filter(|u| **u >= l) {
                    for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
                        let r = Relaxation::new(activation, Interval::new(l, u), policy, arithmetic);
                        for x in [l, u].into_iter().chain((l <= 0.0 && 0.0 <= u).then_some(0.0)) {
                            let y = leaky(leak, x);
                            let what = format!("{activation} {policy:?} [{l:e}, {u:e}] at {x:e}");
                            assert!(at(r.lower, x) <= y, "{what}: lower");
                            assert!(at(r.upper, x) >= y, "{what}: upper");
                        }
                    }
                }
            }
        }
    }
}

/// Any number may be asked for as a lower slope; what comes out is on its side.
#[test]
fn lines_with_any_slope_asked_for_are_on_their_side_exactly() {
    let slopes = [-2.0, -1.0, -0.7, -1e-9, 0.0, 5e-324, 1e-3, 0.01, 0.3, 0.5, 1.0, 1.0 + f64::EPSILON, 2.0];
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for leak in LEAKS {
        let activation = piecewise(leak);
        for slope in slopes.into_iter().chain(odd) {
            for &l in &ends() {
                for &u in ends().iter().filter(|u| **u >= l) {
                    for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
                        let r = Relaxation::with_slope(activation, Interval::new(l, u), slope, arithmetic);
                        for x in [l, u].into_iter().chain((l <= 0.0 && 0.0 <= u).then_some(0.0)) {
                            let y = leaky(leak, x);
                            let what = format!("{activation} {slope} [{l:e}, {u:e}] at {x:e}");
                            assert!(at(r.lower, x) <= y, "{what}: lower");
                            assert!(at(r.upper, x) >= y, "{what}: upper");
                        }
                    }
                }
            }
        }
    }
}

/// A float32 program is allowed an activation that is 4 ulp off, anywhere in the interval, not only at
/// its ends: the lines must leave that much room at every point.
#[test]
fn smooth_lines_leave_room_for_the_error_of_the_program() {
    let mut random = fastrand::Rng::with_seed(21);
    for activation in [Activation::Sigmoid, Activation::Tanh, Activation::LeakyRelu { slope: 0.1 }] {
        for round in 0..4000 {
            let centre = (random.f64() - 0.5) * [0.0, 1e-3, 1.0, 20.0][round % 4];
            let width = random.f64() * [1e-6, 1e-3, 0.1, 8.0][random.usize(0..4)];
            let x = Interval::new(centre - width, centre + random.f64() * width);
            for (arithmetic, error) in [
                (Arithmetic::Real, 0.0),
                // One ulp is at most 2⁻²³ of the value.
                (Arithmetic::Float32, 4.0 * f64::from(f32::EPSILON)),
            ] {
                let r = Relaxation::new(activation, x, LowerSlope::MinArea, arithmetic);
                let image = activation.image(x, arithmetic);
                for k in 0..=16 {
                    let p = (x.lower + (x.upper - x.lower) * f64::from(k) / 16.0).clamp(x.lower, x.upper);
                    let y = activation.value(p);
                    // The reference value itself is within 3 ulp of float64; programs stay in range.
                    let reach = (error - 7e-16) * y.abs();
                    let range = match activation {
                        Activation::LeakyRelu { .. } => (f64::MIN, f64::MAX),
                        Activation::Tanh => (-1.0, 1.0),
                        _ => (0.0, 1.0),
                    };
                    let (low, high) = ((y - reach).max(range.0), (y + reach).min(range.1));
                    let what = format!("{activation} {arithmetic} [{}, {}] at {p}", x.lower, x.upper);
                    assert!(at(r.lower, p) <= low.into(), "{what}: lower line");
                    assert!(at(r.upper, p) >= high.into(), "{what}: upper line");
                    assert!(image.lower <= low && image.upper >= high, "{what}: image");
                }
            }
        }
    }
}

/// Lines of `f(b) − f(a)` in `d = b − a`: below `min(m d, M d)` and above `max(m d, M d)`, unless the known
/// bounds of the difference say more. Both are piecewise linear with a kink at zero.
#[test]
fn lines_of_differences_are_on_their_side_exactly() {
    let mut random = fastrand::Rng::with_seed(23);
    for round in 0..20_000 {
        // Of activations, of the absolute value, of factors and gates.
        let flat = [0.0, 0.01, random.f64(), -1.0, -3.0 * random.f64(), -1e-300][round % 6];
        let most = if round % 6 < 3 { 1.0 } else { 2.0 * random.f64() - 1.0 }.max(flat);
        let steep = flat + (most - flat) * [1.0, 0.0, random.f64(), 1e-16][random.usize(0..4)];
        let scale = [1.0, 1e-9, 1e-300, 1e12][random.usize(0..4)];
        let low = (random.f64() - 0.6) * scale;
        let high = low + random.f64() * scale * [1.0, 1e-12, 0.0][random.usize(0..3)];
        let bounds = match round % 2 {
            0 => Interval::new(-1e300, 1e300),
            _ => Interval::new((random.f64() - 1.0) * scale, random.f64() * scale),
        };
        let (slopes, moved) = (Interval::new(flat, steep), Interval::new(low, high));
        let r = Relaxation::of_difference(slopes, moved, bounds);
        let term = Relaxation::of_term(slopes, moved);
        for d in [low, high].into_iter().chain((low <= 0.0 && 0.0 <= high).then_some(0.0)) {
            let (p, q) = (&Exact::from(flat) * &d.into(), &Exact::from(steep) * &d.into());
            let what = format!("round {round} [{flat:e}, {steep:e}]·[{low:e}, {high:e}] at {d:e}");
            assert!(at(term.lower, d) <= p.clone().min(q.clone()), "{what}: lower line of the term");
            assert!(at(term.upper, d) >= p.clone().max(q.clone()), "{what}: upper line of the term");
            let least = p.clone().min(q.clone()).max(bounds.lower.into());
            let most = p.max(q).min(bounds.upper.into());
            assert!(at(r.lower, d) <= least, "{what}: lower");
            assert!(at(r.upper, d) >= most, "{what}: upper");
        }
    }
}

/// The derivative between any two points of the interval lies in the range given for it.
#[test]
fn derivative_ranges_hold_every_secant() {
    let mut random = fastrand::Rng::with_seed(24);
    for activation in [piecewise(0.0), piecewise(0.2), piecewise(-1.0), Activation::Sigmoid, Activation::Tanh]
    {
        for _ in 0..3000 {
            let l = (random.f64() - 0.5) * [0.1, 4.0, 60.0][random.usize(0..3)];
            let u = l + random.f64() * [0.1, 4.0, 60.0][random.usize(0..3)];
            let range = activation.derivative_range(Interval::new(l, u));
            let (a, b) = (l + random.f64() * (u - l), l + random.f64() * (u - l));
            // Secants of close points are mostly rounding.
            if (b - a).abs() > 1e-3 {
                let secant = (activation.value(b) - activation.value(a)) / (b - a);
                assert!(
                    range.lower - 1e-12 <= secant && secant <= range.upper + 1e-12,
                    "{activation} {l} {u}"
                );
            }
        }
    }
}

/// A row pulled back through ReLUs, checked exactly: for every corner of the box and every kink the row
/// must lie below `A·relu(x)`. Coordinates are independent, so the worst case is found one at a time.
#[test]
fn relaxed_rows_stay_below_the_activated_rows() {
    let mut random = fastrand::Rng::with_seed(22);
    for round in 0..300 {
        let shape = Shape::image(2, 2, random.usize(1..4));
        let n = shape.len();
        let mut x = random_box(&mut random, n, 1.0, [2.0, 0.1, 1e-9][round % 3]);
        // Chords of intervals that hardly reach below zero round their slope and have no intercept to hide it.
        for (l, _) in x.lower.iter_mut().zip(&x.upper).filter(|(l, u)| **l < 0.0 && **u > 0.0) {
            *l *= [1.0, 1e-3, 1e-9][round / 2 % 3];
        }
        let leak = [0.0, 0.2, -1.0, 0.0][round % 4];
        let activation = piecewise(leak);
        let per_policy: Vec<Lines> =
            POLICIES.iter().map(|&p| Lines::for_box(activation, &x, p, Arithmetic::Real)).collect();
        let block = numbers(&mut random, 2 * n, 3.0);
        let rows = Rows::new(Window::full(shape), block.repeat(3));
        let mut by_group = rows.clone();
        by_group.relax(&per_policy.iter().collect::<Vec<_>>());
        let mut one_by_one = rows.clone();
        one_by_one.relax_each(|row| &per_policy[row / 2]);
        for (relaxed, row) in [&by_group, &one_by_one].into_iter().flat_map(|r| (0..6).map(move |i| (r, i))) {
            let constant = &Exact::from(relaxed.slack[row]) - &relaxed.constant[row].into();
            let gap = (0..n).fold(constant, |sum, i| {
                let (a, b) = (Exact::from(rows.row(row)[i]), Exact::from(relaxed.row(row)[i]));
                let difference = |p: f64| &(&a * &leaky(leak, p)) - &(&b * &p.into());
                let kink = (x.lower[i] < 0.0 && x.upper[i] > 0.0).then_some(0.0);
                let least = [x.lower[i], x.upper[i]].into_iter().chain(kink).map(difference).min();
                &sum + &least.unwrap()
            });
            assert!(!gap.is_negative(), "round {round} row {row}: {:e}", gap.to_f64());
        }
        for (lines, policy) in per_policy.iter().zip(POLICIES) {
            let image = lines.image(&x);
            for i in 0..n {
                let kink = (x.lower[i] < 0.0 && x.upper[i] > 0.0).then_some(0.0);
                for p in [x.lower[i], x.upper[i]].into_iter().chain(kink) {
                    assert!(Exact::from(image.lower[i]) <= leaky(leak, p), "{activation} {policy:?}");
                    assert!(Exact::from(image.upper[i]) >= leaky(leak, p), "{activation} {policy:?}");
                }
            }
        }
    }
}

/// Not-a-number coefficients must not turn into innocent zeros.
#[test]
fn broken_rows_bound_nothing() {
    let shape = Shape::flat(2);
    let x = BoxVec::new(vec![-1.0, -1.0], vec![1.0, 1.0]);
    let lines = Lines::for_box(Activation::Relu, &x, LowerSlope::MinArea, Arithmetic::Real);
    for broken in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut rows = Rows::new(Window::full(shape), vec![1.0, broken]);
        rows.relax(&[&lines]);
        assert_eq!(rows.lower_bounds(&x)[0], f64::NEG_INFINITY, "{broken}");
    }
    let exact = least(&[1.0.into(), (-2.0).into()], 0.5.into(), &x);
    assert_eq!(exact.to_f64(), -2.5, "the oracle itself");
}
