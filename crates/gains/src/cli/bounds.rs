//! Flags that say how to bound, and in which arithmetic.

use clap::{Args, ValueEnum};
use gains_core::{Arithmetic, Precision};
use gains_verify::{AttackLoss, StepForm};

/// How to bound.
#[derive(Args, Clone)]
#[command(next_help_heading = "Method")]
pub struct BoundArgs {
    /// How to bound
    #[arg(long, value_enum, default_value_t = MethodArg::Auto)]
    pub method: MethodArg,
    /// How solver steps are bounded: stages on their own, or each as the one before plus a difference
    /// [default: independent for images, difference for series]
    #[arg(long, value_enum)]
    pub step_form: Option<StepFormArg>,
    /// The arithmetic the proof is about: exact reals, or the network run in float32
    #[arg(long, value_enum, default_value_t = ArithmeticArg::Real)]
    pub arithmetic: ArithmeticArg,
}

/// `--method`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MethodArg {
    /// Attack first, then ever more expensive bounds, each on what is left: the methods below, slopes improved
    /// by gradient, case distinctions
    Auto,
    /// Intervals only: fastest, loosest
    Box,
    /// Linear bounds with one slope
    Linear,
    /// Intervals and linear bounds with several slopes, as in the paper
    Gains,
    /// The same with solver steps in difference form: tighter, and usually faster
    Tight,
    /// Affine forms over the inputs, pushed forward: for networks not trained to be certified, small radii
    Symbolic,
    /// Series only: every state of the encoder's walk tightened; for networks not trained to be certified, slow
    Stepwise,
}

/// `--step-form`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StepFormArg {
    /// As in the paper
    Independent,
    /// Two to three times the work per step, far tighter, so far fewer steps
    Difference,
}

impl From<StepFormArg> for StepForm {
    fn from(form: StepFormArg) -> Self {
        match form {
            StepFormArg::Independent => Self::Independent,
            StepFormArg::Difference => Self::Difference,
        }
    }
}

/// `--arithmetic`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArithmeticArg {
    /// Exact real arithmetic
    Real,
    /// The network as a float32 program runs it
    Float32,
}

impl From<ArithmeticArg> for Arithmetic {
    fn from(arithmetic: ArithmeticArg) -> Self {
        match arithmetic {
            ArithmeticArg::Real => Self::Real,
            ArithmeticArg::Float32 => Self::Float32,
        }
    }
}

/// `--precision`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrecisionArg {
    /// Single precision
    Float32,
    /// Double precision
    Float64,
}

impl From<PrecisionArg> for Precision {
    fn from(precision: PrecisionArg) -> Self {
        match precision {
            PrecisionArg::Float32 => Self::Float32,
            PrecisionArg::Float64 => Self::Float64,
        }
    }
}

impl PrecisionArg {
    /// As it is typed and written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }
}

/// `--loss`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LossArg {
    /// Cross-entropy of the true class
    CrossEntropy,
    /// Largest other logit minus the true one
    Margin,
}

impl From<LossArg> for AttackLoss {
    fn from(loss: LossArg) -> Self {
        match loss {
            LossArg::CrossEntropy => Self::CrossEntropy,
            LossArg::Margin => Self::Margin,
        }
    }
}
