//! Does it matter for accuracy which solver a network is *trained* with? Standard and adversarial training with controlled and
//! with continuous adaptive steps, under attack (paper, appendix "Comparison CAS and AS").

use super::trained::{Asked, Design, Recipe, Spread, Trained, Variant};
use super::{Entry, Takes};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "as-training",
    about: "networks trained with controlled and with continuous adaptive solvers, under attack",
    paper: "table of CAS and AS, appendix",
    takes: Takes::Trainings,
    open: |given| Ok(Box::new(Trained::new(design(), given)?)),
};

/// What makes a preset one of the continuous solver, which the network then ships with.
const CONTINUOUS: &str = "solver.control=continuous";
const SMALL: [&str; 3] =
    ["images=4000", "network.encoder.channels=[16,16]", "network.dynamics.channels=[16,16]"];

fn design() -> Design {
    let variant = |name, preset, control: Option<&'static str>, paper: &[Spread]| Variant {
        name,
        full: Recipe { preset, changes: control.into_iter().collect() },
        quick: Recipe {
            preset,
            changes: SMALL.into_iter().chain(["batch=128", "phases[0].epochs=5"]).chain(control).collect(),
        },
        paper: paper.to_vec(),
    };
    let (standard, adversarial) = ("mnist-standard", "mnist-adversarial");
    let (plain, attacked) = ("fashion-mnist-standard", "fashion-mnist-adversarial");
    let continuous = Some(CONTINUOUS);
    Design {
        title: "Training with controlled (CAS) and continuous (AS) solvers",
        picture: "as-training",
        radii: &[0.1, 0.15, 0.2],
        quick_radii: &[0.05, 0.1],
        asked: Asked::Attacked,
        variants: vec![
            variant(
                "MNIST standard CAS",
                standard,
                None,
                &[(98.8, 0.4), (23.2, 3.5), (2.5, 1.6), (0.3, 0.2)],
            ),
            variant(
                "MNIST standard AS",
                standard,
                continuous,
                &[(99.2, 0.1), (24.5, 2.0), (1.9, 0.7), (0.0, 0.2)],
            ),
            variant(
                "MNIST adversarial CAS",
                adversarial,
                None,
                &[(99.2, 0.1), (95.4, 0.4), (88.3, 0.6), (59.4, 3.2)],
            ),
            variant(
                "MNIST adversarial AS",
                adversarial,
                continuous,
                &[(99.2, 0.2), (95.9, 0.2), (88.5, 0.6), (54.6, 2.4)],
            ),
            variant("Fashion-MNIST standard CAS", plain, None, &[(88.6, 1.2), (0.1, 0.1), (0.0, 0.0)]),
            variant("Fashion-MNIST standard AS", plain, continuous, &[(90.3, 0.4), (1.3, 1.6), (0.5, 0.7)]),
            variant(
                "Fashion-MNIST adversarial CAS",
                attacked,
                None,
                &[(80.9, 0.7), (70.2, 0.5), (47.1, 3.7)],
            ),
            variant(
                "Fashion-MNIST adversarial AS",
                attacked,
                continuous,
                &[(80.8, 0.5), (70.3, 0.3), (53.6, 3.1)],
            ),
        ],
        shortened: "Shortened: 16 channels, 4000 images, 5 epochs, one seed. \
                    The paper: 32 channels, 60000 images, 100 epochs, three seeds.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::trained::tests::{all_the_same, recipes};
    use super::*;

    #[test]
    fn a_network_that_is_the_same_for_all_variants_gets_the_same_figures() {
        recipes(&design());
        assert_eq!(all_the_same(design()).get("standard"), Some(1.0));
    }
}
