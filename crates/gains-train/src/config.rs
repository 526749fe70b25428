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
mod data;
mod describe;
mod file;
mod phase;

use gains_core::Shape;
use gains_core::description::{ControlledSpec, ControllerSpec, LayerSpec, RungeKutta, SolverSpec};
use gains_ode::{FreeRule, Tableau};
use serde::{Deserialize, Serialize};

pub use self::data::{Augment, Bounds, By, ClassWeights, DataConfig, Layout, Selection, Unit};
pub use self::phase::{Aggregation, Attack, LossWeights, Phase, PhaseSolver};
use crate::device::AdamStep;
use crate::loss::Criterion;
use crate::metrics::EpochReport;
use crate::optimiser;
use crate::schedule::RateSchedule;
use crate::series::ForecastConfig;

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
pub enum Training {
    /// The loss of the images as they are.
    Standard,
    /// The loss of attacked images.
    Adversarial,
    /// The loss of the images and a bound of that of all images near them.
    Provable,
}

/// How weights begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Initial {
    /// Weights and biases uniform in ±1/√n, n the inputs of a neuron, as PyTorch starts its linear and convolutional layers.
    #[default]
    Usual,
    /// Weights normal with the deviation √(2π)/n, biases 0: a box is on average as wide behind a layer and its ReLU as in
    /// front of it (Shi et al. 2021), so that a neural ODE widens it by a factor of about e in a unit of time.
    Interval,
}

impl Initial {
    /// A weight of a neuron with so many inputs, rounded to float32, so that every device starts from the same numbers.
    pub fn weight(self, inputs: usize, random: &mut fastrand::Rng) -> f64 {
        let inputs = inputs.max(1) as f64;
        match self {
            Self::Usual => uniform(inputs, random),
            Self::Interval => {
                // Not 0, whose logarithm is none.
                let (u, v) = (1.0 - random.f64(), random.f64());
                let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                f64::from((std::f64::consts::TAU.sqrt() / inputs * normal) as f32)
            }
        }
    }

    /// A bias of one.
    pub fn bias(self, inputs: usize, random: &mut fastrand::Rng) -> f64 {
        match self {
            Self::Usual => uniform(inputs.max(1) as f64, random),
            Self::Interval => 0.0,
        }
    }
}

fn uniform(inputs: f64, random: &mut fastrand::Rng) -> f64 {
    f64::from(((random.f64() * 2.0 - 1.0) * (1.0 / inputs.sqrt())) as f32)
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
    /// How many of the training images, from the last, are kept from training and looked at in place of test images.
    pub validation: usize,
    /// What is minimised.
    pub method: Training,
    /// A network to start from: its layers and weights. A relative path is looked up from where the program runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How weights begin.
    #[serde(skip_serializing_if = "is_default")]
    pub initial: Initial,
    /// Layers that do not learn: names of their weights, or what these begin with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<String>,
    /// How wrong outputs are measured.
    #[serde(skip_serializing_if = "is_default")]
    pub criterion: Criterion,
    /// The layers of the paper's family; `layers` describes any other network.
    pub network: NetworkConfig,
    /// The solver the network will ship with.
    pub solver: SolverConfig,
    /// Adam.
    pub optimiser: Optimiser,
    /// How often the run looks at itself and saves itself.
    pub rhythm: Rhythm,
    /// Samples of one's own, and what is done with samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<DataConfig>,
    /// Which network of the run is kept; the last one, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// The shape of the input, where the samples do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Shape>,
    /// The layers in the words of model files, in place of `network` and `solver`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<LayerSpec>>,
    /// Stretches of training, one after another.
    pub phases: Vec<Phase>,
    /// What runs on series have besides. Their files have keys of their own: [`crate::series::file`].
    #[serde(skip)]
    pub forecast: Option<ForecastConfig>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "unnamed".into(),
            dataset: "mnist".into(),
            seed: 12345,
            batch: 512,
            images: None,
            validation: 0,
            method: Training::Standard,
            model: None,
            initial: Initial::default(),
            freeze: Vec::new(),
            criterion: Criterion::default(),
            data: None,
            selection: None,
            input: None,
            layers: None,
            network: NetworkConfig::default(),
            solver: SolverConfig::default(),
            optimiser: Optimiser::default(),
            rhythm: Rhythm::default(),
            phases: Vec::new(),
            forecast: None,
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

/// Where step sizes come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// From the grid `h₀·αⁿ`: what can be bounded.
    #[default]
    Controlled,
    /// From the error of the step before, freely, by the usual factors: for points alone.
    Continuous,
}

/// Strongest reduction, safety and strongest growth of continuous step sizes.
const USUAL_FACTORS: [f64; 3] = [0.2, 0.9, 10.0];

/// The adaptive solver, controlled unless told otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SolverConfig {
    /// The Runge-Kutta method, one with an error estimate.
    pub method: RungeKutta,
    /// Where step sizes come from.
    #[serde(skip_serializing_if = "is_default")]
    pub control: Control,
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
            method: RungeKutta::Dopri5,
            control: Control::Controlled,
            tolerance: 0.005,
            factor: 2,
            minimum_step: 0.02,
            rejections_after_clipping: 1,
            end_time: 1.0,
        }
    }
}

impl SolverConfig {
    /// The settings of an adaptive solver, controlled or continuous with the usual factors; none of another.
    pub fn of(solver: &SolverSpec) -> Option<Self> {
        let (method, end_time) = (solver.method, solver.end_time);
        match &solver.controller {
            ControllerSpec::ControlledAdaptive(controlled) => Some(Self {
                method,
                control: Control::Controlled,
                tolerance: controlled.tolerance,
                factor: controlled.factor,
                minimum_step: controlled.minimum_step,
                rejections_after_clipping: controlled.rejections_after_clipping,
                end_time,
            }),
            ControllerSpec::Adaptive { tolerance, shrink, safety, grow, .. } => {
                let usual = [*shrink, *safety, *grow] == USUAL_FACTORS;
                let (control, tolerance) = (Control::Continuous, *tolerance);
                usual.then(|| Self { method, control, tolerance, end_time, ..Self::default() })
            }
            ControllerSpec::Fixed { .. } => None,
        }
    }

    /// The solver with a first step.
    pub fn spec(&self, initial_step: f64) -> SolverSpec {
        let [shrink, safety, grow] = USUAL_FACTORS;
        let controller = match self.control {
            Control::Controlled => ControllerSpec::ControlledAdaptive(self.controlled(initial_step)),
            Control::Continuous => {
                ControllerSpec::Adaptive { tolerance: self.tolerance, initial_step, safety, shrink, grow }
            }
        };
        SolverSpec { method: self.method, controller, end_time: self.end_time }
    }

    /// How continuous step sizes follow the error.
    pub fn free_rule(&self) -> FreeRule {
        let [shrink, safety, grow] = USUAL_FACTORS;
        FreeRule { order: Tableau::of(self.method).order, safety, shrink, grow }
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

/// How parameters follow their gradients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Optimiser {
    /// The rule.
    #[serde(skip_serializing_if = "is_default")]
    pub method: optimiser::UpdateRule,
    /// Part of the run in which the rate grows from 0 to its value.
    #[serde(skip_serializing_if = "is_default")]
    pub warmup: f64,
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
    /// Decay of the running average of the parameters, which is then what is tested and shipped; 0 for none.
    pub average: f64,
    /// How the rate changes over a phase.
    pub schedule: RateSchedule,
}

impl Default for Optimiser {
    fn default() -> Self {
        Self {
            method: optimiser::UpdateRule::Adam,
            warmup: 0.0,
            rate: 1e-3,
            decay: 1e-4,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            clip: 1000.0,
            average: 0.0,
            schedule: RateSchedule::Constant,
        }
    }
}

impl Optimiser {
    /// The part of the rate that the warm-up has reached after so many of all batches.
    pub(crate) fn warmth(&self, done: u64, all: u64) -> f64 {
        let length = self.warmup * all as f64;
        if length > 0.0 { ((done as f64 + 1.0) / length).min(1.0) } else { 1.0 }
    }

    /// The step with this number, from 1, at a part of the rate.
    pub(crate) fn step(&self, factor: f64, count: u64) -> AdamStep {
        AdamStep {
            rate: self.rate * factor,
            decay: self.decay,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            clip: self.clip,
            count,
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
    /// Epochs of all phases.
    pub fn epochs(&self) -> u32 {
        self.phases.iter().map(|phase| phase.epochs).sum()
    }

    /// Epochs of the phases before one.
    pub fn epochs_before(&self, phase: usize) -> u32 {
        self.phases.iter().take(phase).map(|phase| phase.epochs).sum()
    }

    /// Whether two epochs minimised the same thing, so that a loss that is far larger has grown: they are of one phase, both
    /// have boxes or neither, and as much of series is perturbed. Networks that have not seen boxes before may have very
    /// wide ones at first, and get over it.
    pub fn has_same_loss(&self, before: &EpochReport, after: &EpochReport) -> bool {
        let ratio = |epoch| self.forecast.as_ref().map(|forecast| forecast.ratio(epoch));
        before.phase == after.phase
            && (before.eps > 0.0) == (after.eps > 0.0)
            && ratio(before.epoch) == ratio(after.epoch)
    }

    /// The perturbation a run ends with.
    pub fn target(&self) -> Option<f64> {
        self.phases.iter().rev().find_map(|phase| phase.eps).map(|eps| eps.target)
    }
}

#[cfg(test)]
mod tests;
