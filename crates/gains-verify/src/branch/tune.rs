//! Where a row loses, and what it should choose inside the first ODE block instead.

use std::sync::Arc;

use gains_core::Precision;
use gains_ode::Inference;

use super::draft::Trial;
use super::part::{Inner, Part, Target};
use super::{Brancher, MOST_INNER};
use crate::analysis::Analysis;
use crate::graph_pull::{Freedom, GraphPull};
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
        journey.follow(&self.taken(&target.output))
    }

    /// What should serve a row better inside the first ODE block.
    pub(super) fn tuned(
        &self,
        analysis: &Analysis<'a>,
        trial: &Trial,
        target: &Target,
        rate: f64,
    ) -> Option<Freedom> {
        let pull = analysis.first_ode()?;
        let losses = self.step_losses(&pull, trial, target);
        let freedom = match &trial.freedom {
            Some(freedom) => Freedom::clone(freedom),
            None => pull.freedom(target.variant.ode.slope),
        };
        moved(freedom, &losses, rate)
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
            let row =
                |sign: f64| pull.entry_row(argument, neuron, sign).map(|row| Arc::new(self.widened(row)));
            let weight = losses.by_neuron.get(&(value, neuron)).map_or((0.0, 0.0), |n| n.weight);
            Some(Inner { value, neuron, loss, at, weight, below: [row(1.0)?, row(-1.0)?] })
        });
        (inner.collect(), losses.by_step)
    }
}

/// Slopes, and parts that leave the chain, moved along what they are worth to a row; none if they are worth nothing.
pub(crate) fn moved(mut freedom: Freedom, losses: &StepLosses, rate: f64) -> Option<Freedom> {
    let by_slope = losses.by_neuron.values().map(|n| n.slope_gain);
    let (slopes, direct) =
        (Stride::new(by_slope, rate), Stride::new(losses.direct_gain.values().copied(), rate));
    for (&(value, neuron), NeuronLoss { slope_gain: gain, .. }) in &losses.by_neuron {
        slopes.go(&mut freedom.slopes[value][neuron], *gain, (0.0, 1.0));
    }
    for (&(stage, entry), gain) in &losses.direct_gain {
        direct.go(&mut freedom.direct[stage - 1][entry], *gain, BOTH_WAYS);
    }
    (slopes.goes_anywhere() || direct.goes_anywhere()).then_some(freedom)
}

/// Neither way through a stage is given up: of a way that nothing takes, nobody knows what it is worth.
const BOTH_WAYS: (f32, f32) = (0.02, 0.98);

/// How far numbers of one kind go.
struct Stride {
    largest: f64,
    rate: f64,
}

impl Stride {
    fn new(gains: impl Iterator<Item = f64>, rate: f64) -> Self {
        Self { largest: gains.map(f64::abs).fold(0.0, f64::max), rate }
    }

    fn goes_anywhere(&self) -> bool {
        self.largest > 0.0
    }

    /// Large gains decide; small ones still count.
    fn go(&self, number: &mut f32, gain: f64, (least, most): (f32, f32)) {
        if self.goes_anywhere() {
            let step = self.rate * (gain / self.largest).abs().sqrt().copysign(gain);
            *number = ((f64::from(*number) + step) as f32).clamp(least, most);
        }
    }
}
