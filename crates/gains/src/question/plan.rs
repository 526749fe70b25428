//! What to try on a sample: the one place where `--method` becomes a list of steps, for every kind of network.

use gains_core::Arithmetic;
use gains_verify::{Attack, AttackLoss, Method, Problem, Settings, Stage, StepForm};
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

/// How to bound once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// The method.
    pub method: Method,
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

impl Plan {
    /// What a command was asked for; refuses a method that only the other kind of network has.
    pub fn new(
        task: Task,
        bounds: &BoundArgs,
        attack: Option<AttackPlan>,
        purpose: Purpose,
    ) -> Result<Self, Failure> {
        check_method(task, bounds.method)?;
        let form = bounds.step_form.map(Into::into);
        let fixed = match (task, bounds.method) {
            (Task::Classes | Task::Regression, MethodArg::Auto | MethodArg::Tight | MethodArg::Symbolic) => {
                Some(StepForm::Difference)
            }
            _ => None,
        };
        let step_form = fixed.or(form).unwrap_or(default_form(task));
        let arithmetic = bounds.arithmetic.into();
        Ok(Self { task, method: bounds.method, purpose, step_form, arithmetic, attack })
    }

    /// The cascade on classifiers.
    pub fn auto(attack: AttackPlan) -> Self {
        Self {
            task: Task::Classes,
            method: MethodArg::Auto,
            purpose: Purpose::Certify,
            step_form: StepForm::Difference,
            arithmetic: Arithmetic::Real,
            attack: Some(attack),
        }
    }

    /// The method as results name it: with its step form where that is a choice and not the usual one.
    pub fn name(&self) -> String {
        let word = self.chosen().map_or("auto".into(), |method| method.to_string());
        let chosen = match self.task {
            Task::Classes | Task::Regression => {
                matches!(self.method, MethodArg::Box | MethodArg::Linear | MethodArg::Gains)
            }
            Task::Forecasts => {
                matches!(self.method, MethodArg::Auto | MethodArg::Box | MethodArg::Linear | MethodArg::Gains)
            }
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
        self.attack.is_some() || (self.method == MethodArg::Auto && self.task != Task::Forecasts)
    }

    /// Whether every sample is attacked, so that all have an attacked error.
    pub fn always_attacks(&self) -> bool {
        self.attack.is_some() && self.task == Task::Forecasts && self.purpose == Purpose::Evaluate
    }

    /// The method that makes the graphs; of the cascade, its last.
    pub fn way(&self) -> Way {
        let method = self.chosen().unwrap_or(Method::Tight);
        Way { method, step_form: self.step_form, arithmetic: self.arithmetic }
    }

    /// The method that was asked for; none for the cascade.
    fn chosen(&self) -> Option<Method> {
        match self.method {
            MethodArg::Auto => None,
            MethodArg::Box => Some(Method::Box),
            MethodArg::Linear => Some(Method::Linear),
            MethodArg::Gains => Some(Method::Gains),
            MethodArg::Tight => Some(Method::Tight),
            MethodArg::Symbolic => Some(Method::Symbolic),
            MethodArg::Stepwise => Some(Method::Stepwise),
        }
    }

    /// What to try on one sample, in order.
    pub(super) fn settings(&self, problem: &Problem<'_>, sample: u64) -> Settings {
        let reach = problem.region.radius;
        let attack = self.attack.map(|attack| Attack::from(attack.on(sample)));
        let series = self.task == Task::Forecasts;
        // Steps that the user did not choose cross the region, however few there are; those on images are the paper's.
        let crosses = series || !problem.region.paces.is_empty();
        let crossing = attack.map(|attack| if crosses { attack.crossing(reach) } else { attack });
        let evaluates = self.purpose == Purpose::Evaluate;
        let finally =
            attack.filter(|_| series && evaluates).map(|attack| Attack { exhaustive: true, ..attack });
        let listed = crossing.filter(|_| finally.is_none()).map(Stage::Attack);
        let stages = match self.chosen() {
            None => {
                let mut cascade = Settings::cascade(problem.program, reach, crossing).stages;
                if finally.is_some() {
                    // The attack comes last, and with more steps.
                    cascade.retain(|stage| !matches!(stage, Stage::Attack(_)));
                }
                cascade
            }
            Some(method) if evaluates && !series => {
                let cheap = (method != Method::Box).then_some(Stage::Bound(Method::Box));
                cheap.into_iter().chain(listed).chain([Stage::Bound(method)]).collect()
            }
            Some(method) => [Stage::Bound(method)].into_iter().chain(listed).collect(),
        };
        let (step_form, arithmetic) = (self.step_form, self.arithmetic);
        Settings { stages, step_form, arithmetic, finally, ..Settings::default() }
    }

    /// What to try where bounds are wanted in any case: one method, one to the rescue, and the worst an attack finds.
    pub(super) fn settings_of_one(&self, problem: &Problem<'_>) -> Settings {
        let mut settings = self.settings(problem, 0);
        if self.chosen().is_none() {
            settings.stages = vec![Stage::Bound(Method::Tight), Stage::Rescue(Method::Stepwise)];
        }
        settings
    }
}

fn default_form(task: Task) -> StepForm {
    match task {
        Task::Classes | Task::Regression => StepForm::Independent,
        Task::Forecasts => StepForm::Difference,
    }
}

/// Refuses the method that only recurrent networks have.
fn check_method(task: Task, method: MethodArg) -> Result<(), Failure> {
    match (task, method) {
        (Task::Classes | Task::Regression, MethodArg::Stepwise) => {
            Err(Failure::usage("--method stepwise is for forecasting models, whose encoders are recurrent")
                .hint("images have auto, box, linear, gains, tight and symbolic"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use gains_core::Interval;

    use super::*;
    use crate::cli::ArithmeticArg;

    /// `auto` is the verifier's own cascade.
    #[test]
    fn auto_is_the_cascade() {
        let network = crate::files::load_model(None).unwrap();
        let problem = Problem::classification(&network, &[0.5; 784], 0, 0.1, Interval::new(0.0, 1.0));
        let bounds = BoundArgs { method: MethodArg::Auto, step_form: None, arithmetic: ArithmeticArg::Real };
        for attack in [None, Some(AttackPlan { steps: 40, ..AttackPlan::PAPER })] {
            let plan = Plan::new(Task::Classes, &bounds, attack, Purpose::Certify).unwrap();
            let ours = plan.settings(&problem, 5);
            let theirs = Settings::cascade(&network.body, 0.1, attack.map(|a| a.on(5).into()));
            assert_eq!((ours.stages, ours.step_form), (theirs.stages, theirs.step_form));
        }
    }
}
