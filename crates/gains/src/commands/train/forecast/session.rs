//! A run from its first batch (or its checkpoint) to its network.

use std::path::Path;
use std::time::Instant;

use gains_core::model_file::write_model;
use gains_train::series::{
    ForecastAdvance, ForecastCheckpoint, ForecastConfig, ForecastEpoch, ForecastTrainer,
};
use gains_train::{Position, TrainError};
use indicatif::ProgressBar;

use super::super::folder::Folder;
use super::super::metrics::{read, to_csv, to_lines};
use super::super::pace::span;
use super::super::{Rescue, explain, quoted};
use super::report::{Row, describe, picture};
use crate::cli::Global;
use crate::failure::{Failure, Outcome};
use crate::output::{note, plain, print};
use crate::{interrupt, progress};

/// A run and the folder it lives in.
pub struct Session {
    trainer: ForecastTrainer<f32>,
    /// What the network's record tells of the data.
    record: serde_json::Value,
    folder: Folder,
    rows: Vec<Row>,
    /// Where the checkpoint in the folder stands.
    saved: Option<Position>,
    epoch_began: Instant,
}

impl Session {
    /// A run from the beginning.
    pub fn new(trainer: ForecastTrainer<f32>, record: serde_json::Value, folder: Folder) -> Self {
        Self { trainer, record, folder, rows: Vec::new(), saved: None, epoch_began: Instant::now() }
    }

    /// Trains to the end, or until the user breaks it off.
    pub fn run(mut self, checkpoint: Option<ForecastCheckpoint>, global: &Global) -> Outcome {
        let config = self.trainer.config().clone();
        if let Some(checkpoint) = checkpoint {
            self.saved = Some(checkpoint.state.at);
            self.trainer.restore(&checkpoint).map_err(|e| self.wrong(&e))?;
            let done = self.trainer.position().epoch;
            self.rows = read(&self.folder.metrics(), |row: &Row| row.epoch <= done);
        }
        self.folder.write(&self.folder.config(), config.to_toml().as_bytes())?;
        if !global.quiet {
            note!("training {} on cpu into {}", plain(&config.name), quoted(self.folder.path()));
        }
        let batches = u64::from(config.epochs) * u64::from(self.trainer.batches());
        let bar = progress::bar(batches, global.quiet, "{prefix}  {bar:24}  {eta} left\n{msg}");
        self.epoch_began = Instant::now();
        let outcome = self.train(&bar, global.quiet);
        bar.finish_and_clear();
        if outcome? {
            self.finish(&config)
        } else {
            let done = self.rows.len();
            note!("interrupted after {done} of {} epochs; saved", config.epochs);
            note!("go on with `{}`", self.folder.resume());
            Ok(())
        }
    }

    /// Trains; false if the user broke it off.
    fn train(&mut self, bar: &ProgressBar, quiet: bool) -> Result<bool, Failure> {
        while !interrupt::requested() {
            let advance = self.trainer.advance().map_err(|e| self.wrong(&e))?;
            let Some(ForecastAdvance { batch, epoch }) = advance else { return Ok(true) };
            let (at, batches) = (batch.at, batch.batches);
            let epochs = self.trainer.config().epochs;
            bar.set_position(u64::from(at.epoch) * u64::from(batches) + u64::from(at.batch) + 1);
            bar.set_prefix(format!("epoch {}/{epochs}, batch {}/{batches}", at.epoch + 1, at.batch + 1));
            bar.set_message(describe(&batch));
            if let Some(report) = epoch {
                let row = self.end_epoch(&report)?;
                if !quiet {
                    let line =
                        format!("epoch {}/{epochs}  {}  {}", row.epoch, row.summary(), span(row.seconds));
                    bar.suspend(|| note!("{line}"));
                }
            }
        }
        self.save()?;
        Ok(false)
    }

    fn end_epoch(&mut self, report: &ForecastEpoch) -> Result<Row, Failure> {
        let row = Row::new(report, self.epoch_began.elapsed().as_secs_f64());
        self.epoch_began = Instant::now();
        self.rows.push(row.clone());
        // Lines ahead of the checkpoint are dropped when the run is taken up again; missing ones never come back.
        self.folder.write(&self.folder.metrics(), &to_csv(&self.rows)?)?;
        if report.checkpoint_due {
            self.save()?;
        }
        self.folder.write(&self.folder.stream(), &to_lines(&self.rows)?)?;
        Ok(row)
    }

    fn save(&mut self) -> Result<(), Failure> {
        let checkpoint = self.trainer.checkpoint().map_err(|e| self.wrong(&e))?;
        let bytes = checkpoint.to_bytes().map_err(|e| Failure::new(format!("cannot save the run: {e}")))?;
        self.folder.save(&bytes)?;
        self.saved = Some(checkpoint.state.at);
        Ok(())
    }

    fn wrong(&self, error: &TrainError) -> Failure {
        let rate = self.trainer.config().optimiser.rate;
        explain(error, Some(Rescue { resume: self.folder.resume(), rate, saved: self.saved }))
    }

    /// Writes the picture and the network, which marks the run as finished.
    fn finish(mut self, config: &ForecastConfig) -> Outcome {
        let (mut description, tensors) = self.trainer.finish().map_err(|e| self.wrong(&e))?;
        description.training["data"] = self.record.clone();
        let model = write_model(&description, &tensors)
            .map_err(|e| Failure::new(format!("the trained network cannot be written: {e}")))?;
        self.folder.write(&self.folder.curves(), picture(config, &self.rows)?.as_bytes())?;
        self.folder.write(&self.folder.model(), &model)?;
        let seconds = self.rows.iter().map(|row| row.seconds).sum();
        let chosen = self.trainer.best().map_or_else(String::new, |best| {
            format!(
                ": mean absolute error {:.4} on validation series after epoch {}",
                best.validation,
                best.epoch + 1
            )
        });
        let model = quoted(&self.folder.model());
        let series = match config.dataset.as_str() {
            "physionet2012" => String::new(),
            path => format!(" --series {}", quoted(Path::new(path))),
        };
        print(&format!(
            "trained {} in {}{chosen}\n\nthe network is in {model}; next:\n  \
             gains certify --model {model}{series} --eps 0.05,0.1\n  \
             gains eval --model {model}{series} --eps 0.05,0.1 --records 0..400\n",
            plain(&config.name),
            span(seconds)
        ))
    }
}
