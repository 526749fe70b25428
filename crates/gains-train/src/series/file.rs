//! Configurations of forecasting networks as TOML files: the keys of one phase lie at the top, beside those of series.
//!
//! ```
//! let config = gains_train::Config::from_toml("task = 'forecasting'\nepochs = 3").unwrap();
//! assert_eq!((config.batch, config.epochs()), (128, 3));
//! assert_eq!(config.forecast.unwrap().horizon, 24.0);
//! ```

use serde::{Deserialize, Serialize};

use super::config::{ElboWeights, ForecastConfig, PHYSIONET, PerturbationConfig, Ratio, Sizes};
use crate::config::{By, Config, LossWeights, Optimiser, Phase, Rhythm, Selection, SolverConfig, Training};
use crate::loss::Criterion;
use crate::loss::criterion::Absolute;
use crate::schedule::{Sin, Smooth};

/// What tells these files from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Task {
    /// Predicting what is observed at a later time of a series.
    Forecasting,
}

/// The keys of a file, in the order they are written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ForecastFile {
    task: Task,
    name: String,
    /// The prepared data set: `physionet2012`, or the path of a file made by `gains data prepare`.
    dataset: String,
    horizon: f64,
    seed: u64,
    batch: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<usize>,
    method: Training,
    epochs: u32,
    network: Sizes,
    solver: SolverConfig,
    optimiser: Optimiser,
    selection: Choice,
    checkpoint_every: u32,
    loss: Weights,
    #[serde(skip_serializing_if = "Option::is_none")]
    eps: Option<Smooth>,
    q: Sin,
    perturbation: PerturbationConfig,
    ratio: Vec<Ratio>,
}

/// Which epoch's network is kept: the one with the smallest error on the validation series.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Choice {
    from: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    patience: Option<u32>,
}

/// Weights in `(1 − ω₁r) L + ω₁r L_abs + ω₂W`, r being the part of the target perturbation reached and L as in
/// [`ElboWeights`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Weights {
    elbo: f64,
    error: f64,
    anneal: f64,
    anneal_from: u32,
    /// ω₁. The paper says 2/3, the authors' program 0.66.
    robust: f64,
    /// ω₂, of the mean width of observed outputs.
    width: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { elbo: 0.1, error: 3000.0, anneal: 0.99, anneal_from: 10, robust: 0.66, width: 0.01 }
    }
}

impl Default for ForecastFile {
    fn default() -> Self {
        Self {
            task: Task::Forecasting,
            name: "unnamed".into(),
            dataset: PHYSIONET.into(),
            horizon: 24.0,
            seed: 100,
            batch: 128,
            records: None,
            method: Training::Standard,
            epochs: 120,
            network: Sizes::default(),
            solver: SolverConfig::default(),
            optimiser: Optimiser::default(),
            selection: Choice::default(),
            checkpoint_every: 1,
            loss: Weights::default(),
            eps: None,
            q: Sin::default(),
            perturbation: PerturbationConfig::default(),
            ratio: vec![Ratio { from: 0, value: 1.0 }],
        }
    }
}

impl ForecastFile {
    /// Whether a file is one of these: others have no task.
    pub(crate) fn is_meant_by(table: &toml::Table) -> bool {
        table.contains_key("task")
    }

    /// What a configuration looks like as a file, if it is one of forecasting.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let ForecastConfig { horizon, network, loss, perturbation, ratio } = config.forecast.clone()?;
        let phase = config.phases.first().cloned().unwrap_or_default();
        let selection = config.selection.unwrap_or_default();
        Some(Self {
            task: Task::Forecasting,
            name: config.name.clone(),
            dataset: config.dataset.clone(),
            horizon,
            seed: config.seed,
            batch: config.batch,
            records: config.images,
            method: config.method,
            epochs: phase.epochs,
            network,
            solver: config.solver.clone(),
            optimiser: config.optimiser.clone(),
            selection: Choice { from: selection.from, patience: selection.patience },
            checkpoint_every: config.rhythm.checkpoint,
            loss: Weights {
                elbo: loss.elbo,
                error: loss.error,
                anneal: loss.anneal,
                anneal_from: loss.from,
                robust: phase.loss.robust,
                width: phase.loss.width,
            },
            eps: phase.eps,
            q: phase.q,
            perturbation,
            ratio,
        })
    }
}

impl From<ForecastFile> for Config {
    fn from(file: ForecastFile) -> Self {
        let loss = &file.loss;
        let phase = Phase {
            // There is but one, so epochs need no other name.
            name: "epoch".into(),
            epochs: file.epochs,
            eps: file.eps,
            q: file.q,
            loss: LossWeights { robust: loss.robust, width: loss.width, ..LossWeights::default() },
            ..Phase::default()
        };
        let forecast = ForecastConfig {
            horizon: file.horizon,
            network: file.network,
            loss: ElboWeights {
                elbo: loss.elbo,
                error: loss.error,
                anneal: loss.anneal,
                from: loss.anneal_from,
            },
            perturbation: file.perturbation,
            ratio: file.ratio,
        };
        let Choice { from, patience } = file.selection;
        Self {
            name: file.name,
            dataset: file.dataset,
            seed: file.seed,
            batch: file.batch,
            images: file.records,
            method: file.method,
            criterion: Criterion::Absolute(Absolute {}),
            solver: file.solver,
            optimiser: file.optimiser,
            rhythm: Rhythm { checkpoint: file.checkpoint_every, evaluation: 1, test_images: usize::MAX },
            selection: Some(Selection { by: By::Accuracy, from, patience, ..Selection::default() }),
            forecast: Some(forecast),
            phases: vec![phase],
            ..Self::default()
        }
    }
}
