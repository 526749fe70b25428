//! Intervals, elementary functions, lines and tableaux, against independent computations.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use gains_check::Model;
use gains_check::automaton::{Action, Next, Solver};
use gains_check::certificate::Ball;
use gains_check::curve::{Curve, Line};
use gains_check::fault::Deadline;
use gains_check::functions::{cos_at, erf_at, exp, exp_m1_at, sigmoid, sin_at, softplus, tanh};
use gains_check::interval::{Dot, Interval};
use gains_check::rows::{Changes, Knowledge, Linear, Plane, Slopes, Tangents, Values};
use gains_check::rules::{change, image};
use gains_check::steps::Stage;
use gains_check::tableau::Tableau;
use gains_check::value::read_json;

fn point(x: f64) -> Interval {
    Interval::point(x)
}

/// Numbers of all sizes, zero and whole ones among them.
fn number(random: &mut fastrand::Rng) -> f64 {
    match random.u8(..8) {
        0 => 0.0,
        1 => f64::from(random.i32(-5..5)),
        2 => f64::from_bits(random.u64(..)),
        3 => (random.f64() - 0.5) * 1e-310,
        _ => (random.f64() - 0.5) * 10f64.powi(random.i32(-20..20)),
    }
}

/// Exactly a + b as two numbers, the first of which is the nearest.
fn exact_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

#[test]
fn operations_on_points_are_rounded_in_the_right_direction_by_at_most_one_step() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200_000 {
        let (a, b) = (number(&mut random), number(&mut random));
        if !a.is_finite() || !b.is_finite() {
            continue;
        }
        let sum = point(a) + point(b);
        let (nearest, rest) = exact_sum(a, b);
        if nearest.is_finite() {
            assert!(sum.low <= nearest && nearest <= sum.high && sum.high <= sum.low.next_up());
            assert!(rest == 0.0 || (rest > 0.0 && sum.high > nearest) || (rest < 0.0 && sum.low < nearest));
        }
        let (product, nearest) = (point(a) * point(b), a * b);
        assert!(product.low <= nearest && nearest <= product.high);
        if nearest != 0.0 && nearest.is_finite() && nearest.abs() > 1e-270 {
            // The rest of the product, exactly.
            let rest = a.mul_add(b, -nearest);
            assert!(rest <= 0.0 || product.high > nearest);
            assert!(rest >= 0.0 || product.low < nearest);
        }
        if b != 0.0 {
            let (quotient, nearest) = (point(a) / point(b), a / b);
            assert!(quotient.low <= nearest && nearest <= quotient.high, "{a} / {b}");
            if nearest.is_finite() && nearest.abs() > 1e-200 && nearest.abs() < 1e200 && a.abs() > 1e-200 {
                assert!((-nearest).mul_add(b, a) == 0.0 || quotient.low < quotient.high);
            }
        }
        let root = point(a.abs()).sqrt();
        assert!(root.low <= a.abs().sqrt() && a.abs().sqrt() <= root.high);
    }
}

#[test]
fn intervals_hold_what_their_points_give() {
    let mut random = fastrand::Rng::with_seed(2);
    let mut interval = || {
        let (a, b) = ((random.f64() - 0.5) * 8.0, (random.f64() - 0.5) * 8.0);
        (Interval::new(a.min(b), a.max(b)), a.min(b) + (a - b).abs() * random.f64())
    };
    for _ in 0..50_000 {
        let ((a, x), (b, y)) = (interval(), interval());
        let (x, y) = (x.clamp(a.low, a.high), y.clamp(b.low, b.high));
        for (result, value) in [
            (a + b, x + y),
            (a - b, x - y),
            (a * b, x * y),
            (a / b, x / y),
            (a.square(), x * x),
            (a.abs(), x.abs()),
        ] {
            assert!(value.is_nan() || result.holds(point(value)), "{a:?} {b:?}");
        }
    }
}

#[test]
fn sums_of_products_hold_the_exact_sum() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..2_000 {
        // Products of whole numbers below 2²⁶ and powers of two, whose sum is exact in 128 bits.
        let (mut dot, mut exact) = (Dot::default(), 0i128);
        for _ in 0..random.usize(1..40) {
            let (a, b, shift) =
                (random.i64(-(1 << 26)..1 << 26), random.i64(-(1 << 26)..1 << 26), random.u32(..60));
            if a != 0 && b != 0 {
                dot.add(a as f64 * 2f64.powi(shift as i32), b as f64);
                exact += i128::from(a) * i128::from(b) * (1i128 << shift);
            }
        }
        let interval = dot.interval();
        // The nearest number to the exact sum is off by half a step at most.
        assert!(interval.low <= (exact as f64).next_up() && (exact as f64).next_down() <= interval.high);
    }
    assert_eq!(Dot::default().interval(), Interval::ZERO);
}

#[test]
fn elementary_functions_are_enclosed_tightly() {
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..20_000 {
        let x = (random.f64() - 0.5) * [1e-3, 1.0, 20.0, 600.0][random.usize(..4)];
        // The library is right to a unit in the last place or two; so the enclosure must be near, and hold it but for that.
        for (interval, value) in [
            (exp(point(x)), x.exp()),
            (sigmoid(point(x)), 1.0 / (1.0 + (-x).exp())),
            (tanh(point(x)), x.tanh()),
            (softplus(point(x)), x.max(0.0) + (-x.abs()).exp().ln_1p()),
            (exp_m1_at(-x.abs()), (-x.abs()).exp_m1()),
            (sin_at(x), x.sin()),
            (cos_at(x), x.cos()),
            (erf_at(x), libm::erf(x)),
        ] {
            let room = 1e-15 * value.abs()
                + 1e-15 * f64::from(u8::from(value.abs() <= 1.0 && x.abs() < 40.0))
                + 1e-300;
            assert!(interval.low <= interval.high);
            assert!(
                interval.low - room <= value && value <= interval.high + room,
                "{x}: {interval:?} {value}"
            );
            assert!(interval.high - interval.low <= 1e-13 * value.abs() + 1e-15, "{x}: {interval:?}");
        }
    }
    // e and e⁻¹ to thirty digits lie between the ends.
    let e = exp(Interval::ONE);
    assert!(e.low <= std::f64::consts::E && std::f64::consts::E <= e.high);
    for x in [f64::NEG_INFINITY, -1e4, -745.0, 709.9, 1e4, f64::INFINITY] {
        let value = x.exp();
        let interval = exp(point(x));
        assert!(interval.low <= value && value <= interval.high, "{x}: {interval:?}");
    }
}

/// Values to a few units in the last place.
fn value(curve: Curve, x: f64) -> f64 {
    match curve {
        Curve::Leaky { slope } => {
            if x < 0.0 {
                slope * x
            } else {
                x
            }
        }
        Curve::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Curve::Tanh => x.tanh(),
        Curve::Softplus => x.exp().ln_1p(),
        Curve::Silu => x / (1.0 + (-x).exp()),
        Curve::Gelu => 0.5 * x * libm::erfc(-x / 2.0_f64.sqrt()),
        Curve::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }
        Curve::Elu { .. } if x > 0.0 => x,
        Curve::Elu { alpha } => alpha * x.exp_m1(),
        Curve::Wave { cosine } => {
            if cosine {
                x.cos()
            } else {
                x.sin()
            }
        }
        Curve::Square => x * x,
        Curve::Clamp { low, high } => x.max(low).min(high),
        Curve::InverseRoot { eps } => 1.0 / (x.max(0.0) + eps).sqrt(),
    }
}

const CURVES: [Curve; 17] = [
    Curve::Softplus,
    Curve::Silu,
    Curve::Gelu,
    Curve::GeluTanh,
    Curve::Elu { alpha: 1.0 },
    Curve::Elu { alpha: 2.5 },
    Curve::Wave { cosine: false },
    Curve::Wave { cosine: true },
    Curve::Square,
    Curve::Clamp { low: -1.0, high: 0.5 },
    Curve::InverseRoot { eps: 0.1 },
    Curve::Clamp { low: 0.0, high: 0.0 },
    Curve::Leaky { slope: 0.0 },
    Curve::Leaky { slope: 0.2 },
    Curve::Leaky { slope: -1.0 },
    Curve::Sigmoid,
    Curve::Tanh,
];

#[test]
fn images_slopes_and_lines_are_right_on_a_grid_of_intervals() {
    let grid: Vec<f64> =
        (-12..=12).map(|i| f64::from(i) * 0.5 + if i % 3 == 0 { 0.0 } else { 0.01 }).collect();
    for curve in CURVES {
        for (i, &low) in grid.iter().enumerate() {
            for &high in &grid[i..] {
                let x = Interval::new(low, high);
                let (image, slopes) = (curve.image(x), curve.slopes(x));
                for wish in [-3.0, 0.0, 0.3, 1.0] {
                    let (lower, upper) = curve.lines(x, (wish, 0.5 - wish));
                    let at = |line: Line, x: f64| line.slope * x + line.intercept;
                    let mut before: Option<(f64, f64)> = None;
                    for step in 0..=40 {
                        let x = low + (high - low) * f64::from(step) / 40.0;
                        let y = value(curve, x);
                        let room = 2e-15 * (1.0 + y.abs());
                        assert!(
                            image.low <= y + room && y - room <= image.high,
                            "{curve:?} {low} {high} {x}"
                        );
                        assert!(at(lower, x) <= y + 1e-14, "{curve:?} {low} {high} {x}: {lower:?}");
                        assert!(at(upper, x) >= y - 1e-14, "{curve:?} {low} {high} {x}: {upper:?}");
                        if let Some((a, b)) = before
                            && x > a
                        {
                            let slope = (y - b) / (x - a);
                            assert!(slopes.low - 1e-9 <= slope && slope <= slopes.high + 1e-9);
                        }
                        before = Some((x, y));
                    }
                }
            }
        }
    }
}

/// Lines beside functions made of pieces touch them, whatever their slopes are.
#[test]
fn lines_beside_pieces_touch_and_hold_to_the_last_digits() {
    let mut random = fastrand::Rng::with_seed(17);
    let mut contacts = 0;
    for curve in CURVES.into_iter().filter(|curve| curve.takes_slopes()) {
        for _ in 0..300 {
            let (a, b) = (7.0 * random.f64() - 3.5, 7.0 * random.f64() - 3.5);
            let scale = [1.0, 1.0, 2.0, 1e-3, 1e-9][random.usize(..5)];
            let x = Interval::new(a.min(a + scale * (b - a)), a.max(a + scale * (b - a)));
            let slopes = (2.4 * random.f64() - 0.9, 2.4 * random.f64() - 0.9);
            let (lower, upper) = curve.lines(x, slopes);
            assert_eq!((lower.slope, upper.slope), slopes);
            let samples = (0..=2000).map(|i| x.low + (x.high - x.low) * f64::from(i) / 2000.0);
            let (mut below, mut above) = (f64::INFINITY, f64::NEG_INFINITY);
            let kinks = [-1.0, 0.0, 0.5].into_iter().filter(|kink| x.low < *kink && *kink < x.high);
            for p in samples.chain([x.high]).chain(kinks) {
                below = below.min(value(curve, p) - slopes.0 * p);
                above = above.max(value(curve, p) - slopes.1 * p);
            }
            let near = 1e-5 * (x.high - x.low).powi(2) + 1e-12;
            assert!(lower.intercept <= below + 4e-15, "{curve:?} {x:?}: {} for {below}", lower.intercept);
            assert!(upper.intercept >= above - 4e-15, "{curve:?} {x:?}: {} for {above}", upper.intercept);
            assert!(below - lower.intercept < near && upper.intercept - above < near, "{curve:?} {x:?}");
            contacts += 1;
        }
    }
    assert_eq!(contacts, 12 * 300);
}

/// Wide intervals, far ones and those without ends are enclosed, too.
/// Strips around slopes of any kind hold all points, and are hardly wider.
#[test]
fn strips_hold_functions_and_touch_them() {
    let mut random = fastrand::Rng::with_seed(31);
    for round in 0..3_000 {
        let curve = CURVES[random.usize(..CURVES.len())];
        let low = 8.0 * random.f64() - 4.0;
        let x = Interval::new(low, low + 10_f64.powf(-4.0 + 5.0 * random.f64()));
        let slope = match random.bool() {
            true => curve.slope(x),
            false => 3.0 * random.f64() - 1.5,
        };
        let strip = curve.strip(x, slope);
        let (mut least, mut largest) = (f64::INFINITY, f64::NEG_INFINITY);
        let middle = -x.low / (x.high - x.low);
        for i in 0..=400 {
            let part = if i == 400 { middle.clamp(0.0, 1.0) } else { f64::from(i) / 399.0 };
            let at = (x.low + part * (x.high - x.low)).clamp(x.low, x.high);
            let rest = value(curve, at) - slope * at;
            (least, largest) = (least.min(rest), largest.max(rest));
        }
        let tiny = 1e-12;
        assert!(strip.low <= least + tiny && largest <= strip.high + tiny, "round {round}: {curve:?} {x:?}");
        let width = 1.02 * (largest - least) + 1e-9;
        let waves = matches!(curve, Curve::Wave { .. });
        assert!(strip.high - strip.low < width || waves, "round {round}: {curve:?} {x:?} {slope} {strip:?}");
    }
}

#[test]
fn functions_made_of_pieces_are_enclosed_far_away() {
    let far =
        [f64::NEG_INFINITY, -1e300, -1e7, -800.0, -5e-324, 0.0, 1e-310, 800.0, 1e7, 1e300, f64::INFINITY];
    for curve in CURVES {
        for (i, &low) in far.iter().enumerate() {
            for &high in &far[i..] {
                let x = Interval::new(low, high);
                let (image, slopes) = (curve.image(x), curve.slopes(x));
                let (lower, upper) = curve.lines(x, (0.5, 0.5));
                assert!(image.low <= image.high && slopes.low <= slopes.high, "{curve:?} {x:?}");
                for p in far.iter().filter(|p| p.is_finite() && low <= **p && **p <= high) {
                    let y = value(curve, *p);
                    if y.is_nan() || y.is_infinite() {
                        continue;
                    }
                    let room = 1e-15 * y.abs() + 1e-300;
                    assert!(
                        image.low <= y + room && y - room <= image.high,
                        "{curve:?} {x:?} {p}: {image:?}"
                    );
                    let (down, up) = (lower.slope * p + lower.intercept, upper.slope * p + upper.intercept);
                    let room = 1e-14 * (y.abs() + p.abs()) + 1e-14;
                    assert!(down.is_nan() || down <= y + room, "{curve:?} {x:?} {p}: {down} above {y}");
                    assert!(up.is_nan() || up >= y - room, "{curve:?} {x:?} {p}: {up} below {y}");
                }
            }
        }
    }
}

/// A network without tensors.
fn network(input: &str, layers: &str) -> Model {
    read(input, layers).unwrap()
}

fn read(input: &str, layers: &str) -> Result<Model, String> {
    let description =
        format!(r#"{{"format": "gains-model", "version": 2, "input": {input}, "layers": [{layers}]}}"#);
    let header = serde_json::json!({"__metadata__": {"gains": description}}).to_string();
    Model::read(&[&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat())
}

/// Number 8 of the layers is an absolute value here and a sigmoid elsewhere.
#[test]
fn numbers_for_names_and_lists_for_objects_are_refused() {
    let one = r#"{"height": 1, "width": 1, "channels": 1}"#;
    assert!(read(one, r#"{"type": "relu"}"#).is_ok());
    for odd in [
        r#"{"type": "relu", "": 1}"#,
        r#"{"type": "relu", "type": "relu"}"#,
        r#"{"type": "relu", "slope": 0.0}"#,
    ] {
        assert!(read(one, odd).is_err(), "{odd}");
    }
    let solver = r#"{"method": "euler", "controller": {"type": "fixed", "steps": 1}, "end_time": 1}"#;
    let ode = |solver: &str| format!(r#"{{"type": "ode", "dynamics": [], "solver": {solver}}}"#);
    assert!(read(one, &ode(solver)).is_ok());
    for (input, layers) in [
        (one, r#"{"type": "parallel", "join": "add", "branches": [[{"type": 8}]]}"#.to_string()),
        (one, r#"["relu"]"#.to_string()),
        (one, ode(r#"{"method": "euler", "controller": ["fixed", 1], "end_time": 1}"#)),
        (one, ode(r#"["euler", 1, {"type": "fixed", "steps": 1}]"#)),
        ("[1, 1, 1]", r#"{"type": "relu"}"#.to_string()),
    ] {
        let said = read(input, &layers).err().unwrap_or_default();
        assert!(
            said.contains("not a text") || said.contains("something else than a map"),
            "{layers}: {said}"
        );
    }
}

/// x and y of the input joined, as value 3.
fn joined(join: &str) -> Model {
    let branches =
        r#"[{"type": "slice", "first": 0, "length": 1}], [{"type": "slice", "first": 1, "length": 1}]"#;
    let layer = format!(r#"{{"type": "parallel", "join": "{join}", "branches": [{branches}]}}"#);
    network(r#"{"height": 1, "width": 1, "channels": 2}"#, &layer)
}

/// Products and maxima of points lie in their boxes and between their planes, and so do their changes.
#[test]
fn products_and_maxima_lie_between_their_planes() {
    let mut random = fastrand::Rng::with_seed(23);
    for (join, of) in [("product", (|x, y| x * y) as fn(f64, f64) -> f64), ("max", f64::max)] {
        let Model { network, .. } = joined(join);
        for round in 0..4000 {
            let scale = [1.0, 1e-6, 30.0][round % 3];
            let mut number = || (2.0 * random.f64() - 1.0) * scale;
            let mut interval = |near: Option<Interval>| {
                let (a, b) = (number(), number());
                let near = near.map(|near| Interval::new(near.low + 0.1 * a, near.high + 0.1 * b.abs()));
                near.filter(|near| near.low <= near.high).unwrap_or(Interval::new(a.min(b), a.max(b)))
            };
            let (old_x, old_y) = (interval(None), interval(None));
            let (new_x, new_y) = (interval(Some(old_x)), interval(Some(old_y)));
            let boxes = |x: Interval, y: Interval| {
                let mut boxes = vec![vec![x, y], vec![x], vec![y]];
                let joined = image(&network, 3, &boxes, Interval::ZERO, Deadline::default());
                boxes.push(joined);
                boxes
            };
            let (before, now) = (boxes(old_x, old_y), boxes(new_x, new_y));
            let mut inside = |x: Interval| match random.u8(..4) {
                0 => x.low,
                1 => x.high,
                _ => (x.low + random.f64() * (x.high - x.low)).clamp(x.low, x.high),
            };
            let pairs: Vec<[f64; 4]> =
                (0..8).map(|_| [inside(old_x), inside(old_y), inside(new_x), inside(new_y)]).collect();
            let hull = |a: usize, b: usize| {
                let apart = pairs.iter().map(|pair| point(pair[a]) - point(pair[b]));
                apart.reduce(Interval::hull).unwrap()
            };
            let (dx, dy) = (hull(2, 0), hull(3, 1));
            let mut changes = vec![vec![dx, dy], vec![dx], vec![dy]];
            changes.push(change(&network, 3, (&before, &now), &changes, Interval::ZERO, Deadline::default()));
            let stage =
                |values: &Vec<_>, changes| Stage { time: Interval::ZERO, values: values.clone(), changes };
            let (first, second) = (stage(&before, vec![]), stage(&now, changes.clone()));
            let known = Changes { network: &network, before: &first, now: &second };
            let (slopes, tangents) = (Slopes::default(), Tangents::default());
            let lines = Values {
                network: &network,
                boxes: &now,
                time: Interval::ZERO,
                slopes: &slopes,
                tangents: &tangents,
                deadline: Deadline::default(),
            };
            let planes = [known.planes(3, 0), lines.planes(3, 0)];
            let room = 1e-14 * (scale + scale * scale);
            let at =
                |plane: Plane, x: f64, y: f64| plane.slopes[0] * x + plane.slopes[1] * y + plane.constant;
            for [p, q, x, y] in &pairs {
                let (value, moved) = (of(*x, *y), of(*x, *y) - of(*p, *q));
                assert!(now[3][0].low <= value + room && value - room <= now[3][0].high);
                assert!(
                    changes[3][0].low <= moved + room && moved - room <= changes[3][0].high,
                    "{join} {round}"
                );
                for ((below, above), value, x, y) in
                    [(planes[0], moved, x - p, y - q), (planes[1], value, *x, *y)]
                {
                    assert!(at(below, x, y) <= value + room, "{join} {round}: {below:?} above {value}");
                    assert!(at(above, x, y) >= value - room, "{join} {round}: {above:?} below {value}");
                }
            }
        }
    }
}

/// Whatever the shares are, rows that meet are replaced by one below all of them, which touches one of them.
#[test]
fn rows_that_meet_become_one_below_all() {
    let mut random = fastrand::Rng::with_seed(41);
    for _ in 0..2000 {
        let mut number = || 4.0 * random.f64() - 2.0;
        let boxes: Vec<Interval> =
            (0..3).map(|_| (number(), number())).map(|(a, b)| Interval::new(a.min(b), a.max(b))).collect();
        let mut row = || Linear { coefficients: (0..3).map(|_| number()).collect(), constant: number() };
        let rows = [row(), row(), row()];
        let shares: Vec<f64> = match random.u8(..3) {
            0 => vec![1.0, 0.0, 0.0],
            _ => (0..3).map(|_| 1.5 * random.f64() - 0.3).collect(),
        };
        let all: Vec<&Linear> = rows.iter().collect();
        let merged = Linear::below_all(&all, &shares, &boxes);
        let at = |row: &Linear, x: &[f64]| {
            row.constant + row.coefficients.iter().zip(x).map(|(a, x)| a * x).sum::<f64>()
        };
        let mut nearest = f64::INFINITY;
        for corner in 0..8 {
            let end = |i: usize| if corner >> i & 1 == 0 { boxes[i].low } else { boxes[i].high };
            let x: Vec<f64> = (0..3).map(end).collect();
            for row in &rows {
                let above = at(row, &x) - at(&merged, &x);
                assert!(above > -1e-13, "a row is below by {above}");
                nearest = nearest.min(above);
            }
        }
        assert!(nearest < 1e-12, "nothing touches: {nearest}");
    }
}

/// The largest entry under every kernel, the padding left out.
#[test]
fn pooling_takes_the_largest() {
    let image = r#"{"height": 5, "width": 4, "channels": 2}"#;
    let mut random = fastrand::Rng::with_seed(31);
    for (kernel, stride, padding) in [
        ((2, 2), (2, 2), (0, 0)),
        ((3, 2), (1, 2), (1, 1)),
        ((5, 4), (1, 1), (0, 0)),
        ((1, 3), (2, 1), (0, 1)),
    ] {
        let layer = format!(
            r#"{{"type": "max_pool2d", "kernel": [{}, {}], "stride": [{}, {}], "padding": [{}, {}]}}"#,
            kernel.0, kernel.1, stride.0, stride.1, padding.0, padding.1
        );
        let Model { network, .. } = network(image, &layer);
        let pixels: Vec<f64> = (0..40).map(|_| random.f64() - 0.5).collect();
        let point: Vec<Interval> = pixels.iter().map(|&x| point(x)).collect();
        let found =
            gains_check::witness::run(&network, vec![point], Deadline::default(), &mut |_, state| Ok(state))
                .unwrap();
        let places = |side: usize, kernel: usize, stride: usize, padding: usize| {
            let ends = (side + 2 * padding - kernel) / stride;
            (0..=ends).map(move |place| place * stride).collect::<Vec<_>>()
        };
        let mut expected = Vec::new();
        for row in places(5, kernel.0, stride.0, padding.0) {
            for column in places(4, kernel.1, stride.1, padding.1) {
                for channel in 0..2 {
                    let mut most = f64::NEG_INFINITY;
                    for (i, j) in (0..kernel.0).flat_map(|i| (0..kernel.1).map(move |j| (i, j))) {
                        let (r, c) =
                            ((row + i).wrapping_sub(padding.0), (column + j).wrapping_sub(padding.1));
                        if r < 5 && c < 4 {
                            most = most.max(pixels[(r * 4 + c) * 2 + channel]);
                        }
                    }
                    expected.push(Interval::point(most));
                }
            }
        }
        assert_eq!(found, expected, "{kernel:?} {stride:?} {padding:?}");
    }
}

/// Each group with mean 0 and variance 1, or a little less.
#[test]
fn groups_are_normalised() {
    let mut random = fastrand::Rng::with_seed(37);
    let layer =
        r#"{"type": "group_norm", "name": "n", "groups": 2, "channels": 4, "eps": 0.001, "affine": false}"#;
    let Model { network, .. } = network(r#"{"height": 2, "width": 1, "channels": 4}"#, layer);
    let x: Vec<f64> = (0..8).map(|_| random.f64() * 3.0).collect();
    let input = x.iter().map(|&x| point(x)).collect();
    let found =
        gains_check::witness::run(&network, vec![input], Deadline::default(), &mut |_, state| Ok(state));
    for (i, found) in found.unwrap().iter().enumerate() {
        let group: Vec<f64> = (0..8).filter(|j| j % 4 / 2 == i % 4 / 2).map(|j| x[j]).collect();
        let mean = group.iter().sum::<f64>() / 4.0;
        let variance = group.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4.0;
        let expected = (x[i] - mean) / (variance + 0.001).sqrt();
        assert!((found.middle() - expected).abs() < 1e-13 && found.high - found.low < 1e-12, "{i}");
    }
}

/// A rooted tree, as the list of its subtrees.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Tree(Vec<Tree>);

impl Tree {
    fn order(&self) -> usize {
        1 + self.0.iter().map(Self::order).sum::<usize>()
    }

    /// γ, the density.
    fn density(&self) -> f64 {
        self.order() as f64 * self.0.iter().map(Self::density).product::<f64>()
    }

    /// The elementary weight of stage i.
    fn weight(&self, a: &[Vec<f64>], i: usize) -> f64 {
        self.0.iter().map(|part| (0..a[i].len()).map(|j| a[i][j] * part.weight(a, j)).sum::<f64>()).product()
    }
}

/// All trees up to an order: a tree with one more leaf hung on at every place of every smaller one. Subtrees are in order, so
/// that each is there once.
fn trees(order: usize) -> Vec<Tree> {
    fn grown(tree: &Tree) -> Vec<Tree> {
        let mut all = vec![Tree([&[Tree(vec![])], &tree.0[..]].concat())];
        for i in 0..tree.0.len() {
            for part in grown(&tree.0[i]) {
                let mut parts = tree.0.clone();
                parts[i] = part;
                parts.sort();
                all.push(Tree(parts));
            }
        }
        all
    }
    let mut all = vec![Tree(vec![])];
    let mut last = all.clone();
    for _ in 1..order {
        last = last.iter().flat_map(grown).collect();
        last.sort();
        last.dedup();
        all.extend(last.clone());
    }
    all
}

#[test]
fn tableaux_have_their_orders() {
    // Name, order of the result, order of the method it is compared with (b − e).
    let orders = [
        ("euler", 1, 0),
        ("midpoint", 2, 0),
        ("heun", 2, 1),
        ("rk4", 4, 0),
        ("rk38", 4, 0),
        ("bosh3", 3, 2),
        ("fehlberg2", 2, 1),
        ("dopri5", 5, 4),
        ("dopri8", 8, 7),
    ];
    for (name, order, compared) in orders {
        let tableau = Tableau::named(name).unwrap();
        assert_eq!(tableau.order, order as u32);
        let middle = |list: &[Interval]| list.iter().map(|x| x.middle()).collect::<Vec<_>>();
        let a: Vec<Vec<f64>> = tableau.stages.iter().map(|row| middle(row)).collect();
        let (b, e) = (middle(&tableau.result), middle(&tableau.errors));
        // The fractions of dopri8 are rounded ones.
        let near = if name == "dopri8" { 1e-9 } else { 1e-13 };
        for (row, time) in a.iter().zip(&tableau.times) {
            assert!(
                (row.iter().sum::<f64>() - time.middle()).abs() < near,
                "{name}: rows sum up to their times"
            );
        }
        let off = |weights: &[f64], tree: &Tree| {
            (weights.iter().enumerate().map(|(i, b)| b * tree.weight(&a, i)).sum::<f64>()
                - 1.0 / tree.density())
            .abs()
        };
        for tree in trees(order) {
            assert!(off(&b, &tree) < near, "{name}: {tree:?}");
        }
        assert!(trees(order + 1).iter().any(|tree| off(&b, tree) > 1e-7), "{name} has a higher order");
        if compared > 0 {
            let other: Vec<f64> = b.iter().zip(&e).map(|(b, e)| b - e).collect();
            for tree in trees(compared) {
                assert!(off(&other, &tree) < near, "{name}, what it is compared with: {tree:?}");
            }
        }
    }
    assert!(Tableau::named("dopri5").unwrap().ends_where_the_next_begins());
    assert!(Tableau::named("bosh3").unwrap().ends_where_the_next_begins());
    assert!(!Tableau::named("fehlberg2").unwrap().ends_where_the_next_begins());
    assert!(!Tableau::named("heun").unwrap().ends_where_the_next_begins());
}

fn solver(controller: &str) -> Solver {
    let text = format!(r#"{{"method": "dopri5", "end_time": 1.0, "controller": {controller}}}"#);
    Solver::read(&read_json(&text).unwrap(), None).unwrap()
}

#[test]
fn steps_are_clipped_and_rejected_as_the_paper_says() {
    let solver = solver(
        r#"{"type": "controlled_adaptive", "factor": 2, "tolerance": 0.005, "initial_step": 0.25, "minimum_step": 0.1, "rejections_after_clipping": 1}"#,
    );
    let place = |next: Option<Next>| match next {
        Some(Next::Place(place)) => place,
        other => panic!("{other:?}"),
    };
    let start = solver.start();
    assert_eq!((solver.time(start), solver.step(start)), (0.0, 0.25));
    // 0.125 is above the least step, 0.0625 is not: the second rejection ends the checks.
    let smaller = place(solver.after(start, Action::Reject));
    assert_eq!(solver.step(smaller), 0.125);
    let settled = place(solver.after(smaller, Action::Reject));
    assert_eq!((solver.step(settled), solver.looks_at_errors(settled)), (0.125, None));
    // 0.25, then 0.5 up to 0.75, then 1 is clipped to 0.25, rejected once to 0.125, then no more.
    let larger = place(solver.after(start, Action::Increase));
    let clipped = place(solver.after(larger, Action::Increase));
    assert_eq!((solver.time(clipped), solver.step(clipped)), (0.75, 0.25));
    let half = place(solver.after(clipped, Action::Reject));
    assert_eq!(solver.step(half), 0.125);
    let settled = place(solver.after(half, Action::Reject));
    assert_eq!((solver.step(settled), solver.looks_at_errors(settled)), (0.125, None));
    assert_eq!(solver.after(clipped, Action::Keep), Some(Next::End));
    let last = place(solver.after(half, Action::Keep));
    assert_eq!((solver.time(last), solver.step(last)), (0.875, 0.125));
    assert_eq!(solver.after(last, Action::Increase), Some(Next::End));
    // Growing at the last step leads to the end as keeping does, so it counts as keeping.
    let all = |place, low, high| solver.actions(place, Some(Interval::new(low, high))).unwrap();
    assert_eq!(all(last, 0.0, 0.01), vec![Action::Keep]);
    assert_eq!(all(start, 0.0, 0.01), vec![Action::Increase]);
    assert_eq!(
        all(start, 0.03125, 0.03125),
        vec![Action::Keep, Action::Increase],
        "the threshold is taken both ways"
    );
    assert_eq!(all(start, 0.04, 1.0), vec![Action::Keep]);
    assert_eq!(all(start, 0.04, 1.0f64.next_up()), vec![Action::Reject, Action::Keep]);
    assert_eq!(all(start, 0.0, 2.0), vec![Action::Reject, Action::Keep, Action::Increase]);
}

#[test]
fn fixed_steps_end_at_the_end() {
    for steps in 1..20 {
        let solver = solver(&format!(r#"{{"type": "fixed", "steps": {steps}}}"#));
        let (mut place, mut count) = (solver.start(), 1);
        while let Some(Next::Place(next)) = solver.after(place, Action::Keep) {
            place = next;
            count += 1;
        }
        assert_eq!(count, steps);
        assert!((solver.time(place) + solver.step(place) - 1.0).abs() < 1e-12);
    }
}

#[test]
fn settled_functions_are_nowhere_above_what_they_stand_for() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..2_000 {
        let mut interval = |size: f64| {
            let (a, b) = ((random.f64() - 0.5) * size, (random.f64() - 0.5) * size);
            Interval::new(a.min(b), a.max(b))
        };
        let (coefficients, boxes) = ([interval(1.0), interval(1e-9)], [interval(4.0), interval(1e6)]);
        let settled = Linear::settle(coefficients.into_iter(), 0.5, &boxes);
        for corner in 0..16u8 {
            let end = |x: Interval, bit: u8| if corner >> bit & 1 == 0 { x.low } else { x.high };
            let exact =
                0.5 + end(coefficients[0], 0) * end(boxes[0], 1) + end(coefficients[1], 2) * end(boxes[1], 3);
            let at = settled.constant
                + settled.coefficients[0] * end(boxes[0], 1)
                + settled.coefficients[1] * end(boxes[1], 3);
            assert!(at <= exact + 1e-12 * (1.0 + exact.abs()));
        }
        // The least value over the box is at one of its corners.
        let least = settled.least(&boxes);
        let corner = |a: f64, x: Interval| (a * x.low).min(a * x.high);
        let exact = settled.constant
            + corner(settled.coefficients[0], boxes[0])
            + corner(settled.coefficients[1], boxes[1]);
        assert!(least <= exact && least > exact - 1e-9 * (1.0 + exact.abs()));
    }
}

/// The least value of a · x on a ball, against points of its boundary.
#[test]
fn balls_are_bounded_from_below_and_nearly_touched() {
    let mut random = fastrand::Rng::with_seed(6);
    for norm in [1, 2] {
        for _ in 0..200 {
            let numbers =
                |random: &mut fastrand::Rng| (0..3).map(|_| random.f64() - 0.5).collect::<Vec<f64>>();
            let (a, centre) = (numbers(&mut random), numbers(&mut random));
            let scales = vec![random.f64() + 0.1, 0.0, random.f64() + 0.1];
            let ball = Ball { norm, centre: centre.clone(), scales: scales.clone() };
            let (least, mut lowest) = (ball.least(&a), f64::INFINITY);
            for turn in 0..3600 {
                let angle = f64::from(turn) * std::f64::consts::TAU / 3600.0;
                let (u, v) = (angle.cos(), angle.sin());
                let length = if norm == 1 { u.abs() + v.abs() } else { 1.0 } * (1.0 + 1e-12);
                let point =
                    [centre[0] + scales[0] * u / length, centre[1], centre[2] + scales[2] * v / length];
                assert!(ball.holds(&point), "{point:?}");
                lowest = lowest.min(a.iter().zip(&point).map(|(a, x)| a * x).sum());
                assert!(!ball.holds(&[point[0] + scales[0] * u * 1e-9, point[1] + 1e-12, point[2]]));
                assert!(!ball.holds(&[
                    centre[0] + scales[0] * u * 1.5,
                    centre[1],
                    centre[2] + scales[2] * v * 1.5
                ]));
            }
            assert!(least <= lowest + 1e-12 && lowest < least + 1e-5, "{norm}: {least} {lowest}");
        }
    }
}
