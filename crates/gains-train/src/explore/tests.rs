use super::*;
use crate::config::SolverConfig;

/// Answers every trial with an interval of δ by time and step; states count the steps taken.
struct Script<F> {
    answer: F,
    tried: Vec<(usize, f64, f64)>,
    accepted: Vec<(usize, f64)>,
}

impl<F: Fn(f64, f64) -> (f64, f64)> Steps for Script<F> {
    type State = usize;
    type Trial = f64;

    fn attempt(&mut self, from: usize, time: f64, step: f64, _: bool) -> Result<(f64, Interval), Failure> {
        self.tried.push((from, time, step));
        let (lower, upper) = (self.answer)(time, step);
        Ok((time + step, Interval { lower, upper }))
    }

    fn accept(&mut self, from: usize, trial: f64) -> usize {
        self.accepted.push((from, trial));
        self.accepted.len()
    }
}

fn script<F: Fn(f64, f64) -> (f64, f64)>(answer: F) -> Script<F> {
    Script { answer, tried: Vec::new(), accepted: Vec::new() }
}

fn stepping(initial_step: f64) -> Stepping {
    let mut stepping = Stepping::adaptive(&SolverConfig::default(), initial_step, 1);
    assert_eq!(stepping.grid().unwrap().increase_below, Some(0.03125));
    stepping.scale = 1.0;
    stepping
}

fn rules(trajectories: usize) -> Rules {
    Rules { trajectories, q: 0.2, include_reference: false }
}

fn run<F: Fn(f64, f64) -> (f64, f64)>(
    script: &mut Script<F>,
    initial_step: f64,
    reference: &[Visit],
    rules: &Rules,
    seed: u64,
) -> Exploration<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    explore(script, &stepping(initial_step), 0, reference, rules, &mut random).unwrap()
}

#[test]
fn without_splits_there_is_one_trajectory() {
    let mut steps = script(|_, _| (0.1, 0.5));
    let found = run(&mut steps, 0.25, &[], &rules(5), 1);
    assert_eq!((found.ends.len(), found.splits, found.steps), (1, 0, 4));
    assert_eq!(steps.tried.last(), Some(&(3, 0.75, 0.25)));
}

#[test]
fn rejected_steps_start_again_from_the_same_state() {
    // Only steps up to 1/8 are good enough.
    let mut steps = script(|_, step| if step > 0.125 { (2.0, 3.0) } else { (0.5, 0.9) });
    let found = run(&mut steps, 0.5, &[], &rules(3), 1);
    assert_eq!(found.ends.len(), 1);
    assert_eq!(steps.tried[..3], [(0, 0.0, 0.5), (0, 0.0, 0.25), (0, 0.0, 0.125)]);
    assert_eq!(steps.accepted.len(), 8);
}

#[test]
fn prefixes_are_shared_and_kappa_is_the_most() {
    // Every step before the middle may be kept or rejected.
    let answer = |time: f64, _: f64| if time < 0.5 { (0.5, 1.5) } else { (0.5, 0.9) };
    for most in 1..12 {
        let mut steps = script(answer);
        let found = run(&mut steps, 0.25, &[], &rules(most), 7);
        assert!(found.ends.len() <= most && (most > 3 || found.ends.len() == most), "{most}");
        assert_eq!(found.locations.len(), found.ends.len());
        // No step is tried twice from the same state.
        let mut seen: Vec<String> = steps.tried.iter().map(|tried| format!("{tried:?}")).collect();
        seen.sort();
        let all = seen.len();
        seen.dedup();
        assert!(all - seen.len() <= found.splits, "settling repeats a step once");
        assert_eq!(found.steps, all);
    }
}

#[test]
fn both_actions_of_a_split_share_their_trial() {
    // The first step may be kept or grow; after that everything is kept.
    let answer = |time: f64, _: f64| if time == 0.0 { (0.01, 0.5) } else { (0.5, 0.9) };
    let mut steps = script(answer);
    let found = run(&mut steps, 0.2, &[], &rules(10), 3);
    assert_eq!((found.ends.len(), found.splits), (2, 1));
    assert_eq!(steps.tried.iter().filter(|(_, time, _)| *time == 0.0).count(), 1);
    assert_eq!(steps.accepted.iter().filter(|(from, _)| *from == 0).count(), 1);
    let steps_from_first: Vec<f64> = steps.tried.iter().filter(|t| t.0 == 1).map(|t| t.2).collect();
    assert_eq!(steps_from_first.len(), 2);
}

#[test]
fn growing_a_clipped_step_is_no_action_of_its_own() {
    let mut steps = script(|_, _| (0.01, 0.5));
    let found = run(&mut steps, 0.6, &[], &rules(10), 3);
    assert_eq!((found.ends.len(), found.splits, found.steps), (1, 0, 2));
}

#[test]
fn the_reference_can_be_included() {
    let reference = [
        Visit { time: 0.0, step: 0.25, action: Action::Reject },
        Visit { time: 0.0, step: 0.125, action: Action::Increase },
        Visit { time: 0.125, step: 0.25, action: Action::Keep },
        Visit { time: 0.375, step: 0.25, action: Action::Keep },
        Visit { time: 0.625, step: 0.25, action: Action::Keep },
        Visit { time: 0.875, step: 0.125, action: Action::Keep },
    ];
    for seed in 0..20 {
        let mut steps = script(|_, _| (0.01, 1.5));
        let fixed = Rules { include_reference: true, ..rules(1) };
        let found = run(&mut steps, 0.25, &reference, &fixed, seed);
        assert_eq!(found.locations, [0], "does what the reference does");
        assert_eq!(steps.tried[1], (0, 0.0, 0.125));
        assert_eq!(steps.tried[2], (1, 0.125, 0.25), "the step that was rejected is not kept");
        assert_eq!(steps.tried.len(), reference.len());
    }
}

#[test]
fn the_same_seed_samples_the_same_trajectories() {
    let sample = |seed| {
        let mut steps = script(|time, step| (0.001 + time * 0.1, 1.5 - step));
        let found = run(&mut steps, 0.2, &[], &rules(4), seed);
        (steps.tried, found.locations)
    };
    assert_eq!(sample(5), sample(5));
    assert!((0..20).any(|seed| sample(seed) != sample(5)));
}

#[test]
fn a_nan_stops_the_exploration() {
    let mut steps = script(|_, _| (f64::NAN, f64::NAN));
    let mut random = fastrand::Rng::with_seed(0);
    let stopped = explore(&mut steps, &stepping(0.2), 0, &[], &rules(1), &mut random);
    assert!(matches!(stopped, Err(Failure::Diverged(_))));
}

#[test]
fn probabilities_are_those_of_the_papers_table() {
    use Action::{Increase, Keep, Reject};
    let close = |found: [f64; 3], wanted: [f64; 3]| {
        assert!(found.iter().zip(wanted).all(|(f, w)| (f - w).abs() < 1e-12), "{found:?} {wanted:?}");
    };
    close(probabilities(0, Keep, 0.2), [0.2, 0.6, 0.2]);
    close(probabilities(0, Reject, 0.2), [0.6, 0.2, 0.2]);
    close(probabilities(0, Increase, 0.2), [0.2, 0.2, 0.6]);
    for reference in Action::ALL {
        close(probabilities(3, reference, 0.1), [0.8, 0.1, 0.1]);
        close(probabilities(-2, reference, 0.1), [0.1, 0.1, 0.8]);
    }
}

#[test]
fn impossible_actions_leave_their_probability_to_the_others() {
    let possible = ActionSet::only(Action::Reject).with(Action::Keep, true);
    let mut random = fastrand::Rng::with_seed(11);
    let draws = 20_000;
    let count = |table: [f64; 3], random: &mut fastrand::Rng| {
        (0..draws).filter(|_| draw(possible, &table, random) == Action::Keep).count() as f64
            / f64::from(draws)
    };
    assert!((count([0.2, 0.6, 0.2], &mut random) - 0.75).abs() < 0.015);
    assert_eq!(count([1.0, 0.0, 0.0], &mut random), 0.0);
    assert!((count([0.0, 0.0, 1.0], &mut random) - 0.5).abs() < 0.02);
}

#[test]
fn the_checkpoint_that_is_early_and_elsewhere_is_next() {
    let path = |location, actions, branchings| Path {
        state: (),
        moment: Moment::End,
        location,
        actions,
        branchings,
    };
    assert_eq!(select::<()>(&[], &[0]), None);
    assert_eq!(select(&[path(0, 3, 1), path(0, 2, 1)], &[0]), Some(1), "shorter");
    assert_eq!(select(&[path(0, 2, 1), path(-3, 2, 1)], &[0]), Some(1), "farther away");
    assert_eq!(select(&[path(2, 2, 1), path(-2, 2, 1)], &[2, 2]), Some(1), "where nothing has been");
    assert_eq!(select(&[path(0, 2, 2), path(0, 2, 1)], &[0]), Some(1), "fewer splits");
    assert_eq!(select(&[path(0, 2, 1), path(0, 2, 1)], &[0]), Some(0), "the first of equals");
}

#[test]
fn the_reference_place_is_the_nearest() {
    let at = |time, step, action| Visit { time, step, action };
    let reference =
        [at(0.0, 0.2, Action::Increase), at(0.2, 0.4, Action::Keep), at(0.6, 0.4, Action::Reject)];
    assert_eq!(nearest(&reference, 0.1, 0.2), Action::Increase);
    assert_eq!(nearest(&reference, 0.1, 0.4), Action::Keep);
    assert_eq!(nearest(&reference, 0.9, 0.1), Action::Reject);
    assert_eq!(nearest(&[], 0.9, 0.1), Action::Keep);
}
