//! ν-δ-robustness: the mean absolute error of a forecast stays below a limit.

use gains_core::arithmetic::{TINY, analysis_error, down, up};
use gains_core::{Activation, Arithmetic, BoxVec, Interval, LowerSlope, Relaxation};
use gains_ode::mean_absolute_error;

use super::{LinearRow, Relation};

/// How much worse predictions may become.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// ν: relative.
    pub relative: f64,
    /// δ: absolute.
    pub absolute: f64,
}

impl Default for Tolerance {
    /// The paper's: ν = 0.1, δ = 0.01.
    fn default() -> Self {
        Self { relative: 0.1, absolute: 0.01 }
    }
}

/// The mean absolute error over the features observed at the target stays below a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorLimit {
    /// What is observed at the target.
    pub truth: Vec<f64>,
    /// Features that are observed there.
    pub observed: Vec<usize>,
    /// The limit, not reached.
    pub limit: f64,
}

impl ErrorLimit {
    /// `MAE < (1 + ν)·MAE₀ + δ`, with `MAE₀` the error of the prediction that the concrete program makes; the limit is
    /// rounded down. `None` if nothing is observed at the target, or a number is NaN.
    pub fn new(truth: &[f64], mask: &[bool], prediction: &[f64], tolerance: Tolerance) -> Option<Self> {
        let observed: Vec<usize> = (0..truth.len().min(mask.len())).filter(|&i| mask[i]).collect();
        let base = down_error(mean_absolute_error(prediction, truth, mask), observed.len());
        let limit = (1.0 + tolerance.relative) * base + tolerance.absolute;
        let limit = down(down(limit - 4.0 * f64::EPSILON * limit.abs()));
        let sound =
            !observed.is_empty() && limit.is_finite() && observed.iter().all(|&i| truth[i].is_finite());
        sound.then(|| Self { truth: truth.to_vec(), observed, limit })
    }

    /// The error of a prediction, rounded down: only what is certainly at or above the limit breaks the property.
    pub fn error(&self, prediction: &[f64]) -> f64 {
        down_error(mean_absolute_error(prediction, &self.truth, &self.marked()), self.observed.len())
    }

    /// For every feature, whether it is observed.
    pub(crate) fn marked(&self) -> Vec<bool> {
        let mut mask = vec![false; self.truth.len()];
        self.observed.iter().for_each(|&i| mask[i] = true);
        mask
    }

    /// What is observed, 0 where nothing is.
    pub(crate) fn shown_truth(&self) -> Vec<f64> {
        self.truth.iter().zip(self.marked()).map(|(&x, seen)| if seen { x } else { 0.0 }).collect()
    }

    /// The same property as one row on how far each output is from what is observed, `limit · n − Σ |error| > 0`.
    pub(crate) fn on_distances(&self) -> LinearRow {
        let coefficients = self.marked().into_iter().map(|seen| if seen { -1.0 } else { 0.0 }).collect();
        let products = [(self.observed.len() as f64, self.limit)];
        LinearRow::with_products(coefficients, &products, Relation::Above)
    }

    /// Where the error `output − truth` of each observed feature can be, given intervals of the outputs.
    fn errors(&self, intervals: &BoxVec) -> Vec<Interval> {
        let around = |(i, &output): (usize, &usize)| {
            let x = intervals.get(i);
            Interval::new(down(x.lower - self.truth[output]), up(x.upper - self.truth[output]))
        };
        self.observed.iter().enumerate().map(around).collect()
    }

    /// Whether some prediction may lie on either side of the truth, so that its error is no linear function.
    pub fn may_change_sign(&self, intervals: &BoxVec) -> bool {
        self.errors(intervals).iter().any(|d| d.lower < 0.0 && d.upper > 0.0)
    }

    /// An upper bound of the error, from intervals of the observed features: the mean of what each can be at worst.
    pub fn worst(&self, intervals: &BoxVec) -> f64 {
        let sum: f64 = self
            .errors(intervals)
            .iter()
            .map(|d| Activation::Absolute.image(*d, Arithmetic::Real).upper)
            .sum();
        self.rounded_up(sum, sum.abs())
    }

    fn rounded_up(&self, sum: f64, size: f64) -> f64 {
        let count = self.observed.len();
        let mean = (sum + analysis_error(count + 4) * size + TINY) / count as f64;
        let worst = up(up(mean)) + TINY;
        if worst.is_nan() { f64::INFINITY } else { worst }
    }

    /// One row for all features together: `|d| ≤ s·d + c`, the chord of each, so the sum of the errors is at most
    /// `Σ s·output` and a constant. What one feature gains another may lose.
    pub fn together(&self, intervals: &BoxVec) -> Together {
        let mut row = vec![0.0; self.truth.len()];
        let (mut constant, mut size) = (0.0, 0.0_f64);
        for (&output, d) in self.observed.iter().zip(self.errors(intervals)) {
            let chord = Relaxation::new(Activation::Absolute, d, LowerSlope::MinArea, Arithmetic::Real).upper;
            row[output] = -chord.slope;
            constant += chord.intercept - chord.slope * self.truth[output];
            // The slope is a few roundings off where it meets the output; so is the constant.
            size += chord.intercept.abs() + self.truth[output].abs() + d.magnitude();
        }
        Together { row, constant, size }
    }

    /// An upper bound of the error, given a lower bound of the row for all features together.
    pub fn worst_together(&self, together: &Together, lower: f64) -> f64 {
        let Together { constant, size, .. } = together;
        self.rounded_up(constant - lower, size + constant.abs() + lower.abs())
    }

    /// The gradient of the sum of the errors.
    pub fn uphill(&self, outputs: &[f64]) -> Vec<f64> {
        let mut gradient = vec![0.0; outputs.len()];
        for &i in &self.observed {
            gradient[i] = (outputs[i] - self.truth[i]).signum();
        }
        gradient
    }
}

/// Minus the sum of all errors, from below, but for a constant.
pub struct Together {
    /// On the outputs.
    pub row: Vec<f64>,
    constant: f64,
    size: f64,
}

/// A mean of so many terms, rounded down.
fn down_error(mean: f64, terms: usize) -> f64 {
    // Not `max`, which would make an error of 0 out of NaN.
    if mean.is_finite() { (mean - analysis_error(terms + 4) * mean).max(0.0) } else { mean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_rounded_down_and_worst_cases_up() {
        let truth = [1.0, 5.0, -1.0];
        let mask = [true, false, true];
        let property = ErrorLimit::new(&truth, &mask, &[1.5, 0.0, -1.5], Tolerance::default()).unwrap();
        assert!(property.limit <= 0.56 && property.limit > 0.559_999);
        // 1.5 and 0.25 at worst.
        let intervals = BoxVec::new(vec![0.0, -1.25], vec![2.5, -1.0]);
        let worst = property.worst(&intervals);
        assert!((0.875..0.875_001).contains(&worst), "{worst}");
        assert!(property.error(&[1.5, 99.0, -1.0]) <= 0.25);
    }

    #[test]
    fn nan_is_no_property() {
        let tolerance = Tolerance::default();
        let new = |truth: f64, mask: bool, prediction: f64| {
            ErrorLimit::new(&[truth], &[mask], &[prediction], tolerance)
        };
        assert!(new(0.0, true, 1.0).is_some());
        assert!(new(0.0, false, 1.0).is_none());
        assert!(new(f64::NAN, true, 1.0).is_none());
        assert!(new(0.0, true, f64::NAN).is_none());
        assert!(new(0.0, true, f64::INFINITY).is_none());
        let property = new(0.0, true, 1.0).unwrap();
        let broken = BoxVec::new(vec![f64::NAN], vec![f64::NAN]);
        assert_eq!(property.worst(&broken), f64::INFINITY);
    }

    const MANY: usize = 400;

    /// One, and many numbers of which each is too small to be added to it exactly.
    fn one_and(small: f64) -> Vec<f64> {
        std::iter::once(1.0).chain([small; MANY - 1]).collect()
    }

    fn about_nothing() -> ErrorLimit {
        ErrorLimit { truth: vec![0.0; MANY], observed: (0..MANY).collect(), limit: 1.0 }
    }

    #[test]
    fn worst_errors_pay_for_the_rounding_of_their_sum() {
        // Each is lost when it is added.
        let small = 0.4 * f64::EPSILON;
        let upper = one_and(small);
        let worst = about_nothing().worst(&BoxVec::new(vec![0.0; MANY], upper));
        assert!(worst.mul_add(MANY as f64, -1.0) >= (MANY - 1) as f64 * small, "{worst:e}");
    }

    #[test]
    fn errors_that_were_seen_pay_for_the_rounding_of_their_sum() {
        // Each is added as if it were larger.
        let small = 0.6 * f64::EPSILON;
        let error = about_nothing().error(&one_and(small));
        assert!(error.mul_add(MANY as f64, -1.0) <= (MANY - 1) as f64 * small, "{error:e}");
    }

    #[test]
    fn limits_pay_for_the_rounding_of_their_sum() {
        let tolerance = Tolerance { relative: 0.125, absolute: 0.01 };
        let mut above = 0;
        for k in 1..2000 {
            let seen = f64::from(k) * 1e-17;
            let limit = ErrorLimit::new(&[0.0], &[true], &[seen], tolerance).unwrap().limit;
            let sum = tolerance.absolute + 1.125 * seen;
            let lost = 1.125 * seen - (sum - tolerance.absolute);
            assert!(limit - sum <= lost, "{seen:e}: {:e} for {lost:e}", limit - sum);
            above += usize::from(lost < 0.0);
        }
        assert!(above > 500, "{above} sums were rounded up");
    }
}
