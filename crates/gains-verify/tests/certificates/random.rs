//! Random networks of every layer, tableau and controller.

use std::time::Duration;

use gains_core::{BoxVec, Interval, Precision};
use gains_ode::Inference;
use gains_testkit::{Kinds, random_model};
use gains_verify::property::LinearRow;
use gains_verify::{Attack, Method, Norm, Point, Problem, Property, Region, Settings, Stage, StepForm};

use crate::{Both, Outcome};

fn budget() -> gains_verify::Budget<'static> {
    gains_verify::Budget { timeout: Some(Duration::from_secs(5)), vertices: 300, ..Default::default() }
}

/// What is asked of a network at a point: the class it says, or that no output moves far.
fn property(output: &[f64], random: &mut fastrand::Rng) -> Property {
    if random.bool() {
        return Property::classification(output.len(), gains_verify::property::largest(output));
    }
    let row = |i: usize| {
        let mut coefficients = vec![0.0; output.len()];
        coefficients[i] = 1.0;
        LinearRow::new(coefficients, 0.1 + random.f64() - output[i])
    };
    let rows: Vec<LinearRow> = (0..output.len()).map(row).collect();
    Property::all(output.len(), rows)
}

fn region(centre: &[f64], radius: f64, random: &mut fastrand::Rng) -> Region {
    let range = Interval::new(f64::NEG_INFINITY, f64::INFINITY);
    let radii: Vec<f64> = centre.iter().map(|_| radius * (0.2 + random.f64())).collect();
    let norm = [Norm::Infinity, Norm::Infinity, Norm::Two, Norm::One][random.usize(0..4)];
    Region::around(centre, &radii, &vec![range; centre.len()], norm)
}

/// One random network, asked about one random point in one way.
fn one(seed: u64) -> Outcome {
    let mut random = fastrand::Rng::with_seed(seed);
    let model = random_model(&mut random, if seed.is_multiple_of(3) { Kinds::All } else { Kinds::Piecewise });
    let both = Both::new(&model);
    let centre: Vec<f64> = (0..model.inputs()).map(|_| random.f64()).collect();
    let Ok(run) = Inference::run(&both.network, &centre, Precision::Float64) else {
        return Outcome::Undecided;
    };
    let radius = 10_f64.powf(-3.0 + 2.5 * random.f64());
    let nominal: Point = vec![centre.clone()];
    let problem = Problem {
        program: &both.network.body,
        region: region(&centre, radius, &mut random),
        property: property(&run.output, &mut random),
        nominal,
        output: None,
    };
    let step_form = if random.bool() { StepForm::Difference } else { StepForm::Independent };
    let method = [Method::Box, Method::Gains, Method::Linear, Method::Tight][random.usize(0..4)];
    let settings = match random.usize(0..3) {
        0 => Settings::cascade(&both.network.body, radius, Some(Attack::default())),
        1 => Settings {
            stages: vec![Stage::Bound(Method::Tight), Stage::Branch],
            step_form,
            ..Settings::default()
        },
        _ => Settings { stages: Stage::bounds(&[method]), step_form, ..Settings::default() },
    };
    both.ask(&problem, settings, budget())
}

#[test]
fn every_certificate_that_is_written_is_accepted() {
    let (mut verified, mut falsified, mut split, mut missing) = (0, 0, 0, Vec::new());
    for seed in 0..120 {
        match one(seed) {
            Outcome::Undecided => {}
            Outcome::Falsified => falsified += 1,
            Outcome::NotWritten(why) => missing.push((seed, why)),
            Outcome::Verified(nodes) => {
                verified += 1;
                split += usize::from(nodes > 1);
            }
        }
    }
    println!(
        "{verified} verified, {split} of them by parts, {falsified} falsified, not written: {missing:?}"
    );
    assert!(verified > 60 && falsified > 1 && missing.len() * 20 < verified);
}

/// What a certificate says of another region or network is not accepted.
#[test]
fn certificates_of_boxes_hold_their_boxes() {
    let mut random = fastrand::Rng::with_seed(9);
    let model = random_model(&mut random, Kinds::Piecewise);
    let both = Both::new(&model);
    let centre: Vec<f64> = (0..model.inputs()).map(|_| random.f64()).collect();
    let run = Inference::run(&both.network, &centre, Precision::Float64).unwrap();
    let region = Region::boxes(vec![BoxVec::point(&centre)]);
    let property = Property::within(&run.output, 0.5);
    let program = &both.network.body;
    let problem = Problem { program, region, property, nominal: vec![centre], output: None };
    let settings = Settings { stages: Stage::bounds(&[Method::Box]), ..Settings::default() };
    assert!(matches!(both.ask(&problem, settings, budget()), Outcome::Verified(1)));
}
