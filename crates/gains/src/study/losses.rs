//! What losses and beginnings of certified training that are not the paper's bring.

use super::trained::{Asked, Design, Recipe, Trained, Variant};
use super::{Entry, Takes};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "losses",
    about: "training with SABR, MTL-, CC- and EXP-IBP, initial weights for boxes, and regularisers of their way",
    paper: "–",
    takes: Takes::Trainings,
    open: |given| Ok(Box::new(Trained::new(design(), given)?)),
};

/// A short attack, for losses that attack.
const ATTACK: &str = "phases[1].attack={steps=1,fraction=1.25,random_start=true}";
/// What makes the preset `quick` one of minutes.
const QUICKLY: [&str; 3] = ["images=4000", "phases[0].epochs=8", "phases[1].epochs=4"];

fn design() -> Design {
    let variant = |name, changes: &[&'static str]| Variant {
        name,
        full: Recipe { preset: "fashion-mnist-provable-0.16-best", changes: changes.to_vec() },
        quick: Recipe { preset: "quick", changes: [&QUICKLY, changes].concat() },
        paper: Vec::new(),
    };
    let loss = |name, objective| variant(name, &[objective, ATTACK]);
    let boxes = |name, changes: &[&'static str]| {
        variant(name, &[&["phases[1].objective={type='interval'}"], changes].concat())
    };
    Design {
        title: "Losses and beginnings of certified training",
        picture: "losses",
        radii: &[0.1, 0.15],
        quick_radii: &[0.02, 0.05],
        asked: Asked::Certified,
        variants: vec![
            boxes("interval loss", &[]),
            loss("SABR, λ 0.4", "phases[1].objective={type='sabr',part=0.4}"),
            loss("MTL-IBP, α 0.2", "phases[1].objective={type='mtl_ibp',alpha=0.2}"),
            loss("CC-IBP, α 0.2", "phases[1].objective={type='cc_ibp',alpha=0.2}"),
            loss("EXP-IBP, α 0.2", "phases[1].objective={type='exp_ibp',alpha=0.2}"),
            boxes("initial weights for boxes", &["initial=interval"]),
            boxes(
                "tightness and balance",
                &[
                    "phases[0].loss.tightness=0.5",
                    "phases[0].loss.balance=0.5",
                    "phases[1].loss.tightness=0.5",
                    "phases[1].loss.balance=0.5",
                ],
            ),
            boxes(
                "both",
                &[
                    "initial=interval",
                    "phases[0].loss.tightness=0.5",
                    "phases[0].loss.balance=0.5",
                    "phases[1].loss.tightness=0.5",
                    "phases[1].loss.balance=0.5",
                ],
            ),
            boxes("few open decisions", &["phases[1].loss.decisions=0.02"]),
        ],
        shortened: "Shortened: 16 channels, 4000 images, 8 epochs of Euler steps and 4 more, ε_t 0.05, one seed.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::trained::tests::{all_the_same, recipes};
    use super::*;

    #[test]
    fn a_network_that_is_the_same_for_all_variants_gets_the_same_figures() {
        recipes(&design());
        assert_eq!(all_the_same(design()).get("tight 0.02"), Some(1.0));
    }
}
