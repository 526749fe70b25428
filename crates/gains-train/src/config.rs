//! Everything a training run depends on, as one TOML file.
//!
//! ```
//! let config = gains_train::Config::from_toml("dataset = 'mnist'\n[[phases]]\nepochs = 3").unwrap();
//! assert_eq!(config.batch, 512);
//! ```
//!
//! Keys that are left out take the values of the paper's experiments; a key that is not known is an error. The
//! settings of the paper are [`crate::presets`].

pub(crate) mod check;
mod describe;
mod phase;

use gains_core::Shape;
use gains_core::description::{ControlledSpec, ControllerSpec, Method as SolverMethod, SolverSpec};
use serde::{Deserialize, Serialize};

pub use self::phase::{Aggregation, Attack, LossWeights, Phase, PhaseSolver};
use crate::schedule::RateSchedule;

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not TOML, an unknown key, or a value of the wrong kind; the message shows the line.
    #[error("{0}")]
    Syntax(String),
    /// A value that makes no sense.
    #[error("{0}")]
    Value(#[from] Problem),
}

/// A value that makes no sense, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct Problem {
    /// The key, e.g. `phases[1].eps.target`.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
    /// What would be right.
    pub hint: String,
}

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The loss of the images as they are.
    Standard,
    /// The loss of attacked images.
    Adversarial,
    /// The loss of the images and a bound of that of all images near them.
    Provable,
}

/// A training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Name of the run and of the network it makes.
    pub name: String,
    /// `mnist`, `fashion-mnist` or `cifar10`.
    pub dataset: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Images in a batch; the last of an epoch may have fewer.
    pub batch: usize,
    /// How many of the training images are used, from the first; all if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<usize>,
    /// What is minimised.
    pub method: Method,
    /// The layers.
    pub network: NetworkConfig,
    /// The solver the network will ship with.
    pub solver: SolverConfig,
    /// Adam.
    pub optimiser: Optimiser,
    /// How often the run looks at itself and saves itself.
    pub rhythm: Rhythm,
    /// Stretches of training, one after another.
    pub phases: Vec<Phase>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "unnamed".into(),
            dataset: "mnist".into(),
            seed: 12345,
            batch: 512,
            images: None,
            method: Method::Standard,
            network: NetworkConfig::default(),
            solver: SolverConfig::default(),
            optimiser: Optimiser::default(),
            rhythm: Rhythm::default(),
            phases: Vec::new(),
        }
    }
}

/// Convolutions, a neural ODE on what they give, the mean over the pixels, a linear layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkConfig {
    /// Shape of the images.
    pub image: Shape,
    /// Taken off the pixels, by channel. Rounded to float32.
    pub mean: Vec<f64>,
    /// Then divided by this, by channel. Rounded to float32.
    pub std: Vec<f64>,
    /// Before the ODE.
    pub encoder: Encoder,
    /// Right-hand side of the ODE.
    pub dynamics: Dynamics,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            image: Shape::image(28, 28, 1),
            mean: vec![0.1307],
            std: vec![0.3081],
            encoder: Encoder::default(),
            dynamics: Dynamics::default(),
        }
    }
}

/// Convolutions with a ReLU behind each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Encoder {
    /// Output channels of each.
    pub channels: Vec<usize>,
    /// Kernel size.
    pub kernel: usize,
    /// Stride.
    pub stride: usize,
    /// Zero padding.
    pub padding: usize,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { channels: vec![32, 32], kernel: 5, stride: 2, padding: 0 }
    }
}

/// Convolutions that keep the size of the image, with a ReLU behind each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dynamics {
    /// Output channels of each; the last must be the encoder's last.
    pub channels: Vec<usize>,
    /// Kernel size, odd.
    pub kernel: usize,
    /// Whether the time is one more input of each.
    pub time: bool,
}

impl Default for Dynamics {
    fn default() -> Self {
        Self { channels: vec![32, 32], kernel: 3, time: true }
    }
}

/// The controlled adaptive solver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SolverConfig {
    /// The Runge-Kutta method, one with an error estimate.
    pub method: SolverMethod,
    /// τ.
    pub tolerance: f64,
    /// α.
    pub factor: u32,
    /// Smallest step.
    pub minimum_step: f64,
    /// Rejections tolerated once the step has been clipped at the end time.
    pub rejections_after_clipping: u32,
    /// T.
    pub end_time: f64,
}

impl Default for SolverConfig {
    fn default() -> Self {
        Self {
            method: SolverMethod::Dopri5,
            tolerance: 0.005,
            factor: 2,
            minimum_step: 0.02,
            rejections_after_clipping: 1,
            end_time: 1.0,
        }
    }
}

impl SolverConfig {
    /// The solver with a first step.
    pub fn spec(&self, initial_step: f64) -> SolverSpec {
        SolverSpec {
            method: self.method,
            controller: ControllerSpec::ControlledAdaptive(self.controlled(initial_step)),
            end_time: self.end_time,
        }
    }

    /// The step-size control with a first step.
    pub fn controlled(&self, initial_step: f64) -> ControlledSpec {
        ControlledSpec {
            factor: self.factor,
            tolerance: self.tolerance,
            initial_step,
            minimum_step: self.minimum_step,
            rejections_after_clipping: self.rejections_after_clipping,
        }
    }
}

/// Adam with weight decay added to the gradient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Optimiser {
    /// Learning rate.
    pub rate: f64,
    /// Weight decay.
    pub decay: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Longest gradient.
    pub clip: f64,
    /// How the rate changes over a phase.
    pub schedule: RateSchedule,
}

impl Default for Optimiser {
    fn default() -> Self {
        Self {
            rate: 1e-3,
            decay: 1e-4,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            clip: 1000.0,
            schedule: RateSchedule::Constant,
        }
    }
}

/// How often a run looks at itself and saves itself; every number counts epochs, 0 is never.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rhythm {
    /// Epochs between checkpoints.
    pub checkpoint: u32,
    /// Epochs between evaluations.
    pub evaluation: u32,
    /// Test images in an evaluation, from the first.
    pub test_images: usize,
}

impl Default for Rhythm {
    fn default() -> Self {
        Self { checkpoint: 1, evaluation: 1, test_images: 1000 }
    }
}

impl Config {
    /// Reads and checks a configuration.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config: Self =
            toml::from_str(text).map_err(|e| ConfigError::Syntax(e.to_string().trim_end().to_string()))?;
        config.problem().map_or(Ok(config), |problem| Err(problem.into()))
    }

    /// The whole configuration, with every value that was left out.
    pub fn to_toml(&self) -> String {
        // Every type here has a TOML form, so this cannot fail.
        toml::to_string(self).unwrap_or_default()
    }

    /// Epochs of all phases.
    pub fn epochs(&self) -> u32 {
        self.phases.iter().map(|phase| phase.epochs).sum()
    }
}

#[cfg(test)]
mod tests;
