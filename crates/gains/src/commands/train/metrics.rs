//! What a run that predicts classes or numbers measures, epoch by epoch.

use gains_train::config::Training;
use gains_train::loss::criterion::Kind;
use gains_train::{BatchReport, Config, EpochReport};
use serde::{Deserialize, Serialize};

use super::curves;
use super::record::Record;
use super::several::Figures;
use crate::failure::Failure;

/// One epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the phase.
    pub phase: String,
    /// Counted over the whole run, from 1.
    pub epoch: u32,
    /// ε′.
    pub eps: f64,
    /// κ.
    pub kappa: u32,
    /// q₁ = q₂.
    pub q: f64,
    /// Mean of what was minimised.
    pub loss: f64,
    /// Mean cross-entropy of the images, or of attacked ones.
    pub clean: f64,
    /// Mean bound of the cross-entropy.
    pub robust: Option<f64>,
    /// Mean width term.
    pub width: Option<f64>,
    /// Part of the images classified correctly; nothing where numbers are predicted.
    pub accuracy: Option<f64>,
    /// Part of the images whose boxes are.
    pub robust_accuracy: Option<f64>,
    /// Batches whose trajectory graph had more than one way, as a part.
    pub splits: f64,
    /// Trajectories sampled per batch.
    pub trajectories: f64,
    /// Solver steps of the images themselves per batch, rejected ones counted.
    pub concrete_steps: f64,
    /// Solver steps of boxes per batch.
    pub abstract_steps: f64,
    /// Running average of first steps at the end of the epoch.
    pub h0: f64,
    /// Mean norm of the gradient before clipping.
    pub gradient_norm: f64,
    /// Learning rate.
    pub rate: f64,
    /// Part of the test images classified correctly, where it was looked at.
    pub test_accuracy: Option<f64>,
    /// How far the state moves in the neural ODE, as a part of its size.
    #[serde(default)]
    pub motion: Option<f64>,
    /// Part of the test images classified correctly if the neural ODE is left out, where it was looked at.
    #[serde(default)]
    pub without_ode: Option<f64>,
    /// Mean absolute error, where numbers are predicted.
    #[serde(default)]
    pub error: Option<f64>,
    /// Bound of it over the boxes.
    #[serde(default)]
    pub robust_error: Option<f64>,
    /// Mean absolute error on the samples held back, where it was looked at.
    #[serde(default)]
    pub test_error: Option<f64>,
    /// Part of the samples held back that was proved robust, where it was looked at.
    #[serde(default)]
    pub certified: Option<f64>,
    /// 1 if this is the best network so far, else 0, where networks are chosen.
    #[serde(default)]
    pub best: Option<u8>,
    /// How long the epoch took.
    pub seconds: f64,
}

impl Record for Row {
    fn new(config: &Config, epoch: u32, last: &BatchReport, report: &EpochReport, seconds: f64) -> Self {
        // Without a perturbation there are no boxes.
        let boxes = config.method == Training::Provable && report.eps > 0.0;
        let phase = config.phases.get(report.phase).map_or_else(String::new, |phase| phase.name.clone());
        let numbers = config.criterion.kind() == Kind::Numbers;
        let classes = !numbers;
        Self {
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

    fn epoch(&self) -> u32 {
        self.epoch
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn judged(&mut self, best: bool, certified: Option<f64>) {
        (self.best, self.certified) = (Some(u8::from(best)), certified);
    }

    fn is_best(&self) -> bool {
        self.best == Some(1)
    }

    fn figures(&self) -> Figures {
        vec![
            ("loss", Some(self.loss)),
            ("accuracy", self.accuracy),
            ("robust_accuracy", self.robust_accuracy),
            ("test_accuracy", self.test_accuracy),
            ("certified", self.certified),
            ("error", self.error),
            ("robust_error", self.robust_error),
            ("test_error", self.test_error),
        ]
    }

    fn summary(&self, config: &Config) -> String {
        let method = config.method;
        let percent = |part: f64| format!("{:.1} %", 100.0 * part);
        let mut text = format!("loss {}", short(self.loss));
        if let (Training::Provable, Some(robust), Some(width)) = (method, self.robust, self.width) {
            text +=
                &format!(" (clean {}, robust {}, width {})", short(self.clean), short(robust), short(width));
        }
        if method != Training::Standard {
            text += &format!("  eps {:.5}", self.eps);
        }
        text += &match (method, self.accuracy, self.robust_accuracy) {
            (_, None, _) => format!("  error {}", short(self.error.unwrap_or(0.0))),
            (Training::Adversarial, Some(right), _) => format!("  {} right under attack", percent(right)),
            (_, Some(right), Some(robust)) => {
                format!("  {} right, {} for sure", percent(right), percent(robust))
            }
            (_, Some(right), None) => format!("  {} right", percent(right)),
        };
        if method == Training::Provable {
            text += &format!("  κ {}, {:.1} splits", self.kappa, self.splits);
        }
        text += &format!("  {:.1} steps", self.concrete_steps);
        if let Some(test) = self.test_accuracy {
            text += &format!("  test {}", percent(test));
        }
        if let Some(error) = self.test_error {
            text += &format!("  test error {}", short(error));
        }
        if let Some(certified) = self.certified {
            text += &format!("  certified {}", percent(certified));
        }
        if self.best == Some(1) {
            text += "  best";
        }
        text
    }

    fn outcome(&self, config: &Config) -> String {
        let percent = |part: f64| format!("{:.1} %", 100.0 * part);
        let under = if config.method == Training::Adversarial { " under attack" } else { "" };
        let own = config.own_inputs().is_some();
        let (things, others) = if own { ("samples", "those held back") } else { ("images", "test images") };
        let mut text = String::new();
        if let Some(accuracy) = self.accuracy {
            text += &format!(": training {things} {} right{under}", percent(accuracy));
        }
        if let Some(error) = self.error {
            text += &format!(": mean absolute error {error:.4}{under}");
        }
        if let Some(robust) = self.robust_accuracy {
            text += &format!(", their boxes {} at eps {}", percent(robust), self.eps);
        }
        if let Some(robust) = self.robust_error {
            text += &format!(", of their boxes {robust:.4} at eps {}", self.eps);
        }
        if let Some(test) = self.test_accuracy {
            text += &format!(", {others} {}", percent(test));
        }
        if let Some(error) = self.test_error {
            text += &format!(", of {others} {error:.4}");
        }
        if let Some(certified) = self.certified {
            text += &format!(", {} certified", percent(certified));
        }
        text
    }

    fn of_batch(config: &Config, report: &BatchReport) -> String {
        let method = config.method;
        let loss = &report.loss;
        let steps = report.concrete_steps;
        let percent = |part: f64| format!("{:.1} %", 100.0 * part);
        let (total, accuracy) = (short(loss.total), percent(report.accuracy));
        match method {
            Training::Standard => format!("loss {total}  {accuracy} right  {steps} steps"),
            Training::Adversarial => {
                format!("loss {total}  eps {:.4}  {accuracy} right under attack  {steps} steps", report.eps)
            }
            Training::Provable => {
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

    fn picture(config: &Config, title: &str, rows: &[Self]) -> Result<String, Failure> {
        curves::draw(title, &curves::Words::of(config), rows)
    }
}

/// A loss in a few characters, however large.
fn short(loss: f64) -> String {
    if loss.abs() < 1e4 { format!("{loss:.3}") } else { format!("{loss:.1e}") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::record::{read, to_csv};
    use super::*;

    #[test]
    fn rows_come_back_as_they_were() {
        let row = |epoch| Row { phase: "warm-up, 1".into(), epoch, eps: 0.1 + 0.2, ..Row::default() };
        let rows: Vec<Row> =
            [1, 2, 3].map(|n| Row { test_accuracy: (n == 2).then_some(1.0 / 3.0), ..row(n) }).into();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.csv");
        let bytes = to_csv(&rows).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        let read = |path: &Path, epochs| read::<Row>(path, epochs);
        assert_eq!(read(&path, 9), rows);
        assert_eq!(read(&path, 2), rows[..2]);
        assert!(
            String::from_utf8(bytes.clone())
                .unwrap()
                .starts_with("phase,epoch,eps,kappa,q,loss,clean,robust,width,")
        );
        std::fs::write(&path, &bytes[..bytes.len() - 40]).unwrap();
        assert_eq!(read(&path, 9), rows[..2], "a torn line is dropped");
        assert!(read(&folder.path().join("none"), 9).is_empty());
    }
}
