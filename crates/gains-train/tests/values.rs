//! What the CPU computes against the reference evaluation of the core crates, and boxes against the points in them.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, batch, flat, unflat, values};
use gains_core::description::RungeKutta;
use gains_core::{Arithmetic, BoxVec, OdeBlock, Operator, Precision, Step};
use gains_ode::Inference;
use gains_ode::Tableau;
use gains_ode::system::{NeuralDynamics, trial_step};
use gains_train::cpu::{Cpu, Tensor};
use gains_train::{Batch, Device, StepForm};

const METHODS: [RungeKutta; 5] =
    [RungeKutta::Dopri5, RungeKutta::Euler, RungeKutta::Heun, RungeKutta::Bosh3, RungeKutta::Rk4];

fn close(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance * (1.0 + e.abs()), "{name}: entry {i} is {f}, not {e}");
    }
}

/// All layers of an encoder, the last included.
fn through_layers(case: &Case, cpu: &mut Cpu<f64>, x: Batch<Tensor<f64>>) -> Vec<f64> {
    let mut x = x;
    for layer in case.layers().into_iter().chain([&case.plan.head]) {
        x = cpu.layer(layer, &x).unwrap().0;
    }
    flat(cpu, &x)
}

#[test]
fn layers_of_points_are_those_of_the_core() {
    let mut random = fastrand::Rng::with_seed(1);
    let case = Case::encoder(2);
    let network = case.network();
    let mut cpu = case.cpu(1);
    let samples = 7;
    let x = batch(&mut cpu, &mut random, case.plan.input, samples, None);
    let points = flat(&mut cpu, &x);
    let found = through_layers(&case, &mut cpu, x);
    for sample in 0..samples {
        let entries = case.plan.input.len();
        let point = &points[sample * entries..][..entries];
        let expected = Inference::run(&network, point, Precision::Float64).unwrap().output;
        close("logits", &found[sample * 4..][..4], &expected, 1e-12);
    }
}

#[test]
fn layers_of_boxes_are_those_of_the_core() {
    let mut random = fastrand::Rng::with_seed(3);
    let case = Case::encoder(4);
    let network = case.network();
    let mut cpu = case.cpu(1);
    let x = batch(&mut cpu, &mut random, case.plan.input, 1, Some(0.2));
    let values = flat(&mut cpu, &x);
    let (centre, radius) = values.split_at(values.len() / 2);
    let ends = |sign: f64| centre.iter().zip(radius).map(|(c, r)| c + sign * r).collect();
    let mut expected = BoxVec::new(ends(-1.0), ends(1.0));
    for (_, node) in network.body.nodes() {
        expected = match &node.operator {
            Step::Plain(Operator::Affine(map)) => map.apply_box(&expected, 0.0, Arithmetic::Real),
            _ => {
                let cut = |values: &[f64]| values.iter().map(|v| v.max(0.0)).collect();
                BoxVec::new(cut(&expected.lower), cut(&expected.upper))
            }
        };
    }
    let found = through_layers(&case, &mut cpu, x);
    let (centre, radius) = found.split_at(4);
    let lower: Vec<f64> = centre.iter().zip(radius).map(|(c, r)| c - r).collect();
    let upper: Vec<f64> = centre.iter().zip(radius).map(|(c, r)| c + r).collect();
    close("lower", &lower, &expected.lower, 1e-12);
    close("upper", &upper, &expected.upper, 1e-12);
}

fn block(network: &gains_core::Network) -> &OdeBlock {
    &network.body.odes().next().unwrap().1.block
}

#[test]
fn steps_of_points_are_those_of_the_solver() {
    let mut random = fastrand::Rng::with_seed(5);
    for case in [Case::convolutions(6), Case::perceptron(7)] {
        let network = case.network();
        let system = NeuralDynamics { circuit: &block(&network).dynamics, precision: Precision::Float64 };
        let mut cpu = case.cpu(1);
        let (ode, entries, samples) = (case.ode(), case.ode().state().len(), 5);
        for method in METHODS {
            let x = batch(&mut cpu, &mut random, ode.state(), samples, None);
            let points = flat(&mut cpu, &x);
            let trial = cpu.step(ode, method, StepForm::Difference, &x, 0.4, 0.3, true).unwrap();
            let end = flat(&mut cpu, &trial.end);
            let statistics = cpu.download(gains_core::Shape::flat(4), &trial.errors).unwrap();
            let mut sums = [0.0; 4];
            for sample in 0..samples {
                let x = &points[sample * entries..][..entries];
                let expected = trial_step(&system, Tableau::of(method), 0.4, 0.3, x, None);
                close("end", &end[sample * entries..][..entries], &expected.state, 1e-12);
                let norm = |values: &[f64]| values.iter().map(|v| v.abs()).sum::<f64>();
                let all = [expected.error, expected.error, norm(x), norm(&expected.stages[0].slope)];
                close("statistics", &statistics[4 * sample..][..4], &all, 1e-12);
                sums.iter_mut().zip(all).for_each(|(sum, v)| *sum += v);
            }
            let measure = cpu.measure(&trial.errors).unwrap();
            close("sums", &[measure.lower, measure.upper, measure.state, measure.slope], &sums, 1e-12);
            let largest = statistics.chunks(4).map(|s| s[1]).fold(0.0, f64::max);
            assert_eq!(measure.largest, largest);
        }
    }
}

/// Corners, centres, random points and points with single entries at an end.
fn points_in(random: &mut fastrand::Rng, centre: &[f64], radius: &[f64], number: usize) -> Vec<f64> {
    let place = |i: usize, random: &mut fastrand::Rng| match number % 4 {
        0 if number == 0 => 0.0,
        0 | 1 => f64::from(random.bool()) * 2.0 - 1.0,
        2 => random.f64() * 2.0 - 1.0,
        _ => {
            if i % 7 == number % 7 {
                1.0
            } else {
                -1.0
            }
        }
    };
    (0..centre.len()).map(|i| centre[i] + radius[i] * place(i, random)).collect()
}

#[test]
fn boxes_contain_the_steps_of_their_points_and_differences_only_tighten() {
    let mut random = fastrand::Rng::with_seed(8);
    let mut narrower = 0;
    let mut uppers = [0.0; 2];
    for case in [Case::convolutions(9), Case::perceptron(10)] {
        let network = case.network();
        let system = NeuralDynamics { circuit: &block(&network).dynamics, precision: Precision::Float64 };
        let mut cpu = case.cpu(1);
        let (ode, entries) = (case.ode(), case.ode().state().len());
        for (method, radius) in METHODS.into_iter().flat_map(|m| [0.01, 0.1, 0.5].map(|r| (m, r))) {
            let samples = 3;
            let x = batch(&mut cpu, &mut random, ode.state(), samples, Some(radius));
            let start = flat(&mut cpu, &x);
            let mut boxes = Vec::new();
            for form in [StepForm::Independent, StepForm::Difference] {
                let trial = cpu.step(ode, method, form, &x, 0.2, 0.6, false).unwrap();
                let errors = cpu.download(gains_core::Shape::flat(4), &trial.errors).unwrap();
                boxes.push((flat(&mut cpu, &trial.end), errors));
            }
            let all = samples * entries;
            for i in 0..all {
                let [wide, tight] = [0, 1].map(|form: usize| {
                    let end = &boxes[form].0;
                    (end[i] - end[all + i], end[i] + end[all + i])
                });
                assert!(tight.0 >= wide.0 - 1e-12 && tight.1 <= wide.1 + 1e-12, "{method:?} {radius}");
                narrower += usize::from(tight.1 - tight.0 < 0.99 * (wide.1 - wide.0));
            }
            for sample in 0..samples {
                let (wide, tight) = (&boxes[0].1[4 * sample..][..4], &boxes[1].1[4 * sample..][..4]);
                assert!(tight[0] >= wide[0] - 1e-12 && tight[1] <= wide[1] + 1e-12);
                close("norms", &tight[2..], &wide[2..], 1e-12);
                if method == RungeKutta::Dopri5 && radius < 0.1 {
                    uppers = [uppers[0] + wide[1], uppers[1] + tight[1]];
                }
                let at = sample * entries;
                for number in 0..30 {
                    let (centre, radius) = (&start[at..][..entries], &start[all + at..][..entries]);
                    let point = points_in(&mut random, centre, radius, number);
                    let end = trial_step(&system, Tableau::of(method), 0.2, 0.6, &point, None);
                    for (boxes, errors) in &boxes {
                        for (i, v) in end.state.iter().enumerate() {
                            let away = (v - boxes[at + i]).abs() - boxes[all + at + i];
                            assert!(away <= 1e-12, "{method:?} {radius:?}: outside by {away}");
                        }
                        let bounds = &errors[4 * sample..][..2];
                        assert!(bounds[0] - 1e-12 <= end.error && end.error <= bounds[1] + 1e-12);
                    }
                }
            }
        }
    }
    assert!(uppers[1] < 0.5 * uppers[0], "error estimates of small boxes: {uppers:?}");
    assert!(narrower > 150, "the difference form was narrower only {narrower} times");
}

#[test]
fn hulls_and_averages() {
    let case = Case::perceptron(1);
    let mut cpu = case.cpu(1);
    let a = unflat(&mut cpu, &[0.0, 1.0, 1.0, 0.5], true);
    let b = unflat(&mut cpu, &[2.0, 1.0, 0.5, 0.25], true);
    let hull = cpu.join(gains_train::device::Join::Hull, &[&a, &b]).unwrap().0;
    assert_eq!(flat(&mut cpu, &hull), [0.75, 1.0, 1.75, 0.5]);
    let mean = cpu.join(gains_train::device::Join::Average, &[&a, &b]).unwrap().0;
    assert_eq!(flat(&mut cpu, &mean), [1.0, 1.0, 0.75, 0.375]);
    cpu.accumulate(&mut { a }, &b).unwrap();
}

#[test]
fn a_nan_in_a_sample_is_seen_at_its_end_and_nowhere_else() {
    let mut random = fastrand::Rng::with_seed(11);
    for case in [Case::convolutions(12), Case::perceptron(13)] {
        let mut cpu = case.cpu(1);
        let (ode, entries) = (case.ode(), case.ode().state().len());
        for (form, boxes) in
            [(StepForm::Independent, false), (StepForm::Independent, true), (StepForm::Difference, true)]
        {
            for lane in 0..if boxes { 2 } else { 1 } {
                let mut x = values(&mut random, 3 * entries * if boxes { 2 } else { 1 }, 0.0, 0.5);
                x[lane * 3 * entries + entries + 1] = f64::NAN;
                let x = unflat(&mut cpu, &x, boxes);
                let trial = cpu.step(ode, RungeKutta::Dopri5, form, &x, 0.0, 0.5, false).unwrap();
                let end = flat(&mut cpu, &trial.end);
                for (i, lane) in end.chunks(entries).enumerate() {
                    assert_eq!(lane.iter().any(|v| v.is_nan()), i % 3 == 1, "{form:?}");
                }
                assert!(cpu.measure(&trial.errors).unwrap().upper.is_nan());
            }
        }
    }
}
