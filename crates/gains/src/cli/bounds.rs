//! Flags that say how to bound, and in which arithmetic.

use clap::{Args, ValueEnum};
use gains_core::{Arithmetic, Precision};
use gains_verify::verifier::Settings;
use gains_verify::{Attack, AttackLoss, Method, Stage, StepForm};

use crate::failure::Failure;

/// How to bound.
#[derive(Args, Clone)]
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

impl BoundArgs {
    /// Refuses the method that only series have.
    pub fn check_for_images(&self) -> Result<(), Failure> {
        match self.method {
            MethodArg::Stepwise => Err(Failure::usage("--method stepwise is for forecasting models")
                .hint("images have auto, box, linear, gains, tight and symbolic")),
            _ => Ok(()),
        }
    }

    /// The method that bounds; of the cascade, the one that makes its graphs.
    pub fn method(&self) -> Method {
        match self.method {
            // `stepwise` is refused for images before it comes to this.
            MethodArg::Auto | MethodArg::Stepwise => Method::Tight,
            MethodArg::Box => Method::Box,
            MethodArg::Linear => Method::Linear,
            MethodArg::Gains => Method::Gains,
            MethodArg::Tight => Method::Tight,
            MethodArg::Symbolic => Method::Symbolic,
        }
    }

    /// The step form; most methods beyond the paper have only one.
    pub fn step_form(&self) -> StepForm {
        match self.method() {
            Method::Tight | Method::Symbolic => StepForm::Difference,
            Method::Box | Method::Linear | Method::Gains => {
                self.step_form.map_or(StepForm::Independent, Into::into)
            }
        }
    }

    /// The method as results name it: with its step form where that is neither the paper's nor implied.
    pub fn name(&self) -> String {
        match (self.method, self.step_form()) {
            (MethodArg::Auto, _) => "auto".into(),
            (MethodArg::Tight | MethodArg::Symbolic, _) | (_, StepForm::Independent) => {
                self.method().to_string()
            }
            (_, StepForm::Difference) => format!("{}-difference", self.method()),
        }
    }

    /// What to try on a sample at one radius, with an attack before or after the bounds.
    pub fn settings(&self, eps: f64, attack: Option<Attack>, attack_first: bool) -> Settings {
        let arithmetic = self.arithmetic.into();
        if self.method == MethodArg::Auto {
            return Settings { arithmetic, ..Settings::cascade(eps, attack) };
        }
        let method = Stage::Bound(self.method());
        let attack = attack.map(Stage::Attack);
        let stages = match (attack_first, self.method()) {
            (true, Method::Box) => attack.into_iter().chain([method]).collect(),
            (true, _) => [Stage::Bound(Method::Box)].into_iter().chain(attack).chain([method]).collect(),
            (false, _) => [method].into_iter().chain(attack).collect(),
        };
        Settings { stages, step_form: self.step_form(), arithmetic, ..Settings::default() }
    }
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
    /// Images only: intervals and linear bounds with several slopes, as in the paper
    Gains,
    /// The same with solver steps in difference form: tighter, and usually faster
    Tight,
    /// Images only: affine forms over the pixels, pushed forward: for networks not trained to be certified, small radii
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
