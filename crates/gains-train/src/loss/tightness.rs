//! Boxes that grow from layer to layer (Shi et al., *Fast Certified Robust Training with Short Warmup*, 2021).
//!
//! With `r₀` the mean radius of what the first layer with weights takes and `rᵢ` that in front of the i-th activation, or
//! behind an ODE block, it is the mean over all m of these places of `max(0, τ − r₀/rᵢ)/τ`, τ = ½: nothing as long as a box
//! is at most twice as wide as at first, 1 where it is infinitely wide.
//!
//! In an ODE block activations count once, at its beginning: steps repeat them, and what they add up to is seen at its end.

use super::LEVEL;

/// The term.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tightness {
    /// Its value.
    pub(crate) value: f64,
    /// Its slope in the first mean radius.
    pub(crate) first: f64,
    /// Its slopes in the others.
    pub(crate) others: Vec<f64>,
}

/// The term, out of mean radii.
pub(crate) fn tightness(first: f64, others: &[f64]) -> Tightness {
    let mut term = Tightness { value: 0.0, first: 0.0, others: vec![0.0; others.len()] };
    let share = 1.0 / (LEVEL * others.len().max(1) as f64);
    for (radius, slope) in others.iter().zip(&mut term.others) {
        // A box without width is as tight as can be.
        let missing = LEVEL - first / radius;
        if *radius > 0.0 && missing > 0.0 {
            term.value += share * missing;
            term.first -= share / radius;
            *slope = share * first / (radius * radius);
        }
    }
    term
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_term_and_narrow_boxes_cost_nothing() {
        let (first, others) = (0.3, [0.9, 0.2, 2.0, 0.0]);
        let here = tightness(first, &others);
        // By hand: two of four places are more than twice as wide.
        let byhand = ((0.5 - 0.3 / 0.9) + (0.5 - 0.3 / 2.0)) / (0.5 * 4.0);
        assert!((here.value - byhand).abs() < 1e-12, "{here:?}");
        let reach = 1e-6;
        let slope = |up: f64, down: f64| (up - down) / (2.0 * reach);
        let along = |d: f64| tightness(first + d, &others).value;
        assert!((slope(along(reach), along(-reach)) - here.first).abs() < 1e-7);
        for at in 0..3 {
            let along = |d: f64| {
                let mut others = others;
                others[at] += d;
                tightness(first, &others).value
            };
            assert!((slope(along(reach), along(-reach)) - here.others[at]).abs() < 1e-7, "{at}");
        }
        assert_eq!(tightness(0.3, &[0.6, 0.1]).value, 0.0);
        assert_eq!(tightness(0.3, &[]).value, 0.0);
    }
}
