//! Solving a neural ODE for a batch of points: one error, one step size for all of them.
//!
//! `δ = Σ ‖e‖₁ / (B τ)` over the B samples of the batch decides what happens to the step, by the same automaton
//! ([`Timeline`]) that inference and verification use. (They look at one sample at a time.)

use gains_core::Interval;
use gains_core::description::Method;
use gains_ode::controller::controlled;
use gains_ode::{Action, Moment, Place, Tableau, Timeline};

use crate::config::SolverConfig;
use crate::device::{Batch, Device, DeviceError, StepForm};
use crate::plan::OdePlan;
use crate::tape::{Tape, ValueId};

/// Why a batch came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The device gave up.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Numbers that are none.
    #[error("{0}")]
    Diverged(String),
}

/// How step sizes are chosen.
#[derive(Clone, Debug)]
pub struct Stepping {
    /// The Runge-Kutta method.
    pub method: Method,
    /// Where the solver can be.
    pub line: Timeline,
    /// `δ ≤` this lets the step grow; none if no error is looked at.
    pub control: Option<Control>,
}

/// When a step-size controller does what.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// `1 / (B τ)`: what sums of errors are multiplied with.
    pub scale: f64,
    /// `α⁻ᵖ`.
    pub increase_below: f64,
}

impl Stepping {
    /// Equal Euler steps.
    pub fn euler(steps: u32, end: f64) -> Self {
        Self { method: Method::Euler, line: Timeline::fixed(steps, end), control: None }
    }

    /// The controlled adaptive solver for a batch of so many samples.
    pub fn controlled(solver: &SolverConfig, initial_step: f64, samples: usize) -> Self {
        let order = Tableau::of(solver.method).order;
        Self {
            method: solver.method,
            line: Timeline::new(&solver.controlled(initial_step), solver.end_time),
            control: Some(Control {
                scale: 1.0 / (samples as f64 * solver.tolerance),
                increase_below: f64::from(solver.factor).powi(-(order as i32)),
            }),
        }
    }
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
pub struct Solution {
    /// The state at the end time.
    pub end: ValueId,
    /// Every trial step: the reference trajectory.
    pub visits: Vec<Visit>,
}

/// Solves from the value `start`; accepted steps go on the tape.
pub fn solve<'p, D: Device>(
    device: &mut D,
    tape: &mut Tape<'p, D>,
    ode: &'p OdePlan,
    stepping: &Stepping,
    start: ValueId,
) -> Result<Solution, Failure> {
    let line = &stepping.line;
    let mut place = line.start();
    let mut at = start;
    let mut visits = Vec::new();
    loop {
        let (time, step) = (line.time(&place), line.step(&place));
        let form = StepForm::Independent;
        let trial = device.step(ode, stepping.method, form, tape.value(at), time, step, tape.keeps())?;
        let (action, error) = match &stepping.control {
            Some(control) if !place.settled => {
                let error = device.measure(&trial.errors)?.upper;
                if error.is_nan() {
                    return Err(Failure::Diverged(format!(
                        "the error of a solver step at time {time} is NaN"
                    )));
                }
                let set = controlled(Interval::point(error * control.scale), control.increase_below);
                // A point allows exactly one action.
                (set.iter().next().unwrap_or(Action::Reject), error)
            }
            _ => (Action::Keep, 0.0),
        };
        let action = as_logged(line, &place, action);
        visits.push(Visit { time, step, action });
        if action != Action::Reject {
            at = tape.step(ode, at, trial, error);
        }
        match line.follow(&place, action) {
            Moment::At(next) => place = next,
            Moment::End => return Ok(Solution { end: at, visits }),
        }
    }
}

/// Increasing a step that is clipped at the end time anyway is keeping it.
pub(crate) fn as_logged(line: &Timeline, place: &Place, action: Action) -> Action {
    let keeps = || line.follow(place, Action::Keep) == line.follow(place, Action::Increase);
    if action == Action::Increase && keeps() { Action::Keep } else { action }
}

/// The first step for a batch of points in training (paper, appendix "Initial Step-Size"): a hundredth of the time in
/// which the state would change by its own size, corrected by the error of one trial step.
///
/// Of the errors of the samples the largest decides, and the exponent is `1/(p − 1)`, as in the authors' program.
pub fn initial_step<D: Device>(
    device: &mut D,
    ode: &OdePlan,
    solver: &SolverConfig,
    x: &Batch<D::Tensor>,
    samples: usize,
) -> Result<f64, Failure> {
    let form = StepForm::Independent;
    let slope = device.step(ode, Method::Euler, form, x, 0.0, 1.0, false)?;
    let sums = device.measure(&slope.errors)?;
    let smallest = 1e-5 * samples as f64 * solver.tolerance;
    let proposal =
        if sums.state < smallest || sums.slope < smallest { 1e-5 } else { 0.01 * sums.state / sums.slope };
    let trial = device.step(ode, solver.method, form, x, 0.0, proposal, false)?;
    let error = device.measure(&trial.errors)?.largest / solver.tolerance;
    let order = Tableau::of(solver.method).order;
    let factor = growth(error, order);
    let step = proposal * factor;
    if !step.is_finite() || step <= 0.0 {
        return Err(Failure::Diverged(format!("the first step of the solver is {step}")));
    }
    Ok(step.min(solver.end_time))
}

/// The usual rule of adaptive solvers.
pub(crate) fn growth(error: f64, order: u32) -> f64 {
    if error == 0.0 {
        return 10.0;
    }
    let least = if error < 1.0 { 1.0 } else { 0.2 };
    let wished = 0.9 * error.powf(-1.0 / (f64::from(order) - 1.0));
    if wished.is_nan() { f64::NAN } else { wished.max(least).min(10.0) }
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
