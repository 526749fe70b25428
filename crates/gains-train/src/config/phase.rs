//! A stretch of training and what it minimises.

use serde::{Deserialize, Serialize};

use crate::device::{StepForm, WidthNorm};
use crate::schedule::{Sin, Smooth, Trajectories};

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
