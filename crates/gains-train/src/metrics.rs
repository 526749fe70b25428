//! What a run reports of itself.

use serde::{Deserialize, Serialize};

/// Where a run is: the batch that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// Phase, from 0.
    pub phase: usize,
    /// Epoch of the phase, from 0.
    pub epoch: u32,
    /// Batch of the epoch, from 0.
    pub batch: u32,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "phase {}, epoch {}, batch {}", self.phase + 1, self.epoch + 1, self.batch + 1)
    }
}

/// The terms of a loss; each already a mean over the batch, before its weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossTerms {
    /// Weighted sum of the others.
    pub total: f64,
    /// Cross-entropy of the points (attacked ones, in adversarial training).
    pub clean: f64,
    /// Cross-entropy of the worst case of the boxes.
    pub robust: f64,
    /// Widths of the output boxes.
    pub width: f64,
    /// Upper bounds of δ, summed over box steps.
    pub error: f64,
    /// Boxes that grow from layer to layer.
    #[serde(default)]
    pub tightness: f64,
    /// Activations that are nearly all off or all on.
    #[serde(default)]
    pub balance: f64,
    /// Decisions of the controller that boxes leave open.
    #[serde(default)]
    pub decisions: f64,
    /// How far the state moves after the end time.
    pub steady: f64,
    /// How far its motion is from what is wanted of it.
    #[serde(default)]
    pub alive: f64,
}

/// What series have besides: numbers of their latent states, and over how many targets errors and widths are means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latent {
    /// Observed targets.
    pub entries: f64,
    /// Log-likelihood of what was observed, summed over samples; the mean, of an epoch.
    pub likelihood: f64,
    /// Divergence of the latent states, likewise.
    pub divergence: f64,
}

/// One batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchReport {
    /// Which one.
    pub at: Position,
    /// Batches in the epoch.
    pub batches: u32,
    /// Samples.
    pub samples: usize,
    /// The loss.
    pub loss: LossTerms,
    /// Part of the points classified right (attacked ones, in adversarial training).
    pub accuracy: f64,
    /// Part of the boxes classified right as a whole, along the sampled trajectories; 0 without boxes.
    pub robust_accuracy: f64,
    /// Mean absolute error of the points, of networks that predict numbers.
    #[serde(default)]
    pub error: f64,
    /// Bound of it over the boxes.
    #[serde(default)]
    pub robust_error: f64,
    /// The perturbation.
    pub eps: f64,
    /// κ.
    pub kappa: u32,
    /// q.
    pub q: f64,
    /// Trajectories followed.
    pub trajectories: usize,
    /// Box steps at which the trajectory split.
    pub splits: usize,
    /// Trial steps of the points.
    pub concrete_steps: usize,
    /// Trial steps of the boxes.
    pub abstract_steps: usize,
    /// First step of the solver; 0 with equal steps.
    pub initial_step: f64,
    /// How far the state moves in the neural ODE, as a part of its size; where it was looked at.
    #[serde(default)]
    pub motion: Option<f64>,
    /// Running average of first steps, after this batch.
    pub average_step: f64,
    /// Learning rate.
    pub rate: f64,
    /// Euclidean norm of the gradient, before clipping.
    pub gradient_norm: f64,
    /// What series have besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latent: Option<Latent>,
}

impl BatchReport {
    /// Over how many things errors and widths are means.
    fn entries(&self) -> f64 {
        self.latent.map_or(self.samples as f64, |latent| latent.entries)
    }
}

/// How the network does on test images, the first step being the running average. Images share step sizes with their
/// batch, as in training, so this is an estimate; inference looks at one image at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Images.
    pub images: usize,
    /// Part classified right.
    pub accuracy: f64,
    /// Mean cross-entropy.
    pub cross_entropy: f64,
    /// Part classified right if the neural ODE is left out.
    #[serde(default)]
    pub without_ode: f64,
    /// Mean absolute error, of networks that predict numbers.
    #[serde(default)]
    pub error: f64,
}

/// One epoch: means over its samples (its observed targets, for errors and widths of series; its batches, for `splits`,
/// steps and norms).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Phase, from 0.
    pub phase: usize,
    /// Epoch of the phase, from 0.
    pub epoch: u32,
    /// Samples seen.
    pub samples: usize,
    /// Mean loss.
    pub loss: f64,
    /// Mean cross-entropy of points.
    pub clean: f64,
    /// Mean cross-entropy of boxes.
    pub robust: f64,
    /// Mean width term.
    pub width: f64,
    /// Part of points classified right.
    pub accuracy: f64,
    /// Part of boxes classified right.
    pub robust_accuracy: f64,
    /// Mean absolute error of the points, of networks that predict numbers.
    #[serde(default)]
    pub error: f64,
    /// Bound of it over the boxes.
    #[serde(default)]
    pub robust_error: f64,
    /// Mean splits in a batch.
    pub splits: f64,
    /// Mean trajectories followed in a batch.
    pub trajectories: f64,
    /// Mean trial steps of the points of a batch.
    pub concrete_steps: f64,
    /// Mean trial steps of the boxes of a batch.
    pub abstract_steps: f64,
    /// The perturbation.
    pub eps: f64,
    /// Running average of first steps.
    pub average_step: f64,
    /// Mean motion of the state in the neural ODE, as a part of its size; where it was looked at.
    #[serde(default)]
    pub motion: Option<f64>,
    /// Mean norm of the gradient, before clipping.
    pub gradient_norm: f64,
    /// What series have besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latent: Option<Latent>,
    /// On test images, if it was time for that.
    pub evaluation: Option<Evaluation>,
    /// Whether it is time for a checkpoint.
    pub checkpoint_due: bool,
}

/// Sums over the batches of an epoch so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EpochSums {
    batches: f64,
    samples: usize,
    loss: f64,
    clean: f64,
    robust: f64,
    width: f64,
    accuracy: f64,
    robust_accuracy: f64,
    gradient_norm: f64,
    splits: usize,
    trajectories: usize,
    concrete_steps: usize,
    abstract_steps: usize,
    #[serde(default)]
    error: f64,
    #[serde(default)]
    robust_error: f64,
    #[serde(default)]
    motion: f64,
    #[serde(default)]
    motions: f64,
    #[serde(default)]
    entries: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latent: Option<Latent>,
}

impl EpochSums {
    /// Adds a batch.
    pub fn add(&mut self, batch: &BatchReport) {
        let (weight, entries) = (batch.samples as f64, batch.entries());
        self.batches += 1.0;
        self.samples += batch.samples;
        self.loss += weight * batch.loss.total;
        self.clean += weight * batch.loss.clean;
        self.robust += weight * batch.loss.robust;
        self.width += entries * batch.loss.width;
        self.gradient_norm += batch.gradient_norm;
        self.accuracy += weight * batch.accuracy;
        self.robust_accuracy += weight * batch.robust_accuracy;
        self.error += entries * batch.error;
        self.robust_error += entries * batch.robust_error;
        self.entries += entries;
        self.splits += batch.splits;
        self.trajectories += batch.trajectories;
        self.concrete_steps += batch.concrete_steps;
        self.abstract_steps += batch.abstract_steps;
        if let Some(motion) = batch.motion {
            self.motion += motion;
            self.motions += 1.0;
        }
        if let Some(latent) = batch.latent {
            let sum = self.latent.get_or_insert_default();
            sum.entries += latent.entries;
            sum.likelihood += latent.likelihood;
            sum.divergence += latent.divergence;
        }
    }

    /// Sums that an earlier program made, when all means were over samples.
    pub(crate) fn over_samples(self) -> Self {
        Self { entries: self.samples as f64, ..self }
    }

    /// The epoch, whose last batch this was.
    pub fn report(&self, last: &BatchReport) -> EpochReport {
        let samples = (self.samples as f64).max(1.0);
        let entries = self.entries.max(1.0);
        let batches = self.batches.max(1.0);
        EpochReport {
            phase: last.at.phase,
            epoch: last.at.epoch,
            samples: self.samples,
            loss: self.loss / samples,
            clean: self.clean / samples,
            robust: self.robust / samples,
            width: self.width / entries,
            accuracy: self.accuracy / samples,
            robust_accuracy: self.robust_accuracy / samples,
            error: self.error / entries,
            robust_error: self.robust_error / entries,
            splits: self.splits as f64 / batches,
            trajectories: self.trajectories as f64 / batches,
            concrete_steps: self.concrete_steps as f64 / batches,
            abstract_steps: self.abstract_steps as f64 / batches,
            eps: last.eps,
            average_step: last.average_step,
            motion: (self.motions > 0.0).then(|| self.motion / self.motions),
            gradient_norm: self.gradient_norm / batches,
            latent: self.latent.map(|sum| Latent {
                entries: sum.entries,
                likelihood: sum.likelihood / samples,
                divergence: sum.divergence / samples,
            }),
            evaluation: None,
            checkpoint_due: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_the_mean_over_its_samples() {
        let batch =
            |samples, accuracy, splits| BatchReport { samples, accuracy, splits, ..BatchReport::default() };
        let mut sums = EpochSums::default();
        sums.add(&batch(30, 1.0, 4));
        sums.add(&batch(10, 0.0, 1));
        let report = sums.report(&batch(10, 0.0, 1));
        assert_eq!((report.samples, report.accuracy, report.splits), (40, 0.75, 2.5));
    }

    #[test]
    fn errors_of_series_are_means_over_what_was_observed() {
        let batch = |samples, error, entries, likelihood| BatchReport {
            samples,
            error,
            latent: Some(Latent { entries, likelihood, divergence: 0.0 }),
            ..BatchReport::default()
        };
        let mut sums = EpochSums::default();
        sums.add(&batch(3, 1.0, 10.0, -6.0));
        sums.add(&batch(1, 2.0, 30.0, -2.0));
        let report = sums.report(&batch(1, 2.0, 30.0, -2.0));
        let latent = report.latent.unwrap();
        assert_eq!((report.error, latent.entries, latent.likelihood), (1.75, 40.0, -2.0));
    }
}
