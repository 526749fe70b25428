//! Rows on several values at once: what their sum owes to rounding, and what bounds nothing.

use std::sync::Arc;

use gains_core::dag::Input;
use gains_core::operator::sum::Sum;
use gains_core::operator::{Known, Spot};
use gains_core::program::{Flight, Trace};
use gains_core::{
    Activation, Arithmetic, BoxVec, Circuit, Operator, Precision, Rows, Shape, Support, Window,
};

use crate::support::{Plain, WIDTH, inside, linear_map, numbers, random_box, row_at};

/// What `a + b` loses in float64, exactly.
fn lost_by_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let second = sum - a;
    (a - (sum - second)) + (b - second)
}

fn unit(coefficient: f64) -> Rows {
    Rows::new(Support::full(Shape::flat(1)), vec![coefficient])
}

/// At 1 a row is its coefficient, so that the sum of two rows may lie above both together by what rounding adds to it,
/// unless its slack pays for that.
#[test]
fn sums_of_rows_pay_for_their_rounding() {
    let mut random = fastrand::Rng::with_seed(71);
    let mut above = 0;
    for _ in 0..2000 {
        let (a, b) = (random.f64(), 8.0 * random.f64());
        let mut sum = unit(a);
        sum.add(unit(b), &[1.0]);
        let lost = lost_by_sum(a, b);
        assert!(sum.slack[0] >= -lost, "{a} {b}: {:e} for {lost:e}", sum.slack[0]);
        above += usize::from(lost < 0.0);
    }
    assert!(above > 500, "{above} sums were rounded up");
}

/// Rows on one pixel pay for that pixel, wherever it is.
#[test]
fn rows_on_windows_pay_for_their_own_pixels() {
    let mut random = fastrand::Rng::with_seed(73);
    let shape = Shape::image(2, 2, 1);
    let on = |coefficient: f64| Rows::new(Window::pixel(shape, 1, 0), vec![coefficient]);
    for _ in 0..500 {
        let (a, b) = (random.f64(), 8.0 * random.f64());
        let mut sum = on(a);
        sum.add(on(b), &[0.0, 0.0, 1.0, 0.0]);
        let lost = lost_by_sum(a, b);
        assert!(sum.slack[0] >= -lost, "{a} {b}: {:e} for {lost:e}", sum.slack[0]);
        let mut charged = on(a);
        charged.charge(&[100.0, 200.0, 1.0, 400.0]);
        assert!((charged.slack[0] - a).abs() <= 1e-14, "{a}: {}", charged.slack[0]);
    }
}

#[test]
fn coefficients_of_sums_pay_for_their_rounding() {
    let mut random = fastrand::Rng::with_seed(72);
    let one = BoxVec::point(&[1.0]);
    let zero = BoxVec::point(&[0.0]);
    let shapes = [Shape::flat(1); 2];
    for _ in 0..2000 {
        let (a, c) = (random.f64(), random.f64());
        let operator = Operator::Sum(Sum { coefficients: vec![c, 1.0] });
        let arguments = [&one, &zero];
        let image = operator.image(&arguments, 0.0, Arithmetic::Real, true);
        let on = Support::full(Shape::flat(1));
        let known = operator.known(&arguments, &image.magnitude, on, 0.0, Arithmetic::Real);
        let spot = Spot {
            value: 2,
            from: &[0, 1],
            shapes: &shapes,
            entries: &[None, None],
            matrix: None,
            arithmetic: Arithmetic::Real,
        };
        let parts = operator.pull(&known, unit(a), spot, &mut Plain(Arithmetic::Real));
        let lost = a.mul_add(c, -parts[0].row(0)[0]);
        let slack: f64 = parts.iter().map(|part| part.slack[0]).sum();
        assert!(slack >= -lost, "{a} {c}: {slack:e} for {lost:e}");
    }
}

fn graph_of(inputs: usize) -> Circuit {
    let input = |i: usize| Input { name: format!("{i}"), shape: Shape::flat(1) };
    Circuit::new((0..inputs).map(input).collect())
}

/// Every addition of one input's part is rounded up by nearly half an ulp; what each part alone has paid for is not
/// enough for hundreds.
#[test]
fn bounds_over_many_inputs_pay_for_their_sum() {
    const INPUTS: usize = 400;
    let small = 0.6 * f64::EPSILON;
    let graph = graph_of(INPUTS);
    let mut flight = Flight::new(graph.values(), 0, unit(1.0));
    (1..INPUTS).for_each(|input| flight.add(input, unit(1.0), &[]));
    let domains: Vec<BoxVec> =
        (0..INPUTS).map(|i| BoxVec::point(&[if i == 0 { 1.0 } else { small }])).collect();
    let bound = flight.lower_bounds(|input| &domains[input])[0];
    let exact_rest = (INPUTS - 1) as f64 * small;
    assert!(bound - 1.0 <= exact_rest, "{:e} above {exact_rest:e}", bound - 1.0);
    assert!(bound > 1.0 - 1e-12);
}

#[test]
fn rows_on_nothing_bound_nothing() {
    let domain = BoxVec::point(&[1.0]);
    let mut flight = Flight::new(1, 0, unit(1.0));
    assert!(flight.lower_bounds(|_| &domain)[0] > 0.99);
    assert!(flight.take(0).is_some());
    assert_eq!(flight.lower_bounds(|_| &domain), [f64::NEG_INFINITY]);
}

/// Where no one has looked at an operator, rows behind it bound nothing.
#[test]
fn rows_through_the_unknown_bound_nothing() {
    let shapes = [Shape::flat(1); 3];
    let domain = BoxVec::point(&[1.0]);
    for (operator, count) in [
        (Operator::Product, 2),
        (Operator::Sum(Sum::plain(2)), 2),
        (Operator::Blend(Default::default()), 3),
        (Operator::Curve(Activation::Tanh), 1),
    ] {
        let from: Vec<usize> = (0..count).collect();
        let spot = Spot {
            value: count,
            from: &from,
            shapes: &shapes[..count],
            entries: &[None; 3][..count],
            matrix: None,
            arithmetic: Arithmetic::Real,
        };
        let parts = operator.pull(&Known::Nothing, unit(1.0), spot, &mut Plain(Arithmetic::Real));
        assert_eq!(parts.len(), count);
        for part in parts {
            assert_eq!(part.lower_bounds(&domain), [f64::NEG_INFINITY], "{operator:?}");
        }
    }
}

/// Rows on neighbouring entries are joined in the order of the entries, whichever comes first.
#[test]
fn rows_side_by_side_stay_in_order() {
    let shape = Shape::flat(5);
    let on = |entries: &[u32], coefficients: &[f64]| {
        let mut rows = Rows::new(Support::entries(shape, entries.into()), coefficients.to_vec());
        rows.absorb(0, coefficients[0], 0.0);
        rows
    };
    let (low, high) = (on(&[0, 2], &[1.0, 2.0]), on(&[3, 4], &[3.0, 4.0]));
    for (first, second) in [(&low, &high), (&high, &low)] {
        let mut sum = first.clone();
        sum.add(second.clone(), &[1.0; 5]);
        assert_eq!(sum.on().indices(), [0, 2, 3, 4]);
        let kept = sum.clone().onto(&[2, 4].into());
        assert_eq!((kept.row(0), kept.constant[0]), (&[2.0, 4.0][..], 4.0));
        assert!((row_at(&sum, 0, &[1.0, 9.0, 1.0, 1.0, 1.0]) - 14.0).abs() < 1e-12);
    }
}

/// Random graphs of an affine map whose value is taken by a function and again behind it, on entries of which some are
/// negative, some zero, some neither: rows pulled back along what matters stay below all points.
#[test]
fn values_taken_twice_matter_to_both() {
    let mut random = fastrand::Rng::with_seed(74);
    let shape = Shape::flat(WIDTH);
    let curves = [Activation::Relu, Activation::Sigmoid, Activation::Absolute, Activation::Tanh];
    for round in 0..400 {
        let mut circuit = Circuit::of("x", shape);
        let map = linear_map(&mut random, WIDTH, WIDTH, false);
        let value = circuit.push(Operator::Affine(map.into()), vec![0], shape);
        let curve = circuit.push(Operator::Curve(curves[round % 4]), vec![value], shape);
        let from = if round % 8 < 4 { vec![curve, value] } else { vec![value, curve] };
        match round / 8 % 3 {
            0 => circuit.push(Operator::Product, from, shape),
            1 => circuit.push(Operator::Sum(Sum { coefficients: vec![1.0, -0.5] }), from, shape),
            _ => circuit.push(Operator::Sum(Sum::plain(2)), from, shape),
        };
        let mut region = random_box(&mut random, WIDTH, 1.0, [0.1, 1.0, 0.0][round % 3]);
        // Entries of the input that are identically zero.
        for i in (0..WIDTH).filter(|_| random.u8(..) < 80) {
            (region.lower[i], region.upper[i]) = (0.0, 0.0);
        }
        let (mut values, mut magnitudes) = (vec![region.clone()], Vec::new());
        for (_, node) in circuit.nodes() {
            let arguments: Vec<&BoxVec> = node.from.iter().map(|&v| &values[v]).collect();
            let image = node.operator.image(&arguments, 0.0, Arithmetic::Real, true);
            magnitudes.push(image.magnitude);
            values.push(image.value);
        }
        let trace = Trace::of_values(&circuit, &values, &magnitudes, 0.0, Arithmetic::Real);
        let alive: Arc<[u32]> = region.alive().into();
        let way = trace.way(&[], Some(&alive), Arithmetic::Real);
        let rows = Rows::new(Support::full(shape), numbers(&mut random, 2 * WIDTH, 1.0));
        let mut flight = Flight::new(circuit.values(), circuit.output(), rows.clone().onto(&trace.alive));
        circuit.pull(&mut flight, &way, &mut Plain(Arithmetic::Real));
        let pulled = flight.take(0).unwrap();
        for _ in 0..20 {
            let x = inside(&mut random, &region);
            let all = circuit.evaluate(&[&x], 0.0, Precision::Float64).values;
            for row in 0..2 {
                let (claimed, reached) =
                    (row_at(&pulled, row, &x), row_at(&rows, row, &all[circuit.output()]));
                assert!(claimed <= reached + 1e-12, "round {round}: {claimed} above {reached}");
            }
        }
    }
}
