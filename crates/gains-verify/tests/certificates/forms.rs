//! Proofs by affine forms: of random networks, and of networks drawn from all that the loader accepts.

use std::collections::BTreeMap;
use std::time::Duration;

use gains_core::{BoxVec, Interval, Precision};
use gains_ode::Inference;
use gains_testkit::{Kinds, random_model};
use gains_verify::property::LinearRow;
use gains_verify::{Budget, Method, Problem, Property, Region, Settings, Stage};

use crate::grammar::{drawn, property};
use crate::{Both, Outcome};

fn budget() -> Budget<'static> {
    Budget { timeout: Some(Duration::from_secs(5)), vertices: 300, ..Budget::default() }
}

fn settings() -> Settings {
    Settings { stages: Stage::bounds(&[Method::Symbolic]), ..Settings::default() }
}

/// A network drawn from the grammar, and what came of it.
fn one_drawn(seed: u64) -> Outcome {
    let Some((case, both, mut choices)) = drawn(seed) else { return Outcome::Undecided };
    let Ok(run) = Inference::run(&both.network, &case.centre, Precision::Float64) else {
        return Outcome::Undecided;
    };
    if !run.output.iter().all(|y| y.is_finite()) {
        return Outcome::Undecided;
    }
    let far = choices.pick(&[0.3, 0.01, 0.05, 2.0, 20.0]);
    let property = property(&run.output, far, &mut choices);
    let radius = case.radius * choices.pick(&[1.0, 0.1, 1e-3]);
    let region = Region::boxes(vec![BoxVec::ball(&case.centre, radius, case.range)]);
    let program = &both.network.body;
    let problem = Problem { program, region, property, nominal: vec![case.centre.clone()], output: None };
    both.ask(&problem, settings(), budget())
}

/// One of the random networks, and what came of it.
fn one_random(seed: u64) -> Outcome {
    let mut random = fastrand::Rng::with_seed(seed);
    let model = random_model(&mut random, if seed.is_multiple_of(3) { Kinds::All } else { Kinds::Piecewise });
    let both = Both::new(&model);
    let centre: Vec<f64> = (0..model.inputs()).map(|_| random.f64()).collect();
    let Ok(run) = Inference::run(&both.network, &centre, Precision::Float64) else {
        return Outcome::Undecided;
    };
    let radius = 10_f64.powf(-4.0 + 3.5 * random.f64());
    let rows = (0..run.output.len()).map(|i| {
        let mut coefficients = vec![0.0; run.output.len()];
        coefficients[i] = 1.0;
        LinearRow::new(coefficients, 3.0 * radius + 0.5 * random.f64() - run.output[i])
    });
    let property = Property::all(run.output.len(), rows.collect());
    let region =
        Region::boxes(vec![BoxVec::ball(&centre, radius, Interval::new(f64::NEG_INFINITY, f64::INFINITY))]);
    let program = &both.network.body;
    let problem = Problem { program, region, property, nominal: vec![centre], output: None };
    both.ask(&problem, settings(), budget())
}

fn ask(name: &str, seeds: std::ops::Range<u64>, one: fn(u64) -> Outcome) -> (usize, usize) {
    let (mut verified, mut missing, mut broken) = (0, BTreeMap::<String, usize>::new(), Vec::new());
    for seed in seeds {
        match std::panic::catch_unwind(|| one(seed)) {
            Err(_) => broken.push(seed),
            Ok(Outcome::Verified(_)) => verified += 1,
            Ok(Outcome::NotWritten(why)) => *missing.entry(why.to_string()).or_default() += 1,
            Ok(Outcome::Undecided | Outcome::Falsified) => {}
        }
    }
    println!("{name}: {verified} verified, not written: {missing:#?}");
    assert!(broken.is_empty(), "{name}: certificates of the seeds {broken:?} are not accepted");
    (verified, missing.values().sum())
}

#[test]
fn forms_of_random_networks_have_certificates() {
    let (verified, missing) = ask("random", 0..150, one_random);
    assert!(verified > 60 && missing * 10 < verified, "{verified}, {missing}");
}

#[test]
fn forms_of_networks_of_every_layer_have_certificates() {
    let (verified, missing) = ask("drawn", 0..250, one_drawn);
    assert!(verified > 60 && missing * 10 < verified, "{verified}, {missing}");
}
