//! Where a row loses, and better slopes for it inside the first ODE block.

use std::sync::Arc;

use gains_core::Precision;
use gains_ode::Inference;

use super::draft::Trial;
use super::part::{Inner, Part, Target};
use super::{Brancher, MOST_INNER};
use crate::analysis::Analysis;
use crate::graph_pull::{GraphPull, SlopeTable};
use crate::looseness::{Journey, Looseness, NeuronLoss, StepLosses};

impl<'a> Brancher<'a, '_> {
    /// Where the worst row of a part loses.
    pub(super) fn looseness(&self, part: &Part) -> Option<Looseness> {
        let worst = part.worst(self.task.property)?;
        let front: Vec<f64> = worst.losses.iter().map(|layer| layer.iter().sum()).collect();
        let mut steps: Vec<(f64, f64)> = Vec::new();
        for &(time, _, cost) in worst.steps.iter() {
            match steps.iter_mut().find(|(t, _)| *t == time) {
                Some((_, sum)) => *sum += cost,
                None => steps.push((time, cost)),
            }
        }
        let inputs: Vec<&[f64]> = worst.minimiser.iter().map(Vec::as_slice).collect();
        let watch = self.task.clock.watch();
        let run = Inference::run_within(self.task.program, &inputs, Precision::Float64, &watch).ok()?;
        let rows = self.task.rows;
        let row = rows.row(worst.property).iter().zip(&run.output).map(|(a, b)| a * b);
        let truth = row.sum::<f64>() + rows.constant[worst.property];
        let mut looseness = Looseness { truth, front, steps, rest: 0.0 };
        let found = looseness.front.iter().sum::<f64>() + looseness.in_steps();
        looseness.rest = (truth - worst.reached - found).max(0.0);
        Some(looseness)
    }

    /// What the steps of the first ODE block cost a target's row where it is smallest.
    pub(super) fn step_losses(&self, pull: &GraphPull<'_>, trial: &Trial, target: &Target) -> StepLosses {
        let form = target.variant.ode.form;
        let journey = Journey { block: pull.block, graph: pull.graph, ledger: &trial.ledger, form };
        journey.follow(&target.output)
    }

    /// Slopes inside the first ODE block that should serve a row better.
    pub(super) fn tuned(
        &self,
        analysis: &Analysis<'a>,
        trial: &Trial,
        target: &Target,
        rate: f64,
    ) -> Option<SlopeTable> {
        let pull = analysis.first_ode()?;
        let losses = self.step_losses(&pull, trial, target);
        let table = match &trial.table {
            Some(table) => SlopeTable::clone(table),
            None => pull.slope_table(target.variant.ode.slope),
        };
        moved(table, &losses, rate)
    }

    /// The neurons of the dynamics that cost a target's row most, among those that can be split, and what the
    /// steps cost it.
    pub(super) fn inner(
        &self,
        analysis: &Analysis<'a>,
        trial: &Trial,
        target: &Target,
    ) -> (Vec<Inner>, Vec<(f64, f64, f64)>) {
        let Some(pull) = analysis.first_ode() else { return Default::default() };
        let losses = self.step_losses(&pull, trial, target);
        let mut found: Vec<((usize, usize), f64, f64)> = losses
            .by_neuron
            .iter()
            .filter_map(|(&(value, neuron), loss)| {
                let initially = pull.initially(value, neuron)?;
                let inside = |at: f64| initially.lower < at && at < initially.upper;
                let middle = 0.5 * (initially.lower + initially.upper);
                let at = if inside(-loss.drift) { -loss.drift } else { middle };
                inside(at).then_some(((value, neuron), loss.total, at))
            })
            .collect();
        found.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let inner = found.into_iter().take(MOST_INNER).filter_map(|((value, neuron), loss, at)| {
            let argument = self.argument(value)?;
            let row = |sign: f64| pull.entry_row(argument, neuron, sign).map(Arc::new);
            let weight = losses.by_neuron.get(&(value, neuron)).map_or((0.0, 0.0), |n| n.weight);
            Some(Inner { value, neuron, loss, at, weight, below: [row(1.0)?, row(-1.0)?] })
        });
        (inner.collect(), losses.by_step)
    }
}

/// Slopes moved along what they are worth to a row; none if they are worth nothing.
pub(crate) fn moved(mut table: SlopeTable, losses: &StepLosses, rate: f64) -> Option<SlopeTable> {
    let largest = losses.by_neuron.values().map(|n| n.slope_gain.abs()).fold(0.0, f64::max);
    if largest.is_nan() || largest <= 0.0 {
        return None;
    }
    for (&(value, neuron), NeuronLoss { slope_gain: gain, .. }) in &losses.by_neuron {
        let slope = &mut table[value][neuron];
        // Large gains decide; small ones still count.
        let step = rate * (gain / largest).abs().sqrt().copysign(*gain);
        *slope = (f64::from(*slope) + step).clamp(0.0, 1.0) as f32;
    }
    Some(table)
}
