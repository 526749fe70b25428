//! Points through a program.

use super::steps::ProgramSteps;
use super::{For, ProgramPass};
use crate::cpu::Real;
use crate::device::StepForm;
use crate::engine::{FirstStep, Look, Trip};
use crate::loss::alive::alive;
use crate::loss::steady::steady;
use crate::matrix::Matrix;
use crate::program::blueprint::Stretch;
use crate::program::step::walk;
use crate::program::tape::{Norms, ProgramTape, ValueId};
use crate::solve::{Failure, Visit, solve};

/// Points in front of the loss.
pub struct PointRun<'p, F: Real> {
    pub(super) tape: ProgramTape<'p, F>,
    pub(super) output: ValueId,
    pub(super) visits: Vec<Vec<Visit>>,
    pub(super) trip: Trip,
}

impl<'p, F: Real> ProgramPass<'p, F> {
    /// Points as far as the loss.
    pub(super) fn send(
        &mut self,
        inputs: &Matrix<F>,
        first: FirstStep,
        purpose: For,
    ) -> Result<PointRun<'p, F>, Failure> {
        let norms = if purpose == For::Learning { Norms::Own } else { Norms::Running };
        let mut tape = ProgramTape::new(self.judge.weights, norms, self.blueprint.norms);
        let mut at = tape.input(inputs.clone(), purpose == For::Attack);
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
            let mut steps = ProgramSteps::new(&mut tape, ode, &chosen.stepping, StepForm::Independent);
            let solution = solve(&mut steps, &chosen.stepping, at)?;
            let end = solution.end;
            let moved = motion(tape.value(at), tape.value(end));
            run.motion = Some(run.motion.map_or(moved, |least| least.min(moved)));
            let weights = &self.setting.phase.loss;
            if purpose == For::Learning && weights.steady > 0.0 {
                let mut steps = ProgramSteps::new(&mut tape, ode, &chosen.stepping, StepForm::Independent);
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
    fn settle(&self, tape: &mut ProgramTape<'p, F>, end: ValueId, later: ValueId, weight: f64) -> f64 {
        let (reached, moved) = (wide(tape.value(end)), wide(tape.value(later)));
        let (value, slopes) = steady(&reached, &moved, self.count());
        seed(tape, later, &slopes, weight);
        seed(tape, end, &slopes, -weight);
        value
    }

    /// The term for living dynamics.
    fn enliven(&self, tape: &mut ProgramTape<'p, F>, start: ValueId, end: ValueId, weight: f64) -> f64 {
        let (from, to) = (wide(tape.value(start)), wide(tape.value(end)));
        let found = alive(&from, &to, self.setting.phase.loss.alive_target);
        if found.value > 0.0 {
            seed(tape, end, &found.end, weight);
            seed(tape, start, &found.start, weight);
        }
        found.value
    }
}

fn wide<F: Real>(matrix: &Matrix<F>) -> Vec<f64> {
    matrix.centre.iter().map(|value| value.wide()).collect()
}

fn seed<F: Real>(tape: &mut ProgramTape<'_, F>, at: ValueId, slopes: &[f64], weight: f64) {
    let value = tape.value(at);
    let (rows, columns) = (value.rows, value.columns);
    let slopes = slopes.iter().map(|slope| F::of(weight * slope)).collect();
    tape.seed(at, Matrix::points(rows, columns, slopes));
}

/// How far a state moves, as a part of its size; 0 where it has none.
fn motion<F: Real>(start: &Matrix<F>, end: &Matrix<F>) -> f64 {
    let size: f64 = start.centre.iter().map(|value| value.wide().abs()).sum();
    let pairs = start.centre.iter().zip(&end.centre);
    let moved: f64 = pairs.map(|(from, to)| (to.wide() - from.wide()).abs()).sum();
    if size > 0.0 { moved / size } else { 0.0 }
}
