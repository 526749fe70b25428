//! A run on a device, from its first batch (or its checkpoint) to its network.

use std::time::Instant;

use gains_core::model_file::write_model;
use gains_train::config::{By, Selection};
use gains_train::engine::Engine;
use gains_train::loss::criterion::Kind;
use gains_train::{Advance, BatchReport, Checkpoint, Config, EpochReport, Position, TrainError, Trainer};

use super::folder::Folder;
use super::live::Live;
use super::pace::span;
use super::record::{Record, read, to_csv, to_lines};
use super::select::Jury;
use super::several::Figures;
use super::source::Source;
use super::{Rescue, explain, quoted};
use crate::cli::{Global, TrainArgs};
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::output::{note, plain, print};

/// A neural ODE whose state moves by less than this part of its size does next to nothing.
const STILL: f64 = 0.02;

/// A loss that grows by this factor within an epoch has exploded.
const EXPLOSION: f64 = 1e6;

/// A loss of the points that is this many times that of an untrained network is out of hand.
const OUT_OF_HAND: f64 = 100.0;

/// How a run ended.
pub enum Ended {
    /// Its network is written; what it came to.
    Finished(Figures),
    /// The user broke it off.
    Interrupted,
}

/// The epoch whose network a finished run kept: the best, where networks are chosen, else the last.
fn kept<R: Record>(rows: &[R]) -> Option<&R> {
    rows.iter().rev().find(|row| row.is_best()).or(rows.last())
}

/// What a finished run came to.
pub fn figures<R: Record>(rows: &[R]) -> Figures {
    kept(rows).map(R::figures).unwrap_or_default()
}

/// What a run has beside its trainer.
pub struct Surroundings {
    /// The device as the network's record names it.
    pub device: String,
    /// Where the run lives.
    pub folder: Folder,
    /// What networks are chosen by, where it is proof.
    pub jury: Option<Jury>,
    /// Where its samples come from.
    pub source: Source,
}

/// A run and the folder it lives in.
pub struct Session<E: Engine, R: Record> {
    trainer: Trainer<E>,
    device: String,
    folder: Folder,
    jury: Option<Jury>,
    source: Source,
    rows: Vec<R>,
    /// The epoch before.
    before: Option<EpochReport>,
    /// Where the checkpoint in the folder stands.
    saved: Option<Position>,
    epoch_began: Instant,
    /// The loss of the points in the first batch.
    calm: Option<f64>,
    /// Whether the loss was out of hand at the end of the last epoch.
    spoiled: bool,
}

impl<E: Engine, R: Record> Session<E, R> {
    /// A run from the beginning.
    pub fn new(trainer: Trainer<E>, surroundings: Surroundings) -> Self {
        let Surroundings { device, folder, jury, source } = surroundings;
        Self {
            trainer,
            device,
            folder,
            jury,
            source,
            rows: Vec::new(),
            before: None,
            saved: None,
            epoch_began: Instant::now(),
            calm: None,
            spoiled: false,
        }
    }

    /// Trains to the end, or until the user breaks it off.
    pub fn run(
        mut self,
        checkpoint: Option<Checkpoint>,
        args: &TrainArgs,
        global: &Global,
    ) -> Result<Ended, Failure> {
        let config = self.trainer.config().clone();
        if let Some(checkpoint) = checkpoint {
            self.saved = Some(checkpoint.state.at);
            self.trainer.restore(&checkpoint).map_err(|e| self.wrong(&e))?;
            self.before = checkpoint.state.last_epoch;
            self.spoiled = self.before.as_ref().is_some_and(|before| self.is_out_of_hand(before));
            self.rows = read(&self.folder.metrics(), self.epochs_done());
        }
        self.folder.write(&self.folder.config(), config.to_toml().as_bytes())?;
        for (name, text) in self.source.files(&config) {
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
            let figures = figures(&self.rows);
            self.finish(&config, args).map(|()| Ended::Finished(figures))
        } else {
            let done = self.rows.len();
            note!("interrupted after {done} of {} epochs; saved", config.epochs());
            note!("go on with `{}`", self.folder.resume());
            Ok(Ended::Interrupted)
        }
    }

    /// Trains; false if the user broke it off.
    fn train(&mut self, live: &mut Live) -> Result<bool, Failure> {
        while !interrupt::requested() {
            let Some(Advance { batch, epoch }) = self.trainer.advance().map_err(|e| self.wrong(&e))? else {
                return Ok(true);
            };
            live.batch::<R>(&batch);
            self.calm.get_or_insert(batch.loss.clean);
            if let Some(report) = epoch {
                self.end_epoch(&batch, &report, live)?;
                live.pause();
            }
        }
        self.save()?;
        Ok(false)
    }

    /// Says when the dynamics die, once for each time they do, and keeps the checkpoint from before.
    fn look_alive(&self, report: &EpochReport, live: &Live) -> Outcome {
        let still = |report: &EpochReport| report.motion.is_some_and(|motion| motion < STILL);
        if still(report) && !self.before.as_ref().is_some_and(still) {
            let part = 100.0 * report.motion.unwrap_or(0.0);
            let again = match self.saved {
                Some(_) => format!("go back with `{} --back ", self.folder.resume()),
                None => "begin again with `".into(),
            };
            live.say(&format!(
                "warning: the neural ODE hardly does anything any more: the state moves by {part:.1} % of its size\n\
                 hint: stop and {again}--set phases[{}].loss.alive=1`; a longer eps.length or an objective that \
                 regularises less (sabr, mtl_ibp) keeps it from dying",
                report.phase
            ));
            self.folder.remember()?;
        }
        Ok(())
    }

    /// Says when the loss is out of hand though it is still a number, and keeps the checkpoint from before.
    fn look_calm(&mut self, report: &EpochReport, live: &Live) -> Outcome {
        let spoiled = self.is_out_of_hand(report);
        if spoiled && !self.spoiled {
            live.say(&format!("warning: the loss is out of hand: it has grown to {:.1e}", report.clean));
            self.folder.remember()?;
        }
        self.spoiled = spoiled;
        Ok(())
    }

    /// Whether the loss of the points is far beyond what a network has that learned nothing.
    fn is_out_of_hand(&self, report: &EpochReport) -> bool {
        let usual = match (self.trainer.config().criterion.kind(), self.calm) {
            // Cross-entropies have a natural size.
            (Kind::Classes, calm) => calm.unwrap_or(10.0).clamp(1.0, 10.0),
            (Kind::Numbers, Some(calm)) => calm.max(1e-3),
            (Kind::Numbers, None) => return false,
        };
        report.clean > OUT_OF_HAND * usual
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
        let mut row = R::new(self.trainer.config(), epoch, last, report, seconds);
        self.refuse_explosion(report)?;
        self.choose(&mut row, report)?;
        live.epoch(report.phase, report.epoch, &row);
        self.look_alive(report, live)?;
        self.look_calm(report, live)?;
        self.rows.push(row);
        self.before = Some(report.clone());
        // Lines ahead of the checkpoint are dropped when the run is taken up again; missing ones never come back.
        self.folder.write(&self.folder.metrics(), &to_csv(&self.rows)?)?;
        let ended = self.trainer.is_finished() && self.trainer.config().rhythm.checkpoint > 0;
        if report.checkpoint_due || ended {
            self.save()?;
        }
        self.folder.write(&self.folder.stream(), &to_lines(&self.rows)?)
    }

    /// Ends a run whose loss has exploded before its checkpoint is overwritten, and says how to go back.
    fn refuse_explosion(&self, report: &EpochReport) -> Result<(), Failure> {
        let before =
            self.before.as_ref().filter(|before| self.trainer.config().has_same_loss(before, report));
        let Some(before) = before.map(|before| before.loss) else { return Ok(()) };
        if report.loss <= EXPLOSION * before.abs().max(1e-3) {
            return Ok(());
        }
        let at = Position { phase: report.phase, epoch: report.epoch, batch: 0 };
        let what = format!("the loss grew from {before:.3} to {:.1e} within an epoch", report.loss);
        Err(self.wrong(&TrainError::Diverged { at, what }))
    }

    /// Lets the samples held back say how good the network is, where it may be the one that is kept.
    fn choose(&mut self, row: &mut R, report: &EpochReport) -> Result<(), Failure> {
        let Some(selection) = self.trainer.config().selection else { return Ok(()) };
        if !self.trainer.is_candidate(report) {
            return Ok(());
        }
        let Some((score, certified)) = self.score(&selection, report)? else { return Ok(()) };
        let judged = self.trainer.judge(row.epoch(), score, selection.patience);
        row.judged(judged.map_err(|e| self.wrong(&e))?, certified);
        Ok(())
    }

    /// How good the network is, larger being better, and the part of samples that was proved, where it is that.
    fn score(
        &mut self,
        selection: &Selection,
        report: &EpochReport,
    ) -> Result<Option<(f64, Option<f64>)>, Failure> {
        let numbers = self.trainer.config().criterion.kind() == Kind::Numbers;
        let evaluation = match report.evaluation {
            Some(evaluation) => evaluation,
            None => self.trainer.evaluate().map_err(|e| self.wrong(&e))?,
        };
        let score = match (selection.by, &self.jury) {
            (By::Certified, Some(jury)) => {
                let (description, tensors) = self.trainer.network().map_err(|e| explain(&e, None))?;
                let part = jury.certified(description, &tensors)?;
                // Among those that prove equally much, the one that is right more often.
                return Ok(Some((part + 1e-3 * evaluation.accuracy, Some(part))));
            }
            // The error over boxes is what training knows of it.
            (By::Certified, None) if numbers => -report.robust_error,
            (By::Certified, None) => return Ok(None),
            (By::Accuracy, _) if numbers => -evaluation.error,
            (By::Accuracy, _) => evaluation.accuracy,
        };
        Ok(Some((score, None)))
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
        self.trainer.config().epochs_before(at.phase) + at.epoch
    }

    fn wrong(&self, error: &TrainError) -> Failure {
        let rescue = Rescue {
            resume: self.folder.resume(),
            rate: self.trainer.config().optimiser.rate,
            saved: self.saved,
            spoiled: self.spoiled.then(|| self.folder.has_good()),
            anew: self.folder.anew(),
        };
        explain(error, Some(rescue))
    }

    /// Writes the picture and the network, which marks the run as finished, and says what to do with it.
    fn finish(mut self, config: &Config, args: &TrainArgs) -> Outcome {
        let (mut description, tensors) = self.trainer.finish().map_err(|e| self.wrong(&e))?;
        description.training["device"] = self.device.as_str().into();
        if let Source::Series { record, .. } = &self.source {
            description.training["data"] = record.clone();
        }
        let model = write_model(&description, &tensors)
            .map_err(|e| Failure::new(format!("the trained network cannot be written: {e}")))?;
        let picture = R::picture(config, &format!("{}, seed {}", config.name, config.seed), &self.rows)?;
        self.folder.write(&self.folder.curves(), picture.as_bytes())?;
        self.folder.write(&self.folder.model(), &model)?;
        let seconds = self.rows.iter().map(R::seconds).sum();
        let model = quoted(&self.folder.model());
        let best = self.trainer.best().map(|best| best.epoch);
        let chosen =
            best.map_or_else(String::new, |epoch| format!(" (the network after epoch {epoch} is kept)"));
        let (what, samples) = self.source.command(self.folder.path(), config, args);
        print(&format!(
            "trained {} in {}{}{chosen}\n\n\
             the network is in {model}; next:\n  \
             gains certify --model {model}{what}\n  \
             gains eval --model {model}{what}{samples}\n",
            plain(&config.name),
            span(seconds),
            kept(&self.rows).map_or_else(String::new, |row| row.outcome(config))
        ))
    }
}
