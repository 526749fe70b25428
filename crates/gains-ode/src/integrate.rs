//! Concrete integration with any controller.

use gains_core::description::{ControllerSpec, SolverSpec};
use thiserror::Error;

use crate::controller::Action;
use crate::free::{FreeRule, FreeWalk, Stuck};
use crate::grid::Grid;
pub use crate::solution::{Solution, StopReason, Visit};
use crate::system::{StageTape, System, TrialStep, trial_step};
use crate::tableau::Tableau;
use crate::watch::{Progress, Watch};

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum SolveError {
    /// A state or error estimate is NaN or infinite.
    #[error("the solution is no longer finite at time {time}")]
    NotFinite {
        /// When.
        time: f64,
    },
    /// An output of the network is NaN or infinite.
    #[error("an output is not finite")]
    OutputNotFinite,
    /// Too many steps.
    #[error("no end after {steps} steps ({rejected} rejected), at time {time} of {end} with step {step:e}")]
    TooManySteps {
        /// How many.
        steps: usize,
        /// How many of them did not meet the tolerance.
        rejected: usize,
        /// Where.
        time: f64,
        /// The end time.
        end: f64,
        /// Current step.
        step: f64,
    },
    /// A continuous controller wants a step so small that time would stand still.
    #[error("the step falls to {step:e} at time {time} of {end}: no smaller step meets the tolerance")]
    StepTooSmall {
        /// Where.
        time: f64,
        /// The end time.
        end: f64,
        /// The step.
        step: f64,
    },
    /// Abandoned by whoever asked for it.
    #[error("interrupted at time {time} of the ODE")]
    Interrupted {
        /// Where.
        time: f64,
    },
    /// The deadline has passed.
    #[error("out of time at time {time} of the ODE, after {steps} steps")]
    OutOfTime {
        /// Where.
        time: f64,
        /// Steps tried.
        steps: usize,
    },
    /// The trajectory and what is kept of it are too large.
    #[error("{} MB after {steps} steps, at time {time} of the ODE: more than {} MB", bytes >> 20, limit >> 20)]
    OutOfMemory {
        /// Memory held.
        bytes: usize,
        /// Most of it.
        limit: usize,
        /// Steps tried.
        steps: usize,
        /// Where.
        time: f64,
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

/// No solve tries more steps than this.
pub const MOST_STEPS: usize = 1_000_000;

/// Integrates from time 0 to the end time.
pub fn solve<S: System>(
    system: &S,
    spec: &SolverSpec,
    initial: &[f64],
) -> Result<Solution<S::Tape>, SolveError>
where
    S::Tape: Clone,
{
    solve_within(system, spec, initial, &Watch::default())
}

/// Integrates from time 0 to the end time, within limits.
pub fn solve_within<S: System>(
    system: &S,
    spec: &SolverSpec,
    initial: &[f64],
    watch: &Watch<'_>,
) -> Result<Solution<S::Tape>, SolveError>
where
    S::Tape: Clone,
{
    let mut run = Run::new(system, spec, initial, watch);
    let no_estimate = SolveError::NoErrorEstimate { method: run.tableau.name };
    match &spec.controller {
        ControllerSpec::Adaptive { .. } if !run.tableau.estimates_error() => return Err(no_estimate),
        ControllerSpec::Adaptive { tolerance, initial_step, safety, shrink, grow } => {
            let rule = FreeRule { order: run.tableau.order, safety: *safety, shrink: *shrink, grow: *grow };
            run.continuous(FreeWalk::new(rule, *initial_step, run.end), *tolerance)?;
        }
        ControllerSpec::Fixed { .. } | ControllerSpec::ControlledAdaptive(_) => {
            // Such a controller has a grid, unless its method does not estimate errors.
            run.automaton(&Grid::new(spec).map_err(|_| no_estimate)?)?;
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

    fn tape_bytes(&self, tape: &S::Tape) -> usize {
        self.system.tape_bytes(tape)
    }
}

/// A solve in progress.
struct Run<'a, S: System> {
    system: &'a S,
    tableau: &'static Tableau,
    end: f64,
    watch: &'a Watch<'a>,
    first: Option<StageTape<S::Tape>>,
    solution: Solution<S::Tape>,
}

impl<'a, S: System> Run<'a, S>
where
    S::Tape: Clone,
{
    fn new(system: &'a S, spec: &SolverSpec, initial: &[f64], watch: &'a Watch<'a>) -> Self {
        let mut state = initial.to_vec();
        system.precision().round(&mut state);
        // The trajectory needs room too.
        let budget = watch.tapes.min(watch.memory / 2);
        let solution = Solution::new(state, budget);
        Self { system, tableau: Tableau::of(spec.method), end: spec.end_time, watch, first: None, solution }
    }

    /// A trial step; one that overflows has an infinite error estimate, so that a controller rejects it.
    fn attempt(&mut self, time: f64, step: f64) -> Result<TrialStep<S::Tape>, SolveError> {
        let steps = self.solution.trajectory.len();
        if steps >= MOST_STEPS {
            let rejected = self.solution.rejected();
            return Err(SolveError::TooManySteps { steps, rejected, time, end: self.end, step });
        }
        self.watch.check(Progress { time, steps, bytes: self.solution.bytes() })?;
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
        if !visit.is_accepted() {
            self.first = Some(trial.stages.swap_remove(0));
            self.solution.trajectory.push(visit);
            return;
        }
        if self.tableau.first_same_as_last() {
            self.first = trial
                .stages
                .last()
                .map(|stage| StageTape { slope: stage.slope.clone(), tape: stage.tape.clone() });
        }
        self.solution.accept(self.system, visit, trial.stages, trial.state);
    }

    fn automaton(&mut self, grid: &Grid) -> Result<(), SolveError> {
        let mut walk = grid.walk();
        while let Some(attempt) = walk.attempt() {
            let (time, step) = (attempt.time, attempt.step);
            let trial = self.attempt(time, step)?;
            let error = self.system.precision().rounded(trial.error / grid.tolerance);
            let action = walk.advance(&attempt, error);
            if trial.error == f64::INFINITY && action != Action::Reject {
                return Err(SolveError::NotFinite { time: time + step });
            }
            if attempt.place.settled {
                self.solution.stop = StopReason::ToleranceMissed;
            }
            self.settle(trial, Visit { time, step, action, error, place: Some(attempt.place) });
        }
        Ok(())
    }

    fn continuous(&mut self, mut walk: FreeWalk, tolerance: f64) -> Result<(), SolveError> {
        while let Some((time, step)) = walk.attempt() {
            let trial = self.attempt(time, step)?;
            let error = trial.error / tolerance;
            let advanced = walk.advance(error);
            let action = advanced.unwrap_or_else(|(action, _)| action);
            self.settle(trial, Visit { time, step, action, error, place: None });
            if let Err((_, Stuck { time, step })) = advanced {
                return Err(match error == f64::INFINITY {
                    true => SolveError::NotFinite { time },
                    false => SolveError::StepTooSmall { time, end: self.end, step },
                });
            }
        }
        Ok(())
    }
}
