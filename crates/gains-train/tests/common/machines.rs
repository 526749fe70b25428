//! Machines that agree: what one computes, another computes, up to rounding. Networks, samples and runs of all kinds for them,
//! with nothing but what the crate shows to everybody, so that its own tests and those on a real device are the same.

#![allow(clippy::unwrap_used, dead_code)]

use std::sync::Arc;

use gains_core::activation::Activation;
use gains_core::affine::{
    AffineMap, AveragePool, ConvGeometry, GroupMean, GroupPart, Scale as Given, Selection,
};
use gains_core::description::{LayerSpec, Task};
use gains_core::smooth::Smooth;
use gains_core::{Description, Shape};
use gains_train::config::{Config, Training};
use gains_train::matrix::Matrix;
use gains_train::program::ops::{BatchNorm, Clock, Each, Fixed, Layer, Operation, Rule, Scale};
use gains_train::program::{Blueprint, Machine, ProgramEngine, Samples, Truth};
use gains_train::{BatchReport, Trainer};

/// Layers in the words of model files.
pub fn layers(json: &str) -> Vec<LayerSpec> {
    serde_json::from_str(json).unwrap()
}

const FIXED: &str = r#"{"method": "rk4", "end_time": 1.0, "controller": {"type": "fixed", "steps": 2}}"#;
const CONTROLLED: &str = r#"{"method": "dopri5", "end_time": 1.0, "controller": {"type": "controlled_adaptive",
    "factor": 2, "tolerance": 0.01, "initial_step": 0.2, "minimum_step": 0.02, "rejections_after_clipping": 1}}"#;

/// Networks of all kinds, with the shape of their input and their outputs.
pub fn networks() -> Vec<(&'static str, Shape, Vec<LayerSpec>, usize)> {
    let image = Shape::image(6, 6, 2);
    let ode = |dynamics: &str, solver: &str| {
        format!(r#"{{"type": "ode", "dynamics": [{dynamics}], "solver": {solver}}}"#)
    };
    let linear = |name: &str, a: usize, b: usize| {
        format!(r#"{{"type": "linear", "name": "{name}", "in_features": {a}, "out_features": {b}}}"#)
    };
    let timed = |name: &str, a: usize| {
        format!(
            r#"{{"type": "linear", "name": "{name}", "in_features": {a}, "out_features": {a}, "time": true}}"#
        )
    };
    let all = |parts: &[String]| layers(&format!("[{}]", parts.join(", ")));
    let word = |kind: &str| format!(r#"{{"type": "{kind}"}}"#);
    vec![
        ("no ode", Shape::flat(5), all(&[linear("a", 5, 6), word("tanh"), linear("b", 6, 3)]), 3),
        ("no linear head", Shape::flat(4), all(&[linear("a", 4, 3), word("softplus")]), 3),
        (
            "two odes, fixed and controlled",
            Shape::flat(4),
            all(&[
                linear("a", 4, 5),
                word("relu"),
                ode(&[timed("f", 5), word("silu"), linear("g", 5, 5)].join(", "), FIXED),
                word("leaky_relu").replace('}', ", \"slope\": 0.2}"),
                ode(&[timed("h", 5), word("tanh")].join(", "), CONTROLLED),
                linear("b", 5, 4),
            ]),
            4,
        ),
        (
            "branches in the dynamics",
            Shape::flat(4),
            all(&[
                ode(
                    &format!(
                        r#"{{"type": "parallel", "join": "product", "branches": [[{}, {{"type": "sigmoid"}}], [{}]]}},
                           {{"type": "parallel", "join": "add", "branches": [[{}], []]}}"#,
                        linear("gate", 4, 4),
                        linear("f", 4, 4),
                        linear("r", 4, 4)
                    ),
                    CONTROLLED,
                ),
                r#"{"type": "parallel", "join": "concat", "branches": [[], [{"type": "square"}]]}"#.into(),
                r#"{"type": "parallel", "join": "max", "branches": [[], [{"type": "sin"}]]}"#.into(),
                linear("b", 8, 2),
            ]),
            2,
        ),
        (
            "images",
            image,
            all(&[
                r#"{"type": "normalize", "mean": [0.4, 0.6], "std": [0.5, 0.3]}"#.into(),
                r#"{"type": "conv2d", "name": "c", "in_channels": 2, "out_channels": 4, "kernel": [3, 3], "padding": [1, 1]}"#.into(),
                r#"{"type": "batch_norm", "name": "bn", "channels": 4}"#.into(),
                word("relu"),
                r#"{"type": "max_pool2d", "kernel": [2, 2], "stride": [2, 2]}"#.into(),
                r#"{"type": "group_norm", "name": "gn", "groups": 2, "channels": 4}"#.into(),
                ode(
                    r#"{"type": "conv2d", "name": "d", "in_channels": 4, "out_channels": 4, "kernel": [3, 3], "padding": [1, 1], "time": true},
                       {"type": "gelu"}"#,
                    CONTROLLED,
                ),
                r#"{"type": "avg_pool2d", "kernel": [3, 3], "stride": [3, 3]}"#.into(),
                word("flatten"),
                r#"{"type": "layer_norm", "name": "ln"}"#.into(),
                linear("b", 4, 3),
            ]),
            3,
        ),
    ]
}

/// A configuration with one phase at its full perturbation.
pub fn config(method: Training, eps: f64) -> Config {
    let mut config = Config { method, batch: 8, ..Config::default() };
    let mut phase = gains_train::config::Phase { epochs: 4, ..Default::default() };
    phase.eps = (method != Training::Standard).then(|| gains_train::schedule::Smooth::new(eps, 0, 1));
    phase.kappa = vec![gains_train::schedule::Trajectories::new(0, 3)];
    phase.attack.steps = 2;
    config.phases = vec![phase];
    config.layers = Some(layers("[]"));
    config.optimiser.rate = 0.01;
    config
}

pub fn samples(shape: Shape, outputs: usize, count: usize, numbers: bool) -> Samples {
    let mut random = fastrand::Rng::with_seed(3);
    let inputs: Vec<f32> = (0..count * shape.len()).map(|_| random.f32()).collect();
    let truth = match numbers {
        true => {
            Truth::Numbers { each: outputs, values: (0..count * outputs).map(|_| random.f32()).collect() }
        }
        false => Truth::Classes(
            // Something that can be learnt: where the first entry lies.
            (0..count)
                .map(|at| ((inputs[at * shape.len()] * outputs as f32) as u32).min(outputs as u32 - 1))
                .collect(),
        ),
    };
    let radii = (0..shape.len()).map(|at| 0.5 + (at % 3) as f32).collect();
    Samples { shape, inputs, truth, training: count * 3 / 4, radii, range: Some([0.0, 1.0]) }
}

/// A run on a machine, with few samples.
pub fn trainer<M: Machine>(
    machine: M,
    config: &Config,
    network: (Shape, &[LayerSpec], usize),
) -> Trainer<ProgramEngine<M>> {
    trainer_of(machine, config, network, 32)
}

/// A run on a machine, with so many samples, three quarters of them to learn from.
pub fn trainer_of<M: Machine>(
    machine: M,
    config: &Config,
    (shape, layers, outputs): (Shape, &[LayerSpec], usize),
    count: usize,
) -> Trainer<ProgramEngine<M>> {
    let numbers = config.criterion.kind() == gains_train::loss::criterion::Kind::Numbers;
    let classes: Vec<String> = (0..outputs).map(|class| class.to_string()).collect();
    let task = match numbers {
        true => Task::Regression { outputs: Vec::new(), units: Default::default() },
        false => Task::Classification { classes: classes.clone() },
    };
    let description = Description::new("test", task, shape, layers.to_vec());
    let blueprint = Blueprint::new(&description).unwrap();
    let start = blueprint.parameters.initial(config.seed, config.initial);
    let engine =
        ProgramEngine::new(machine, blueprint, config, samples(shape, outputs, count, numbers)).unwrap();
    Trainer::with(engine, config.clone(), description, &classes, &start).unwrap()
}

const CURVES: [Activation; 15] = [
    Activation::Relu,
    Activation::LeakyRelu { slope: 0.1 },
    Activation::Sigmoid,
    Activation::Tanh,
    Activation::Absolute,
    Activation::Smooth(Smooth::Softplus),
    Activation::Smooth(Smooth::Silu),
    Activation::Smooth(Smooth::Gelu),
    Activation::Smooth(Smooth::GeluTanh),
    Activation::Smooth(Smooth::Elu { alpha: 1.5 }),
    Activation::Smooth(Smooth::Sin),
    Activation::Smooth(Smooth::Cos),
    Activation::Smooth(Smooth::Square),
    Activation::Smooth(Smooth::Clamp { low: -0.5, high: 0.7 }),
    Activation::Smooth(Smooth::InverseRoot { eps: 0.5 }),
];

/// Numbers that float32 has, so that all machines start from the same.
fn numbers(count: usize, low: f64, high: f64, rng: &mut fastrand::Rng) -> Vec<f64> {
    (0..count).map(|_| f64::from((low + (high - low) * rng.f64()) as f32)).collect()
}

fn random(rows: usize, columns: usize, boxes: bool, rng: &mut fastrand::Rng) -> Matrix<f64> {
    let size = rows * columns;
    let radius = if boxes { numbers(size, 0.0, 0.9, rng) } else { Vec::new() };
    Matrix { rows, columns, centre: numbers(size, -2.5, 2.5, rng), radius }
}

/// Compares numbers, on the scale of the largest.
fn agree(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let size = expected.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance * size, "{what}: entry {at} is {a}, expected {b}");
    }
}

fn agree_matrices(what: &str, found: &Matrix<f64>, expected: &Matrix<f64>, tolerance: f64) {
    assert_eq!((found.rows, found.columns), (expected.rows, expected.columns), "{what}");
    agree(&format!("{what}, centre"), &found.centre, &expected.centre, tolerance);
    agree(&format!("{what}, radius"), &found.radius, &expected.radius, tolerance);
}

/// What a machine made of an operator: values and gradients of arguments, then gradients of parameters.
type Made = (Vec<Matrix<f64>>, Vec<f64>);

const PARAMETERS: usize = 24_000;

/// The value of an operator and all its gradients, for given gradients of the value.
fn run_operation<M: Machine>(
    machine: &M,
    operation: &Operation,
    x: &[Matrix<f64>],
    (parameters, clock, seed): (&[f64], Clock, u64),
) -> Made {
    let mut weights = machine.weights(PARAMETERS);
    machine.set_parameters(&mut weights, parameters).unwrap();
    let x: Vec<M::Values> = x.iter().map(|x| machine.put(x.clone())).collect();
    let refs: Vec<&M::Values> = x.iter().collect();
    let value = machine.operation(operation, &weights, &refs, clock);
    let mut all = vec![machine.read(&value)];
    let rng = &mut fastrand::Rng::with_seed(seed);
    let gradient = machine.put(random(all[0].rows, all[0].columns, all[0].is_box(), rng));
    let mut into = machine.gradients(PARAMETERS, true);
    // Twice, since gradients add up.
    machine.operation_back(operation, &weights, &refs, clock, &gradient, &mut into, false);
    let parts = machine.operation_back(operation, &weights, &refs, clock, &gradient, &mut into, true);
    all.extend(parts.iter().flatten().map(|part| machine.read(part)));
    let total = machine.settled(&into, &weights);
    machine.check().unwrap();
    (all, total)
}

fn run_rule<M: Machine>(machine: &M, rule: Rule, x: &[Matrix<f64>], seed: u64) -> Vec<Matrix<f64>> {
    let x: Vec<M::Values> = x.iter().map(|x| machine.put(x.clone())).collect();
    let refs: Vec<&M::Values> = x.iter().collect();
    let mut all = vec![machine.read(&machine.rule(rule, &refs))];
    let rng = &mut fastrand::Rng::with_seed(seed);
    let gradient = machine.put(random(all[0].rows, all[0].columns, true, rng));
    all.extend(machine.rule_back(rule, &refs, &gradient).iter().map(|part| machine.read(part)));
    machine.check().unwrap();
    all
}

/// Elementwise operators, and how many arguments they have.
fn eaches() -> Vec<(Each, usize)> {
    let mut all: Vec<(Each, usize)> = CURVES.iter().map(|f| (Each::Curve(*f), 1)).collect();
    all.extend([(Each::Product, 2), (Each::Maximum, 2), (Each::Blend, 3)]);
    all
}

/// Gates lie in [0, 1].
fn arguments(each: Each, count: usize, boxes: bool, rng: &mut fastrand::Rng) -> Vec<Matrix<f64>> {
    let mut all: Vec<_> = (0..count).map(|_| random(7, 53, boxes, rng)).collect();
    if matches!(each, Each::Blend) {
        all[0].centre.iter_mut().for_each(|c| *c = f64::from((0.5 + 0.1 * *c) as f32));
        all[0].radius.iter_mut().for_each(|r| *r = f64::from((0.2 * *r) as f32));
    }
    all
}

/// Operators of all other kinds, with the shape of their input.
fn operations() -> Vec<(Operation, Shape)> {
    let g = |kernel, stride, padding, dilation| ConvGeometry { kernel, stride, padding, dilation };
    let (image, wide) = (Shape::image(4, 3, 2), Shape::image(5, 6, 70));
    let fixed = |map: AffineMap| Operation::Fixed(Fixed(Arc::new(map)));
    let layer = |shape, geometry, outputs, time| {
        Operation::Layer(Layer::new(shape, geometry, outputs, time, 3).unwrap())
    };
    let norm = |inside, affine| {
        let running = [4..6, 6..8];
        Operation::BatchNorm(BatchNorm { index: 0, inside, channels: 2, eps: 1e-3, affine, running })
    };
    vec![
        (layer(Shape::flat(5), ConvGeometry::POINT, 3, false), Shape::flat(5)),
        (layer(Shape::flat(5), ConvGeometry::POINT, 3, true), Shape::flat(5)),
        (layer(Shape::flat(150), ConvGeometry::POINT, 130, true), Shape::flat(150)),
        (layer(image, g((3, 3), (1, 1), (1, 1), (1, 1)), 3, true), image),
        (layer(image, g((2, 3), (2, 1), (1, 0), (1, 1)), 2, false), image),
        (layer(image, g((2, 2), (1, 1), (1, 1), (2, 2)), 2, true), image),
        (layer(wide, g((3, 3), (2, 1), (2, 2), (1, 1)), 30, true), wide),
        (
            Operation::Scale(Scale {
                factors: 0..2,
                summands: 2..4,
                index: (0..24).map(|i| i % 2).collect(),
            }),
            image,
        ),
        (norm(true, Some([0..2, 2..4])), image),
        (norm(false, None), image),
        (fixed(AffineMap::Pool(AveragePool::global(image).unwrap())), image),
        (fixed(AffineMap::Pool(AveragePool::new(image, g((2, 2), (1, 1), (1, 1), (1, 1))).unwrap())), image),
        (fixed(AffineMap::Select(Selection::flatten(image))), image),
        (fixed(AffineMap::Select(Selection::channels(image, 1..2).unwrap())), image),
        (fixed(AffineMap::Select(Selection::pad(image, [1, 0], [0, 1], [2, 1]).unwrap())), image),
        (
            fixed(AffineMap::Select(
                Selection::tap(image, g((2, 2), (1, 1), (1, 1), (1, 1)), (0, 1)).unwrap(),
            )),
            image,
        ),
        (fixed(AffineMap::Group(GroupMean::new(image, 2, GroupPart::Mean).unwrap())), image),
        (fixed(AffineMap::Group(GroupMean::new(image, 1, GroupPart::Rest).unwrap())), image),
        (fixed(AffineMap::Group(GroupMean::new(wide, 7, GroupPart::Rest).unwrap())), wide),
        (fixed(AffineMap::Scale(Given::normalise(image, &[0.3, -0.1], &[0.5, 2.0]))), image),
        (Operation::Sum(vec![-0.7]), image),
        (Operation::Slice(1..4), Shape::flat(5)),
    ]
}

/// Every operator, forward and back, on points and on boxes.
pub fn operators_agree<A: Machine, B: Machine>(exact: &A, other: &B, tolerance: f64) {
    let rng = &mut fastrand::Rng::with_seed(11);
    let mut parameters = numbers(PARAMETERS, -0.5, 0.5, rng);
    // Variances are not negative.
    parameters[4..8].iter_mut().for_each(|value| *value = value.abs());
    let both = |what: &str, operation: &Operation, x: &[Matrix<f64>], clock: Clock, tolerance: f64| {
        let how = (&parameters[..], clock, 5);
        let expected = run_operation(exact, operation, x, how);
        let found = run_operation(other, operation, x, how);
        assert_eq!(found.0.len(), expected.0.len(), "{what}");
        for (index, (found, expected)) in found.0.iter().zip(&expected.0).enumerate() {
            agree_matrices(&format!("{what}, {index}"), found, expected, tolerance);
        }
        agree(&format!("{what}, parameters"), &found.1, &expected.1, tolerance);
        expected.1.iter().any(|value| *value != 0.0)
    };
    for (each, count) in eaches() {
        for boxes in [false, true] {
            let x = arguments(each, count, boxes, rng);
            both(&format!("{each:?}"), &Operation::Each(each), &x, Clock::at(0.0), tolerance);
        }
    }
    for (operation, shape) in operations() {
        for clock in [Clock::at(0.7), Clock::passed(-0.2)] {
            for boxes in [false, true] {
                let x = [random(9, shape.len(), boxes, rng)];
                let learned =
                    both(&format!("{operation:?} {boxes}"), &operation, &x, clock, 10.0 * tolerance);
                assert_eq!(
                    learned,
                    matches!(operation, Operation::Layer(_) | Operation::Scale(_))
                        || matches!(&operation, Operation::BatchNorm(norm) if norm.affine.is_some())
                );
            }
        }
    }
    for boxes in [false, true] {
        let x = [random(4, 3, boxes, rng), random(4, 70, boxes, rng), random(4, 1, boxes, rng)];
        both("concat", &Operation::Concat, &x, Clock::at(0.0), tolerance);
        // More terms than one kernel adds up.
        let x: Vec<_> = (0..12).map(|_| random(5, 60, boxes, rng)).collect();
        let sum = Operation::Sum((0..12).map(|i| 0.3 * f64::from(i) - 1.5).collect());
        both("sum", &sum, &x, Clock::at(0.0), tolerance);
    }
}

/// Changes, and what enclosures have in common.
pub fn rules_agree<A: Machine, B: Machine>(exact: &A, other: &B, tolerance: f64) {
    let rng = &mut fastrand::Rng::with_seed(12);
    let both = |rule: Rule, x: &[Matrix<f64>]| {
        let (expected, found) = (run_rule(exact, rule, x, 6), run_rule(other, rule, x, 6));
        assert_eq!(found.len(), expected.len());
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            agree_matrices(&format!("{rule:?}, {index}"), found, expected, tolerance);
        }
    };
    for (each, count) in eaches() {
        // Before, after, apart.
        let all: Vec<_> = (0..3).flat_map(|_| arguments(each, count, true, rng)).collect();
        both(Rule::Moved(each), &all);
    }
    for (rule, count) in [(Rule::Meet, 2), (Rule::Hull, 2), (Rule::Value, 3), (Rule::Change, 3)] {
        // Enclosures that overlap, and some that rounding or worse has parted.
        let all: Vec<_> = (0..count).map(|_| random(7, 53, true, rng)).collect();
        both(rule, &all);
    }
}

/// What happens to batches beside operators.
pub fn batches_agree<A: Machine, B: Machine>(exact: &A, other: &B, tolerance: f64) {
    fn run<M: Machine>(machine: &M) -> Vec<(String, Vec<f64>)> {
        let rng = &mut fastrand::Rng::with_seed(13);
        let mut samples = samples(Shape::flat(300), 2, 8, false);
        let mut all = Vec::new();
        let mut note = |what: &str, x: &M::Values| {
            let Matrix { centre, radius, .. } = machine.read(x);
            all.push((what.to_string(), [centre, radius].concat()));
        };
        for range in [Some([0.0, 1.0]), None] {
            samples.range = range;
            let x = machine.put(Matrix::points(6, 300, numbers(1800, 0.0, 1.0, rng)));
            note("region", &machine.region(&samples, &x, 0.25));
            let mut attacked = machine.scatter(&samples, &x, 0.125, 0x1234_5678_9abc_def0);
            note("noise", &attacked);
            let slope = machine.put(random(6, 300, false, rng));
            machine.ascend(&samples, &mut attacked, &slope, &x, (0.5, 0.125));
            note("attacked", &attacked);
        }
        let state = machine.put(random(6, 300, true, rng));
        let slope = machine.put(random(6, 300, true, rng));
        let mut sum = machine.copy(&state);
        machine.add(&mut sum, &slope);
        note("sum", &sum);
        note("zeros", &machine.zeros_like(&state));
        for error in [
            None,
            Some(machine.put(random(6, 300, true, rng))),
            Some(machine.put(random(6, 300, false, rng))),
        ] {
            let m = machine.measure(&state, &slope, error.as_ref());
            all.push(("measure".into(), vec![m.lower, m.upper, m.largest, m.state, m.slope]));
        }
        all.push(("motion".into(), vec![machine.motion(&state, &slope)]));
        machine.check().unwrap();
        all
    }
    for ((what, expected), (_, found)) in run(exact).iter().zip(&run(other)) {
        agree(what, found, expected, tolerance);
    }
}

/// Settings of all kinds that runs are compared in.
pub fn settings() -> Vec<(&'static str, Config)> {
    let set = |name: &'static str, method, text: &str| {
        let mut config = config(method, 0.02);
        let phase = &mut config.phases[0];
        if name.contains("difference") {
            phase.step_form = gains_train::StepForm::Difference;
        }
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (key, value) = line.trim().split_once(": ").unwrap();
            match key {
                "objective" => phase.objective = toml::from_str(value).unwrap(),
                "criterion" => config.criterion = toml::from_str(value).unwrap(),
                "aggregation" => {
                    phase.aggregation = match value {
                        "average" => gains_train::config::Aggregation::Average,
                        _ => gains_train::config::Aggregation::WorstCase,
                    }
                }
                "error" => phase.loss.error = value.parse().unwrap(),
                "alive" => (phase.loss.alive, phase.loss.alive_target) = (value.parse().unwrap(), 20.0),
                "boxes" => {
                    // On the way to the target.
                    phase.eps = Some(gains_train::schedule::Smooth::new(0.02, 0, 8));
                    (phase.loss.tightness, phase.loss.balance, phase.loss.decisions) = (0.4, 0.3, 0.02);
                }
                "optimiser" => {
                    config.optimiser.method = toml::Value::String(value.into()).try_into().unwrap()
                }
                "average" => config.optimiser.average = value.parse().unwrap(),
                _ => panic!("{key}"),
            }
        }
        (name, config)
    };
    vec![
        set("standard", Training::Standard, "optimiser: sgd\naverage: 0.5"),
        set("adversarial", Training::Adversarial, "optimiser: adamw"),
        set(
            "independent",
            Training::Provable,
            "objective: type = 'interval'\naggregation: average\nalive: 0.3\nerror: 0.01",
        ),
        set("difference", Training::Provable, "objective: type = 'sabr'\naggregation: worst case"),
        set("watched, difference", Training::Provable, "boxes: on\ncriterion: type = 'margin'"),
        set("numbers", Training::Provable, "criterion: type = 'squared'"),
    ]
}

/// A few batches of a run: reports and parameters, then averages.
pub fn some_batches<M: Machine>(
    machine: M,
    config: &Config,
    network: (Shape, &[LayerSpec], usize),
    batches: usize,
) -> (Vec<BatchReport>, Vec<f64>) {
    let mut trainer = trainer(machine, config, network);
    let reports = (0..batches).filter_map(|_| trainer.advance().unwrap()).map(|advance| advance.batch);
    let reports = reports.collect();
    let state = trainer.checkpoint().unwrap().state;
    let moments = [state.moments.first, state.moments.second].concat();
    (reports, [trainer.parameters().unwrap(), state.averages, moments].concat())
}

/// Whole runs of networks of all kinds: the same solver steps, the same losses, the same parameters.
pub fn runs_agree<A: Machine, B: Machine>(
    exact: impl Fn() -> A,
    other: impl Fn() -> B,
    batches: usize,
    tolerance: f64,
) {
    for (setting, config) in settings() {
        for (name, shape, layers, outputs) in networks() {
            let what = format!("{name}, {setting}");
            let network = (shape, &layers[..], outputs);
            let (expected, of_exact) = some_batches(exact(), &config, network, batches);
            let (found, of_other) = some_batches(other(), &config, network, batches);
            assert_eq!(found.len(), batches);
            for (a, b) in found.iter().zip(&expected) {
                assert_eq!(
                    (a.concrete_steps, a.abstract_steps, a.splits, a.trajectories),
                    (b.concrete_steps, b.abstract_steps, b.splits, b.trajectories),
                    "{what}"
                );
                let terms = |r: &BatchReport| {
                    let (l, motion) = (r.loss, r.motion.unwrap_or(0.0));
                    vec![
                        l.total,
                        l.clean,
                        l.robust,
                        l.width,
                        l.error,
                        l.tightness,
                        l.balance,
                        l.decisions,
                        l.alive,
                        r.accuracy,
                        r.robust_accuracy,
                        r.error,
                        r.robust_error,
                        motion,
                        r.initial_step,
                        r.gradient_norm,
                    ]
                };
                agree(&what, &terms(a), &terms(b), tolerance);
            }
            agree(&what, &of_other, &of_exact, tolerance);
        }
    }
}

/// A run that learns, and does so again to the last bit, also when it is taken up in the middle.
pub fn runs_learn_and_repeat_themselves<M: Machine>(machine: impl Fn() -> M) {
    let (_, shape, layers, outputs) = networks().remove(2);
    let mut config = config(Training::Provable, 0.01);
    config.phases[0].epochs = 5;
    config.optimiser.average = 0.5;
    config.layers = Some(layers.clone());
    config.adopt_solver();
    let network = (shape, &layers[..], outputs);
    let mut whole = trainer(machine(), &config, network);
    let (mut losses, mut middle) = (Vec::new(), None);
    while let Some(advance) = whole.advance().unwrap() {
        losses.extend(advance.epoch.map(|epoch| epoch.loss));
        if losses.len() == 2 && middle.is_none() {
            middle = Some(whole.checkpoint().unwrap());
        }
    }
    assert!(losses[4] < losses[0], "{losses:?}");
    let mut again = trainer(machine(), &config, network);
    again.restore(&middle.unwrap()).unwrap();
    while again.advance().unwrap().is_some() {}
    assert!(whole.checkpoint().unwrap().state == again.checkpoint().unwrap().state);
}

/// The network of the paper with wide, padded layers in front: a sample does not fit into the shared memory of any device.
pub fn padded(channels: usize, batch: usize, form: gains_train::StepForm) -> (Config, Description) {
    let text = format!(
        "batch = {batch}\nmethod = 'provable'\n[network.encoder]\nchannels = [{channels}, {channels}, {channels}]\n\
         padding = 2\n[network.dynamics]\nchannels = [{channels}, {channels}]\n[[phases]]\nepochs = 4\n\
         eps = {{ target = 0.02 }}\nkappa = [{{ from = 0, count = 2 }}]"
    );
    let mut config = Config::from_toml(&text).unwrap();
    config.phases[0].step_form = form;
    let classes: Vec<String> = (0..10).map(|class| class.to_string()).collect();
    let description = config.description(0.1, &classes);
    (config, description)
}
