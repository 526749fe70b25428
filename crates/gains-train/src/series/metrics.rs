//! What a run reports of itself.

use serde::{Deserialize, Serialize};

use crate::metrics::Position;

/// One batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ForecastBatch {
    /// Which one.
    pub at: Position,
    /// Batches in the epoch.
    pub batches: u32,
    /// Samples.
    pub samples: usize,
    /// Observed targets.
    pub entries: usize,
    /// What was minimised.
    pub loss: f64,
    /// The points' loss, before its weight.
    pub clean: f64,
    /// The boxes' loss, before its weight; 0 without boxes.
    pub robust: f64,
    /// Mean log-likelihood of the samples.
    pub likelihood: f64,
    /// Mean divergence of the samples.
    pub divergence: f64,
    /// Mean absolute error over the observed targets.
    pub error: f64,
    /// The same in the worst case of the boxes; 0 without.
    pub robust_error: f64,
    /// Mean width of observed outputs; 0 without boxes.
    pub width: f64,
    /// The perturbation.
    pub eps: f64,
    /// ρ.
    pub ratio: f64,
    /// q.
    pub q: f64,
    /// Weight of the divergence.
    pub divergence_weight: f64,
    /// Trial steps of the points.
    pub concrete_steps: usize,
    /// Trial steps of the boxes.
    pub abstract_steps: usize,
    /// Box steps at which the trajectory split.
    pub splits: usize,
    /// First step of the decoder, in scaled time.
    pub initial_step: f64,
    /// Running average of first steps, after this batch.
    pub average_step: f64,
    /// Learning rate.
    pub rate: f64,
    /// Euclidean norm of the gradient, before clipping.
    pub gradient_norm: f64,
}

/// One epoch: means over its samples, over its observed targets for errors and widths, over its batches for steps,
/// splits and norms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ForecastEpoch {
    /// Which one, from 0.
    pub epoch: u32,
    /// Means.
    pub mean: ForecastMeans,
    /// The perturbation.
    pub eps: f64,
    /// ρ.
    pub ratio: f64,
    /// q.
    pub q: f64,
    /// Running average of first steps.
    pub average_step: f64,
    /// Learning rate.
    pub rate: f64,
    /// Mean absolute error on the validation series, each solved as it will be in use.
    pub validation: Option<f64>,
    /// Whether it is the best so far.
    pub best: bool,
    /// Whether it is time for a checkpoint.
    pub checkpoint_due: bool,
}

/// Means over an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ForecastMeans {
    /// What was minimised.
    pub loss: f64,
    /// The points' loss.
    pub clean: f64,
    /// The boxes' loss.
    pub robust: f64,
    /// Log-likelihood.
    pub likelihood: f64,
    /// Divergence.
    pub divergence: f64,
    /// Absolute error.
    pub error: f64,
    /// Absolute error in the worst case.
    pub robust_error: f64,
    /// Width of observed outputs.
    pub width: f64,
    /// Trial steps of the points.
    pub concrete_steps: f64,
    /// Trial steps of the boxes.
    pub abstract_steps: f64,
    /// Splits of trajectories.
    pub splits: f64,
    /// Norm of the gradient.
    pub gradient_norm: f64,
}

/// Sums over the batches of an epoch so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ForecastSums {
    batches: f64,
    samples: f64,
    entries: f64,
    sum: ForecastMeans,
}

impl ForecastSums {
    /// Adds a batch.
    pub fn add(&mut self, batch: &ForecastBatch) {
        let (samples, entries) = (batch.samples as f64, batch.entries as f64);
        self.batches += 1.0;
        self.samples += samples;
        self.entries += entries;
        let sum = &mut self.sum;
        sum.loss += samples * batch.loss;
        sum.clean += samples * batch.clean;
        sum.robust += samples * batch.robust;
        sum.likelihood += samples * batch.likelihood;
        sum.divergence += samples * batch.divergence;
        sum.error += entries * batch.error;
        sum.robust_error += entries * batch.robust_error;
        sum.width += entries * batch.width;
        sum.concrete_steps += batch.concrete_steps as f64;
        sum.abstract_steps += batch.abstract_steps as f64;
        sum.splits += batch.splits as f64;
        sum.gradient_norm += batch.gradient_norm;
    }

    /// The means.
    pub fn means(&self) -> ForecastMeans {
        let (samples, entries, batches) =
            (self.samples.max(1.0), self.entries.max(1.0), self.batches.max(1.0));
        let sum = &self.sum;
        ForecastMeans {
            loss: sum.loss / samples,
            clean: sum.clean / samples,
            robust: sum.robust / samples,
            likelihood: sum.likelihood / samples,
            divergence: sum.divergence / samples,
            error: sum.error / entries,
            robust_error: sum.robust_error / entries,
            width: sum.width / entries,
            concrete_steps: sum.concrete_steps / batches,
            abstract_steps: sum.abstract_steps / batches,
            splits: sum.splits / batches,
            gradient_norm: sum.gradient_norm / batches,
        }
    }
}
