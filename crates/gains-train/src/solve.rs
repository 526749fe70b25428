//! Solving a neural ODE for a batch of points: one error, one step size for all of them.
//!
//! `δ = Σ ‖e‖₁ / (B τ)` over the B samples of the batch decides what happens to the step, by the same automaton
//! ([`Grid`]) that inference and verification use. (They look at one sample at a time.) Continuous step sizes, which only
//! points can follow, come from the same walk as in inference, too ([`FreeWalk`]).

use gains_core::Interval;
use gains_core::description::RungeKutta;
use gains_ode::grid::{Attempt, Grid};
use gains_ode::{Action, FreeWalk, Tableau, Walk, controller};

use crate::config::{Control, SolverConfig};
use crate::device::{DeviceError, Measure};

/// Why a batch came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The device gave up.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Something is NaN or infinite.
    #[error("{0}")]
    Diverged(String),
}

/// How step sizes are chosen.
#[derive(Clone, Debug)]
pub struct Stepping {
    /// The Runge-Kutta method.
    pub method: RungeKutta,
    /// How the solver goes on.
    pub course: Course,
    /// `1 / (B τ)`: what sums of errors are multiplied with.
    pub scale: f64,
}

/// How a solver goes on from step to step.
#[derive(Clone, Debug)]
pub enum Course {
    /// On a grid of step sizes, which boxes can follow.
    Grid(Grid),
    /// Freely: a run that has not begun.
    Free(FreeWalk),
}

impl Stepping {
    /// Equal steps of a method.
    pub fn fixed(method: RungeKutta, steps: u32, end: f64) -> Self {
        Self { method, course: Course::Grid(Grid::fixed(steps, end)), scale: 1.0 }
    }

    /// The adaptive solver for a batch of so many samples.
    pub fn adaptive(solver: &SolverConfig, initial_step: f64, samples: usize) -> Self {
        let course = match solver.control {
            Control::Controlled => {
                let tableau = Tableau::of(solver.method);
                Course::Grid(Grid::controlled(&solver.controlled(initial_step), tableau, solver.end_time))
            }
            Control::Continuous => {
                Course::Free(FreeWalk::new(solver.free_rule(), initial_step, solver.end_time))
            }
        };
        Self { method: solver.method, course, scale: 1.0 / (samples as f64 * solver.tolerance) }
    }

    /// The grid of step sizes, which boxes need.
    pub fn grid(&self) -> Result<&Grid, Failure> {
        match &self.course {
            Course::Grid(grid) => Ok(grid),
            Course::Free(_) => Err(Failure::Diverged("boxes cannot follow continuous step sizes".into())),
        }
    }
}

/// A run of points.
enum Run<'a> {
    Grid(Walk<'a>),
    Free(FreeWalk),
}

impl Run<'_> {
    /// The step to try next, if any, and whether its error will be looked at.
    fn next(&self) -> Option<(f64, f64, bool)> {
        match self {
            Self::Grid(walk) => walk.attempt().map(|Attempt { time, step, judged, .. }| (time, step, judged)),
            Self::Free(walk) => walk.attempt().map(|(time, step)| (time, step, true)),
        }
    }

    fn advance(&mut self, error: f64) -> Result<Action, Failure> {
        match self {
            Self::Grid(walk) => {
                Ok(walk.attempt().map_or(Action::Keep, |attempt| walk.advance(&attempt, error)))
            }
            Self::Free(walk) => walk.advance(error).map_err(|(_, stuck)| {
                Failure::Diverged(format!(
                    "the solver is stuck at time {} with steps of {}",
                    stuck.time, stuck.step
                ))
            }),
        }
    }
}

/// Trial steps of a batch, of points or of boxes.
pub trait Steps {
    /// A state of the batch.
    type State: Copy;
    /// A step that has been tried.
    type Trial;

    /// Tries a step. The interval holds the sum over samples of ‖e‖₁; it may be missing if not `measured`.
    fn attempt(
        &mut self,
        from: Self::State,
        time: f64,
        step: f64,
        measured: bool,
    ) -> Result<(Self::Trial, Interval), Failure>;

    /// The state at the end of a step.
    fn accept(&mut self, from: Self::State, trial: Self::Trial) -> Self::State;
}

/// A place a solver went through, and what it did there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// Time.
    pub time: f64,
    /// Step size.
    pub step: f64,
    /// What the controller did.
    pub action: Action,
}

/// A solved batch.
#[derive(Clone, Debug)]
pub struct Solution<S> {
    /// The state at the end time.
    pub end: S,
    /// Every trial step: the reference trajectory.
    pub visits: Vec<Visit>,
}

/// Solves points from `start` to the end.
pub fn solve<S: Steps>(
    steps: &mut S,
    stepping: &Stepping,
    start: S::State,
) -> Result<Solution<S::State>, Failure> {
    let mut run = match &stepping.course {
        Course::Grid(grid) => Run::Grid(grid.walk()),
        Course::Free(walk) => Run::Free(walk.clone()),
    };
    let mut at = start;
    let mut visits = Vec::new();
    while let Some((time, step, judged)) = run.next() {
        let (trial, sums) = steps.attempt(at, time, step, judged)?;
        if judged && sums.upper.is_nan() {
            return Err(Failure::Diverged(format!("the error of a solver step at time {time} is NaN")));
        }
        let action = run.advance(sums.upper * stepping.scale)?;
        visits.push(Visit { time, step, action });
        if action != Action::Reject {
            at = steps.accept(at, trial);
        }
    }
    Ok(Solution { end: at, visits })
}

/// The first step for a batch of points in training (paper, appendix "Initial Step-Size"): a hundredth of the time in
/// which the state would change by its own size, corrected by the error of one trial step. `probe` tries one step of a
/// method from the start.
///
/// Of the errors of the samples the largest decides, and the exponent is `1/(p − 1)`, as in the authors' program.
pub fn initial_step(
    solver: &SolverConfig,
    samples: usize,
    mut probe: impl FnMut(RungeKutta, f64) -> Result<Measure, Failure>,
) -> Result<f64, Failure> {
    let sums = probe(RungeKutta::Euler, 1.0)?;
    let smallest = 1e-5 * samples as f64 * solver.tolerance;
    let proposal =
        if sums.state < smallest || sums.slope < smallest { 1e-5 } else { 0.01 * sums.state / sums.slope };
    let error = probe(solver.method, proposal)?.largest / solver.tolerance;
    let step = proposal * growth(error, Tableau::of(solver.method).order);
    if !step.is_finite() || step <= 0.0 {
        return Err(Failure::Diverged(format!("the first step of the solver is {step}")));
    }
    Ok(step.min(solver.end_time))
}

/// The usual rule of adaptive solvers, with the authors' exponent; NaN stays NaN.
fn growth(error: f64, order: u32) -> f64 {
    let least = if error < 1.0 { 1.0 } else { 0.2 };
    controller::growth(error, f64::from(order) - 1.0, 0.9, least, 10.0)
}

/// The running average of first steps after a batch that started with `step`.
pub fn average(eta: f64, step: f64) -> f64 {
    0.9 * eta + 0.1 * step
}

/// The first step outside training: the running average, or the smallest step if there is none yet.
pub fn inference_step(solver: &SolverConfig, eta: f64) -> f64 {
    if eta > 0.0 { eta.min(solver.end_time) } else { solver.minimum_step.min(solver.end_time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_follows_the_usual_rule() {
        assert_eq!(growth(0.0, 5), 10.0);
        assert_eq!(growth(1e-12, 5), 10.0);
        assert_eq!(growth(0.99, 5), 1.0, "a good step never shrinks");
        assert!((growth(0.0081, 5) - 3.0).abs() < 1e-12);
        assert!((growth(16.0, 5) - 0.45).abs() < 1e-12);
        assert_eq!(growth(1e9, 5), 0.2);
        assert!(growth(f64::NAN, 5).is_nan());
    }

    /// One point of a scalar ODE at a time.
    struct Point;

    impl Steps for Point {
        type State = f64;
        type Trial = f64;

        fn attempt(&mut self, from: f64, time: f64, step: f64, _: bool) -> Result<(f64, Interval), Failure> {
            let tableau = Tableau::of(RungeKutta::Dopri5);
            let trial = gains_ode::system::trial_step(&slope, tableau, time, step, &[from], None);
            Ok((trial.state[0], Interval::point(trial.error)))
        }

        fn accept(&mut self, _: f64, trial: f64) -> f64 {
            trial
        }
    }

    fn slope(time: f64, state: &[f64]) -> Vec<f64> {
        vec![state[0] * (30.0 * time * time).cos() * 9.0]
    }

    #[test]
    fn one_sample_is_solved_as_it_is_in_use() {
        for control in [Control::Controlled, Control::Continuous] {
            for first in [0.001, 0.03, 0.4, 5.0] {
                let solver =
                    SolverConfig { control, tolerance: 1e-4, minimum_step: 1e-4, ..SolverConfig::default() };
                let stepping = Stepping::adaptive(&solver, first, 1);
                let trained = solve(&mut Point, &stepping, 1.0).unwrap();
                let used = gains_ode::solve(&slope, &solver.spec(first), &[1.0]).unwrap();
                // Which stages a step shares with the one before it makes a difference of rounding.
                let near = |x: f64, y: f64| (x - y).abs() <= 1e-6 * y.abs();
                assert!(near(trained.end, used.state[0]), "{control:?} {first}");
                assert_eq!(trained.visits.len(), used.trajectory.len());
                for (ours, theirs) in trained.visits.iter().zip(&used.trajectory) {
                    assert_eq!(ours.action, theirs.action);
                    assert!(near(ours.time, theirs.time) && near(ours.step, theirs.step));
                }
                assert!(trained.visits.len() > 8);
                assert!(trained.visits.iter().any(|visit| visit.action == Action::Reject));
                assert_eq!(SolverConfig::of(&solver.spec(first)).map(|of| of.control), Some(control));
                assert_eq!(stepping.grid().is_ok(), control == Control::Controlled);
            }
        }
    }

    #[test]
    fn the_average_forgets_slowly() {
        let eta = (0..100).fold(0.0, |eta, _| average(eta, 0.2));
        assert!((eta - 0.2).abs() < 1e-5 && average(0.0, 0.2) < 0.021);
        let solver = SolverConfig::default();
        assert_eq!(inference_step(&solver, 0.0), 0.02);
        assert_eq!(inference_step(&solver, 3.0), 1.0);
    }
}
