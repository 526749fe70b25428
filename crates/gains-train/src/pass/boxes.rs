//! Boxes: along sampled trajectories through the network, and back.

use super::{DevicePass, DeviceSteps};
use crate::config::Aggregation;
use crate::device::{Batch, Device, Join, Pull};
use crate::engine::{BoxTrip, FirstStep, Reference};
use crate::explore::{Rules, explore};
use crate::loss::width::width_share;
use crate::solve::Failure;
use crate::tape::{Recording, Tape, ValueId};

/// Boxes in front of the last layer.
pub struct BoxRun<'p, D: Device> {
    pub(super) tape: Tape<'p, D>,
    /// One for each box that goes into the loss of a sample.
    pub(super) features: Vec<ValueId>,
    pub(super) trip: BoxTrip,
}

impl<'p, D: Device> DevicePass<'p, D> {
    /// Boxes as far as the last layer.
    pub(super) fn explore_boxes(
        &mut self,
        region: Batch<D::Tensor>,
        reference: &Reference,
        rules: &Rules,
        random: &mut fastrand::Rng,
    ) -> Result<BoxRun<'p, D>, Failure> {
        let mut tape = Tape::new(Recording::On);
        let input = tape.input(region, false);
        let state = tape.parts(self.device, self.route.before, input)?;
        let first = FirstStep::Given(reference.first.first().copied().unwrap_or(0.0));
        let stepping = self.stepping(tape.value(state), first)?.stepping;
        let mut steps = DeviceSteps {
            device: &mut *self.device,
            tape: &mut tape,
            ode: self.route.ode,
            method: stepping.method,
            form: self.setting.phase.step_form,
            charged: self.setting.phase.loss.error > 0.0,
        };
        let found = explore(&mut steps, &stepping, state, &reference.visits[0], rules, random)?;
        let joined = match self.setting.phase.aggregation {
            Aggregation::Stack => None,
            Aggregation::Average => Some(Join::Average),
            Aggregation::WorstCase => Some(Join::Hull),
        };
        let trajectories = found.ends.len();
        let ends = match joined {
            Some(how) if trajectories > 1 => vec![tape.join(self.device, how, found.ends)?],
            Some(_) | None => found.ends,
        };
        let mut features = Vec::with_capacity(ends.len());
        for end in ends {
            features.push(tape.parts(self.device, self.route.after, end)?);
        }
        let (boxes, splits, steps) = (features.len(), found.splits, found.steps);
        Ok(BoxRun { tape, features, trip: BoxTrip { boxes, trajectories, splits, steps } })
    }

    /// The loss of boxes and their way back: a pull for each box of a sample, and `width` times the widths. Returns the mean
    /// over the batch of the upper bounds of δ, summed over steps.
    pub(super) fn take_boxes_back(
        &mut self,
        mut run: BoxRun<'p, D>,
        pulls: &[Pull<'_>],
        width: f64,
    ) -> Result<f64, Failure> {
        let width = width * width_share(self.setting.phase, run.trip.boxes);
        for (features, pull) in run.features.iter().zip(pulls) {
            self.pull(&mut run.tape, *features, *pull, width)?;
        }
        let scale = 1.0 / (self.samples() as f64 * self.setting.config.solver.tolerance);
        Ok(run.tape.backward(self.device, self.setting.phase.loss.error * scale)?.errors * scale)
    }
}
