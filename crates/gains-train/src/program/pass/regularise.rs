//! What a loss asks of the way of boxes, besides where they end.

use gains_core::activation::Activation;

use super::ProgramPass;
use super::boxes::BoxRun;
use super::steps::Charge;
use crate::cpu::Real;
use crate::engine::BoxTerms;
use crate::loss::{balance, decisions, tightness};
use crate::matrix::Matrix;
use crate::program::blueprint::Circuit;
use crate::program::machine::Machine;
use crate::program::ops::{Each, Operation};
use crate::program::tape::{ProgramTape, ValueId};

/// Values that regularisers look at.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    /// What the first layer with weights takes.
    first: Option<ValueId>,
    /// What activations take; whether these have a kink at 0.
    activations: Vec<(ValueId, bool)>,
    /// Ends of ODE blocks.
    ends: Vec<ValueId>,
}

impl Watched {
    /// Looks at the values of a circuit.
    pub(super) fn circuit(&mut self, circuit: &Circuit, values: &[ValueId]) {
        for (_, node) in circuit.nodes() {
            let from = values[node.from[0]];
            match &node.operator {
                Operation::Layer(_) => self.first = self.first.or(Some(from)),
                Operation::Each(Each::Curve(f)) => self
                    .activations
                    .push((from, matches!(f, Activation::Relu | Activation::LeakyRelu { .. }))),
                _ => {}
            }
        }
    }

    /// Looks at the end of an ODE block.
    pub(super) fn end(&mut self, end: ValueId) {
        self.ends.push(end);
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// A gradient of a box: one number for each middle, and one for all radii.
fn part(of: &Matrix<f64>, middles: impl Iterator<Item = f64>, radius: f64) -> Matrix<f64> {
    let centre = middles.collect();
    Matrix { rows: of.rows, columns: of.columns, centre, radius: vec![radius; of.radius.len()] }
}

impl<'p, M: Machine> ProgramPass<'p, M> {
    /// Seeds what the phase asks of the way of boxes.
    pub(super) fn regularise(&self, run: &mut BoxRun<'p, M>) -> BoxTerms {
        let loss = &self.setting.phase.loss;
        let mut terms = BoxTerms::default();
        if loss.error > 0.0 || loss.decisions > 0.0 {
            let reached = run.tape.reached(&run.outputs);
            for charge in std::mem::take(&mut run.charged) {
                if ProgramTape::<M>::is_among(charge.end, &reached) {
                    self.charge(&mut run.tape, &charge, &mut terms);
                }
            }
        }
        if let Some(watched) = run.watched.take() {
            terms.tightness = self.tighten(&mut run.tape, &watched);
            terms.balance = self.balance(&mut run.tape, &watched);
        }
        terms
    }

    /// The error estimates of a step: how large they may be, and what they leave open.
    fn charge(&self, tape: &mut ProgramTape<'p, M>, charge: &Charge, terms: &mut BoxTerms) {
        let loss = &self.setting.phase.loss;
        let (share, scale) = (1.0 / self.count() as f64, 1.0 / charge.tolerance);
        terms.error += share * scale * charge.upper;
        let error = self.machine.read(tape.value(charge.error));
        let thresholds: Vec<f64> = charge.increase_below.into_iter().chain([1.0]).collect();
        let mut all = error.zeros_like();
        for row in 0..error.rows {
            let entries = row * error.columns..(row + 1) * error.columns;
            let ends = entries.clone().map(|at| {
                let (centre, radius) = (error.centre[at].abs(), error.radius[at]);
                [if centre > radius { centre - radius } else { 0.0 }, centre + radius]
            });
            let [low, high] = ends.fold([0.0; 2], |[low, high], [l, h]| [low + l, high + h]);
            let (value, [of_low, of_high]) = decisions::open([scale * low, scale * high], &thresholds);
            terms.decisions += share * value;
            let of_low = share * scale * loss.decisions * of_low;
            let of_high = share * scale * (loss.error + loss.decisions * of_high);
            for at in entries {
                let (centre, radius) = (error.centre[at], error.radius[at]);
                let below = if centre.abs() > radius { of_low } else { 0.0 };
                all.centre[at] = (below + of_high) * centre.sign();
                all.radius[at] = of_high - below;
            }
        }
        tape.seed(charge.error, self.machine.put(all));
    }

    fn tighten(&self, tape: &mut ProgramTape<'p, M>, watched: &Watched) -> f64 {
        let weight = self.setting.early * self.setting.phase.loss.tightness;
        let Some(first) = watched.first else { return 0.0 };
        let places: Vec<ValueId> =
            watched.activations.iter().map(|(id, _)| *id).chain(watched.ends.iter().copied()).collect();
        let boxes = |id: ValueId| self.machine.read(tape.value(id));
        let radii: Vec<f64> = places.iter().map(|id| mean(&boxes(*id).radius)).collect();
        let term = tightness::tightness(mean(&boxes(first).radius), &radii);
        if weight > 0.0 {
            for (id, slope) in places.into_iter().zip(term.others).chain([(first, term.first)]) {
                let value = self.machine.read(tape.value(id));
                let each = weight * slope / value.radius.len().max(1) as f64;
                let part = part(&value, value.centre.iter().map(|_| 0.0), each);
                tape.seed(id, self.machine.put(part));
            }
        }
        term.value
    }

    fn balance(&self, tape: &mut ProgramTape<'p, M>, watched: &Watched) -> f64 {
        let weight = self.setting.early * self.setting.phase.loss.balance;
        let kinks = watched.activations.iter().filter(|(_, kink)| *kink).map(|(id, _)| *id);
        let kinks: Vec<ValueId> = kinks.collect();
        let share = 1.0 / kinks.len().max(1) as f64;
        let mut total = 0.0;
        for id in kinks {
            let value = self.machine.read(tape.value(id));
            let (term, slopes) = balance::balance(&value.centre);
            total += share * term;
            if weight > 0.0 && term > 0.0 {
                let part = part(&value, slopes.iter().map(|slope| weight * share * slope), 0.0);
                tape.seed(id, self.machine.put(part));
            }
        }
        total
    }
}
