//! `gains eval`: standard, adversarial and certified accuracy in one go.

use gains_verify::verifier::Settings;
use gains_verify::{Attack, Method, StepForm};

use crate::cli::{AttackSettings, EvalArgs, Global};
use crate::commands::certify::{campaign, method_name};
use crate::failure::Outcome;

/// The attack a command was given.
pub fn attack(args: &AttackSettings) -> Attack {
    Attack {
        steps: args.steps,
        step_size: args.step_size,
        restarts: args.restarts as usize,
        loss: args.loss.into(),
        seed: args.seed,
    }
}

/// Runs the command: intervals first, then the attack, then the expensive bounds on what is left.
pub fn run(args: &EvalArgs, global: &Global) -> Outcome {
    let method: Method = args.method.into();
    let step_form = if method == Method::Tight { StepForm::Difference } else { args.step_form.into() };
    let settings = Settings {
        methods: if method == Method::Box { vec![method] } else { vec![Method::Box, method] },
        step_form,
        arithmetic: args.arithmetic.into(),
        attack: Some(attack(&args.attack)),
        attack_early: true,
        ..Settings::default()
    };
    let name = format!("eval-{}", method_name(&method.to_string(), step_form));
    campaign(&args.target, &settings, name, &args.work, &args.output, global)
}
