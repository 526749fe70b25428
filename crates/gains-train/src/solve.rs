//! Solving a neural ODE for a batch of points: one error, one step size for all of them.
//!
//! `δ = Σ ‖e‖₁ / (B τ)` over the B samples of the batch decides what happens to the step, by the same automaton
//! ([`Grid`]) that inference and verification use. (They look at one sample at a time.)

use gains_core::Interval;
use gains_core::description::Method;
use gains_ode::grid::{Attempt, Grid};
use gains_ode::{Action, Tableau, controller};

use crate::config::SolverConfig;
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
    pub method: Method,
    /// Where the solver can be, and how it goes on.
    pub grid: Grid,
    /// `1 / (B τ)`: what sums of errors are multiplied with.
    pub scale: f64,
}

impl Stepping {
    /// Equal Euler steps.
    pub fn euler(steps: u32, end: f64) -> Self {
        Self { method: Method::Euler, grid: Grid::fixed(steps, end), scale: 1.0 }
    }

    /// The controlled adaptive solver for a batch of so many samples.
    pub fn controlled(solver: &SolverConfig, initial_step: f64, samples: usize) -> Self {
        let tableau = Tableau::of(solver.method);
        Self {
            method: solver.method,
            grid: Grid::controlled(&solver.controlled(initial_step), tableau, solver.end_time),
            scale: 1.0 / (samples as f64 * solver.tolerance),
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
    let mut walk = stepping.grid.walk();
    let mut at = start;
    let mut visits = Vec::new();
    while let Some(attempt) = walk.attempt() {
        let Attempt { time, step, judged, .. } = attempt;
        let (trial, sums) = steps.attempt(at, time, step, judged)?;
        if judged && sums.upper.is_nan() {
            return Err(Failure::Diverged(format!("the error of a solver step at time {time} is NaN")));
        }
        let action = walk.advance(&attempt, sums.upper * stepping.scale);
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
    mut probe: impl FnMut(Method, f64) -> Result<Measure, Failure>,
) -> Result<f64, Failure> {
    let sums = probe(Method::Euler, 1.0)?;
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

    #[test]
    fn the_average_forgets_slowly() {
        let eta = (0..100).fold(0.0, |eta, _| average(eta, 0.2));
        assert!((eta - 0.2).abs() < 1e-5 && average(0.0, 0.2) < 0.021);
        let solver = SolverConfig::default();
        assert_eq!(inference_step(&solver, 0.0), 0.02);
        assert_eq!(inference_step(&solver, 3.0), 1.0);
    }
}
