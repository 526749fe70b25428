//! What is done with one batch.

use crate::config::{LossWeights, Method};
use crate::device::{AdamStep, Device, LabelData};
use crate::explore::Rules;
use crate::metrics::{BatchReport, Evaluation, LossTerms, Position};
use crate::pass::{FirstStep, Pass, Route, width_share, width_weights};
use crate::random::{Purpose, seed_at};
use crate::schedule::trajectories;
use crate::solve::{Failure, average};

use super::Trainer;

impl<D: Device> Trainer<D> {
    /// Trains on the images at these indices.
    pub(super) fn train(&mut self, at: Position, indices: &[u32]) -> Result<BatchReport, Failure> {
        let phase = &self.config.phases[at.phase];
        let adam = &self.config.optimiser;
        let step = AdamStep {
            rate: adam.rate * adam.schedule.at(at.epoch, phase.epochs),
            decay: adam.decay,
            beta1: adam.beta1,
            beta2: adam.beta2,
            epsilon: adam.epsilon,
            clip: adam.clip,
            count: self.updates + 1,
        };
        let report = self.pass(at, indices, FirstStep::Rule, Some(&step))?;
        for (what, value) in
            [("the loss", report.loss.total), ("the norm of the gradient", report.gradient_norm)]
        {
            if !value.is_finite() {
                return Err(Failure::Diverged(format!("{what} is {value}")));
            }
        }
        self.updates += 1;
        self.average_step = report.average_step;
        Ok(report)
    }

    /// The loss of a batch and its gradient; an update, if one is given. Nothing else changes.
    pub(super) fn pass(
        &mut self,
        at: Position,
        indices: &[u32],
        first: FirstStep,
        update: Option<&AdamStep>,
    ) -> Result<BatchReport, Failure> {
        let phase = &self.config.phases[at.phase];
        let weights = phase.loss;
        let target = phase.eps.map_or(0.0, |eps| eps.target);
        let mut report = BatchReport {
            at,
            batches: self.batches(),
            samples: indices.len(),
            eps: phase.eps.map_or(0.0, |eps| eps.at(at.epoch)),
            kappa: trajectories(&phase.kappa, at.epoch),
            q: phase.q.at(at.epoch),
            average_step: self.average_step,
            rate: update.map_or(0.0, |step| step.rate),
            ..BatchReport::default()
        };
        let labels: Vec<u8> = indices.iter().map(|index| self.labels[*index as usize]).collect();
        let width_weights = width_weights(phase, &labels, self.classes.len());
        let labels = self.device.labels(&LabelData { labels, width_weights })?;
        let pixels = self.device.gather(indices)?;
        let route = Route::of(&self.plan).map_err(|e| Failure::Diverged(e.to_string()))?;
        let samples = indices.len();
        let seed = |purpose| seed_at(self.config.seed, purpose, at.phase, at.epoch, at.batch);
        let mut pass =
            Pass { device: &mut self.device, route, config: &self.config, phase, labels: &labels, samples };

        let attacks = self.config.method == Method::Adversarial && report.eps > 0.0;
        let attacked = match attacks {
            true => Some(pass.attack(&pixels, report.eps, self.average_step, seed(Purpose::Attack))?),
            false => None,
        };
        // An attack leaves its own traces.
        pass.device.take_ledger()?;
        pass.device.clear_gradients()?;

        let bounds = self.config.method == Method::Provable && report.eps > 0.0;
        let robust_weight = if bounds { weights.robust * report.eps / target } else { 0.0 };
        let points = pass.device.points(attacked.as_ref().unwrap_or(&pixels))?;
        let clean = pass.clean(points, first, (1.0 - robust_weight) / samples as f64, false)?;
        report.concrete_steps = clean.visits.len();
        report.loss.steady = clean.steady;
        if let Some(step) = clean.initial_step {
            report.initial_step = step;
            report.average_step = average(self.average_step, step);
        }
        let mut boxes = 0;
        if bounds {
            let region = pass.device.region(&pixels, report.eps)?;
            let rules = Rules {
                trajectories: report.kappa as usize,
                q: report.q,
                include_reference: phase.include_reference,
            };
            let mut random = fastrand::Rng::with_seed(seed(Purpose::Explore));
            let robust = pass.robust(region, &clean, &rules, &mut random, robust_weight, weights.width)?;
            boxes = robust.boxes;
            report.trajectories = robust.trajectories;
            report.splits = robust.splits;
            report.abstract_steps = robust.steps;
            report.loss.error = robust.error;
        }
        let share = if bounds { width_share(phase, boxes) } else { 0.0 };
        if let Some(step) = update {
            self.device.update(step)?;
        }
        let ledger = self.device.take_ledger()?;
        report.gradient_norm = ledger.gradient_norm;
        report.loss.clean = ledger.clean.cross_entropy / samples as f64;
        report.accuracy = ledger.clean.correct / samples as f64;
        if bounds {
            report.loss.robust = ledger.robust.cross_entropy / ledger.robust.samples;
            report.robust_accuracy = ledger.robust.correct / ledger.robust.samples;
            report.loss.width = ledger.robust.width * share;
        }
        report.loss.total = total(&report.loss, &weights, robust_weight);
        Ok(report)
    }

    /// The test images, solved as in a phase.
    pub(super) fn evaluate_at(&mut self, phase: usize) -> Result<Evaluation, Failure> {
        let phase = &self.config.phases[phase];
        let route = Route::of(&self.plan).map_err(|e| Failure::Diverged(e.to_string()))?;
        let first = self.labels.len();
        self.device.take_ledger()?;
        for (number, labels) in self.test_labels.chunks(self.config.batch).enumerate() {
            let start = first + number * self.config.batch;
            let indices: Vec<u32> = (start..start + labels.len()).map(|index| index as u32).collect();
            let pixels = self.device.gather(&indices)?;
            let data = LabelData { labels: labels.to_vec(), width_weights: vec![0.0; labels.len()] };
            let labels = self.device.labels(&data)?;
            let points = self.device.points(&pixels)?;
            let samples = indices.len();
            let mut pass = Pass {
                device: &mut self.device,
                route,
                config: &self.config,
                phase,
                labels: &labels,
                samples,
            };
            pass.evaluate(points, self.average_step)?;
        }
        let tally = self.device.take_ledger()?.clean;
        let images = self.test_labels.len();
        let count = images.max(1) as f64;
        Ok(Evaluation { images, accuracy: tally.correct / count, cross_entropy: tally.cross_entropy / count })
    }
}

fn total(terms: &LossTerms, weights: &LossWeights, robust_weight: f64) -> f64 {
    (1.0 - robust_weight) * terms.clean
        + robust_weight * terms.robust
        + weights.width * terms.width
        + weights.error * terms.error
        + weights.steady * terms.steady
}
