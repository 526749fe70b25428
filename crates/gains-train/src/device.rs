//! What a device must be able to do: coarse operations over batches of points and boxes, their gradients, and
//! the optimiser. The trainer is written against [`Device`] alone; [`crate::cpu`] and [`crate::cuda`] implement it.
//!
//! A device owns the parameters, their gradients and the optimiser's moments. Every `…_back` method *adds* the
//! gradient of the parameters it touches to the device's accumulators and returns the gradient of its input.

use gains_core::Shape;
use gains_core::description::RungeKutta;
use serde::{Deserialize, Serialize};

use crate::metrics::Latent;
use crate::plan::{LayerPlan, OdePlan};

/// Why a device gave up.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// There is no such device, or its driver cannot be used.
    #[error("{message}")]
    Missing {
        /// What was looked for and what was found.
        message: String,
        /// What would help.
        hint: String,
    },
    /// Not enough memory.
    #[error("the {device} is out of memory: {wanted} more bytes were wanted")]
    OutOfMemory {
        /// Which device.
        device: String,
        /// How much the allocation that failed asked for.
        wanted: usize,
    },
    /// A network the device has no kernels for.
    #[error("{0}")]
    Unsupported(String),
    /// Anything else the driver reports.
    #[error("the device failed: {0}")]
    Failed(String),
}

/// One row per sample: points, or boxes given by centre and radius.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    /// The points, or the centres of the boxes.
    pub centre: T,
    /// The radii of the boxes.
    pub radius: Option<T>,
}

/// How a box goes through a Runge-Kutta step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepForm {
    /// The stages are boxes that know nothing of each other (the paper's).
    Independent,
    /// Each stage is the one before plus a bounded difference (`docs/difference-form.md`).
    Difference,
}

/// How the boxes at the ends of several trajectories become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// The mean of the centres and of the radii.
    Average,
    /// The smallest box around all.
    Hull,
}

/// How the width of the output box is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WidthNorm {
    /// `Σ (u − l)²`: the authors' program.
    #[default]
    Squared,
    /// `Σ (u − l)`: the paper.
    Absolute,
}

/// A trial step of a solver.
pub struct Trial<D: Device + ?Sized> {
    /// Where it ends.
    pub end: Batch<D::Tensor>,
    /// Its error estimates; see [`Device::measure`].
    pub errors: D::Tensor,
    /// What [`Device::step_back`] needs, if it was asked to be kept.
    pub memory: Option<D::StepMemory>,
}

/// Sums over the samples of a batch for one trial step, `e` being a sample's error estimate (one entry per
/// entry of the state) of which the box knows bounds. Not divided by tolerance or batch size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measure {
    /// Σ over samples of a lower bound of ‖e‖₁.
    pub lower: f64,
    /// Σ over samples of an upper bound of ‖e‖₁.
    pub upper: f64,
    /// Largest upper bound of ‖e‖₁ of any sample.
    pub largest: f64,
    /// Σ over samples of ‖x‖₁, x the centre the step started from.
    pub state: f64,
    /// Σ over samples of ‖k₁‖₁, k₁ the centre of the first slope.
    pub slope: f64,
}

/// What pulls at the margins of a batch: the differences of the logits to the label's (their upper bounds, for boxes).
#[derive(Clone, Copy, Debug)]
pub enum Pull<'a> {
    /// The sum over samples of the cross-entropy, times this.
    CrossEntropy(f64),
    /// These slopes, a row of classes for each sample; the label's own is not looked at.
    Margins(&'a [f64]),
}

/// Labels of a batch with what each sample weighs in the width term.
pub struct LabelData {
    /// The right classes.
    pub labels: Vec<u8>,
    /// Weight of each sample's output widths in the loss.
    pub width_weights: Vec<f32>,
}

/// What [`Device::loss`] adds up until [`Device::take_ledger`]: one line for points, one for boxes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Σ over samples of the cross-entropy (of the worst case, for boxes), unweighted.
    pub cross_entropy: f64,
    /// Σ of weighted widths.
    pub width: f64,
    /// Samples whose (worst-case) logits put the label first; a tie counts as wrong.
    pub correct: f64,
    /// Samples.
    pub samples: f64,
    /// Σ over samples of the mean absolute error of their outputs (of its bound, for boxes), where numbers are predicted.
    pub error: f64,
}

/// What a batch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ledger {
    /// Of points.
    pub clean: Tally,
    /// Of boxes.
    pub robust: Tally,
    /// Euclidean norm of the gradient at the last [`Device::update`], before clipping.
    pub gradient_norm: f64,
    /// What else there is to say of series.
    pub latent: Option<Latent>,
}

/// One step of Adam with L2 decay (added to the gradient, as PyTorch's `Adam` does it).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
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
    /// The gradient is scaled down to this norm if it is longer (as PyTorch: `clip / (norm + 1e-6)`).
    pub clip: f64,
    /// Number of this step, from 1.
    pub count: u64,
}

/// Two moments for each parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// Running mean of gradients.
    pub first: Vec<f64>,
    /// Running mean of squared gradients.
    pub second: Vec<f64>,
}

/// Uniform in [0, 1) from a seed and a position: the same on every device.
pub fn uniform(seed: u64, position: u32) -> f32 {
    let mut x = (seed as u32) ^ position.wrapping_mul(0x9E37_79B9);
    x ^= ((seed >> 32) as u32).rotate_left(16);
    for _ in 0..2 {
        x ^= x >> 16;
        x = x.wrapping_mul(0x7FEB_352D);
        x ^= x >> 15;
        x = x.wrapping_mul(0x846C_A68B);
        x ^= x >> 16;
    }
    (x >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// A place to train on.
///
/// Rows of tensors are laid out as the device likes. All sums over a batch are formed in an order that depends
/// on nothing but the batch, so that the same run gives the same numbers again.
pub trait Device {
    /// Numbers, one row per sample.
    type Tensor;
    /// What a layer remembers for its gradient.
    type LayerMemory;
    /// What a solver step remembers for its gradient.
    type StepMemory;
    /// What a join remembers for its gradient.
    type JoinMemory;
    /// Labels on the device.
    type Labels;

    /// Name for people.
    fn name(&self) -> String;

    /// While frozen, the parameters' gradients and the ledger are left alone: what an attack wants.
    fn freeze(&mut self, frozen: bool);

    /// Puts images on the device, replacing those that were there: `count` images of the plan's input shape,
    /// channels last, one byte per entry, standing for `byte / 255`.
    fn store(&mut self, pixels: &[u8], count: usize) -> Result<(), DeviceError>;

    /// The images at these indices as pixels in [0, 1], computed as `byte as f32 / 255`.
    fn gather(&mut self, indices: &[u32]) -> Result<Self::Tensor, DeviceError>;

    /// Labels for a batch.
    fn labels(&mut self, labels: &LabelData) -> Result<Self::Labels, DeviceError>;

    /// The normalised pixels: what the first layer sees.
    fn points(&mut self, pixels: &Self::Tensor) -> Result<Batch<Self::Tensor>, DeviceError>;

    /// The normalised box of all images within `radius` of the pixels and within [0, 1].
    fn region(&mut self, pixels: &Self::Tensor, radius: f64) -> Result<Batch<Self::Tensor>, DeviceError>;

    /// Pixels plus noise: entry `i` (counted over the whole batch, channels last) becomes
    /// `pixel + reach·(2·uniform(seed, i) − 1)`, clamped to [0, 1].
    fn scatter(&mut self, pixels: &Self::Tensor, reach: f64, seed: u64) -> Result<Self::Tensor, DeviceError>;

    /// One sign step of an attack: `attacked + rate·sign(gradient)`, taken back to within `reach` of `pixels` and
    /// to [0, 1]. The gradient is that of normalised pixels; its sign is the same.
    fn ascend(
        &mut self,
        attacked: &mut Self::Tensor,
        gradient: &Self::Tensor,
        pixels: &Self::Tensor,
        rate: f64,
        reach: f64,
    ) -> Result<(), DeviceError>;

    /// Applies a layer (time 0, should it have one).
    fn layer(
        &mut self,
        layer: &LayerPlan,
        x: &Batch<Self::Tensor>,
    ) -> Result<(Batch<Self::Tensor>, Self::LayerMemory), DeviceError>;

    /// The gradient of [`Self::layer`]; that of the input is computed only if `inputs`.
    fn layer_back(
        &mut self,
        layer: &LayerPlan,
        x: &Batch<Self::Tensor>,
        memory: &Self::LayerMemory,
        gradient: &Batch<Self::Tensor>,
        inputs: bool,
    ) -> Result<Option<Batch<Self::Tensor>>, DeviceError>;

    /// Mean over the pixels of each channel.
    fn pool(&mut self, shape: Shape, x: &Batch<Self::Tensor>) -> Result<Batch<Self::Tensor>, DeviceError>;

    /// The gradient of [`Self::pool`].
    fn pool_back(
        &mut self,
        shape: Shape,
        gradient: &Batch<Self::Tensor>,
    ) -> Result<Batch<Self::Tensor>, DeviceError>;

    /// One trial step of a Runge-Kutta method from `(time, x)`. Points take an ordinary step; for boxes `form` says
    /// how the stages are bounded. `keep` keeps what [`Self::step_back`] needs.
    fn step(
        &mut self,
        ode: &OdePlan,
        method: RungeKutta,
        form: StepForm,
        x: &Batch<Self::Tensor>,
        time: f64,
        step: f64,
        keep: bool,
    ) -> Result<Trial<Self>, DeviceError>;

    /// What a trial step says about its error, on the host.
    fn measure(&mut self, errors: &Self::Tensor) -> Result<Measure, DeviceError>;

    /// The gradient of [`Self::step`] at its start, for `gradient` at its end plus `error_weight` times the sum over
    /// samples of the upper bound of ‖e‖₁.
    fn step_back(
        &mut self,
        ode: &OdePlan,
        x: &Batch<Self::Tensor>,
        memory: &Self::StepMemory,
        gradient: &Batch<Self::Tensor>,
        error_weight: f64,
    ) -> Result<Batch<Self::Tensor>, DeviceError>;

    /// Several boxes of each sample as one.
    fn join(
        &mut self,
        how: Join,
        xs: &[&Batch<Self::Tensor>],
    ) -> Result<(Batch<Self::Tensor>, Self::JoinMemory), DeviceError>;

    /// The gradients of [`Self::join`], one for each box joined.
    fn join_back(
        &mut self,
        memory: &Self::JoinMemory,
        gradient: &Batch<Self::Tensor>,
    ) -> Result<Vec<Batch<Self::Tensor>>, DeviceError>;

    /// `into += part`.
    fn accumulate(
        &mut self,
        into: &mut Batch<Self::Tensor>,
        part: &Batch<Self::Tensor>,
    ) -> Result<(), DeviceError>;

    /// The last layer and the loss behind it, forward and backward in one. Adds to the ledger, adds
    /// what `pull` asks for and `width_weight · ∂(Σ weighted widths)` to the head's gradient and returns the gradient
    /// of `x`.
    ///
    /// For boxes: with `D` the differences of the logits to the label's, formed exactly by subtracting the rows of
    /// the last layer, the worst-case logits are the upper bounds of `D` (0 for the label) and the widths those of
    /// `D`.
    fn loss(
        &mut self,
        head: &LayerPlan,
        x: &Batch<Self::Tensor>,
        labels: &Self::Labels,
        pull: Pull<'_>,
        width_weight: f64,
        norm: WidthNorm,
    ) -> Result<Batch<Self::Tensor>, DeviceError>;

    /// The margins [`Self::loss`] looks at, on the host: a row of classes for each sample, 0 for the label. Neither
    /// the ledger nor any gradient changes.
    fn margins(
        &mut self,
        head: &LayerPlan,
        x: &Batch<Self::Tensor>,
        labels: &Self::Labels,
    ) -> Result<Vec<f64>, DeviceError>;

    /// What happened since the last call; clears it.
    fn take_ledger(&mut self) -> Result<Ledger, DeviceError>;

    /// Sets all gradients of parameters to zero.
    fn clear_gradients(&mut self) -> Result<(), DeviceError>;

    /// One step of the optimiser with the gradients accumulated so far. Gradients stay until they are cleared.
    fn update(&mut self, step: &AdamStep) -> Result<(), DeviceError>;

    /// Moves the averages of the parameters: `average ← decay · average + (1 − decay) · parameter`.
    fn track(&mut self, decay: f64) -> Result<(), DeviceError>;

    /// The averages of the parameters.
    fn averages(&mut self) -> Result<Vec<f64>, DeviceError>;

    /// Replaces the averages of the parameters.
    fn set_averages(&mut self, averages: &[f64]) -> Result<(), DeviceError>;

    /// The parameters, in the order of the plan.
    fn parameters(&mut self) -> Result<Vec<f64>, DeviceError>;

    /// Replaces the parameters.
    fn set_parameters(&mut self, parameters: &[f64]) -> Result<(), DeviceError>;

    /// The gradients, in the order of the plan.
    fn gradients(&mut self) -> Result<Vec<f64>, DeviceError>;

    /// The optimiser's moments.
    fn moments(&mut self) -> Result<Moments, DeviceError>;

    /// Replaces the optimiser's moments.
    fn set_moments(&mut self, moments: &Moments) -> Result<(), DeviceError>;

    /// A tensor on the host, channels last, for tests.
    fn download(&mut self, shape: Shape, tensor: &Self::Tensor) -> Result<Vec<f64>, DeviceError>;

    /// A tensor from the host, channels last, for tests and benchmarks.
    fn upload(&mut self, shape: Shape, values: &[f64]) -> Result<Self::Tensor, DeviceError>;
}
