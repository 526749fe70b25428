//! Solver steps of a batch.

use gains_core::Interval;
use gains_core::description::RungeKutta;
use gains_ode::Tableau;

use crate::config::SolverConfig;
use crate::cpu::Real;
use crate::device::StepForm;
use crate::program::blueprint::OdePart;
use crate::program::step::{Stepper, Tried, measure};
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
pub(super) struct ProgramSteps<'t, 'p, F: Real> {
    tape: &'t mut ProgramTape<'p, F>,
    ode: &'p OdePart,
    method: RungeKutta,
    form: StepForm,
    increase_below: Option<f64>,
    /// Steps that were taken and have an estimate of their error.
    pub(super) charged: Vec<Charge>,
}

impl<'t, 'p, F: Real> ProgramSteps<'t, 'p, F> {
    pub(super) fn new(
        tape: &'t mut ProgramTape<'p, F>,
        ode: &'p OdePart,
        stepping: &Stepping,
        form: StepForm,
    ) -> Self {
        let increase_below = match &stepping.course {
            Course::Grid(grid) => grid.increase_below,
            Course::Free(_) => None,
        };
        Self { tape, ode, method: stepping.method, form, increase_below, charged: Vec::new() }
    }
}

impl<F: Real> Steps for ProgramSteps<'_, '_, F> {
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
        let error = tried.error.map(|id| self.tape.value(id));
        let sums = measure(self.tape.value(from), self.tape.value(tried.slope), error);
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
