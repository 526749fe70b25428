//! What becomes of sampled trajectories in training: stacked, averaged, or their hull (paper, appendix).

use super::trained::{Design, Trained, ablation};
use super::{Entry, Takes};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "ablation-aggregation",
    about: "training with sampled trajectories stacked, averaged, or taken at their worst",
    paper: "table of aggregation methods, appendix",
    takes: Takes::Trainings,
    open: |given| Ok(Box::new(Trained::new(design(), given)?)),
};

fn design() -> Design {
    let variant = |name, setting, paper| {
        (name, vec![setting], vec!["phases[1].kappa=[{from=0,count=2}]", setting], paper)
    };
    let variants = vec![
        variant("stack", "phases[1].aggregation=stack", [(71.5, 1.7), (61.2, 2.7), (54.8, 4.1)]),
        variant("average", "phases[1].aggregation=average", [(71.0, 0.4), (60.0, 1.4), (52.8, 0.9)]),
        variant("worst case", "phases[1].aggregation=worst_case", [(69.0, 1.5), (57.9, 2.1), (50.9, 2.1)]),
    ];
    ablation("Aggregation of sampled trajectories", "ablation-aggregation", variants)
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
