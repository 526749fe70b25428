//! Forms hold what they stand for: held against exact whole numbers, for symbols at their ends.

use super::*;

const ENTRIES: usize = 3;

/// Whole numbers of up to 53 bits: sums of them are rounded.
fn whole(random: &mut fastrand::Rng) -> f64 {
    let number = (random.i64(-(1 << 53)..=1 << 53) >> random.u32(0..53)) as f64;
    if random.u8(0..4) == 0 { 0.0 } else { number }
}

fn work() -> Work {
    Work::new(1 << 20, Deadline::default())
}

/// A form over symbols 1 to 4, of which it knows some.
fn form(random: &mut fastrand::Rng, scale: f64) -> Form {
    let row = |random: &mut fastrand::Rng| -> Vec<f64> {
        (0..ENTRIES).map(|_| (whole(random) * scale).round()).collect()
    };
    let mut parts = Form::of(row(random));
    for symbol in 1..=4 {
        if random.bool() {
            parts.generators.insert(symbol, row(random));
        }
    }
    parts.remainder = row(random).into_iter().map(|r| (r.abs() * 1e-3).round()).collect();
    parts.settle(vec![Interval::ALL; ENTRIES]).unwrap()
}

/// A vector of a form for some symbols, exactly.
fn vector(form: &Form, symbols: &[i128; 5], random: &mut fastrand::Rng) -> Vec<i128> {
    let mut entries = without_rest(form, symbols);
    for (entry, rest) in entries.iter_mut().zip(&form.remainder) {
        *entry += *rest as i128 * i128::from(random.i8(-1..=1));
    }
    entries
}

fn without_rest(form: &Form, symbols: &[i128; 5]) -> Vec<i128> {
    let mut entries: Vec<i128> = form.centre.iter().map(|c| *c as i128).collect();
    for (symbol, row) in form.generators.iter().filter(|(symbol, _)| **symbol <= 4) {
        row.iter().enumerate().for_each(|(j, g)| entries[j] += *g as i128 * symbols[*symbol as usize]);
    }
    entries
}

/// Whether a form holds a vector for the values of the symbols that are given; fresh ones may have any.
fn holds(form: &Form, symbols: &[i128; 5], vector: &[i128]) -> bool {
    let near = without_rest(form, symbols);
    (0..vector.len()).all(|j| {
        let fresh: f64 = form.generators.iter().filter(|(s, _)| **s > 4).map(|(_, row)| row[j].abs()).sum();
        // Fractions are cut off above, one for each generator.
        let open = fresh + form.remainder[j] + 6.0;
        let off = (near[j] - vector[j]).unsigned_abs();
        let inside = form.bounds[j].low <= vector[j] as f64 && vector[j] as f64 <= form.bounds[j].high;
        off <= open as u128 + 1 && inside
    })
}

fn signs(random: &mut fastrand::Rng) -> [i128; 5] {
    [0; 5].map(|_: i128| if random.bool() { 1 } else { -1 })
}

#[test]
fn sums_of_forms_hold_sums() {
    let mut random = fastrand::Rng::with_seed(1);
    for round in 0..4_000 {
        let (a, b, c) = (form(&mut random, 1.0), form(&mut random, 1.0), form(&mut random, 1.0));
        let factors = [0; 3].map(|_| random.i8(-3..=3));
        let point = |i: usize| Interval::point(f64::from(factors[i]));
        let sum = Form::sum(&[(point(0), &a), (point(1), &b), (point(2), &c)], &mut work()).unwrap();
        let symbols = signs(&mut random);
        let parts = [&a, &b, &c].map(|form| vector(form, &symbols, &mut random));
        let exact: Vec<i128> =
            (0..ENTRIES).map(|j| (0..3).map(|i| i128::from(factors[i]) * parts[i][j]).sum()).collect();
        assert!(holds(&sum, &symbols, &exact), "round {round}: {sum:?} {exact:?}");
    }
}

#[test]
fn factors_that_are_no_numbers_leave_room() {
    let mut random = fastrand::Rng::with_seed(2);
    for round in 0..2_000 {
        let a = form(&mut random, 1e-6);
        let (low, symbols) = (random.i8(-3..=3), signs(&mut random));
        let factor = Interval::new(f64::from(low), f64::from(low) + 2.0);
        let sum = Form::sum(&[(factor, &a)], &mut work()).unwrap();
        let mut map = Affine::default();
        for entry in 0..ENTRIES {
            map.push(entry, factor).unwrap();
            map.end_row(Interval::new(5.0, 9.0), None).unwrap();
        }
        let scaled = a.affine(&map, Interval::ZERO, &mut work()).unwrap();
        let part = vector(&a, &symbols, &mut random);
        let by = i128::from(low) + i128::from(random.u8(0..=2));
        let times = |plus: i128| -> Vec<i128> { part.iter().map(|x| by * x + plus).collect() };
        assert!(holds(&sum, &symbols, &times(0)), "round {round}: {sum:?}");
        assert!(holds(&scaled, &symbols, &times(i128::from(random.u8(5..=9)))), "round {round}: {scaled:?}");
    }
}

#[test]
fn maps_of_forms_hold_images() {
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..4_000 {
        let x = form(&mut random, 1.0);
        let mut matrix = Affine::default();
        let mut weights = Vec::new();
        for _ in 0..2 {
            let row = [0; ENTRIES].map(|_: i8| random.i8(-3..=3));
            for (column, weight) in row.iter().enumerate() {
                matrix.push(column, Interval::point(f64::from(*weight))).unwrap();
            }
            let bias = random.i32(-9..=9);
            matrix.end_row(Interval::point(f64::from(bias)), None).unwrap();
            weights.push((row, bias));
        }
        let image = x.affine(&matrix, Interval::ZERO, &mut work()).unwrap();
        let symbols = signs(&mut random);
        let at = vector(&x, &symbols, &mut random);
        let row = |(row, bias): &([i8; ENTRIES], i32)| {
            row.iter().zip(&at).map(|(w, x)| i128::from(*w) * x).sum::<i128>() + i128::from(*bias)
        };
        let exact: Vec<i128> = weights.iter().map(row).collect();
        assert!(holds(&image, &symbols, &exact), "round {round}: {image:?} {exact:?}");
    }
}

#[test]
fn products_of_forms_hold_products() {
    let mut random = fastrand::Rng::with_seed(4);
    for round in 0..4_000 {
        let scale = if random.bool() { 1.0 } else { 1e-12 };
        let (x, y) = (form(&mut random, scale), form(&mut random, scale));
        let mut work = work();
        work.symbols = 10;
        let product = x.product(&y, &mut work).unwrap();
        let symbols = signs(&mut random);
        let (p, q) = (vector(&x, &symbols, &mut random), vector(&y, &symbols, &mut random));
        let exact: Vec<i128> = p.iter().zip(&q).map(|(p, q)| p * q).collect();
        assert!(holds(&product, &symbols, &exact), "round {round}: {product:?} {exact:?}");
    }
}

#[test]
fn strips_hold_what_is_between_their_lines() {
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..4_000 {
        let (x, before, result) = (form(&mut random, 1.0), form(&mut random, 1.0), form(&mut random, 1.0));
        let strips = [0; ENTRIES].map(|_: u8| {
            let low = f64::from(random.i16(-99..=99));
            let rest = if random.bool() { Interval::ZERO } else { Interval::new(low, low + 8.0) };
            Strip { slope: f64::from(random.i8(-3..=3)), rest, change: random.bool() }
        });
        let mut work = work();
        work.symbols = 10;
        let image = vec![Interval::ALL; ENTRIES];
        let passed = x.pass(&strips, image, Some((&before, &result)), &mut work).unwrap();
        let symbols = signs(&mut random);
        let [at, earlier, came] = [&x, &before, &result].map(|form| vector(form, &symbols, &mut random));
        let mut exact = Vec::new();
        for (j, strip) in strips.iter().enumerate() {
            let rest = if random.bool() { strip.rest.low } else { strip.rest.high } as i128;
            let slope = strip.slope as i128;
            exact.push(match strip.change {
                true => came[j] + slope * (at[j] - earlier[j]) + rest,
                false => slope * at[j] + rest,
            });
        }
        assert!(holds(&passed, &symbols, &exact), "round {round}: {passed:?} {exact:?}");
    }
}

/// Vectors of both sets are held; symbols that both know keep their meaning, and those that are alone may have any value for the other.
#[test]
fn forms_beside_each_other_hold_both() {
    let mut random = fastrand::Rng::with_seed(6);
    for round in 0..4_000 {
        let (a, mut b) = (form(&mut random, 1.0), form(&mut random, 1.0));
        b.generators.remove(&4);
        let b = b.settle(vec![Interval::ALL; ENTRIES]).unwrap();
        let alone = |symbol: u64| symbol == 4;
        let both = a.beside(&b, 9, &alone, &work()).unwrap();
        let mut symbols = signs(&mut random);
        let of_a = vector(&a, &symbols, &mut random);
        assert!(holds(&both, &symbols, &of_a), "round {round}: {both:?} {of_a:?}");
        symbols[4] = 0;
        let of_b = vector(&b, &symbols, &mut random);
        assert!(holds(&both, &symbols, &of_b), "round {round}: {both:?} {of_b:?}");
    }
}

#[test]
fn linear_functions_and_magnitudes_hold_all_values() {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..4_000 {
        let mut x = form(&mut random, 1e-9);
        if random.bool() {
            x.name(1e-3, &mut work()).unwrap();
            x.generators =
                x.generators.into_iter().map(|(s, row)| (if s > 4 { s + 6 } else { s }, row)).collect();
        }
        let weights = [0; ENTRIES].map(|_: u8| f64::from(random.i8(-4..=4)) / 4.0);
        let symbols = signs(&mut random);
        let at = vector(&x, &symbols, &mut random);
        let value: f64 = at.iter().zip(&weights).map(|(x, w)| *x as f64 * w).sum();
        assert!(x.along(&weights).holds(Interval::point(value)), "round {round}: {value} {x:?}");
        let sum: f64 = at.iter().map(|x| x.abs() as f64).sum();
        for sides in [(None, None), (Some(&weights[..]), None), (None, Some(&weights[..]))] {
            let all = x.magnitudes(sides.0, sides.1);
            assert!(all.holds(Interval::point(sum)), "round {round}: {sum} {all:?} {x:?}");
        }
    }
}

#[test]
fn boxes_are_forms_and_parts_of_lists_stay_apart() {
    let bounds = vec![Interval::new(1.0, 2.0), Interval::new(-0.1, 0.7), Interval::point(0.3)];
    let mut work = work();
    let form = Form::of_box(&bounds, &mut work).unwrap();
    assert_eq!((form.order(), form.bounds.clone()), (2, bounds.clone()));
    assert!((0..2).all(|j| form.centre[j] - form.spread[j] <= bounds[j].low));
    assert!((0..2).all(|j| form.centre[j] + form.spread[j] >= bounds[j].high));
    let twice = Form::list(&[&form, &form]).unwrap();
    assert_eq!((twice.order(), twice.bounds.len()), (2, 6));
    let apart = Form::sum(&[(Interval::ONE, &form), (-Interval::ONE, &form)], &mut work).unwrap();
    assert!(apart.bounds.iter().all(|x| x.size() < 1e-12), "what is the same cancels");
}

#[test]
fn forms_that_take_too_much_room_are_refused() {
    let bounds = vec![Interval::new(0.0, 1.0); 2_000];
    assert!(matches!(Form::of_box(&bounds, &mut work()), Err(Fault::Malformed(_))));
    let mut work = Work::new(usize::MAX, Deadline::after(Some(std::time::Duration::ZERO)));
    assert_eq!(Form::of_box(&bounds, &mut work).unwrap_err(), Fault::Late);
    let huge = vec![Interval::new(-1e308, 1e308); 2];
    let form = Form::of_box(&huge, &mut self::work()).unwrap();
    assert!(form.product(&form, &mut self::work()).is_err(), "numbers beyond all bounds");
}

/// A function passes as the change since an evaluation near: held at points, where the symbol of that evaluation is what it has to be.
#[test]
fn functions_pass_as_changes() {
    use std::rc::Rc;

    use crate::curve::Curve;
    use crate::form_steps::form as form_of;
    use crate::network::{Network, Node, Operator, Shape};

    let shape = Shape::vector(1).unwrap();
    let mut random = fastrand::Rng::with_seed(8);
    for round in 0..4_000 {
        let curve = [Curve::Tanh, Curve::Sigmoid, Curve::Leaky { slope: 0.0 }][random.usize(0..3)];
        let node = |operator, arguments| Node { operator, arguments, shape };
        let nodes = vec![node(Operator::Input, vec![]), node(Operator::Curve(curve), vec![0])];
        let network = Network { nodes, output: 1 };
        let mut work = work();
        work.symbols = 10;
        let spread = 10_f64.powf(-3.0 + 3.0 * random.f64());
        let mut linear = |near: Option<&Form>| {
            let mut number = |scale: f64| scale * (2.0 * random.f64() - 1.0);
            let mut parts = Form::of(vec![near.map_or(0.0, |near| near.centre[0]) + number(spread)]);
            for symbol in 1..=3 {
                let old = near.map_or(0.0, |near| near.generators[&symbol][0]);
                parts
                    .generators
                    .insert(symbol, vec![old + number(if near.is_some() { 0.2 } else { 1.0 } * spread)]);
            }
            parts.settle(vec![Interval::ALL]).unwrap()
        };
        let before = linear(None);
        let x = linear(Some(&before));
        let before = Rc::new(before);
        let came =
            form_of(&network, 1, std::slice::from_ref(&before), Interval::ZERO, None, &mut work).unwrap();
        let values = [before, Rc::new(came)];
        let nearby = (&values[..], &[true][..]);
        let y = form_of(&network, 1, &[Rc::new(x.clone())], Interval::ZERO, Some(nearby), &mut work).unwrap();
        let curve = |x: f64| match curve {
            Curve::Tanh => x.tanh(),
            Curve::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            _ => x.max(0.0),
        };
        for _ in 0..8 {
            let symbols = [0; 4].map(|_: u8| if random.bool() { 1.0 } else { 2.0 * random.f64() - 1.0 });
            let known = |form: &Form| -> f64 {
                let rows = form.generators.iter().filter(|(symbol, _)| **symbol <= 3);
                form.centre[0] + rows.map(|(s, row)| row[0] * symbols[*s as usize]).sum::<f64>()
            };
            let fresh = values[1].generators.iter().find(|(symbol, _)| **symbol > 10);
            let (symbol, radius) = fresh.map_or((0, 1.0), |(symbol, row)| (*symbol, row[0]));
            let own = (curve(known(&values[0])) - known(&values[1])) / radius;
            let kept = y.generators.get(&symbol).map_or(0.0, |row| row[0]) * own;
            let open: f64 = y
                .generators
                .iter()
                .filter(|(s, _)| **s > 10 && **s != symbol)
                .map(|(_, row)| row[0].abs())
                .sum();
            let off = (curve(known(&x)) - known(&y) - kept).abs();
            assert!(off <= open + y.remainder[0] + 1e-12, "round {round}: {off} {open} {y:?}");
        }
    }
}

#[test]
fn products_that_underflow_are_not_zero() {
    let (mut work, tiny) = (work(), 1e-200);
    let box_of = |low: f64, high: f64| vec![Interval { low, high }];
    // Only a remainder, and only a centre.
    let mut x = Form::of_box(&box_of(0.0, 0.0), &mut work).unwrap();
    x.remainder = vec![tiny];
    x.bounds = box_of(-tiny, tiny);
    let y = Form::of_box(&box_of(tiny, tiny), &mut work).unwrap();
    for product in [x.product(&y, &mut work).unwrap(), y.product(&x, &mut work).unwrap()] {
        assert!(product.remainder[0] > 0.0 && product.bounds[0].high > 0.0);
    }
    let zero = Form::of_box(&box_of(0.0, 0.0), &mut work).unwrap();
    assert_eq!(zero.product(&y, &mut work).unwrap().remainder, [0.0], "nothing times something is nothing");
}
