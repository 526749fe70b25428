//! Proofs that need better slopes or case distinctions: a little more is asked than rows over the whole region show.

use std::time::Duration;

use gains_core::description::{LayerSpec, RungeKutta};
use gains_core::model_file::Tensors;
use gains_core::{Arithmetic, BoxVec, Rows, Shape};
use gains_testkit::{Model, controlled, fixed, random_tensors};
use gains_verify::property::{Condition, LinearRow};
use gains_verify::{Analysis, Budget, Clock, Method, Problem, Property, Region, Settings, Stage, StepForm};

use crate::{Both, Outcome};

fn linear(name: &str, from: usize, to: usize) -> LayerSpec {
    LayerSpec::Linear { name: name.into(), in_features: from, out_features: to, time: false }
}

/// Some inputs, two layers of neurons in front of an ODE block, two outputs.
pub(crate) fn model(seed: u64, inputs: usize) -> Model {
    let mut random = fastrand::Rng::with_seed(seed);
    let solver = match seed % 3 {
        0 => fixed(RungeKutta::Rk4, 2),
        1 => controlled(RungeKutta::Dopri5, 2, 0.01, 0.3, 1),
        _ => controlled(RungeKutta::Heun, 2, 0.1, 0.4, 1),
    };
    let dynamics = vec![linear("f", 3, 4), LayerSpec::Relu {}, linear("g", 4, 3)];
    let mut tensors: Tensors = random_tensors(&dynamics, &mut random);
    let mut layers = vec![linear("a", inputs, 6), LayerSpec::Relu {}, linear("b", 6, 5), LayerSpec::Relu {}];
    layers.push(linear("c", 5, 3));
    if seed.is_multiple_of(2) {
        layers.push(LayerSpec::Relu {});
    }
    tensors.extend(random_tensors(&layers, &mut random));
    let head = vec![linear("d", 3, 2)];
    tensors.extend(random_tensors(&head, &mut random));
    layers.push(LayerSpec::Ode { dynamics, solver });
    layers.extend(head);
    Model::new(Shape::flat(inputs), layers, tensors, 2)
}

/// Asks for a part of the width more than rows show of one output.
fn ask_for_more(seed: u64, inputs: usize, more: f64) -> Outcome {
    ask(seed, inputs, |shown| Condition::All(vec![shown(0, more)]))
}

/// Asks for something of outputs that are above what rows show of them by a part of the width.
fn ask(seed: u64, inputs: usize, asked: impl Fn(&dyn Fn(usize, f64) -> Condition) -> Condition) -> Outcome {
    let both = Both::new(&model(seed, inputs));
    let program = &both.network.body;
    let centre: Vec<f64> =
        (0..inputs).map(|i| 0.3 + 0.4 * ((seed as usize * 7 + i * 5) % 11) as f64 / 11.0).collect();
    let lower: Vec<f64> = centre.iter().map(|x| x - 0.25).collect();
    let upper: Vec<f64> = centre.iter().map(|x| x + 0.25).collect();
    let boxes = vec![BoxVec::new(lower, upper)];
    let clock = Clock::start(Budget::default());
    let analysis =
        Analysis::new(program, boxes.clone(), Method::Tight, StepForm::Difference, Arithmetic::Real, clock);
    let analysis = analysis.unwrap();
    let shown = |output: usize, more: f64| {
        let bounds = analysis.bound(&Rows::units(program.output_shape(), &[output])).unwrap().lower;
        let width = -bounds[0] - bounds[1];
        let mut row = vec![0.0; 2];
        row[output] = 1.0;
        Condition::Row(LinearRow::new(row, -bounds[0] - more * width))
    };
    let property = Property::Linear { outputs: 2, condition: asked(&shown) };
    let problem =
        Problem { program, region: Region::boxes(boxes), property, nominal: vec![centre], output: None };
    let stages = vec![Stage::Bound(Method::Tight), Stage::Branch];
    let settings = Settings { stages, step_form: StepForm::Difference, ..Settings::default() };
    let budget = Budget { timeout: Some(Duration::from_secs(10)), ..Budget::default() };
    both.ask(&problem, settings, budget)
}

/// Case distinctions on neurons: more inputs than are halved.
#[test]
fn case_distinctions_are_accepted() {
    let (mut verified, mut parts, mut missing) = (0, 0, Vec::new());
    for seed in 0..24 {
        match ask_for_more(seed, 70, 0.01) {
            Outcome::Verified(nodes) => {
                verified += 1;
                parts += nodes;
            }
            Outcome::NotWritten(why) => missing.push((seed, why)),
            Outcome::Undecided | Outcome::Falsified => {}
        }
    }
    println!("{verified} verified, {parts} nodes, not written: {missing:?}");
    assert!(verified >= 8 && parts > 2 * verified && missing.len() * 4 <= verified);
}

/// Parts in which now this, now that is shown: one of several, or some of them, is enough.
#[test]
fn case_distinctions_of_any_condition_are_accepted() {
    let (mut verified, mut parts, mut missing) = (0, 0, Vec::new());
    for seed in 0..24 {
        let outcome = ask(seed, 70, |shown| {
            let either = Condition::Any(vec![shown(0, 0.02), shown(1, 0.02)]);
            match seed % 2 {
                0 => either,
                _ => Condition::AtLeast { needed: 2, of: vec![either, shown(0, 0.3), shown(1, -0.1)] },
            }
        });
        match outcome {
            Outcome::Verified(nodes) => {
                verified += 1;
                parts += nodes;
            }
            Outcome::NotWritten(why) => missing.push((seed, why)),
            Outcome::Undecided | Outcome::Falsified => {}
        }
    }
    println!("{verified} verified, {parts} nodes, not written: {missing:?}");
    assert!(verified >= 6 && parts > 2 * verified && missing.len() * 4 <= verified);
}

/// The same with few inputs.
#[test]
fn networks_of_few_inputs_are_accepted() {
    let outcomes: Vec<Outcome> = (0..16).map(|seed| ask_for_more(seed, 2, 0.05)).collect();
    let verified = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Verified(_))).count();
    assert!(verified >= 6, "{outcomes:?}");
}
