//! `gains eval`: standard, adversarial and certified accuracy in one go.

use gains_verify::verifier::Settings;
use gains_verify::{Attack, Method, Verifier};

use crate::cli::{AttackSettings, EvalArgs, Global};
use crate::commands::certify::{Campaign, distinct, method_name};
use crate::failure::Outcome;
use crate::results::RunIdentity;
use crate::{files, samples};

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
    distinct(&args.eps)?;
    let verifier = Verifier::new(files::load_model(args.model.as_deref())?);
    let (images, indices) = samples::load(&args.data, verifier.network())?;
    let settings = Settings {
        methods: vec![Method::Box, Method::Gains],
        step_form: args.step_form.into(),
        arithmetic: args.arithmetic.into(),
        attack: Some(attack(&args.attack)),
        attack_early: true,
        ..Settings::default()
    };
    Campaign {
        verifier: &verifier,
        model: args.model.as_deref(),
        images: &images,
        indices: &indices,
        eps: &args.eps,
        settings: &settings,
        identity: RunIdentity {
            method: method_name("eval", args.step_form.into()),
            arithmetic: args.arithmetic.into(),
            model: verifier.network().hash.clone(),
        },
        work: &args.work,
        output: &args.output,
    }
    .run(global)
}
