//! ReLUs that are all off, or all on (Shi et al., *Fast Certified Robust Training with Short Warmup*, 2021).
//!
//! Training on boxes likes neurons that are off: they have no width. Of the middles `c` of a batch of boxes in front of an
//! activation with a kink at 0, two things are compared between those above it and those below: what they add up to,
//! `Σ|c|`, and how much they vary, `Σ(c − c̄)²`. With ρ the smaller of both divided by the larger, it is
//! `max(0, τ − ρ)/τ`, τ = ½, for both, and then the mean over all such activations.

use super::LEVEL;

/// The term of one activation: its value and its slopes in the middles.
pub(crate) fn balance(middles: &[f64]) -> (f64, Vec<f64>) {
    let mean = middles.iter().sum::<f64>() / middles.len().max(1) as f64;
    let (mut sums, mut spreads, mut moments) = ([0.0; 2], [0.0; 2], [0.0; 2]);
    for c in middles {
        let side = usize::from(*c > 0.0);
        sums[side] += c.abs();
        spreads[side] += (c - mean) * (c - mean);
        moments[side] += c - mean;
    }
    let (of_sums, slopes_of_sums) = apart(sums);
    let (of_spreads, slopes_of_spreads) = apart(spreads);
    let each = 1.0 / middles.len().max(1) as f64;
    let drift: f64 = (0..2).map(|side| slopes_of_spreads[side] * 2.0 * moments[side]).sum();
    let slope = |c: &f64| {
        let side = usize::from(*c > 0.0);
        let sign = if *c > 0.0 { 1.0 } else { -1.0 };
        slopes_of_sums[side] * sign + slopes_of_spreads[side] * 2.0 * (c - mean) - each * drift
    };
    (of_sums + of_spreads, middles.iter().map(slope).collect())
}

/// How far two sums are from balance, and the slopes in both. Two that are nothing are in balance.
fn apart([low, high]: [f64; 2]) -> (f64, [f64; 2]) {
    let (small, large) = (low.min(high), low.max(high));
    let missing = LEVEL - small / large;
    if !(large > 0.0 && missing > 0.0) {
        return (0.0, [0.0; 2]);
    }
    let slopes = [-1.0 / (LEVEL * large), small / (LEVEL * large * large)];
    (missing / LEVEL, if low <= high { slopes } else { [slopes[1], slopes[0]] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_term_and_balanced_neurons_cost_nothing() {
        let mut random = fastrand::Rng::with_seed(8);
        for shift in [0.45, -0.3, 0.1] {
            let middles: Vec<f64> = (0..15).map(|_| random.f64() - 0.5 - shift).collect();
            let (value, slopes) = balance(&middles);
            assert!(shift.abs() < 0.2 || value > 0.1, "{value}");
            for at in 0..middles.len() {
                let along = |d: f64| {
                    let mut middles = middles.clone();
                    middles[at] += d;
                    balance(&middles).0
                };
                let slope = (along(1e-6) - along(-1e-6)) / 2e-6;
                assert!((slope - slopes[at]).abs() < 1e-6, "{at}: {slope} {}", slopes[at]);
            }
        }
        assert_eq!(balance(&[0.5, -0.5, 1.0, -1.0]).0, 0.0);
        assert_eq!(balance(&[-1.0; 4]).0, 1.0, "one sum is missing, and nothing varies");
        assert_eq!(balance(&[0.0; 3]).0, 0.0);
    }
}
