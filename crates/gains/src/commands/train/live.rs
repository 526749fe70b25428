//! A run as it is seen while it goes on: a bar on a terminal, and a line per epoch everywhere.

use std::time::Instant;

use gains_train::Config;
use gains_train::config::Method;
use gains_train::metrics::BatchReport;
use indicatif::ProgressBar;

use super::metrics::Row;
use super::pace::{Pace, span};
use crate::output::{note, plain};
use crate::progress;

/// Where the run is, then what the batch came to; no line is longer than a narrow terminal.
const TEMPLATE: &str = "{prefix}  {bar:24}\n{msg}";

/// What is shown on standard error.
pub struct Live {
    bar: ProgressBar,
    pace: Pace,
    method: Method,
    /// Name and epochs of each phase, and how many epochs came before it.
    phases: Vec<(String, u32, u32)>,
    batches: u32,
    quiet: bool,
    clock: Instant,
}

impl Live {
    /// A run with so many batches in each epoch.
    pub fn new(config: &Config, batches: u32, quiet: bool) -> Self {
        let mut before = 0;
        let phases = config.phases.iter().map(|phase| {
            let entry = (plain(&phase.name).into_owned(), phase.epochs, before);
            before += phase.epochs;
            entry
        });
        let phases = phases.collect();
        let total = u64::from(config.epochs()) * u64::from(batches);
        Self {
            bar: progress::bar(total, quiet, TEMPLATE),
            pace: Pace::new(config, batches),
            method: config.method,
            phases,
            batches,
            quiet,
            clock: Instant::now(),
        }
    }

    /// Epoch of the whole run, from 0.
    pub fn overall(&self, phase: usize, epoch: u32) -> u32 {
        self.phases.get(phase).map_or(0, |(_, _, before)| before + epoch)
    }

    /// Forgets the time since the last batch: it went into something else.
    pub fn pause(&mut self) {
        self.clock = Instant::now();
    }

    /// A batch is done.
    pub fn batch(&mut self, report: &BatchReport) {
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
        self.bar.set_message(describe(self.method, report));
    }

    /// An epoch is done.
    pub fn epoch(&mut self, phase: usize, epoch: u32, row: &Row) {
        if self.quiet {
            return;
        }
        let left = self.pace.left(row.epoch, 0).unwrap_or(0.0);
        let line = format!(
            "{}  {}  {}, {} left",
            self.place(phase, epoch),
            summary(self.method, row),
            span(row.seconds),
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
        let (name, epochs) =
            self.phases.get(phase).map_or(("?", 0), |(name, epochs, _)| (name.as_str(), *epochs));
        format!("{name} {}/{epochs}", epoch + 1)
    }
}

/// A loss in a few characters, however large.
fn short(loss: f64) -> String {
    if loss.abs() < 1e4 { format!("{loss:.3}") } else { format!("{loss:.1e}") }
}

fn describe(method: Method, report: &BatchReport) -> String {
    let loss = &report.loss;
    let steps = report.concrete_steps;
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let (total, accuracy) = (short(loss.total), percent(report.accuracy));
    match method {
        Method::Standard => format!("loss {total}  {accuracy} right  {steps} steps"),
        Method::Adversarial => {
            format!("loss {total}  eps {:.4}  {accuracy} right under attack  {steps} steps", report.eps)
        }
        Method::Provable => {
            let terms = [loss.clean, loss.robust, loss.width].map(short);
            let [clean, robust, width] = &terms;
            let BatchReport { eps, kappa, splits, abstract_steps, .. } = report;
            let sure = percent(report.robust_accuracy);
            format!(
                "loss {total} (clean {clean}, robust {robust}, width {width})\n\
                 eps {eps:.4}  κ {kappa}  {splits} splits  {steps}+{abstract_steps} steps  \
                 {accuracy} right, {sure} for sure"
            )
        }
    }
}

/// What an epoch came to.
fn summary(method: Method, row: &Row) -> String {
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let mut text = format!("loss {}", short(row.loss));
    if let (Method::Provable, Some(robust), Some(width)) = (method, row.robust, row.width) {
        text += &format!(" (clean {}, robust {}, width {})", short(row.clean), short(robust), short(width));
    }
    if method != Method::Standard {
        text += &format!("  eps {:.5}", row.eps);
    }
    text += &match (method, row.accuracy, row.robust_accuracy) {
        (_, None, _) => format!("  error {}", short(row.error.unwrap_or(0.0))),
        (Method::Adversarial, Some(right), _) => format!("  {} right under attack", percent(right)),
        (_, Some(right), Some(robust)) => format!("  {} right, {} for sure", percent(right), percent(robust)),
        (_, Some(right), None) => format!("  {} right", percent(right)),
    };
    if method == Method::Provable {
        text += &format!("  κ {}, {:.1} splits", row.kappa, row.splits);
    }
    text += &format!("  {:.1} steps", row.concrete_steps);
    if let Some(test) = row.test_accuracy {
        text += &format!("  test {}", percent(test));
    }
    if let Some(error) = row.test_error {
        text += &format!("  test error {}", short(error));
    }
    if let Some(certified) = row.certified {
        text += &format!("  certified {}", percent(certified));
    }
    if row.best == Some(1) {
        text += "  best";
    }
    text
}
