//! `gains eval`: standard, adversarial and certified accuracy in one go.

use gains_verify::verifier::Settings;
use gains_verify::{Attack, Method};

use crate::cli::{AttackSettings, EvalArgs, Global};
use crate::commands::certify::campaign;
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
    let method = args.bounds.method();
    let settings = Settings {
        methods: if method == Method::Box { vec![method] } else { vec![Method::Box, method] },
        step_form: args.bounds.step_form(),
        arithmetic: args.bounds.arithmetic.into(),
        attack: Some(attack(&args.attack)),
        attack_early: true,
        ..Settings::default()
    };
    let name = format!("eval-{}", args.bounds.name());
    campaign(&args.target, &settings, name, &args.work, &args.output, global)
}
