//! How far sampled trajectories stray from the reference in the course of training (paper, appendix).

use super::trained::{Design, Spread, Trained, ablation};
use super::{Entry, Takes};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "ablation-annealing",
    about: "training with four schedules of the sampling probability q",
    paper: "table of annealing processes, appendix",
    takes: Takes::Trainings,
    open: |given| Ok(Box::new(Trained::new(design(), given)?)),
};

fn design() -> Design {
    let variant = |name, start, end, paper: [Spread; 3]| {
        (name, vec![start, end], vec!["phases[1].kappa=[{from=0,count=2}]", start, end], paper)
    };
    let (low, high) = ("phases[1].q.start=0.15", "phases[1].q.start=0.33");
    let variants = vec![
        variant("Sin(0.15, 0.33)", low, "phases[1].q.end=0.33", [(71.5, 1.7), (61.2, 2.7), (54.8, 4.1)]),
        variant("Sin(0.15, 0.4)", low, "phases[1].q.end=0.4", [(68.1, 2.6), (56.4, 4.6), (49.6, 5.2)]),
        variant("Sin(0.15, 0.15)", low, "phases[1].q.end=0.15", [(70.8, 1.2), (60.1, 0.7), (53.6, 0.6)]),
        variant("Sin(0.33, 0.33)", high, "phases[1].q.end=0.33", [(68.5, 0.7), (57.8, 1.8), (50.9, 2.9)]),
    ];
    ablation("Schedules of the sampling probability", "ablation-annealing", variants)
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
