//! A batch on its way through a program and its gradients on their way back: as points, as boxes, under attack.

mod boxes;
mod points;
mod regularise;
mod steps;

use gains_core::description::{ControllerSpec, RungeKutta};
use gains_ode::Tableau;

pub use self::boxes::BoxRun;
pub use self::points::PointRun;
use super::blueprint::{Blueprint, OdePart};
use super::engine::Books;
use super::judge::Judge;
use super::machine::Machine;
use super::samples::Samples;
use super::step::Stepper;
use super::tape::{ProgramTape, ValueId};
use crate::config::{Augment, PhaseSolver, SolverConfig};
use crate::device::{Pull, StepForm, Tally};
use crate::engine::{
    BoxTerms, BoxTrip, FirstStep, JointOutcome, Look, Pass, Reference, Rows, Setting, Trip, joined,
};
use crate::explore::Rules;
use crate::loss::width::width_share;
use crate::loss::{Joint, criterion};
use crate::solve::{Failure, Stepping, inference_step, initial_step};

/// One phase's way of sending a batch through.
pub struct ProgramPass<'p, M: Machine> {
    pub(super) machine: &'p M,
    pub(super) blueprint: &'p Blueprint,
    pub(super) samples: &'p Samples,
    pub(super) augment: Augment,
    pub(super) judge: Judge<'p, M>,
    pub(super) setting: Setting<'p>,
    pub(super) books: &'p mut Books<M>,
}

/// What a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// Parameters are to learn from it: regularisers count, and statistics are those of the batch.
    Learning,
    /// The gradient of the inputs.
    Attack,
    /// What comes out.
    Look(Look),
}

/// A solver for a batch.
struct Chosen {
    stepping: Stepping,
    /// The first step, if there is a choice.
    first: Option<f64>,
}

impl<'p, M: Machine> ProgramPass<'p, M> {
    fn count(&self) -> usize {
        self.setting.indices.len()
    }

    /// The solver of an ODE for a batch at its beginning. `first` is none where the batch decides.
    fn stepping(
        &self,
        tape: &mut ProgramTape<'p, M>,
        ode: &'p OdePart,
        state: ValueId,
        first: Option<f64>,
    ) -> Result<Chosen, Failure> {
        let (end, method) = (ode.solver.end_time, ode.solver.method);
        if let PhaseSolver::Euler { steps } = self.setting.phase.solver {
            return Ok(Chosen { stepping: Stepping::fixed(RungeKutta::Euler, steps, end), first: None });
        }
        let Some(solver) = SolverConfig::of(&ode.solver) else {
            let steps = match ode.solver.controller {
                ControllerSpec::Fixed { steps } => steps,
                _ => return Err(Failure::Diverged("the solver cannot be trained with".into())),
            };
            return Ok(Chosen { stepping: Stepping::fixed(method, steps, end), first: None });
        };
        let step = match first {
            Some(step) => step,
            None => initial_step(&solver, self.count(), |method, step| {
                let mut stepper = Stepper {
                    tape: &mut *tape,
                    dynamics: &ode.dynamics,
                    tableau: Tableau::of(method),
                    form: StepForm::Independent,
                };
                let tried = stepper.step(state, 0.0, step, true);
                let error = tried.error.map(|id| tape.value(id));
                let sums = self.machine.measure(tape.value(state), tape.value(tried.slope), error);
                self.machine.check()?;
                Ok(sums)
            })?,
        };
        Ok(Chosen { stepping: Stepping::adaptive(&solver, step, self.count()), first: Some(step) })
    }

    /// Somewhere for gradients that nobody wants.
    fn unused(&self) -> M::Gradients {
        self.machine.gradients(self.blueprint.parameters.count(), false)
    }

    /// The first step outside training.
    fn usual_step(&self, ode: &OdePart, number: usize) -> Option<f64> {
        let eta = self.setting.steps.get(number).copied().unwrap_or(0.0);
        SolverConfig::of(&ode.solver).map(|solver| inference_step(&solver, eta))
    }
}

#[cfg(test)]
impl<M: Machine> ProgramPass<'_, M> {
    /// What the criterion sees of the batch, solved as in use.
    pub(super) fn rows_of(&mut self, look: Look) -> Result<Vec<f64>, Failure> {
        let inputs = self.inputs()?;
        let run = self.send(&inputs, FirstStep::Rule, For::Look(look))?;
        Ok(self.judge.rows(run.tape.value(run.output)))
    }

    /// Lets boxes be normalised by the running statistics, as in use.
    pub(super) fn forget_statistics(&mut self) {
        self.books.measured.fill(None);
    }
}

impl<'p, M: Machine> Pass for ProgramPass<'p, M> {
    type Inputs = M::Values;
    type Points = PointRun<'p, M>;
    type Boxes = BoxRun<'p, M>;

    fn inputs(&mut self) -> Result<M::Values, Failure> {
        let inputs = self.samples.gather(self.setting.indices, self.augment, self.setting.augment);
        Ok(self.machine.put(inputs))
    }

    fn attack(&mut self, inputs: &M::Values, reach: f64, seed: u64) -> Result<M::Values, Failure> {
        let settings = self.setting.phase.attack;
        let start = if settings.random_start { reach } else { 0.0 };
        let machine = self.machine;
        machine.within(|| {
            let mut attacked = machine.scatter(self.samples, inputs, start, seed);
            let mut unused = (Tally::default(), self.unused());
            for _ in 0..settings.steps {
                let mut run = self.send(&attacked, FirstStep::Rule, For::Attack)?;
                let x = run.tape.value(run.output);
                let pull = Pull::CrossEntropy(1.0);
                let part = self.judge.judge(x, pull, 0.0, &mut unused.0, &mut unused.1);
                run.tape.seed(run.output, part);
                if let Some(gradient) = run.tape.backward(&mut unused.1) {
                    let part_of = (settings.fraction, reach);
                    machine.ascend(self.samples, &mut attacked, &gradient, inputs, part_of);
                }
            }
            machine.check()?;
            Ok(attacked)
        })
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.books.ledger = Default::default();
        self.machine.clear(&mut self.books.gradients);
        Ok(self.machine.check()?)
    }

    fn send_points(&mut self, inputs: &M::Values, first: FirstStep) -> Result<PointRun<'p, M>, Failure> {
        let run = self.machine.within(|| self.send(inputs, first, For::Learning))?;
        self.machine.check()?;
        self.books.measured = run.tape.measured().to_vec();
        Ok(run)
    }

    fn trip<'r>(&self, points: &'r PointRun<'p, M>) -> &'r Trip {
        &points.trip
    }

    fn reference(&self, points: &PointRun<'p, M>) -> Reference {
        let first = points.trip.first_steps.iter().map(|step| step.unwrap_or(0.0)).collect();
        Reference { visits: points.visits.clone(), first }
    }

    fn return_points(&mut self, mut points: PointRun<'p, M>, pull: Pull<'_>) -> Result<(), Failure> {
        self.machine.within(|| {
            let (ledger, gradients) = (&mut self.books.ledger, &mut self.books.gradients);
            let x = points.tape.value(points.output);
            let part = self.judge.judge(x, pull, 0.0, &mut ledger.clean, gradients);
            points.tape.seed(points.output, part);
            points.tape.backward(gradients);
        });
        Ok(self.machine.check()?)
    }

    fn send_boxes(
        &mut self,
        inputs: &M::Values,
        radius: f64,
        reference: &Reference,
        rules: &Rules,
        random: &mut fastrand::Rng,
    ) -> Result<BoxRun<'p, M>, Failure> {
        let machine = self.machine;
        let run = machine.within(|| {
            let region = machine.region(self.samples, inputs, radius);
            self.explore_boxes(region, reference, rules, random)
        })?;
        machine.check()?;
        Ok(run)
    }

    fn box_trip(&self, boxes: &BoxRun<'p, M>) -> BoxTrip {
        boxes.trip
    }

    fn pull_boxes(
        &mut self,
        mut run: BoxRun<'p, M>,
        pulls: &[Pull<'_>],
        width: f64,
    ) -> Result<BoxTerms, Failure> {
        let width = width * width_share(self.setting.phase, run.trip.boxes);
        let machine = self.machine;
        let terms = machine.within(|| {
            let terms = self.regularise(&mut run);
            let (ledger, gradients) = (&mut self.books.ledger, &mut self.books.gradients);
            for (output, pull) in run.outputs.clone().into_iter().zip(pulls) {
                let x = run.tape.value(output);
                let part = self.judge.judge(x, *pull, width, &mut ledger.robust, gradients);
                run.tape.seed(output, part);
            }
            run.tape.backward(gradients);
            terms
        });
        machine.check()?;
        Ok(terms)
    }

    fn look(&mut self, look: Look) -> Result<(), Failure> {
        let inputs = self.inputs()?;
        let machine = self.machine;
        machine.within(|| {
            let run = self.send(&inputs, FirstStep::Rule, For::Look(look))?;
            let mut unused = self.unused();
            let x = run.tape.value(run.output);
            self.judge.judge(x, Pull::CrossEntropy(0.0), 0.0, &mut self.books.ledger.clean, &mut unused);
            Ok(machine.check()?)
        })
    }

    fn samples(&self) -> usize {
        self.count()
    }

    fn return_both(
        &mut self,
        points: PointRun<'p, M>,
        boxes: BoxRun<'p, M>,
        loss: &dyn Joint,
        width: f64,
    ) -> Result<JointOutcome, Failure> {
        joined(self, points, boxes, loss, width)
    }
}

impl<'p, M: Machine> Rows for ProgramPass<'p, M> {
    fn point_rows(&mut self, points: &PointRun<'p, M>) -> Result<Vec<f64>, Failure> {
        let rows = self.judge.rows(points.tape.value(points.output));
        self.machine.check()?;
        Ok(rows)
    }

    fn box_rows(&mut self, boxes: &BoxRun<'p, M>, number: usize) -> Result<Vec<f64>, Failure> {
        let rows = self.judge.rows(boxes.tape.value(boxes.outputs[number]));
        self.machine.check()?;
        Ok(rows)
    }

    fn label(&self, sample: usize) -> (usize, f64) {
        (self.judge.outlook.label(sample), self.judge.shares[sample])
    }

    fn criterion(&self) -> &dyn criterion::Measure {
        self.judge.criterion
    }
}
