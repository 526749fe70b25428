//! Every kind of entry changed: what is claimed beyond what holds is refused, by however little.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod support;

use gains_check::fault::Fault;
use gains_check::{Model, check};
use sha2::{Digest, Sha256};
use support::{Case, Item, Step, kinds_cases, small_cases};

/// Proofs that hold, with their models.
fn proofs() -> Vec<(Case, Model)> {
    let cases = small_cases().into_iter().chain(kinds_cases()).filter(|case| case.holds);
    cases.map(|case| (Model::read(&case.model).unwrap(), case)).map(|(model, case)| (case, model)).collect()
}

/// All paths in an item that end in this way: keys by name, indices as `#`.
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

/// The number at a path: of its own, or entry `entry` of an array.
fn number<'a>(item: &'a mut Item, path: &[Step], entry: usize) -> &'a mut f64 {
    match item.follow(path) {
        Item::Float(x) => x,
        Item::Numbers(_, numbers) => &mut numbers[entry],
        other => panic!("{other:?} is no number"),
    }
}

/// Moves one claimed number towards what cannot be shown until it is refused, then back to the last float32 number that
/// is accepted. Returns by how much the next one is refused; `None` if nothing is refused.
fn first_refused(model: &Model, item: &Item, path: &[Step], entry: usize, up: bool) -> Option<(f64, f64)> {
    let mut item = item.clone();
    let start = *number(&mut item, path, entry);
    let mut outcome = |x: f64| {
        *number(&mut item, path, entry) = x;
        check(model, &item.write())
    };
    let far = start + (if up { 1.0 } else { -1.0 }) * (0.01 + 0.01 * start.abs());
    outcome(far).err()?;
    let (mut good, mut bad) = (start, far);
    for _ in 0..60 {
        let middle = 0.5 * good + 0.5 * bad;
        let rounded = if matches!(item_width(path), 4) { f64::from(middle as f32) } else { middle };
        if rounded == good || rounded == bad {
            break;
        }
        if outcome(rounded).is_ok() { good = rounded } else { bad = rounded }
    }
    match outcome(bad) {
        Err(Fault::Refused { amount, .. }) => Some((amount?, (bad - good).abs())),
        _ => None,
    }
}

/// Boxes are written in float32, single numbers in float64.
fn item_width(path: &[Step]) -> usize {
    if path.iter().any(|step| matches!(step, Step::Key(key) if key == "error" || key == "bound")) {
        8
    } else {
        4
    }
}

#[test]
fn one_step_beyond_what_holds_is_refused() {
    // Where the number stands, and whether a larger one says more.
    let kinds: [(&[&str], bool); 8] = [
        (&["state", "0"], true),
        (&["state", "1"], false),
        (&["end", "0"], true),
        (&["end", "1"], false),
        (&["error", "0"], true),
        (&["error", "1"], false),
        (&["lower"], true),
        (&["upper"], false),
    ];
    let mut refused = [0; 8];
    for (case, model) in proofs().iter().step_by(3) {
        let mut item = Item::read(&case.certificate);
        for (kind, &(end, up)) in kinds.iter().enumerate() {
            for path in paths(&item.clone(), end).iter().take(2) {
                let place = item.follow(path);
                if matches!(place, Item::Numbers(_, numbers) if numbers.is_empty()) {
                    continue;
                }
                if let Some((amount, step)) = first_refused(model, &item, path, 0, up) {
                    refused[kind] += 1;
                    assert!(amount > 0.0, "{}: {end:?} refused by {amount}", case.name);
                    let size = number(&mut item, path, 0).abs();
                    let last = 1e-6 * (1.0 + size) + 4.0 * step;
                    assert!(amount < last, "{}: {end:?}: {amount} where {last} was expected", case.name);
                }
            }
        }
    }
    assert!(refused.iter().all(|count| *count >= 3), "{refused:?}");
}

#[test]
fn bounds_that_are_not_reached_are_refused() {
    let (mut all, mut beyond, mut zero) = (0, 0, 0);
    for (case, model) in proofs() {
        let item = Item::read(&case.certificate);
        for path in paths(&item, &["bound"]) {
            all += 1;
            let mut item = item.clone();
            let bound = number(&mut item, &path, 0);
            // Proofs of `gains` claim a hundredth less than they show.
            *bound += 1e-6 + 0.02 * bound.abs();
            beyond += usize::from(check(&model, &item.write()).is_err());
            *number(&mut item, &path, 0) = 0.0;
            zero += usize::from(check(&model, &item.write()).is_err());
        }
    }
    assert!(all > 25 && zero == all && beyond * 20 >= all * 19, "{beyond} and {zero} of {all}");
}

/// Applies a change at all paths of a kind, one at a time; how many of how many are refused.
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
fn dropped_edges_are_missed() {
    let (refused, all) = refusals(&["out"], |out| out.list().pop().is_some());
    assert_eq!(refused, all);
    assert!(all > 100, "{all}");
    let (refused, all) = refusals(&["out"], |out| out.list().len() > 1 && (out.list().remove(0), true).1);
    assert_eq!(refused, all);
    assert!(all > 10, "{all}");
}

#[test]
fn removed_leaves_are_missed() {
    let (refused, all) = refusals(&["parts"], |parts| parts.list().pop().is_some());
    assert_eq!(refused, all);
    assert!(all > 5, "{all}");
}

#[test]
fn wrong_targets_places_and_actions_are_refused() {
    let integer = |by: i64| {
        move |item: &mut Item| {
            let Item::Integer(number) = item else { return false };
            *number += by;
            true
        }
    };
    for (end, by) in [(["out", "#", "0"], 1), (["out", "#", "1"], 1), (["out", "#", "1"], -1)] {
        let (refused, all) = refusals(&end, integer(by));
        assert_eq!(refused, all, "{end:?} {by}");
        assert!(all > 50);
    }
    for place in ["0", "1", "2", "3", "4", "5"] {
        let (refused, all) = refusals(&["at", place], integer(1));
        assert_eq!(refused, all, "place {place}");
    }
}

#[test]
fn wider_regions_and_stronger_properties_are_refused() {
    let shift = |by: f64| {
        move |item: &mut Item| {
            item.numbers()[0] += by;
            true
        }
    };
    for (end, by) in [(["boxes", "0", "0"], -0.5), (["boxes", "0", "1"], 0.5)] {
        let (refused, all) = refusals(&end, shift(by));
        // The others have balls, which are as small as before.
        assert!(refused * 5 >= all * 4 && all > 20, "{end:?}: {refused} of {all}");
    }
    let (refused, all) = refusals(&["c"], |item| {
        for end in item.list() {
            let Item::Float(x) = end else { panic!("no number") };
            *x -= 10.0;
        }
        true
    });
    assert!(refused * 10 >= all * 5 && all > 20, "{refused} of {all}");
    let (refused, all) = refusals(&["errors", "limit"], |item| {
        let Item::Float(limit) = item else { panic!("no number") };
        *limit *= 0.5;
        true
    });
    assert!(refused == all && all > 1, "{refused} of {all}");
}

#[test]
fn a_weight_of_the_model_changed_is_noticed() {
    let (mut refused, mut all) = (0, 0);
    for (case, model) in proofs() {
        let mut bytes = case.model.clone();
        let at = bytes.len() - 2;
        bytes[at] ^= 0x40;
        let Ok(other) = Model::read(&bytes) else { continue };
        assert!(check(&other, &case.certificate).is_err(), "the hash must differ");
        // With the hash put right as well, the proof itself has to fail, unless the last bias does not matter.
        let mut item = Item::read(&case.certificate);
        *item.at("model") = Item::Bytes(Sha256::digest(&bytes).to_vec());
        all += 1;
        refused += usize::from(check(&other, &item.write()).is_err());
        drop(model);
    }
    assert!(refused * 4 >= all && all > 10, "{refused} of {all}");
}

#[test]
fn negative_multipliers_are_refused() {
    let negative = |item: &mut Item| {
        let Item::Float(x) = item else { return false };
        *x = -1.0 - x.abs();
        true
    };
    for key in ["multipliers", "cuts"] {
        let (refused, all) = refusals(&[key, "#", "1"], negative);
        assert!(refused == all && all > 3, "{key}: {refused} of {all}");
    }
}

#[test]
fn proofs_of_layers_of_every_kind_are_accepted() {
    let mut lines = 0;
    for case in kinds_cases() {
        let model = Model::read(&case.model).unwrap();
        assert!(check(&model, &case.certificate).is_ok(), "{}", case.name);
        lines += paths(&Item::read(&case.certificate), &["lines", "#"]).len();
    }
    assert!(lines > 100, "{lines}");
}

/// Slopes beside functions made of pieces are choices: other ones are as true, but show less.
#[test]
fn tilted_lines_show_less() {
    let tilt = |by: f64| {
        move |item: &mut Item| {
            let Item::Array(items) = item else { return false };
            let mut tilted = false;
            for item in items.iter_mut() {
                let Item::Numbers(width, slopes) = item else { continue };
                *width = 8;
                slopes.iter_mut().for_each(|slope| *slope += by);
                tilted = true;
            }
            tilted
        }
    };
    for by in [0.5, -0.5, 1e6, -1e300] {
        let (refused, all) = refusals(&["lines", "#"], tilt(by));
        assert!(refused > 5 && refused < all, "{by}: {refused} of {all}");
    }
    let short = |item: &mut Item| {
        let Item::Array(items) = item else { return false };
        let Some(Item::Numbers(_, slopes)) = items.last_mut() else { return false };
        slopes.pop().is_some()
    };
    let (refused, all) = refusals(&["lines", "#"], short);
    assert!(refused == all && all > 100, "{refused} of {all}");
}

/// Everything that is not a number, everywhere.
#[test]
fn numbers_that_are_none_are_refused_wherever_they_stand() {
    let (mut all, mut infinite) = (0, 0);
    for (case, model) in proofs().iter().step_by(2) {
        let item = Item::read(&case.certificate);
        let mut places = Vec::new();
        item.walk(&mut vec![], &mut |path, item| {
            let about = path.iter().any(|step| *step == Step::Key("about".into()));
            let numbers = matches!(item, Item::Float(_))
                || matches!(item, Item::Numbers(width, list) if *width > 2 && !list.is_empty());
            if numbers && !about {
                places.push(path.to_vec());
            }
        });
        for path in places.iter().step_by(3) {
            for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let mut item = item.clone();
                *number(&mut item, path, 0) = wrong;
                let outcome = check(model, &item.write());
                // A claimed end may be infinite where nothing is claimed of it.
                let claim = matches!(path.last(), Some(Step::Key(key)) if key == "lower" || key == "upper");
                if claim && !wrong.is_nan() {
                    infinite += usize::from(outcome.is_ok());
                    continue;
                }
                all += 1;
                assert!(outcome.is_err(), "{}: {wrong} at {path:?}", case.name);
            }
        }
    }
    assert!(all > 500, "{all} and {infinite}");
}

/// What stands there twice, and rows that are not those of the property.
#[test]
fn doubled_entries_and_rows_of_others_are_refused() {
    let twice = |item: &mut Item| {
        let list = item.list();
        let Some(last) = list.last().cloned() else { return false };
        list.push(last);
        true
    };
    for key in ["boxes", "graphs"] {
        let (refused, all) = refusals(&["proof", key], twice);
        assert!(refused == all && all > 5, "{key}: {refused} of {all}");
    }
    // A row that is shown counts for itself only.
    let (mut refused, mut all) = (0, 0);
    for (case, model) in proofs() {
        let mut item = Item::read(&case.certificate);
        let rows = item.at("property").find("rows").map_or(1, |rows| rows.list().len());
        let Some(shown) = item.at("proof").find("rows") else { continue };
        let only = shown.list().len() == rows && rows > 1;
        if let Some(Item::Map(_)) = shown.list().first().filter(|_| only) {
            *shown.list()[0].at("row") = Item::Integer(1);
            all += 1;
            refused += usize::from(check(&model, &item.write()).is_err());
        }
    }
    assert!(refused * 10 >= all * 8 && all > 3, "{refused} of {all}");
    // The opposite of every row.
    let opposite = |item: &mut Item| {
        item.numbers().iter_mut().for_each(|a| *a = -*a);
        true
    };
    let (refused, all) = refusals(&["rows", "#", "a"], opposite);
    // The others ask that no output moves far, from both sides.
    assert!(refused * 3 >= all && all > 50, "{refused} of {all}");
}

#[test]
fn conditions_that_ask_for_more_are_refused() {
    let more = |item: &mut Item| {
        let Item::Map(entries) = item else { return false };
        let Some(any) = entries.iter_mut().find(|(key, _)| key == "any") else { return false };
        any.0 = "all".into();
        true
    };
    let (refused, all) = refusals(&["condition"], more);
    // The others show all of their rows.
    assert!(all > 10 && refused >= 3, "{refused} of {all}");
}

/// A vertex that nothing leads to changes nothing; one at the place of another is as good as that one, if it holds as much.
#[test]
fn doubled_vertices_hold_what_they_hold() {
    let (refused, all) = refusals(&["vertices"], |vertices| {
        let list = vertices.list();
        let last = list.last().cloned();
        list.extend(last);
        true
    });
    assert!(refused == 0 && all > 30, "{refused} of {all}");
    // The same with a smaller state, to which the edges lead that led to the other.
    let (refused, all) = refusals(&["vertices"], |vertices| {
        let list = vertices.list();
        let (Some(mut last), count) = (list.last().cloned(), list.len()) else { return false };
        let (lower, upper) = last.at("state").list().split_at_mut(1);
        let (lower, upper) = (lower[0].numbers(), upper[0].numbers());
        let Some(entry) = (0..lower.len()).find(|i| upper[*i] - lower[*i] > 1e-3) else { return false };
        upper[entry] = lower[entry];
        list.push(last);
        let mut led = false;
        for vertex in &mut list[..count] {
            for edge in vertex.at("out").list() {
                let target = &mut edge.list()[1];
                if *target == Item::Integer(count as i64 - 1) {
                    *target = Item::Integer(count as i64);
                    led = true;
                }
            }
        }
        led
    });
    assert!(refused == all && all > 10, "{refused} of {all}");
}

#[test]
fn unknown_keys_kinds_and_arithmetics_are_unreadable() {
    let (case, model) = proofs().swap_remove(0);
    let changed = |change: &dyn Fn(&mut Item)| {
        let mut item = Item::read(&case.certificate);
        change(&mut item);
        check(&model, &item.write())
    };
    let malformed = |change: &dyn Fn(&mut Item)| assert!(matches!(changed(change), Err(Fault::Malformed(_))));
    malformed(&|item| *item.at("arithmetic") = Item::Text("float32".into()));
    malformed(&|item| *item.at("version") = Item::Integer(2));
    malformed(&|item| *item.at("format") = Item::Text("other".into()));
    malformed(&|item| *item.at("claim") = Item::Text("falsified".into()));
    malformed(&|item| {
        let Item::Map(entries) = item.at("proof") else { panic!("not a map") };
        entries.push(("more".into(), Item::Null));
    });
    assert!(changed(&|_| {}).is_ok());
}
