//! What tests of comparisons of trainings share, and tests of the comparison itself.

use std::sync::Arc;

use clap::Parser;

use super::*;
use crate::bundled;
use crate::cli::{Cli, Command};
use crate::commands::train::setting;

/// A study that is given a network instead of training it, the bundled one for every order, and one image, which
/// that network gets right.
pub fn with_bundled(folder: &Path) -> Given {
    let train = |order: &Order| {
        std::fs::create_dir_all(&order.folder).map_err(|error| Failure::writing(&order.folder, &error))?;
        std::fs::write(order.model(), bundled::MODELS[0].bytes)
            .map_err(|error| Failure::writing(&order.model(), &error))
    };
    let mut given = Given::for_tests();
    given.folder = folder.into();
    given.train = Arc::new(train);
    given.data.samples = "1".parse().ok();
    given
}

/// What a design finds out about the bundled network: the first variant the same as the last.
pub fn all_the_same(design: Design) -> Figures {
    let folder = tempfile::tempdir().unwrap();
    let study = Trained::new(design, &with_bundled(folder.path())).unwrap();
    let cases = study.cases();
    let figures = study.work(0).unwrap();
    assert_eq!(study.work(cases.len() - 1).unwrap(), figures);
    let report = study.report(&Done { cases: &cases, figures: vec![Some(figures.clone()); cases.len()] });
    for table in &report.tables {
        assert_eq!(table.rows.len(), study.design.variants.len());
        assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
    }
    figures
}

/// Every recipe is one that `gains train` takes, and no two variants are the same training.
pub fn recipes(design: &Design) {
    let mut configs = Vec::new();
    for variant in &design.variants {
        let published = 2..=1 + design.radii.len();
        assert!(variant.paper.is_empty() || published.contains(&variant.paper.len()), "{}", variant.name);
        for recipe in [&variant.full, &variant.quick] {
            let changes = recipe.changes.iter().map(|change| (*change).to_string()).collect();
            let preset = recipe.preset;
            let order = Order { preset, changes, seed: 1, folder: "runs".into() };
            let words = std::iter::once("gains".to_string()).chain(order.words());
            let Command::Train(args) = Cli::try_parse_from(words).ok().unwrap().command else {
                panic!("{}", order.command())
            };
            let config =
                setting::change(setting::preset(preset).ok().unwrap(), &args.changes, args.seed, false);
            let config = config.unwrap_or_else(|failure| panic!("{}: {}", variant.name, failure.message));
            assert!(!configs.contains(&config), "{}", variant.name);
            configs.push(config);
        }
    }
}

fn design() -> Design {
    let recipe = || Recipe { preset: "quick", changes: vec!["batch=64"] };
    let variants = vec![Variant {
        name: "Sin(0.1, κ)",
        full: recipe(),
        quick: recipe(),
        paper: vec![(1.0, 0.0), (2.0, 1.0)],
    }];
    Design {
        title: "t",
        picture: "p",
        radii: &[0.1],
        quick_radii: &[0.01],
        asked: Asked::Certified,
        variants,
        shortened: "s",
    }
}

#[test]
fn networks_that_cannot_be_taken_are_named_with_the_command_that_trains_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut given = with_bundled(folder.path());
    given.trained = Some(folder.path().join("nowhere"));
    let refused = |given: &Given| Trained::new(design(), given).err().unwrap();
    assert!(refused(&given).message.contains("there is no folder"));
    given.trained = Some(folder.path().into());
    let failure = refused(&given);
    assert!(failure.message.contains("quick-sin-0.1-κ-seed12345"), "{}", failure.message);
    let own = folder.path().join("quick-sin-0.1-κ-seed12345");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("model.safetensors"), "no model").unwrap();
    assert!(refused(&given).message.contains("model.safetensors"));
}

#[test]
fn what_failed_to_train_is_no_result_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut given = with_bundled(folder.path());
    given.train = Arc::new(|_| Err(Failure::new("no images")));
    assert_eq!(Trained::new(design(), &given).unwrap().work(0), Err("no images".into()));
    given.train = Arc::new(|_| Ok(()));
    assert!(Trained::new(design(), &given).unwrap().work(0).is_err_and(|why| why.contains("interrupted")));
}

#[test]
fn a_given_training_that_broke_down_is_a_case_without_result() {
    let folder = tempfile::tempdir().unwrap();
    let given = Given { trained: Some(folder.path().into()), ..with_bundled(folder.path()) };
    let runs = Trained::new(design(), &Given { trained: None, ..given.clone() }).unwrap();
    let named = runs.orders()[0].folder.file_name().unwrap();
    assert!(Trained::new(design(), &given).is_err_and(|failure| failure.message.contains("no network")));
    std::fs::create_dir(folder.path().join(named)).unwrap();
    let study = Trained::new(design(), &given).unwrap();
    assert!(study.work(0).is_err_and(|why| why.contains("did not finish")));
}

#[test]
fn what_is_set_besides_is_set_in_all_trainings_and_is_part_of_the_question() {
    let given = Given { changes: vec!["batch=32".into()], quick: false, ..Given::for_tests() };
    let study = Trained::new(design(), &given).unwrap();
    assert_eq!(study.orders().len(), 3);
    // The last one counts.
    assert!(study.orders().iter().all(|order| order.changes == ["batch=64", "batch=32"]));
    assert!(study.setting().ends_with("all: batch=32"));
    assert!(!study.is_whole());
}

/// What an image's result is called does not depend on which others are asked about.
#[test]
fn images_go_by_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let asked = |samples: &str| {
        let mut given = with_bundled(folder.path());
        given.data.samples = samples.parse().ok();
        Trained::new(design(), &given)
    };
    let images = |study: &Trained| study.cases().iter().map(|case| case.0[2].1.clone()).collect::<Vec<_>>();
    let (first, further) = (asked("0..2").unwrap(), asked("1..3,7").unwrap());
    assert_eq!(
        (images(&first), images(&further)),
        (vec!["0".into(), "1".into()], vec!["1".into(), "2".into(), "7".into()])
    );
    assert_eq!(first.setting(), further.setting());
    assert_eq!(first.work(1).unwrap(), further.work(0).unwrap());
}

/// Before the network is there nothing is known of it; a run that goes on finds the same.
#[test]
fn a_network_is_the_origin_of_results_as_soon_as_it_is_trained() {
    let folder = tempfile::tempdir().unwrap();
    let given = with_bundled(folder.path());
    let study = Trained::new(design(), &given).unwrap();
    assert_eq!(study.origin(0), None);
    study.work(0).unwrap();
    let origin = study.origin(0).unwrap();
    assert_eq!(origin.run, "quick-sin-0.1-κ-seed12345");
    assert!(origin.network.ends_with(" on fashion-mnist (test)"), "{}", origin.network);
    assert_eq!(Trained::new(design(), &given).unwrap().origin(0), Some(origin));
}

#[test]
fn commands_can_be_copied() {
    let order = Order { preset: "quick", changes: vec!["a[0]='b'".into()], seed: 3, folder: "x y".into() };
    assert_eq!(order.command(), "gains train --preset quick --seed 3 --set 'a[0]='\\''b'\\''' --out 'x y'");
    assert_eq!(slug("κ [2,4,8], fixed"), "κ-2-4-8-fixed");
}
