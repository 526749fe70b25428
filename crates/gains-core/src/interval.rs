//! Intervals and boxes: the sets everything is enclosed in.

use crate::arithmetic::{Arithmetic, LARGEST, down, up};
use crate::kernels;

/// A closed interval of reals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

impl Interval {
    /// `[lower, upper]`.
    pub const fn new(lower: f64, upper: f64) -> Self {
        Self { lower, upper }
    }

    /// The one-point interval.
    pub const fn point(value: f64) -> Self {
        Self::new(value, value)
    }

    /// True if `value` lies inside.
    pub fn contains(&self, value: f64) -> bool {
        self.lower <= value && value <= self.upper
    }

    /// Encloses the sum with an independent interval.
    pub fn plus(self, other: Self) -> Self {
        Self::new(down(self.lower + other.lower), up(self.upper + other.upper))
    }

    /// Encloses the difference from an independent interval.
    pub fn minus(self, other: Self) -> Self {
        Self::new(down(self.lower - other.upper), up(self.upper - other.lower))
    }

    /// The largest absolute value in the interval.
    pub fn magnitude(&self) -> f64 {
        self.lower.abs().max(self.upper.abs())
    }
}

/// From the least to the largest of some numbers; NaN if one of them is, which `min` and `max` would hide.
pub fn hull_of<const N: usize>(values: [f64; N]) -> Interval {
    if values.iter().any(|v| v.is_nan()) {
        return Interval::new(f64::NAN, f64::NAN);
    }
    Interval::new(
        values.iter().copied().fold(f64::INFINITY, f64::min),
        values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    )
}

/// An axis-parallel box: one interval per entry of a tensor.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct BoxVec {
    /// Lower ends.
    pub lower: Vec<f64>,
    /// Upper ends.
    pub upper: Vec<f64>,
}

impl BoxVec {
    /// A box from its ends.
    pub fn new(lower: Vec<f64>, upper: Vec<f64>) -> Self {
        debug_assert_eq!(lower.len(), upper.len());
        Self { lower, upper }
    }

    /// A box from its intervals.
    pub fn collect(length: usize, interval: impl Fn(usize) -> Interval) -> Self {
        let mut all = Self::new(vec![0.0; length], vec![0.0; length]);
        for i in 0..length {
            let Interval { lower, upper } = interval(i);
            all.lower[i] = lower;
            all.upper[i] = upper;
        }
        all
    }

    /// The box of one point.
    pub fn point(values: &[f64]) -> Self {
        Self::new(values.to_vec(), values.to_vec())
    }

    /// All points within `radius` of `centre` (max norm) and inside `clip`, entry by entry, rounded
    /// outwards before the clipping.
    pub fn ball(centre: &[f64], radius: f64, clip: Interval) -> Self {
        Self {
            lower: centre.iter().map(|&x| down(x - radius).max(clip.lower).min(x)).collect(),
            upper: centre.iter().map(|&x| up(x + radius).min(clip.upper).max(x)).collect(),
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.lower.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.lower.is_empty()
    }

    /// The interval of one entry.
    pub fn get(&self, index: usize) -> Interval {
        Interval::new(self.lower[index], self.upper[index])
    }

    /// True if every end is a number of at most [`LARGEST`] and no interval is inside out.
    pub fn is_sane(&self) -> bool {
        self.lower.iter().zip(&self.upper).all(|(l, u)| -LARGEST <= *l && l <= u && *u <= LARGEST)
    }

    /// True if the point lies inside.
    pub fn contains(&self, point: &[f64]) -> bool {
        point.len() == self.len()
            && point.iter().enumerate().all(|(i, x)| self.lower[i] <= *x && *x <= self.upper[i])
    }

    /// Widest side.
    pub fn width(&self) -> f64 {
        self.lower.iter().zip(&self.upper).map(|(l, u)| u - l).fold(0.0, f64::max)
    }

    /// Mean side.
    pub fn mean_width(&self) -> f64 {
        self.lower.iter().zip(&self.upper).map(|(l, u)| u - l).sum::<f64>() / self.len().max(1) as f64
    }

    /// Largest absolute value of each entry.
    pub fn magnitudes(&self) -> Vec<f64> {
        self.lower.iter().zip(&self.upper).map(|(l, u)| l.abs().max(u.abs())).collect()
    }

    /// Grows the box to hold `other` as well.
    pub fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.lower.iter_mut().zip(&other.lower) {
            *mine = mine.min(*theirs);
        }
        for (mine, theirs) in self.upper.iter_mut().zip(&other.upper) {
            *mine = mine.max(*theirs);
        }
    }

    /// Cuts the box down to what it shares with `other`; both must enclose the same set.
    pub fn meet(&mut self, other: &Self) {
        for (mine, theirs) in self.lower.iter_mut().zip(&other.lower) {
            *mine = mine.max(*theirs);
        }
        for (mine, theirs) in self.upper.iter_mut().zip(&other.upper) {
            *mine = mine.min(*theirs);
        }
    }

    /// Moves both ends of every entry outwards by a number that is not negative.
    pub fn widen(&mut self, by: impl Fn(usize) -> f64) {
        for i in 0..self.len() {
            let by = by(i);
            // NaN must not be skipped.
            if by != 0.0 {
                self.lower[i] = down(self.lower[i] - by);
                self.upper[i] = up(self.upper[i] + by);
            }
        }
    }

    /// Encloses `x + d`.
    pub fn shifted(&self, d: &Self) -> Self {
        Self::new(
            self.lower.iter().zip(&d.lower).map(|(x, d)| down(x + d)).collect(),
            self.upper.iter().zip(&d.upper).map(|(x, d)| up(x + d)).collect(),
        )
    }

    /// Encloses `self − other`.
    pub fn apart(&self, other: &Self) -> Self {
        Self::new(
            self.lower.iter().zip(&other.upper).map(|(y, x)| down(y - x)).collect(),
            self.upper.iter().zip(&other.lower).map(|(y, x)| up(y - x)).collect(),
        )
    }

    /// The entries that are not identically zero, increasing.
    pub fn alive(&self) -> Vec<u32> {
        (0..self.len()).filter(|&i| self.lower[i] != 0.0 || self.upper[i] != 0.0).map(|i| i as u32).collect()
    }

    /// True if some interval is inside out, so that nothing is in the box.
    pub fn is_inside_out(&self) -> bool {
        self.lower.iter().zip(&self.upper).any(|(l, u)| l > u)
    }

    /// Centres and radii; the true radius exceeds the stored one by at most two roundings, which
    /// [`Arithmetic::dot`] has in store.
    pub fn centres(&self) -> Centred {
        let (centre, radius) = kernels::centre_and_radius(&self.lower, &self.upper);
        Centred { centre, radius }
    }
}

/// A box written as centres and radii.
#[derive(Clone, Debug)]
pub struct Centred {
    /// Midpoints, up to rounding.
    pub centre: Vec<f64>,
    /// Half widths, up to rounding.
    pub radius: Vec<f64>,
}

/// Encloses `base + Σ coefficient·box` over independent boxes, entry by entry.
///
/// Returns the box and, per entry, the sum of magnitudes `|base| + Σ |coefficient|·|box|` that the
/// rounding error of any evaluation order is proportional to. The coefficients may themselves be
/// rounded products (a few ulp). Entries that are exactly zero everywhere stay exactly zero, which
/// keeps dead neurons dead.
pub fn combine(
    base: Option<&BoxVec>,
    terms: &[(f64, &BoxVec)],
    length: usize,
    arithmetic: Arithmetic,
) -> (BoxVec, Vec<f64>) {
    let mut sum = base.cloned().unwrap_or_else(|| BoxVec::new(vec![0.0; length], vec![0.0; length]));
    let mut magnitude = sum.magnitudes();
    for &(coefficient, term) in terms.iter().filter(|(c, _)| *c != 0.0) {
        let (low, high) =
            if coefficient > 0.0 { (&term.lower, &term.upper) } else { (&term.upper, &term.lower) };
        kernels::add_scaled_box((&mut sum.lower, &mut sum.upper, &mut magnitude), coefficient, low, high);
    }
    let error = arithmetic.short_sum(terms.len() + 1);
    let tiny = arithmetic.underflow();
    for i in 0..length {
        let slack = if magnitude[i] > 0.0 { error * magnitude[i] + tiny } else { 0.0 };
        sum.lower[i] -= slack;
        sum.upper[i] += slack;
    }
    (sum, magnitude)
}

/// Encloses `Σ |x|` over the entries of a box, for a program that sums in any admitted order.
pub fn sum_of_magnitudes(b: &BoxVec, arithmetic: Arithmetic) -> Interval {
    let (mut low, mut high) = (0.0, 0.0);
    for (&l, &u) in b.lower.iter().zip(&b.upper) {
        high += l.abs().max(u.abs());
        if l > 0.0 {
            low += l;
        } else if u < 0.0 {
            low -= u;
        }
    }
    let slack = arithmetic.dot(b.len());
    let tiny = if high > 0.0 { arithmetic.underflow() } else { 0.0 };
    Interval::new((low * (1.0 - slack) - tiny).max(0.0), high * (1.0 + slack) + tiny)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ball_is_clipped_and_rounded_outwards() {
        let b = BoxVec::ball(&[0.05, 0.5, 1.0], 0.1, Interval::new(0.0, 1.0));
        assert_eq!(b.lower[0], 0.0);
        assert_eq!(b.upper[2], 1.0);
        assert!(b.lower[1] < 0.5 - 0.1 && b.upper[1] > 0.6);
    }

    #[test]
    fn combining_keeps_exact_zeros_and_encloses_corners() {
        let x = BoxVec::new(vec![0.0, -1.0], vec![0.0, 2.0]);
        let k = BoxVec::new(vec![0.0, 0.3], vec![0.0, 0.4]);
        let (sum, magnitude) = combine(Some(&x), &[(-0.1, &k), (3.0, &k)], 2, Arithmetic::Real);
        assert_eq!((sum.lower[0], sum.upper[0]), (0.0, 0.0));
        assert!(sum.lower[1] <= -1.0 - 0.04 + 0.9 && sum.upper[1] >= 2.0 - 0.03 + 1.2);
        assert!(magnitude[1] >= 2.0 + 0.04 + 1.2 - 1e-12);
    }

    #[test]
    fn magnitude_sum_of_straddling_entries_starts_at_zero() {
        let b = BoxVec::new(vec![-1.0, 2.0, -5.0], vec![1.0, 3.0, -4.0]);
        let sum = sum_of_magnitudes(&b, Arithmetic::Real);
        assert!(sum.lower <= 6.0 && sum.lower > 5.999_999);
        assert!(sum.upper >= 9.0 && sum.upper < 9.000_001);
    }
}
