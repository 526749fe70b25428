//! Proofs by affine forms: accepted as they were written, refused where anything is claimed that does not hold.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod support;

use gains_check::fault::Fault;
use gains_check::{Model, check};
use support::{Case, Item, Step, forms_cases};

fn proofs() -> Vec<(Case, Model)> {
    let cases = forms_cases().into_iter();
    cases.map(|case| (Model::read(&case.model).unwrap(), case)).map(|(model, case)| (case, model)).collect()
}

/// All paths below `forms` that end in this way: keys by name, indices as `#`.
fn paths(item: &Item, end: &[&str]) -> Vec<Vec<Step>> {
    let mut found = Vec::new();
    item.walk(&mut vec![], &mut |path, _| {
        let fits = path.len() >= end.len()
            && path[path.len() - end.len()..].iter().zip(end).all(|(step, end)| match step {
                Step::Key(key) => key == end,
                Step::Index(i) => *end == "#" || *end == i.to_string(),
            });
        if fits {
            found.push(path.to_vec());
        }
    });
    found
}

/// What the checker says of every change of this kind, one at a time: how many are refused, and how many there are.
fn refusals(end: &[&str], change: impl Fn(&mut Item) -> bool) -> (usize, usize) {
    let (mut refused, mut all) = (0, 0);
    for (case, model) in proofs() {
        let item = Item::read(&case.certificate);
        for path in paths(&item, end) {
            let mut item = item.clone();
            if change(item.follow(&path)) {
                all += 1;
                refused += usize::from(check(&model, &item.write()).is_err());
            }
        }
    }
    (refused, all)
}

#[test]
fn proofs_by_forms_are_accepted_and_have_entries_of_every_kind() {
    let mut missing = vec!["changes", "weights", "joins"];
    let mut graphs = 0;
    for (case, model) in proofs() {
        let outcome = check(&model, &case.certificate);
        assert!(outcome.is_ok(), "{}: {outcome:?}", case.name);
        let mut item = Item::read(&case.certificate);
        missing.retain(|key| paths(&item, &[key]).is_empty());
        graphs = graphs.max(item.at("proof").at("forms").list().len());
    }
    assert!(missing.is_empty() && graphs > 2, "{missing:?}, {graphs}");
}

#[test]
fn dropped_edges_are_missed() {
    let (refused, all) = refusals(&["out"], |out| out.list().pop().is_some());
    assert!(refused == all && all > 100, "{refused} of {all}");
    let (refused, all) = refusals(&["out"], |out| out.list().len() > 1 && (out.list().remove(0), true).1);
    assert!(refused == all && all > 10, "{refused} of {all}");
}

#[test]
fn wrong_places_actions_and_targets_are_refused() {
    let integer = |by: i64| {
        move |item: &mut Item| {
            let Item::Integer(number) = item else { return false };
            *number += by;
            true
        }
    };
    for (end, by) in [(["out", "#", "0"], 1), (["out", "#", "1"], 1), (["out", "#", "1"], -1)] {
        let (refused, all) = refusals(&end, integer(by));
        assert!(refused == all && all > 50, "{end:?} {by}: {refused} of {all}");
    }
    for place in ["0", "1", "2", "3", "4", "5"] {
        let (refused, all) = refusals(&["at", place], integer(1));
        assert_eq!(refused, all, "place {place}");
    }
    let (refused, all) = refusals(&["forms", "#", "ode"], integer(1));
    assert!(refused == all && all > 10);
}

#[test]
fn errors_that_are_too_narrow_are_refused() {
    for (end, by) in [("0", 1.5), ("1", 0.5)] {
        let (refused, all) = refusals(&["error", end], |item| {
            let Item::Float(x) = item else { return false };
            *x *= by;
            // Less than that is rounding, of which this program loses less.
            *x > 1e-6
        });
        // Some ends are shown with more room than others.
        assert!(refused * 20 >= all * 19 && all > 30, "{end}: {refused} of {all}");
    }
    let (refused, all) = refusals(&["error"], |item| {
        let some = *item != Item::Null;
        *item = if some { Item::Null } else { Item::Array(vec![Item::Float(0.0), Item::Float(1e9)]) };
        true
    });
    assert!(refused == all && all > 50, "{refused} of {all}");
}

#[test]
fn weights_beyond_one_are_unreadable_and_others_show_less() {
    for weight in [1.0 + 1e-6, -2.0] {
        let (refused, all) = refusals(&["weights", "#"], |item| {
            let Item::Numbers(width, weights) = item else { return false };
            *width = 8;
            weights[0] = weight;
            true
        });
        assert!(refused == all && all > 10, "{refused} of {all}");
    }
    let (refused, all) = refusals(&["weights", "#"], |item| {
        let Item::Numbers(_, weights) = item else { return false };
        weights.iter_mut().for_each(|w| *w = -*w);
        true
    });
    assert!(refused * 4 > all && all > 10, "{refused} of {all}");
    let (refused, all) = refusals(&["weights", "#"], |item| (std::mem::replace(item, Item::Null), true).1);
    assert!(refused * 4 > all, "{refused} of {all}");
    let (refused, all) = refusals(&["weights", "#"], |item| match item {
        Item::Numbers(_, weights) => weights.pop().is_some(),
        _ => false,
    });
    assert!(refused == all, "{refused} of {all}");
}

/// Which entries pass as changes is a choice: another one is as true, but shows something else.
#[test]
fn other_changes_show_something_else() {
    let flip = |item: &mut Item| {
        let Item::Numbers(1, entries) = item else { return false };
        entries.iter_mut().for_each(|flag| *flag = 1.0 - *flag);
        true
    };
    let (refused, all) = refusals(&["changes", "#", "2"], flip);
    assert!(refused > 5 && all > 50, "{refused} of {all}");
    let (refused, all) = refusals(&["changes"], |item| (item.list().clear(), true).1);
    assert!(refused > 5 && all > 20, "{refused} of {all}");
    for (at, number) in [("0", 99), ("1", 0), ("1", 99)] {
        let (refused, all) =
            refusals(&["changes", "#", at], |item| (std::mem::replace(item, Item::Integer(number)), true).1);
        assert!(refused == all, "{at} {number}: {refused} of {all}");
    }
    // Nothing is known near the states at the start.
    let (mut refused, mut all) = (0, 0);
    for (case, model) in proofs() {
        let mut item = Item::read(&case.certificate);
        let Some(graph) = item.at("proof").at("forms").list().first_mut() else { continue };
        let Item::Map(vertex) = &mut graph.at("vertices").list()[0] else { panic!("no map") };
        let Some((_, changes)) = vertex.iter_mut().find(|(key, _)| key == "changes") else { continue };
        *changes.list()[0].list()[0].follow(&[]) = Item::Integer(0);
        all += 1;
        refused += usize::from(check(&model, &item.write()).is_err());
    }
    assert!(refused == all && all > 2, "{refused} of {all}");
}

#[test]
fn sets_that_meet_have_to_be_joined() {
    let (refused, all) = refusals(&["joins"], |joins| joins.list().pop().is_some());
    assert!(refused == all && all > 0, "{refused} of {all}");
    let (refused, all) = refusals(&["joins"], |joins| {
        let last = joins.list()[0].clone();
        (joins.list().push(last), true).1
    });
    assert!(refused == all, "{refused} of {all}");
    for wrong in [0, 7, -1] {
        let (refused, all) =
            refusals(&["joins", "#", "1"], |item| (std::mem::replace(item, Item::Integer(wrong)), true).1);
        assert!(refused == all, "{wrong}: {refused} of {all}");
    }
}

#[test]
fn graphs_and_vertices_that_are_missing_or_too_many_are_refused() {
    for key in ["forms", "vertices"] {
        let (refused, all) = refusals(&[key], |list| list.list().pop().is_some());
        assert!(refused == all && all > 10, "{key}: {refused} of {all}");
        let (refused, all) = refusals(&[key], |list| {
            let last = list.list().last().cloned();
            (list.list().extend(last), !list.list().is_empty()).1
        });
        assert!(refused == all && all > 10, "{key}: {refused} of {all}");
    }
}

#[test]
fn wider_regions_and_stronger_properties_are_refused() {
    for (end, by) in [(["boxes", "0", "0"], -0.5), (["boxes", "0", "1"], 0.5)] {
        let (refused, all) = refusals(&end, |item| {
            item.numbers()[0] += by;
            true
        });
        assert!(refused * 3 >= all * 2 && all > 10, "{end:?}: {refused} of {all}");
    }
    let (refused, all) = refusals(&["c"], |item| {
        for end in item.list() {
            let Item::Float(x) = end else { panic!("no number") };
            *x -= 10.0;
        }
        true
    });
    assert!(refused * 10 >= all * 5 && all > 20, "{refused} of {all}");
    // Every constant less by all that is left at a point, and a little more.
    let (refused, all) = refusals(&["rows", "#", "a"], |item| {
        item.numbers().iter_mut().for_each(|a| *a *= 1e6);
        true
    });
    assert!(refused * 4 >= all, "{refused} of {all}");
}

#[test]
fn numbers_that_are_none_are_refused_wherever_they_stand() {
    let mut all = 0;
    for (case, model) in proofs().iter().step_by(2) {
        let item = Item::read(&case.certificate);
        let mut places = Vec::new();
        item.walk(&mut vec![], &mut |path, item| {
            let about = path.iter().any(|step| *step == Step::Key("about".into()));
            let number = matches!(item, Item::Float(_));
            let numbers = matches!(item, Item::Numbers(width, list) if *width > 2 && !list.is_empty());
            if (number || numbers) && !about {
                places.push(path.to_vec());
            }
        });
        for path in places.iter().step_by(2) {
            for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let mut item = item.clone();
                match item.follow(path) {
                    Item::Float(x) => *x = wrong,
                    Item::Numbers(_, numbers) => numbers[0] = wrong,
                    _ => {}
                }
                all += 1;
                assert!(check(model, &item.write()).is_err(), "{}: {wrong} at {path:?}", case.name);
            }
        }
    }
    assert!(all > 200, "{all}");
}

#[test]
fn unknown_keys_are_unreadable() {
    for end in [&["forms", "#"][..], &["vertices", "#"]] {
        for (case, model) in proofs().iter().take(4) {
            let mut item = Item::read(&case.certificate);
            let Some(path) = paths(&item, end).into_iter().next() else { continue };
            let Item::Map(entries) = item.follow(&path) else { panic!("no map") };
            entries.push(("state".into(), Item::Null));
            assert!(matches!(check(model, &item.write()), Err(Fault::Malformed(_))), "{}", case.name);
        }
    }
}

/// A hundred thousand vertices that nothing leads to, as many sets that meet, inputs beyond all bounds: answered.
#[test]
fn hostile_graphs_are_answered() {
    let (case, model) = proofs().into_iter().find(|(case, _)| case.name.starts_with("58a01d8d")).unwrap();
    let mut item = Item::read(&case.certificate);
    let vertices = item.at("proof").at("forms").list()[0].at("vertices").list();
    let last = vertices.last().unwrap().clone();
    vertices.extend(std::iter::repeat_n(last, 99_000));
    assert!(check(&model, &item.write()).is_err());
    let mut item = Item::read(&case.certificate);
    let pair = Item::Array(vec![Item::Integer(0), Item::Integer(1)]);
    let path = paths(&item, &["joins"]).remove(0);
    *item.follow(&path) = Item::Array(vec![pair; 100_000]);
    assert!(check(&model, &item.write()).is_err());
    let mut item = Item::read(&case.certificate);
    for end in ["0", "1"] {
        let path = paths(&item, &["boxes", "0", end]).remove(0);
        let Item::Numbers(width, numbers) = item.follow(&path) else { panic!("no numbers") };
        *width = 8;
        numbers.iter_mut().for_each(|x| *x = if end == "0" { -1e308 } else { 1e308 });
    }
    assert!(check(&model, &item.write()).is_err());
}
