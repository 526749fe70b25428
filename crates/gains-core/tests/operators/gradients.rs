//! Gradients against differences of values, through graphs in which values are taken several times.

use gains_core::dag::Input;
use gains_core::{Activation, Circuit, Operator, Precision, Shape};

use crate::support::{WIDTH, numbers, operators};

/// A graph of every operator at least once, each on values chosen at random, added up at the end.
fn circuit(random: &mut fastrand::Rng) -> Circuit {
    let shape = Shape::flat(WIDTH);
    let input = |name: &str| Input { name: name.into(), shape };
    let mut circuit = Circuit::new(vec![input("a"), input("b")]);
    let mut whole: Vec<usize> = vec![0, 1];
    let mut all = operators(random);
    random.shuffle(&mut all);
    for (operator, count) in all {
        let mut from: Vec<usize> = (0..count).map(|_| whole[random.usize(0..whole.len())]).collect();
        if matches!(operator, Operator::Blend(_)) {
            from[0] = circuit.push(Operator::Curve(Activation::Sigmoid), vec![from[0]], shape);
        }
        let shapes: Vec<Shape> = from.iter().map(|&v| circuit.shape(v)).collect();
        let made = operator.shape(&shapes).unwrap();
        let value = circuit.push(operator, from, made);
        let mut back = value;
        if made != shape {
            let map = crate::support::linear_map(random, made.len(), WIDTH, false);
            back = circuit.push(Operator::Affine(map.into()), vec![value], shape);
        }
        // Bounded, so that products of products stay tame.
        whole.push(circuit.push(Operator::Curve(Activation::Tanh), vec![back], shape));
    }
    let sum = gains_core::operator::sum::Sum::plain(whole.len());
    circuit.push(Operator::Sum(sum), whole, shape);
    circuit
}

#[test]
fn gradients_of_random_graphs_agree_with_differences() {
    let mut random = fastrand::Rng::with_seed(31);
    let (mut agree, mut kinks) = (0, 0);
    for round in 0..200 {
        let circuit = circuit(&mut random);
        let inputs = [numbers(&mut random, WIDTH, 1.0), numbers(&mut random, WIDTH, 1.0)];
        let cotangent = numbers(&mut random, WIDTH, 1.0);
        let value = |inputs: &[Vec<f64>; 2]| {
            let all = circuit.evaluate(&[&inputs[0], &inputs[1]], 0.3, Precision::Float64);
            all.values[circuit.output()].iter().zip(&cotangent).map(|(y, c)| y * c).sum::<f64>()
        };
        let at = circuit.evaluate(&[&inputs[0], &inputs[1]], 0.3, Precision::Float64);
        let gradient = circuit.gradient(&at, &cotangent);
        for (which, i) in (0..2).flat_map(|which| (0..WIDTH).map(move |i| (which, i))) {
            let moved = |by: f64| {
                let mut inputs = inputs.clone();
                inputs[which][i] += by;
                value(&inputs)
            };
            let (h, here) = (1e-6, value(&inputs));
            let (left, right) = ((here - moved(-h)) / h, (moved(h) - here) / h);
            // A kink in between: the two sides disagree.
            if (left - right).abs() > 1e-3 {
                kinks += 1;
                continue;
            }
            let slope = (moved(h) - moved(-h)) / (2.0 * h);
            let ours = gradient[which][i];
            assert!((slope - ours).abs() < 1e-6 * (1.0 + ours.abs()), "round {round}: {slope} {ours}");
            agree += 1;
        }
    }
    assert!(agree > 1400 && kinks < 200, "{agree} {kinks}");
}
