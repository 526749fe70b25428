//! One step of a Runge-Kutta method on boxes, each stage on its own or as the one before plus a change.

use crate::automaton::Solver;
use crate::fault::{Deadline, Fault};
use crate::interval::Interval;
use crate::network::{Network, Ode};
use crate::rules::{self, Region, each, meet};

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

/// What a step starts from.
pub struct Start<'a> {
    /// Boxes of the state.
    pub state: &'a Region,
    /// The time.
    pub time: f64,
    /// The step size.
    pub size: f64,
    /// τ, if δ is wanted.
    pub tolerance: Option<f64>,
    /// Times of what follows: the last stage is to hold for them, too.
    pub followers: Option<Interval>,
    /// What else is known of the values (from the second on) in the first stage.
    pub carried: Option<&'a [Region]>,
    /// When to stop.
    pub deadline: Deadline,
}

/// Takes a step.
pub fn step(ode: &Ode, form: Form, start: &Start) -> Result<Step, Fault> {
    let (tableau, dynamics) = (&ode.solver.tableau, &ode.dynamics);
    let (size, length) = (Interval::point(start.size), start.state.len());
    let count = if start.tolerance.is_some() { tableau.count() } else { tableau.needed() };
    let mut stages: Vec<Stage> = Vec::new();
    for i in 0..count {
        let mut time = Interval::point(start.time) + tableau.times[i] * size;
        if i + 1 == tableau.count() {
            time = start.followers.map_or(time, |times| time.hull(times));
        }
        let weights: Vec<Interval> = (0..i).map(|j| size * tableau.stage(i, j)).collect();
        let input =
            each(start.state, &combine(length, &weights, &slopes(dynamics, &stages)), |x, change| x + change);
        let stage = match form {
            Form::Difference if i > 0 => chained(ode, time, input, &stages, size, start.deadline)?,
            _ => plain(dynamics, time, input, start.carried.filter(|_| i == 0), start.deadline)?,
        };
        stages.push(stage);
    }
    let sum = |weights: &[Interval]| -> Result<Region, Fault> {
        let weights: Vec<Interval> = weights.iter().take(count).map(|&weight| size * weight).collect();
        match form {
            Form::Independent => Ok(combine(length, &weights, &slopes(dynamics, &stages))),
            Form::Difference => both_ways(&weights, dynamics, &stages),
        }
    };
    let result = each(start.state, &sum(&tableau.result)?, |x, change| x + change);
    let error = match start.tolerance {
        None => None,
        Some(tolerance) => {
            let errors = sum(&tableau.errors)?;
            let total = errors.iter().fold(Interval::ZERO, |sum, error| sum + error.abs());
            Some(total / Interval::point(tolerance))
        }
    };
    Ok(Step { size, stages, result, error })
}

/// All values by intervals.
fn plain(
    network: &Network,
    time: Interval,
    input: Region,
    carried: Option<&[Region]>,
    deadline: Deadline,
) -> Result<Stage, Fault> {
    let mut values = vec![input];
    for index in 1..network.nodes.len() {
        let value = rules::image(network, index, &values, time, deadline);
        values.push(match carried {
            Some(carried) => meet(&value, &carried[index])?,
            None => value,
        });
    }
    Ok(Stage { time, values, changes: vec![] })
}

/// All values by intervals, and as those of the stage before plus their changes.
fn chained(
    Ode { dynamics: network, solver: Solver { tableau, .. } }: &Ode,
    time: Interval,
    input: Region,
    stages: &[Stage],
    size: Interval,
    deadline: Deadline,
) -> Result<Stage, Fault> {
    let i = stages.len();
    let before = &stages[i - 1];
    let weights: Vec<Interval> =
        (0..i).map(|j| size * (tableau.stage(i, j) - tableau.stage(i - 1, j))).collect();
    let mut changes = vec![both_ways(&weights, network, stages)?];
    let mut values = vec![meet(&input, &each(&before.values[0], &changes[0], |x, d| x + d))?];
    for index in 1..network.nodes.len() {
        let value = rules::image(network, index, &values, time, deadline);
        let both = (&before.values[..], &values[..]);
        let change = rules::change(network, index, both, &changes, time - before.time, deadline);
        let value = meet(&value, &each(&before.values[index], &change, |x, d| x + d))?;
        changes.push(meet(&change, &each(&value, &before.values[index], |now, before| now - before))?);
        values.push(value);
    }
    Ok(Stage { time, values, changes })
}

fn slopes<'a>(dynamics: &Network, stages: &'a [Stage]) -> Vec<&'a Region> {
    stages.iter().map(|stage| &stage.values[dynamics.output]).collect()
}

/// Σ cⱼ kⱼ.
fn combine(length: usize, weights: &[Interval], terms: &[&Region]) -> Region {
    let used: Vec<_> = weights.iter().zip(terms).filter(|(weight, _)| **weight != Interval::ZERO).collect();
    let sum =
        |entry: usize| used.iter().fold(Interval::ZERO, |sum, (weight, term)| sum + **weight * term[entry]);
    (0..length).map(sum).collect()
}

/// Σ cⱼ kⱼ, and the same by parts: (Σ cⱼ) k₁ + Σ over m ≥ 2 of (Σ over j ≥ m of cⱼ) rₘ with rₘ = kₘ − kₘ₋₁.
fn both_ways(weights: &[Interval], dynamics: &Network, stages: &[Stage]) -> Result<Region, Fault> {
    let length = dynamics.nodes[0].shape.count();
    let direct = combine(length, weights, &slopes(dynamics, stages));
    let tails: Vec<Interval> = (0..weights.len())
        .map(|m| weights[m..].iter().fold(Interval::ZERO, |sum, weight| sum + *weight))
        .collect();
    let first = stages.iter().take(1).map(|stage| &stage.values[dynamics.output]);
    let parts: Vec<&Region> =
        first.chain(stages.iter().skip(1).map(|stage| &stage.changes[dynamics.output])).collect();
    meet(&direct, &combine(length, &tails, &parts))
}
