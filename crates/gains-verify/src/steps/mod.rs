//! Solver steps on boxes (paper, section 5).
//!
//! Stage inputs are `x + h Σ aᵢⱼ kⱼ`, the result is `y = x + h Σ bᵢ kᵢ`, the error estimate
//! `δ = ‖h Σ eᵢ kᵢ‖₁ / τ`. `independent` encloses the stages on their own, as the paper does, `difference` each as the
//! one before plus a small difference; `carrier` puts either into the trajectory graph.

mod carrier;
mod difference;
mod independent;
mod room;
mod sums;

pub use carrier::BoxSteps;
pub use room::Room;

use std::ops::Deref;
use std::sync::Arc;

use gains_core::program::Trace;
use gains_core::{BoxVec, OdeBlock};
use serde::{Deserialize, Serialize};

/// How the stages of a step are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepForm {
    /// Each on its own, as in the paper.
    #[default]
    Independent,
    /// Each as the one before plus a difference: two to three times the work, far tighter.
    Difference,
}

/// The way of rows back through the dynamics, for the value of a stage or for its change.
#[derive(Clone, Debug, Default)]
pub struct Passage {
    /// The nodes of the dynamics.
    pub trace: Trace,
    /// What the rounding of the sum that enters the dynamics may cost, for a coefficient of one.
    pub input_owed: Vec<f64>,
}

impl Passage {
    fn bytes(&self) -> usize {
        8 * self.input_owed.len() + self.trace.bytes()
    }
}

/// One stage of one step.
#[derive(Clone, Debug)]
pub struct StageTrace {
    /// From the slope back to the stage's input.
    pub value: Passage,
    /// From the change of the slope since the stage before back to the change of the input; only in
    /// difference form, from the second stage on.
    pub change: Option<Passage>,
    /// Largest absolute slopes.
    pub slope_magnitude: Vec<f64>,
}

/// One step.
#[derive(Clone, Debug, Default)]
pub struct StepTrace {
    /// Step size.
    pub step: f64,
    /// The stages the solution needs.
    pub stages: Vec<StageTrace>,
    /// What the rounding of `x + Σ h bᵢ kᵢ` may cost, for a coefficient of one.
    pub output_owed: Vec<f64>,
}

impl StepTrace {
    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        let stage = |s: &StageTrace| {
            s.value.bytes() + s.change.as_ref().map_or(0, Passage::bytes) + 8 * s.slope_magnitude.len()
        };
        8 * self.output_owed.len() + self.stages.iter().map(stage).sum::<usize>()
    }
}

/// The slopes of all stages and, in difference form, how each differs from the one before.
#[derive(Default)]
struct Slopes {
    /// `kᵢ`.
    slopes: Vec<BoxVec>,
    /// `rᵢ = kᵢ − kᵢ₋₁`, from the second stage on; empty if the stages were bounded independently.
    differences: Vec<BoxVec>,
    /// For rows.
    traces: Vec<StageTrace>,
    /// In difference form, what every node of the dynamics makes of the last stage's input.
    last: Option<Vec<BoxVec>>,
}

/// The states that can be at a vertex, and what is known of the dynamics there.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Reach {
    /// The states.
    pub states: BoxVec,
    /// Enclosures of what each node of the dynamics makes of those states at that time, where more is known
    /// than the box tells: the last stage of the step that led here was taken at the same place, or some
    /// values are excluded by assumption.
    pub inner: Option<Arc<Vec<BoxVec>>>,
}

/// Which side of a threshold a value is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// At most the threshold.
    Below,
    /// At least the threshold.
    Above,
}

impl Side {
    /// Cuts one entry of a box down to this side of a threshold.
    pub fn cut(self, values: &mut BoxVec, entry: usize, at: f64) {
        match self {
            Self::Below => values.upper[entry] = values.upper[entry].min(at),
            Self::Above => values.lower[entry] = values.lower[entry].max(at),
        }
    }
}

/// Something assumed of the start of an ODE block: a value of the dynamics, at the initial state and time, is on one
/// side of a threshold in one of its entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assumption {
    /// The value, one that a node makes.
    pub value: usize,
    /// Which of its entries.
    pub entry: usize,
    /// The threshold.
    pub at: f64,
    /// The side.
    pub side: Side,
}

impl Reach {
    /// The states of an ODE block's input for which all assumptions hold.
    pub fn assuming(states: BoxVec, block: &OdeBlock, assumed: &[Assumption]) -> Self {
        if assumed.is_empty() {
            return Self::from(states);
        }
        let anything = |length| BoxVec::new(vec![f64::NEG_INFINITY; length], vec![f64::INFINITY; length]);
        let mut inner: Vec<BoxVec> =
            block.dynamics.nodes().map(|(_, node)| anything(node.shape.len())).collect();
        let inputs = block.dynamics.inputs().len();
        for a in assumed {
            if let Some(values) = a.value.checked_sub(inputs).and_then(|node| inner.get_mut(node)) {
                a.side.cut(values, a.entry, a.at);
            }
        }
        Self { states, inner: Some(Arc::new(inner)) }
    }
}

impl From<BoxVec> for Reach {
    fn from(states: BoxVec) -> Self {
        Self { states, inner: None }
    }
}

impl Deref for Reach {
    type Target = BoxVec;

    fn deref(&self) -> &BoxVec {
        &self.states
    }
}
