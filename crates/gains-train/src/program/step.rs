//! Runge-Kutta steps of a batch on a tape.

use gains_ode::Tableau;

use super::blueprint::Circuit;
use super::machine::Machine;
use super::ops::{Clock, Operation, Rule};
use super::tape::{ProgramTape, ValueId};
use crate::device::StepForm;

/// A step that was tried.
#[derive(Clone, Copy, Debug)]
pub struct Tried {
    /// Where it ends.
    pub end: ValueId,
    /// The estimate of its error, if it was asked for and the method has one.
    pub error: Option<ValueId>,
    /// The slope at its beginning.
    pub slope: ValueId,
}

/// All values of a circuit.
pub fn walk<'p, M: Machine>(
    tape: &mut ProgramTape<'p, M>,
    circuit: &'p Circuit,
    input: ValueId,
    time: f64,
) -> Vec<ValueId> {
    let mut values = vec![input];
    for (_, node) in circuit.nodes() {
        let from = node.from.iter().map(|v| values[*v]).collect();
        values.push(tape.apply(&node.operator, from, Clock::at(time)));
    }
    values
}

/// Stages of a step so far.
struct Stages {
    /// kᵢ.
    slopes: Vec<ValueId>,
    /// kᵢ − kᵢ₋₁, from the second stage on; empty in independent form.
    differences: Vec<ValueId>,
    /// All values of the stage before.
    before: Vec<ValueId>,
}

/// A step of a batch.
pub struct Stepper<'t, 'p, M: Machine> {
    /// Where it is recorded.
    pub tape: &'t mut ProgramTape<'p, M>,
    /// The right-hand side.
    pub dynamics: &'p Circuit,
    /// The method.
    pub tableau: &'static Tableau,
    /// How boxes go through it.
    pub form: StepForm,
}

impl<'p, M: Machine> Stepper<'_, 'p, M> {
    /// Tries a step; `measured` if its error is asked for.
    pub fn step(&mut self, from: ValueId, time: f64, step: f64, measured: bool) -> Tried {
        let tableau = self.tableau;
        let count = if measured { tableau.len() } else { tableau.solution_stages() };
        let mut stages = Stages { slopes: Vec::new(), differences: Vec::new(), before: Vec::new() };
        let mut last = from;
        for i in 0..count {
            let weights: Vec<f64> = tableau.stages[i].iter().map(|a| step * a).collect();
            let plain = self.combine(Some(from), &weights, &stages, from);
            let at = time + tableau.nodes[i] * step;
            last = match self.is_difference() && i > 0 {
                true => self.difference_stage(&mut stages, plain, i, (at, step)),
                false => {
                    stages.before = walk(self.tape, self.dynamics, plain, at);
                    plain
                }
            };
            stages.slopes.push(stages.before[self.dynamics.output()]);
        }
        let scaled = |weights: &[f64]| weights.iter().map(|w| step * w).collect::<Vec<f64>>();
        let reuse = !self.is_difference() && count == tableau.len() && tableau.first_same_as_last();
        let end = match reuse {
            true => last,
            false => self.enclosed(Some(from), &scaled(tableau.weights), &stages, from),
        };
        let error = (measured && tableau.estimates_error())
            .then(|| self.enclosed(None, &scaled(tableau.error), &stages, from));
        Tried { end, error, slope: stages.slopes[0] }
    }

    fn is_difference(&self) -> bool {
        self.form == StepForm::Difference
    }

    /// `base + Σ wⱼ kⱼ`.
    fn combine(&mut self, base: Option<ValueId>, weights: &[f64], stages: &Stages, like: ValueId) -> ValueId {
        let terms = stages.slopes.iter().copied().zip(weights.iter().copied()).filter(|(_, w)| *w != 0.0);
        let terms: Vec<(ValueId, f64)> = base.map(|base| (base, 1.0)).into_iter().chain(terms).collect();
        match terms[..] {
            [(only, 1.0)] => only,
            _ => self.tape.sum(terms, like),
        }
    }

    /// The same, of boxes in difference form also as `base + (Σ wⱼ) k₁ + Σ_{m≥2} (Σ_{j≥m} wⱼ) (kₘ − kₘ₋₁)`.
    fn enclosed(
        &mut self,
        base: Option<ValueId>,
        weights: &[f64],
        stages: &Stages,
        like: ValueId,
    ) -> ValueId {
        let direct = self.combine(base, weights, stages, like);
        if stages.differences.is_empty() {
            return direct;
        }
        let rest = |m: usize| weights.iter().skip(m).sum::<f64>();
        let mut terms: Vec<(ValueId, f64)> = base.map(|base| (base, 1.0)).into_iter().collect();
        terms.push((stages.slopes[0], rest(0)));
        terms.extend(stages.differences.iter().enumerate().map(|(m, id)| (*id, rest(m + 1))));
        let telescoped = self.tape.sum(terms, like);
        self.tape.rule(Rule::Meet, vec![direct, telescoped])
    }

    /// A stage through its difference to the one before (`docs/difference-form.md`); returns its input.
    fn difference_stage(
        &mut self,
        stages: &mut Stages,
        plain: ValueId,
        i: usize,
        (time, step): (f64, f64),
    ) -> ValueId {
        let earlier = self.tableau.stages[i - 1];
        let change = |(j, a): (usize, &f64)| step * (a - earlier.get(j).copied().unwrap_or(0.0));
        let change: Vec<f64> = self.tableau.stages[i].iter().enumerate().map(change).collect();
        let elapsed = (self.tableau.nodes[i] - self.tableau.nodes[i - 1]) * step;
        let apart = self.enclosed(None, &change, stages, plain);
        let input = self.tape.rule(Rule::Value, vec![plain, stages.before[0], apart]);
        let (mut values, mut moved) = (vec![input], vec![apart]);
        let dynamics = self.dynamics;
        for (value, node) in dynamics.nodes() {
            let of = |all: &[ValueId]| node.from.iter().map(|v| all[*v]).collect::<Vec<ValueId>>();
            let image = self.tape.apply(&node.operator, of(&values), Clock::at(time));
            let change = match &node.operator {
                Operation::Each(each) => {
                    let arguments = [of(&stages.before), of(&values), of(&moved)].concat();
                    self.tape.rule(Rule::Moved(*each), arguments)
                }
                linear => self.tape.apply(linear, of(&moved), Clock::passed(elapsed)),
            };
            let before = stages.before[value];
            let next = self.tape.rule(Rule::Value, vec![image, before, change]);
            moved.push(self.tape.rule(Rule::Change, vec![change, before, next]));
            values.push(next);
        }
        stages.differences.push(moved[dynamics.output()]);
        stages.before = values;
        input
    }
}
