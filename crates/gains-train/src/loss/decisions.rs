//! Decisions of the controller that boxes leave open: each is a fork of the trajectory graph.
//!
//! A threshold s of the error estimate δ (1: repeat the step or accept it; α⁻ᵖ: keep the step size or increase it) is open
//! where `δ̲ ≤ s < δ̄`. What is missing to close it is, in logarithms, the shorter of the ways to have the whole interval
//! below s or above: `min(ln(δ̄/s), ln(s/δ̲))`. The term is the mean over the samples of a batch of the sum over all steps
//! that were taken and both thresholds.

/// What an interval of δ leaves open at thresholds: the term, and its slopes in the lower and the upper end.
pub(crate) fn open([low, high]: [f64; 2], thresholds: &[f64]) -> (f64, [f64; 2]) {
    let (mut value, mut slopes) = (0.0, [0.0; 2]);
    for s in thresholds.iter().filter(|s| low <= **s && **s < high) {
        let (below, above) = ((high / s).ln(), (s / low).ln());
        // With a lower end of 0 there is no way to have everything above.
        if below <= above {
            value += below;
            slopes[1] += 1.0 / high;
        } else {
            value += above;
            slopes[0] -= 1.0 / low;
        }
    }
    (value, slopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_term_and_closed_decisions_cost_nothing() {
        let thresholds = [0.03125, 1.0];
        for ends in [[0.02, 0.5], [0.02, 0.04], [0.0, 3.0], [0.9, 7.0], [0.01, 1.5]] {
            let (value, slopes) = open(ends, &thresholds);
            assert!(value > 0.0);
            for at in 0..2 {
                let along = |d: f64| {
                    let mut ends = ends;
                    ends[at] += d;
                    open(ends, &thresholds).0
                };
                let slope = if ends[at] == 0.0 { 0.0 } else { (along(1e-7) - along(-1e-7)) / 2e-7 };
                assert!((slope - slopes[at]).abs() < 1e-5 * (1.0 + slope.abs()), "{ends:?} {at}: {slope}");
            }
        }
        for ends in [[0.001, 0.03], [0.04, 0.9], [1.1, 5.0]] {
            assert_eq!(open(ends, &thresholds), (0.0, [0.0; 2]));
        }
        // By hand: e to the 1 above one threshold, and nothing near the other.
        let (value, _) = open([0.5, std::f64::consts::E], &[1.0]);
        assert!((value - std::f64::consts::LN_2).abs() < 1e-12);
    }
}
