//! Every gradient of the CPU against finite differences, in float64.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, batch, flat, unflat, values};
use gains_core::Shape;
use gains_core::description::RungeKutta;
use gains_train::cpu::{Cpu, Tensor};
use gains_train::device::{Join, LabelData, Pull, WidthNorm};
use gains_train::plan::LayerPlan;
use gains_train::{Batch, Device, StepForm};

type Boxes = Batch<Tensor<f64>>;

const REACH: f64 = 1e-6;
const TOLERANCE: f64 = 2e-6;

/// Compares the gradient of `value` with finite differences, for the parameters of `layers` and for every input.
/// Coordinates with a kink inside the difference are left out, but at most one in twenty.
fn check(
    name: &str,
    cpu: &mut Cpu<f64>,
    layers: &[LayerPlan],
    x: &Boxes,
    value: impl Fn(&mut Cpu<f64>, &Boxes) -> f64,
    gradient: impl Fn(&mut Cpu<f64>, &Boxes) -> Boxes,
) {
    cpu.clear_gradients().unwrap();
    let of_input = gradient(cpu, x);
    let of_input = flat(cpu, &of_input);
    let of_parameters = cpu.gradients().unwrap();
    let parameters = cpu.parameters().unwrap();
    let inputs = flat(cpu, x);
    assert_eq!(inputs.len(), of_input.len());
    let boxes = x.radius.is_some();
    let here = value(cpu, x);
    let mut probes: Vec<(String, f64, [f64; 2])> = Vec::new();
    for index in 0..inputs.len() {
        let sides = [REACH, -REACH].map(|reach| {
            let mut moved = inputs.clone();
            moved[index] += reach;
            let moved = unflat(cpu, &moved, boxes);
            value(cpu, &moved)
        });
        probes.push((format!("input {index}"), of_input[index], sides));
    }
    for index in layers.iter().flat_map(|layer| layer.weights.clone().chain(layer.biases.clone())) {
        let sides = [REACH, -REACH].map(|reach| {
            let mut moved = parameters.clone();
            moved[index] += reach;
            cpu.set_parameters(&moved).unwrap();
            value(cpu, x)
        });
        probes.push((format!("parameter {index}"), of_parameters[index], sides));
    }
    cpu.set_parameters(&parameters).unwrap();
    let largest = probes.iter().map(|(_, g, _)| g.abs()).fold(0.0, f64::max);
    assert!(largest > 0.0, "{name}: all gradients are 0");
    let mut compared = 0;
    for (what, analytic, [above, below]) in &probes {
        let (right, left) = ((above - here) / REACH, (here - below) / REACH);
        if (right - left).abs() > 2e-5 * (largest + 1.0) {
            continue;
        }
        compared += 1;
        let central = (above - below) / (2.0 * REACH);
        assert!(
            (central - analytic).abs() <= TOLERANCE * (largest + 1.0),
            "{name}, {what}: {analytic} but differences say {central} ({left}, {right}); largest {largest}"
        );
    }
    assert!(compared * 20 >= probes.len() * 19, "{name}: only {compared} of {} compared", probes.len());
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn layers() {
    let mut random = fastrand::Rng::with_seed(1);
    let case = Case::encoder(2);
    let mut cpu = case.cpu(1);
    for layer in case.layers() {
        for radius in [None, Some(0.3)] {
            let x = batch(&mut cpu, &mut random, layer.input, 3, radius);
            let lanes = if radius.is_some() { 2 } else { 1 };
            let pull = values(&mut random, 3 * layer.output.len() * lanes, -1.0, 1.0);
            check(
                &layer.name,
                &mut cpu,
                std::slice::from_ref(layer),
                &x,
                |cpu, x| {
                    let y = cpu.layer(layer, x).unwrap().0;
                    dot(&flat(cpu, &y), &pull)
                },
                |cpu, x| {
                    let memory = cpu.layer(layer, x).unwrap().1;
                    let pull = unflat(cpu, &pull, radius.is_some());
                    assert!(cpu.layer_back(layer, x, &memory, &pull, false).unwrap().is_none());
                    cpu.clear_gradients().unwrap();
                    cpu.layer_back(layer, x, &memory, &pull, true).unwrap().unwrap()
                },
            );
        }
    }
}

#[test]
fn pooling() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut cpu = Case::perceptron(1).cpu(1);
    let shape = Shape::image(2, 3, 4);
    for radius in [None, Some(0.3)] {
        let x = batch(&mut cpu, &mut random, shape, 2, radius);
        let pull = values(&mut random, if radius.is_some() { 16 } else { 8 }, -1.0, 1.0);
        check(
            "pool",
            &mut cpu,
            &[],
            &x,
            |cpu, x| {
                let y = cpu.pool(shape, x).unwrap();
                dot(&flat(cpu, &y), &pull)
            },
            |cpu, _| {
                let pull = unflat(cpu, &pull, radius.is_some());
                cpu.pool_back(shape, &pull).unwrap()
            },
        );
    }
}

fn check_step(
    case: &Case,
    method: RungeKutta,
    form: StepForm,
    radius: Option<f64>,
    error_weight: f64,
    seed: u64,
) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cpu = case.cpu(1);
    let ode = case.ode();
    let (time, step) = (0.3, 0.7);
    let x = batch(&mut cpu, &mut random, ode.state(), 2, radius);
    let lanes = if radius.is_some() { 2 } else { 1 };
    let pull = values(&mut random, 2 * ode.state().len() * lanes, -1.0, 1.0);
    check(
        &format!("{method:?} {form:?} {radius:?} {error_weight}"),
        &mut cpu,
        &ode.dynamics,
        &x,
        |cpu, x| {
            let trial = cpu.step(ode, method, form, x, time, step, false).unwrap();
            assert!(trial.memory.is_none());
            let upper = cpu.measure(&trial.errors).unwrap().upper;
            dot(&flat(cpu, &trial.end), &pull) + error_weight * upper
        },
        |cpu, x| {
            let trial = cpu.step(ode, method, form, x, time, step, true).unwrap();
            let pull = unflat(cpu, &pull, radius.is_some());
            cpu.step_back(ode, x, &trial.memory.unwrap(), &pull, error_weight).unwrap()
        },
    );
}

const METHODS: [RungeKutta; 4] = [RungeKutta::Dopri5, RungeKutta::Euler, RungeKutta::Bosh3, RungeKutta::Rk38];

#[test]
fn steps_of_points() {
    for (seed, method) in METHODS.into_iter().enumerate() {
        for case in [Case::convolutions(5), Case::perceptron(6)] {
            check_step(&case, method, StepForm::Independent, None, 0.0, seed as u64);
            check_step(&case, method, StepForm::Difference, None, 0.4, seed as u64 + 10);
        }
    }
}

#[test]
fn independent_steps_of_boxes() {
    for (seed, method) in METHODS.into_iter().enumerate() {
        for case in [Case::convolutions(7), Case::perceptron(8)] {
            check_step(&case, method, StepForm::Independent, Some(0.2), 0.0, seed as u64);
            check_step(&case, method, StepForm::Independent, Some(0.2), 0.4, seed as u64 + 10);
        }
    }
}

#[test]
fn difference_steps_of_boxes() {
    for (seed, method) in METHODS.into_iter().enumerate() {
        for case in [Case::convolutions(9), Case::perceptron(10)] {
            for (more, radius) in [0.02, 0.2, 0.6].into_iter().enumerate() {
                let seed = (seed + 100 * more) as u64;
                check_step(&case, method, StepForm::Difference, Some(radius), 0.0, seed);
                check_step(&case, method, StepForm::Difference, Some(radius), 0.4, seed + 10);
            }
        }
    }
}

#[test]
fn joins() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut cpu = Case::perceptron(1).cpu(1);
    let shape = Shape::flat(6);
    for how in [Join::Average, Join::Hull] {
        let pull = values(&mut random, 2 * 2 * 6, -1.0, 1.0);
        // All boxes to be joined as one batch, so that every entry is probed.
        let x = batch(&mut cpu, &mut random, shape, 6, Some(0.5));
        let cut = |cpu: &mut Cpu<f64>, x: &Boxes| -> Vec<Boxes> {
            let all = flat(cpu, x);
            let (centre, radius) = all.split_at(36);
            (0..3)
                .map(|i| unflat(cpu, &[&centre[12 * i..][..12], &radius[12 * i..][..12]].concat(), true))
                .collect()
        };
        check(
            &format!("{how:?}"),
            &mut cpu,
            &[],
            &x,
            |cpu, x| {
                let parts = cut(cpu, x);
                let joined = cpu.join(how, &parts.iter().collect::<Vec<_>>()).unwrap().0;
                dot(&flat(cpu, &joined), &pull)
            },
            |cpu, x| {
                let parts = cut(cpu, x);
                let memory = cpu.join(how, &parts.iter().collect::<Vec<_>>()).unwrap().1;
                let pull = unflat(cpu, &pull, true);
                let parts = cpu.join_back(&memory, &pull).unwrap();
                let lanes: Vec<Vec<f64>> = parts.iter().map(|part| flat(cpu, part)).collect();
                let centre: Vec<f64> = lanes.iter().flat_map(|lane| lane[..12].to_vec()).collect();
                let radius: Vec<f64> = lanes.iter().flat_map(|lane| lane[12..].to_vec()).collect();
                unflat(cpu, &[centre, radius].concat(), true)
            },
        );
    }
}

#[test]
fn losses() {
    let mut random = fastrand::Rng::with_seed(12);
    let case = Case::convolutions(13);
    let head = &case.plan.head;
    let mut cpu = case.cpu(1);
    let labels = LabelData { labels: vec![0, 3, 1], width_weights: vec![1.0, 0.5, 2.0] };
    for radius in [None, Some(0.4)] {
        for norm in [WidthNorm::Squared, WidthNorm::Absolute] {
            let (weight, width_weight) = (0.7, 0.03);
            let x = batch(&mut cpu, &mut random, head.input, 3, radius);
            check(
                &format!("loss {radius:?} {norm:?}"),
                &mut cpu,
                std::slice::from_ref(head),
                &x,
                |cpu, x| {
                    let labels = cpu.labels(&labels).unwrap();
                    cpu.take_ledger().unwrap();
                    cpu.loss(head, x, &labels, Pull::CrossEntropy(weight), width_weight, norm).unwrap();
                    let ledger = cpu.take_ledger().unwrap();
                    let tally = if radius.is_some() { ledger.robust } else { ledger.clean };
                    assert_eq!(tally.samples, 3.0);
                    weight * tally.cross_entropy + width_weight * tally.width
                },
                |cpu, x| {
                    let labels = cpu.labels(&labels).unwrap();
                    cpu.loss(head, x, &labels, Pull::CrossEntropy(weight), width_weight, norm).unwrap()
                },
            );
        }
    }
}

/// A weighted sum of margins, by slopes from outside.
#[test]
fn margins() {
    let mut random = fastrand::Rng::with_seed(14);
    let case = Case::convolutions(15);
    let head = &case.plan.head;
    let mut cpu = case.cpu(1);
    let labels = LabelData { labels: vec![2, 0, 3], width_weights: vec![0.0; 3] };
    let slopes = values(&mut random, 3 * 4, -1.0, 1.0);
    for radius in [None, Some(0.4)] {
        let x = batch(&mut cpu, &mut random, head.input, 3, radius);
        check(
            &format!("margins {radius:?}"),
            &mut cpu,
            std::slice::from_ref(head),
            &x,
            |cpu, x| {
                let labels = cpu.labels(&labels).unwrap();
                let margins = cpu.margins(head, x, &labels).unwrap();
                assert_eq!((margins[2], margins[4], margins[11]), (0.0, 0.0, 0.0), "the labels' own");
                dot(&margins, &slopes)
            },
            |cpu, x| {
                let labels = cpu.labels(&labels).unwrap();
                cpu.loss(head, x, &labels, Pull::Margins(&slopes), 0.0, WidthNorm::Squared).unwrap()
            },
        );
    }
    let (x, labels) = (batch(&mut cpu, &mut random, head.input, 3, None), cpu.labels(&labels).unwrap());
    assert!(cpu.loss(head, &x, &labels, Pull::Margins(&slopes[1..]), 0.0, WidthNorm::Squared).is_err());
}
