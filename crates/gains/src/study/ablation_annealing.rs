//! How far sampled trajectories stray from the reference in the course of training (paper, appendix).

use super::Entry;
use super::trained::{Asked, Design, Recipe, Spread, Trained, Variant};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "ablation-annealing",
    about: "training with four schedules of the sampling probability q",
    paper: "table of annealing processes, appendix",
    open: |given| Ok(Box::new(Trained::new(design(), given)?)),
};

fn design() -> Design {
    let variant = |name, start: &'static str, end: &'static str, paper: [Spread; 3]| Variant {
        name,
        full: Recipe { preset: "fashion-mnist-provable-0.16", changes: vec![start, end] },
        quick: Recipe {
            preset: "quick",
            changes: vec![
                "images=4000",
                "phases[0].epochs=8",
                "phases[1].epochs=4",
                "phases[1].kappa=[{from=0,count=2}]",
                start,
                end,
            ],
        },
        paper: paper.to_vec(),
    };
    let (low, high) = ("phases[1].q.start=0.15", "phases[1].q.start=0.33");
    Design {
        title: "Schedules of the sampling probability",
        picture: "ablation-annealing",
        radii: &[0.1, 0.15],
        quick_radii: &[0.02, 0.05],
        asked: Asked::Certified,
        variants: vec![
            variant("Sin(0.15, 0.33)", low, "phases[1].q.end=0.33", [(71.5, 1.7), (61.2, 2.7), (54.8, 4.1)]),
            variant("Sin(0.15, 0.4)", low, "phases[1].q.end=0.4", [(68.1, 2.6), (56.4, 4.6), (49.6, 5.2)]),
            variant("Sin(0.15, 0.15)", low, "phases[1].q.end=0.15", [(70.8, 1.2), (60.1, 0.7), (53.6, 0.6)]),
            variant("Sin(0.33, 0.33)", high, "phases[1].q.end=0.33", [(68.5, 0.7), (57.8, 1.8), (50.9, 2.9)]),
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
        assert_eq!(all_the_same(design()).get("tight 0.02"), Some(1.0));
    }
}
