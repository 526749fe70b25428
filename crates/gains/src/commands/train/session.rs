//! A run on a device, from its first batch (or its checkpoint) to its network.

use std::time::Instant;

use gains_core::model_file::write_model;
use gains_train::config::{By, Method, Selection};
use gains_train::engine::Engine;
use gains_train::loss::criterion::Kind;
use gains_train::{Advance, BatchReport, Checkpoint, Config, EpochReport, Position, TrainError, Trainer};

use super::folder::Folder;
use super::live::Live;
use super::metrics::{Row, read, to_csv, to_lines};
use super::own::Own;
use super::pace::span;
use super::select::Jury;
use super::{Rescue, curves, data_flag, explain, quoted, target};
use crate::cli::{Global, TrainArgs};
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::output::{note, plain, print};

/// A neural ODE whose state moves by less than this part of its size does next to nothing.
const STILL: f64 = 0.02;

/// A loss that grows by this factor within an epoch has exploded.
const EXPLOSION: f64 = 1e6;

/// What a run has beside its trainer.
pub struct Surroundings {
    /// The device as the network's record names it.
    pub device: String,
    /// Where the run lives.
    pub folder: Folder,
    /// What networks are chosen by, where it is proof.
    pub jury: Option<Jury>,
    /// Samples of one's own.
    pub own: Option<Own>,
}

/// A run and the folder it lives in.
pub struct Session<E: Engine> {
    trainer: Trainer<E>,
    device: String,
    folder: Folder,
    jury: Option<Jury>,
    own: Option<Own>,
    rows: Vec<Row>,
    /// Where the checkpoint in the folder stands.
    saved: Option<Position>,
    epoch_began: Instant,
}

impl<E: Engine> Session<E> {
    /// A run from the beginning.
    pub fn new(trainer: Trainer<E>, surroundings: Surroundings) -> Self {
        let Surroundings { device, folder, jury, own } = surroundings;
        Self {
            trainer,
            device,
            folder,
            jury,
            own,
            rows: Vec::new(),
            saved: None,
            epoch_began: Instant::now(),
        }
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
        for (name, text) in self.own.iter().flat_map(|own| own.files(target(&config))) {
            self.folder.write(&self.folder.file(name), text.as_bytes())?;
        }
        let mut live = Live::new(&config, self.trainer.batches(), global.quiet);
        live.say(&format!(
            "training {} on {} into {}",
            plain(&config.name),
            self.trainer.engine().name(),
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

    /// Says when the dynamics die, once for each time they do.
    fn look_alive(&self, row: &Row, live: &Live) {
        let still = |row: &Row| row.motion.is_some_and(|motion| motion < STILL);
        if still(row) && !self.rows.last().is_some_and(still) {
            let part = 100.0 * row.motion.unwrap_or(0.0);
            live.say(&format!(
                "warning: the neural ODE hardly does anything any more: the state moves by {part:.1} % of its size\n\
                 hint: stop and begin again with --set phases[{0}].loss.alive=1, a longer eps.length, or an \
                 objective that regularises less (sabr, mtl_ibp)",
                self.trainer.config().phases.len() - 1
            ));
        }
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
        let mut row = row(self.trainer.config(), epoch, last, report, seconds);
        self.refuse_explosion(&row, report)?;
        self.choose(&mut row, report)?;
        live.epoch(report.phase, report.epoch, &row);
        self.look_alive(&row, live);
        self.rows.push(row);
        // Lines ahead of the checkpoint are dropped when the run is taken up again; missing ones never come back.
        self.folder.write(&self.folder.metrics(), &to_csv(&self.rows)?)?;
        if report.checkpoint_due {
            self.save()?;
        }
        self.folder.write(&self.folder.stream(), &to_lines(&self.rows)?)
    }

    /// Ends a run whose loss has exploded before its checkpoint is overwritten, and says how to go back. The first epoch
    /// of a phase has another loss than the last of the phase before.
    fn refuse_explosion(&self, row: &Row, report: &EpochReport) -> Result<(), Failure> {
        let before = self.rows.last().filter(|before| before.phase == row.phase);
        let Some(before) = before.map(|before| before.loss) else { return Ok(()) };
        if row.loss <= EXPLOSION * before.abs().max(1e-3) {
            return Ok(());
        }
        let at = Position { phase: report.phase, epoch: report.epoch, batch: 0 };
        let what = format!("the loss grew from {before:.3} to {:.1e} within an epoch", row.loss);
        Err(self.wrong(&TrainError::Diverged { at, what }))
    }

    /// Lets the samples held back say how good the network is, where networks are chosen and eps is reached.
    fn choose(&mut self, row: &mut Row, report: &EpochReport) -> Result<(), Failure> {
        let Some(selection) = self.trainer.config().selection else { return Ok(()) };
        let config = self.trainer.config();
        let reached = target(config).is_none_or(|target| report.eps >= target);
        let last = row.epoch == config.epochs();
        if !reached || !(last || row.epoch.is_multiple_of(selection.every)) {
            return Ok(());
        }
        let Some(score) = self.score(&selection, row, report)? else { return Ok(()) };
        let better = self.trainer.judge(row.epoch, score, selection.patience).map_err(|e| self.wrong(&e))?;
        row.best = Some(u8::from(better));
        Ok(())
    }

    /// How good the network is; larger is better.
    fn score(
        &mut self,
        selection: &Selection,
        row: &mut Row,
        report: &EpochReport,
    ) -> Result<Option<f64>, Failure> {
        let numbers = self.trainer.config().criterion.kind() == Kind::Numbers;
        let evaluation = match report.evaluation {
            Some(evaluation) => evaluation,
            None => self.trainer.evaluate().map_err(|e| self.wrong(&e))?,
        };
        match (selection.by, &self.jury) {
            (By::Certified, Some(jury)) => {
                let (description, tensors) = self.trainer.network().map_err(|e| explain(&e, None))?;
                let part = jury.certified(description, &tensors)?;
                row.certified = Some(part);
                // Among those that prove equally much, the one that is right more often.
                Ok(Some(part + 1e-3 * evaluation.accuracy))
            }
            // The error over boxes is what training knows of it.
            (By::Certified, None) if numbers => Ok(Some(-report.robust_error)),
            (By::Certified, None) => Ok(None),
            (By::Accuracy, _) if numbers => Ok(Some(-evaluation.error)),
            (By::Accuracy, _) => Ok(Some(evaluation.accuracy)),
        }
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
        let best = self.trainer.best().map(|best| best.epoch);
        let kept = self.rows.iter().find(|row| Some(row.epoch) == best).or(self.rows.last());
        let chosen =
            best.map_or_else(String::new, |epoch| format!(" (the network after epoch {epoch} is kept)"));
        let (what, samples) = match (&self.own, &config.data) {
            (Some(own), Some(data)) => (own.command(self.folder.path(), data, target(config)), ""),
            _ => {
                let eps = target(config).map_or_else(String::new, |eps| format!(" --eps {eps}"));
                (format!("{}{eps}", data_flag(args.data_dir.as_ref())), " --samples 0..1000")
            }
        };
        print(&format!(
            "trained {} in {}{}{chosen}\n\n\
             the network is in {model}; next:\n  \
             gains certify --model {model}{what}\n  \
             gains eval --model {model}{what}{samples}\n",
            plain(&config.name),
            span(seconds),
            results(config, kept)
        ))
    }
}

fn row(config: &Config, epoch: u32, last: &BatchReport, report: &EpochReport, seconds: f64) -> Row {
    // Without a perturbation there are no boxes.
    let boxes = config.method == Method::Provable && report.eps > 0.0;
    let phase = config.phases.get(report.phase).map_or_else(String::new, |phase| phase.name.clone());
    let numbers = config.criterion.kind() == Kind::Numbers;
    let classes = !numbers;
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
        accuracy: classes.then_some(report.accuracy),
        robust_accuracy: (boxes && classes).then_some(report.robust_accuracy),
        splits: report.splits,
        trajectories: report.trajectories,
        concrete_steps: report.concrete_steps,
        abstract_steps: report.abstract_steps,
        h0: report.average_step,
        gradient_norm: report.gradient_norm,
        rate: last.rate,
        test_accuracy: report.evaluation.filter(|_| classes).map(|evaluation| evaluation.accuracy),
        seconds,
        motion: report.motion,
        without_ode: report.evaluation.filter(|_| classes).map(|evaluation| evaluation.without_ode),
        error: numbers.then_some(report.error),
        robust_error: (boxes && numbers).then_some(report.robust_error),
        test_error: report.evaluation.filter(|_| numbers).map(|evaluation| evaluation.error),
        certified: None,
        best: None,
    }
}

/// What a run ended with.
fn results(config: &Config, last: Option<&Row>) -> String {
    let Some(row) = last else { return String::new() };
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let under = if config.method == Method::Adversarial { " under attack" } else { "" };
    let own = config.own_inputs().is_some();
    let (things, others) = if own { ("samples", "those held back") } else { ("images", "test images") };
    let mut text = String::new();
    if let Some(accuracy) = row.accuracy {
        text += &format!(": training {things} {} right{under}", percent(accuracy));
    }
    if let Some(error) = row.error {
        text += &format!(": mean absolute error {error:.4}{under}");
    }
    if let Some(robust) = row.robust_accuracy {
        text += &format!(", their boxes {} at eps {}", percent(robust), row.eps);
    }
    if let Some(robust) = row.robust_error {
        text += &format!(", of their boxes {robust:.4} at eps {}", row.eps);
    }
    if let Some(test) = row.test_accuracy {
        text += &format!(", {others} {}", percent(test));
    }
    if let Some(error) = row.test_error {
        text += &format!(", of {others} {error:.4}");
    }
    if let Some(certified) = row.certified {
        text += &format!(", {} certified", percent(certified));
    }
    text
}
