//! Networks drawn from all that the loader accepts: a verdict has a certificate that the checker accepts, or says why not.

use std::collections::BTreeMap;
use std::time::Duration;

use gains_check::automaton::Action;
use gains_check::fault::Deadline;
use gains_check::interval::Interval;
use gains_check::witness;
use gains_core::Precision;
use gains_core::model_file::write_model;
use gains_ode::Inference;
use gains_testkit::Choices;
use gains_testkit::grammar::ImageCase;
use gains_verify::certificate::NotWritten;
use gains_verify::property::LinearRow;
use gains_verify::{Attack, Budget, Method, Problem, Property, Region, Settings, Stage, StepForm};

use crate::{Both, Outcome};

/// That no output moves far, or the class.
pub(crate) fn property(output: &[f64], far: f64, choices: &mut Choices) -> Property {
    if choices.chance(30) {
        return Property::classification(output.len(), gains_verify::property::largest(output));
    }
    let rows = (0..2 * output.len()).map(|k| {
        let (i, sign) = (k / 2, if k % 2 == 0 { 1.0 } else { -1.0 });
        let mut coefficients = vec![0.0; output.len()];
        coefficients[i] = sign;
        LinearRow::new(coefficients, far * (1.0 + output[i].abs()) - sign * output[i])
    });
    Property::all(output.len(), rows.collect())
}

/// Draws a network; none whose solver takes steps of any size, of which there is no graph and no proof.
pub(crate) fn drawn(seed: u64) -> Option<(ImageCase, Both, Choices)> {
    let mut choices = Choices::from_seed(seed);
    let case = ImageCase::draw(&mut choices);
    let any_step = serde_json::to_string(&case.model.description).unwrap().contains("\"adaptive\"");
    let bytes = write_model(&case.model.description, &case.model.tensors).unwrap();
    (!any_step).then(|| (case, Both::read(&bytes), choices))
}

/// Draws a network and a question, and what came of it.
fn one(seed: u64) -> Outcome {
    let Some((case, both, mut choices)) = drawn(seed) else { return Outcome::Undecided };
    let Ok(run) = Inference::run(&both.network, &case.centre, Precision::Float64) else {
        return Outcome::Undecided;
    };
    if !run.output.iter().all(|y| y.is_finite()) {
        return Outcome::Undecided;
    }
    let far = choices.pick(&[0.3, 0.01, 0.05, 2.0, 20.0]);
    let property = property(&run.output, far, &mut choices);
    let region = Region::boxes(vec![case.region()]);
    let program = &both.network.body;
    let problem = Problem { program, region, property, nominal: vec![case.centre.clone()], output: None };
    let step_form = if choices.chance(50) { StepForm::Difference } else { StepForm::Independent };
    let method = choices.pick(&[Method::Box, Method::Gains, Method::Linear, Method::Tight]);
    let settings = match choices.chance(50) {
        true => Settings::cascade(program, case.radius, Some(Attack::default())),
        false => Settings { stages: Stage::bounds(&[method]), step_form, ..Settings::default() },
    };
    both.ask(
        &problem,
        settings,
        Budget { timeout: Some(Duration::from_secs(3)), vertices: 200, ..Budget::default() },
    )
}

/// Both programs compute the same at a point of a network: outputs, and every decision of its solvers.
fn compared(seed: u64) -> Option<bool> {
    let (case, both, _) = drawn(seed)?;
    let run = Inference::run(&both.network, &case.centre, Precision::Float64).ok()?;
    let mut solutions = run.solutions();
    let point = case.centre.iter().map(|&x| Interval::point(x)).collect();
    let mut differs = false;
    let outputs = witness::run(&both.checked.network, vec![point], Deadline::default(), &mut |ode, state| {
        let (end, moves) = witness::solve(ode, state, 100_000, Deadline::default())?;
        let theirs = &solutions.next().unwrap().trajectory;
        let same = |(own, their): (&witness::Move, &gains_ode::Visit)| {
            let code = [Action::Reject, Action::Keep, Action::Increase][usize::from(their.action.code())];
            ode.solver.after(own.place, own.action) == ode.solver.after(own.place, code)
        };
        differs |= moves.len() != theirs.len() || !moves.iter().zip(theirs).all(same);
        Ok(end)
    });
    // Within rounding of a threshold, or of numbers beyond all bounds, nothing can be said.
    let outputs = outputs.ok()?;
    let near = |(own, their): (&Interval, &f64)| {
        let room = 1e-9 * (1.0 + their.abs()) + 4.0 * (own.high - own.low);
        own.low - room <= *their && *their <= own.high + room
    };
    Some(!differs && outputs.iter().zip(&run.output).all(near))
}

#[test]
fn both_programs_compute_the_same() {
    let outcomes: Vec<(u64, Option<bool>)> = (5000..5600).map(|seed| (seed, compared(seed))).collect();
    let differ: Vec<u64> =
        outcomes.iter().filter(|(_, o)| *o == Some(false)).map(|(seed, _)| *seed).collect();
    let same = outcomes.iter().filter(|(_, o)| *o == Some(true)).count();
    println!("{same} of {} compute the same", outcomes.len());
    assert!(differ.is_empty(), "seeds {differ:?}");
    assert!(same > 450, "{same}");
}

/// What is counted of the outcomes of seeds.
fn ask(seeds: std::ops::Range<u64>) -> (usize, usize, BTreeMap<String, usize>) {
    let (mut verified, mut falsified, mut missing) = (0, 0, BTreeMap::<String, usize>::new());
    let mut broken = Vec::new();
    for seed in seeds.clone() {
        let Ok(outcome) = std::panic::catch_unwind(|| one(seed)) else {
            broken.push(seed);
            continue;
        };
        match outcome {
            Outcome::Undecided => {}
            Outcome::Falsified => falsified += 1,
            Outcome::Verified(_) => verified += 1,
            Outcome::NotWritten(why) => {
                assert!(!matches!(why, NotWritten::Unspoken(_)), "seed {seed}: {why}");
                *missing.entry(why.to_string()).or_default() += 1;
            }
        }
    }
    println!("{seeds:?}: {verified} verified, {falsified} falsified, not written: {missing:#?}");
    assert!(broken.is_empty(), "certificates of the seeds {broken:?} are not accepted");
    (verified, falsified, missing)
}

#[test]
fn verdicts_about_networks_of_every_layer_have_certificates() {
    let (verified, falsified, missing) = ask(0..250);
    let missing: usize = missing.values().sum();
    assert!(verified > 80 && falsified > 10 && missing * 8 < verified, "{verified}, {falsified}, {missing}");
}

/// `GAINS_CERTIFICATE_SEEDS=from..to` asks for others.
#[test]
#[ignore = "as long as one likes"]
fn more_of_them() {
    let range = std::env::var("GAINS_CERTIFICATE_SEEDS").unwrap_or_else(|_| "1000..3000".into());
    let (from, to) = range.split_once("..").unwrap();
    ask(from.parse().unwrap()..to.parse().unwrap());
}
