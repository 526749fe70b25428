//! A training run: phases of epochs of batches.
//!
//! [`Trainer::advance`] trains on one batch. Between two batches the run is consistent: it can be saved
//! ([`Trainer::checkpoint`]), taken up again ([`Trainer::restore`]) or ended ([`Trainer::finish`]). All that is random
//! depends on the seed and the position alone, so a run that was interrupted ends with the same bits.

mod batch;
mod error;
mod keep;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use gains_core::Description;
use gains_core::description::LayerSpec;

pub use self::error::TrainError;
use crate::checkpoint::{Best, Checkpoint, State};
use crate::config::Config;
use crate::course::Course;
use crate::device::{Device, Moments};
use crate::engine::Engine;
use crate::fused::Fused;
use crate::metrics::{BatchReport, EpochReport, EpochSums, Evaluation, Position};
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

/// A run on an engine.
pub struct Trainer<E: Engine> {
    pub(crate) engine: E,
    config: Config,
    /// What is trained, its first steps still open.
    description: Description,
    classes: Vec<String>,
    course: Course,
    updates: u64,
    /// Running averages of first steps, one for each ODE.
    average_steps: Vec<f64>,
    sums: EpochSums,
    last_epoch: Option<EpochReport>,
    best: Option<Best>,
    /// Whether no better network was found for so long that the run ended.
    stopped: bool,
}

impl<D: Device> Trainer<Fused<D>> {
    /// A run from the beginning on a device, which must have been made for the plan of [`Config::description`].
    pub fn new(
        device: D,
        config: Config,
        classes: &[String],
        training: Images<'_>,
        test: Images<'_>,
    ) -> Result<Self, TrainError> {
        if let Some(problem) = config.problem() {
            return Err(problem.into());
        }
        let description = config.description(inference_step(&config.solver, 0.0), classes);
        let plan = Plan::new(&description)?;
        let start = plan.initial_parameters(config.seed, config.initial);
        let most = config.images.unwrap_or(usize::MAX);
        let engine = Fused::new(device, plan, (training, most), (test, config.rhythm.test_images))?;
        Self::with(engine, config, description, classes, &start)
    }

    /// The network's plan.
    pub fn plan(&self) -> &Plan {
        self.engine.plan()
    }
}

impl<E: Engine> Trainer<E> {
    /// A run from the beginning on an engine that was made for the description, from the parameters given.
    pub fn with(
        engine: E,
        config: Config,
        description: Description,
        classes: &[String],
        start: &[f64],
    ) -> Result<Self, TrainError> {
        let (samples, _) = engine.samples();
        let odes = solvers(&description).count();
        let course = Course::new(config.seed, samples, config.batch);
        let mut trainer = Self {
            engine,
            config,
            description,
            classes: classes.to_vec(),
            course,
            updates: 0,
            average_steps: vec![0.0; odes],
            sums: EpochSums::default(),
            last_epoch: None,
            best: None,
            stopped: false,
        };
        trainer.set_parameters(start)?;
        trainer.forget_moments()?;
        Ok(trainer)
    }

    /// Goes to where a checkpoint of the same configuration was saved.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), TrainError> {
        let state = &checkpoint.state;
        if checkpoint.config != self.config || checkpoint.classes != self.classes {
            return Err(TrainError::Data("the checkpoint belongs to another configuration".into()));
        }
        self.course.restore(state.at, state.parameters.len(), self.engine.count())?;
        self.engine.set_parameters(&state.parameters)?;
        self.engine.set_moments(&state.moments)?;
        // A run that averages only from here on starts with what it has.
        let averages = if state.averages.is_empty() { &state.parameters } else { &state.averages };
        self.engine.set_averages(averages)?;
        self.updates = state.updates;
        if state.average_steps.len() != self.average_steps.len() {
            return Err(TrainError::Data("the checkpoint has another number of ODEs".into()));
        }
        self.average_steps.clone_from(&state.average_steps);
        self.best.clone_from(&state.best);
        self.stopped = state.stopped;
        self.sums = state.sums;
        self.last_epoch.clone_from(&state.last_epoch);
        Ok(())
    }

    /// The run as it is now. Fails if it diverged, so that nothing good is overwritten.
    pub fn checkpoint(&mut self) -> Result<Checkpoint, TrainError> {
        let state = State {
            at: self.course.at,
            updates: self.updates,
            average_steps: self.average_steps.clone(),
            parameters: self.parameters()?,
            moments: self.engine.moments()?,
            best: self.best.clone(),
            stopped: self.stopped,
            sums: self.sums,
            last_epoch: self.last_epoch.clone(),
            averages: self.averages()?,
        };
        self.course.sound_moments(&state.moments)?;
        Ok(Checkpoint { config: self.config.clone(), classes: self.classes.clone(), state })
    }

    /// Starts from other parameters, e.g. those of a network trained before.
    pub fn set_parameters(&mut self, parameters: &[f64]) -> Result<(), TrainError> {
        let wanted = self.engine.count();
        if parameters.len() != wanted {
            let message = format!("{} parameters for a network of {wanted}", parameters.len());
            return Err(TrainError::Data(message));
        }
        Ok(self.engine.set_parameters(parameters)?)
    }

    /// The parameters, all finite.
    pub fn parameters(&mut self) -> Result<Vec<f64>, TrainError> {
        self.course.still_sound()?;
        let parameters = self.engine.parameters()?;
        self.course.sound(parameters)
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The engine.
    pub fn engine(&self) -> &E {
        &self.engine
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
        let each = u64::from(self.batches());
        let at = self.course.at;
        let done = u64::from(self.config.epochs_before(at.phase) + at.epoch) * each + u64::from(at.batch);
        (done, u64::from(self.config.epochs()) * each)
    }

    /// Whether all epochs are done.
    pub fn is_finished(&self) -> bool {
        let left = self.config.phases.iter().skip(self.course.at.phase);
        self.stopped || left.into_iter().all(|phase| phase.epochs == 0)
    }

    /// Trains on the next batch; `None` if all is done.
    pub fn advance(&mut self) -> Result<Option<Advance>, TrainError> {
        self.course.still_sound()?;
        let mut at = self.course.at;
        while self.config.phases.get(at.phase).is_some_and(|phase| at.epoch >= phase.epochs) {
            at = Position { phase: at.phase + 1, ..Position::default() };
        }
        self.course.at = at;
        if self.stopped || at.phase >= self.config.phases.len() {
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
    pub fn run<X: From<TrainError>>(
        &mut self,
        mut observe: impl FnMut(&mut Self, &Advance) -> Result<ControlFlow<()>, X>,
    ) -> Result<Outcome, X> {
        while let Some(advance) = self.advance()? {
            if observe(self, &advance)?.is_break() {
                return Ok(if self.is_finished() { Outcome::Finished } else { Outcome::Stopped });
            }
        }
        Ok(Outcome::Finished)
    }

    fn begin_phase(&mut self) -> Result<(), TrainError> {
        let phase = &self.config.phases[self.course.at.phase];
        let (optimiser, step) = (phase.fresh_optimiser, phase.fresh_step);
        self.sums = EpochSums::default();
        if step {
            self.average_steps.fill(0.0);
        }
        if self.averaging() {
            let parameters = self.engine.parameters()?;
            self.engine.set_averages(&parameters)?;
        }
        if optimiser {
            self.updates = 0;
            self.forget_moments()?;
        }
        Ok(())
    }

    fn forget_moments(&mut self) -> Result<(), TrainError> {
        let zeros = vec![0.0; self.engine.count()];
        Ok(self.engine.set_moments(&Moments { first: zeros.clone(), second: zeros })?)
    }

    fn end_epoch(&mut self, last: &BatchReport) -> Result<EpochReport, TrainError> {
        let Position { phase, epoch, .. } = self.course.at;
        let due = |every: u32, last: bool| every > 0 && (last || (epoch + 1).is_multiple_of(every));
        let last_of_phase = epoch + 1 == self.config.phases[phase].epochs;
        let rhythm = &self.config.rhythm;
        let (save, look) = (due(rhythm.checkpoint, last_of_phase), due(rhythm.evaluation, last_of_phase));
        let mut report = self.sums.report(last);
        report.checkpoint_due = save;
        if look && self.engine.samples().1 > 0 {
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

    /// Whether the network after an epoch may be the one that is kept: networks are chosen, there are samples to choose by, it
    /// is time for a look, and the network was trained at the perturbation the run is for. One from before is no candidate,
    /// however well it does.
    pub fn is_candidate(&self, report: &EpochReport) -> bool {
        let Some(selection) = &self.config.selection else { return false };
        let epoch = self.config.epochs_before(report.phase) + report.epoch;
        let last = epoch + 1 == self.config.epochs();
        let reached = self.config.target().is_none_or(|target| report.eps >= target);
        let due = last || (epoch + 1).is_multiple_of(selection.every);
        reached && due && epoch >= selection.from && self.engine.samples().1 > 0
    }

    /// How the network does on the test images, with the parameters it would ship with, solved as in the present phase (the last one, if all is done).
    pub fn evaluate(&mut self) -> Result<Evaluation, TrainError> {
        let at = self.course.at;
        let phase = at.phase.min(self.config.phases.len() - 1);
        let learned = self.averaging().then(|| self.engine.parameters()).transpose()?;
        if learned.is_some() {
            let shipped = self.engine.averages()?;
            self.engine.set_parameters(&shipped)?;
        }
        let found = self.evaluate_at(phase);
        if let Some(learned) = learned {
            self.engine.set_parameters(&learned)?;
        }
        found.map_err(|failure| self.course.failed(at, failure))
    }

    /// Whether the averages of the parameters are what is tested and shipped.
    fn averaging(&self) -> bool {
        self.config.optimiser.average > 0.0
    }

    /// The averages of the parameters, if they are kept, all finite.
    fn averages(&mut self) -> Result<Vec<f64>, TrainError> {
        if !self.averaging() {
            return Ok(Vec::new());
        }
        let averages = self.engine.averages()?;
        self.course.sound(averages)
    }

    /// The parameters the network ships with.
    fn shipped(&mut self) -> Result<Vec<f64>, TrainError> {
        let parameters = self.parameters()?;
        let averages = self.averages()?;
        Ok(if averages.is_empty() { parameters } else { averages })
    }
}

#[cfg(test)]
impl<E: Engine> Trainer<E> {
    /// Running averages of first steps.
    pub(crate) fn average_steps(&self) -> &[f64] {
        &self.average_steps
    }

    /// Replaces them.
    pub(crate) fn set_average_steps(&mut self, steps: Vec<f64>) {
        self.average_steps = steps;
    }
}

/// The solvers of a network's ODEs.
fn solvers(description: &Description) -> impl Iterator<Item = &gains_core::description::SolverSpec> {
    description.layers.iter().filter_map(|layer| match layer {
        LayerSpec::Ode { solver, .. } => Some(solver),
        _ => None,
    })
}
