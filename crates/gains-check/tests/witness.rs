//! Witnesses: accepted where the property is certainly broken, refused everywhere else.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod support;

use gains_check::automaton::Action;
use gains_check::fault::Deadline;
use gains_check::interval::Interval;
use gains_check::witness::{run, solve};
use gains_check::{Holds, Model, check};
use support::{Item, small_cases};

/// Turns a proof into a witness at the lower corner of its region, with a row that is missed by `margin` there. `None` if it
/// is not clear what the solver does there.
fn witness(model: &Model, proof: &[u8], margin: f64) -> Option<Item> {
    let mut item = Item::read(proof);
    let corner = item.at("region").at("boxes").list()[0].list()[0].numbers().clone();
    let mut actions = Vec::new();
    let point = corner.iter().map(|&x| Interval::point(x)).collect();
    let outputs = run(&model.network, vec![point], Deadline::default(), &mut |ode, state| {
        let (end, moves) = solve(ode, state, 1000, Deadline::default())?;
        let number = |action: Action| match action {
            Action::Reject => 0,
            Action::Keep => 1,
            Action::Increase => 2,
        };
        actions.push(Item::Array(moves.iter().map(|made| Item::Integer(number(made.action))).collect()));
        Ok(end)
    });
    let outputs: Vec<f64> = outputs.ok()?.iter().map(|y| y.middle()).collect();
    let mut coefficients = vec![0.0; outputs.len()];
    coefficients[0] = 1.0;
    let constant = Item::Float(-outputs[0] - margin);
    let row = Item::Map(vec![
        ("a".into(), Item::Numbers(8, coefficients)),
        ("c".into(), Item::Array(vec![constant.clone(), constant])),
        ("zero".into(), Item::Bool(false)),
    ]);
    *item.at("property") =
        Item::Map(vec![("rows".into(), Item::Array(vec![row])), ("condition".into(), Item::Integer(0))]);
    *item.at("claim") = Item::Text("falsified".into());
    let Item::Map(entries) = &mut item else { panic!("not a map") };
    entries.retain(|(key, _)| key != "proof");
    entries.push((
        "witness".into(),
        Item::Map(vec![
            ("inputs".into(), Item::Array(vec![Item::Numbers(8, corner)])),
            ("actions".into(), Item::Array(actions)),
            ("outputs".into(), Item::Numbers(8, outputs)),
        ]),
    ));
    Some(item)
}

/// All witnesses that can be made of proofs without balls, whose corners are inside.
fn witnesses(margin: f64) -> Vec<(Model, Item)> {
    let cases = small_cases().into_iter().filter(|case| case.holds);
    let models = cases.map(|case| (Model::read(&case.model).unwrap(), case.certificate));
    let all = models.filter_map(|(model, proof)| witness(&model, &proof, margin).map(|item| (model, item)));
    let all: Vec<_> = all.filter(|(_, item)| item.clone().at("region").find("ball").is_none()).collect();
    assert!(all.len() > 10);
    all
}

#[test]
fn a_row_that_is_missed_is_a_witness() {
    for (model, item) in witnesses(1e-9) {
        assert!(matches!(check(&model, &item.write()), Ok(Holds::Falsified(_))));
    }
}

#[test]
fn a_row_that_holds_or_may_hold_is_none() {
    for margin in [-1e-9, -1.0, 0.0] {
        for (model, item) in witnesses(margin) {
            assert!(check(&model, &item.write()).is_err(), "{margin}");
        }
    }
}

#[test]
fn other_points_and_actions_are_refused() {
    for (model, item) in witnesses(1e-6) {
        let refused = |change: &dyn Fn(&mut Item)| {
            let mut item = item.clone();
            change(&mut item);
            assert!(check(&model, &item.write()).is_err());
        };
        refused(&|item| item.at("witness").at("inputs").list()[0].numbers()[0] -= 1e-6);
        refused(&|item| {
            item.at("witness").at("actions").list()[0].list().pop();
        });
        refused(&|item| item.at("witness").at("actions").list()[0].list().push(Item::Integer(1)));
        refused(&|item| {
            let first = &mut item.at("witness").at("actions").list()[0].list()[0];
            *first = Item::Integer(if *first == Item::Integer(0) { 2 } else { 0 });
        });
        refused(&|item| item.at("witness").at("actions").list().clear());
    }
}
