//! The step-size automaton on concrete solves: decisions, clipping, counts, failures.

use std::cell::Cell;

use gains_core::description::{ControlledSpec, ControllerSpec, RungeKutta, SolverSpec};
use gains_ode::integrate::{SolveError, Visit, solve_at};
use gains_ode::{Action, Solution, StopReason, Tableau, solve};

const ALL: [RungeKutta; 9] = [
    RungeKutta::Euler,
    RungeKutta::Midpoint,
    RungeKutta::Heun,
    RungeKutta::Rk4,
    RungeKutta::Rk38,
    RungeKutta::Bosh3,
    RungeKutta::Fehlberg2,
    RungeKutta::Dopri5,
    RungeKutta::Dopri8,
];

fn estimating() -> impl Iterator<Item = RungeKutta> {
    ALL.into_iter().filter(|method| Tableau::of(*method).estimates_error())
}

fn controlled(method: RungeKutta, end_time: f64, settings: ControlledSpec) -> SolverSpec {
    let spec = SolverSpec { method, controller: ControllerSpec::ControlledAdaptive(settings), end_time };
    assert_eq!(spec.problem(), None);
    spec
}

fn adaptive(method: RungeKutta, end_time: f64, tolerance: f64, initial_step: f64) -> SolverSpec {
    let controller =
        ControllerSpec::Adaptive { tolerance, initial_step, safety: 0.9, shrink: 0.2, grow: 10.0 };
    SolverSpec { method, controller, end_time }
}

fn fixed(method: RungeKutta, end_time: f64, steps: u32) -> SolverSpec {
    SolverSpec { method, controller: ControllerSpec::Fixed { steps }, end_time }
}

fn settings(factor: u32, tolerance: f64, initial_step: f64, minimum_step: f64) -> ControlledSpec {
    ControlledSpec { factor, tolerance, initial_step, minimum_step, rejections_after_clipping: 1 }
}

/// Calm at first, then an oscillation that sets in: makes every controller both increase and reject.
fn awakening(t: f64, z: &[f64]) -> Vec<f64> {
    let drive = if t > 0.35 { 4.0 * (25.0 * (t - 0.35)).sin() } else { 0.0 };
    vec![drive - 0.3 * z[0], 0.5 * z[0] * z[1]]
}

const START: [f64; 2] = [0.4, 1.0];

fn steps_and_actions<T>(solution: &Solution<T>) -> Vec<(f64, Action)> {
    solution.trajectory.iter().map(|visit| (visit.step, visit.action)).collect()
}

fn assert_close(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() < 1e-12, "{what}: {a} against {b}");
}

/// Replays a controlled trajectory from the rule in the paper, in plain floating point.
fn replay(trajectory: &[Visit], spec: &ControlledSpec, order: u32, end: f64, what: &str) {
    let factor = f64::from(spec.factor);
    let (mut time, mut step) = (0.0, spec.initial_step.min(end));
    let (mut settled, mut clipped, mut rejections) = (false, false, 0);
    for visit in trajectory {
        assert_close(visit.time, time, what);
        assert_close(visit.step, step, what);
        let increase = visit.error <= factor.powi(-(order as i32));
        if !settled && visit.error > 1.0 {
            assert_eq!(visit.action, Action::Reject, "{what} at {time}");
            let exhausted = if clipped {
                rejections += 1;
                rejections > spec.rejections_after_clipping
            } else {
                step / factor < spec.minimum_step * (1.0 - 1e-12)
            };
            if exhausted {
                settled = true;
            } else {
                step /= factor;
            }
            continue;
        }
        time += step;
        let wanted = if increase && !settled { factor * step } else { step };
        let room = end - time;
        let expected =
            if wanted > step && room > step * (1.0 + 1e-12) { Action::Increase } else { Action::Keep };
        assert_eq!(visit.action, expected, "{what} at {time}: δ = {}", visit.error);
        clipped |= wanted >= room * (1.0 - 1e-12);
        step = wanted.min(room);
    }
    assert_close(time, end, what);
}

#[test]
fn trajectories_follow_the_rule() {
    let (mut rejected, mut increased, mut missed) = (0, 0, 0);
    for method in estimating() {
        for factor in [2, 3, 5] {
            for tolerance in [1e-6, 1e-4, 1e-2, 1.0] {
                for (first, end) in [(0.07, 1.0), (0.4, 1.0), (3.0, 1.0), (0.19, 1.7)] {
                    let settings = settings(factor, tolerance, first, 0.002);
                    let what = format!("{method:?} α = {factor}, τ = {tolerance:e}, h₀ = {first}");
                    let spec = controlled(method, end, settings.clone());
                    let solution = solve(&awakening, &spec, &START).unwrap();
                    replay(&solution.trajectory, &settings, Tableau::of(method).order, end, &what);
                    let accepted: Vec<f64> = solution
                        .trajectory
                        .iter()
                        .filter(|visit| visit.action != Action::Reject)
                        .map(|visit| visit.step)
                        .collect();
                    assert_eq!(accepted.len(), solution.accepted(), "{what}");
                    assert_eq!(solution.accepted() + solution.rejected(), solution.trajectory.len());
                    rejected += solution.rejected();
                    increased += accepted.windows(2).filter(|pair| pair[1] > 1.5 * pair[0]).count();
                    missed += usize::from(solution.stop == StopReason::ToleranceMissed);
                }
            }
        }
    }
    assert!(rejected > 100 && increased > 100 && missed > 10, "{rejected} {increased} {missed}");
}

#[test]
fn adaptive_trajectories_follow_the_rule() {
    for method in estimating() {
        for tolerance in [1e-6, 1e-3, 1.0] {
            let end = 1.0;
            let solution = solve(&awakening, &adaptive(method, end, tolerance, 0.2), &START).unwrap();
            let order = f64::from(Tableau::of(method).order);
            let (mut time, mut step) = (0.0, 0.2);
            for visit in &solution.trajectory {
                assert_close(visit.time, time, "time");
                assert_close(visit.step, step, "step");
                let accepted = visit.error <= 1.0;
                assert_eq!(accepted, visit.action != Action::Reject);
                let wanted = if visit.error == 0.0 { 10.0 } else { 0.9 * visit.error.powf(-1.0 / order) };
                let factor = wanted.clamp(if accepted { 1.0 } else { 0.2 }, 10.0);
                time += if accepted { step } else { 0.0 };
                step = (step * factor).min(end - time);
            }
            assert_close(time, end, "end");
        }
    }
}

/// 0.4, 0.2 and 0.1 are rejected, 0.05 would undercut the minimum: the rest is done in steps of 0.1.
#[test]
fn the_minimum_step_ends_the_checks() {
    let spec = controlled(RungeKutta::Dopri5, 1.0, settings(2, 1e-14, 0.4, 0.1));
    let solution = solve(&awakening, &spec, &START).unwrap();
    let trajectory = steps_and_actions(&solution);
    assert_eq!(trajectory[..3], [(0.4, Action::Reject), (0.2, Action::Reject), (0.1, Action::Reject)]);
    assert_eq!(solution.rejected(), 3, "no checks afterwards, though errors exceed the tolerance");
    assert!(solution.trajectory[3..].iter().any(|visit| visit.error > 1.0));
    assert_eq!(solution.accepted(), 10);
    assert_eq!(solution.stop, StopReason::ToleranceMissed);
    let equal_steps = solve(&awakening, &fixed(RungeKutta::Dopri5, 1.0, 10), &START).unwrap();
    assert_close(equal_steps.state[0], solution.state[0], "ten equal steps");
}

/// The first step (0 to 0.6) sees nothing and is clipped at (0.6, 0.4); then every step is rejected.
#[test]
fn rejections_after_clipping_are_tolerated_up_to_the_limit() {
    let rough = |t: f64, _: &[f64]| vec![if t > 0.6 { 1e3 * (900.0 * t).sin() } else { 0.0 }];
    for tolerated in 0..=4_u32 {
        let mut settings = settings(2, 1e-3, 0.6, 1e-6);
        settings.rejections_after_clipping = tolerated;
        let solution = solve(&rough, &controlled(RungeKutta::Dopri5, 1.0, settings), &[0.0]).unwrap();
        let trajectory = steps_and_actions(&solution);
        // Increasing or keeping 0.6 both lead to the clipped step: logged as keeping.
        assert_eq!(trajectory[0], (0.6, Action::Keep));
        assert_eq!(solution.trajectory[0].error, 0.0);
        let mut step = 1.0 - 0.6;
        for (index, (tried, action)) in trajectory[1..=tolerated as usize + 1].iter().enumerate() {
            assert_eq!(*action, Action::Reject, "{index} of {tolerated}");
            assert_close(*tried, step, "halved");
            step /= 2.0;
        }
        assert_eq!(solution.rejected() as u32, tolerated + 1);
        assert_eq!(solution.accepted(), 1 + (1 << tolerated), "equal parts of the last interval");
        assert_eq!(solution.stop, StopReason::ToleranceMissed);
    }
}

/// Growing amplitudes after 0.6: some are rejected once after clipping and then pass.
#[test]
fn a_tolerated_rejection_that_helps_is_no_miss() {
    let mut seen = false;
    for exponent in -40..40 {
        let amplitude = 1.2_f64.powi(exponent);
        let wave = |t: f64, _: &[f64]| vec![if t > 0.6 { amplitude * (9.0 * t).sin() } else { 0.0 }];
        let spec = controlled(RungeKutta::Dopri5, 1.0, settings(2, 1e-3, 0.6, 1e-6));
        let solution = solve(&wave, &spec, &[0.0]).unwrap();
        match solution.rejected() {
            0 => assert_eq!(solution.stop, StopReason::Finished),
            1 => {
                seen = true;
                assert_eq!(solution.stop, StopReason::Finished);
                assert_eq!(solution.accepted(), 3, "0.6, then two halves of the rest");
            }
            _ => assert_eq!(solution.stop, StopReason::ToleranceMissed),
        }
    }
    assert!(seen);
}

/// Stages are reused after a rejection, and after an accepted step of a first-same-as-last method.
#[test]
fn evaluations_are_what_the_system_saw() {
    for method in ALL {
        let tableau = Tableau::of(method);
        let mut specs = vec![fixed(method, 1.0, 7)];
        if tableau.estimates_error() {
            specs.push(controlled(method, 1.0, settings(2, 1e-4, 0.3, 1e-4)));
            specs.push(controlled(method, 1.0, settings(3, 1e-12, 0.3, 0.02)));
            specs.push(adaptive(method, 1.0, 1e-4, 0.3));
        }
        for spec in specs {
            let calls = Cell::new(0);
            let counted = |t: f64, z: &[f64]| {
                calls.set(calls.get() + 1);
                awakening(t, z)
            };
            let solution = solve(&counted, &spec, &START).unwrap();
            let tried = solution.trajectory.len();
            let reused = if matches!(method, RungeKutta::Bosh3 | RungeKutta::Dopri5) {
                tried - 1
            } else {
                solution.rejected()
            };
            assert_eq!(solution.evaluations, calls.get(), "{spec:?}");
            assert_eq!(calls.get(), tried * tableau.len() - reused, "{spec:?}");
            if !matches!(spec.controller, ControllerSpec::Fixed { .. }) {
                assert!(solution.rejected() > 0, "{spec:?}");
            }
        }
    }
}

/// Reuse must not change the result: the same steps taken afresh, one solve each.
#[test]
fn reused_stages_change_nothing() {
    for method in estimating() {
        let spec = controlled(method, 1.0, settings(2, 1e-4, 0.3, 1e-4));
        let solution = solve(&awakening, &spec, &START).unwrap();
        let mut state = START.to_vec();
        for visit in solution.trajectory.iter().filter(|visit| visit.action != Action::Reject) {
            let tableau = Tableau::of(method);
            let afresh =
                gains_ode::system::trial_step(&awakening, tableau, visit.time, visit.step, &state, None);
            state = afresh.state;
        }
        for (a, b) in state.iter().zip(&solution.state) {
            assert!((a - b).abs() < 1e-13, "{method:?}: {a} {b}");
        }
    }
}

fn every_controller(end: f64) -> [SolverSpec; 3] {
    [
        fixed(RungeKutta::Rk4, end, 50),
        controlled(RungeKutta::Dopri5, end, settings(2, 1e-6, 0.1, 1e-5)),
        adaptive(RungeKutta::Dopri5, end, 1e-6, 0.1),
    ]
}

#[test]
fn what_is_not_finite_is_an_error() {
    let not_a_number = |t: f64, _: &[f64]| vec![if t > 0.5 { f64::NAN } else { 1.0 }];
    let at_once = |_: f64, _: &[f64]| vec![f64::INFINITY];
    let overflow = |_: f64, z: &[f64]| vec![z[0] * 1e200];
    for spec in every_controller(1.0) {
        let outcome = solve(&not_a_number, &spec, &[0.0]).err();
        let Some(SolveError::NotFinite { time }) = outcome else { panic!("{outcome:?} {spec:?}") };
        assert!((0.49..=0.7).contains(&time), "{time} {spec:?}");
        assert!(matches!(solve(&at_once, &spec, &[0.0]), Err(SolveError::NotFinite { .. })), "{spec:?}");
        assert!(solve(&overflow, &spec, &[1.0]).is_err(), "{spec:?}");
    }
}

/// z' = z² reaches infinity at time 1.
#[test]
fn a_solution_that_explodes_is_an_error() {
    let square = |_: f64, z: &[f64]| vec![z[0] * z[0]];
    for spec in every_controller(2.0) {
        let outcome = solve(&square, &spec, &[1.0]).err();
        assert!(
            matches!(outcome, Some(SolveError::NotFinite { .. } | SolveError::StepTooSmall { .. })),
            "{outcome:?} {spec:?}"
        );
    }
}

/// z' = −z³ is harmless, but the stages of a first step of 0.5 from 100 overflow: δ = ∞ is above 1, so the
/// step is repeated with a smaller one like any other whose error is too large.
#[test]
fn a_trial_step_that_overflows_is_rejected() {
    let cubic = |_: f64, z: &[f64]| vec![-z[0] * z[0] * z[0]];
    for spec in [
        controlled(RungeKutta::Dopri5, 1.0, settings(2, 1e-6, 0.5, 1e-7)),
        adaptive(RungeKutta::Dopri5, 1.0, 1e-6, 0.5),
    ] {
        let solution = solve(&cubic, &spec, &[100.0]).unwrap();
        assert!(solution.trajectory[0].error == f64::INFINITY, "{spec:?}");
        assert!(solution.trajectory.iter().all(|v| v.error.is_finite() || v.action == Action::Reject));
        assert_eq!(solution.stop, StopReason::Finished);
        let exact = 1.0 / (2.0_f64 + 1e-4).sqrt();
        assert!((solution.state[0] - exact).abs() < 1e-5, "{} {exact}", solution.state[0]);
    }
}

#[test]
fn endless_solves_give_up() {
    // As rough at every scale as a float allows.
    let noise = |t: f64, _: &[f64]| vec![(t * 1e17).sin() * 1e12];
    let hopeless = solve(&noise, &adaptive(RungeKutta::Dopri5, 1.0, 1e-12, 0.1), &[0.0]).err();
    assert!(matches!(hopeless, Some(SolveError::StepTooSmall { end: 1.0, .. })), "{hopeless:?}");
    let spec = controlled(RungeKutta::Heun, 1.0, settings(2, 1e-12, 0.1, 1e-8));
    let hopeless = solve(&noise, &spec, &[0.0]).err();
    let Some(SolveError::TooManySteps { steps, rejected, time, end, step }) = hopeless else {
        panic!("{hopeless:?}")
    };
    assert_eq!((steps, end), (1_000_000, 1.0));
    assert!(rejected > 0 && time < end && step < 2e-8, "{rejected} {time} {step}");
}

#[test]
fn methods_without_an_estimate_take_fixed_steps_only() {
    for method in [RungeKutta::Euler, RungeKutta::Midpoint, RungeKutta::Rk4, RungeKutta::Rk38] {
        let chosen = [
            controlled(RungeKutta::Dopri5, 1.0, settings(2, 1e-3, 0.1, 0.01)),
            adaptive(RungeKutta::Dopri5, 1.0, 1e-3, 0.1),
        ];
        for spec in chosen.map(|spec| SolverSpec { method, ..spec }) {
            assert!(spec.problem().is_some_and(|problem| problem.contains("estimates no error")));
            let outcome = solve(&awakening, &spec, &START).err();
            assert_eq!(outcome, Some(SolveError::NoErrorEstimate { method: Tableau::of(method).name }));
        }
    }
}

/// Time is measured in units of the end time: a short solve is as complete as a long one.
#[test]
fn short_solves_are_complete() {
    for end in [1e-12, 1e-9, 1e-8, 1e-6, 1e-3, 1.0, 1e3] {
        let growth = move |_: f64, z: &[f64]| vec![z[0] / end];
        let first = 0.13 * end;
        for spec in [
            fixed(RungeKutta::Rk4, end, 1000),
            controlled(RungeKutta::Dopri5, end, settings(2, 1e-8, first, 1e-5 * end)),
            adaptive(RungeKutta::Dopri5, end, 1e-8, first),
        ] {
            let solution = solve(&growth, &spec, &[1.0]).unwrap();
            let error = (solution.state[0] - std::f64::consts::E).abs();
            assert!(error < 1e-6, "end {end:e}: {error:e} {spec:?}");
            if let ControllerSpec::Fixed { steps } = spec.controller {
                assert_eq!(solution.accepted(), steps as usize, "end {end:e}");
            }
        }
    }
}

#[test]
fn states_at_several_times_are_those_of_separate_solves() {
    for spec in every_controller(9.0) {
        let until = |end_time| SolverSpec { end_time, ..spec.clone() };
        let times = [0.0, 0.0, 0.3, 0.3, 0.9, 1.7, 1.7];
        let states = solve_at(&awakening, &spec, &START, &times).unwrap();
        assert_eq!(states.len(), times.len());
        assert_eq!(states[0], START);
        assert_eq!(states[1], START);
        assert_eq!(states[2], solve(&awakening, &until(0.3), &START).unwrap().state);
        assert_eq!(states[3], states[2]);
        let later = |by: f64| move |t: f64, z: &[f64]| awakening(t + by, z);
        assert_eq!(states[4], solve(&later(0.3), &until(0.9 - 0.3), &states[3]).unwrap().state);
        assert_eq!(states[5], solve(&later(0.9), &until(1.7 - 0.9), &states[4]).unwrap().state);
        assert_eq!(states[6], states[5]);
        // The first times do not depend on later ones; the last agrees with one solve to the tolerance.
        assert_eq!(solve_at(&awakening, &spec, &START, &times[..5]).unwrap(), states[..5]);
        let direct = solve(&awakening, &until(1.7), &START).unwrap().state;
        for (a, b) in direct.iter().zip(&states[6]) {
            assert!((a - b).abs() < 1e-3, "{a} {b} {spec:?}");
        }
    }
}

#[test]
fn requested_times_must_increase() {
    for spec in every_controller(9.0) {
        let ask = |times: &[f64]| solve_at(&awakening, &spec, &START, times);
        assert_eq!(ask(&[]).unwrap(), Vec::<Vec<f64>>::new());
        assert_eq!(ask(&[0.5, 0.4]), Err(SolveError::TimesOutOfOrder { time: 0.4, previous: 0.5 }));
        assert_eq!(ask(&[-0.1]), Err(SolveError::TimesOutOfOrder { time: -0.1, previous: 0.0 }));
        assert_eq!(
            ask(&[f64::INFINITY]),
            Err(SolveError::TimesOutOfOrder { time: f64::INFINITY, previous: 0.0 })
        );
        assert!(matches!(ask(&[f64::NAN]), Err(SolveError::TimesOutOfOrder { .. })));
    }
}
