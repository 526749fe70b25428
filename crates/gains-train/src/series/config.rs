//! What a training run of a forecasting network has that others have not.

use gains_core::Description;
use gains_core::description::{Points, Task};
use gains_core::latent_ode::LatentOde;
use serde::{Deserialize, Serialize};

use crate::config::Config;

/// The part of a configuration that is about series. Files spell it as [`super::file`] says.
#[derive(Clone, Debug, PartialEq)]
pub struct ForecastConfig {
    /// How far ahead to predict at least, in the unit of time of the data: hours for PhysioNet.
    pub horizon: f64,
    /// Sizes of the network.
    pub network: Sizes,
    /// Weights of the points' and of the boxes' loss.
    pub loss: ElboWeights,
    /// What is perturbed.
    pub perturbation: PerturbationConfig,
    /// ρ, from an epoch on: while it is below 1, only what is observed up to this time is perturbed.
    pub ratio: Vec<Ratio>,
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

/// Weights in `L = −elbo (LL − k·KL) + error·MAE`, with `k = 1 − annealᵉ` from the epoch `from` on, e epochs later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElboWeights {
    /// Of likelihood and divergence.
    pub elbo: f64,
    /// Of the absolute error.
    pub error: f64,
    /// Base of the annealing of the divergence.
    pub anneal: f64,
    /// First epoch with the divergence.
    pub from: u32,
}

impl ElboWeights {
    /// k in an epoch.
    pub fn divergence(&self, epoch: u32) -> f64 {
        let since = epoch.saturating_sub(self.from);
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

/// Names of what a series has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Of each observation.
    pub features: Vec<String>,
    /// Of the series as a whole.
    pub statics: Vec<String>,
}

impl ForecastConfig {
    /// ρ in an epoch; 1 before the first entry.
    pub fn ratio(&self, epoch: u32) -> f64 {
        self.ratio.iter().rev().find(|entry| entry.from <= epoch).map_or(1.0, |entry| entry.value)
    }

    /// What is perturbed in a data set. The names that stand for nothing else are the paper's, for PhysioNet: a table of
    /// one's own may have them too, on another scale.
    pub fn perturbed(&self, dataset: &str) -> PerturbationConfig {
        let usual = PerturbationConfig::default();
        if dataset != PHYSIONET && self.perturbation.bounded == usual.bounded {
            return PerturbationConfig { bounded: Vec::new(), ..self.perturbation.clone() };
        }
        self.perturbation.clone()
    }

    /// The network of a run, for series with these features and statics, and a first step.
    pub fn description(&self, config: &Config, names: &Names, first_step: f64) -> Description {
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
        let Names { features, statics } = names;
        let PerturbationConfig { bounded, statics: moving } = self.perturbed(&config.dataset);
        let there = |name: &&String| features.contains(name) || statics.contains(name);
        let task = Task::Forecasting {
            features: features.clone(),
            statics: statics.clone(),
            horizon: Some(self.horizon),
            ranges: bounded.iter().filter(there).map(|name| (name.clone(), [0.0, 1.0])).collect(),
            perturbed: Some(features.iter().chain(moving.iter().filter(there)).cloned().collect()),
        };
        let solver = config.solver.spec(first_step);
        Description {
            name: config.name.clone(),
            dataset: Some(config.dataset.clone()),
            task,
            ..sizes.description(features.clone(), statics.clone(), Points::Observed, solver)
        }
    }
}

/// The data set of the paper.
pub const PHYSIONET: &str = "physionet2012";
