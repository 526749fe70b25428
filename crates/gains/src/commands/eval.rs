//! `gains eval`: standard, adversarial and certified accuracy in one go.

use crate::cli::{EvalArgs, Global};
use crate::failure::Outcome;
use crate::question::{Model, Plan, Purpose};
use crate::subject::attack_plan;
use crate::{campaign, files};

/// Runs the command: intervals first, then the attack, then the expensive bounds on what is left. Series are
/// bounded and attacked in any case, so that errors stand beside each other.
pub fn run(args: &EvalArgs, global: &Global) -> Outcome {
    let network = files::load_model(args.target.model.as_deref())?;
    let model = Model::asking(network, &args.target.property)?;
    let attack = attack_plan(&args.attack, &model)?;
    let plan = Plan::new(model.task(), &args.bounds, Some(attack), Purpose::Evaluate)?;
    campaign::run(&model, &args.target, &plan, &args.work, &args.output, None, global)
}
