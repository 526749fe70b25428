//! The sum of the magnitudes of a form's entries: error estimates.

use gains_core::affine_form::AffineForm;
use gains_core::arithmetic::up;
use gains_core::interval::sum_of_magnitudes;
use gains_core::{Arithmetic, BoxVec, Interval};

/// Weights of the lower and of the upper bound, where they give a better one than entries on their own.
pub type Weights = [Option<Vec<f64>>; 2];

/// Bounds of a sum of magnitudes, and the weights that gave them.
pub(super) struct Joint {
    pub sum: Interval,
    pub weights: Weights,
}

impl Joint {
    fn raise(&mut self, bound: f64, weights: Vec<f64>) {
        if bound > self.sum.lower {
            (self.sum.lower, self.weights[0]) = (bound, Some(weights));
        }
    }

    fn lower(&mut self, bound: f64, weights: Vec<f64>) {
        if bound < self.sum.upper {
            (self.sum.upper, self.weights[1]) = (bound, Some(weights));
        }
    }

    fn spans(&self, limit: f64) -> bool {
        self.sum.lower <= limit && limit <= self.sum.upper
    }
}

/// Encloses `Σ |errorⱼ|` for a program that sums in any admitted order.
///
/// Entry by entry from the box, and jointly: `Σ |xⱼ| ≥ w·x` for any weights in `[−1, 1]`, and `|x| ≤ w x + β` with how far `|x|` may
/// be above `w x` over the entry's interval. Both are linear, so that what entries have in common cancels. The weights are at first
/// the signs of the centre and the slopes of the chords; where one of `thresholds` (increasing) lies between the bounds, others are looked for.
pub(super) fn joint_sum_of_magnitudes(
    error: &AffineForm,
    thresholds: &[f64],
    arithmetic: Arithmetic,
) -> Joint {
    let mut joint = Joint { sum: sum_of_magnitudes(&error.bounds, arithmetic), weights: [None, None] };
    let low = |weights: &[f64]| below(error, weights, arithmetic);
    let high = |weights: &[f64]| above(error, weights, arithmetic);
    let signs: Vec<f64> = error.centre.iter().map(|c| if *c == 0.0 { 0.0 } else { c.signum() }).collect();
    let entries = (0..error.len()).map(|j| error.bounds.get(j));
    let stable = entries.clone().map(|x| if x.lower >= 0.0 || x.upper <= 0.0 { 1.0 } else { 0.0 });
    let stable: Vec<f64> = stable.zip(&signs).map(|(stable, sign)| stable * sign).collect();
    let chords: Vec<f64> = entries.map(chord).collect();
    joint.raise(low(&signs), signs);
    joint.raise(low(&stable), stable);
    joint.lower(high(&chords), chords);
    for &limit in thresholds {
        if joint.spans(limit)
            && let Some(weights) = error.weights_above(limit * (1.0 + 1e-6))
        {
            joint.raise(low(&weights), weights);
        }
    }
    for &limit in thresholds.iter().rev() {
        if joint.spans(limit)
            && let Some(weights) = error.weights_below(limit * (1.0 - 1e-6))
        {
            joint.lower(high(&weights), weights);
        }
    }
    joint
}

/// The same with weights as they are written in certificates: rounded to float32, where they stay in `[−1, 1]`.
pub(super) fn with_written_weights(error: &AffineForm, weights: Weights, arithmetic: Arithmetic) -> Joint {
    let written =
        |weights: Vec<f64>| -> Vec<f64> { weights.into_iter().map(|w| f64::from(w as f32)).collect() };
    let [lower, upper] = weights.map(|weights| weights.map(written));
    let mut joint = Joint { sum: sum_of_magnitudes(&error.bounds, arithmetic), weights: [None, None] };
    if let Some(weights) = lower {
        joint.raise(below(error, &weights, arithmetic), weights);
    }
    if let Some(weights) = upper {
        joint.lower(above(error, &weights, arithmetic), weights);
    }
    joint
}

/// A lower bound by weights.
fn below(error: &AffineForm, weights: &[f64], arithmetic: Arithmetic) -> f64 {
    error.functional(weights).lower * (1.0 - arithmetic.dot(error.len())) - arithmetic.underflow()
}

/// An upper bound by weights.
fn above(error: &AffineForm, weights: &[f64], arithmetic: Arithmetic) -> f64 {
    let more = 1.0 + arithmetic.dot(error.len());
    let beyond = above_weighted(&error.bounds, weights);
    (error.functional(weights).upper + beyond * more) * more + arithmetic.underflow()
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
