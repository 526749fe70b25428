//! How far two values are apart whose arguments are close, as boxes and as rows, against pairs of points.

use gains_core::affine_form::{AffineForm, Symbols};
use gains_core::operator::{Changing, Forming, Spot};
use gains_core::{Arithmetic, BoxVec, Operator, Precision, Rows, Shape, Support};

use crate::support::{Plain, WIDTH, arguments, inside, numbers, operators, row_at};

/// A narrower interval for the change of every entry, around the difference of two points.
fn around(random: &mut fastrand::Rng, before: &BoxVec, after: &BoxVec, pair: (&[f64], &[f64])) -> BoxVec {
    let part = if random.bool() { 1.0 } else { random.f64() };
    BoxVec::collect(before.len(), |i| {
        let seen = pair.1[i] - pair.0[i];
        let (low, high) = (after.lower[i] - before.upper[i], after.upper[i] - before.lower[i]);
        let slack = 1e-15 * (low.abs() + high.abs());
        gains_core::Interval::new(seen + part * (low - seen) - slack, seen + part * (high - seen) + slack)
    })
}

/// Arguments of one evaluation: a point of every box, rounded as the program would.
fn point(random: &mut fastrand::Rng, boxes: &[BoxVec], precision: Precision) -> Option<Vec<Vec<f64>>> {
    let mut point: Vec<Vec<f64>> = boxes.iter().map(|b| inside(random, b)).collect();
    point.iter_mut().for_each(|x| precision.round(x));
    boxes.iter().zip(&point).all(|(b, x)| b.contains(x)).then_some(point)
}

struct Pair {
    before: Vec<Vec<f64>>,
    after: Vec<Vec<f64>>,
}

fn refs(values: &[Vec<f64>]) -> Vec<&[f64]> {
    values.iter().map(Vec::as_slice).collect()
}

/// Three rows with constants and slack of their own.
fn rows_on(random: &mut fastrand::Rng, shape: Shape) -> Rows {
    let mut rows = Rows::new(Support::full(shape), numbers(random, 3 * shape.len(), 2.0));
    rows.constant = numbers(random, 3, 1.0);
    rows.slack = vec![0.0, 1e-3, 0.0];
    rows
}

/// Checks all pairs whose differences are inside `apart`; returns how many there were.
fn check(
    random: &mut fastrand::Rng,
    operator: &Operator,
    (before, after): (&[BoxVec], &[BoxVec]),
    arithmetic: Arithmetic,
    close: bool,
) -> usize {
    let precision = match arithmetic {
        Arithmetic::Real => Precision::Float64,
        Arithmetic::Float32 => Precision::Float32,
    };
    let pairs: Vec<Pair> = (0..24)
        .filter_map(|_| {
            Some(Pair { before: point(random, before, precision)?, after: point(random, after, precision)? })
        })
        .collect();
    let Some(first) = pairs.first() else { return 0 };
    let apart: Vec<BoxVec> = (0..before.len())
        .map(|k| match close {
            true => around(random, &before[k], &after[k], (&first.before[k], &first.after[k])),
            false => after[k].apart(&before[k]),
        })
        .collect();
    let of = |boxes: &[BoxVec], time: f64| {
        let arguments: Vec<&BoxVec> = boxes.iter().collect();
        operator.image(&arguments, time, arithmetic, true)
    };
    let (time, elapsed) = (0.25, 0.125);
    let (then, now) = (of(before, time), of(after, time + elapsed));
    let (old, new): (Vec<&BoxVec>, Vec<&BoxVec>) = (before.iter().collect(), after.iter().collect());
    let apart_refs: Vec<&BoxVec> = apart.iter().collect();
    let changing = Changing {
        before: (&old, &then.value),
        after: (&new, &now.value),
        apart: &apart_refs,
        elapsed,
        magnitudes: (&then.magnitude, &now.magnitude),
        arithmetic,
    };
    let change = operator.change(&changing);
    let shapes = vec![Shape::flat(WIDTH); before.len()];
    let shape = operator.shape(&shapes).unwrap();
    let rows = rows_on(random, shape);
    let known = operator.known_change(&changing, &change.value, &change.magnitude, Support::full(shape));
    let from: Vec<usize> = (0..before.len()).collect();
    let entries = vec![None; before.len()];
    let spot = Spot {
        value: before.len(),
        from: &from,
        shapes: &shapes,
        entries: &entries,
        matrix: None,
        arithmetic,
    };
    let pulled = operator.pull(&known, rows.clone(), spot, &mut Plain(arithmetic));
    let mut checked = 0;
    for pair in &pairs {
        let moved: Vec<Vec<f64>> = pair
            .before
            .iter()
            .zip(&pair.after)
            .map(|(b, a)| b.iter().zip(a).map(|(b, a)| a - b).collect())
            .collect();
        if !apart.iter().zip(&moved).all(|(b, d)| b.contains(d)) {
            continue;
        }
        checked += 1;
        let first = operator.evaluate(&refs(&pair.before), time, precision);
        let second = operator.evaluate(&refs(&pair.after), time + elapsed, precision);
        let size =
            first.iter().chain(&second).chain(moved.iter().flatten()).fold(1.0, |m: f64, x| m.max(x.abs()));
        // What float64 itself rounds is not what real arithmetic bounds.
        let room = 1e-12 * size * size;
        let seen: Vec<f64> = second.iter().zip(&first).map(|(a, b)| a - b).collect();
        for (i, d) in seen.iter().enumerate() {
            let x = change.value.get(i);
            assert!(
                x.lower - room <= *d && *d <= x.upper + room,
                "{operator:?} {arithmetic}: {d} not in {x:?}"
            );
        }
        for row in 0..rows.count {
            let claimed: f64 = pulled.iter().zip(&moved).map(|(rows, d)| row_at(rows, row, d)).sum();
            let reached = row_at(&rows, row, &seen);
            assert!(claimed <= reached + room, "{operator:?} {arithmetic}: {claimed} above {reached}");
        }
    }
    checked
}

#[test]
fn changes_hold_all_pairs_of_points() {
    let mut random = fastrand::Rng::with_seed(51);
    let mut checked = 0;
    for round in 0..150 {
        for (operator, count) in operators(&mut random) {
            let scale = [1.0, 10.0, 0.01][round % 3];
            let before = arguments(&mut random, &operator, count, scale, [0.5, 1e-3, 3.0][round / 3 % 3]);
            // Another box nearby, as of the next stage, or anywhere.
            let after = match round % 2 {
                0 => arguments(&mut random, &operator, count, scale, 0.5),
                _ => {
                    let mut after = before.clone();
                    for (k, b) in after.iter_mut().enumerate() {
                        let gate = k == 0 && matches!(operator, Operator::Blend(_));
                        for i in 0..b.len() {
                            let by = 1e-2 * scale * (random.f64() - 0.5);
                            b.lower[i] += by;
                            b.upper[i] += by + 1e-3 * random.f64();
                            if gate {
                                (b.lower[i], b.upper[i]) =
                                    (b.lower[i].clamp(0.0, 1.0), b.upper[i].clamp(0.0, 1.0));
                            }
                        }
                    }
                    after
                }
            };
            for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
                for close in [false, true] {
                    checked += check(&mut random, &operator, (&before, &after), arithmetic, close);
                }
            }
        }
    }
    assert!(checked > 40_000, "{checked}");
}

/// The same for values themselves: boxes and rows against points.
#[test]
fn images_and_rows_hold_all_points() {
    let mut random = fastrand::Rng::with_seed(52);
    let mut checked = 0;
    for round in 0..200 {
        for (operator, count) in operators(&mut random) {
            let boxes = arguments(
                &mut random,
                &operator,
                count,
                [1.0, 10.0, 0.01][round % 3],
                [0.5, 1e-3, 3.0][round / 3 % 3],
            );
            let arguments: Vec<&BoxVec> = boxes.iter().collect();
            let shapes = vec![Shape::flat(WIDTH); count];
            let shape = operator.shape(&shapes).unwrap();
            let rows = rows_on(&mut random, shape);
            let from: Vec<usize> = (0..count).collect();
            let entries = vec![None; count];
            for (arithmetic, precision) in
                [(Arithmetic::Real, Precision::Float64), (Arithmetic::Float32, Precision::Float32)]
            {
                let image = operator.image(&arguments, 0.5, arithmetic, true);
                let known =
                    operator.known(&arguments, &image.magnitude, Support::full(shape), 0.5, arithmetic);
                let spot = Spot {
                    value: count,
                    from: &from,
                    shapes: &shapes,
                    entries: &entries,
                    matrix: None,
                    arithmetic,
                };
                let pulled = operator.pull(&known, rows.clone(), spot, &mut Plain(arithmetic));
                for _ in 0..6 {
                    let Some(point) = point(&mut random, &boxes, precision) else { continue };
                    let value = operator.evaluate(&refs(&point), 0.5, precision);
                    let size =
                        value.iter().chain(point.iter().flatten()).fold(1.0, |m: f64, x| m.max(x.abs()));
                    let room = if arithmetic == Arithmetic::Real {
                        1e-12 * size * size
                    } else {
                        1e-14 * size * size
                    };
                    for (i, y) in value.iter().enumerate() {
                        let x = image.value.get(i);
                        assert!(
                            x.lower - room <= *y && *y <= x.upper + room,
                            "{operator:?} {arithmetic}: {y}"
                        );
                    }
                    for row in 0..rows.count {
                        let claimed: f64 =
                            pulled.iter().zip(&point).map(|(rows, x)| row_at(rows, row, x)).sum();
                        let reached = row_at(&rows, row, &value);
                        assert!(
                            claimed <= reached + room,
                            "{operator:?} {arithmetic}: {claimed} above {reached}"
                        );
                    }
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 15_000, "{checked}");
}

/// One point for every argument, of numbers that float32 has: what a program rounds there is all there is.
fn single(random: &mut fastrand::Rng, operator: &Operator, count: usize, scale: f64) -> Vec<BoxVec> {
    let mut boxes = arguments(random, operator, count, scale, 0.0);
    for b in &mut boxes {
        Precision::Float32.round(&mut b.lower);
        b.upper.clone_from(&b.lower);
    }
    boxes
}

#[test]
fn changes_between_points_of_float32_programs_pay_for_their_rounding() {
    let mut random = fastrand::Rng::with_seed(53);
    let mut checked = 0;
    for round in 0..150 {
        for (operator, count) in operators(&mut random) {
            let scale = [1.0, 10.0][round % 2];
            let (before, after) =
                (single(&mut random, &operator, count, scale), single(&mut random, &operator, count, scale));
            checked += check(&mut random, &operator, (&before, &after), Arithmetic::Float32, false);
        }
    }
    assert!(checked > 20_000, "{checked}");
}

#[test]
fn forms_and_rows_of_points_of_float32_programs_pay_for_their_rounding() {
    let mut random = fastrand::Rng::with_seed(54);
    let arithmetic = Arithmetic::Float32;
    for _ in 0..300 {
        for (operator, count) in operators(&mut random) {
            let boxes = single(&mut random, &operator, count, 2.0);
            let points: Vec<Vec<f64>> = boxes.iter().map(|b| b.lower.clone()).collect();
            let value = operator.evaluate(&refs(&points), 0.5, Precision::Float32);
            let mut symbols = Symbols::default();
            let forms: Vec<AffineForm> =
                boxes.iter().map(|b| AffineForm::from_box(b, &mut symbols)).collect();
            let formed = Forming { time: 0.5, arithmetic, then_relu: false, matrix: None, stop: &|| false };
            let form = operator.form(&forms.iter().collect::<Vec<_>>(), None, formed, &mut symbols);
            assert!(form.bounds.contains(&value), "{operator:?}: {value:?} not in {:?}", form.bounds);
            let boxes: Vec<&BoxVec> = boxes.iter().collect();
            let image = operator.image(&boxes, 0.5, arithmetic, true);
            assert!(image.value.contains(&value), "{operator:?}: {value:?} not in {:?}", image.value);
            let shapes = vec![Shape::flat(WIDTH); count];
            let shape = operator.shape(&shapes).unwrap();
            let rows = rows_on(&mut random, shape);
            let known = operator.known(&boxes, &image.magnitude, Support::full(shape), 0.5, arithmetic);
            let from: Vec<usize> = (0..count).collect();
            let entries = vec![None; count];
            let spot = Spot {
                value: count,
                from: &from,
                shapes: &shapes,
                entries: &entries,
                matrix: None,
                arithmetic,
            };
            let pulled = operator.pull(&known, rows.clone(), spot, &mut Plain(arithmetic));
            for row in 0..rows.count {
                let claimed: f64 = pulled.iter().zip(&points).map(|(rows, x)| row_at(rows, row, x)).sum();
                let reached = row_at(&rows, row, &value);
                assert!(claimed <= reached + 1e-13, "{operator:?}: {claimed} above {reached}");
            }
        }
    }
}
