//! The JSON description of a network, as it stands in the metadata of a model file.
//!
//! ```json
//! {"format": "gains-model", "version": 1, "name": "demo", "input": {"height": 28, "width": 28, "channels": 1},
//!  "task": {"type": "classification", "classes": ["0", "1"]},
//!  "layers": [{"type": "conv2d", "name": "conv", "in_channels": 1, "out_channels": 4, "kernel": [3, 3]},
//!             {"type": "relu"}]}
//! ```
//!
//! Weights are separate tensors called `NAME.weight` and `NAME.bias`, in PyTorch's layout. A layer with
//! `"time": true` takes the time as one more input channel or feature, placed before the others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::arithmetic::beyond_float32;
use crate::shape::Shape;

/// Value of `format` in every model file.
pub const FORMAT: &str = "gains-model";
/// The version of the description this program writes, and the newest it reads.
pub const VERSION: u32 = 2;

/// Everything about a model except its weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Always [`FORMAT`].
    pub format: String,
    /// See [`VERSION`].
    pub version: u32,
    /// Human-readable name.
    pub name: String,
    /// What the outputs mean.
    pub task: Task,
    /// The data set the network was made for, e.g. `fashion-mnist`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Shape of what the layers take: the input, or the latent state that an encoder makes of a series.
    pub input: Shape,
    /// What turns a series into the latent state; for forecasting only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoder: Option<EncoderSpec>,
    /// The layers in order; for forecasting those of the decoder, with exactly one ODE, which is read off at the
    /// time to predict.
    pub layers: Vec<LayerSpec>,
    /// How the network was trained; free form, shown by `gains model show`.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub training: serde_json::Value,
}

impl Description {
    /// A network without an encoder, a data set or a record of its training.
    pub fn new(name: impl Into<String>, task: Task, input: Shape, layers: Vec<LayerSpec>) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            name: name.into(),
            task,
            dataset: None,
            input,
            encoder: None,
            layers,
            training: serde_json::Value::Null,
        }
    }

    /// The same network with every ODE read off at another time.
    pub fn with_end_time(&self, time: f64) -> Self {
        let mut changed = self.clone();
        for layer in &mut changed.layers {
            if let LayerSpec::Ode { solver, .. } = layer {
                solver.end_time = time;
            }
        }
        changed
    }

    /// The same network without the record of its training, which may be long.
    pub fn without_training(&self) -> Self {
        Self {
            format: self.format.clone(),
            version: self.version,
            name: self.name.clone(),
            task: self.task.clone(),
            dataset: self.dataset.clone(),
            input: self.input,
            encoder: self.encoder.clone(),
            layers: self.layers.clone(),
            training: serde_json::Value::Null,
        }
    }
}

/// What the outputs of a network mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Task {
    /// One logit per class.
    Classification {
        /// Names of the classes.
        classes: Vec<String>,
    },
    /// What is observed at a later time of an irregularly sampled series.
    Forecasting {
        /// Names of the features of the series: of each observation and of the outputs.
        features: Vec<String>,
        /// Names of what is known of the series as a whole.
        statics: Vec<String>,
        /// How far ahead of the last observations predictions are made, in the units of the data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        horizon: Option<f64>,
        /// Where features and statics stay, by name, on the scale of the network; anywhere if not named.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        ranges: BTreeMap<String, [f64; 2]>,
        /// Which features and statics are perturbed unless asked otherwise; all features if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        perturbed: Option<Vec<String>>,
    },
    /// Numbers.
    Regression {
        /// Names of the outputs; they go by their numbers if there are none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outputs: Vec<String>,
        /// Units of outputs, by name; for people.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        units: BTreeMap<String, String>,
    },
}

impl Task {
    /// Forecasting of features, of which all are perturbed unless asked otherwise.
    pub fn forecasting(features: Vec<String>, statics: Vec<String>) -> Self {
        Self::Forecasting { features, statics, horizon: None, ranges: BTreeMap::new(), perturbed: None }
    }

    /// With what the paper says of PhysioNet: ratios stay inside [0, 1] (there the network's scale is that of the
    /// ratio), and of the statics age and height are perturbed.
    #[must_use]
    pub fn as_in_the_paper(mut self) -> Self {
        if let Self::Forecasting { features, statics, ranges, perturbed, .. } = &mut self {
            let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
            for ratio in ["FiO2", "SaO2"].into_iter().filter(|name| has(features, name)) {
                ranges.insert(ratio.into(), [0.0, 1.0]);
            }
            let moving = ["Age", "Height"].into_iter().filter(|name| has(statics, name)).map(String::from);
            *perturbed = Some(features.iter().cloned().chain(moving).collect());
        }
        self
    }
}

/// An ODE-RNN: a recurrent encoder of irregularly sampled series (latent ODE, paper appendix B).
///
/// The state is a mean and a deviation of `n` entries each. It starts as `initial(statics)` and walks backwards
/// through the observations `x`: an Euler step of the mean along `dynamics`, then a gated update,
///
/// ```text
/// u = update(mean, deviation, x),  r = reset(mean, deviation, x),  (g, d) = candidate(r·mean, r·deviation, x),
/// mean ← (1 − u) g + u mean,  deviation ← (1 − u) |d| + u deviation.
/// ```
///
/// The latent state is the first half of `latent(mean, deviation)`; the second half is its deviation, which only
/// training uses. No layer takes the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncoderSpec {
    /// From the statics to `2n` entries; the deviation is the absolute value of the second half.
    pub initial: Vec<LayerSpec>,
    /// From `n` entries to `n`: how the mean moves between observations.
    pub dynamics: Vec<LayerSpec>,
    /// From `2n` entries and the features to `n`, ending with a sigmoid.
    pub update: Vec<LayerSpec>,
    /// From `2n` entries and the features to `n`, ending with a sigmoid.
    pub reset: Vec<LayerSpec>,
    /// From `2n` entries and the features to `2n`.
    pub candidate: Vec<LayerSpec>,
    /// From `2n` entries to twice the latent state.
    pub latent: Vec<LayerSpec>,
    /// The walk starts this long after the last point.
    #[serde(default = "default_lead")]
    pub lead: f64,
    /// Where the walk stops.
    #[serde(default)]
    pub points: Points,
}

fn default_lead() -> f64 {
    0.01
}

/// At which of its points the walk through a series stops for an Euler step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Points {
    /// Where something is observed.
    #[default]
    Observed,
    /// At all that are given, as in the authors' program, also where nothing is observed.
    All,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum LayerSpec {
    /// `(x − mean) / std` by channel.
    Normalize {
        /// One mean per channel.
        mean: Vec<f64>,
        /// One positive deviation per channel.
        std: Vec<f64>,
    },
    /// Convolution.
    Conv2d {
        /// Prefix of the tensor names.
        name: String,
        /// Input channels, not counting the time.
        in_channels: usize,
        /// Output channels.
        out_channels: usize,
        /// Kernel height and width.
        kernel: [usize; 2],
        /// Vertical and horizontal stride.
        #[serde(default = "ones")]
        stride: [usize; 2],
        /// Zero padding.
        #[serde(default)]
        padding: [usize; 2],
        /// Dilation.
        #[serde(default = "ones")]
        dilation: [usize; 2],
        /// Whether the time is an extra channel before the others.
        #[serde(default, skip_serializing_if = "is_false")]
        time: bool,
    },
    /// Fully connected layer.
    Linear {
        /// Prefix of the tensor names.
        name: String,
        /// Input features, not counting the time.
        in_features: usize,
        /// Output features.
        out_features: usize,
        /// Whether the time is an extra feature before the others.
        #[serde(default, skip_serializing_if = "is_false")]
        time: bool,
    },
    /// Average pooling.
    AvgPool2d {
        /// Kernel height and width.
        kernel: [usize; 2],
        /// Stride.
        stride: [usize; 2],
        /// Zero padding, counted into the average.
        #[serde(default)]
        padding: [usize; 2],
    },
    /// Mean over all pixels.
    GlobalAvgPool {},
    /// Image to vector, channel by channel.
    Flatten {},
    /// `max(x, 0)`.
    Relu {},
    /// Leaky ReLU.
    LeakyRelu {
        /// Slope on the negative side, between 0 and 1.
        slope: f64,
    },
    /// Logistic function.
    Sigmoid {},
    /// Hyperbolic tangent.
    Tanh {},
    /// `|x|`.
    Absolute {},
    /// `ln(1 + eˣ)`.
    Softplus {},
    /// `x / (1 + e⁻ˣ)`.
    Silu {},
    /// `x` times the share of a normal distribution below it.
    Gelu {
        /// Which formula.
        #[serde(default)]
        approximate: Approximation,
    },
    /// `x` for positive `x`, `alpha·(eˣ − 1)` otherwise.
    Elu {
        /// What is approached far left, with the opposite sign.
        #[serde(default = "one")]
        alpha: f64,
    },
    /// Sine.
    Sin {},
    /// Cosine.
    Cos {},
    /// `x²`.
    Square {},
    /// The nearest number in `[low, high]`.
    Clamp {
        /// Least value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// [`LayerSpec::Clamp`] to `[−1, 1]`, unless asked otherwise.
    Hardtanh {
        /// Least value.
        #[serde(default = "minus_one")]
        low: f64,
        /// Largest value.
        #[serde(default = "one")]
        high: f64,
    },
    /// [`LayerSpec::Clamp`] to `[0, 6]`.
    Relu6 {},
    /// `length` entries of a vector or channels of an image, from `first` on.
    Slice {
        /// The first entry or channel.
        first: usize,
        /// How many.
        length: usize,
    },
    /// Zeros around: more entries of a vector or channels of an image, more pixels of an image.
    Pad {
        /// Entries or channels in front.
        #[serde(default)]
        before: usize,
        /// Entries or channels behind.
        #[serde(default)]
        after: usize,
        /// Rows of pixels above and below.
        #[serde(default)]
        rows: [usize; 2],
        /// Columns of pixels left and right.
        #[serde(default)]
        columns: [usize; 2],
    },
    /// The same entries in another shape, listed channel by channel.
    Reshape {
        /// The shape.
        to: Shape,
    },
    /// Largest value under a kernel; padding never counts.
    MaxPool2d {
        /// Kernel height and width.
        kernel: [usize; 2],
        /// Stride.
        stride: [usize; 2],
        /// Padding, at most half of the kernel.
        #[serde(default)]
        padding: [usize; 2],
    },
    /// Normalisation by channel with the statistics of training: one factor and one summand per channel.
    BatchNorm {
        /// Prefix of the tensor names.
        name: String,
        /// Channels of an image, or features of a vector.
        channels: usize,
        /// Added to the variances.
        #[serde(default = "default_eps")]
        eps: f64,
        /// Whether there are weights and biases besides the statistics.
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        affine: bool,
    },
    /// Normalisation of groups of channels, each by its own mean and variance.
    GroupNorm {
        /// Prefix of the tensor names.
        name: String,
        /// How many groups, of equally many channels.
        groups: usize,
        /// Channels of an image, or features of a vector.
        channels: usize,
        /// Added to the variances.
        #[serde(default = "default_eps")]
        eps: f64,
        /// Whether there are weights and biases.
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        affine: bool,
    },
    /// Normalisation of all entries by their mean and variance.
    LayerNorm {
        /// Prefix of the tensor names.
        name: String,
        /// Added to the variance.
        #[serde(default = "default_eps")]
        eps: f64,
        /// Whether there are weights and biases, one per entry.
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        affine: bool,
    },
    /// Several branches from the same input, joined at the end. A branch without layers passes the input on, so that a
    /// residual is a branch, an empty one and `add`.
    Parallel {
        /// The branches, each a list of layers without an ODE.
        branches: Vec<Vec<LayerSpec>>,
        /// How their results become one.
        join: Join,
    },
    /// A neural ODE: the state at the end time, started from the layer's input.
    Ode {
        /// The right-hand side.
        dynamics: Vec<LayerSpec>,
        /// How it is integrated.
        solver: SolverSpec,
    },
}

/// How the results of branches become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Their sum.
    Add,
    /// Their product, entry by entry.
    Product,
    /// One vector after the other, or the channels of one image after those of the other.
    Concat,
    /// The largest of them, entry by entry.
    Max,
}

/// How GELU is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approximation {
    /// By the error function.
    #[default]
    None,
    /// By a hyperbolic tangent of a cubic polynomial.
    Tanh,
}

fn one() -> f64 {
    1.0
}

fn minus_one() -> f64 {
    -1.0
}

fn default_eps() -> f64 {
    1e-5
}

fn yes() -> bool {
    true
}

fn is_true(flag: &bool) -> bool {
    *flag
}

fn ones() -> [usize; 2] {
    [1, 1]
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A Runge-Kutta method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RungeKutta {
    /// Explicit Euler, order 1.
    Euler,
    /// Midpoint rule, order 2.
    Midpoint,
    /// Heun's rule, order 2.
    Heun,
    /// Classical fourth-order method.
    Rk4,
    /// The 3/8 rule of order 4.
    Rk38,
    /// Bogacki-Shampine 3(2).
    Bosh3,
    /// Fehlberg 2(1).
    Fehlberg2,
    /// Dormand-Prince 5(4).
    Dopri5,
    /// Dormand-Prince 8(7).
    Dopri8,
}

impl RungeKutta {
    /// Whether a step comes with an estimate of its error, by which step sizes can be chosen.
    pub fn estimates_error(self) -> bool {
        match self {
            Self::Euler | Self::Midpoint | Self::Rk4 | Self::Rk38 => false,
            Self::Heun | Self::Bosh3 | Self::Fehlberg2 | Self::Dopri5 | Self::Dopri8 => true,
        }
    }
}

/// How an ODE block is integrated from time 0 to `end_time`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SolverSpec {
    /// The Runge-Kutta method.
    pub method: RungeKutta,
    /// How step sizes are chosen.
    pub controller: ControllerSpec,
    /// Time at which the state is read off.
    pub end_time: f64,
}

/// How step sizes are chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControllerSpec {
    /// Equal steps.
    Fixed {
        /// How many.
        steps: u32,
    },
    /// The usual continuous rule `h ← h·clamp(safety·δ^(−1/p), shrink, grow)`.
    Adaptive {
        /// Error tolerance τ.
        tolerance: f64,
        /// First step.
        initial_step: f64,
        /// Safety factor.
        #[serde(default = "default_safety")]
        safety: f64,
        /// Strongest reduction in one step.
        #[serde(default = "default_shrink")]
        shrink: f64,
        /// Strongest growth in one step.
        #[serde(default = "default_grow")]
        grow: f64,
    },
    /// Step sizes on the grid `h₀·αⁿ`, the solver that can be verified.
    ControlledAdaptive(ControlledSpec),
}

fn default_safety() -> f64 {
    0.9
}

fn default_shrink() -> f64 {
    0.2
}

fn default_grow() -> f64 {
    10.0
}

/// Settings of the controlled adaptive solver (paper, section 4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlledSpec {
    /// α: the factor between neighbouring step sizes.
    pub factor: u32,
    /// τ: the error estimate is `δ = ‖error‖₁ / τ`.
    pub tolerance: f64,
    /// h₀: the first step.
    pub initial_step: f64,
    /// A step that would become smaller than this is taken as it is, without further checks.
    pub minimum_step: f64,
    /// Rejections tolerated once the step has been clipped at the end time; the next one ends the checks.
    pub rejections_after_clipping: u32,
}

/// The least step whose products with the coefficients of all tableaux are normal float32 numbers, and the largest of which
/// what a sum of stages loses by underflow, which may be multiplied by it, is still below what is charged for that.
const STEPS_IN_FLOAT32: std::ops::RangeInclusive<f64> = 1e-33..=1e6;

impl SolverSpec {
    /// A time or step that may be rounded by more than float32 rounds.
    pub fn beyond_float32(&self) -> Option<f64> {
        let end = self.end_time;
        let (steps, tolerance) = match &self.controller {
            ControllerSpec::Fixed { steps } => (vec![end / f64::from(*steps)], 1.0),
            ControllerSpec::Adaptive { initial_step, tolerance, .. } => (vec![*initial_step], *tolerance),
            ControllerSpec::ControlledAdaptive(c) => {
                // What is left when a step is clipped, and taken in parts.
                let parts = f64::from(c.factor).powi(c.rejections_after_clipping as i32);
                let least = 1e-8 * end.min(1.0) / parts;
                (vec![c.initial_step, c.minimum_step, least], c.tolerance)
            }
        };
        let strange = steps.into_iter().chain([end]).find(|step| !STEPS_IN_FLOAT32.contains(step));
        strange.or_else(|| beyond_float32([tolerance]))
    }

    /// What is wrong with the settings, if anything.
    pub fn problem(&self) -> Option<String> {
        let positive = |name: &str, value: f64| {
            // Far smaller numbers would be subnormal in float32, where rounding is no longer relative.
            (!(value.is_finite() && value >= 1e-30))
                .then(|| format!("{name} is {value:e}, must be positive and not below 1e-30"))
        };
        let chooses = !matches!(self.controller, ControllerSpec::Fixed { .. });
        let blind = || {
            (chooses && !self.method.estimates_error()).then(|| {
                "the method estimates no error to choose steps by; take \"fixed\" steps, or heun, bosh3, fehlberg2, \
                 dopri5 or dopri8"
                    .to_string()
            })
        };
        positive("end_time", self.end_time).or_else(blind).or_else(|| match &self.controller {
            ControllerSpec::Fixed { steps } => {
                (*steps == 0 || *steps > 1_000_000).then(|| format!("steps is {steps}, must be 1 to 1000000"))
            }
            ControllerSpec::Adaptive { tolerance, initial_step, safety, shrink, grow } => {
                positive("tolerance", *tolerance)
                    .or_else(|| positive("initial_step", *initial_step))
                    .or_else(|| positive("safety", *safety))
                    .or_else(|| positive("shrink", *shrink))
                    .or_else(|| positive("grow", *grow))
                    .or_else(|| {
                        (*shrink >= 1.0 || *grow < 1.0)
                            .then(|| "shrink must be below 1 and grow at least 1".into())
                    })
            }
            ControllerSpec::ControlledAdaptive(c) => positive("tolerance", c.tolerance)
                .or_else(|| positive("initial_step", c.initial_step))
                .or_else(|| positive("minimum_step", c.minimum_step))
                .or_else(|| {
                    (!(2..=64).contains(&c.factor))
                        .then(|| format!("factor is {}, must be 2 to 64", c.factor))
                })
                .or_else(|| {
                    (c.rejections_after_clipping > 8).then(|| {
                        format!(
                            "rejections_after_clipping is {}, must be at most 8",
                            c.rejections_after_clipping
                        )
                    })
                })
                .or_else(|| {
                    let finest = self.end_time / c.minimum_step.min(c.initial_step);
                    (finest > 1e9)
                        .then(|| format!("end_time is {finest:.1e} times the smallest step, at most 1e9"))
                }),
        })
    }
}
