//! Points through a program.

use super::steps::ProgramSteps;
use super::{For, ProgramPass};
use crate::device::StepForm;
use crate::engine::{FirstStep, Look, Trip};
use crate::loss::alive::alive;
use crate::loss::steady::steady;
use crate::matrix::Matrix;
use crate::program::blueprint::Stretch;
use crate::program::machine::Machine;
use crate::program::step::walk;
use crate::program::tape::{Norms, ProgramTape, ValueId};
use crate::solve::{Failure, Visit, solve};

/// Points in front of the loss.
pub struct PointRun<'p, M: Machine> {
    pub(super) tape: ProgramTape<'p, M>,
    pub(super) output: ValueId,
    pub(super) visits: Vec<Vec<Visit>>,
    pub(super) trip: Trip,
}

impl<'p, M: Machine> ProgramPass<'p, M> {
    /// Points as far as the loss.
    pub(super) fn send(
        &mut self,
        inputs: &M::Values,
        first: FirstStep,
        purpose: For,
    ) -> Result<PointRun<'p, M>, Failure> {
        let norms = if purpose == For::Learning { Norms::Own } else { Norms::Running };
        let (machine, weights) = (self.machine, self.judge.outlook.weights);
        let mut tape = ProgramTape::new(machine, weights, norms, self.blueprint.norms);
        let mut at = tape.input(machine.copy(inputs), purpose == For::Attack);
        let mut run = Trip::default();
        let mut visits = Vec::new();
        let odes = self.blueprint.odes().count().max(1) as f64;
        for stretch in &self.blueprint.stretches {
            let ode = match stretch {
                Stretch::Plain(circuit) => {
                    at = walk(&mut tape, circuit, at, 0.0)[circuit.output()];
                    continue;
                }
                Stretch::Ode(_) if purpose == For::Look(Look::WithoutOde) => continue,
                Stretch::Ode(ode) => ode,
            };
            let step = match (purpose, first) {
                (For::Learning, FirstStep::Rule) => None,
                (For::Learning, FirstStep::Given(step)) => Some(step),
                _ => self.usual_step(ode, visits.len()),
            };
            let chosen = self.stepping(&mut tape, ode, at, step)?;
            let mut steps =
                ProgramSteps::new(machine, &mut tape, ode, &chosen.stepping, StepForm::Independent);
            let solution = solve(&mut steps, &chosen.stepping, at)?;
            let end = solution.end;
            let moved = machine.motion(tape.value(at), tape.value(end));
            run.motion = Some(run.motion.map_or(moved, |least| least.min(moved)));
            let weights = &self.setting.phase.loss;
            if purpose == For::Learning && weights.steady > 0.0 {
                let mut steps =
                    ProgramSteps::new(machine, &mut tape, ode, &chosen.stepping, StepForm::Independent);
                let later = solve(&mut steps, &chosen.stepping, end)?.end;
                run.steady += self.settle(&mut tape, end, later, weights.steady / odes) / odes;
            }
            if purpose == For::Learning && weights.alive > 0.0 {
                run.alive += self.enliven(&mut tape, at, end, weights.alive / odes) / odes;
            }
            run.steps += solution.visits.len();
            run.first_steps.push(chosen.first);
            visits.push(solution.visits);
            at = end;
        }
        Ok(PointRun { tape, output: at, visits, trip: run })
    }

    /// The regulariser of TisODE: dynamics do not depend on the time, so going on is starting again.
    fn settle(&self, tape: &mut ProgramTape<'p, M>, end: ValueId, later: ValueId, weight: f64) -> f64 {
        let (reached, moved) = (self.machine.read(tape.value(end)), self.machine.read(tape.value(later)));
        let (value, slopes) = steady(&reached.centre, &moved.centre, self.count());
        self.seed(tape, later, (&reached, &slopes), weight);
        self.seed(tape, end, (&reached, &slopes), -weight);
        value
    }

    /// The term for living dynamics.
    fn enliven(&self, tape: &mut ProgramTape<'p, M>, start: ValueId, end: ValueId, weight: f64) -> f64 {
        let (from, to) = (self.machine.read(tape.value(start)), self.machine.read(tape.value(end)));
        let found = alive(&from.centre, &to.centre, self.setting.phase.loss.alive_target);
        if found.value > 0.0 {
            self.seed(tape, end, (&to, &found.end), weight);
            self.seed(tape, start, (&from, &found.start), weight);
        }
        found.value
    }

    /// Seeds so many times some slopes, in the form of some values.
    fn seed(
        &self,
        tape: &mut ProgramTape<'p, M>,
        at: ValueId,
        (like, slopes): (&Matrix<f64>, &[f64]),
        weight: f64,
    ) {
        let slopes = slopes.iter().map(|slope| weight * slope).collect();
        tape.seed(at, self.machine.put(Matrix::points(like.rows, like.columns, slopes)));
    }
}
