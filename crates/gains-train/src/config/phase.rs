//! A stretch of training and what it minimises.

use serde::{Deserialize, Serialize};

use crate::device::{StepForm, WidthNorm};
use crate::loss::Objective;
use crate::schedule::{Sin, Smooth, Trajectories, trajectories};

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
    /// What is minimised in provable training, apart from regularisers.
    pub objective: Objective,
    /// Weights in the loss.
    pub loss: LossWeights,
    /// How images are attacked, in adversarial training and where the objective asks for it.
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
            objective: Objective::default(),
            loss: LossWeights::default(),
            attack: Attack::default(),
            kappa: vec![Trajectories::new(0, 1)],
        }
    }
}

impl Phase {
    /// The perturbation in a batch of an epoch.
    pub fn eps_in(&self, epoch: u32, batch: u32, batches: u32) -> f64 {
        self.eps.map_or(0.0, |eps| eps.within(self.epochs).in_batch(epoch, batch, batches))
    }

    /// q in an epoch.
    pub fn q_at(&self, epoch: u32) -> f64 {
        self.q.within(self.epochs).at(epoch)
    }

    /// κ in an epoch.
    pub fn kappa_at(&self, epoch: u32) -> u32 {
        trajectories(&self.kappa, epoch, self.epochs)
    }

    /// Gives the phase another length, and the schedules in it the same parts of that length.
    pub fn stretch(&mut self, epochs: u32) {
        let (before, after) = (f64::from(self.epochs), f64::from(epochs));
        self.epochs = epochs;
        if before == 0.0 {
            return;
        }
        let scale = |epoch: u32| (f64::from(epoch) * after / before).round() as u32;
        if let Some(eps) = &mut self.eps {
            (eps.start, eps.length) = (scale(eps.start), scale(eps.length));
        }
        (self.q.first, self.q.last) = (scale(self.q.first), scale(self.q.last));
        for entry in &mut self.kappa {
            entry.from = scale(entry.from);
        }
        // Entries that fall together: the later one holds.
        let mut kept: Vec<Trajectories> = Vec::with_capacity(self.kappa.len());
        for entry in &self.kappa {
            kept.retain(|earlier| earlier.first(epochs) < entry.first(epochs));
            kept.push(*entry);
        }
        self.kappa = kept;
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
    /// Weight of boxes that grow from layer to layer ([Shi et al.](crate::loss)), while the perturbation grows: (1 − r) of it.
    pub tightness: f64,
    /// Weight of activations that are nearly all off or all on, likewise.
    pub balance: f64,
    /// Weight of the decisions of the controller that boxes leave open.
    pub decisions: f64,
    /// Weight of how far the state still moves after the end time (TisODE): the mean over the batch of
    /// `‖z(2T) − z(T)‖₁`, which is `‖∫ |g| dt‖₁` from T to 2T as g ≥ 0 behind its last ReLU.
    pub steady: f64,
    /// Weight of how far the motion of the state in the neural ODE stays behind `alive_target`.
    pub alive: f64,
    /// How far the state should move at least, as a part of its size.
    pub alive_target: f64,
}

impl LossWeights {
    /// Whether anything is asked about the way of boxes that devices do not look at.
    pub fn watches_boxes(&self) -> bool {
        [self.tightness, self.balance, self.decisions].iter().any(|weight| *weight > 0.0)
    }
}

impl Default for LossWeights {
    fn default() -> Self {
        Self {
            robust: 0.66,
            width: 0.01,
            width_norm: WidthNorm::Squared,
            error: 0.0,
            tightness: 0.0,
            balance: 0.0,
            decisions: 0.0,
            steady: 0.0,
            alive: 0.0,
            alive_target: 0.5,
        }
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
