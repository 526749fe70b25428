//! An encoder written in true float32, with sums in random trees: every value must be in the float32 box.

use gains_core::operator::blend::Blend;
use gains_core::{Activation, AffineMap, Arithmetic, Circuit, Operator, SeriesEncoder};
use gains_ode::Observations;
use gains_testkit::{Model, latent};
use gains_verify::Method;
use gains_verify::series::Perturbation;

use crate::attacked::sample;
use crate::exact;
use crate::perturbation::perturbation;
use crate::scene::{Scene, Way};

/// Adds in a random binary tree of the depth that float32 programs are promised.
fn sum(mut terms: Vec<f32>, random: &mut fastrand::Rng) -> f32 {
    while terms.len() > 1 {
        random.shuffle(&mut terms);
        terms = terms.chunks(2).map(|pair| pair.iter().copied().reduce(|a, b| a + b).unwrap()).collect();
    }
    terms.pop().unwrap_or(0.0)
}

/// The parts of an encoder are lists of layers.
fn evaluate(circuit: &Circuit, x: &[f32], random: &mut fastrand::Rng) -> Vec<f32> {
    let mut value = x.to_vec();
    for (_, node) in circuit.nodes() {
        value = match &node.operator {
            Operator::Affine(map) => affine(map, &value, random),
            Operator::Curve(activation) => value.iter().map(|v| activate(*activation, *v)).collect(),
            other => unreachable!("{other:?} is no layer of these encoders"),
        };
    }
    value
}

fn activate(activation: Activation, v: f32) -> f32 {
    match activation {
        Activation::Relu => v.max(0.0),
        Activation::LeakyRelu { slope } if v <= 0.0 => slope as f32 * v,
        Activation::LeakyRelu { .. } => v,
        Activation::Sigmoid => 1.0 / (1.0 + (-v).exp()),
        Activation::Tanh => v.tanh(),
        Activation::Absolute => v.abs(),
        Activation::Smooth(other) => unreachable!("{other} is in none of these encoders"),
    }
}

fn affine(map: &AffineMap, x: &[f32], random: &mut fastrand::Rng) -> Vec<f32> {
    let matrix = map.to_matrix();
    let bias = map.bias(0.0);
    (0..matrix.rows)
        .map(|row| {
            let mut terms: Vec<f32> =
                (0..matrix.columns).map(|c| matrix.data[row * matrix.columns + c] as f32 * x[c]).collect();
            terms.push(bias[row] as f32);
            sum(terms, random)
        })
        .collect()
}

fn encode(encoder: &SeriesEncoder, series: &Observations, random: &mut fastrand::Rng) -> Vec<f32> {
    let n = encoder.width();
    let single = |values: &[f64]| values.iter().map(|v| *v as f32).collect::<Vec<f32>>();
    let positive = |i: usize, v: f32| if i < n { v } else { v.abs() };
    let mut state = evaluate(&encoder.initial, &single(&series.statics), random);
    state = state.iter().enumerate().map(|(i, v)| positive(i, *v)).collect();
    for stop in series.walk(encoder) {
        if stop.step != 0.0 {
            let slope = evaluate(&encoder.dynamics, &state[..n], random);
            for i in 0..n {
                state[i] += stop.step as f32 * slope[i];
            }
        }
        if !stop.observed {
            continue;
        }
        let seen = single(&series.row(stop.point));
        let all = [&state[..], &seen].concat();
        let update = evaluate(&encoder.update, &all, random);
        let reset = evaluate(&encoder.reset, &all, random);
        let shown: Vec<f32> = (0..2 * n).map(|i| state[i] * reset[i % n]).chain(seen).collect();
        let new = evaluate(&encoder.candidate, &shown, random);
        for i in 0..2 * n {
            let (u, g) = (update[i % n], positive(i, new[i]));
            state[i] =
                if random.bool() { (1.0 - u) * g + u * state[i] } else { (1.0 - u).mul_add(g, u * state[i]) };
        }
    }
    let mut latent = evaluate(&encoder.latent, &state, random);
    latent.truncate(encoder.latent_width());
    latent
}

#[test]
fn programs_in_float32_stay_in_their_boxes() {
    let (mut outside_real, mut checked) = (0, 0);
    for seed in 0..60 {
        let model = latent::model(seed, 1.2);
        let network = model.network();
        let series = latent::series(seed, 4);
        let mut random = fastrand::Rng::with_seed(seed);
        // Where nothing moves, rounding is all there is.
        let eps = if seed % 2 == 0 { 0.0 } else { 1e-3 };
        let p = perturbation(eps);
        let scene = Scene::new(&network, &series, &p);
        let region = scene.region(Arithmetic::Real);
        for method in [Method::Box, Method::Tight] {
            let enclose = |arithmetic| scene.latent(Way { arithmetic, ..Way::of(method) });
            let (single, real) = (enclose(Arithmetic::Float32), enclose(Arithmetic::Real));
            for _ in 0..20 {
                let inputs = sample(&region, &mut random);
                let mut point = scene.program(Blend::Exact).series(&series, &inputs);
                let round = |values: &mut [f64]| values.iter_mut().for_each(|v| *v = f64::from(*v as f32));
                round(&mut point.statics);
                round(&mut point.values);
                if !scene.contains(&point, Arithmetic::Float32) {
                    continue;
                }
                let latent = encode(scene.forecaster.encoder, &point, &mut random);
                let latent: Vec<f64> = latent.iter().map(|v| f64::from(*v)).collect();
                assert!(single.contains(&latent), "seed {seed} {method}: {latent:?} {single:?}");
                outside_real += u32::from(!real.contains(&latent));
                checked += 1;
            }
        }
    }
    assert!(checked > 1000, "{checked}");
    assert!(outside_real > 100, "the same programs do leave the real boxes: {outside_real}");
}

/// The latent state of a float32 program for a series without perturbation, and its enclosures by boxes and by rows.
fn drift(model: &Model, series: &Observations) -> (f64, [gains_core::Interval; 2]) {
    let network = model.network();
    let p = Perturbation::of_features(network.encoder.as_ref().unwrap(), 0.0);
    let scene = Scene::new(&network, series, &p);
    let bounds = [Method::Box, Method::Tight].map(|method| {
        let way = Way { arithmetic: Arithmetic::Float32, ..Way::of(method) };
        scene.latent(way).get(0)
    });
    let mut random = fastrand::Rng::with_seed(1);
    (f64::from(encode(scene.forecaster.encoder, series, &mut random)[0]), bounds)
}

const STEPS: usize = 400;

/// Euler steps that are too small for float32 to see: the program stays where it is, the exact state moves on.
#[test]
fn steps_that_are_lost_to_rounding_stay_inside() {
    let mut model = exact::model(0.0);
    model.tensors.insert("dynamics.weight".into(), (vec![1, 1], vec![0.0]));
    let step = 2.0_f64.powi(-10);
    model.tensors.insert("dynamics.bias".into(), (vec![1], vec![0.45 * f64::from(f32::EPSILON) / step]));
    let encoder = model.description.encoder.as_mut().unwrap();
    encoder.points = gains_core::description::Points::All;
    encoder.lead = step;
    let series = Observations {
        statics: vec![1.5],
        times: (0..STEPS).map(|i| i as f64 * step).collect(),
        values: vec![0.0; STEPS],
        mask: vec![false; STEPS],
        target_time: 0.5,
    };
    let (found, bounds) = drift(&model, &series);
    let exact = 1.5 - 0.45 * f64::from(f32::EPSILON) * STEPS as f64;
    assert!((found - exact).abs() > 100.0 * f64::from(f32::EPSILON), "{found} {exact}");
    for x in bounds {
        assert!(x.contains(found) && x.contains(exact), "{found} and {exact} in {x:?}");
    }
}
