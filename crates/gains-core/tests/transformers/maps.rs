//! Affine maps: boxes, gradients, rows and windows.

use std::sync::Arc;

use gains_core::operator::AffineKnown;
use gains_core::operator::curve::CurveKnown;
use gains_core::operator::{Elementwise, Spot, Steering};
use gains_core::{AffineMap, Arithmetic, BoxVec, Known, Operator, Rows, Shape, Support, Window};

use crate::exact::Exact;
use crate::matrices::{Defined, number, numbers, random_box};

const EPSILON: f64 = f64::EPSILON;

/// There is nothing to choose at an affine map.
struct NoChoice;

impl Steering for NoChoice {
    fn curve(&mut self, node: Elementwise, _: &CurveKnown, _: &mut Rows) {
        panic!("{node:?} is no affine map");
    }
}

/// Rows on the outputs of a map pulled back to its inputs, where `on` are the outputs that are known and `entries` the
/// inputs that are wanted; all if there are none.
fn pull_known(
    map: &AffineMap,
    rows: &Rows,
    time: f64,
    magnitude: &[f64],
    arithmetic: Arithmetic,
    (on, entries, dense): (Support, Option<&Arc<[u32]>>, bool),
) -> Rows {
    let matrix = dense.then(|| map.to_matrix());
    let known = Known::Affine(AffineKnown::of_value(map, magnitude, on, time));
    let (shapes, entries) = ([map.input()], [entries]);
    let matrix = matrix.as_ref();
    let spot = Spot { value: 1, from: &[0], shapes: &shapes, entries: &entries, matrix, arithmetic };
    let pulled = Operator::Affine(Arc::new(map.clone())).pull(&known, rows.clone(), spot, &mut NoChoice);
    let [pulled] = <[Rows; 1]>::try_from(pulled).expect("one argument");
    pulled
}

fn pull_back(map: &AffineMap, rows: &Rows, time: f64, magnitude: &[f64], arithmetic: Arithmetic) -> Rows {
    pull_known(map, rows, time, magnitude, arithmetic, (Support::full(map.output()), None, false))
}

/// Centres and widths from nothing to far apart.
const SCALES: [(f64, f64); 8] = [
    (1.0, 0.1),
    (1.0, 1e-12),
    (1.0, 0.0),
    (0.0, 1.0),
    (1e-310, 1e-310),
    (1e6, 1e6),
    (1e-150, 1.0),
    (1e15, 1e-3),
];

/// How far the program of an arithmetic may be from the exact value whose magnitude sum is `size`: every
/// term passes through the promised number of roundings, each at most 2⁻²⁴, the time through one more.
fn program_error(arithmetic: Arithmetic, map: &AffineMap, size: &Exact) -> Exact {
    match arithmetic {
        Arithmetic::Real => Exact::zero(),
        // Moving entries about is no computation.
        Arithmetic::Float32 if matches!(map, AffineMap::Select(_)) => Exact::zero(),
        Arithmetic::Float32 => {
            let roundings = Arithmetic::depth(map.terms()) + usize::from(map.uses_time());
            size * &Exact::from(roundings as f64 * f64::from(f32::EPSILON) / 2.0)
        }
    }
}

#[test]
fn boxes_hold_the_exact_image_and_little_more() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut slack: f64 = 0.0;
    for round in 0..40 {
        let (scale, width) = SCALES[round % SCALES.len()];
        let weights = [1.0, 1e-3, 1e4][round % 3];
        for case in Defined::all(&mut random, weights) {
            let x = random_box(&mut random, case.map.input().len(), scale, width);
            let time = number(&mut random, 1.0).abs();
            for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
                let image = case.map.apply_box(&x, time, arithmetic);
                for o in 0..image.len() {
                    let (mut low, mut high) = (case.shift(o, time), case.shift(o, time));
                    for (w, i) in case.matrix[o].iter().zip(0..) {
                        let (at_lower, at_upper) = (w * &x.lower[i].into(), w * &x.upper[i].into());
                        low = &low + &at_lower.clone().min(at_upper.clone());
                        high = &high + &at_lower.max(at_upper);
                    }
                    let size = case.size(o, &x, time);
                    let error = program_error(arithmetic, &case.map, &size);
                    let what = format!("{} {arithmetic} output {o}", case.what);
                    let (lower, upper) = (Exact::from(image.lower[o]), Exact::from(image.upper[o]));
                    assert!(lower <= &low - &error && upper >= &high + &error, "{what}");
                    if arithmetic == Arithmetic::Real {
                        let room = (&low - &lower).max(&upper - &high).to_f64();
                        let unit = EPSILON * size.to_f64() * case.map.terms() as f64 + 1e-289;
                        assert!(room < 40.0 * unit, "{what}: {} roundings per term", room / unit);
                        slack = slack.max(room / unit);
                    }
                }
            }
        }
    }
    println!("boxes: at most {slack:.1} roundings per term of slack");
    assert!(slack < 40.0, "{slack}");
}

/// How far outputs are apart when inputs and times are.
#[test]
fn differences_hold_the_exact_difference() {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..40 {
        let (scale, width) = SCALES[round % SCALES.len()];
        for case in Defined::all(&mut random, [1.0, 1e-3, 1e4][round % 3]) {
            let d = random_box(&mut random, case.map.input().len(), scale, width);
            let elapsed = number(&mut random, 1.0);
            let (image, magnitude) = case.map.apply_difference(&d, elapsed);
            for o in 0..image.len() {
                let shift = &case.clock[o] * &elapsed.into();
                let low = least(&case.matrix[o], shift.clone(), &d);
                let negated: Vec<Exact> = case.matrix[o].iter().map(|w| -w).collect();
                let high = -&least(&negated, -&shift, &d);
                let what = format!("{} output {o}", case.what);
                assert!(Exact::from(image.lower[o]) <= low && Exact::from(image.upper[o]) >= high, "{what}");
                assert!(Exact::from(magnitude[o]) >= low.abs().max(high.abs()), "{what}");
            }
        }
    }
}

#[test]
fn gradients_are_the_transposed_matrix() {
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..30 {
        for case in Defined::all(&mut random, 1.0) {
            let gradient = numbers(&mut random, case.map.output().len(), 1.0);
            let pulled = case.map.apply_transposed(&gradient);
            for (i, &p) in pulled.iter().enumerate() {
                let (mut exact, mut size) = (Exact::zero(), Exact::zero());
                for (o, &g) in gradient.iter().enumerate() {
                    let term = &case.matrix[o][i] * &g.into();
                    size = &size + &term.abs();
                    exact = &exact + &term;
                }
                let off = (&exact - &p.into()).abs().to_f64();
                assert!(off <= 60.0 * EPSILON * size.to_f64(), "{}: {off}", case.what);
            }
            let matrix = case.map.to_matrix();
            for (o, row) in case.matrix.iter().enumerate() {
                for (i, w) in row.iter().enumerate() {
                    let ours = matrix.data[o * matrix.columns + i];
                    assert!((&Exact::from(ours) - w).abs().to_f64() <= EPSILON * w.abs().to_f64());
                }
            }
        }
    }
}

/// The smallest value over a box of `Σ slope·x + constant`.
pub fn least(slopes: &[Exact], constant: Exact, x: &BoxVec) -> Exact {
    slopes.iter().enumerate().fold(constant, |sum, (i, slope)| {
        &sum + &(slope * &x.lower[i].into()).min(slope * &x.upper[i].into())
    })
}

/// What a row pulled back claims, minus what is true, must never be positive: `(A W − A')·x` plus the
/// constants, minimised exactly over the box; the program's own error comes off as well.
fn check_pulled(
    case: &Defined,
    rows: &Rows,
    pulled: &Rows,
    x: &BoxVec,
    time: f64,
    arithmetic: Arithmetic,
    slack: &mut f64,
) {
    let inputs = case.map.input().len();
    let here: Vec<usize> = pulled.on().indices().iter().map(|&i| i as usize).collect();
    let outputs: Vec<usize> = rows.on().indices().iter().map(|&o| o as usize).collect();
    for row in 0..rows.count {
        let mut slopes = vec![Exact::zero(); inputs];
        let mut constant = &Exact::from(rows.constant[row]) - &rows.slack[row].into();
        let mut size = constant.abs();
        let mut error = Exact::zero();
        for (&o, &a) in outputs.iter().zip(rows.row(row)) {
            let a = Exact::from(a);
            for (slope, w) in slopes.iter_mut().zip(&case.matrix[o]) {
                *slope = &*slope + &(&a * w);
            }
            constant = &constant + &(&a * &case.shift(o, time));
            let part = &a.abs() * &case.size(o, x, time);
            error = &error + &program_error(arithmetic, &case.map, &part);
            size = &size + &part;
        }
        for (&i, &a) in here.iter().zip(pulled.row(row)) {
            slopes[i] = &slopes[i] - &a.into();
        }
        constant = &(&constant - &pulled.constant[row].into()) + &pulled.slack[row].into();
        let gap = &least(&slopes, constant, x) - &error;
        assert!(!gap.is_negative(), "{} {arithmetic} row {row}: {:e}", case.what, gap.to_f64());
        if arithmetic == Arithmetic::Real {
            let terms = (case.map.terms() + outputs.len()) as f64;
            *slack = slack.max(gap.to_f64() / (EPSILON * size.to_f64() * terms + 1e-289));
        }
    }
}

#[test]
fn rows_pulled_back_stay_below_the_exact_rows() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut slack: f64 = 0.0;
    for round in 0..40 {
        let (scale, width) = SCALES[round % SCALES.len()];
        for case in Defined::all(&mut random, [1.0, 1e-3, 1e4][round % 3]) {
            let x = random_box(&mut random, case.map.input().len(), scale, width);
            let time = number(&mut random, 1.0).abs();
            let output = case.map.output();
            let mut rows = Rows::new(Window::full(output), numbers(&mut random, 3 * output.len(), 1.0));
            rows.constant = numbers(&mut random, 3, 1.0);
            rows.slack = numbers(&mut random, 3, 1e-9).iter().map(|s| s.abs()).collect();
            for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
                let magnitude = case.map.magnitude(&x.magnitudes(), time, arithmetic);
                let traced = case.map.apply_box_traced(&x, &x.magnitudes(), time, arithmetic);
                assert_eq!(traced.0, case.map.apply_box(&x, time, arithmetic));
                for (a, b) in traced.1.iter().zip(&magnitude) {
                    assert!((a - b).abs() <= 1e-12 * b, "{}", case.what);
                }
                let pulled = pull_back(&case.map, &rows, time, &traced.1, arithmetic);
                check_pulled(&case, &rows, &pulled, &x, time, arithmetic, &mut slack);
            }
        }
    }
    println!("rows: at most {slack:.1} roundings per term of slack");
    assert!(slack < 40.0, "{slack}");
}

#[test]
fn windows_at_every_pixel_agree_with_the_whole_matrix() {
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..40 {
        for case in Defined::all(&mut random, 1.0) {
            let x = random_box(&mut random, case.map.input().len(), 1.0, 0.1);
            let output = case.map.output();
            let magnitude = case.map.magnitude(&x.magnitudes(), 0.5, Arithmetic::Real);
            let channels: Vec<usize> = (0..output.channels).filter(|_| random.u8(..) < 200).collect();
            for position in 0..output.positions() {
                let (row, column) = (position / output.width, position % output.width);
                let rows = Rows::pixel(Window::pixel(output, row, column), &channels);
                let pulled = pull_back(&case.map, &rows, 0.5, &magnitude, Arithmetic::Real);
                check_pulled(&case, &rows, &pulled, &x, 0.5, Arithmetic::Real, &mut 0.0);
            }
        }
    }
}

/// Rows on chosen outputs, back to chosen inputs, by the map's own way and by its dense matrix: inputs that are left out
/// are 0, so their coefficients do not matter.
#[test]
fn chosen_entries_agree_with_the_whole_matrix() {
    let mut random = fastrand::Rng::with_seed(8);
    let some = |random: &mut fastrand::Rng, count: usize| -> Arc<[u32]> {
        (0..count as u32).filter(|_| random.u8(..) < 130).collect()
    };
    for round in 0..40 {
        for case in Defined::all(&mut random, 1.0) {
            let mut x = random_box(&mut random, case.map.input().len(), 1.0, 0.1);
            let wanted = some(&mut random, x.len());
            for i in (0..x.len()).filter(|i| !wanted.contains(&(*i as u32))) {
                (x.lower[i], x.upper[i]) = (0.0, 0.0);
            }
            let output = case.map.output();
            let magnitude = case.map.magnitude(&x.magnitudes(), 0.5, Arithmetic::Real);
            let on = Support::entries(output, some(&mut random, output.len()));
            if on.is_empty() {
                continue;
            }
            let rows = Rows::new(on.clone(), numbers(&mut random, 2 * on.len(), 1.0));
            for known in [on.clone(), Support::full(output)] {
                let ways = (known, Some(&wanted), round % 2 == 0);
                let pulled = pull_known(&case.map, &rows, 0.5, &magnitude, Arithmetic::Real, ways);
                assert_eq!(pulled.on().indices(), wanted.to_vec(), "{}", case.what);
                check_pulled(&case, &rows, &pulled, &x, 0.5, Arithmetic::Real, &mut 0.0);
            }
        }
    }
}

/// A window two convolutions deep sees what the full rows see, and bounds the same.
#[test]
fn windows_through_two_convolutions_bound_like_full_rows() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut compared = 0;
    while compared < 30 {
        let Some(second) = Defined::conv(&mut random, 1.0) else { continue };
        let Some(first) = first_for(&mut random, second.map.input()) else { continue };
        let x = random_box(&mut random, first.input().len(), 1.0, 0.3);
        let (middle, v1) = first.apply_box_traced(&x, &x.magnitudes(), 0.0, Arithmetic::Real);
        let v2 = second.map.magnitude(&middle.magnitudes(), 0.0, Arithmetic::Real);
        let output = second.map.output();
        for position in 0..output.positions() {
            let channels: Vec<usize> = (0..output.channels).collect();
            let window = Window::pixel(output, position / output.width, position % output.width);
            let small = Rows::pixel(window, &channels);
            let mut full = Rows::zeros(small.count, Window::full(output));
            for row in 0..small.count {
                full.row_mut(row)[position * output.channels..][..output.channels]
                    .copy_from_slice(small.row(row));
            }
            let bounds = |rows: &Rows| {
                let rows = pull_back(&second.map, rows, 0.0, &v2, Arithmetic::Real);
                pull_back(&first, &rows, 0.0, &v1, Arithmetic::Real).lower_bounds(&x)
            };
            for (a, b) in bounds(&small).iter().zip(bounds(&full)) {
                assert!((a - b).abs() <= 1e-11 * (1.0 + b.abs()), "{a} {b}");
            }
        }
        compared += 1;
    }
}

/// A padded 3×3 convolution whose output has the given shape.
fn first_for(random: &mut fastrand::Rng, shape: Shape) -> Option<AffineMap> {
    let geometry = gains_core::affine::ConvGeometry {
        kernel: (3, 3),
        stride: (1, 1),
        padding: (1, 1),
        dilation: (1, 1),
    };
    let weights = numbers(random, shape.channels * 2 * 9, 1.0);
    let bias = numbers(random, shape.channels, 1.0);
    let input = Shape::image(shape.height, shape.width, 2);
    gains_core::affine::Conv2d::new(input, geometry, &weights, &bias, false).map(AffineMap::Conv)
}

/// Lower bounds of rows over boxes, exactly, from subnormal boxes to huge ones.
#[test]
fn concretised_rows_stay_below_the_exact_minimum() {
    let mut random = fastrand::Rng::with_seed(6);
    for round in 0..400 {
        let shape = Shape::image(2, 3, random.usize(1..4));
        let (scale, width) = SCALES[round % SCALES.len()];
        let x = random_box(&mut random, shape.len(), scale, width);
        let mut rows = Rows::new(Window::full(shape), numbers(&mut random, shape.len(), 10.0));
        rows.constant = numbers(&mut random, 1, scale);
        rows.slack = vec![number(&mut random, 1e-3 * scale).abs()];
        let slopes: Vec<Exact> = rows.coefficients.iter().map(|&a| a.into()).collect();
        let constant = &Exact::from(rows.constant[0]) - &rows.slack[0].into();
        let exact = least(&slopes, constant, &x);
        assert!(Exact::from(rows.lower_bounds(&x)[0]) <= exact, "round {round}");
    }
}
