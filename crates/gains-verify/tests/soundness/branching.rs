//! Branch and bound: what it proves of the whole region must hold at every point, whichever part it is in.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gains_core::description::{LayerSpec, RungeKutta};
use gains_core::model_file::Tensors;
use gains_core::{Arithmetic, BoxVec, Interval, Known, Network, Precision, Shape};
use gains_ode::{Action, Inference, Tableau};
use gains_testkit::{Gardener, Kinds, Model, controlled, fixed, linear, random_model};
use gains_verify::limits::Clock;
use gains_verify::steps::{Assumption, BoxSteps, Reach, Room, Side};
use gains_verify::{Analysis, Budget, Method, Reason, Region, Report, Settings, Stage, StepForm, Verdict};

use crate::direct;
use crate::exact::Exact;
use crate::machines::{ExactMachine, Float32Machine};
use crate::region::{
    self, ARITHMETICS, RowsOf, analyse, budget, descend, is_path, ode_of, point, property, random_region,
    to_float32,
};

const PIXELS: Interval = Interval::new(-3.0, 3.0);

/// The ways a network may begin.
pub const FRONTS: usize = 8;

/// A random network with a front of one of several kinds, or none.
pub fn fronted(random: &mut fastrand::Rng, kinds: Kinds, front: usize) -> Model {
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

pub fn precision(arithmetic: Arithmetic) -> Precision {
    match arithmetic {
        Arithmetic::Real => Precision::Float64,
        Arithmetic::Float32 => Precision::Float32,
    }
}

/// Points of the region: random ones, corners, and where the gradient leads from many of them.
fn points(random: &mut fastrand::Rng, network: &Network, label: usize, region: &BoxVec) -> Vec<Vec<f64>> {
    let rows = RowsOf::classification(network.outputs(), label).rows;
    let mut points: Vec<Vec<f64>> = (0..60).map(|_| point(random, region)).collect();
    for row in &rows {
        for _ in 0..6 {
            let start = point(random, region);
            points.push(descend(network, row, start, region));
        }
    }
    points
}

pub fn branching(arithmetic: Arithmetic, workers: usize) -> Settings {
    Settings {
        stages: vec![Stage::Bound(Method::Tight), Stage::Branch],
        step_form: StepForm::Difference,
        arithmetic,
        workers,
        ..Settings::default()
    }
}

/// Certifies with a budget that runs out after so many questions, the same every time with one worker.
fn certify(network: &Network, sample: (&[f64], usize, f64), settings: &Settings, patience: usize) -> Report {
    let asked = AtomicUsize::new(0);
    let interrupted = || asked.fetch_add(1, Ordering::Relaxed) >= patience;
    let budget = Budget { vertices: 150, interrupted: &interrupted, ..Budget::default() };
    region::certify(network, sample, PIXELS, settings, budget)
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
            let [witness] = &witness[..] else { panic!("{what}: one input") };
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
    let region = Region::ball(&image, eps, PIXELS).outer.swap_remove(0);
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
    for round in 0..60 * FRONTS {
        let kinds = if round % 3 == 0 { Kinds::All } else { Kinds::Piecewise };
        let model = fronted(&mut random, kinds, round % FRONTS);
        let Some(case) = case(&mut random, round, model) else { continue };
        let network = case.model.network();
        let arithmetic = ARITHMETICS[usize::from(round / FRONTS % 4 == 3)];
        let what = format!("round {round} {arithmetic}");
        let sample = (&case.image[..], case.label, case.eps);
        let tight = Settings { stages: vec![Stage::Bound(Method::Tight)], ..branching(arithmetic, 1) };
        let before = certify(&network, sample, &tight, usize::MAX);
        let report = certify(&network, sample, &branching(arithmetic, 1), 8000);
        check(&network, &case.region, &case.points, case.label, &report, &what);
        assert!(report.margin >= before.margin, "{what}: {:?} after {:?}", report.margin, before.margin);
        let name = report.stages.last().map_or("", |stage| &stage.name);
        split += usize::from(name == "branch");
        improved += usize::from(report.margin > before.margin);
        verified += usize::from(name != "tight" && report.verdict == Verdict::Verified);
    }
    println!("{split} split, {improved} improved, {verified} verified that tight bounds do not verify");
    assert!(split > 150 && improved > 150 && verified > 70, "{split} {improved} {verified}");
}

/// A network whose case distinctions are all there is to it: the parts of its region add up to the truth. Odd
/// kinds have all their kinks in the dynamics, which take one step; even ones in front of linear dynamics.
pub fn sharp(random: &mut fastrand::Rng, kind: usize) -> Model {
    let input = Shape::flat(2);
    let inside = kind % 2 == 1;
    let leaky = |random: &mut fastrand::Rng| match random.u8(0..3) {
        0 => LayerSpec::LeakyRelu { slope: f64::from(0.2_f32) },
        _ => LayerSpec::Relu {},
    };
    let mut g = Gardener::new(random, Kinds::Piecewise, input);
    let width = g.random.usize(2..5);
    let mut layers = vec![g.linear(if inside { 2 } else { width }, false), leaky(g.random)];
    if kind % 4 == 2 {
        layers.extend([g.linear(3, false), leaky(g.random)]);
    }
    if kind % 3 == 1 {
        layers.push(g.linear(2, false));
    }
    let kept = match kind {
        _ if inside || kind % 3 == 1 => 2,
        _ if kind % 4 == 2 => 3,
        _ => width,
    };
    let dynamics = if inside {
        vec![g.linear(width, true), leaky(g.random), g.linear(kept, false)]
    } else {
        vec![g.linear(kept, true)]
    };
    let solver = match (inside, g.random.bool()) {
        (false, true) => controlled(RungeKutta::Dopri5, 2, 0.5, 0.5, 1),
        _ => fixed(RungeKutta::Euler, 1),
    };
    layers.extend([LayerSpec::Ode { dynamics, solver }, g.linear(2, false)]);
    let first = match &layers[0] {
        LayerSpec::Linear { name, .. } => name.clone(),
        _ => unreachable!("the first layer is linear"),
    };
    let mut model = g.finish(input, layers);
    if inside {
        // The front's own neurons are all on one side.
        let bias = model.tensors.get_mut(&format!("{first}.bias")).expect("the layer has a bias");
        bias.1.iter_mut().for_each(|b| *b = 6.0);
    }
    model
}

/// Where the bounds of the parts meet the truth, a bound that is too good by very little shows. Every point is
/// in some part, and the smallest bound of all parts is compared with all of them.
#[test]
fn parts_that_add_up_to_the_truth_do_not_exceed_it() {
    let mut random = fastrand::Rng::with_seed(402);
    let (mut verified, mut close) = (0, 0);
    for round in 0..2400 {
        let model = sharp(&mut random, round);
        let Some(case) = case(&mut random, round, model) else { continue };
        let network = case.model.network();
        let arithmetic = ARITHMETICS[usize::from(round % 4 == 3)];
        let what = format!("round {round} {arithmetic}");
        let sample = (&case.image[..], case.label, case.eps);
        let report = certify(&network, sample, &branching(arithmetic, 1), 8000);
        check(&network, &case.region, &case.points, case.label, &report, &what);
        if arithmetic == Arithmetic::Float32 {
            // Any program that keeps the promise, not only the one that is shipped.
            for point in case.points.iter().filter_map(|p| to_float32(p, &case.region)) {
                let mut machine = Float32Machine { random: &mut random };
                let run = direct::run(&mut machine, &case.model.description, &case.model.tensors, &point);
                let output: Vec<f64> = run.output.into_iter().map(f64::from).collect();
                let (reached, proven) = (margin(&output, case.label), report.margin);
                assert!(
                    proven.is_none_or(|proven| reached >= proven - 1e-15),
                    "{what}: {reached} {proven:?}"
                );
            }
        }
        let split = report.stages.last().is_some_and(|stage| stage.name != "tight");
        let least = case.points.iter().map(|p| {
            let run = Inference::run(&network, p, Precision::Float64).expect("the network runs");
            margin(&run.output, case.label)
        });
        let least = least.fold(f64::INFINITY, f64::min);
        verified += usize::from(split && report.verdict == Verdict::Verified);
        close += usize::from(split && report.margin.is_some_and(|m| m > 0.0 && least < 1e-4));
    }
    println!("{verified} verified by cases, {close} of them within 1e-4");
    assert!(verified > 130 && close > 20, "{verified} {close}");
}

/// Networks of every layer; budgets that end at any moment; threads; the whole cascade. What is reported then
/// is still proven, and never less than what bounds alone prove.
#[test]
fn budgets_threads_and_cascades_keep_margins_honest() {
    let mut random = fastrand::Rng::with_seed(403);
    let mut split = 0;
    for round in 0..90 {
        let model = match round % 3 {
            0 => random_model(&mut random, Kinds::All),
            1 => fronted(&mut random, Kinds::Piecewise, round % FRONTS),
            _ => sharp(&mut random, round / 3),
        };
        let Some(case) = case(&mut random, round, model) else { continue };
        let network = case.model.network();
        for arithmetic in ARITHMETICS {
            let sample = (&case.image[..], case.label, case.eps);
            let tight = Settings { stages: vec![Stage::Bound(Method::Tight)], ..branching(arithmetic, 1) };
            let tight = certify(&network, sample, &tight, usize::MAX).margin;
            for (workers, patience) in [(1, 30), (2, 60), (1, 150), (2, 400), (2, 4000), (1, 16000)] {
                let what = format!("round {round} {arithmetic} {workers} {patience}");
                let report = certify(&network, sample, &branching(arithmetic, workers), patience);
                check(&network, &case.region, &case.points, case.label, &report, &what);
                let name = report.stages.last().map_or("", |stage| &stage.name);
                assert!(report.margin.is_none() || report.margin >= tight, "{what}: worse than tight bounds");
                split += usize::from(name == "branch");
            }
            for timeout in [Duration::ZERO, Duration::from_micros(300), Duration::from_millis(40)] {
                let what = format!("round {round} {arithmetic} {timeout:?}");
                let cascade =
                    Settings { arithmetic, workers: 2, ..Settings::cascade(&network.body, case.eps, None) };
                let budget = Budget { vertices: 150, timeout: Some(timeout), ..Budget::default() };
                let report = region::certify(&network, sample, PIXELS, &cascade, budget);
                check(&network, &case.region, &case.points, case.label, &report, &what);
            }
        }
    }
    println!("{split} split");
    assert!(split > 100, "{split}");
}

/// Where the kinks of a network are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kinks {
    Front,
    Dynamics,
    /// In the dynamics, and nothing in front of them.
    Bare,
}

/// Class 0 wins where `hat(x₀) + hat(x₁) < bound`, with `hat` one at zero, zero beyond `±1/2`, made of kinks in
/// front of an ODE that holds still, or in its dynamics, with or without anything in front.
fn hats(bound: f64, kinks_at: Kinks) -> Model {
    let mut tensors = Tensors::new();
    // relu(2x + 1) − 2 relu(2x) + relu(2x − 1), for both inputs.
    let kinks: [&[f64]; 6] = [&[2.0, 0.0], &[2.0, 0.0], &[2.0, 0.0], &[0.0, 2.0], &[0.0, 2.0], &[0.0, 2.0]];
    let offsets = [1.0, 0.0, -1.0];
    let (first, rest) = ([1.0, -2.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, -2.0, 1.0]);
    let (minus, zero) = ([-1.0, -1.0], [0.0, 0.0]);
    let bias: Vec<f64> = offsets.iter().chain(&offsets).copied().collect();
    let layers = if kinks_at == Kinks::Bare {
        let g1 = linear(&mut tensors, "g1", &kinks, &bias, false);
        let g2 = linear(&mut tensors, "g2", &[&first, &rest], &[0.0, 0.0], false);
        let ode = LayerSpec::Ode {
            dynamics: vec![g1, LayerSpec::Relu {}, g2],
            solver: fixed(RungeKutta::Euler, 1),
        };
        vec![ode, linear(&mut tensors, "out", &[&minus, &zero], &[bound, 0.0], false)]
    } else if kinks_at == Kinks::Dynamics {
        // The front only moves the inputs to where its own activation does nothing; one Euler step of
        // `−x + Σ kinks` leaves the hats.
        let shifted: Vec<f64> = bias.iter().map(|b| b - 16.0).collect();
        let front = linear(&mut tensors, "in", &[&[1.0, 0.0], &[0.0, 1.0]], &[8.0, 8.0], false);
        let g1 = linear(&mut tensors, "g1", &kinks, &shifted, false);
        let g2 = linear(&mut tensors, "g2", &[&first, &rest], &[0.0, 0.0], false);
        let ode = LayerSpec::Ode {
            dynamics: vec![g1, LayerSpec::Relu {}, g2],
            solver: fixed(RungeKutta::Euler, 1),
        };
        // The state is `8 + x + hat(x)`: it still holds the inputs.
        let out = linear(&mut tensors, "out", &[&minus, &zero], &[bound + 16.0, 0.0], false);
        vec![front, LayerSpec::Relu {}, ode, out]
    } else {
        let front = linear(&mut tensors, "in", &kinks, &bias, false);
        let sum = linear(&mut tensors, "sum", &[&first, &rest], &[0.0, 0.0], false);
        let still = linear(&mut tensors, "g", &[&[0.0; 2], &[0.0; 2]], &[0.0, 0.0], false);
        let ode = LayerSpec::Ode { dynamics: vec![still], solver: fixed(RungeKutta::Euler, 2) };
        let out = linear(&mut tensors, "out", &[&minus, &zero], &[bound, 0.0], false);
        vec![front, LayerSpec::Relu {}, sum, ode, out]
    };
    Model::new(Shape::flat(2), layers, tensors, 2)
}

/// A counterexample in the middle of the region, where no corner and hardly a gradient leads: never verified
/// while it is there, verified by case distinctions as soon as it is not.
#[test]
fn a_counterexample_between_the_kinks_is_never_verified() {
    for kinks_at in [Kinks::Front, Kinks::Dynamics, Kinks::Bare] {
        // The largest value over the region of radius 0.7 around (0.1, −0.1), at kinks or ends of its sides.
        let network = hats(0.0, kinks_at).network();
        let at = |x: f64, y: f64| {
            -Inference::run(&network, &[x, y], Precision::Float64).expect("the network runs").output[0]
        };
        let sides = ([-0.6, -0.5, 0.0, 0.5, 0.8], [-0.8, -0.5, 0.0, 0.5, 0.6]);
        let all = sides.0.iter().flat_map(|x| sides.1.iter().map(|y| at(*x, *y)));
        let worst = all.fold(f64::NEG_INFINITY, f64::max);
        for arithmetic in ARITHMETICS {
            for (room, safe) in [(-0.05, false), (-1e-6, false), (0.0, false), (0.05, true), (0.3, true)] {
                let model = hats(worst + room, kinks_at);
                let network = model.network();
                for workers in [1, 2] {
                    let what = format!("{kinks_at:?} {arithmetic} {room} {workers}");
                    let settings = branching(arithmetic, workers);
                    let report = certify(&network, (&[0.1, -0.1], 0, 0.7), &settings, 20_000);
                    let cascade =
                        Settings { arithmetic, workers, ..Settings::cascade(&network.body, 0.7, None) };
                    let all = certify(&network, (&[0.1, -0.1], 0, 0.7), &cascade, 20_000);
                    if safe {
                        assert_eq!(report.verdict, Verdict::Verified, "{what}");
                        assert_eq!(all.verdict, Verdict::Verified, "{what}");
                    } else {
                        assert_ne!(report.verdict, Verdict::Verified, "{what}");
                        assert_ne!(all.verdict, Verdict::Verified, "{what}");
                    }
                    assert!(report.margin <= Some(room + 1e-12), "{what}: {:?}", report.margin);
                }
            }
        }
    }
}

/// The same against two other classes, of which the first is behind the second by `lead`.
fn hats_against_two(bound: f64, lead: f64, kinks_at: Kinks) -> Model {
    let Model { mut description, mut tensors, .. } = hats(bound, kinks_at);
    let zero = [0.0, 0.0];
    let [weight, bias] = ["weight", "bias"].map(|part| tensors[&format!("out.{part}")].1.clone());
    description.layers.pop();
    tensors.retain(|name, _| !name.starts_with("out."));
    let out = linear(&mut tensors, "out", &[&weight[..2], &zero, &zero], &[bias[0], -lead, 0.0], false);
    description.layers.push(out);
    Model::new(Shape::flat(2), description.layers, tensors, 3)
}

/// Each row is proved in parts of its own: one that holds by a little says nothing about another that fails by nothing.
#[test]
fn rows_that_are_proved_apart_must_all_be_proved() {
    for kinks_at in [Kinks::Front, Kinks::Dynamics] {
        let network = hats(0.0, kinks_at).network();
        let middle = Inference::run(&network, &[0.0, 0.0], Precision::Float64).expect("the network runs");
        for (room, safe) in [(0.0, false), (0.05, true)] {
            let network = hats_against_two(-middle.output[0] + room, 0.05, kinks_at).network();
            let settings = branching(Arithmetic::Real, 1);
            let report = certify(&network, (&[0.1, -0.1], 0, 0.7), &settings, 20_000);
            assert_eq!(report.verdict == Verdict::Verified, safe, "{kinks_at:?} {room}: {:?}", report.margin);
        }
    }
}

fn holds(b: &BoxVec, x: &[f64], what: &str) {
    for (i, x) in x.iter().enumerate() {
        let room = 1e-11 * (1.0 + x.abs());
        assert!(b.lower[i] - room <= *x && *x <= b.upper[i] + room, "{what}: {x} not in {:?}", b.get(i));
    }
}

/// What is carried from the last stage of a step to the first of the next, and everything made from it: along
/// every concrete trajectory the states, what is known of the dynamics at them, the pre-activations of all stages
/// and the error estimates lie inside, at the vertices after the first as well.
#[test]
fn carried_stages_hold_every_concrete_trajectory() {
    let mut random = fastrand::Rng::with_seed(404);
    let (mut visits, mut carried) = (0, 0);
    for round in 0..220 {
        let input = Shape::flat(2 + round % 3);
        let mut g = Gardener::new(&mut random, Kinds::All, input);
        let LayerSpec::Ode { dynamics, .. } = g.ode() else { unreachable!("an ODE block") };
        let rule = if round % 4 == 3 { RungeKutta::Bosh3 } else { RungeKutta::Dopri5 };
        let tolerance = 10.0_f64.powf(-1.0 - 3.5 * g.random.f64());
        let solver = controlled(rule, 2, tolerance, 0.15 + 0.3 * g.random.f64(), 1);
        let layers = vec![LayerSpec::Ode { dynamics, solver }, g.linear(2, false)];
        let model = g.finish(input, layers);
        let region = random_region(&mut random, model.inputs(), [0.02, 0.3, 1e-9, 0.1][round % 4]);
        let property = property(&mut random, 2);
        let network = model.network();
        let mode = (Method::Tight, StepForm::Difference);
        let Ok((analysis, _)) = analyse(&network, &region, &property, mode, Arithmetic::Real) else {
            continue;
        };
        let ode = ode_of(&network);
        let tableau = Tableau::of(ode.solver.method);
        let graph = analysis.graphs().next().expect("one graph");
        for _ in 0..6 {
            let mut state = point(&mut random, &region);
            let mut at = Some(0);
            while let Some(vertex) = at.map(|index: usize| &graph.vertices[index]) {
                let what = format!("round {round} time {}", vertex.time);
                visits += 1;
                holds(&vertex.state.states, &state, &what);
                let mut slopes: Vec<Vec<f64>> = Vec::new();
                let weigh = |base: &[f64], weights: &[f64], slopes: &[Vec<f64>]| {
                    let mut sum = base.to_vec();
                    for (w, k) in weights.iter().zip(slopes) {
                        sum.iter_mut().zip(k).for_each(|(sum, k)| *sum += vertex.step * w * k);
                    }
                    sum
                };
                for (i, weights) in tableau.stages.iter().enumerate() {
                    let stage = weigh(&state, weights, &slopes);
                    let time = vertex.time + tableau.nodes[i] * vertex.step;
                    // The stage's input and what is behind every layer.
                    let values = ode.dynamics.evaluate(&[&stage], time, Precision::Float64).values;
                    let slope = values[ode.dynamics.output()].clone();
                    if let (0, Some(inner)) = (i, &vertex.state.inner) {
                        carried += 1;
                        values[1..].iter().zip(inner.iter()).for_each(|(x, b)| holds(b, x, &what));
                    }
                    let trace = vertex.trace.stages.get(i).map(|stage| &stage.value.trace);
                    for (index, (_, node)) in ode.dynamics.nodes().enumerate() {
                        if let Some(Known::Curve(known)) = trace.map(|trace| trace.known(index)) {
                            holds(&known.before, &known.on.cut(&values[node.from[0]]), &what);
                        }
                    }
                    slopes.push(slope);
                }
                let action = match vertex.error {
                    None => Action::Keep,
                    Some(interval) => {
                        let errors = weigh(&vec![0.0; state.len()], tableau.error, &slopes);
                        let error = errors.iter().map(|e| e.abs()).sum::<f64>() / tolerance;
                        let room = 1e-9 * (1.0 + error);
                        let inside = interval.lower - room <= error && error <= interval.upper + room;
                        assert!(inside, "{what}: {error} not in {interval:?}");
                        match error {
                            e if e <= 2.0_f64.powi(-(tableau.order as i32)) => Action::Increase,
                            e if e <= 1.0 => Action::Keep,
                            _ => Action::Reject,
                        }
                    }
                };
                let find = |action: Action| {
                    vertex.outgoing.iter().map(|&e| &graph.edges[e]).find(|edge| edge.action == action)
                };
                let keeps = action == Action::Increase;
                let edge = find(action).or_else(|| keeps.then(|| find(Action::Keep)).flatten());
                let edge = edge.unwrap_or_else(|| panic!("{what}: {action:?} is missing"));
                if action != Action::Reject {
                    state = weigh(&state, tableau.weights, &slopes);
                }
                holds(&edge.state.states, &state, &what);
                at = edge.to;
            }
            holds(&graph.end.states, &state, "end");
        }
    }
    println!("{visits} vertices visited, at {carried} of them something was carried");
    assert!(visits > 3000 && carried > 2000, "{visits} {carried}");
}

/// What is assumed of the start of an ODE block confines the very first evaluation. After a rejected step the
/// exact network takes the same values again; a float32 program may sum in another order and be on the other
/// side of the threshold.
#[test]
fn a_repeated_evaluation_in_float32_is_not_bound_by_assumptions() {
    let mut tensors = Tensors::new();
    let dynamics = vec![
        linear(&mut tensors, "g1", &[&[1.0, -3.0]], &[0.1], false),
        LayerSpec::Relu {},
        linear(&mut tensors, "g2", &[&[5.0], &[-4.0]], &[0.3, 0.2], false),
    ];
    let ode = LayerSpec::Ode { dynamics, solver: controlled(RungeKutta::Dopri5, 2, 1e-7, 0.5, 1) };
    let out = linear(&mut tensors, "out", &[&[1.0, 0.0], &[0.0, 1.0]], &[0.0, 0.0], false);
    let network = Model::new(Shape::flat(2), vec![ode, out], tensors, 2).network();
    let region = BoxVec::new(vec![0.9, 0.1], vec![1.0, 0.2]);
    for arithmetic in ARITHMETICS {
        for (side, at) in [(Side::Below, 0.6), (Side::Above, 0.6)] {
            let assumed = [Assumption { value: 1, entry: 0, at, side }];
            let (method, form) = (Method::Tight, StepForm::Difference);
            let clock = Clock::start(budget());
            let region = vec![region.clone()];
            let analysis =
                Analysis::assuming(&network.body, region, &assumed, method, form, arithmetic, clock)
                    .expect("the analysis ends");
            let graph = analysis.graphs().next().expect("one graph");
            let again: Vec<_> = graph.vertices.iter().filter(|v| v.time == 0.0).collect();
            assert!(again.len() > 1, "the first step may be rejected");
            for (number, vertex) in again.into_iter().enumerate() {
                let trace = &vertex.trace.stages[0].value.trace;
                let Known::Curve(known) = trace.known(1) else { unreachable!("an activation") };
                let bounds = &known.before;
                let (end, other) = match side {
                    Side::Below => (bounds.upper[0], at + 1e-6),
                    Side::Above => (bounds.lower[0], at - 1e-6),
                };
                if number == 0 || arithmetic == Arithmetic::Real {
                    assert_eq!(end, at, "{arithmetic} {side:?}");
                } else {
                    assert!(bounds.lower[0] <= other && other <= bounds.upper[0], "{arithmetic} {side:?}");
                }
            }
        }
    }
}

/// The time at which a step's last stage is evaluated and the time the next step starts at are rounded
/// differently. With large weights on the time, of which a bias takes most away again, that is all there is:
/// what is carried must still hold, and must never look as if nothing could be there.
#[test]
fn carried_stages_leave_room_for_the_rounding_of_time() {
    let mut random = fastrand::Rng::with_seed(405);
    let (mut checked, mut steps) = (0, 0);
    for round in 0..400 {
        let mut tensors = Tensors::new();
        let mut weight = |scale: f64| scale * (2.0 * random.f64() - 1.0);
        let rows: Vec<[f64; 3]> = (0..3).map(|_| [weight(1e6), weight(1.0), weight(1.0)]).collect();
        let bias: Vec<f64> = rows.iter().map(|row| -row[0] * (0.5 + weight(0.5))).collect();
        let back: Vec<[f64; 3]> = (0..2).map(|_| std::array::from_fn(|_| weight(1e-6))).collect();
        let rows: Vec<&[f64]> = rows.iter().map(|row| &row[..]).collect();
        let back: Vec<&[f64]> = back.iter().map(|row| &row[..]).collect();
        let dynamics = vec![
            linear(&mut tensors, "g1", &rows, &bias, true),
            LayerSpec::Relu {},
            linear(&mut tensors, "g2", &back, &[0.1, -0.1], false),
        ];
        let tolerance = 10.0_f64.powf(-2.0 + weight(3.0));
        let rule = if round % 2 == 0 { RungeKutta::Dopri5 } else { RungeKutta::Bosh3 };
        let solver = controlled(rule, 2, tolerance, 0.1 + weight(0.05), 1);
        let out = linear(&mut tensors, "out", &[&[1.0, 0.0], &[0.0, 1.0]], &[0.0, 0.0], false);
        let x = [weight(1.0), weight(1.0)];
        let model = Model::new(Shape::flat(2), vec![LayerSpec::Ode { dynamics, solver }, out], tensors, 2);
        let network = model.network();
        let property = property(&mut random, 2);
        let exact = direct::run(&mut ExactMachine, &model.description, &model.tensors, &x);
        let mode = (Method::Tight, StepForm::Difference);
        let found = analyse(&network, &BoxVec::point(&x), &property, mode, Arithmetic::Real);
        let (analysis, lower) = match found {
            Ok(found) => found,
            Err(Reason::TooManyVertices { .. }) => continue,
            Err(reason) => panic!("round {round}: {reason}"),
        };
        for (row, bound) in property.rows.iter().zip(&lower) {
            let value = row.iter().zip(&exact.output);
            let value = value.fold(Exact::zero(), |sum, (a, y)| &sum + &(&Exact::from(*a) * y));
            assert!(Exact::from(*bound) <= value, "round {round}: {bound}");
        }
        for (graph, trials) in analysis.graphs().zip(&exact.trajectories) {
            assert!(is_path(graph, trials), "round {round}: path");
            steps += trials.len();
        }
        checked += 1;
    }
    println!("{checked} points, {steps} steps");
    assert!(checked > 300 && steps > 1500, "{checked} {steps}");
}

/// Where trajectories meet, what is known afterwards holds for all of them: the hull of what is known of each,
/// and nothing if nothing is known of one.
#[test]
fn joined_states_know_only_what_all_of_them_know() {
    let mut tensors = Tensors::new();
    let layer = linear(&mut tensors, "g", &[&[1.0, 0.0], &[0.0, 1.0]], &[0.0, 0.0], false);
    let ode = LayerSpec::Ode { dynamics: vec![layer], solver: fixed(RungeKutta::Dopri5, 1) };
    let network = Model::new(Shape::flat(2), vec![ode], tensors, 2).network();
    let ode = ode_of(&network);
    let steps = BoxSteps {
        dynamics: &ode.dynamics,
        tableau: Tableau::of(RungeKutta::Dopri5),
        tolerance: 1.0,
        arithmetic: Arithmetic::Real,
        form: StepForm::Difference,
        keep_traces: false,
        room: Room::None,
        clock: Clock::start(Budget::default()),
        bytes: 0,
        nonzero: Default::default(),
    };
    let mut random = fastrand::Rng::with_seed(406);
    for round in 0..200 {
        let mut reach = |known: bool| {
            let states = random_region(&mut random, 2, 0.5);
            let inner = known.then(|| Arc::new(vec![random_region(&mut random, 2, 0.5)]));
            Arc::new(Reach { states, inner })
        };
        let all: Vec<Arc<Reach>> = (0..2 + round % 3).map(|i| reach((round >> i) % 8 != 0)).collect();
        let joined = steps.join(&all);
        let holds = |outer: &BoxVec, b: &BoxVec| outer.contains(&b.lower) && outer.contains(&b.upper);
        for reach in &all {
            assert!(holds(&joined.states, &reach.states), "round {round}");
            match (&joined.inner, &reach.inner) {
                (Some(outer), Some(inner)) => assert!(holds(&outer[0], &inner[0]), "round {round}"),
                (outer, _) => assert!(outer.is_none(), "round {round}"),
            }
        }
    }
}

/// The exact solver starts a step where the stage before ended; a float32 program comes there by another sum, at a time
/// that was rounded otherwise. What is known of the one is not used for the other.
#[test]
fn stages_are_carried_on_in_exact_arithmetic_only() {
    let mut tensors = Tensors::new();
    let layer = linear(&mut tensors, "g", &[&[0.5, -0.25], &[0.75, -1.0]], &[0.1, 0.2], false);
    let ode = LayerSpec::Ode { dynamics: vec![layer], solver: fixed(RungeKutta::Dopri5, 1) };
    let network = Model::new(Shape::flat(2), vec![ode], tensors, 2).network();
    let ode = ode_of(&network);
    let start = Reach::from(BoxVec::new(vec![-0.5, 0.25], vec![0.5, 0.75]));
    for (rule, arithmetic, carried) in [
        (RungeKutta::Dopri5, Arithmetic::Real, true),
        (RungeKutta::Dopri5, Arithmetic::Float32, false),
        (RungeKutta::Heun, Arithmetic::Real, false),
    ] {
        let mut steps = BoxSteps {
            dynamics: &ode.dynamics,
            tableau: Tableau::of(rule),
            tolerance: 1.0,
            arithmetic,
            form: StepForm::Difference,
            keep_traces: false,
            room: Room::None,
            clock: Clock::start(Budget::default()),
            bytes: 0,
            nonzero: Default::default(),
        };
        let next = gains_ode::Carrier::step(&mut steps, &start, 0.0, 0.125, true).unwrap();
        assert_eq!(next.state.inner.is_some(), carried, "{rule:?} {arithmetic}");
        // Without an error estimate the last stage is not evaluated.
        let plain = gains_ode::Carrier::step(&mut steps, &start, 0.0, 0.125, false).unwrap();
        assert!(plain.state.inner.is_none());
    }
}
