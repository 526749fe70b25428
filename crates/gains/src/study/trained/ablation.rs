//! What the paper's ablations of training have in common: its Fashion-MNIST network for ε_t 0.16, one thing changed.

use super::{Asked, Design, Recipe, Spread, Variant};

/// A variant: its name, what is changed at full size and in a quick study, the paper's figures.
pub type Ablated = (&'static str, Vec<&'static str>, Vec<&'static str>, [Spread; 3]);

/// What makes the preset `quick` one of minutes.
const QUICKLY: [&str; 3] = ["images=4000", "phases[0].epochs=8", "phases[1].epochs=4"];

/// An ablation of the paper.
pub fn ablation(title: &'static str, picture: &'static str, variants: Vec<Ablated>) -> Design {
    let variant = |(name, full, quick, paper): Ablated| Variant {
        name,
        full: Recipe { preset: "fashion-mnist-provable-0.16", changes: full },
        quick: Recipe { preset: "quick", changes: [&QUICKLY[..], &quick].concat() },
        paper: paper.to_vec(),
    };
    Design {
        title,
        picture,
        radii: &[0.1, 0.15],
        quick_radii: &[0.02, 0.05],
        asked: Asked::Certified,
        variants: variants.into_iter().map(variant).collect(),
        shortened: "Shortened: 16 channels, 4000 images, 8 epochs of Euler steps and 4 more (κ = 2 where κ is not what is studied), \
                    ε_t 0.05, one seed. The paper: 32 channels, 60000 images, 50 and 100 epochs, κ up to 8, ε_t 0.16, three seeds.",
    }
}
