//! Budgets, overflow and solvers that cannot be verified: always an `Unknown` with the right reason.

use std::time::{Duration, Instant};

use gains_core::description::{ControllerSpec, LayerSpec, RungeKutta, SolverSpec};
use gains_core::model_file::Tensors;
use gains_core::{Arithmetic, Interval, Shape};
use gains_testkit::{Model, controlled, fixed, linear};
use gains_verify::{Budget, Method, Problem, Reason, Settings, Stage, Verdict, Verifier};

use crate::region::{self, ARITHMETICS, METHODS, MODES, RowsOf};

const PIXELS: Interval = Interval::new(0.0, 1.0);

fn ode_model(solver: SolverSpec, weight: f64) -> Model {
    let mut tensors = Tensors::new();
    let w = weight;
    let dynamics = vec![
        linear(&mut tensors, "g1", &[&[0.5, w, -w], &[0.1, -w, w]], &[0.1, 0.1], true),
        LayerSpec::Relu {},
        linear(&mut tensors, "g2", &[&[w, -w], &[-w, w]], &[0.2, -0.1], false),
    ];
    let out = linear(&mut tensors, "out", &[&[0.0, 0.0], &[0.0, 0.0]], &[1.0, 0.0], false);
    Model::new(Shape::flat(2), vec![LayerSpec::Ode { dynamics, solver }, out], tensors, 2)
}

fn certify(model: &Model, methods: &[Method], budget: Budget<'_>, eps: f64) -> Verdict {
    let settings = Settings { stages: Stage::bounds(methods), ..Settings::default() };
    let pixels = Interval::new(-1e300, 1e300);
    region::certify(&model.network(), (&[0.3, 0.6], 0, eps), pixels, &settings, budget).verdict
}

/// A graph with hundreds of vertices.
fn branching() -> Model {
    let mut solver = controlled(RungeKutta::Dopri5, 2, 1e-3, 0.19, 1);
    if let ControllerSpec::ControlledAdaptive(c) = &mut solver.controller {
        c.minimum_step = 0.02;
    }
    ode_model(solver, 1.5)
}

#[test]
fn limits_of_time_vertices_and_memory_are_named() {
    let model = branching();
    for method in METHODS {
        let budget = Budget { timeout: Some(Duration::ZERO), ..Budget::default() };
        let verdict = certify(&model, &[method], budget, 1.0);
        assert!(matches!(verdict, Verdict::Unknown(Reason::TimeLimit { .. })), "{method}: {verdict:?}");
        let budget = Budget { vertices: 5, ..Budget::default() };
        let verdict = certify(&model, &[method], budget, 1.0);
        assert_eq!(verdict, Verdict::Unknown(Reason::TooManyVertices { limit: 5 }), "{method}");
        let budget = Budget { memory: 200, ..Budget::default() };
        let verdict = certify(&model, &[method], budget, 1.0);
        assert!(matches!(verdict, Verdict::Unknown(Reason::MemoryLimit { .. })), "{method}: {verdict:?}");
        let budget = Budget { interrupted: &|| true, ..Budget::default() };
        assert_eq!(
            certify(&model, &[method], budget, 1.0),
            Verdict::Unknown(Reason::Interrupted),
            "{method}"
        );
    }
    // The decision does not depend on the ODE at all, so without limits it is reached.
    for method in METHODS {
        assert_eq!(certify(&model, &[method], Budget::default(), 0.01), Verdict::Verified, "{method}");
    }
}

#[test]
fn a_time_limit_in_the_middle_is_kept() {
    let mut solver = controlled(RungeKutta::Dopri5, 2, 1e-6, 0.01, 1);
    if let ControllerSpec::ControlledAdaptive(c) = &mut solver.controller {
        c.minimum_step = 1e-4;
    }
    let model = ode_model(solver, 0.5);
    let limit = Duration::from_millis(30);
    let mut stopped = 0;
    for method in METHODS {
        let start = Instant::now();
        let verdict = certify(&model, &[method], Budget { timeout: Some(limit), ..Budget::default() }, 0.3);
        assert!(start.elapsed() < Duration::from_secs(3), "{method}: {:?}", start.elapsed());
        // A fast method on a fast machine may be done in time; then it says so within the limit.
        match verdict {
            Verdict::Unknown(Reason::TimeLimit { .. }) => stopped += 1,
            _ => assert!(start.elapsed() < 20 * limit, "{method}: {verdict:?} after {:?}", start.elapsed()),
        }
    }
    assert!(stopped > 0, "rows over thousands of vertices take longer than {limit:?}");
}

#[test]
fn solvers_without_a_finite_graph_are_refused() {
    let controller =
        ControllerSpec::Adaptive { tolerance: 0.01, initial_step: 0.1, safety: 0.9, shrink: 0.2, grow: 10.0 };
    let adaptive = SolverSpec { method: RungeKutta::Dopri5, controller, end_time: 1.0 };
    // Without an error estimate nothing can be decided; the loader does not let such a network in.
    let blind = ode_model(controlled(RungeKutta::Rk4, 2, 0.01, 0.2, 1), 0.5);
    let refused = gains_core::model_file::build(blind.description, &blind.tensors, String::new());
    assert!(refused.is_err_and(|error| error.to_string().contains("estimates no error")));
    for method in METHODS {
        let verdict = certify(&ode_model(adaptive.clone(), 0.5), &[method], Budget::default(), 0.01);
        assert_eq!(verdict, Verdict::Unknown(Reason::NotControlled), "{method}");
    }
}

/// Weights so large that everything overflows, in all places; the property would hold trivially.
#[test]
fn overflow_is_unknown_wherever_it_happens() {
    for rule in
        [RungeKutta::Euler, RungeKutta::Midpoint, RungeKutta::Heun, RungeKutta::Rk4, RungeKutta::Dopri5]
    {
        for weight in [1e80, 1e150, 1e160, 1e200, 1e300] {
            for arithmetic in ARITHMETICS {
                let model = ode_model(fixed(rule, 2), weight);
                let network = model.network();
                let inputs = gains_core::BoxVec::new(vec![0.2, 0.5], vec![0.4, 0.7]);
                let property = RowsOf::classification(2, 0);
                for mode in MODES {
                    let found = region::analyse(&network, &inputs, &property, mode, arithmetic);
                    let reason = found.err();
                    let what = format!("{rule:?} {weight:e} {mode:?}");
                    let told = match arithmetic {
                        Arithmetic::Real => matches!(reason, Some(Reason::Overflow { .. })),
                        // Such weights are infinite in float32 before anything is computed.
                        Arithmetic::Float32 => matches!(reason, Some(Reason::BeyondFloat32 { .. })),
                    };
                    assert!(told, "{what}: {reason:?}");
                }
            }
        }
    }
}

/// Many rejections, huge errors: the walk still ends.
#[test]
fn wild_networks_end() {
    for factor in [2, 3, 64] {
        for weight in [30.0, 1e5] {
            let model = ode_model(controlled(RungeKutta::Dopri5, factor, 1e-12, 0.3, 8), weight);
            for method in METHODS {
                let budget =
                    Budget { timeout: Some(Duration::from_secs(1)), vertices: 2000, ..Budget::default() };
                let start = Instant::now();
                let verdict = certify(&model, &[method], budget, 0.1);
                assert!(start.elapsed() < Duration::from_secs(4), "{factor} {weight} {method}");
                assert!(!matches!(verdict, Verdict::Falsified { .. }), "{verdict:?}");
            }
        }
    }
}

#[test]
fn inputs_of_the_wrong_size_or_value_are_unknown() {
    let network = branching().network();
    let settings = Settings::default();
    for image in [&[0.3][..], &[0.3, 0.6, 0.1], &[], &[f64::NAN, 0.5], &[f64::INFINITY, 0.5]] {
        let verdict =
            region::certify(&network, (image, 0, 0.1), PIXELS, &settings, Budget::default()).verdict;
        assert!(matches!(verdict, Verdict::Unknown(_)), "{image:?}: {verdict:?}");
    }
    let clock = gains_verify::limits::Clock::start(Budget::default());
    let problem = Problem::classification(&network, &[0.3], 0, 0.1, PIXELS);
    let bounds = Verifier::new(settings).bounds(&problem, Method::Gains, clock);
    assert_eq!(bounds.err(), Some(Reason::InputSize { found: 1, expected: 2 }));
}

/// Flushing is switched on for this thread only, and off again.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_process_that_flushes_subnormal_numbers_is_not_trusted() {
    let network = branching().network();
    let check = move || {
        let mut control = 0_u32;
        // SAFETY: stores and loads the control register of this thread; bit 15 flushes results to zero and
        // is valid on every x86-64 processor.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &mut control, options(nostack));
            let flushing = control | 1 << 15;
            std::arch::asm!("ldmxcsr [{}]", in(reg) &flushing, options(nostack));
        }
        let settings = Settings::default();
        let sample = (&[0.3, 0.6][..], 0, 0.01);
        let verdict = region::certify(&network, sample, PIXELS, &settings, Budget::default()).verdict;
        // SAFETY: as above, back to what it was.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &control, options(nostack)) };
        verdict
    };
    let verdict = std::thread::spawn(check).join().expect("no panic");
    assert_eq!(verdict, Verdict::Unknown(Reason::FlushToZero));
}

/// Intervals are done at once here and too loose; what is interrupted is the attack after them, so the
/// sample is not decided and must be done again.
#[test]
fn an_interrupted_attack_decides_nothing() {
    let mut tensors = Tensors::new();
    let out = linear(&mut tensors, "out", &[&[1.0, 0.0], &[0.0, 1.0]], &[0.0, 0.0], false);
    let network = Model::new(Shape::flat(2), vec![out], tensors, 2).network();
    let stages = vec![Stage::Bound(Method::Box), Stage::Attack(gains_verify::Attack::default())];
    let settings = Settings { stages, ..Settings::default() };
    let interrupted = Budget { interrupted: &|| true, ..Budget::default() };
    let verdict =
        |budget| region::certify(&network, (&[0.6, 0.3], 0, 0.2), PIXELS, &settings, budget).verdict;
    assert_eq!(verdict(interrupted), Verdict::Unknown(Reason::Interrupted));
    assert!(matches!(verdict(Budget::default()), Verdict::Falsified { .. }));
}
