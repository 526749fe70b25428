//! Sampling trajectories from the trajectory graph of a box (paper, appendix "Provable NODE Training").
//!
//! A box does not say what the step-size controller does; the trajectory splits. Training follows up to κ trajectories
//! of the graph: at a split one action is drawn ([`probabilities`]), the others become checkpoints from which later
//! trajectories set out. Trajectories share the steps before they part.
//!
//! Where the paper leaves room this does what the authors' program does, with one exception: that program does not
//! count rejections after clipping, while [`gains_ode::Timeline`] does, as in inference and verification.

use gains_core::Interval;
use gains_ode::grid::Attempt;
use gains_ode::{Action, ActionSet, Moment};

use crate::solve::{Failure, Stepping, Steps, Visit};

#[cfg(test)]
mod tests;

/// No checkpoint is added while more than this many are pending.
const MOST_PENDING: usize = 45;
/// No checkpoint is added on a path that has split this often.
const MOST_BRANCHINGS: usize = 6;

/// What is sampled.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// κ: how many trajectories at most.
    pub trajectories: usize,
    /// q₁ = q₂.
    pub q: f64,
    /// Whether the first trajectory does what the reference does, wherever it can.
    pub include_reference: bool,
}

/// Sampled trajectories.
#[derive(Clone, Debug)]
pub struct Exploration<S> {
    /// Where they end.
    pub ends: Vec<S>,
    /// Their location indices.
    pub locations: Vec<i64>,
    /// Steps at which more than one action was possible.
    pub splits: usize,
    /// Trial steps.
    pub steps: usize,
}

/// A trajectory up to somewhere: one being followed, or a checkpoint.
#[derive(Clone, Copy, Debug)]
struct Path<S> {
    state: S,
    moment: Moment,
    /// Σ over the actions taken of how much bolder they were than the reference's.
    location: i64,
    actions: usize,
    branchings: usize,
}

/// Samples trajectories from `start`. `reference` is what the solver did with the points the box is around.
pub fn explore<S: Steps>(
    steps: &mut S,
    stepping: &Stepping,
    start: S::State,
    reference: &[Visit],
    rules: &Rules,
    random: &mut fastrand::Rng,
) -> Result<Exploration<S::State>, Failure> {
    let grid = stepping.grid()?;
    let mut found = Exploration { ends: Vec::new(), locations: Vec::new(), splits: 0, steps: 0 };
    let mut pending: Vec<Path<S::State>> = Vec::new();
    let mut path =
        Path { state: start, moment: Moment::At(grid.line.start()), location: 0, actions: 0, branchings: 0 };
    loop {
        while let Moment::At(place) = path.moment {
            let Attempt { time, step, judged, .. } = grid.attempt(&place);
            let (trial, sums) = steps.attempt(path.state, time, step, judged)?;
            found.steps += 1;
            if judged && (sums.lower.is_nan() || sums.upper.is_nan()) {
                return Err(Failure::Diverged(format!("the error of a box step at time {time} is NaN")));
            }
            let error = Interval::new(sums.lower * stepping.scale, sums.upper * stepping.scale);
            let branches = grid.branches(&place, grid.decide(&place, error));
            let possible: ActionSet = branches.map(|(action, _)| action).collect();
            let wanted = nearest(reference, time, step);
            let chosen = if rules.include_reference && found.ends.is_empty() && possible.contains(wanted) {
                wanted
            } else {
                draw(possible, &probabilities(path.location, wanted, rules.q), random)
            };
            let split = possible.iter().count() > 1;
            found.splits += usize::from(split);
            // Nothing will set out from the checkpoints of the last trajectory.
            let last = found.ends.len() + 1 >= rules.trajectories;
            let branches = split && !last && path.branchings < MOST_BRANCHINGS;
            let accepts = |action: Action| action != Action::Reject;
            let accepts = accepts(chosen) || (branches && possible.iter().any(accepts));
            let end = accepts.then(|| steps.accept(path.state, trial));
            let follow = |action: Action| Path {
                state: end.filter(|_| action != Action::Reject).unwrap_or(path.state),
                moment: grid.line.follow(&place, action),
                location: path.location + i64::from(action.code()) - i64::from(wanted.code()),
                actions: path.actions + 1,
                branchings: path.branchings + usize::from(split),
            };
            if branches {
                for action in possible.iter().filter(|action| *action != chosen) {
                    if pending.len() <= MOST_PENDING {
                        pending.push(follow(action));
                    }
                }
            }
            path = follow(chosen);
        }
        found.ends.push(path.state);
        found.locations.push(path.location);
        let finished = found.ends.len() >= rules.trajectories;
        match select(&pending, &found.locations) {
            Some(index) if !finished => path = pending.remove(index),
            _ => return Ok(found),
        }
    }
}

/// What the reference did at the place nearest in `|Δt| + |Δh|`; keep, should there be no reference.
fn nearest(reference: &[Visit], time: f64, step: f64) -> Action {
    let distance = |visit: &Visit| (visit.time - time).abs() + (visit.step - step).abs();
    reference
        .iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))
        .map_or(Action::Keep, |visit| visit.action)
}

/// The table of the paper with `q₁ = q₂ = q`: how likely each action is, in the order of [`Action::ALL`], at a location
/// index, for a reference action.
pub fn probabilities(location: i64, reference: Action, q: f64) -> [f64; 3] {
    let toward = 1.0 - 2.0 * q;
    match (location.signum(), reference) {
        (0, Action::Keep) => [q, toward, q],
        (0, Action::Reject) | (1, _) => [toward, q, q],
        _ => [q, q, toward],
    }
}

/// Draws among the possible actions. Should all of them have probability 0, each is as likely as the others.
fn draw(possible: ActionSet, table: &[f64; 3], random: &mut fastrand::Rng) -> Action {
    let of = |action: Action| table[usize::from(action.code())].max(0.0);
    let total: f64 = possible.iter().map(of).sum();
    let count = possible.iter().count() as f64;
    let weight = |action: Action| if total > 0.0 { of(action) / total } else { 1.0 / count };
    let mut left = random.f64();
    let mut last = Action::Keep;
    for action in possible.iter().filter(|action| weight(*action) > 0.0) {
        last = action;
        left -= weight(action);
        if left < 0.0 {
            break;
        }
    }
    last
}

/// The checkpoint to go on from: `argmax ½ |n(C) − n̄| − |C| − σ(C)`, n̄ the mean location of finished trajectories. Both
/// the location and the length count the action that leads out of the split.
fn select<S>(pending: &[Path<S>], finished: &[i64]) -> Option<usize> {
    let mean = finished.iter().sum::<i64>() as f64 / finished.len().max(1) as f64;
    let merit = |path: &Path<S>| {
        (path.location as f64 - mean).abs() / 2.0 - path.actions as f64 - path.branchings as f64
    };
    let mut best = None;
    for (index, path) in pending.iter().enumerate() {
        if best.is_none_or(|(_, most)| merit(path) > most) {
            best = Some((index, merit(path)));
        }
    }
    best.map(|(index, _)| index)
}
