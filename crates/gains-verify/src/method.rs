//! The methods, and what each of them does.

use gains_core::LowerSlope;
use serde::{Deserialize, Serialize};

use crate::graph_pull::{RowForm, RowKind};
use crate::steps::StepForm;

/// How bounds are computed (paper, appendix on bound calculation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Intervals only.
    Box,
    /// Linear bounds with the min-area slope only.
    Linear,
    /// Both, with several slopes; the tightest of everything wins.
    Gains,
    /// Like `Gains`, with solver steps in difference form: for the graph, and for the final rows beside the
    /// direct form.
    Tight,
    /// The same, with every state of a recurrent encoder tightened by rows before it goes on, and affine forms from its
    /// end: for recurrent networks that were not trained with boxes. Takes about a hundred times as long.
    Stepwise,
    /// Affine forms over the input, pushed forward ([`crate::forms`]).
    Symbolic,
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Box => "box",
            Self::Linear => "linear",
            Self::Gains => "gains",
            Self::Tight => "tight",
            Self::Stepwise => "stepwise",
            Self::Symbolic => "symbolic",
        })
    }
}

/// How a group of rows is relaxed: lower slopes of unstable ReLUs, chosen apart for ODE blocks and for
/// everything else, and the form of solver steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Slopes outside ODE blocks.
    pub stack: LowerSlope,
    /// Slopes and form inside ODE blocks.
    pub ode: RowKind,
}

impl Variant {
    /// Slopes outside and inside ODE blocks, and the form of the steps.
    pub const fn new(stack: LowerSlope, slope: LowerSlope, form: RowForm) -> Self {
        Self { stack, ode: RowKind { slope, form } }
    }

    /// One slope everywhere.
    pub const fn uniform(slope: LowerSlope) -> Self {
        Self::new(slope, slope, RowForm::Direct)
    }

    /// The three slopes, each everywhere.
    pub const UNIFORM: [Self; 3] =
        [Self::uniform(LowerSlope::MinArea), Self::uniform(LowerSlope::Zero), Self::uniform(LowerSlope::One)];

    /// What the final rows use. First the uniform ones and slope 0 outside with min-area inside ODE blocks,
    /// which is often the tightest; then, where the graph allows, the best of these in chain form.
    pub const FINAL: [Self; 7] = [
        Self::UNIFORM[0],
        Self::UNIFORM[1],
        Self::UNIFORM[2],
        Self::new(LowerSlope::Zero, LowerSlope::MinArea, RowForm::Direct),
        Self::new(LowerSlope::MinArea, LowerSlope::MinArea, RowForm::Chain),
        Self::new(LowerSlope::Zero, LowerSlope::MinArea, RowForm::Chain),
        Self::new(LowerSlope::Zero, LowerSlope::Zero, RowForm::Chain),
    ];
}

/// What a method does: the one place that tells them apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    /// Lower slopes that are prepared at every activation; none if no rows are pulled.
    pub slopes: &'static [LowerSlope],
    /// How final rows pass.
    pub finals: &'static [Variant],
    /// How rows pass that tighten the box in front of a non-linear node.
    pub refining: &'static [Variant],
    /// Whether boxes count as bounds, too.
    pub boxes: bool,
    /// The form of solver steps, where there is no choice.
    pub form: Option<StepForm>,
    /// Rounds of gradient ascent for the lowest row, and rows of recurrent encoders made twice.
    pub polish: bool,
    /// Whether every state of a recurrent encoder is tightened.
    pub stepwise: bool,
}

impl Method {
    pub(crate) fn recipe(self) -> Recipe {
        const SLOPES: [LowerSlope; 3] = [LowerSlope::MinArea, LowerSlope::Zero, LowerSlope::One];
        let gains = Recipe {
            slopes: &SLOPES,
            finals: &Variant::FINAL[..4],
            refining: &Variant::UNIFORM,
            boxes: true,
            form: None,
            polish: false,
            stepwise: false,
        };
        let tight =
            Recipe { finals: &Variant::FINAL, form: Some(StepForm::Difference), polish: true, ..gains };
        match self {
            Self::Box | Self::Symbolic => Recipe { slopes: &[], finals: &[], refining: &[], ..gains },
            Self::Linear => Recipe {
                slopes: &SLOPES[..1],
                finals: &Variant::FINAL[..1],
                refining: &Variant::UNIFORM[..1],
                boxes: false,
                ..gains
            },
            Self::Gains => gains,
            Self::Tight => tight,
            Self::Stepwise => Recipe { stepwise: true, ..tight },
        }
    }
}
