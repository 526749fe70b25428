//! Branch and bound: what it proves of the whole region must hold at every point, whichever part it is in.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gains_core::description::{LayerSpec, Method as Rule};
use gains_core::model_file::Tensors;
use gains_core::{Arithmetic, Block, BoxVec, Interval, Network, Precision, Shape};
use gains_ode::{Action, Inference, Tableau};
use gains_verify::analysis::{Prepared, image_region};
use gains_verify::box_step::LayerTrace;
use gains_verify::verifier::Settings;
use gains_verify::{Budget, Method, Property, Report, Stage, StepForm, Verdict, Verifier};

use crate::region::{ARITHMETICS, analyse, descend, point, property, random_region, to_float32, value};
use crate::zoo::{Gardener, Kinds, Model, controlled, fixed, linear, random_model};

const PIXELS: Interval = Interval::new(-3.0, 3.0);

/// The ways a network may begin.
const FRONTS: usize = 8;

/// A random network with a front of one of several kinds, or none.
fn fronted(random: &mut fastrand::Rng, kinds: Kinds, front: usize) -> Model {
    let input = Shape::flat(random.usize(2..4));
    let mut g = Gardener::new(random, kinds, input);
    let mut layers = Vec::new();
    let wide = g.random.usize(3..6);
    let narrow = g.random.usize(2..4);
    match front {
        // One layer, bare and with an affine map behind it.
        0 => layers.extend([g.linear(wide, false), g.activation()]),
        1 => layers.extend([g.linear(wide, false), g.activation(), g.linear(narrow, false)]),
        // Several.
        2 | 3 => {
            layers.extend([g.linear(wide, false), g.activation(), g.linear(wide + 1, false), g.activation()]);
            if front == 3 {
                layers.push(g.linear(narrow, false));
            }
        }
        // An activation with no affine map in front of it: at once, and behind another.
        4 => layers.extend([g.activation(), g.linear(wide, false)]),
        5 => layers.extend([g.linear(wide, false), g.activation(), g.activation(), g.linear(narrow, false)]),
        // Two ODE blocks.
        6 => {
            layers.extend([g.linear(narrow, false), g.activation(), g.ode(), g.linear(wide, false)]);
            layers.push(g.activation());
        }
        // Nothing in front.
        _ => {}
    }
    layers.push(g.ode());
    layers.push(g.linear(2, false));
    g.finish(input, layers)
}

fn margin(output: &[f64], label: usize) -> f64 {
    let others = output.iter().enumerate().filter(|(j, _)| *j != label);
    others.map(|(_, y)| output[label] - y).fold(f64::INFINITY, f64::min)
}

/// Adds a number to one output, in the last layer of a model.
fn shift_output(model: &mut Model, label: usize, by: f64) {
    let Some(LayerSpec::Linear { name, .. }) = model.description.layers.last() else {
        unreachable!("models end in a linear layer")
    };
    let bias = model.tensors.get_mut(&format!("{name}.bias")).expect("the layer has a bias");
    bias.1[label] += by;
}

fn precision(arithmetic: Arithmetic) -> Precision {
    match arithmetic {
        Arithmetic::Real => Precision::Float64,
        Arithmetic::Float32 => Precision::Float32,
    }
}

/// Points of the region: random ones, corners, and where the gradient leads from many of them.
fn points(random: &mut fastrand::Rng, network: &Network, label: usize, region: &BoxVec) -> Vec<Vec<f64>> {
    let rows = Property::classification(network.outputs(), label).rows;
    let mut points: Vec<Vec<f64>> = (0..60).map(|_| point(random, region)).collect();
    for row in &rows {
        for _ in 0..6 {
            let start = point(random, region);
            points.push(descend(network, row, start, region));
        }
    }
    points
}

fn branching(arithmetic: Arithmetic, workers: usize) -> Settings {
    Settings {
        stages: vec![Stage::Bound(Method::Tight), Stage::Branch],
        step_form: StepForm::Difference,
        arithmetic,
        pixels: PIXELS,
        workers,
    }
}

/// Certifies with a budget that runs out after so many questions, the same every time with one worker.
fn certify(
    verifier: &Verifier,
    (image, label, eps): (&[f64], usize, f64),
    settings: &Settings,
    patience: usize,
) -> Report {
    let asked = AtomicUsize::new(0);
    let interrupted = || asked.fetch_add(1, Ordering::Relaxed) >= patience;
    let budget = Budget { vertices: 150, interrupted: &interrupted, ..Budget::default() };
    verifier.certify(image, label, eps, settings, budget)
}

/// Nothing inside the region may be below the proven margin; a verdict of `Verified` is one about signs.
fn check(network: &Network, region: &BoxVec, points: &[Vec<f64>], label: usize, report: &Report, what: &str) {
    let arithmetic = if what.contains("float32") { Arithmetic::Float32 } else { Arithmetic::Real };
    let precision = precision(arithmetic);
    for point in points {
        let point = match precision {
            Precision::Float64 => point.clone(),
            Precision::Float32 => match to_float32(point, region) {
                Some(point) => point,
                None => continue,
            },
        };
        let output = Inference::run(network, &point, precision).expect("the network runs").output;
        let forgiven = match precision {
            Precision::Float64 => 1e-12 * output.iter().fold(1.0, |m: f64, y| m.max(y.abs())),
            Precision::Float32 => 1e-15,
        };
        let reached = margin(&output, label);
        let proven = report.margin.unwrap_or(f64::NEG_INFINITY);
        assert!(reached >= proven - forgiven, "{what}: {reached} below {proven} at {point:?}");
        let verified = report.verdict == Verdict::Verified;
        assert!(!verified || reached > -forgiven, "{what}: verified, but {reached} at {point:?}");
    }
    match &report.verdict {
        Verdict::Falsified { witness } => {
            assert!(region.contains(witness), "{what}: the witness is outside");
            let run = Inference::run(network, witness, precision).expect("the witness runs");
            assert_ne!(run.prediction(), label, "{what}: the witness is no counterexample");
        }
        Verdict::Verified => assert!(report.margin > Some(0.0), "{what}: verified without a margin"),
        _ => {}
    }
}

/// A network, a sample and a region whose smallest margin seen is moved to where a proof is hard: a little
/// above zero, or far below.
struct Case {
    model: Model,
    image: Vec<f64>,
    label: usize,
    eps: f64,
    region: BoxVec,
    points: Vec<Vec<f64>>,
}

fn case(random: &mut fastrand::Rng, round: usize, model: Model) -> Option<Case> {
    let mut model = model;
    let network = model.network();
    let image: Vec<f64> = (0..model.inputs()).map(|_| f64::from((2.0 * random.f64() - 1.0) as f32)).collect();
    let eps = [0.1, 0.4, 1.0, 0.2][round % 4] * (0.5 + random.f64());
    let region = image_region(&image, eps, PIXELS);
    let label = Inference::run(&network, &image, Precision::Float64).ok()?.prediction();
    let points = points(random, &network, label, &region);
    let mut seen = Vec::with_capacity(points.len());
    for point in &points {
        seen.push(margin(&Inference::run(&network, point, Precision::Float64).ok()?.output, label));
    }
    let least = seen.iter().copied().fold(f64::INFINITY, f64::min);
    let most = seen.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let wanted = (most - least) * [0.15, 1e-6, 0.05, 0.4, 0.02][round % 5] + 1e-5;
    if round % 11 != 10 {
        shift_output(&mut model, label, f64::from((wanted - least) as f32));
    }
    Some(Case { model, image, label, eps, region, points })
}

/// Random networks of every kind of beginning: no point of the region is below what branch and bound proves
/// of all of it, in both arithmetics, whatever the verdict.
#[test]
fn no_point_escapes_the_margin_of_any_leaf() {
    let mut random = fastrand::Rng::with_seed(401);
    let (mut split, mut verified, mut improved) = (0, 0, 0);
    for round in 0..rounds(80) * FRONTS {
        let kinds = if round % 3 == 0 { Kinds::All } else { Kinds::Piecewise };
        let model = fronted(&mut random, kinds, round % FRONTS);
        let Some(case) = case(&mut random, round, model) else { continue };
        let verifier = Verifier::new(case.model.network());
        let arithmetic = ARITHMETICS[usize::from(round / FRONTS % 4 == 3)];
        let what = format!("round {round} {arithmetic}");
        let sample = (&case.image[..], case.label, case.eps);
        let tight = Settings { stages: vec![Stage::Bound(Method::Tight)], ..branching(arithmetic, 1) };
        let before = certify(&verifier, sample, &tight, usize::MAX);
        let report = certify(&verifier, sample, &branching(arithmetic, 1), 4000);
        check(verifier.network(), &case.region, &case.points, case.label, &report, &what);
        assert!(report.margin >= before.margin, "{what}: {:?} after {:?}", report.margin, before.margin);
        let name = report.stages.last().map_or("", |stage| &stage.name);
        split += usize::from(name == "branch");
        improved += usize::from(report.margin > before.margin);
        verified += usize::from(name != "tight" && report.verdict == Verdict::Verified);
    }
    println!("{split} split, {improved} improved, {verified} verified that tight bounds do not verify");
    assert!(split > 60 && improved > 60 && verified > 25, "{split} {improved} {verified}");
}
fn rounds(d: usize) -> usize { std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(d) }
