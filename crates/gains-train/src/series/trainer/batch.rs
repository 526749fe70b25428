//! What is done with one batch.

use super::super::config::ForecastMethod;
use super::super::loss::Terms;
use super::super::metrics::ForecastBatch;
use super::super::pass::{Job, run};
use super::super::sample::{Region, Sample};
use super::ForecastTrainer;
use crate::cpu::Real;
use crate::device::AdamStep;
use crate::metrics::Position;
use crate::optimiser;
use crate::random::{Purpose, seed_at};
use crate::solve::{Failure, average};

impl<F: Real> ForecastTrainer<F> {
    /// What is done with a batch of so many samples, and what its report begins with.
    fn job(&self, at: Position, samples: usize) -> (Job<'_>, ForecastBatch) {
        let config = &self.config;
        let schedule = config.eps.filter(|_| config.method == ForecastMethod::Provable);
        let eps = schedule.map_or(0.0, |schedule| schedule.within(config.epochs).at(at.epoch));
        let seed = |purpose| seed_at(config.seed, purpose, 0, at.epoch, at.batch);
        let batches = u64::from(self.batches());
        let done = u64::from(at.epoch) * batches + u64::from(at.batch);
        let warmth = config.optimiser.warmth(done, u64::from(config.epochs) * batches);
        let report = ForecastBatch {
            at,
            batches: self.batches(),
            samples,
            eps,
            ratio: config.ratio(at.epoch),
            q: config.q.within(config.epochs).at(at.epoch),
            divergence_weight: config.loss.divergence(at.epoch),
            rate: config.optimiser.rate * config.optimiser.schedule.at(at.epoch, config.epochs) * warmth,
            ..ForecastBatch::default()
        };
        let among =
            |names: &[String], list: &[String]| names.iter().map(|name| list.contains(name)).collect();
        let perturbed = config.perturbed();
        let region = (eps > 0.0).then(|| Region {
            eps,
            ratio: report.ratio,
            bounded: among(&self.names.features, &perturbed.bounded),
            statics: among(&self.names.statics, &perturbed.statics),
        });
        let part = schedule.map_or(0.0, |schedule| eps / schedule.target);
        let terms = Terms {
            samples: 0.0,
            entries: 0.0,
            elbo: config.loss.elbo,
            divergence: report.divergence_weight,
            error: config.loss.error,
            whole: 1.0,
            width: config.loss.width,
        };
        let job = Job {
            solver: &config.solver,
            region,
            terms,
            robust: config.loss.robust * part,
            q: report.q,
            first_step: None,
            noise: normal(samples * self.weights.network.latent_width(), seed(Purpose::Latent)),
            explore: seed(Purpose::Explore),
        };
        (job, report)
    }

    /// Trains on the batch that comes next.
    pub(super) fn train(&mut self, at: Position) -> Result<ForecastBatch, Failure> {
        let indices = self.course.samples();
        let samples: Vec<&Sample> = indices.iter().map(|index| &self.training[*index as usize]).collect();
        let (job, mut report) = self.job(at, samples.len());
        let outcome = self.install(|| run(&self.weights, &samples, &job))?;
        let (count, entries) = (samples.len() as f64, outcome.entries as f64);
        report.entries = outcome.entries;
        report.loss = outcome.total;
        (report.clean, report.robust) = (outcome.clean, outcome.robust);
        report.likelihood = outcome.points.likelihood / count;
        report.divergence = outcome.points.divergence / count;
        report.error = outcome.points.absolute / entries;
        report.robust_error = outcome.boxes.absolute / entries;
        report.width = outcome.boxes.width / entries;
        report.concrete_steps = outcome.visits.len();
        (report.abstract_steps, report.splits) = (outcome.abstract_steps, outcome.splits);
        report.initial_step = outcome.initial_step;
        // A step of scaled time is as long as the samples' times are on average.
        let scale = samples.iter().map(|sample| sample.target_time).sum::<f64>() / count;
        report.average_step = average(self.average_step, outcome.initial_step * scale).min(1.0);
        if !outcome.total.is_finite() {
            return Err(Failure::Diverged(format!("the loss is {}", outcome.total)));
        }
        let optimiser = &self.config.optimiser;
        let step = AdamStep { rate: report.rate, ..optimiser.step(1.0, self.updates + 1) };
        let moments = (&mut self.moments.0[..], &mut self.moments.1[..]);
        let (parameters, gradient) = (&mut self.weights.parameters, &outcome.gradient);
        report.gradient_norm =
            optimiser::update(optimiser.method, &step, None, parameters, gradient, moments);
        if !report.gradient_norm.is_finite() {
            return Err(Failure::Diverged(format!("the norm of the gradient is {}", report.gradient_norm)));
        }
        self.weights.refresh();
        self.updates += 1;
        self.average_step = report.average_step;
        Ok(report)
    }
}

/// Normally distributed numbers (Box-Muller).
fn normal(count: usize, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all = Vec::with_capacity(count + 1);
    while all.len() < count {
        // The first factor's number lies in (0, 1].
        let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
        let angle = 2.0 * std::f64::consts::PI * random.f64();
        all.extend([radius * angle.cos(), radius * angle.sin()]);
    }
    all.truncate(count);
    all
}
