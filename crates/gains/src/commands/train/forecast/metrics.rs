//! What a run on series measures, epoch by epoch.

use gains_train::{BatchReport, Config, EpochReport};
use serde::{Deserialize, Serialize};

use super::super::curves::{BLUE, Curve, GREEN, GREY, ORANGE, Panel, draw_panels};
use super::super::record::Record;
use super::super::several::Figures;
use crate::failure::Failure;

/// One epoch: a line of `metrics.csv`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// From 1.
    pub epoch: u32,
    /// ε′.
    pub eps: f64,
    /// ρ: up to which time observations are perturbed.
    pub rho: f64,
    /// q₁ = q₂.
    pub q: f64,
    /// Mean of what was minimised.
    pub loss: f64,
    /// Mean loss of the series as they are.
    pub clean: f64,
    /// Mean bound of the loss.
    pub robust: Option<f64>,
    /// Mean log-likelihood.
    pub likelihood: f64,
    /// Mean divergence of the latent state.
    pub divergence: f64,
    /// Mean absolute error, the latent state drawn at random.
    pub mae: f64,
    /// Mean absolute error in the worst case of the boxes.
    pub worst_mae: Option<f64>,
    /// Mean width of the boxes of observed outputs.
    pub width: Option<f64>,
    /// Box steps at which the trajectory split, per batch.
    pub splits: f64,
    /// Decoder steps of the series per batch, rejected ones counted.
    pub concrete_steps: f64,
    /// Decoder steps of boxes per batch.
    pub abstract_steps: f64,
    /// Running average of first steps at the end of the epoch.
    pub h0: f64,
    /// Mean norm of the gradient before clipping.
    pub gradient_norm: f64,
    /// Learning rate.
    pub rate: f64,
    /// Mean absolute error on the validation series.
    pub validation_mae: Option<f64>,
    /// Whether the network after this epoch is the best so far.
    pub best: bool,
    /// How long the epoch took.
    pub seconds: f64,
}

impl Record for Row {
    fn new(config: &Config, epoch: u32, last: &BatchReport, report: &EpochReport, seconds: f64) -> Self {
        // Without a perturbation there are no boxes.
        let boxes = |value: f64| (report.eps > 0.0).then_some(value);
        let latent = report.latent.unwrap_or_default();
        Self {
            epoch,
            eps: report.eps,
            rho: config.forecast.as_ref().map_or(1.0, |forecast| forecast.ratio(report.epoch)),
            q: last.q,
            loss: report.loss,
            clean: report.clean,
            robust: boxes(report.robust),
            likelihood: latent.likelihood,
            divergence: latent.divergence,
            mae: report.error,
            worst_mae: boxes(report.robust_error),
            width: boxes(report.width),
            splits: report.splits,
            concrete_steps: report.concrete_steps,
            abstract_steps: report.abstract_steps,
            h0: report.average_step,
            gradient_norm: report.gradient_norm,
            rate: last.rate,
            validation_mae: report.evaluation.map(|evaluation| evaluation.error),
            best: false,
            seconds,
        }
    }

    fn epoch(&self) -> u32 {
        self.epoch
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn judged(&mut self, best: bool, _certified: Option<f64>) {
        self.best = best;
    }

    fn is_best(&self) -> bool {
        self.best
    }

    fn figures(&self) -> Figures {
        vec![
            ("loss", Some(self.loss)),
            ("mae", Some(self.mae)),
            ("worst_mae", self.worst_mae),
            ("width", self.width),
            ("validation_mae", self.validation_mae),
        ]
    }

    fn summary(&self, _config: &Config) -> String {
        let mut text = format!("loss {:.1}  MAE {:.4}", self.loss, self.mae);
        if let (Some(worst), Some(width)) = (self.worst_mae, self.width) {
            text += &format!(" (worst case {worst:.4}, width {width:.4})");
            text += &format!("  eps {:.4} up to {:.2}", self.eps, self.rho);
        }
        text += &format!("  {:.1} steps", self.concrete_steps);
        if let Some(validation) = self.validation_mae {
            text += &format!("  validation {validation:.4}{}", if self.best { ", the best" } else { "" });
        }
        text
    }

    fn outcome(&self, _config: &Config) -> String {
        let error = self.validation_mae;
        error.map_or_else(String::new, |error| {
            format!(": mean absolute error {error:.4} on validation series")
        })
    }

    fn of_batch(_config: &Config, report: &BatchReport) -> String {
        let mut text = format!("loss {:.1}  MAE {:.4}", report.loss.total, report.error);
        if report.eps > 0.0 {
            text += &format!("  worst case {:.4}  eps {:.4}", report.robust_error, report.eps);
        }
        text + &format!("  {} steps", report.concrete_steps + report.abstract_steps)
    }

    /// Losses, errors and the perturbation over the epochs.
    fn picture(_config: &Config, title: &str, rows: &[Self]) -> Result<String, Failure> {
        let curve = |name, colour, value: &dyn Fn(&Row) -> Option<f64>| {
            let point = |row: &Row| value(row).filter(|v| v.is_finite()).map(|v| (f64::from(row.epoch), v));
            Curve { name, colour, points: rows.iter().filter_map(point).collect() }
        };
        let mut panels = vec![
            Panel {
                title: "mean absolute error (in deviations)",
                curves: vec![
                    curve("training series", BLUE, &|row| Some(row.mae)),
                    curve("their boxes, on sampled trajectories", ORANGE, &|row| row.worst_mae),
                    curve("validation series", GREEN, &|row| row.validation_mae),
                ],
                least: (0.0, 0.0),
            },
            Panel {
                title: "loss (means over an epoch)",
                curves: vec![
                    curve("of the series", BLUE, &|row| Some(row.clean)),
                    curve("of their boxes", ORANGE, &|row| row.robust),
                    curve("total, weighted", GREY, &|row| Some(row.loss)),
                ],
                least: (0.0, 0.0),
            },
        ];
        if rows.iter().any(|row| row.eps > 0.0) {
            panels.push(Panel {
                title: "eps (in deviations)",
                curves: vec![curve("eps", BLUE, &|row| Some(row.eps))],
                least: (0.0, 0.0),
            });
        }
        let last = rows.last().map_or(1, |row| row.epoch);
        draw_panels(title, panels, &[], last)
    }
}
