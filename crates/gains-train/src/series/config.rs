//! Everything the training of a forecasting network depends on, as one TOML file.
//!
//! ```
//! let config = gains_train::series::ForecastConfig::from_toml("task = 'forecasting'\nepochs = 3").unwrap();
//! assert_eq!((config.batch, config.horizon), (128, 24.0));
//! ```
//!
//! Keys that are left out take the values of the paper's experiments; a key that is not known is an error.

use gains_core::Description;
use gains_core::description::{Points, Task};
use gains_core::latent_ode::LatentOde;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, Optimiser, SolverConfig};
use crate::schedule::{Sin, Smooth};

/// What tells this configuration from that of an image classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForecastTask {
    /// Predicting what is observed at a later time of a series.
    Forecasting,
}

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForecastMethod {
    /// The loss of the series as they are.
    Standard,
    /// The loss of the series and a bound of that of all series near them.
    Provable,
}

/// A training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ForecastConfig {
    /// Always `forecasting`.
    pub task: ForecastTask,
    /// Name of the run and of the network it makes.
    pub name: String,
    /// The prepared data set: `physionet2012`, or the path of a file made by `gains data prepare`.
    pub dataset: String,
    /// How far ahead to predict at least, in the unit of time of the data: hours for PhysioNet.
    pub horizon: f64,
    /// Seed of everything random in training. Which series are trained on is the prepared file's matter.
    pub seed: u64,
    /// Series in a batch; the last of an epoch may have fewer.
    pub batch: usize,
    /// How many of the training series are used, from the first; all if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<usize>,
    /// What is minimised.
    pub method: ForecastMethod,
    /// Most epochs.
    pub epochs: u32,
    /// Sizes of the network.
    pub network: Sizes,
    /// The decoder's solver. In training, `end_time` is that of scaled time and must be 1.
    pub solver: SolverConfig,
    /// Adam.
    pub optimiser: Optimiser,
    /// Which epoch's network is kept, and when to stop.
    pub selection: Selection,
    /// Epochs between checkpoints; 0 is never.
    pub checkpoint_every: u32,
    /// Weights in the loss.
    pub loss: ForecastLoss,
    /// The perturbation; none in standard training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eps: Option<Smooth>,
    /// q₁ = q₂ of the trajectory that is sampled for the boxes of a batch.
    pub q: Sin,
    /// What is perturbed.
    pub perturbation: PerturbationConfig,
    /// ρ, from an epoch on: while it is below 1, only what is observed up to this time is perturbed.
    pub ratio: Vec<Ratio>,
}

impl Default for ForecastConfig {
    fn default() -> Self {
        Self {
            task: ForecastTask::Forecasting,
            name: "unnamed".into(),
            dataset: "physionet2012".into(),
            horizon: 24.0,
            seed: 100,
            batch: 128,
            records: None,
            method: ForecastMethod::Standard,
            epochs: 120,
            network: Sizes::default(),
            solver: SolverConfig::default(),
            optimiser: Optimiser::default(),
            selection: Selection::default(),
            checkpoint_every: 1,
            loss: ForecastLoss::default(),
            eps: None,
            q: Sin::default(),
            perturbation: PerturbationConfig::default(),
            ratio: vec![Ratio { from: 0, value: 1.0 }],
        }
    }
}

/// Sizes of a latent ODE, as [`LatentOde`] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sizes {
    /// Entries of the encoder's mean, and of its deviation.
    pub state: usize,
    /// Hidden entries of the encoder's dynamics.
    pub dynamics: usize,
    /// Hidden layers of the encoder's dynamics.
    pub dynamics_depth: usize,
    /// Hidden entries of the gates and of the candidate.
    pub gates: usize,
    /// Hidden entries between the encoder's state and the latent state.
    pub transform: usize,
    /// Entries of the latent state.
    pub latent: usize,
    /// Hidden entries of the decoder's dynamics.
    pub decoder: usize,
    /// Hidden layers of the decoder's dynamics.
    pub decoder_depth: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        let paper = LatentOde::default();
        Self {
            state: paper.state,
            dynamics: paper.dynamics.0,
            dynamics_depth: paper.dynamics.1,
            gates: paper.gates,
            transform: paper.transform,
            latent: paper.latent,
            decoder: paper.decoder.0,
            decoder_depth: paper.decoder.1,
        }
    }
}

/// Which epoch's network is kept: the one with the smallest error on the validation series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    /// First epoch, from 0, that counts.
    pub from: u32,
    /// The run ends after more than so many epochs without a better one; never, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
}

/// Weights in `(1 − ω₁r) L + ω₁r L_abs + ω₂W` with `L = −elbo (LL − k·KL) + error·MAE`, r being the part of the target
/// perturbation reached and `k = 1 − annealᵉ` from the epoch `anneal_from` on, e epochs later.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ForecastLoss {
    /// Of likelihood and divergence.
    pub elbo: f64,
    /// Of the absolute error.
    pub error: f64,
    /// Base of the annealing of the divergence.
    pub anneal: f64,
    /// First epoch with the divergence.
    pub anneal_from: u32,
    /// ω₁. The paper says 2/3, the authors' program 0.66.
    pub robust: f64,
    /// ω₂, of the mean width of observed outputs.
    pub width: f64,
}

impl Default for ForecastLoss {
    fn default() -> Self {
        Self { elbo: 0.1, error: 3000.0, anneal: 0.99, anneal_from: 10, robust: 0.66, width: 0.01 }
    }
}

impl ForecastLoss {
    /// k in an epoch.
    pub fn divergence(&self, epoch: u32) -> f64 {
        let since = epoch.saturating_sub(self.anneal_from);
        1.0 - self.anneal.powi(i32::try_from(since).unwrap_or(i32::MAX))
    }
}

/// What is perturbed: every observed feature, and some of the statics. All by name; names the data do not have are
/// passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PerturbationConfig {
    /// Features that stay in [0, 1].
    pub bounded: Vec<String>,
    /// Statics that are perturbed, once ρ is 1.
    pub statics: Vec<String>,
}

impl Default for PerturbationConfig {
    fn default() -> Self {
        let names = |list: [&str; 2]| list.map(String::from).to_vec();
        Self { bounded: names(["FiO2", "SaO2"]), statics: names(["Age", "Height"]) }
    }
}

/// From an epoch on, up to which time observations are perturbed (ρ).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// First epoch.
    pub from: u32,
    /// The time, 1 being that of the longest series.
    pub value: f64,
}

impl ForecastConfig {
    /// Reads and checks a configuration.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config: Self =
            toml::from_str(text).map_err(|e| ConfigError::Syntax(e.to_string().trim_end().to_string()))?;
        config.problem().map_or(Ok(config), |problem| Err(problem.into()))
    }

    /// Whether a perturbation is the one the run is for: networks from before are no candidates, however small their error.
    pub fn is_reached(&self, eps: f64) -> bool {
        self.eps.is_none_or(|schedule| self.method != ForecastMethod::Provable || eps >= schedule.target)
    }

    /// Whether a TOML file says that it is about forecasting.
    pub fn is_meant_by(text: &str) -> bool {
        let task = |table: toml::Table| table.get("task").and_then(|task| task.as_str().map(String::from));
        toml::from_str::<toml::Table>(text).ok().and_then(task).is_some_and(|task| task == "forecasting")
    }

    /// The whole configuration, with every value that was left out.
    pub fn to_toml(&self) -> String {
        // Every type here has a TOML form, so this cannot fail.
        toml::to_string(self).unwrap_or_default()
    }

    /// ρ in an epoch; 1 before the first entry.
    pub fn ratio(&self, epoch: u32) -> f64 {
        self.ratio.iter().rev().find(|entry| entry.from <= epoch).map_or(1.0, |entry| entry.value)
    }

    /// The network, for series with these features and statics, and a first step.
    pub fn description(&self, features: &[String], statics: &[String], first_step: f64) -> Description {
        let Sizes { state, dynamics, dynamics_depth, gates, transform, latent, decoder, decoder_depth } =
            self.network;
        let sizes = LatentOde {
            state,
            dynamics: (dynamics, dynamics_depth),
            gates,
            transform,
            latent,
            decoder: (decoder, decoder_depth),
        };
        let solver = self.solver.spec(first_step);
        let PerturbationConfig { bounded, statics: moving } = self.perturbed();
        let there = |name: &&String| features.contains(name) || statics.contains(name);
        let task = Task::Forecasting {
            features: features.to_vec(),
            statics: statics.to_vec(),
            horizon: Some(self.horizon),
            ranges: bounded.iter().filter(there).map(|name| (name.clone(), [0.0, 1.0])).collect(),
            perturbed: Some(features.iter().chain(moving.iter().filter(there)).cloned().collect()),
        };
        Description {
            name: self.name.clone(),
            dataset: Some(self.dataset.clone()),
            task,
            ..sizes.description(features.to_vec(), statics.to_vec(), Points::Observed, solver)
        }
    }

    /// What is perturbed. The names that stand for nothing else are the paper's, for PhysioNet: a table of one's own
    /// may have them too, on another scale.
    pub fn perturbed(&self) -> PerturbationConfig {
        let usual = PerturbationConfig::default();
        if self.dataset != PHYSIONET && self.perturbation.bounded == usual.bounded {
            return PerturbationConfig { bounded: Vec::new(), ..self.perturbation.clone() };
        }
        self.perturbation.clone()
    }
}

/// The data set of the paper.
const PHYSIONET: &str = "physionet2012";
