//! The price of the controlled adaptive solver: at most α times the steps of the adaptive one, at the same
//! accuracy (paper, section 4).
//!
//! The bound compares like with like: an adaptive solver without a safety factor that changes its step by
//! at most α at a time, both from the same first step, the minimum step out of the way.

use gains_core::description::{ControlledSpec, ControllerSpec, RungeKutta, SolverSpec};
use gains_ode::{Solution, StopReason, solve};

type RightHandSide = fn(f64, &[f64]) -> Vec<f64>;

struct Problem {
    name: &'static str,
    right_hand_side: RightHandSide,
    initial: Vec<Vec<f64>>,
    end: f64,
    /// A tolerance as large as the solution itself lets a solver leave the basin of attraction.
    coarsest: f64,
}

fn problems() -> Vec<Problem> {
    vec![
        Problem {
            name: "the paper's example",
            right_hand_side: |t, z| vec![z[0] * (0.8 * t.cos() * t.cos() + t).cos()],
            initial: (-10..=10).filter(|i| *i != 0).map(|i| vec![0.25 * f64::from(i)]).collect(),
            end: 5.0,
            coarsest: 1.0,
        },
        Problem {
            name: "logistic growth",
            right_hand_side: |_, z| vec![3.0 * z[0] * (1.0 - z[0])],
            initial: vec![vec![0.05], vec![0.5], vec![1.7]],
            end: 5.0,
            coarsest: 1e-3,
        },
        Problem {
            name: "mildly stiff",
            right_hand_side: |t, z| vec![-15.0 * (z[0] - t.cos()), z[0] - z[1]],
            initial: vec![vec![0.0, 1.0], vec![2.0, -1.0]],
            end: 3.0,
            coarsest: 0.1,
        },
        Problem {
            name: "van der Pol",
            right_hand_side: |_, z| vec![z[1], (1.0 - z[0] * z[0]) * z[1] - z[0]],
            initial: vec![vec![2.0, 0.0], vec![0.1, 0.3], vec![-1.0, 2.5]],
            end: 7.0,
            coarsest: 0.1,
        },
    ]
}

const TOLERANCES: [f64; 7] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];

/// Factors, first steps and tolerances.
fn settings(coarsest: f64) -> Vec<(u32, f64, f64)> {
    let mut all = Vec::new();
    for factor in [2, 3] {
        for first_step in [0.01, 0.1, 0.4] {
            for &tolerance in TOLERANCES.iter().filter(|t| **t <= coarsest) {
                all.push((factor, first_step, tolerance));
            }
        }
    }
    all
}

fn run(problem: &Problem, initial: &[f64], controller: ControllerSpec) -> Solution<()> {
    let spec = SolverSpec { method: RungeKutta::Dopri5, controller, end_time: problem.end };
    assert_eq!(spec.problem(), None);
    solve(&problem.right_hand_side, &spec, initial).expect("a standard problem is solved")
}

fn controlled(factor: u32, tolerance: f64, initial_step: f64) -> ControllerSpec {
    ControllerSpec::ControlledAdaptive(ControlledSpec {
        factor,
        tolerance,
        initial_step,
        minimum_step: 1e-7,
        rejections_after_clipping: 8,
    })
}

fn adaptive(factor: u32, tolerance: f64, initial_step: f64) -> ControllerSpec {
    let grow = f64::from(factor);
    ControllerSpec::Adaptive { tolerance, initial_step, safety: 1.0, shrink: 1.0 / grow, grow }
}

/// No allowance is needed for the step that is clipped at the end: both solvers pay for it.
#[test]
fn a_controlled_solve_takes_at_most_alpha_times_the_steps() {
    for problem in problems() {
        for (factor, first_step, tolerance) in settings(problem.coarsest) {
            for initial in &problem.initial {
                let ours = run(&problem, initial, controlled(factor, tolerance, first_step));
                let usual = run(&problem, initial, adaptive(factor, tolerance, first_step));
                assert_eq!(ours.stop, StopReason::Finished);
                assert!(
                    ours.accepted() <= factor as usize * usual.accepted(),
                    "{} from {initial:?}, α = {factor}, h₀ = {first_step}, τ = {tolerance:e}: {} against {}",
                    problem.name,
                    ours.accepted(),
                    usual.accepted()
                );
            }
        }
    }
}

/// Errors at the end time against a reference with 4000 fixed steps of dopri8, the mean over the initial
/// states (a single error may happen to cross zero).
#[test]
fn a_controlled_solve_is_as_accurate() {
    for problem in problems() {
        let reference = |initial: &[f64]| {
            let controller = ControllerSpec::Fixed { steps: 4000 };
            let spec = SolverSpec { method: RungeKutta::Dopri8, controller, end_time: problem.end };
            solve(&problem.right_hand_side, &spec, initial).expect("the reference is solved").state
        };
        let exact: Vec<Vec<f64>> = problem.initial.iter().map(|z| reference(z)).collect();
        for (factor, first_step, tolerance) in settings(problem.coarsest) {
            let mean_error = |controller: ControllerSpec| -> f64 {
                let error = |(initial, exact): (&Vec<f64>, &Vec<f64>)| -> f64 {
                    let end = run(&problem, initial, controller.clone()).state;
                    end.iter().zip(exact).map(|(a, b)| (a - b).abs()).sum()
                };
                problem.initial.iter().zip(&exact).map(error).sum::<f64>() / exact.len() as f64
            };
            let ours = mean_error(controlled(factor, tolerance, first_step));
            let usual = mean_error(adaptive(factor, tolerance, first_step));
            let what = format!("{}, α = {factor}, h₀ = {first_step}, τ = {tolerance:e}", problem.name);
            assert!(ours <= 3.0 * usual, "{what}: {ours:e} against {usual:e}");
            assert!(ours <= 30.0 * tolerance, "{what}: {ours:e}");
        }
    }
}
