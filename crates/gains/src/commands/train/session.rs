//! A run on a device, from its first batch (or its checkpoint) to its network.

use std::time::Instant;

use gains_core::model_file::write_model;
use gains_train::config::Method;
use gains_train::{
    Advance, BatchReport, Checkpoint, Config, Device, EpochReport, Position, TrainError, Trainer,
};

use super::folder::Folder;
use super::live::Live;
use super::material::Material;
use super::metrics::{Row, read, to_csv};
use super::pace::span;
use super::{Rescue, curves, data_flag, explain, quoted, target};
use crate::cli::{Global, TrainArgs};
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::output::{note, plain, print};

/// A run and the folder it lives in.
pub struct Session<D: Device> {
    trainer: Trainer<D>,
    /// The device as the network's record names it.
    device: String,
    folder: Folder,
    rows: Vec<Row>,
    /// Where the checkpoint in the folder stands.
    saved: Option<Position>,
    epoch_began: Instant,
}

impl<D: Device> Session<D> {
    /// A run from the beginning.
    pub fn new(
        device: D,
        name: String,
        config: Config,
        material: &Material,
        folder: Folder,
    ) -> Result<Self, Failure> {
        let trainer = Trainer::new(device, config, &material.classes, material.training(), material.test())
            .map_err(|e| explain(&e, None))?;
        Ok(Self { trainer, device: name, folder, rows: Vec::new(), saved: None, epoch_began: Instant::now() })
    }

    /// Trains to the end, or until the user breaks it off.
    pub fn run(mut self, checkpoint: Option<Checkpoint>, args: &TrainArgs, global: &Global) -> Outcome {
        let config = self.trainer.config().clone();
        if let Some(checkpoint) = checkpoint {
            self.saved = Some(checkpoint.state.at);
            self.trainer.restore(&checkpoint).map_err(|e| self.wrong(&e))?;
            let done = self.epochs_done();
            self.rows = read(&self.folder.metrics(), |row: &Row| row.epoch <= done);
        }
        self.folder.write(&self.folder.config(), config.to_toml().as_bytes())?;
        let mut live = Live::new(&config, self.trainer.batches(), global.quiet);
        live.say(&format!(
            "training {} on {} into {}",
            plain(&config.name),
            self.trainer.device().name(),
            quoted(self.folder.path())
        ));
        self.epoch_began = Instant::now();
        let outcome = self.train(&mut live);
        live.finish();
        if outcome? {
            self.finish(&config, args)
        } else {
            let done = self.rows.len();
            note!("interrupted after {done} of {} epochs; saved", config.epochs());
            note!("go on with `{}`", self.folder.resume());
            Ok(())
        }
    }

    /// Trains; false if the user broke it off.
    fn train(&mut self, live: &mut Live) -> Result<bool, Failure> {
        while !interrupt::requested() {
            let Some(Advance { batch, epoch }) = self.trainer.advance().map_err(|e| self.wrong(&e))? else {
                return Ok(true);
            };
            live.batch(&batch);
            if let Some(report) = epoch {
                self.end_epoch(&batch, &report, live)?;
                live.pause();
            }
        }
        self.save()?;
        Ok(false)
    }

    fn end_epoch(
        &mut self,
        last: &BatchReport,
        report: &EpochReport,
        live: &mut Live,
    ) -> Result<(), Failure> {
        let epoch = live.overall(report.phase, report.epoch) + 1;
        let seconds = self.epoch_began.elapsed().as_secs_f64();
        self.epoch_began = Instant::now();
        let row = row(self.trainer.config(), epoch, last, report, seconds);
        live.epoch(report.phase, report.epoch, &row);
        self.rows.push(row);
        // Lines ahead of the checkpoint are dropped when the run is taken up again; missing ones never come back.
        self.folder.write(&self.folder.metrics(), &to_csv(&self.rows)?)?;
        if report.checkpoint_due { self.save() } else { Ok(()) }
    }

    fn save(&mut self) -> Result<(), Failure> {
        let checkpoint = self.trainer.checkpoint().map_err(|e| self.wrong(&e))?;
        let bytes = checkpoint.to_bytes().map_err(|e| Failure::new(format!("cannot save the run: {e}")))?;
        self.folder.save(&bytes)?;
        self.saved = Some(checkpoint.state.at);
        Ok(())
    }

    /// Epochs of the whole run that are complete.
    fn epochs_done(&self) -> u32 {
        let at = self.trainer.position();
        let phases = &self.trainer.config().phases;
        phases.iter().take(at.phase).map(|phase| phase.epochs).sum::<u32>() + at.epoch
    }

    fn wrong(&self, error: &TrainError) -> Failure {
        let resume = self.folder.resume();
        explain(error, Some(Rescue { resume, rate: self.trainer.config().optimiser.rate, saved: self.saved }))
    }

    /// Writes the picture and the network, which marks the run as finished, and says what to do with it.
    fn finish(mut self, config: &Config, args: &TrainArgs) -> Outcome {
        let (mut description, tensors) = self.trainer.finish().map_err(|e| self.wrong(&e))?;
        description.training["device"] = self.device.as_str().into();
        let model = write_model(&description, &tensors)
            .map_err(|e| Failure::new(format!("the trained network cannot be written: {e}")))?;
        let picture = curves::draw(&format!("{}, seed {}", config.name, config.seed), &self.rows)?;
        self.folder.write(&self.folder.curves(), picture.as_bytes())?;
        self.folder.write(&self.folder.model(), &model)?;
        let seconds = self.rows.iter().map(|row| row.seconds).sum();
        let model = quoted(&self.folder.model());
        let eps = target(config).map_or_else(String::new, |eps| format!(" --eps {eps}"));
        let data = data_flag(args.data_dir.as_ref());
        print(&format!(
            "trained {} in {}{}\n\n\
             the network is in {model}; next:\n  \
             gains certify --model {model}{data}{eps}\n  \
             gains eval --model {model}{data}{eps} --samples 0..1000\n",
            plain(&config.name),
            span(seconds),
            results(config, self.rows.last())
        ))
    }
}

fn row(config: &Config, epoch: u32, last: &BatchReport, report: &EpochReport, seconds: f64) -> Row {
    // Without a perturbation there are no boxes.
    let boxes = config.method == Method::Provable && report.eps > 0.0;
    let phase = config.phases.get(report.phase).map_or_else(String::new, |phase| phase.name.clone());
    Row {
        phase,
        epoch,
        eps: report.eps,
        kappa: last.kappa,
        q: last.q,
        loss: report.loss,
        clean: report.clean,
        robust: boxes.then_some(report.robust),
        width: boxes.then_some(report.width),
        accuracy: report.accuracy,
        robust_accuracy: boxes.then_some(report.robust_accuracy),
        splits: report.splits,
        trajectories: report.trajectories,
        concrete_steps: report.concrete_steps,
        abstract_steps: report.abstract_steps,
        h0: report.average_step,
        gradient_norm: report.gradient_norm,
        rate: last.rate,
        test_accuracy: report.evaluation.map(|evaluation| evaluation.accuracy),
        seconds,
    }
}

/// The accuracies a run ended with.
fn results(config: &Config, last: Option<&Row>) -> String {
    let Some(row) = last else { return String::new() };
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let under = if config.method == Method::Adversarial { " under attack" } else { "" };
    let mut text = format!(": training images {} right{under}", percent(row.accuracy));
    if let Some(robust) = row.robust_accuracy {
        text += &format!(", their boxes {} at eps {}", percent(robust), row.eps);
    }
    if let Some(test) = row.test_accuracy {
        text += &format!(", test images {}", percent(test));
    }
    text
}
