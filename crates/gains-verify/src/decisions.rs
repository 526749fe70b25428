//! Attacks on the decisions of the step-size controller: inputs of a region for which the solver takes other steps
//! (paper, section "Trajectory Sensitivity" and its appendix).
//!
//! The loss is the error estimate δ of the first or of the second trial step, pushed towards the nearer of the
//! thresholds `α⁻ᵖ` and 1; which of the two is followed in an iteration is the *schedule*.

use gains_core::{Circuit, Ode, Precision};
use gains_ode::system::{NeuralDynamics, StageTape, pull_back_error, pull_back_step, trial_step};
use gains_ode::{Action, Attempt, Grid, Inference, System, Tableau};

use crate::limits::Clock;
use crate::problem::{Point, Problem};

/// Which error estimate an iteration follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// The first.
    First,
    /// Both.
    Both,
    /// The second in every `m`-th iteration, else the first.
    Alternating(usize),
}

impl Schedule {
    /// The paper's seven, in the order in which its authors try them.
    pub const ALL: [Self; 7] = [
        Self::Alternating(5),
        Self::Alternating(4),
        Self::Alternating(3),
        Self::Alternating(2),
        Self::Alternating(1),
        Self::Both,
        Self::First,
    ];

    /// The shares of the two estimates in an iteration.
    fn shares(self, iteration: usize) -> (bool, bool) {
        match self {
            Self::First => (true, false),
            Self::Both => (true, true),
            Self::Alternating(m) if iteration.is_multiple_of(m.max(1)) => (false, true),
            Self::Alternating(_) => (true, false),
        }
    }
}

/// An attack on decisions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecisionAttack {
    /// Gradient steps of each schedule.
    pub steps: usize,
    /// Size of one step.
    pub step_size: f64,
    /// Seed of the random starts.
    pub seed: u64,
    /// When it has found enough.
    pub until: Until,
}

/// When an attack on decisions has found enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Any iterate takes other steps.
    Anywhere,
    /// What a schedule ends with takes other steps, which is all that the authors' program looks at.
    AtEnd,
}

/// The first two trial steps from a state: their errors δ and the gradients of both with respect to the state.
struct Estimates {
    errors: [f64; 2],
    gradients: [Vec<f64>; 2],
}

/// What an attack on decisions found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Detours {
    /// At the first iterate that takes other steps.
    pub anywhere: Option<Detour>,
    /// At the end of a schedule: its last iterate, or the one with the most extreme first error estimate.
    pub at_end: Option<Detour>,
}

/// An input that makes a detour.
#[derive(Clone, Debug, PartialEq)]
pub struct Detour {
    /// An input of the region for which the solver takes other steps.
    pub point: Point,
    /// The schedule that found it.
    pub schedule: Schedule,
}

/// Attacks the step sizes of the first ODE block of a problem.
pub struct Decisions<'a> {
    problem: &'a Problem<'a>,
    front: Circuit,
    ode: &'a Ode,
    grid: Grid,
    precision: Precision,
    clock: Clock<'a>,
}

impl<'a> Decisions<'a> {
    /// Nothing if there is no ODE block, or its step sizes are not decided on a grid, or it is not the inputs alone
    /// that it starts from.
    pub fn new(problem: &'a Problem<'a>, precision: Precision, clock: Clock<'a>) -> Option<Self> {
        let (value, ode) = problem.program.odes().next()?;
        let start = *problem.program.node(value)?.from.first()?;
        let front = problem.program.front(start)?;
        let grid = Grid::new(&ode.solver()).ok()?;
        grid.increase_below?;
        Some(Self { problem, front, ode, grid, precision, clock })
    }

    /// The actions the controller takes at a point.
    fn actions(&self, point: &Point) -> Option<Vec<Action>> {
        let inputs: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
        let watch = self.clock.watch();
        let run = Inference::run_within(self.problem.program, &inputs, self.precision, &watch).ok()?;
        let solution = run.solutions().next()?;
        Some(solution.trajectory.iter().map(|visit| visit.action).collect())
    }

    /// Looks for inputs for which the solver takes other steps than at the problem's nominal point. Nothing is found
    /// where the budget ends, or the nominal point cannot be solved.
    pub fn attack(&self, attack: &DecisionAttack) -> Detours {
        let mut found = Detours::default();
        let Some(usual) = self.actions(&self.problem.nominal) else { return found };
        let mut random = fastrand::Rng::with_seed(attack.seed ^ 0xD1B5_4A32_D192_ED03);
        for schedule in Schedule::ALL {
            self.follow(schedule, attack, &usual, &mut random, &mut found);
            let enough = match attack.until {
                Until::Anywhere => found.anywhere.is_some(),
                Until::AtEnd => found.at_end.is_some(),
            };
            if enough || self.clock.check(0).is_err() {
                break;
            }
        }
        found
    }

    /// One schedule from a random start.
    fn follow(
        &self,
        schedule: Schedule,
        attack: &DecisionAttack,
        usual: &[Action],
        random: &mut fastrand::Rng,
        found: &mut Detours,
    ) {
        let region = &self.problem.region;
        let differs = |point: &Point| {
            region.contains(point) && self.actions(point).is_some_and(|actions| actions != usual)
        };
        let inner = region.inner.iter();
        let mut point: Point = inner
            .map(|b| b.lower.iter().zip(&b.upper).map(|(l, u)| l + random.f64() * (u - l)).collect())
            .collect();
        let mut towards = None;
        let mut extreme: Option<(f64, Point)> = None;
        for iteration in 0..=attack.steps {
            region.settle(&mut point, self.precision);
            if self.clock.check(0).is_err() {
                return;
            }
            if found.anywhere.is_none() && differs(&point) {
                found.anywhere = Some(Detour { point: point.clone(), schedule });
                if attack.until == Until::Anywhere {
                    return;
                }
            }
            if iteration == attack.steps {
                break;
            }
            let here = point.clone();
            let Some(error) = self.climb(&mut point, schedule.shares(iteration), attack.step_size) else {
                continue;
            };
            let reached = *towards.get_or_insert_with(|| self.direction(error)) * error;
            if extreme.as_ref().is_none_or(|(farthest, _)| reached > *farthest) {
                extreme = Some((reached, here));
            }
        }
        let ends = [Some(point), extreme.map(|(_, point)| point)];
        let end = ends.into_iter().flatten().find(|point| differs(point));
        found.at_end = end.map(|point| Detour { point, schedule });
    }

    /// One signed gradient step. The first error estimate where it starts; nothing, and no step, if numbers overflow
    /// there.
    fn climb(&self, point: &mut Point, (first, second): (bool, bool), step_size: f64) -> Option<f64> {
        let inputs: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
        let before = self.front.evaluate(&inputs, 0.0, self.precision);
        let estimates = self.estimates(&before.values[self.front.output()])?;
        let entries = estimates.gradients[0].len();
        let mut uphill = vec![0.0; entries];
        for (followed, which) in [(first, 0), (second, 1)] {
            if followed {
                let towards = self.direction(estimates.errors[which]);
                uphill.iter_mut().zip(&estimates.gradients[which]).for_each(|(u, g)| *u += towards * g);
            }
        }
        let gradients = self.front.gradient(&before, &uphill);
        for (x, g) in point.iter_mut().zip(&gradients).flat_map(|(x, g)| x.iter_mut().zip(g)) {
            *x += if *g == 0.0 || g.is_nan() { 0.0 } else { step_size * g.signum() };
        }
        Some(estimates.errors[0])
    }

    /// Up if that is where the nearer threshold is, else down.
    fn direction(&self, error: f64) -> f64 {
        let threshold = self.grid.increase_below.unwrap_or(0.0);
        let up = error <= threshold || (0.5 * (threshold + 1.0)..=1.0).contains(&error);
        if up { 1.0 } else { -1.0 }
    }

    /// Nothing if the numbers overflow.
    fn estimates(&self, state: &[f64]) -> Option<Estimates> {
        let tableau = Tableau::of(self.ode.block.solver.method);
        let system = NeuralDynamics { circuit: &self.ode.block.dynamics, precision: self.precision };
        let mut walk = self.grid.walk();
        let first = walk.attempt()?;
        let trial = trial_step(&system, tableau, first.time, first.step, state, None);
        let scale = |gradient: Vec<f64>| -> Vec<f64> {
            gradient.into_iter().map(|g| g / self.grid.tolerance).collect()
        };
        let error = trial.error / self.grid.tolerance;
        let gradient = scale(pull_back_error(&system, tableau, first.step, &trial.stages));
        let accepted = walk.advance(&first, error) != Action::Reject;
        let (second_error, second_gradient) = match walk.attempt() {
            None => (error, gradient.clone()),
            Some(second) => {
                let from = if accepted { &trial.state[..] } else { state };
                let next = trial_step(&system, tableau, second.time, second.step, from, None);
                let late = scale(pull_back_error(&system, tableau, second.step, &next.stages));
                let early = through(&system, tableau, accepted.then_some((&first, &trial.stages)), late);
                (next.error / self.grid.tolerance, early)
            }
        };
        let finite = error.is_finite() && second_error.is_finite();
        finite.then_some(Estimates { errors: [error, second_error], gradients: [gradient, second_gradient] })
    }
}

/// A gradient at the end of a step that was taken, back at its start.
fn through<S: System>(
    system: &S,
    tableau: &Tableau,
    taken: Option<(&Attempt, &Vec<StageTape<S::Tape>>)>,
    gradient: Vec<f64>,
) -> Vec<f64> {
    match taken {
        Some((attempt, stages)) => pull_back_step(system, tableau, attempt.step, stages, &gradient),
        None => gradient,
    }
}

#[cfg(test)]
mod tests {
    use gains_core::{Interval, Shape};
    use gains_testkit::{Model, controlled, linear};

    use super::*;
    use crate::limits::Budget;

    /// `z' = −5 z`: the error estimate is proportional to the input.
    fn decay() -> Model {
        let mut tensors = Default::default();
        let dynamics = vec![linear(&mut tensors, "f", &[&[-5.0, 0.0], &[0.0, -5.0]], &[0.0, 0.0], false)];
        let solver = controlled(gains_core::description::RungeKutta::Dopri5, 2, 1e-3, 0.2, 1);
        let layers = vec![gains_core::description::LayerSpec::Ode { dynamics, solver }];
        Model::new(Shape::flat(2), layers, tensors, 2)
    }

    fn is_changed(centre: f64, radius: f64) -> bool {
        let network = decay().network();
        let problem =
            Problem::classification(&network, &[centre, centre], 0, radius, Interval::new(-10.0, 10.0));
        let clock = Clock::start(Budget::default());
        let decisions = Decisions::new(&problem, Precision::Float64, clock).unwrap();
        let of = |until| {
            let attack = DecisionAttack { steps: 40, step_size: radius / 10.0, seed: 1, until };
            decisions.attack(&attack)
        };
        let (anywhere, at_end) = (of(Until::Anywhere), of(Until::AtEnd));
        let all = [&anywhere.anywhere, &anywhere.at_end, &at_end.anywhere, &at_end.at_end];
        for detour in all.into_iter().flatten() {
            assert!(problem.region.contains(&detour.point));
            assert_ne!(decisions.actions(&detour.point), decisions.actions(&problem.nominal));
        }
        assert_eq!(anywhere.anywhere, at_end.anywhere, "both take the same way");
        // The extreme iterate is one of all iterates.
        assert!(at_end.at_end.is_none() || at_end.anywhere.is_some());
        anywhere.anywhere.is_some()
    }

    #[test]
    fn decisions_change_where_the_error_can_cross_a_threshold_and_nowhere_else() {
        assert!(is_changed(0.5, 0.45), "the error estimate is proportional to the state");
        assert!(!is_changed(0.5, 1e-9));
    }

    #[test]
    fn a_network_without_decisions_has_none_to_attack() {
        let mut model = decay();
        let gains_core::description::LayerSpec::Ode { solver, .. } = &mut model.description.layers[0] else {
            panic!("the only layer is an ODE")
        };
        solver.controller = gains_core::description::ControllerSpec::Fixed { steps: 3 };
        let network = model.network();
        let problem = Problem::classification(&network, &[0.5, 0.5], 0, 0.1, Interval::new(0.0, 1.0));
        assert!(Decisions::new(&problem, Precision::Float64, Clock::start(Budget::default())).is_none());
    }
}
