//! Concrete solves keep to their limits, and gradients do not depend on what was kept.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gains_core::affine::Conv2d;
use gains_core::description::{ControlledSpec, ControllerSpec, RungeKutta, SolverSpec};
use gains_core::{Activation, AffineMap, Circuit, Operator, Precision, Shape};
use gains_ode::system::NeuralDynamics;
use gains_ode::tableau::Tableau;
use gains_ode::{Solution, SolveError, Watch, solve, solve_within};

const MEGABYTE: usize = 1 << 20;

/// Two layers with ReLU between them; the first sees the time.
fn dynamics(width: usize, hidden: usize) -> Circuit {
    let mut random = fastrand::Rng::with_seed(5);
    let mut layer = |inputs: usize, outputs: usize, time: bool| {
        let columns = inputs + usize::from(time);
        let scale = 1.5 / (columns as f64).sqrt();
        let weights: Vec<f64> = (0..columns * outputs).map(|_| scale * (2.0 * random.f64() - 1.0)).collect();
        let bias: Vec<f64> = (0..outputs).map(|_| 0.4 * random.f64() - 0.2).collect();
        let map = Conv2d::linear_layer(inputs, &weights, &bias, time).expect("the weights fit");
        Operator::Affine(Arc::new(AffineMap::Conv(map)))
    };
    let mut circuit = Circuit::of("state", Shape::flat(width));
    let first = circuit.push(layer(width, hidden, true), vec![0], Shape::flat(hidden));
    let relu = circuit.push(Operator::Curve(Activation::Relu), vec![first], Shape::flat(hidden));
    circuit.push(layer(hidden, width, false), vec![relu], Shape::flat(width));
    circuit
}

fn fixed(method: RungeKutta, steps: u32) -> SolverSpec {
    SolverSpec { method, controller: ControllerSpec::Fixed { steps }, end_time: 1.0 }
}

fn controlled(method: RungeKutta, tolerance: f64) -> SolverSpec {
    let spec = ControlledSpec {
        factor: 2,
        tolerance,
        initial_step: 0.19,
        minimum_step: 1e-4,
        rejections_after_clipping: 2,
    };
    SolverSpec { method, controller: ControllerSpec::ControlledAdaptive(spec), end_time: 1.0 }
}

fn adaptive(method: RungeKutta, tolerance: f64) -> SolverSpec {
    let controller =
        ControllerSpec::Adaptive { tolerance, initial_step: 0.3, safety: 0.9, shrink: 0.2, grow: 10.0 };
    SolverSpec { method, controller, end_time: 1.0 }
}

fn start(width: usize) -> Vec<f64> {
    (0..width).map(|i| ((i * 37 % 11) as f64 - 5.0) / 7.0).collect()
}

/// Gradients with everything kept, with states only, and with hardly any of them.
#[test]
fn gradients_do_not_depend_on_what_is_kept() {
    let circuit = dynamics(5, 9);
    let (initial, cotangent) = (start(5), [0.3, -1.0, 0.7, 0.1, 2.0]);
    let specs = [
        fixed(RungeKutta::Euler, 83),
        fixed(RungeKutta::Rk4, 37),
        controlled(RungeKutta::Dopri5, 1e-6),
        controlled(RungeKutta::Bosh3, 1e-5),
        controlled(RungeKutta::Fehlberg2, 1e-3),
        controlled(RungeKutta::Dopri8, 1e-9),
        adaptive(RungeKutta::Dopri5, 1e-8),
        adaptive(RungeKutta::Heun, 1e-4),
    ];
    let mut rejected = 0;
    for spec in &specs {
        for precision in [Precision::Float64, Precision::Float32] {
            let system = NeuralDynamics { circuit: &circuit, precision };
            let tableau = Tableau::of(spec.method);
            let kept = solve(&system, spec, &initial).expect("a tame network");
            assert!(kept.keeps_stages() && kept.accepted() >= 2, "{spec:?}");
            rejected += kept.rejected();
            let expected = kept.pull_back(&system, tableau, &cotangent);
            assert!(expected.iter().all(|g| g.is_finite() && *g != 0.0));
            for tapes in [0, 100, 1000, 2000, 5000, 20_000] {
                let watch = Watch { tapes, ..Watch::default() };
                let bare = solve_within(&system, spec, &initial, &watch).expect("as before");
                assert!(tapes > 1000 || !bare.keeps_stages(), "{tapes}");
                assert_eq!((&bare.state, &bare.trajectory), (&kept.state, &kept.trajectory));
                let found = bare.pull_back(&system, tableau, &cotangent);
                assert_eq!(found, expected, "{tapes} bytes, {precision:?}, {spec:?}");
                let watched = bare.pull_back_within(&system, tableau, &cotangent, &watch);
                assert_eq!(watched, Ok(found));
            }
        }
    }
    assert!(rejected > 10, "{rejected}");
}

fn held<T>(solution: &Solution<T>) -> usize {
    solution.bytes() / MEGABYTE
}

/// Peak memory of this process, in bytes; 0 where the system does not tell.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<usize>().ok());
    1024 * kilobytes.unwrap_or(0)
}

/// With all stages kept this one would hold 200 MB.
#[test]
fn many_steps_take_little_memory() {
    let circuit = dynamics(16, 16);
    let system = NeuralDynamics { circuit: &circuit, precision: Precision::Float64 };
    let spec = fixed(RungeKutta::Rk4, 100_000);
    let solution = solve(&system, &spec, &start(16)).expect("a tame network");
    assert_eq!(solution.accepted(), 100_000);
    assert!(!solution.keeps_stages() && held(&solution) < 64, "{} MB", held(&solution));
    assert!(peak() < 100 * MEGABYTE, "{} MB at the worst", peak() / MEGABYTE);
    let gradient = solution.pull_back(&system, Tableau::of(RungeKutta::Rk4), &[1.0; 16]);
    assert!(gradient.iter().all(|g| g.is_finite()));
    assert!(peak() < 150 * MEGABYTE, "{} MB at the worst", peak() / MEGABYTE);
}

/// A stop is heard within one step, in a solve and in its gradient.
#[test]
fn a_run_stops_when_asked() {
    let circuit = dynamics(16, 16);
    let system = NeuralDynamics { circuit: &circuit, precision: Precision::Float64 };
    let tableau = Tableau::of(RungeKutta::Dopri5);
    let spec = fixed(RungeKutta::Dopri5, 100_000);
    let asked = Cell::new(0);
    let after = Cell::new(500);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > after.get()
    };
    let watch = Watch { interrupted: &stop, tapes: 100_000, ..Watch::default() };
    let outcome = solve_within(&system, &spec, &start(16), &watch).err();
    let Some(SolveError::Interrupted { time }) = outcome else { panic!("{outcome:?}") };
    assert!((time - 0.005).abs() < 1e-9, "after 500 steps of 1e-5, not at {time}");

    asked.set(0);
    after.set(usize::MAX);
    let few = fixed(RungeKutta::Dopri5, 1000);
    let solution = solve_within(&system, &few, &start(16), &watch).expect("nobody stops it");
    asked.set(0);
    after.set(700);
    let outcome = solution.pull_back_within(&system, tableau, &[1.0; 16], &watch);
    assert!(matches!(outcome, Err(SolveError::Interrupted { .. })), "{outcome:?}");
    assert_eq!(asked.get(), 701);
}

#[test]
fn a_deadline_is_kept() {
    let circuit = dynamics(16, 16);
    let system = NeuralDynamics { circuit: &circuit, precision: Precision::Float64 };
    let spec = fixed(RungeKutta::Dopri8, 1_000_000);
    let limit = Duration::from_millis(60);
    let started = Instant::now();
    let watch = Watch { deadline: Some(started + limit), ..Watch::default() };
    let outcome = solve_within(&system, &spec, &start(16), &watch).err();
    let Some(SolveError::OutOfTime { time, steps }) = outcome else { panic!("{outcome:?}") };
    assert!(time < 1.0 && steps > 10, "{time} {steps}");
    let late = started.elapsed() - limit;
    assert!(late < Duration::from_millis(50), "{late:?} late");
}

#[test]
fn memory_has_a_limit() {
    let system = |_: f64, z: &[f64]| vec![-z[0]];
    let limit = MEGABYTE;
    let watch = Watch { memory: limit, ..Watch::default() };
    let outcome = solve_within(&system, &fixed(RungeKutta::Euler, 1_000_000), &[1.0], &watch).err();
    let Some(SolveError::OutOfMemory { bytes, limit: told, steps, time }) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(told == limit && bytes > limit && bytes < 3 * limit, "{bytes}");
    assert!(steps > 2000 && (time - steps as f64 * 1e-6).abs() < 1e-9, "{steps} {time}");
    // Few steps fit.
    assert!(solve_within(&system, &fixed(RungeKutta::Euler, 1000), &[1.0], &watch).is_ok());
}
