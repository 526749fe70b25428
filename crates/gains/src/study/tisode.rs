//! Steady neural ODEs (TisODE, Yan et al. 2020) against certified ones, under attack (paper, appendix).
//!
//! The paper attacks a network that its authors published, three times as large as the certified one. Here both are
//! trained: the steady one by the preset `mnist-tisode`, which has the regulariser on the paper's own network.

use super::trained::{Asked, Design, Recipe, Trained, Variant};
use super::{Entry, Takes};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "tisode",
    about: "steady neural ODEs against certified and plain ones, under attack",
    paper: "table of TisODE, appendix",
    takes: Takes::Trainings,
    open: |given| Ok(Box::new(Trained::new(design(), given)?)),
};

const SMALL: [&str; 3] =
    ["images=4000", "network.encoder.channels=[16,16]", "network.dynamics.channels=[16,16]"];

fn design() -> Design {
    let with = |more: &[&'static str]| [&SMALL, more].concat();
    let variants = vec![
        Variant {
            name: "TisODE",
            full: Recipe { preset: "mnist-tisode", changes: vec![] },
            quick: Recipe {
                preset: "mnist-tisode",
                changes: with(&[
                    "phases[0].epochs=1",
                    "phases[1].epochs=4",
                    "optimiser.schedule={type='constant'}",
                ]),
            },
            paper: vec![(99.3, 0.0), (93.1, 0.0), (78.6, 0.0), (55.5, 0.0)],
        },
        Variant {
            name: "certified",
            full: Recipe { preset: "mnist-provable-0.22", changes: vec![] },
            quick: Recipe {
                preset: "quick",
                changes: vec![
                    "dataset=mnist",
                    "network.mean=[0.1307]",
                    "network.std=[0.3081]",
                    "images=4000",
                    "phases[0].epochs=12",
                    "phases[1].epochs=4",
                    "phases[0].eps.target=0.1",
                    "phases[1].eps.target=0.1",
                ],
            },
            paper: vec![(91.8, 1.3), (88.5, 1.8), (86.8, 2.1), (84.5, 3.2)],
        },
        Variant {
            name: "standard",
            full: Recipe { preset: "mnist-standard", changes: vec![] },
            quick: Recipe { preset: "mnist-standard", changes: with(&["batch=128", "phases[0].epochs=5"]) },
            paper: vec![(98.8, 0.4), (23.2, 3.5), (2.5, 1.6), (0.3, 0.2)],
        },
    ];
    Design {
        title: "TisODE against certified training, MNIST",
        picture: "tisode",
        radii: &[0.1, 0.15, 0.2],
        quick_radii: &[0.05, 0.1, 0.15],
        asked: Asked::Attacked,
        variants,
        shortened: "Shortened: 16 channels, 4000 images, 5 epochs (certified: 12 of Euler steps and 4, ε_t 0.1), one seed. \
                    The paper: a published TisODE of 141,130 parameters; 150 epochs and ε_t 0.22, three seeds.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::trained::tests::{all_the_same, recipes};
    use super::*;

    #[test]
    fn a_network_that_is_the_same_for_all_variants_gets_the_same_figures() {
        recipes(&design());
        let figures = all_the_same(design());
        assert_eq!(figures.get("standard"), Some(1.0));
        // What withstands a radius withstands the smaller ones, on this image.
        let at = |eps: &str| figures.get(&format!("attacked {eps}")).unwrap();
        assert!(at("0.05") >= at("0.1") && at("0.1") >= at("0.15"));
    }
}
