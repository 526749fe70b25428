//! A training run: phases of epochs of batches.
//!
//! [`Trainer::advance`] trains on one batch. Between two batches the run is consistent: it can be saved
//! ([`Trainer::checkpoint`]), taken up again ([`Trainer::restore`]) or ended ([`Trainer::finish`]). All that is random
//! depends on the seed and the position alone, so a run that was interrupted ends with the same bits.

mod batch;
mod error;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use gains_core::Description;
use gains_core::model_file::Tensors;

pub use self::error::TrainError;
use crate::checkpoint::{Checkpoint, State};
use crate::config::Config;
use crate::course::Course;
use crate::device::{Device, DeviceError, Moments};
use crate::metrics::{BatchReport, EpochReport, EpochSums, Evaluation, Position};
use crate::pass::Route;
use crate::plan::Plan;
use crate::solve::inference_step;

/// Images, channels last, one byte per entry, and their classes.
#[derive(Clone, Copy, Debug)]
pub struct Images<'a> {
    /// All pixels.
    pub pixels: &'a [u8],
    /// One for each image.
    pub labels: &'a [u8],
}

/// One batch further.
#[derive(Clone, Debug)]
pub struct Advance {
    /// The batch.
    pub batch: BatchReport,
    /// The epoch, if the batch was its last.
    pub epoch: Option<EpochReport>,
}

/// How [`Trainer::run`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All epochs are done.
    Finished,
    /// The observer broke it off; it can go on.
    Stopped,
}

/// A run on a device.
pub struct Trainer<D: Device> {
    device: D,
    plan: Plan,
    config: Config,
    classes: Vec<String>,
    labels: Vec<u8>,
    /// Labels of the test images, which lie on the device behind the training images.
    test_labels: Vec<u8>,
    course: Course,
    updates: u64,
    average_step: f64,
    sums: EpochSums,
    last_epoch: Option<EpochReport>,
}

impl<D: Device> Trainer<D> {
    /// A run from the beginning. The device must have been made for the plan of
    /// [`Config::description`].
    pub fn new(
        mut device: D,
        config: Config,
        classes: &[String],
        training: Images<'_>,
        test: Images<'_>,
    ) -> Result<Self, TrainError> {
        if let Some(problem) = config.problem() {
            return Err(problem.into());
        }
        let plan = Plan::new(&config.description(inference_step(&config.solver, 0.0), classes))?;
        Route::of(&plan)?;
        let entries = plan.input.len();
        for (name, images) in [("training", training), ("test", test)] {
            if images.pixels.len() != images.labels.len() * entries {
                return Err(TrainError::Data(format!(
                    "{} {name} images of {entries} entries cannot have {} entries in all",
                    images.labels.len(),
                    images.pixels.len()
                )));
            }
            if let Some(label) = images.labels.iter().find(|label| usize::from(**label) >= classes.len()) {
                return Err(TrainError::Data(format!(
                    "a {name} image has the label {label}, and there are {} classes",
                    classes.len()
                )));
            }
        }
        let count = config.images.unwrap_or(usize::MAX).min(training.labels.len());
        let tests = config.rhythm.test_images.min(test.labels.len());
        if count == 0 {
            return Err(TrainError::Data("there are no training images".into()));
        }
        let mut pixels = Vec::with_capacity((count + tests) * entries);
        pixels.extend_from_slice(&training.pixels[..count * entries]);
        pixels.extend_from_slice(&test.pixels[..tests * entries]);
        device.store(&pixels, count + tests)?;
        device.set_parameters(&plan.initial_parameters(config.seed))?;
        let course = Course::new(config.seed, count, config.batch);
        let mut trainer = Self {
            device,
            plan,
            config,
            classes: classes.to_vec(),
            labels: training.labels[..count].to_vec(),
            test_labels: test.labels[..tests].to_vec(),
            course,
            updates: 0,
            average_step: 0.0,
            sums: EpochSums::default(),
            last_epoch: None,
        };
        trainer.forget_moments()?;
        Ok(trainer)
    }

    /// Goes to where a checkpoint of the same configuration was saved.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), TrainError> {
        let state = &checkpoint.state;
        if checkpoint.config != self.config || checkpoint.classes != self.classes {
            return Err(TrainError::Data("the checkpoint belongs to another configuration".into()));
        }
        self.course.restore(state.at, state.parameters.len(), self.plan.parameters)?;
        self.device.set_parameters(&state.parameters)?;
        self.device.set_moments(&state.moments)?;
        self.updates = state.updates;
        self.average_step = state.average_step;
        self.sums = state.sums;
        self.last_epoch.clone_from(&state.last_epoch);
        Ok(())
    }

    /// The run as it is now. Fails if it diverged, so that nothing good is overwritten.
    pub fn checkpoint(&mut self) -> Result<Checkpoint, TrainError> {
        let state = State {
            at: self.course.at,
            updates: self.updates,
            average_step: self.average_step,
            parameters: self.parameters()?,
            moments: self.device.moments()?,
            sums: self.sums,
            last_epoch: self.last_epoch.clone(),
        };
        self.course.sound_moments(&state.moments)?;
        Ok(Checkpoint { config: self.config.clone(), classes: self.classes.clone(), state })
    }

    /// Starts from other parameters, e.g. those of a network trained before.
    pub fn set_parameters(&mut self, parameters: &[f64]) -> Result<(), TrainError> {
        if parameters.len() != self.plan.parameters {
            return Err(TrainError::Data(format!(
                "{} parameters for a network of {}",
                parameters.len(),
                self.plan.parameters
            )));
        }
        Ok(self.device.set_parameters(parameters)?)
    }

    /// The parameters, all finite.
    pub fn parameters(&mut self) -> Result<Vec<f64>, TrainError> {
        self.course.still_sound()?;
        let parameters = self.device.parameters()?;
        self.course.sound(parameters)
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The network's plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The batch that comes next; the phase is past the last when all is done.
    pub fn position(&self) -> Position {
        self.course.at
    }

    /// Batches in an epoch.
    pub fn batches(&self) -> u32 {
        self.course.batches()
    }

    /// Batches trained on, and batches of the whole run.
    pub fn progress(&self) -> (u64, u64) {
        let phases = &self.config.phases;
        let epochs =
            |count: usize| phases.iter().take(count).map(|phase| u64::from(phase.epochs)).sum::<u64>();
        let each = u64::from(self.batches());
        let at = self.course.at;
        let done = (epochs(at.phase) + u64::from(at.epoch)) * each + u64::from(at.batch);
        (done, epochs(phases.len()) * each)
    }

    /// Whether all epochs are done.
    pub fn is_finished(&self) -> bool {
        self.config.phases.iter().skip(self.course.at.phase).all(|phase| phase.epochs == 0)
    }

    /// Trains on the next batch; `None` if all is done.
    pub fn advance(&mut self) -> Result<Option<Advance>, TrainError> {
        self.course.still_sound()?;
        let mut at = self.course.at;
        while self.config.phases.get(at.phase).is_some_and(|phase| at.epoch >= phase.epochs) {
            at = Position { phase: at.phase + 1, ..Position::default() };
        }
        self.course.at = at;
        if at.phase >= self.config.phases.len() {
            return Ok(None);
        }
        if (at.epoch, at.batch) == (0, 0) {
            self.begin_phase()?;
        }
        let indices = self.course.samples();
        let batch = self.train(at, &indices).map_err(|failure| self.course.failed(at, failure))?;
        self.sums.add(&batch);
        self.course.at.batch += 1;
        let epoch = if self.course.at.batch == self.batches() { Some(self.end_epoch(&batch)?) } else { None };
        Ok(Some(Advance { batch, epoch }))
    }

    /// Trains to the end, showing every batch to `observe`, which may save checkpoints or break off.
    pub fn run<E: From<TrainError>>(
        &mut self,
        mut observe: impl FnMut(&mut Self, &Advance) -> Result<ControlFlow<()>, E>,
    ) -> Result<Outcome, E> {
        while let Some(advance) = self.advance()? {
            if observe(self, &advance)?.is_break() {
                return Ok(if self.is_finished() { Outcome::Finished } else { Outcome::Stopped });
            }
        }
        Ok(Outcome::Finished)
    }

    /// The network as it is now: its description, with the running average as first step and a record of the training,
    /// and its weights.
    pub fn finish(&mut self) -> Result<(Description, Tensors), TrainError> {
        let parameters = self.parameters()?;
        let step = inference_step(&self.config.solver, self.average_step);
        let mut description = self.config.description(step, &self.classes);
        description.training = serde_json::json!({
            "program": concat!("gains ", env!("CARGO_PKG_VERSION")),
            "device": self.device.name(),
            "method": self.config.method,
            "seed": self.config.seed,
            "updates": self.updates,
            "finished": self.is_finished(),
            "last_epoch": self.last_epoch,
            "config": self.config.to_toml(),
        });
        Ok((description, self.plan.scatter(&parameters)))
    }

    fn begin_phase(&mut self) -> Result<(), TrainError> {
        let phase = &self.config.phases[self.course.at.phase];
        let (optimiser, step) = (phase.fresh_optimiser, phase.fresh_step);
        self.sums = EpochSums::default();
        if step {
            self.average_step = 0.0;
        }
        if optimiser {
            self.updates = 0;
            self.forget_moments()?;
        }
        Ok(())
    }

    fn forget_moments(&mut self) -> Result<(), DeviceError> {
        let zeros = vec![0.0; self.plan.parameters];
        self.device.set_moments(&Moments { first: zeros.clone(), second: zeros })
    }

    fn end_epoch(&mut self, last: &BatchReport) -> Result<EpochReport, TrainError> {
        let Position { phase, epoch, .. } = self.course.at;
        let due = |every: u32, last: bool| every > 0 && (last || (epoch + 1).is_multiple_of(every));
        let last_of_phase = epoch + 1 == self.config.phases[phase].epochs;
        let rhythm = &self.config.rhythm;
        let (save, look) = (due(rhythm.checkpoint, last_of_phase), due(rhythm.evaluation, last_of_phase));
        let mut report = self.sums.report(last);
        report.checkpoint_due = save;
        if look && !self.test_labels.is_empty() {
            report.evaluation = Some(self.evaluate()?);
        }
        self.sums = EpochSums::default();
        self.last_epoch = Some(report.clone());
        self.course.at = if last_of_phase {
            Position { phase: phase + 1, ..Position::default() }
        } else {
            Position { phase, epoch: epoch + 1, batch: 0 }
        };
        Ok(report)
    }

    /// How the network does on the test images, solved as in the present phase (the last one, if all is done).
    pub fn evaluate(&mut self) -> Result<Evaluation, TrainError> {
        let at = self.course.at;
        self.evaluate_at(at.phase.min(self.config.phases.len() - 1))
            .map_err(|failure| self.course.failed(at, failure))
    }
}
