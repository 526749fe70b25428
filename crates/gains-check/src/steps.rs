//! One step of a Runge-Kutta method on boxes, each stage on its own or as the one before plus a change.

use crate::automaton::Place;
use crate::fault::{Deadline, Fault};
use crate::interval::Interval;
use crate::network::Ode;
use crate::rules::{Region, change, each, image, meet};
use crate::value::bad;

/// How stages are enclosed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// Each on its own.
    Independent,
    /// As the one before plus a change, too.
    Difference,
}

/// One evaluation of the dynamics.
#[derive(Debug)]
pub struct Stage {
    /// Its time.
    pub time: Interval,
    /// Boxes of all values of the dynamics.
    pub values: Vec<Region>,
    /// Boxes of their changes since the stage before; none in the first stage or without difference form.
    pub changes: Vec<Region>,
}

/// A step, enclosed.
#[derive(Debug)]
pub struct Step {
    /// The step size.
    pub size: Interval,
    /// The stages that were needed.
    pub stages: Vec<Stage>,
    /// The states after it.
    pub result: Region,
    /// δ, if it was asked for.
    pub error: Option<Interval>,
}

impl Step {
    /// How many intervals it holds.
    pub fn intervals(&self) -> usize {
        let boxes = self.stages.iter().flat_map(|stage| stage.values.iter().chain(&stage.changes));
        boxes.map(Vec::len).sum::<usize>() + self.result.len()
    }
}

/// Most intervals that are kept at a time: 400 MB.
pub const MAX_INTERVALS: usize = 25_000_000;

/// Takes the step from a place and a box of states. Of the first stage `carried` may tell more; the last one is to hold for the
/// times of what follows, too.
pub fn step(
    ode: &Ode,
    form: Form,
    (place, state): (Place, &Region),
    carried: Option<&[Region]>,
    followers: Option<Interval>,
    deadline: Deadline,
) -> Result<Step, Fault> {
    let tableau = &ode.solver.tableau;
    let (start, size) = ode.solver.clock(place)?;
    let tolerance = ode.solver.looks_at_errors(place);
    let count = tableau.stages_for(tolerance.is_some());
    let entries: usize = ode.dynamics.nodes.iter().map(|node| node.shape.count()).sum();
    let kinds = if form == Form::Difference { 2 } else { 1 };
    if entries.saturating_mul(count * kinds) > MAX_INTERVALS {
        return Err(bad("a step takes more memory than this checker takes"));
    }
    let mut stages: Vec<Stage> = Vec::new();
    for i in 0..count {
        let mut time = start + tableau.times[i] * size;
        if let Some(followers) = followers.filter(|_| i + 1 == tableau.count()) {
            time = time.hull(followers);
        }
        let weights = |of: &dyn Fn(usize) -> Interval| (0..i).map(|j| size * of(j)).collect::<Vec<_>>();
        let inputs = sum(ode, &weights(&|j| tableau.stage(i, j)), &stages, false, state.len())?;
        let input = each(state, &inputs, |x, change| x + change);
        let change = match form {
            Form::Difference if i > 0 => {
                let weights = weights(&|j| tableau.stage(i, j) - tableau.stage(i - 1, j));
                Some(sum(ode, &weights, &stages, true, state.len())?)
            }
            _ => None,
        };
        let before = stages.last().zip(change);
        stages.push(evaluate(ode, time, input, before, carried.filter(|_| i == 0), deadline)?);
    }
    let total = |weights: &[Interval]| {
        let weights: Vec<Interval> = weights.iter().take(count).map(|&weight| size * weight).collect();
        sum(ode, &weights, &stages, form == Form::Difference, state.len())
    };
    let result = each(state, &total(&tableau.result)?, |x, change| x + change);
    let error = match tolerance {
        None => None,
        Some(tolerance) => {
            let errors = total(&tableau.errors)?;
            let total = errors.iter().fold(Interval::ZERO, |sum, error| sum + error.abs());
            Some(total / Interval::point(tolerance))
        }
    };
    Ok(Step { size, stages, result, error })
}

/// All values by intervals and, given the stage before and the change of the input since then, as those plus their changes.
fn evaluate(
    ode: &Ode,
    time: Interval,
    input: Region,
    before: Option<(&Stage, Region)>,
    carried: Option<&[Region]>,
    deadline: Deadline,
) -> Result<Stage, Fault> {
    let network = &ode.dynamics;
    let (mut values, mut changes): (Vec<Region>, Vec<Region>) = (vec![], vec![]);
    let (before, moved) = before.unzip();
    for index in 0..network.nodes.len() {
        let mut value =
            if index == 0 { input.clone() } else { image(network, index, &values, time, deadline) };
        if let Some(carried) = carried.filter(|_| index > 0) {
            value = meet(&value, &carried[index])?;
        }
        if let (Some(before), Some(moved)) = (before, &moved) {
            let both = (&before.values[..], &values[..]);
            let mut change = match index {
                0 => moved.clone(),
                _ => change(network, index, both, &changes, time - before.time, deadline),
            };
            value = meet(&value, &each(&before.values[index], &change, |x, d| x + d))?;
            if index > 0 {
                change = meet(&change, &each(&value, &before.values[index], |now, before| now - before))?;
            }
            changes.push(change);
        }
        values.push(value);
    }
    Ok(Stage { time, values, changes })
}

/// Σ cⱼ kⱼ and, where changes are known, the same by parts: (Σ cⱼ) k₁ + Σ over m ≥ 2 of (Σ over j ≥ m of cⱼ) rₘ with
/// rₘ = kₘ − kₘ₋₁.
fn sum(
    ode: &Ode,
    weights: &[Interval],
    stages: &[Stage],
    by_parts: bool,
    length: usize,
) -> Result<Region, Fault> {
    let combine = |weights: &[Interval], term: &dyn Fn(usize) -> Interval| {
        let used = weights.iter().enumerate().filter(|(_, weight)| **weight != Interval::ZERO);
        used.fold(Interval::ZERO, |sum, (j, weight)| sum + *weight * term(j))
    };
    let output = ode.dynamics.output;
    let direct = (0..length).map(|entry| combine(weights, &|j| stages[j].values[output][entry])).collect();
    if !by_parts {
        return Ok(direct);
    }
    let tail = |m: usize| weights[m..].iter().fold(Interval::ZERO, |sum, weight| sum + *weight);
    let tails: Vec<Interval> = (0..weights.len()).map(tail).collect();
    let part = |entry: usize| {
        combine(&tails, &|m| if m == 0 { &stages[0].values } else { &stages[m].changes }[output][entry])
    };
    meet(&direct, &(0..length).map(part).collect::<Region>())
}
