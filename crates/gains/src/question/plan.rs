//! What to try on a sample: the one place where `--method` becomes a list of steps, for every kind of network.

use gains_core::Arithmetic;
use gains_verify::{AttackLoss, StepForm};
use serde::{Deserialize, Serialize};

use super::{Task, step_form_word};
use crate::cli::{BoundArgs, MethodArg};
use crate::failure::Failure;

/// An attack by projected gradient descent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackPlan {
    /// Gradient steps per start.
    pub steps: usize,
    /// Size of one step; while certifying series at least so large that the steps cross the region.
    pub step_size: f64,
    /// Random starts.
    pub restarts: usize,
    /// What is climbed, on images.
    pub loss: AttackLoss,
    /// Seed of the random starts, mixed with the number of the sample.
    pub seed: u64,
}

impl AttackPlan {
    /// The paper's evaluation attack: 200 steps of 0.0025, one start.
    pub const PAPER: Self =
        Self { steps: 200, step_size: 0.0025, restarts: 1, loss: AttackLoss::CrossEntropy, seed: 0 };

    /// The attack on one sample.
    pub fn on(self, sample: u64) -> Self {
        Self { seed: self.seed ^ sample, ..self }
    }
}

/// What a command wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A verdict; what the bounds leave open is attacked.
    Certify,
    /// Numbers beside each other: images are attacked before the expensive bounds, series in any case.
    Evaluate,
}

/// A way to bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Intervals.
    Box,
    /// Linear bounds.
    Linear,
    /// The paper's.
    Gains,
    /// Beyond it.
    Tight,
    /// Affine forms.
    Symbolic,
    /// Every state of the encoder's walk tightened.
    Stepwise,
}

impl Word {
    /// As it is typed and written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Box => "box",
            Self::Linear => "linear",
            Self::Gains => "gains",
            Self::Tight => "tight",
            Self::Symbolic => "symbolic",
            Self::Stepwise => "stepwise",
        }
    }

    /// What `gains bench` measures.
    pub fn measured(task: Task) -> &'static [Self] {
        match task {
            Task::Classes => &[Self::Box, Self::Linear, Self::Gains, Self::Tight],
            Task::Forecasts => &[Self::Box, Self::Linear, Self::Tight],
        }
    }
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing to try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Look for an input that breaks the property.
    Attack(AttackPlan),
    /// Look for the worst input, whatever the bounds say.
    Worst(AttackPlan),
    /// Bound by one method.
    Bound(Word),
    /// The same, only if no bound before came to an end.
    Rescue(Word),
    /// Slopes improved by gradient, then case distinctions.
    Branch,
}

/// How to bound once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// The method.
    pub word: Word,
    /// How solver steps are bounded, where the method leaves a choice.
    pub step_form: StepForm,
    /// Whose arithmetic is bounded.
    pub arithmetic: Arithmetic,
}

/// How every sample of a run is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    task: Task,
    method: MethodArg,
    purpose: Purpose,
    /// How solver steps are bounded, where the method leaves a choice.
    pub step_form: StepForm,
    /// Whose arithmetic verdicts are about.
    pub arithmetic: Arithmetic,
    /// The attack, if any.
    pub attack: Option<AttackPlan>,
}

/// Steps of the attack with which `auto` looks for a witness before its expensive bounds.
const SHORT_ON_IMAGES: usize = 20;
const SHORT_ON_SERIES: usize = 15;

impl Plan {
    /// What a command was asked for; refuses methods that only the other kind of network has.
    pub fn new(
        task: Task,
        bounds: &BoundArgs,
        attack: Option<AttackPlan>,
        purpose: Purpose,
    ) -> Result<Self, Failure> {
        check_method(task, bounds.method)?;
        let form = bounds.step_form.map(Into::into);
        let fixed = match (task, bounds.method) {
            (Task::Classes, MethodArg::Auto | MethodArg::Tight | MethodArg::Symbolic) => {
                Some(StepForm::Difference)
            }
            _ => None,
        };
        let step_form = fixed.or(form).unwrap_or(default_form(task));
        let arithmetic = bounds.arithmetic.into();
        Ok(Self { task, method: bounds.method, purpose, step_form, arithmetic, attack })
    }

    /// The method as results name it: with its step form where that is a choice and not the usual one.
    pub fn name(&self) -> String {
        let word = match self.word() {
            Some(word) => word.name(),
            None => "auto",
        };
        let chosen = match self.task {
            Task::Classes => matches!(self.method, MethodArg::Box | MethodArg::Linear | MethodArg::Gains),
            Task::Forecasts => matches!(self.method, MethodArg::Auto | MethodArg::Box | MethodArg::Linear),
        };
        let form = if chosen && self.step_form != default_form(self.task) {
            format!("-{}", step_form_word(self.step_form))
        } else {
            String::new()
        };
        let purpose = match self.purpose {
            Purpose::Certify => "",
            Purpose::Evaluate => "eval-",
        };
        format!("{purpose}{word}{form}")
    }

    /// Whether anything looks for witnesses.
    pub fn attacks(&self) -> bool {
        self.attack.is_some() || (self.method == MethodArg::Auto && self.task == Task::Classes)
    }

    /// Whether every sample is attacked, so that all have an attacked error.
    pub fn always_attacks(&self) -> bool {
        self.attack.is_some() && self.task == Task::Forecasts && self.purpose == Purpose::Evaluate
    }

    /// The method that makes the graphs; of the cascade, its last.
    pub fn way(&self) -> Way {
        let word = self.word().unwrap_or(Word::Tight);
        Way { word, step_form: self.step_form, arithmetic: self.arithmetic }
    }

    fn word(&self) -> Option<Word> {
        match self.method {
            MethodArg::Auto => None,
            MethodArg::Box => Some(Word::Box),
            MethodArg::Linear => Some(Word::Linear),
            MethodArg::Gains => Some(Word::Gains),
            MethodArg::Tight => Some(Word::Tight),
            MethodArg::Symbolic => Some(Word::Symbolic),
            MethodArg::Stepwise => Some(Word::Stepwise),
        }
    }

    /// What to try on one sample, in order. `reach` is the largest radius of its region.
    pub(super) fn steps(&self, reach: f64, sample: u64) -> Vec<Step> {
        let attack = self.attack.map(|attack| attack.on(sample));
        match (self.task, self.word(), self.purpose) {
            (Task::Classes, None, _) => {
                let seed = attack.map_or(0, |a| a.seed);
                let (loss, step_size) = (AttackLoss::Margin, reach / 6.0);
                let short = AttackPlan { steps: SHORT_ON_IMAGES, step_size, restarts: 1, loss, seed };
                let mut steps = vec![Step::Attack(short), Step::Bound(Word::Box), Step::Bound(Word::Tight)];
                steps.extend(attack.map(Step::Attack));
                steps.extend([Step::Branch, Step::Rescue(Word::Symbolic)]);
                steps
            }
            (Task::Classes, Some(word), Purpose::Evaluate) => {
                let cheap = (word != Word::Box).then_some(Step::Bound(Word::Box));
                cheap.into_iter().chain(attack.map(Step::Attack)).chain([Step::Bound(word)]).collect()
            }
            (Task::Classes, Some(word), Purpose::Certify) => {
                [Step::Bound(word)].into_iter().chain(attack.map(Step::Attack)).collect()
            }
            (Task::Forecasts, word, purpose) => {
                // Steps that the user did not choose cross the region, however few there are.
                let crossing = |attack: AttackPlan| {
                    let step_size = attack.step_size.max(4.0 * reach / attack.steps.max(1) as f64);
                    Step::Attack(AttackPlan { step_size, ..attack })
                };
                let mut steps = Vec::new();
                match word {
                    Some(word) => steps.push(Step::Bound(word)),
                    None => {
                        steps.extend([Step::Bound(Word::Box), Step::Bound(Word::Linear)]);
                        let short = AttackPlan { steps: SHORT_ON_SERIES, seed: sample, ..AttackPlan::PAPER };
                        steps.extend((purpose == Purpose::Certify).then(|| crossing(short)));
                        steps.extend([Step::Bound(Word::Tight), Step::Rescue(Word::Stepwise)]);
                    }
                }
                steps.extend(attack.map(|attack| match purpose {
                    Purpose::Certify => crossing(attack),
                    Purpose::Evaluate => Step::Worst(attack),
                }));
                steps
            }
        }
    }
}

fn default_form(task: Task) -> StepForm {
    match task {
        Task::Classes => StepForm::Independent,
        Task::Forecasts => StepForm::Difference,
    }
}

/// Refuses the methods that only the other kind of network has.
fn check_method(task: Task, method: MethodArg) -> Result<(), Failure> {
    let wrong = match (task, method) {
        (Task::Classes, MethodArg::Stepwise) => ("stepwise", "forecasting models"),
        (Task::Forecasts, MethodArg::Gains) => ("gains", "models that classify images"),
        (Task::Forecasts, MethodArg::Symbolic) => ("symbolic", "models that classify images"),
        _ => return Ok(()),
    };
    let hint = match task {
        Task::Classes => "images have auto, box, linear, gains, tight and symbolic",
        Task::Forecasts => "forecasting models have auto, box, linear, tight and stepwise",
    };
    Err(Failure::usage(format!("--method {} is for {}", wrong.0, wrong.1)).hint(hint))
}
