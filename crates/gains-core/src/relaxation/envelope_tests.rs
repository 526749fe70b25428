use super::*;

const ALL: [Smooth; 15] = [
    Smooth::Softplus,
    Smooth::Silu,
    Smooth::Gelu,
    Smooth::GeluTanh,
    Smooth::Elu { alpha: 1.0 },
    Smooth::Elu { alpha: 0.3 },
    Smooth::Elu { alpha: 7.0 },
    Smooth::Elu { alpha: 0.0 },
    Smooth::Sin,
    Smooth::Cos,
    Smooth::Square,
    Smooth::Clamp { low: -1.0, high: 1.0 },
    Smooth::Clamp { low: 0.1, high: 6.3 },
    Smooth::InverseRoot { eps: 1e-5 },
    Smooth::InverseRoot { eps: 1.0 },
];

/// From the smallest numbers to 1e15, both signs, dense where the functions bend.
fn ends() -> Vec<f64> {
    let mut ends = vec![0.0, 5e-324, 1e-300, 1e-100, 1e-17, 1e-12, 1e-8, 1e-5, 1e-3, 0.01, 20.0, 40.0, 100.0];
    ends.extend([800.0, 1e4, 1e6, 1e9, 1e12, 1e15]);
    ends.extend((1..=16).map(|i| 0.5 * f64::from(i)));
    ends.extend([
        std::f64::consts::SQRT_2,
        std::f64::consts::SQRT_2 + 1e-7,
        2.399_357_280_515_467_7,
        std::f64::consts::PI,
    ]);
    let negative: Vec<f64> = ends.iter().map(|x| -x).collect();
    ends.extend(negative);
    ends.sort_by(f64::total_cmp);
    ends
}

/// Points of an interval: evenly, and closely around zero and around what bends.
fn points(x: Interval) -> impl Iterator<Item = f64> {
    let spread = (0..=30).map(move |k| x.lower + (x.upper - x.lower) * f64::from(k) / 30.0);
    let near = (-36..=36).map(|k| 0.22 * f64::from(k));
    let tiny = [0.0, 1e-300, -1e-300, 1e-9, -1e-9, 1e-4, -1e-4, -1.2785, -0.7518, 0.1, 6.3];
    spread.chain(near).chain(tiny).filter(move |p| x.lower <= *p && *p <= x.upper)
}

fn intervals() -> Vec<Interval> {
    let ends = ends();
    let mut all = Vec::new();
    for (i, &lower) in ends.iter().enumerate() {
        all.extend(ends[i..].iter().map(|&upper| Interval::new(lower, upper)));
    }
    all
}

/// What the comparison itself rounds.
fn rounding(line: Line, p: f64, y: f64) -> f64 {
    2.0 * f64::EPSILON * ((line.slope * p).abs() + line.intercept.abs() + y.abs())
}

#[test]
fn lines_stay_on_their_side_on_a_grid_of_intervals() {
    for f in ALL {
        for (number, x) in intervals().into_iter().enumerate() {
            for arithmetic in [Arithmetic::Real, Arithmetic::Float32].into_iter().take(1 + number % 3 / 2) {
                for (lower, upper) in pair(f, x, arithmetic) {
                    for p in points(x) {
                        let y = f.value(p);
                        let (low, high) =
                            (lower.slope * p + lower.intercept, upper.slope * p + upper.intercept);
                        let off = f.evaluation_error(Interval::point(p), y.abs(), arithmetic)
                            - f.evaluation_error(Interval::point(p), y.abs(), Arithmetic::Real);
                        let what = format!("{f} {arithmetic} [{:e}, {:e}] at {p:e}", x.lower, x.upper);
                        assert!(low <= y - off + rounding(lower, p, y), "{what}: {low:e} above {y:e}");
                        assert!(high >= y + off - rounding(upper, p, y), "{what}: {high:e} below {y:e}");
                    }
                }
            }
        }
    }
}

#[test]
fn strips_hold_the_function_on_a_grid_of_intervals() {
    for f in ALL {
        for x in intervals() {
            let (slope, low, high) = strip(f, x, Arithmetic::Real);
            for p in points(x) {
                let rest = f.value(p) - slope * p;
                let room = 2.0 * f64::EPSILON * (f.value(p).abs() + (slope * p).abs());
                assert!(
                    low <= rest + room && rest - room <= high,
                    "{f} [{:e}, {:e}] at {p:e}",
                    x.lower,
                    x.upper
                );
            }
        }
    }
}

#[test]
fn images_and_slopes_hold_the_function_on_a_grid_of_intervals() {
    for f in ALL {
        for x in intervals() {
            let (image, slopes) = (f.image(x, Arithmetic::Real), f.derivative_range(x));
            let mut before: Option<f64> = None;
            let mut sorted: Vec<f64> = points(x).collect();
            sorted.sort_by(f64::total_cmp);
            for p in sorted {
                let what = format!("{f} [{:e}, {:e}] at {p:e}", x.lower, x.upper);
                assert!(image.contains(f.value(p)), "{what}: {image:?}");
                if let Some(q) = before.filter(|q| p - q > 1e-3 * (1.0 + p.abs())) {
                    let secant = (f.value(p) - f.value(q)) / (p - q);
                    let room = 1e-11 * (1.0 + secant.abs());
                    assert!(
                        slopes.lower - room <= secant && secant <= slopes.upper + room,
                        "{what}: {slopes:?}"
                    );
                }
                before = Some(p);
            }
        }
    }
}

/// The least value a line below could have lost in the middle: the convex hull of many points there.
fn best(f: Smooth, x: Interval, side: Side) -> f64 {
    let middle = 0.5 * x.lower + 0.5 * x.upper;
    let value = |p: f64| side.turned(f.value(p));
    let half = |end: f64| (0..=800).map(move |k| middle + (end - middle) * (f64::from(k) / 800.0));
    let mut hull = value(middle);
    let right: Vec<(f64, f64)> = half(x.upper).skip(1).map(|q| (q, value(q))).collect();
    for p in half(x.lower).skip(1) {
        let at_p = value(p);
        for &(q, at_q) in &right {
            hull = hull.min(at_p + (at_q - at_p) * ((middle - p) / (q - p)));
        }
    }
    hull
}

/// In the middle of the interval lines are nearly as close as any line could be: within 3 % of the strip that is left.
#[test]
fn lines_are_nearly_the_best() {
    let ends = [-9.0, -6.0, -4.0, -3.0, -2.0, -1.3, -0.7, -0.2, 0.0, 0.3, 1.0, 1.7, 2.5, 3.5, 6.0, 10.0];
    for f in ALL {
        for (i, &lower) in ends.iter().enumerate() {
            for &upper in &ends[i + 1..] {
                let x = Interval::new(lower, upper);
                let (below, above) = lines(f, x, Arithmetic::Real);
                let middle = 0.5 * lower + 0.5 * upper;
                let at = |line: Line| line.slope * middle + line.intercept;
                let (low, high) = (best(f, x, Side::Below), -best(f, x, Side::Above));
                let room = 0.03 * (high - low) + 1e-12 * (1.0 + low.abs() + high.abs());
                assert!(at(below) >= low - room, "{f} [{lower}, {upper}]: {} best {low}", at(below));
                assert!(at(above) <= high + room, "{f} [{lower}, {upper}]: {} best {high}", at(above));
            }
        }
    }
}

/// Where a function is a line, so are its bounds.
#[test]
fn linear_parts_are_exact() {
    let identity = Line::through_origin(1.0);
    for f in [Smooth::Clamp { low: -1.0, high: 2.0 }, Smooth::Elu { alpha: 1.0 }] {
        let x = Interval::new(0.0, 1.9);
        assert_eq!(lines(f, x, Arithmetic::Float32), (identity, identity));
        assert_eq!(strip(f, x, Arithmetic::Float32), (1.0, 0.0, 0.0));
    }
    let flat = Line { slope: 0.0, intercept: 2.0 };
    let clamp = Smooth::Clamp { low: -1.0, high: 2.0 };
    assert_eq!(lines(clamp, Interval::new(2.0, 9.0), Arithmetic::Real), (flat, flat));
}

#[test]
fn nan_bounds_nothing() {
    for f in ALL {
        for x in [(f64::NAN, f64::NAN), (f64::NAN, 1.0), (-1.0, f64::NAN)] {
            let x = Interval::new(x.0, x.1);
            for (lower, upper) in pair(f, x, Arithmetic::Real) {
                assert!(!(lower.intercept.is_finite() && upper.intercept.is_finite()), "{f} {x:?}");
            }
            let image = f.image(x, Arithmetic::Real);
            assert!(
                image.lower.is_nan() || image.upper.is_nan() || image.upper - image.lower >= 1.0,
                "{f} {image:?}"
            );
        }
    }
}

/// What PyTorch and others compute in float32 is within what is asked of float32 programs, on a dense grid of arguments.
#[test]
fn float32_formulas_keep_their_promise() {
    let two_over_pi = (2.0 / std::f32::consts::PI).sqrt();
    type Formula = fn(f32, f32) -> f32;
    let formulas: [(Smooth, Formula); 8] = [
        (Smooth::Softplus, |x, _| if x > 20.0 { x } else { x.exp().ln_1p() }),
        (Smooth::Silu, |x, _| x / (1.0 + (-x).exp())),
        (Smooth::Gelu, |x, _| 0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2))),
        (Smooth::GeluTanh, |x, c| 0.5 * x * (1.0 + (c * (x + 0.044_715 * x * x * x)).tanh())),
        (Smooth::Elu { alpha: 0.7 }, |x, _| if x > 0.0 { x } else { 0.7 * (x.exp() - 1.0) }),
        (Smooth::Sin, |x, _| x.sin()),
        (Smooth::Cos, |x, _| x.cos()),
        (Smooth::InverseRoot { eps: 1e-5 }, |x, _| 1.0 / (x.max(0.0) + 1e-5).sqrt()),
    ];
    for (f, formula) in formulas {
        for k in -200_000..=200_000 {
            let x = match k % 3 {
                0 => k as f32 * 5e-4,
                1 => (k as f32 * 1e-4).sinh() * 1e-3,
                _ => k as f32 * 3e-5,
            };
            let (computed, y) = (f64::from(formula(x, two_over_pi)), f.value(f64::from(x)));
            let error = f.evaluation_error(Interval::point(f64::from(x)), y.abs(), Arithmetic::Float32);
            assert!((computed - y).abs() <= error, "{f} at {x:e}: {computed:e} for {y:e}");
        }
    }
}
