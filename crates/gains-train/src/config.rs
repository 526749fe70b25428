//! Everything a training run depends on, as one TOML file.
//!
//! ```
//! let config = gains_train::Config::from_toml("dataset = 'mnist'\n[[phases]]\nepochs = 3").unwrap();
//! assert_eq!(config.batch, 512);
//! ```
//!
//! Keys that are left out take the values of the paper's experiments; a key that is not known is an error. The
//! settings of the paper are [`crate::presets`].

mod check;
mod describe;

use gains_core::Shape;
use gains_core::description::{ControlledSpec, ControllerSpec, Method as SolverMethod, SolverSpec};
use serde::{Deserialize, Serialize};

use crate::device::{StepForm, WidthNorm};
use crate::schedule::{RateSchedule, Sin, Smooth, Trajectories};

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

/// How the ODE is solved during a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum PhaseSolver {
    /// As it will be in use.
    #[default]
    Controlled,
    /// Equal Euler steps, for a warm-up.
    Euler {
        /// How many.
        steps: u32,
    },
}

/// What becomes of the sampled trajectories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Each is a sample of its own.
    #[default]
    Stack,
    /// The mean of their boxes.
    Average,
    /// The hull of their boxes.
    WorstCase,
}

/// A stretch of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Phase {
    /// Name for people.
    pub name: String,
    /// How many epochs.
    pub epochs: u32,
    /// Starts with zero moments and step count.
    pub fresh_optimiser: bool,
    /// Starts with a running average of first steps of 0.
    pub fresh_step: bool,
    /// Whether a box takes a solver step as in the paper or in difference form.
    pub step_form: StepForm,
    /// What becomes of the sampled trajectories.
    pub aggregation: Aggregation,
    /// Whether the trajectory of the images themselves is always among those sampled.
    pub include_reference: bool,
    /// How the ODE is solved.
    pub solver: PhaseSolver,
    /// The perturbation; none if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eps: Option<Smooth>,
    /// q₁ = q₂: how far the sampling strays from the trajectory of the images themselves.
    pub q: Sin,
    /// Weights in the loss.
    pub loss: LossWeights,
    /// How images are attacked, in adversarial training.
    pub attack: Attack,
    /// κ: how many trajectories are sampled.
    pub kappa: Vec<Trajectories>,
}

impl Default for Phase {
    fn default() -> Self {
        Self {
            name: "main".into(),
            epochs: 100,
            fresh_optimiser: true,
            fresh_step: true,
            step_form: StepForm::Independent,
            aggregation: Aggregation::Stack,
            include_reference: false,
            solver: PhaseSolver::Controlled,
            eps: None,
            q: Sin::default(),
            loss: LossWeights::default(),
            attack: Attack::default(),
            kappa: vec![Trajectories { from: 0, count: 1 }],
        }
    }
}

/// Weights in the loss `(1 − ω₁r) CE + ω₁r CE_rob + ω₂W`, with r the part of the target perturbation reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossWeights {
    /// ω₁. The paper says 2/3, the authors' program 0.66.
    pub robust: f64,
    /// ω₂.
    pub width: f64,
    /// How widths are measured. The paper says `absolute`, the authors' program `squared`.
    pub width_norm: WidthNorm,
    /// Weight of the mean upper bound of δ over the batch, summed over every box step.
    pub error: f64,
    /// Weight of how far the state still moves after the end time (TisODE): the mean over the batch of
    /// `‖z(2T) − z(T)‖₁`, which is `‖∫ |g| dt‖₁` from T to 2T as g ≥ 0 behind its last ReLU.
    pub steady: f64,
}

impl Default for LossWeights {
    fn default() -> Self {
        Self { robust: 0.66, width: 0.01, width_norm: WidthNorm::Squared, error: 0.0, steady: 0.0 }
    }
}

/// Projected gradient descent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Attack {
    /// Steps.
    pub steps: u32,
    /// Length of a step as a part of the perturbation.
    pub fraction: f64,
    /// Whether it starts anywhere in the box, or at the image.
    pub random_start: bool,
}

impl Default for Attack {
    fn default() -> Self {
        Self { steps: 10, fraction: 0.2, random_start: true }
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
