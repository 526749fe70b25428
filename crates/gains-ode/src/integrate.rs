//! Concrete integration with any controller.

use gains_core::Interval;
use gains_core::description::{ControllerSpec, SolverSpec};
use thiserror::Error;

use crate::controller::{self, Action};
use crate::system::{Stage, System, TrialStep, pull_back_step, trial_step};
use crate::tableau::Tableau;
use crate::timeline::{Moment, Place, Timeline, arrival};

/// Why a solve ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StopReason {
    /// The end time was reached within the tolerance.
    Finished,
    /// The end time was reached, but the minimum step or the rejections after clipping ran out on the way,
    /// so the tolerance is not guaranteed.
    ToleranceMissed,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum SolveError {
    /// A state or error estimate is NaN or infinite.
    #[error("the solution is no longer finite at time {time}")]
    NotFinite {
        /// When.
        time: f64,
    },
    /// Too many steps.
    #[error("no end after {steps} steps, at time {time} with step {step:e}")]
    TooManySteps {
        /// How many.
        steps: usize,
        /// Where.
        time: f64,
        /// Current step.
        step: f64,
    },
    /// An adaptive controller needs an error estimate.
    #[error("method {method} has no error estimate, which its controller needs")]
    NoErrorEstimate {
        /// The method.
        method: &'static str,
    },
    /// An input of the wrong size.
    #[error("the input has {found} entries, the network takes {expected}")]
    InputSize {
        /// Entries given.
        found: usize,
        /// Entries expected.
        expected: usize,
    },
    /// Requested times must increase.
    #[error("requested time {time} is not after {previous}")]
    TimesOutOfOrder {
        /// The offender.
        time: f64,
        /// The time before.
        previous: f64,
    },
}

/// One trial step of a trajectory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// Time before the step.
    pub time: f64,
    /// Step size tried.
    pub step: f64,
    /// What the controller decided.
    pub action: Action,
    /// The error estimate δ.
    pub error: f64,
    /// The place in the automaton, for controlled adaptive solves.
    pub place: Option<Place>,
}

/// The result of a solve.
pub struct Solution<T> {
    /// State at the end time.
    pub state: Vec<f64>,
    /// Every trial step.
    pub trajectory: Vec<Visit>,
    /// Accepted steps, for differentiation.
    pub steps: Vec<TrialStep<T>>,
    /// Evaluations of the right-hand side.
    pub evaluations: usize,
    /// Why it ended.
    pub stop: StopReason,
}

impl<T> Solution<T> {
    /// Number of accepted steps.
    pub fn accepted(&self) -> usize {
        self.steps.len()
    }

    /// Number of rejected steps.
    pub fn rejected(&self) -> usize {
        self.trajectory.iter().filter(|visit| visit.action == Action::Reject).count()
    }

    /// The gradient at the initial state of `cotangent · (final state)`, through the accepted steps with
    /// their step sizes held fixed.
    pub fn pull_back<S: System<Tape = T>>(
        &self,
        system: &S,
        tableau: &Tableau,
        cotangent: &[f64],
    ) -> Vec<f64> {
        self.steps.iter().rev().fold(cotangent.to_vec(), |gradient, step| {
            pull_back_step(system, tableau, step.step, &step.stages, &gradient)
        })
    }
}

const MOST_STEPS: usize = 1_000_000;

/// Integrates from time 0 to the end time.
pub fn solve<S: System>(
    system: &S,
    spec: &SolverSpec,
    initial: &[f64],
) -> Result<Solution<S::Tape>, SolveError>
where
    S::Tape: Clone,
{
    let mut run = Run::new(system, Tableau::of(spec.method), initial);
    match &spec.controller {
        ControllerSpec::Fixed { steps } => {
            run.automaton(&Timeline::fixed(*steps, spec.end_time), 1.0, |_| Action::Keep)?;
        }
        ControllerSpec::ControlledAdaptive(c) => {
            let tableau = run.with_error_estimate()?;
            let threshold = f64::from(c.factor).powi(-(tableau.order as i32));
            run.automaton(&Timeline::new(c, spec.end_time), c.tolerance, |error| {
                controller::controlled(Interval::point(error), threshold)
                    .iter()
                    .next()
                    .unwrap_or(Action::Reject)
            })?;
        }
        ControllerSpec::Adaptive { tolerance, initial_step, safety, shrink, grow } => {
            run.with_error_estimate()?;
            let rule = |error: f64, order| controller::adaptive(error, order, *safety, *shrink, *grow);
            run.continuous(spec.end_time, *initial_step, *tolerance, rule)?;
        }
    }
    Ok(run.solution)
}

/// States at several increasing times: one solve per stretch, each started afresh from the controller's
/// initial step, so that the state at the first time does not depend on the times after it.
pub fn solve_at<S: System>(
    system: &S,
    spec: &SolverSpec,
    initial: &[f64],
    times: &[f64],
) -> Result<Vec<Vec<f64>>, SolveError>
where
    S::Tape: Clone,
{
    let mut states: Vec<Vec<f64>> = Vec::with_capacity(times.len());
    let mut previous = 0.0;
    for &time in times {
        if !(time >= previous && time.is_finite()) {
            return Err(SolveError::TimesOutOfOrder { time, previous });
        }
        let from = states.last().map_or(initial, Vec::as_slice);
        let next = if time - previous > 1e-12 {
            let shifted = Shifted { system, by: previous };
            solve(&shifted, &SolverSpec { end_time: time - previous, ..spec.clone() }, from)?.state
        } else {
            from.to_vec()
        };
        states.push(next);
        previous = time;
    }
    Ok(states)
}

/// A system whose clock starts later.
struct Shifted<'a, S> {
    system: &'a S,
    by: f64,
}

impl<S: System> System for Shifted<'_, S> {
    type Tape = S::Tape;

    fn evaluate(&self, time: f64, state: &[f64]) -> (Vec<f64>, S::Tape) {
        self.system.evaluate(time + self.by, state)
    }

    fn pull_back(&self, tape: &S::Tape, cotangent: &[f64]) -> Vec<f64> {
        self.system.pull_back(tape, cotangent)
    }

    fn precision(&self) -> gains_core::Precision {
        self.system.precision()
    }
}

/// A solve in progress.
struct Run<'a, S: System> {
    system: &'a S,
    tableau: &'static Tableau,
    first: Option<Stage<S::Tape>>,
    solution: Solution<S::Tape>,
}

impl<'a, S: System> Run<'a, S>
where
    S::Tape: Clone,
{
    fn new(system: &'a S, tableau: &'static Tableau, initial: &[f64]) -> Self {
        let mut state = initial.to_vec();
        system.precision().round(&mut state);
        let solution = Solution {
            state,
            trajectory: Vec::new(),
            steps: Vec::new(),
            evaluations: 0,
            stop: StopReason::Finished,
        };
        Self { system, tableau, first: None, solution }
    }

    fn with_error_estimate(&self) -> Result<&'static Tableau, SolveError> {
        if self.tableau.estimates_error() {
            Ok(self.tableau)
        } else {
            Err(SolveError::NoErrorEstimate { method: self.tableau.name })
        }
    }

    /// A trial step; one that overflows has an infinite error estimate, so that a controller rejects it.
    fn attempt(&mut self, time: f64, step: f64) -> Result<TrialStep<S::Tape>, SolveError> {
        if self.solution.trajectory.len() >= MOST_STEPS {
            return Err(SolveError::TooManySteps { steps: MOST_STEPS, time, step });
        }
        let first = self.first.take();
        self.solution.evaluations += self.tableau.len() - usize::from(first.is_some());
        let mut trial = trial_step(self.system, self.tableau, time, step, &self.solution.state, first);
        if !trial.error.is_finite() || trial.state.iter().any(|z| !z.is_finite()) {
            trial.error = f64::INFINITY;
        }
        Ok(trial)
    }

    /// Books a trial step: keeps the stage that the next one can reuse, moves on if accepted.
    fn settle(&mut self, mut trial: TrialStep<S::Tape>, visit: Visit) {
        self.solution.trajectory.push(visit);
        if visit.action == Action::Reject {
            self.first = Some(trial.stages.swap_remove(0));
            return;
        }
        if self.tableau.first_same_as_last() {
            self.first = trial
                .stages
                .last()
                .map(|stage| Stage { slope: stage.slope.clone(), tape: stage.tape.clone() });
        }
        self.solution.state.clone_from(&trial.state);
        self.solution.steps.push(trial);
    }

    fn automaton(
        &mut self,
        line: &Timeline,
        tolerance: f64,
        decide: impl Fn(f64) -> Action,
    ) -> Result<(), SolveError> {
        let mut place = line.start();
        loop {
            let (time, step) = (line.time(&place), line.step(&place));
            let trial = self.attempt(time, step)?;
            let error = self.system.precision().rounded(trial.error / tolerance);
            let mut action = if place.settled { Action::Keep } else { decide(error) };
            if trial.error == f64::INFINITY && action != Action::Reject {
                return Err(SolveError::NotFinite { time: time + step });
            }
            let next = line.follow(&place, action);
            if action == Action::Increase && next == line.follow(&place, Action::Keep) {
                action = Action::Keep;
            }
            let visit = Visit { time, step, action, error, place: Some(place) };
            self.settle(trial, visit);
            match next {
                Moment::At(next) => place = next,
                Moment::End => break,
            }
        }
        if place.settled {
            self.solution.stop = StopReason::ToleranceMissed;
        }
        Ok(())
    }

    fn continuous(
        &mut self,
        end: f64,
        initial_step: f64,
        tolerance: f64,
        rule: impl Fn(f64, u32) -> (bool, f64),
    ) -> Result<(), SolveError> {
        let (mut time, mut step) = (0.0, initial_step.min(end));
        let arrived = end - arrival(end);
        while time < arrived {
            let trial = self.attempt(time, step)?;
            let error = trial.error / tolerance;
            let (accepted, factor) = rule(error, self.tableau.order);
            let action = match (accepted, factor > 1.0) {
                (false, _) => Action::Reject,
                (true, false) => Action::Keep,
                (true, true) => Action::Increase,
            };
            self.settle(trial, Visit { time, step, action, error, place: None });
            if accepted {
                time += step;
            }
            step = (step * factor).min(end - time);
            if step < 1e-14 * end && time < arrived {
                if error == f64::INFINITY {
                    return Err(SolveError::NotFinite { time });
                }
                return Err(SolveError::TooManySteps { steps: self.solution.trajectory.len(), time, step });
            }
        }
        Ok(())
    }
}
