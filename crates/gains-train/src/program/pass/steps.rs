//! Solver steps of a batch.

use gains_core::Interval;
use gains_core::description::RungeKutta;
use gains_ode::Tableau;

use crate::config::SolverConfig;
use crate::device::StepForm;
use crate::program::blueprint::OdePart;
use crate::program::machine::Machine;
use crate::program::step::{Stepper, Tried};
use crate::program::tape::{ProgramTape, ValueId};
use crate::solve::{Course, Failure, Stepping, Steps};

/// A step that the loss asks for.
#[derive(Clone, Copy)]
pub(super) struct Charge {
    pub(super) end: ValueId,
    pub(super) error: ValueId,
    pub(super) upper: f64,
    pub(super) tolerance: f64,
    /// Where the step size may increase.
    pub(super) increase_below: Option<f64>,
}

/// Steps of a batch through an ODE.
pub(super) struct ProgramSteps<'t, 'p, M: Machine> {
    machine: &'p M,
    tape: &'t mut ProgramTape<'p, M>,
    ode: &'p OdePart,
    method: RungeKutta,
    form: StepForm,
    increase_below: Option<f64>,
    /// Steps that were taken and have an estimate of their error.
    pub(super) charged: Vec<Charge>,
}

impl<'t, 'p, M: Machine> ProgramSteps<'t, 'p, M> {
    pub(super) fn new(
        machine: &'p M,
        tape: &'t mut ProgramTape<'p, M>,
        ode: &'p OdePart,
        stepping: &Stepping,
        form: StepForm,
    ) -> Self {
        let increase_below = match &stepping.course {
            Course::Grid(grid) => grid.increase_below,
            Course::Free(_) => None,
        };
        Self { machine, tape, ode, method: stepping.method, form, increase_below, charged: Vec::new() }
    }
}

impl<M: Machine> Steps for ProgramSteps<'_, '_, M> {
    type State = ValueId;
    type Trial = (Tried, f64);

    fn attempt(
        &mut self,
        from: ValueId,
        time: f64,
        step: f64,
        measured: bool,
    ) -> Result<(Self::Trial, Interval), Failure> {
        let tableau = Tableau::of(self.method);
        let mut stepper =
            Stepper { tape: &mut *self.tape, dynamics: &self.ode.dynamics, tableau, form: self.form };
        let tried = stepper.step(from, time, step, measured);
        // Nothing is asked of a step without an estimate: it has no error.
        let Some(error) = tried.error else { return Ok(((tried, 0.0), Interval::point(0.0))) };
        let (state, slope) = (self.tape.value(from), self.tape.value(tried.slope));
        let sums = self.machine.measure(state, slope, Some(self.tape.value(error)));
        self.machine.check()?;
        Ok(((tried, sums.upper), Interval { lower: sums.lower, upper: sums.upper }))
    }

    fn accept(&mut self, _from: ValueId, (tried, upper): Self::Trial) -> ValueId {
        let tolerance = SolverConfig::of(&self.ode.solver).map(|solver| solver.tolerance);
        if let (Some(error), Some(tolerance)) = (tried.error, tolerance) {
            let increase_below = self.increase_below;
            self.charged.push(Charge { end: tried.end, error, upper, tolerance, increase_below });
        }
        tried.end
    }
}
