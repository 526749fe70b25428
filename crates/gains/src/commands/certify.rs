//! `gains certify`.

use crate::certificates::Certificates;
use crate::cli::{CertifyArgs, Global};
use crate::failure::Outcome;
use crate::question::{AttackPlan, Model, Plan, Purpose};
use crate::{campaign, files};

/// Runs the command: bounds first, an attack on what they leave open.
pub fn run(args: &CertifyArgs, global: &Global) -> Outcome {
    let network = files::load_model(args.target.model.as_deref())?;
    let model = Model::asking(network, &args.target.property)?;
    let steps = args.attack_steps;
    let attack = (steps > 0).then_some(AttackPlan { steps, ..AttackPlan::PAPER });
    let plan = Plan::new(model.task(), &args.bounds, attack, Purpose::Certify)?;
    let certificates = Certificates::open(&args.certificates, args.target.model.as_deref())?;
    campaign::run(&model, &args.target, &plan, &args.work, &args.output, certificates.as_ref(), global)
}
