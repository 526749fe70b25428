//! A run as it is seen while it goes on: a bar on a terminal, and a line per epoch everywhere.

use std::time::Instant;

use gains_train::{BatchReport, Config};
use indicatif::ProgressBar;

use super::pace::{Pace, span};
use super::record::Record;
use crate::output::{note, plain};
use crate::progress;

/// Where the run is, then what the batch came to; no line is longer than a narrow terminal.
const TEMPLATE: &str = "{prefix}  {bar:24}\n{msg}";

/// What is shown on standard error.
pub struct Live {
    bar: ProgressBar,
    pace: Pace,
    config: Config,
    batches: u32,
    quiet: bool,
    clock: Instant,
}

impl Live {
    /// A run with so many batches in each epoch.
    pub fn new(config: &Config, batches: u32, quiet: bool) -> Self {
        let total = u64::from(config.epochs()) * u64::from(batches);
        Self {
            bar: progress::bar(total, quiet, TEMPLATE),
            pace: Pace::new(config, batches),
            config: config.clone(),
            batches,
            quiet,
            clock: Instant::now(),
        }
    }

    /// Epoch of the whole run, from 0.
    pub fn overall(&self, phase: usize, epoch: u32) -> u32 {
        self.config.epochs_before(phase) + epoch
    }

    /// Forgets the time since the last batch: it went into something else.
    pub fn pause(&mut self) {
        self.clock = Instant::now();
    }

    /// A batch is done.
    pub fn batch<R: Record>(&mut self, report: &BatchReport) {
        let at = report.at;
        let epoch = self.overall(at.phase, at.epoch);
        self.pace.note(epoch, self.clock.elapsed().as_secs_f64());
        self.clock = Instant::now();
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position(u64::from(epoch) * u64::from(self.batches) + u64::from(at.batch) + 1);
        let left = self.pace.left(epoch, at.batch + 1).map_or_else(|| "–".into(), span);
        let place = self.place(at.phase, at.epoch);
        self.bar.set_prefix(format!("{place}, batch {}/{}, {left} left", at.batch + 1, report.batches));
        self.bar.set_message(R::of_batch(&self.config, report));
    }

    /// An epoch is done.
    pub fn epoch(&mut self, phase: usize, epoch: u32, row: &impl Record) {
        if self.quiet {
            return;
        }
        let left = self.pace.left(row.epoch(), 0).unwrap_or(0.0);
        let line = format!(
            "{}  {}  {}, {} left",
            self.place(phase, epoch),
            row.summary(&self.config),
            span(row.seconds()),
            span(left)
        );
        self.bar.suspend(|| note!("{line}"));
    }

    /// Says something without tearing the bar.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| note!("{text}"));
        }
    }

    /// Nothing more will come.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn place(&self, phase: usize, epoch: u32) -> String {
        let phase = self.config.phases.get(phase);
        let (name, epochs) = phase.map_or(("?".into(), 0), |phase| (plain(&phase.name), phase.epochs));
        format!("{name} {}/{epochs}", epoch + 1)
    }
}
