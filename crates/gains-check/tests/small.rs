//! Small proofs, true and false ones, on which an exact checker has decided.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod support;

use gains_check::{Model, check};
use support::{Item, small_cases};

#[test]
fn verdicts_are_those_of_the_exact_checker() {
    let cases = small_cases();
    assert!(cases.iter().filter(|case| case.holds).count() > 30);
    assert!(cases.iter().filter(|case| !case.holds).count() > 30);
    for case in cases {
        let model = Model::read(&case.model).unwrap();
        let outcome = check(&model, &case.certificate);
        assert_eq!(outcome.is_ok(), case.holds, "{}: {outcome:?}", case.name);
    }
}

#[test]
fn small_proofs_have_entries_of_every_kind() {
    let mut missing = vec![
        "boxes",
        "graphs",
        "cuts",
        "rows",
        "split",
        "multipliers",
        "stops",
        "shares",
        "start",
        "slopes",
        "ball",
        "least",
        "any",
        "all",
        "input",
        "ode",
    ];
    for case in small_cases().iter().filter(|case| case.holds) {
        Item::read(&case.certificate).walk(&mut vec![], &mut |_, item| {
            if let Item::Map(entries) = item {
                let empty = |item: &Item| matches!(item, Item::Array(items) if items.is_empty());
                missing.retain(|key| !entries.iter().any(|(other, item)| other == key && !empty(item)));
            }
        });
    }
    assert!(missing.is_empty(), "no proof has {missing:?}");
}

#[test]
fn certificates_written_again_are_the_same() {
    for case in small_cases().iter().take(20) {
        assert_eq!(Item::read(&case.certificate).write(), case.certificate, "{}", case.name);
    }
}
