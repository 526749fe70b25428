//! Inference in both precisions, and gradients against central differences of the solver itself.

use gains_core::description::LayerSpec;
use gains_core::model_file::{Tensors, build};
use gains_core::{Network, Precision, widen};
use gains_ode::{Action, Inference};
use gains_testkit::random_tensors;
use serde_json::{Value, json};

fn tensors(layers: &Value, seed: u64) -> Tensors {
    let layers: Vec<LayerSpec> = serde_json::from_value(layers.clone()).expect("a list of layers");
    random_tensors(&layers, &mut fastrand::Rng::with_seed(seed))
}

fn network(input: [usize; 3], classes: usize, layers: Value, seed: u64) -> Network {
    let tensors = tensors(&layers, seed);
    let names: Vec<String> = (0..classes).map(|i| i.to_string()).collect();
    let description = serde_json::from_value(json!({
        "format": "gains-model", "version": 1, "name": "test",
        "task": {"type": "classification", "classes": names},
        "input": {"height": input[0], "width": input[1], "channels": input[2]},
        "layers": layers,
    }));
    build(description.expect("a description"), &tensors, String::new()).expect("a network")
}

fn controlled(method: &str, tolerance: f64, first_step: f64) -> Value {
    json!({"method": method, "end_time": 1.0, "controller": {
        "type": "controlled_adaptive", "factor": 2, "tolerance": tolerance, "initial_step": first_step,
        "minimum_step": 0.01, "rejections_after_clipping": 1}})
}

fn fixed(method: &str, steps: u32) -> Value {
    json!({"method": method, "end_time": 1.0, "controller": {"type": "fixed", "steps": steps}})
}

/// Every kind of layer; the dynamics see the time in both convolutions.
fn everything(solver: Value, seed: u64) -> Network {
    let dynamics = json!([
        {"type": "conv2d", "name": "g1", "in_channels": 3, "out_channels": 4, "kernel": [3, 3],
         "padding": [1, 1], "time": true},
        {"type": "tanh"},
        {"type": "conv2d", "name": "g2", "in_channels": 4, "out_channels": 3, "kernel": [3, 3],
         "padding": [2, 2], "dilation": [2, 2], "time": true},
        {"type": "relu"},
    ]);
    let layers = json!([
        {"type": "normalize", "mean": [0.1, -0.2], "std": [0.5, 0.7]},
        {"type": "conv2d", "name": "e1", "in_channels": 2, "out_channels": 3, "kernel": [3, 2],
         "stride": [1, 2], "padding": [1, 1]},
        {"type": "leaky_relu", "slope": 0.1},
        {"type": "avg_pool2d", "kernel": [2, 2], "stride": [2, 1], "padding": [1, 0]},
        {"type": "sigmoid"},
        {"type": "ode", "dynamics": dynamics, "solver": solver},
        {"type": "avg_pool2d", "kernel": [2, 1], "stride": [2, 1]},
        {"type": "flatten"},
        {"type": "linear", "name": "h1", "in_features": 18, "out_features": 5},
        {"type": "relu"},
        {"type": "linear", "name": "h2", "in_features": 5, "out_features": 3},
    ]);
    network([6, 6, 2], 3, layers, seed)
}

/// Fully connected dynamics with a time input between two linear layers.
fn flat(solver: Value, seed: u64) -> Network {
    let dynamics = json!([
        {"type": "linear", "name": "g1", "in_features": 5, "out_features": 8, "time": true},
        {"type": "relu"},
        {"type": "linear", "name": "g2", "in_features": 8, "out_features": 5, "time": true},
        {"type": "tanh"},
    ]);
    let layers = json!([
        {"type": "conv2d", "name": "e", "in_channels": 1, "out_channels": 5, "kernel": [2, 2]},
        {"type": "global_avg_pool"},
        {"type": "ode", "dynamics": dynamics, "solver": solver},
        {"type": "linear", "name": "h", "in_features": 5, "out_features": 4},
    ]);
    network([4, 3, 1], 4, layers, seed)
}

fn solvers() -> Vec<Value> {
    vec![
        controlled("dopri5", 0.005, 0.19),
        controlled("dopri5", 1e-4, 0.4),
        controlled("bosh3", 1e-3, 0.3),
        controlled("heun", 0.02, 0.5),
        controlled("fehlberg2", 1e-4, 0.25),
        controlled("dopri8", 1e-6, 1.0),
        fixed("euler", 4),
        fixed("midpoint", 3),
        fixed("rk4", 4),
        fixed("rk38", 3),
        fixed("dopri5", 2),
    ]
}

fn random_input(network: &Network, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..network.input().len()).map(|_| f64::from(random.f32())).collect()
}

fn run<'a>(network: &'a Network, input: &[f64], precision: Precision) -> Inference<'a> {
    Inference::run(network, input, precision).expect("the network runs")
}

/// Every step size and decision of every solve.
fn decisions(inference: &Inference<'_>) -> Vec<(f64, f64, Action)> {
    let visits = inference.solutions().flat_map(|solution| &solution.trajectory);
    visits.map(|visit| (visit.time, visit.step, visit.action)).collect()
}

/// Compares with central differences and returns how many coordinates were compared. Coordinates where a
/// decision or the sign of a ReLU's input flips between the shifted points are left out: the second
/// difference of a kink is of first order.
fn check_gradient(network: &Network, seed: u64, what: &str) -> usize {
    const SHIFT: f64 = 2e-5;
    let input = random_input(network, seed);
    let centre = run(network, &input, Precision::Float64);
    let weights: Vec<f64> = (0..centre.output.len()).map(|i| 1.0 - 0.6 * i as f64).collect();
    let objective = |inference: &Inference<'_>| -> f64 {
        inference.output.iter().zip(&weights).map(|(y, w)| y * w).sum()
    };
    let gradient = centre.pull_back(&weights);
    let size = gradient.iter().fold(0.0_f64, |a, g| a.max(g.abs()));
    assert!(size > 1e-6, "{what}: the gradient vanishes");
    let mut compared = 0;
    for i in 0..input.len() {
        let shifted = |by: f64| {
            let mut x = input.clone();
            x[i] += by;
            run(network, &x, Precision::Float64)
        };
        let (above, below) = (shifted(SHIFT), shifted(-SHIFT));
        let same = decisions(&above) == decisions(&centre) && decisions(&below) == decisions(&centre);
        let bend = objective(&above) + objective(&below) - 2.0 * objective(&centre);
        if !same || bend.abs() > 1e-3 * SHIFT * size {
            continue;
        }
        let slope = (objective(&above) - objective(&below)) / (2.0 * SHIFT);
        let error = (slope - gradient[i]).abs() / size;
        assert!(error < 1e-5, "{what}, input {i}: {} against {slope}, off by {error:e}", gradient[i]);
        compared += 1;
    }
    compared
}

#[test]
fn gradients_agree_with_central_differences() {
    for solver in solvers() {
        for seed in 0..3 {
            let what = format!("{solver} seed {seed}");
            let convolutional = everything(solver.clone(), seed);
            let compared = check_gradient(&convolutional, seed + 100, &what);
            assert!(compared >= 65, "{what}: {compared} of 72 coordinates compared");
            let flat = flat(solver.clone(), seed);
            let compared = check_gradient(&flat, seed + 200, &what);
            assert!(compared >= 10, "{what}: {compared} of 12 coordinates compared");
        }
    }
}

/// Rejected steps leave no trace in the gradient; make sure some of the above have them.
#[test]
fn gradients_are_checked_on_solves_with_rejections() {
    let rejected: usize = solvers()
        .into_iter()
        .flat_map(|solver| (0..3).map(move |seed| everything(solver.clone(), seed)))
        .map(|network| {
            let input = random_input(&network, 100);
            run(&network, &input, Precision::Float64).solutions().map(|s| s.rejected()).sum::<usize>()
        })
        .sum();
    assert!(rejected > 3, "{rejected}");
}

/// Tolerances near the rounding of float32 are left out: there the two may decide differently.
#[test]
fn float32_agrees_with_float64() {
    for solver in solvers().into_iter().filter(|solver| solver["method"] != "dopri8") {
        for seed in 0..5 {
            let network = everything(solver.clone(), seed);
            let input = random_input(&network, seed);
            let (double, single) =
                (run(&network, &input, Precision::Float64), run(&network, &input, Precision::Float32));
            assert_eq!(decisions(&double).len(), decisions(&single).len());
            for (a, b) in double.output.iter().zip(&single.output) {
                assert!((a - b).abs() < 1e-4, "{solver}: {a} {b}");
                assert_eq!(*b, f64::from(*b as f32), "a float32 result is a float32");
            }
            assert_ne!(double.output, single.output, "float32 must round");
        }
    }
}

#[test]
fn a_result_does_not_depend_on_what_was_evaluated_before() {
    for precision in [Precision::Float32, Precision::Float64] {
        let network = everything(controlled("dopri5", 1e-4, 0.4), 7);
        let inputs: Vec<Vec<f64>> = (0..12).map(|seed| random_input(&network, seed)).collect();
        let forwards: Vec<_> = inputs.iter().map(|x| run(&network, x, precision).output).collect();
        let mut backwards: Vec<_> = inputs.iter().rev().map(|x| run(&network, x, precision).output).collect();
        backwards.reverse();
        assert_eq!(forwards, backwards);
        let copy = network.clone();
        for (x, y) in inputs.iter().zip(&forwards) {
            let again = run(&copy, x, precision);
            assert_eq!(again.output, *y);
            let best = y.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
            assert_eq!(y[again.prediction()], best);
        }
    }
}

/// Weights whose products overflow: inf − inf is no number, and a ReLU must not turn it into a zero.
#[test]
fn an_overflow_before_a_relu_is_an_error() {
    let layers = json!([
        {"type": "linear", "name": "a", "in_features": 2, "out_features": 2},
        {"type": "linear", "name": "b", "in_features": 2, "out_features": 2},
        {"type": "relu"},
    ]);
    let mut tensors = Tensors::new();
    for name in ["a", "b"] {
        let weights = vec![1e300, 1e300, -1e300, -1e300];
        tensors.insert(format!("{name}.weight"), (vec![2, 2], weights));
        tensors.insert(format!("{name}.bias"), (vec![2], vec![0.0; 2]));
    }
    let description = serde_json::from_value(json!({
        "format": "gains-model", "version": 1, "name": "test", "layers": layers,
        "task": {"type": "classification", "classes": ["0", "1"]},
        "input": {"height": 1, "width": 1, "channels": 2},
    }));
    let network = build(description.unwrap(), &tensors, String::new()).unwrap();
    let outcome = Inference::run(&network, &[1e10, 1.0], Precision::Float64);
    assert!(outcome.is_err(), "{:?}", outcome.map(|inference| inference.output).ok());
}

/// A network whose ODE state is there several times answers the same by the same steps.
#[test]
fn a_widened_network_is_the_same_function_by_the_same_trajectory() {
    for (index, solver) in solvers().into_iter().enumerate() {
        let seed = 300 + index as u64;
        for narrow in [everything(solver.clone(), seed), flat(solver.clone(), seed)] {
            let layers = serde_json::to_value(&narrow.description.layers).expect("layers");
            let tensors = tensors(&layers, seed);
            let input = random_input(&narrow, seed);
            let expected = run(&narrow, &input, Precision::Float64);
            for copies in [1, 2, 3, 4] {
                let (description, tensors) =
                    widen(&narrow.description, &tensors, copies).expect("a wider network");
                let wide = build(description, &tensors, String::new()).expect("a network");
                let found = run(&wide, &input, Precision::Float64);
                for (a, b) in expected.output.iter().zip(&found.output) {
                    assert!((a - b).abs() <= 1e-12, "{copies} copies: {a} and {b}");
                }
                assert_eq!(decisions(&expected), decisions(&found));
                for (a, b) in expected.solutions().zip(found.solutions()) {
                    assert_eq!(a.state.len() * copies, b.state.len());
                }
            }
        }
    }
}

/// `z' = −z³` from 100 with a first step of 0.5: the stages overflow, the step is repeated with smaller ones and the run
/// ends well, but what other numbers would have made of that estimate nobody knows.
#[test]
fn a_run_with_an_estimate_that_is_not_finite_is_not_certain() {
    let cube = json!({"type": "parallel", "join": "product", "branches": [[], [], []]});
    let minus = json!({"type": "linear", "name": "g", "in_features": 1, "out_features": 1});
    let mut solver = controlled("dopri5", 1e-3, 0.5);
    solver["controller"]["minimum_step"] = json!(1e-7);
    let layers = json!([
        {"type": "ode", "dynamics": [cube, minus], "solver": solver},
        {"type": "linear", "name": "out", "in_features": 1, "out_features": 2},
    ]);
    let mut weights = tensors(&layers, 1);
    weights.insert("g.weight".into(), (vec![1, 1], vec![-1.0]));
    weights.insert("g.bias".into(), (vec![1], vec![0.0]));
    let description = json!({
        "format": "gains-model", "version": 2, "name": "cube",
        "task": {"type": "classification", "classes": ["a", "b"]},
        "input": {"height": 1, "width": 1, "channels": 1}, "layers": layers,
    });
    let description = serde_json::from_value(description).expect("a description");
    let network = build(description, &weights, String::new()).expect("a network");
    let run = |at: f64| Inference::run(&network, &[at], Precision::Float64).expect("it ends");
    assert!(run(0.5).certain().is_ok());
    let far = run(100.0);
    assert!(far.solutions().any(|s| s.trajectory.iter().any(|visit| !visit.error.is_finite())));
    assert!(matches!(far.certain(), Err(gains_ode::SolveError::NotFinite { .. })));
}
