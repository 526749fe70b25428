//! What becomes of sampled trajectories in training: stacked, averaged, or their hull (paper, appendix).

use super::Entry;
use super::trained::{Asked, Design, Recipe, Trained, Variant};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "ablation-aggregation",
    about: "training with sampled trajectories stacked, averaged, or taken at their worst",
    paper: "table of aggregation methods, appendix",
    open: |given| Ok(Box::new(Trained::new(design(), given)?)),
};

fn design() -> Design {
    let variant = |name, setting, paper| Variant {
        name,
        full: Recipe { preset: "fashion-mnist-provable-0.16", changes: vec![setting] },
        quick: Recipe {
            preset: "quick",
            changes: vec![
                "images=4000",
                "phases[0].epochs=8",
                "phases[1].epochs=4",
                "phases[1].kappa=[{from=0,count=2}]",
                setting,
            ],
        },
        paper,
    };
    Design {
        title: "Aggregation of sampled trajectories",
        picture: "ablation-aggregation",
        radii: &[0.1, 0.15],
        quick_radii: &[0.02, 0.05],
        asked: Asked::Certified,
        variants: vec![
            variant("stack", "phases[1].aggregation=stack", vec![(71.5, 1.7), (61.2, 2.7), (54.8, 4.1)]),
            variant("average", "phases[1].aggregation=average", vec![(71.0, 0.4), (60.0, 1.4), (52.8, 0.9)]),
            variant(
                "worst case",
                "phases[1].aggregation=worst_case",
                vec![(69.0, 1.5), (57.9, 2.1), (50.9, 2.1)],
            ),
        ],
        shortened: "Shortened: 16 channels, 4000 images, 8 epochs of Euler steps and 4 with κ = 2, ε_t 0.05, one seed. \
                    The paper: 32 channels, 60000 images, 50 and 100 epochs, κ up to 8, ε_t 0.16, three seeds.",
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
        // The image is certified by both methods.
        for name in ["standard", "gains 0.02", "tight 0.02"] {
            assert_eq!(figures.get(name), Some(1.0), "{name}");
        }
    }
}
