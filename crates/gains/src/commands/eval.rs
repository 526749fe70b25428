//! `gains eval`: standard, adversarial and certified accuracy in one go.

use gains_verify::Attack;

use crate::cli::{AttackSettings, EvalArgs, Global};
use crate::commands::certify::{Plan, campaign};
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
    let plan = Plan { bounds: args.bounds.clone(), attack: Some(attack(&args.attack)), attack_first: true };
    let name = format!("eval-{}", args.bounds.name());
    campaign(&args.target, &plan, name, &args.work, &args.output, global)
}
