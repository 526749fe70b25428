//! `gains eval`: standard, adversarial and certified accuracy in one go.

use gains_verify::{Attack, AttackLoss};

use crate::cli::{AttackSettings, EvalArgs, Global};
use crate::commands::certify::{Plan, campaign};
use crate::failure::Outcome;
use crate::forecasting::decide::{Attacked, Decider};
use crate::{files, forecasting};

/// The attack a command was given.
pub fn attack(args: &AttackSettings) -> Attack {
    Attack {
        steps: args.steps,
        step_size: args.step_size,
        restarts: args.restarts as usize,
        loss: args.loss.map_or(AttackLoss::CrossEntropy, Into::into),
        seed: args.seed,
    }
}

/// Runs the command: intervals first, then the attack, then the expensive bounds on what is left. Series are
/// bounded and attacked in any case, so that errors stand beside each other.
pub fn run(args: &EvalArgs, global: &Global) -> Outcome {
    let network = files::load_model(args.target.model.as_deref())?;
    if files::forecasts(&network) {
        forecasting::attack::refuse_loss(&args.attack, &network)?;
        let attack = forecasting::attack::settings(&args.attack);
        let decider = Decider::new(&args.bounds, Some(attack), Attacked::Always)?;
        let name = format!("eval-{}", decider.name());
        let (target, work, output) = (&args.target, &args.work, &args.output);
        return forecasting::campaign::run(&network, target, &decider, name, work, output, global);
    }
    let plan = Plan { bounds: args.bounds.clone(), attack: Some(attack(&args.attack)), attack_first: true };
    let name = format!("eval-{}", args.bounds.name());
    campaign(network, &args.target, &plan, name, &args.work, &args.output, global)
}
