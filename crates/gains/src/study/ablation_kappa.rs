//! How many trajectories are sampled in training, and whether the reference is among them (paper, appendix).

use super::trained::{Design, Spread, Trained, ablation};
use super::{Entry, Takes};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "ablation-kappa",
    about: "training with 1, 2 to 8 or 4 trajectories, sampled or with the reference among them",
    paper: "table of κ, appendix",
    takes: Takes::Trainings,
    open: |given| Ok(Box::new(Trained::new(design(), given)?)),
};

const ONE: &str = "phases[1].kappa=[{from=0,count=1}]";
const FOUR: &str = "phases[1].kappa=[{from=0,count=4}]";
const GROWING: &str =
    "phases[1].kappa=[{part=0,count=2},{part=0.25,count=4},{part=0.5,count=8},{part=0.65,count=4}]";
const SAMPLED: &str = "phases[1].include_reference=false";
const FIXED: &str = "phases[1].include_reference=true";

fn design() -> Design {
    let variant =
        |name, kappa, chosen, paper: [Spread; 3]| (name, vec![kappa, chosen], vec![kappa, chosen], paper);
    let variants = vec![
        variant("1, sampled", ONE, SAMPLED, [(69.0, 1.6), (57.8, 3.0), (51.0, 3.7)]),
        variant("1, fixed", ONE, FIXED, [(71.5, 1.5), (60.7, 1.2), (54.1, 1.0)]),
        variant("2 4 8, sampled", GROWING, SAMPLED, [(71.5, 1.7), (61.2, 2.7), (54.8, 4.1)]),
        variant("2 4 8, fixed", GROWING, FIXED, [(70.7, 1.5), (60.2, 1.8), (53.2, 1.6)]),
        variant("4, sampled", FOUR, SAMPLED, [(71.8, 0.9), (62.2, 1.0), (54.7, 1.5)]),
        variant("4, fixed", FOUR, FIXED, [(69.9, 2.0), (59.2, 2.6), (53.4, 3.9)]),
    ];
    ablation("Number of sampled trajectories", "ablation-kappa", variants)
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
