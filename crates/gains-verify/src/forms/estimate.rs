//! The sum of the magnitudes of a form's entries: error estimates.

use gains_core::affine_form::AffineForm;
use gains_core::arithmetic::up;
use gains_core::interval::sum_of_magnitudes;
use gains_core::{Arithmetic, BoxVec, Interval};

/// Encloses `Σ |errorⱼ|` for a program that sums in any admitted order.
///
/// Entry by entry from the box, and jointly: `Σ |xⱼ| ≥ w·x` for any weights in `[−1, 1]`, and `|x| ≤ w x + β` with how far `|x|` may
/// be above `w x` over the entry's interval. Both are linear, so that what entries have in common cancels. The weights are at first
/// the signs of the centre and the slopes of the chords; where one of `thresholds` (increasing) lies between the bounds, others are looked for.
pub(super) fn joint_sum_of_magnitudes(
    error: &AffineForm,
    thresholds: &[f64],
    arithmetic: Arithmetic,
) -> Interval {
    let plain = sum_of_magnitudes(&error.bounds, arithmetic);
    let slack = arithmetic.dot(error.len());
    let tiny = arithmetic.underflow();
    let low = |weights: &[f64]| error.functional(weights).lower * (1.0 - slack) - tiny;
    let high = |weights: &[f64]| {
        let above = above_weighted(&error.bounds, weights);
        (error.functional(weights).upper + above * (1.0 + slack)) * (1.0 + slack) + tiny
    };
    let signs: Vec<f64> = error.centre.iter().map(|c| if *c == 0.0 { 0.0 } else { c.signum() }).collect();
    let entries = (0..error.len()).map(|j| error.bounds.get(j));
    let stable = entries.clone().map(|x| if x.lower >= 0.0 || x.upper <= 0.0 { 1.0 } else { 0.0 });
    let stable: Vec<f64> = stable.zip(&signs).map(|(stable, sign)| stable * sign).collect();
    let chords: Vec<f64> = entries.map(chord).collect();
    let mut sum =
        Interval::new(plain.lower.max(low(&signs)).max(low(&stable)), plain.upper.min(high(&chords)));
    let between = |sum: Interval, limit: f64| sum.lower <= limit && limit <= sum.upper;
    for &limit in thresholds {
        if between(sum, limit)
            && let Some(weights) = error.weights_above(limit * (1.0 + 1e-6))
        {
            sum.lower = sum.lower.max(low(&weights));
        }
    }
    for &limit in thresholds.iter().rev() {
        if between(sum, limit)
            && let Some(weights) = error.weights_below(limit * (1.0 - 1e-6))
        {
            sum.upper = sum.upper.min(high(&weights));
        }
    }
    sum
}

/// The slope of the chord of `|x|`.
fn chord(x: Interval) -> f64 {
    let Interval { lower: l, upper: u } = x;
    if l >= 0.0 || u <= 0.0 {
        return if u > 0.0 { 1.0 } else { -1.0 };
    }
    ((u + l) / (u - l)).clamp(-1.0, 1.0)
}

/// At least `Σ max (|xⱼ| − wⱼ xⱼ)` over a box, for weights in `[−1, 1]`. `|x| − w x` is convex, so that its largest value is at an end.
fn above_weighted(bounds: &BoxVec, weights: &[f64]) -> f64 {
    let at = |x: f64, w: f64| up(up(x.abs() - w * x) + 2.0 * f64::EPSILON * x.abs());
    let entries = weights.iter().enumerate();
    entries.map(|(j, &w)| at(bounds.lower[j], w).max(at(bounds.upper[j], w))).sum()
}
