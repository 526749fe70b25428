//! Gradients of every operation against central differences, and boxes against the points in them, in float64.

use super::super::network::{Activation, Weights};
use super::super::tape::{Gradients, Matrix};
use super::super::tests::toy_weights;
use super::{affine, combine, gates};

type M = Matrix<f64>;

/// Centres around 0 with radii that let some boxes straddle it.
fn random(rows: usize, columns: usize, boxes: bool, rng: &mut fastrand::Rng) -> M {
    let mut number = |scale: f64| (0..rows * columns).map(|_| scale * (2.0 * rng.f64() - 1.0)).collect();
    let centre = number(1.0);
    let radius: Vec<f64> = if boxes { number(0.5) } else { Vec::new() };
    M { rows, columns, centre, radius: radius.iter().map(|r| r.abs() + 0.01).collect() }
}

/// Values of a gate: inside (0, 1).
fn gate(rows: usize, columns: usize, boxes: bool, rng: &mut fastrand::Rng) -> M {
    let mut m = random(rows, columns, boxes, rng);
    m.centre.iter_mut().for_each(|c| *c = 0.5 + 0.2 * *c);
    m.radius.iter_mut().for_each(|r| *r *= 0.5);
    m
}

/// Compares gradients with respect to all inputs, for a random gradient of the output.
fn agree(
    what: &str,
    inputs: Vec<M>,
    forward: impl Fn(&[M]) -> M,
    backward: impl Fn(&[M], &M) -> Vec<M>,
    rng: &mut fastrand::Rng,
) {
    let out = forward(&inputs);
    let seed = random(out.rows, out.columns, out.is_box(), rng);
    let objective = |inputs: &[M]| {
        let out = forward(inputs);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        dot(&out.centre, &seed.centre) + dot(&out.radius, &seed.radius)
    };
    let found = backward(&inputs, &seed);
    let h = 1e-6;
    for (which, gradient) in found.iter().enumerate() {
        for lane in 0..if gradient.is_box() { 2 } else { 1 } {
            for i in 0..gradient.centre.len() {
                let moved = |by: f64| {
                    let mut inputs = inputs.clone();
                    let target = &mut inputs[which];
                    if lane == 0 {
                        target.centre[i] += by
                    } else {
                        target.radius[i] += by
                    }
                    objective(&inputs)
                };
                let expected = (moved(h) - moved(-h)) / (2.0 * h);
                let got = if lane == 0 { gradient.centre[i] } else { gradient.radius[i] };
                assert!(
                    (expected - got).abs() < 1e-6 * (1.0 + expected.abs()),
                    "{what}: input {which}, lane {lane}, entry {i}: {got}, expected {expected}"
                );
            }
        }
    }
}

#[test]
fn gates_have_the_right_gradients() {
    let rng = &mut fastrand::Rng::with_seed(1);
    for boxes in [false, true] {
        for _ in 0..5 {
            let inputs = vec![gate(3, 4, boxes, rng), random(3, 8, boxes, rng)];
            agree(
                "shrink",
                inputs,
                |x| gates::shrink(&x[0], &x[1]),
                |x, g| {
                    let (on_gate, on_state) = gates::shrink_back(&x[0], &x[1], g);
                    vec![on_gate, on_state]
                },
                rng,
            );
            let inputs = vec![gate(3, 4, boxes, rng), random(3, 8, boxes, rng), random(3, 8, boxes, rng)];
            agree(
                "mix",
                inputs,
                |x| gates::mix(&x[0], &x[1], &x[2]),
                |x, g| {
                    let back = gates::mix_back(&x[0], &x[1], &x[2], g);
                    vec![back.gate, back.candidate, back.state]
                },
                rng,
            );
        }
    }
}

#[test]
fn sums_samples_and_stacks_have_the_right_gradients() {
    let rng = &mut fastrand::Rng::with_seed(2);
    for boxes in [false, true] {
        let scale = [0.5, -1.5, 0.0, 2.0];
        let inputs = vec![random(4, 6, boxes, rng), random(4, 3, boxes, rng), random(4, 6, boxes, rng)];
        agree(
            "combine",
            inputs,
            |x| combine::combine(4, &x[0], &[(&x[1], 0.7), (&x[2], -0.3)], &scale),
            |x, g| {
                let mut all = vec![g.clone()];
                for (k, weight) in [(&x[1], 0.7), (&x[2], -0.3)] {
                    let mut target = M::zeros(k.rows, k.columns, k.is_box());
                    combine::term_back(g, weight, &scale, &mut target);
                    all.push(target);
                }
                all
            },
            rng,
        );
        let noise: Vec<f64> =
            if boxes { Vec::new() } else { (0..12).map(|_| 2.0 * rng.f64() - 1.0).collect() };
        agree(
            "sample",
            vec![random(4, 6, boxes, rng)],
            |x| combine::sample(&x[0], &noise),
            |x, g| vec![combine::sample_back(&x[0], &noise, g)],
            rng,
        );
        let (a, b) = (random(3, 2, boxes, rng), random(2, 2, boxes, rng));
        let stacked = combine::stack(&[(&a, 1, 3), (&b, 0, 2)]);
        assert_eq!(combine::rows(&stacked, 0, 2), combine::rows(&a, 1, 3));
        assert_eq!(combine::rows(&stacked, 2, 4), b);
    }
}

#[test]
fn layers_have_the_right_gradients() {
    let rng = &mut fastrand::Rng::with_seed(3);
    let weights = toy_weights(5);
    for (boxes, activation) in [false, true].into_iter().flat_map(|boxes| {
        [Activation::Identity, Activation::Relu, Activation::Sigmoid].map(move |a| (boxes, a))
    }) {
        // The update gate takes a state and an observation.
        let mut layer = weights.network.layers()[weights.network.update.start].clone();
        layer.activation = activation;
        let beside = weights.network.features();
        let (from, seen) = (random(3, layer.inputs - beside + 1, boxes, rng), random(3, beside, boxes, rng));
        let columns = layer.inputs - beside;
        let forward =
            |weights: &Weights<f64>, x: &[M]| affine::forward(weights, &layer, 3, &x[0], Some(&x[1]));
        agree(
            "affine",
            vec![from.clone(), seen.clone()],
            |x| forward(&weights, x),
            |x, g| {
                let g = affine::activation_back(activation, &forward(&weights, x), g.clone());
                let mut targets = vec![M::zeros(3, columns + 1, boxes), M::zeros(3, beside, boxes)];
                affine::input_back(&weights, &layer, 0, columns, &g, &mut targets[0]);
                affine::input_back(&weights, &layer, columns, beside, &g, &mut targets[1]);
                targets
            },
            rng,
        );
        // And with respect to the parameters.
        let inputs = [from, seen];
        let seed = random(3, layer.outputs, boxes, rng);
        let mut into = Gradients::new(weights.network.parameters, boxes);
        let g = affine::activation_back(activation, &forward(&weights, &inputs), seed.clone());
        affine::bias_back(&layer, &g, &mut into);
        affine::weights_back(&layer, 0, columns, &inputs[0], &g, &mut into);
        affine::weights_back(&layer, columns, beside, &inputs[1], &g, &mut into);
        let mut total = vec![0.0; weights.network.parameters];
        into.settle(&weights.parameters, &mut total);
        for index in layer.weights.start..layer.biases.end {
            let moved = |by: f64| {
                let mut weights = weights.clone();
                weights.parameters[index] += by;
                weights.refresh();
                let out = forward(&weights, &inputs);
                let lanes = out.lanes().zip(seed.lanes());
                lanes.flat_map(|(o, s)| o.iter().zip(s)).map(|(o, s)| o * s).sum::<f64>()
            };
            let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!(
                (expected - total[index]).abs() < 1e-6 * (1.0 + expected.abs()),
                "{activation:?} {index}"
            );
        }
    }
}

/// A point of a box: anywhere, or a corner.
fn point(x: &M, corner: bool, rng: &mut fastrand::Rng) -> M {
    let mut at = |(c, r): (&f64, &f64)| {
        let part = if corner { f64::from(rng.i8(0..2)) * 2.0 - 1.0 } else { 2.0 * rng.f64() - 1.0 };
        c + r * part
    };
    M::points(x.rows, x.columns, x.centre.iter().zip(&x.radius).map(&mut at).collect())
}

#[test]
fn gated_boxes_hold_their_points_and_no_more() {
    let rng = &mut fastrand::Rng::with_seed(4);
    for _ in 0..20 {
        let (u, g, y) = (gate(2, 2, true, rng), random(2, 4, true, rng), random(2, 4, true, rng));
        let (shrunk, mixed) = (gates::shrink(&u, &y), gates::mix(&u, &g, &y));
        let mut reached = [(f64::INFINITY, f64::NEG_INFINITY); 8];
        for round in 0..600 {
            let (u, g, y) = (
                point(&u, round % 2 == 0, rng),
                point(&g, round % 2 == 0, rng),
                point(&y, round % 2 == 0, rng),
            );
            for (outer, inner) in [(&shrunk, gates::shrink(&u, &y)), (&mixed, gates::mix(&u, &g, &y))] {
                for ((c, r), v) in outer.centre.iter().zip(&outer.radius).zip(&inner.centre) {
                    assert!((v - c).abs() <= r + 1e-12, "{v} outside {c} ± {r}");
                }
            }
            for (at, v) in reached.iter_mut().zip(&gates::mix(&u, &g, &y).centre) {
                *at = (at.0.min(*v), at.1.max(*v));
            }
        }
        // The means of the update are exact: both ends are corners.
        for i in [0, 1, 4, 5] {
            let (low, high) = (mixed.centre[i] - mixed.radius[i], mixed.centre[i] + mixed.radius[i]);
            assert!((reached[i].0 - low).abs() < 1e-9 && (reached[i].1 - high).abs() < 1e-9);
        }
    }
}
