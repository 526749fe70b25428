//! A run: epochs of batches, the best epoch's network kept.
//!
//! [`ForecastTrainer::advance`] trains on one batch. Between two batches the run is consistent: it can be saved, taken
//! up again or ended. All that is random depends on the seed and the position alone, and sums are formed in an order
//! that does not depend on threads, so a run that was interrupted ends with the same bits.

mod batch;

use gains_core::Description;
use gains_core::model_file::Tensors;

use super::checkpoint::{Best, ForecastCheckpoint, ForecastState};
use super::config::ForecastConfig;
use super::evaluate::{mean_absolute_error, predict};
use super::metrics::{ForecastBatch, ForecastEpoch, ForecastSums};
use super::network::{Network, Weights};
use super::sample::Sample;
use crate::config::Problem;
use crate::course::Course;
use crate::cpu::Real;
use crate::device::{DeviceError, Moments};
use crate::metrics::Position;
use crate::solve::{Failure, inference_step};
use crate::trainer::TrainError;

/// Names of what a series has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Of each observation.
    pub features: Vec<String>,
    /// Of the series as a whole.
    pub statics: Vec<String>,
}

/// One batch further.
#[derive(Clone, Copy, Debug)]
pub struct ForecastAdvance {
    /// The batch.
    pub batch: ForecastBatch,
    /// The epoch, if the batch was its last.
    pub epoch: Option<ForecastEpoch>,
}

/// A run on the CPU, in `F`: float32 to train, float64 to check.
pub struct ForecastTrainer<F: Real> {
    config: ForecastConfig,
    names: Names,
    weights: Weights<F>,
    moments: (Vec<F>, Vec<F>),
    training: Vec<Sample>,
    validation: Vec<Sample>,
    course: Course,
    stopped: bool,
    updates: u64,
    average_step: f64,
    sums: ForecastSums,
    last_epoch: Option<ForecastEpoch>,
    best: Option<Best>,
    pool: Option<rayon::ThreadPool>,
}

fn narrow<F: Real>(values: &[f64]) -> Vec<F> {
    values.iter().map(|value| F::of(*value)).collect()
}

fn widen<F: Real>(values: &[F]) -> Vec<f64> {
    values.iter().map(|value| value.wide()).collect()
}

impl<F: Real> ForecastTrainer<F> {
    /// The network of a configuration, for which samples are made.
    pub fn network(config: &ForecastConfig, names: &Names) -> Result<Network, TrainError> {
        if let Some(problem) = config.problem() {
            return Err(problem.into());
        }
        if names.statics.is_empty() || names.features.is_empty() {
            return Err(TrainError::Data("a forecasting network needs features and statics".into()));
        }
        let step = inference_step(&config.solver, 0.0);
        Ok(Network::new(&config.description(&names.features, &names.statics, step))?)
    }

    /// A run from the beginning, on `threads` threads of its own or on rayon's. Samples must have been made for
    /// [`Self::network`].
    pub fn new(
        config: ForecastConfig,
        names: Names,
        mut training: Vec<Sample>,
        validation: Vec<Sample>,
        threads: Option<usize>,
    ) -> Result<Self, TrainError> {
        let network = Self::network(&config, &names)?;
        training.truncate(config.records.unwrap_or(usize::MAX));
        if training.is_empty() {
            return Err(TrainError::Data("there are no training series".into()));
        }
        for sample in training.iter().chain(&validation) {
            if sample.statics.len() != network.statics() || sample.target.len() != network.features() {
                return Err(TrainError::Data("a series was made for another network".into()));
            }
        }
        let pool = threads
            .map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build())
            .transpose()
            .map_err(|error| DeviceError::Failed(format!("cannot start threads: {error}")))?;
        let parameters = network.initial_parameters(config.seed);
        let zeros = vec![F::ZERO; network.parameters];
        let course = Course::new(config.seed, training.len(), config.batch);
        Ok(Self {
            config,
            names,
            weights: Weights::new(network, &parameters),
            moments: (zeros.clone(), zeros),
            training,
            validation,
            course,
            stopped: false,
            updates: 0,
            average_step: 0.0,
            sums: ForecastSums::default(),
            last_epoch: None,
            best: None,
            pool,
        })
    }

    /// Goes to where a checkpoint of the same configuration was saved.
    pub fn restore(&mut self, checkpoint: &ForecastCheckpoint) -> Result<(), TrainError> {
        let state = &checkpoint.state;
        if checkpoint.config != self.config {
            return Err(TrainError::Data("the checkpoint belongs to another configuration".into()));
        }
        self.course.restore(state.at, state.parameters.len(), self.weights.network.parameters)?;
        self.weights.parameters = narrow(&state.parameters);
        self.weights.refresh();
        self.moments = (narrow(&state.moments.first), narrow(&state.moments.second));
        self.stopped = state.stopped;
        self.updates = state.updates;
        self.average_step = state.average_step;
        self.sums = state.sums;
        self.last_epoch = state.last_epoch;
        self.best.clone_from(&state.best);
        Ok(())
    }

    /// The run as it is now. Fails if it diverged, so that nothing good is overwritten.
    pub fn checkpoint(&mut self) -> Result<ForecastCheckpoint, TrainError> {
        let state = ForecastState {
            at: self.course.at,
            stopped: self.stopped,
            updates: self.updates,
            average_step: self.average_step,
            parameters: self.parameters()?,
            moments: Moments { first: widen(&self.moments.0), second: widen(&self.moments.1) },
            sums: self.sums,
            last_epoch: self.last_epoch,
            best: self.best.clone(),
        };
        self.course.sound_moments(&state.moments)?;
        Ok(ForecastCheckpoint { config: self.config.clone(), state })
    }

    /// The parameters as they are now, all finite.
    pub fn parameters(&mut self) -> Result<Vec<f64>, TrainError> {
        self.course.still_sound()?;
        self.course.sound(widen(&self.weights.parameters))
    }

    /// The configuration.
    pub fn config(&self) -> &ForecastConfig {
        &self.config
    }

    /// The batch that comes next.
    pub fn position(&self) -> Position {
        self.course.at
    }

    /// The best network so far.
    pub fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }

    /// Batches in an epoch.
    pub fn batches(&self) -> u32 {
        self.course.batches()
    }

    /// Whether all epochs are done, or no better network has been found for too long.
    pub fn is_finished(&self) -> bool {
        self.stopped || self.course.at.epoch >= self.config.epochs
    }

    /// Trains on the next batch; `None` if all is done.
    pub fn advance(&mut self) -> Result<Option<ForecastAdvance>, TrainError> {
        self.course.still_sound()?;
        if self.is_finished() {
            return Ok(None);
        }
        let at = self.course.at;
        let batch = self.train(at).map_err(|failure| self.course.failed(at, failure))?;
        self.sums.add(&batch);
        self.course.at.batch += 1;
        let epoch = if self.course.at.batch == self.batches() { Some(self.end_epoch(&batch)?) } else { None };
        Ok(Some(ForecastAdvance { batch, epoch }))
    }

    /// The network that is kept: the best one, or the present one if none was chosen yet. Its description has the
    /// running average as first step and a record of the training.
    pub fn finish(&mut self) -> Result<(Description, Tensors), TrainError> {
        let (parameters, average_step) = match &self.best {
            Some(best) => (best.parameters.clone(), best.average_step),
            None => (self.parameters()?, self.average_step),
        };
        let step = inference_step(&self.config.solver, average_step);
        let mut description = self.config.description(&self.names.features, &self.names.statics, step);
        description.training = serde_json::json!({
            "program": concat!("gains ", env!("CARGO_PKG_VERSION")),
            "device": "cpu",
            "method": self.config.method,
            "seed": self.config.seed,
            "updates": self.updates,
            "finished": self.is_finished(),
            "best_epoch": self.best.as_ref().map(|best| best.epoch),
            "validation_error": self.best.as_ref().map(|best| best.validation),
            "last_epoch": self.last_epoch,
            "config": self.config.to_toml(),
        });
        Ok((description, self.weights.network.scatter(&parameters)))
    }

    /// The mean absolute error on the validation series, each by itself.
    pub fn validate(&self) -> Result<f64, Failure> {
        let samples: Vec<&Sample> = self.validation.iter().collect();
        let step = inference_step(&self.config.solver, self.average_step);
        let outputs = self.install(|| predict(&self.weights, &self.config.solver, step, &samples))?;
        Ok(mean_absolute_error(&samples, &outputs))
    }

    /// Runs something on this run's threads.
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    fn end_epoch(&mut self, last: &ForecastBatch) -> Result<ForecastEpoch, TrainError> {
        let epoch = self.course.at.epoch;
        let final_epoch = epoch + 1 == self.config.epochs;
        let mut report = ForecastEpoch {
            epoch,
            mean: self.sums.means(),
            eps: last.eps,
            ratio: last.ratio,
            q: last.q,
            average_step: last.average_step,
            rate: last.rate,
            ..ForecastEpoch::default()
        };
        if !self.validation.is_empty() {
            let validation = self.validate().map_err(|failure| self.course.failed(last.at, failure))?;
            if !validation.is_finite() {
                return Err(self.course.diverge(last.at, format!("the validation error is {validation}")));
            }
            report.validation = Some(validation);
            let selection = self.config.selection;
            let better = self.best.as_ref().is_none_or(|best| validation < best.validation);
            if epoch >= selection.from && self.config.is_reached(last.eps) && better {
                report.best = true;
                let parameters = self.parameters()?;
                self.best = Some(Best { epoch, validation, average_step: self.average_step, parameters });
            }
            self.stopped = match (&self.best, selection.patience) {
                (Some(best), Some(patience)) => epoch - best.epoch > patience,
                _ => false,
            };
        }
        let every = self.config.checkpoint_every;
        report.checkpoint_due =
            every > 0 && (final_epoch || self.stopped || (epoch + 1).is_multiple_of(every));
        self.sums = ForecastSums::default();
        self.last_epoch = Some(report);
        self.course.at = Position { phase: 0, epoch: epoch + 1, batch: 0 };
        Ok(report)
    }
}

/// Refuses changes that a run cannot take over half way.
pub fn continues(before: &ForecastConfig, after: &ForecastConfig) -> Result<(), Problem> {
    let fixed = [
        ("dataset", before.dataset != after.dataset),
        ("horizon", before.horizon != after.horizon),
        ("seed", before.seed != after.seed),
        ("batch", before.batch != after.batch),
        ("records", before.records != after.records),
        ("method", before.method != after.method),
        ("network", before.network != after.network),
        ("solver", before.solver != after.solver),
    ];
    match fixed.iter().find(|(_, changed)| *changed) {
        None => Ok(()),
        Some((key, _)) => Err(Problem {
            key: (*key).into(),
            message: "cannot change in a run that has begun".into(),
            hint: "start a new run with --config and --out".into(),
        }),
    }
}

#[cfg(test)]
impl<F: Real> ForecastTrainer<F> {
    /// A network that was the best once.
    pub(super) fn weights_of(&self, best: &Best) -> Weights<F> {
        Weights::new(self.weights.network.clone(), &best.parameters)
    }
}
