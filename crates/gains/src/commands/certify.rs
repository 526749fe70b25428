//! `gains certify`.

use crate::cli::{CertifyArgs, Global};
use crate::failure::Outcome;
use crate::question::{AttackPlan, Model, Plan, Purpose};
use crate::{campaign, files};

/// Runs the command: bounds first, an attack on what they leave open.
pub fn run(args: &CertifyArgs, global: &Global) -> Outcome {
    let model = Model::new(files::load_model(args.target.model.as_deref())?);
    let steps = args.attack_steps;
    let attack = (steps > 0).then_some(AttackPlan { steps, ..AttackPlan::PAPER });
    let plan = Plan::new(model.task(), &args.bounds, attack, Purpose::Certify)?;
    campaign::run(&model, &args.target, &plan, &args.work, &args.output, global)
}
