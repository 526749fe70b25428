//! The rounding model: which arithmetic a bound speaks about, and how much rounding can cost.
//!
//! All analysis is done in float64 with round-to-nearest. Instead of switching rounding modes, every
//! transformer widens its result by an a-priori bound: for a dot product of `n` terms in any order,
//! with or without fused operations, `|fl(a·b) − a·b| ≤ γₙ |a|·|b|` with `γₙ = n u / (1 − n u)`
//! (Higham, *Accuracy and Stability of Numerical Algorithms*, §3.1), plus a tiny absolute term for
//! underflow. What the analysed program itself rounds is the same formula with another `u`, so one
//! number, [`Arithmetic::dot`], serves both.

use serde::{Deserialize, Serialize};

/// Unit roundoff of float64.
pub const UNIT: f64 = f64::EPSILON / 2.0;
/// Unit roundoff of float32.
pub const UNIT32: f64 = (f32::EPSILON / 2.0) as f64;
/// Larger than the sum of all underflow errors of any product we form, smaller than anything that matters.
pub const TINY: f64 = 1e-290;
/// The same for float32 programs: some seven million times the smallest subnormal float32, 2⁻¹⁴⁹, which is more than
/// any sum has terms.
const TINY32: f64 = 1e-38;

/// The largest magnitude an enclosure may reach; beyond it an analysis gives up.
///
/// Two arguments need it. A coefficient of a row that underflows is off by up to 2⁻¹⁰⁷⁵ for each of its
/// terms, and costs that times the entry it stands for: below this size some 10¹³ of them fit into
/// [`TINY`]. And a float32 program overflows at 3.4·10³⁸: an enclosure of it is wider than 2⁻²² of any
/// intermediate sum, so one that ends below this size has none beyond 10²⁷.
pub const LARGEST: f64 = 1e20;

/// The arithmetic of the program a verdict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// The network evaluated in exact real arithmetic.
    #[default]
    Real,
    /// The network evaluated in float32, every sum in *some* order of bounded depth.
    ///
    /// Promised to the program: a dot product of `n` terms passes every term through at most
    /// [`Arithmetic::depth`]`(n)` roundings (products included), inputs are float32 and weights rounded to it, the
    /// weighted sums of a Runge-Kutta step are taken in any order, activations other than ReLU are
    /// within 4 ulp and stay within the range of the function. Times and step sizes are those of
    /// float64, rounded once; a stage reused as the first of the next step belongs to the very state
    /// that step starts from; subnormal numbers are not flushed to zero. Pairwise summation, short vector lanes followed by pairwise summation, and float64
    /// accumulation rounded once (what `gains` itself does) all satisfy this.
    Float32,
}

/// `n u / (1 − n u)`.
fn gamma(roundings: f64, unit: f64) -> f64 {
    roundings * unit / (1.0 - roundings * unit)
}

impl Arithmetic {
    /// Roundings that a term of a float32 dot product of `terms` terms may pass through.
    pub fn depth(terms: usize) -> usize {
        (usize::BITS - terms.max(1).saturating_sub(1).leading_zeros()) as usize + 4
    }

    /// Relative error of a weighted sum of `terms` products, analysis and program together.
    ///
    /// The factor 4 and the 8 extra roundings cover what happens around the sum: forming centre and
    /// radius, weights known to a few ulp, inflating and subtracting the radius in floating point. The
    /// program has two roundings more than the depth: that of the time, and that of a weight that is no
    /// float32 number, before they are used.
    pub fn dot(self, terms: usize) -> f64 {
        let analysis = 4.0 * gamma(terms as f64 + 8.0, UNIT);
        match self {
            Self::Real => analysis,
            Self::Float32 => analysis + 1.0001 * gamma(Self::depth(terms) as f64 + 2.0, UNIT32),
        }
    }

    /// What [`Self::dot`] says of the program alone; nothing for exact arithmetic.
    pub fn program_dot(self, terms: usize) -> f64 {
        match self {
            Self::Real => 0.0,
            Self::Float32 => self.dot(terms),
        }
    }

    /// What [`Self::short_sum`] says of the program alone; nothing for exact arithmetic.
    pub fn program_short_sum(self, terms: usize) -> f64 {
        match self {
            Self::Real => 0.0,
            Self::Float32 => self.short_sum(terms),
        }
    }

    /// What [`Self::underflow`] says of the program alone; nothing for exact arithmetic.
    pub fn program_underflow(self) -> f64 {
        match self {
            Self::Real => 0.0,
            Self::Float32 => self.underflow(),
        }
    }

    /// Relative error of a short sum (a Runge-Kutta combination) taken in any order, its coefficients
    /// rounded as well.
    pub fn short_sum(self, terms: usize) -> f64 {
        let analysis = 4.0 * gamma(terms as f64 + 8.0, UNIT);
        match self {
            Self::Real => analysis,
            Self::Float32 => analysis + 1.0001 * gamma(terms as f64 + 4.0, UNIT32),
        }
    }

    /// Relative error of evaluating a smooth activation: the mathematical library here (4 ulp) and, for
    /// float32, in the program.
    pub fn function(self) -> f64 {
        match self {
            Self::Real => 8.0 * UNIT,
            Self::Float32 => 8.0 * UNIT + 4.0 * f64::from(f32::EPSILON),
        }
    }

    /// Absolute error through underflow.
    pub fn underflow(self) -> f64 {
        match self {
            Self::Real => TINY,
            Self::Float32 => TINY32,
        }
    }
}

impl std::fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Real => "real",
            Self::Float32 => "float32",
        })
    }
}

/// Whether this process keeps subnormal numbers, as the underflow terms assume. Some libraries switch the
/// processor to flush them to zero.
pub fn keeps_subnormal_numbers() -> bool {
    std::hint::black_box(f64::MIN_POSITIVE) * std::hint::black_box(0.5) > 0.0
}

/// The first of these numbers that a float32 program cannot store but for a relative error of its [`UNIT32`]: those
/// beyond its range, and those that become subnormal there and are rounded.
pub fn beyond_float32(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let normal = f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX);
    let stored = |x: f64| normal.contains(&x.abs()) || x.is_finite() && f64::from(x as f32) == x;
    numbers.into_iter().find(|x| !stored(*x))
}

/// Relative slack of the analysis alone, for sums of about `terms` terms.
pub fn analysis_error(terms: usize) -> f64 {
    4.0 * gamma(terms as f64 + 8.0, UNIT)
}

/// A number certainly below the exact value of an operation whose correctly rounded result is `x`.
///
/// Sums need no underflow term: a float64 sum whose result is subnormal is exact.
#[inline(always)]
pub fn down(x: f64) -> f64 {
    x - x.abs() * f64::EPSILON
}

/// A number certainly above the exact value of a sum whose correctly rounded result is `x`.
#[inline(always)]
pub fn up(x: f64) -> f64 {
    x + x.abs() * f64::EPSILON
}

/// Like [`down`], for products and quotients, which may underflow.
#[inline(always)]
pub fn down_product(x: f64) -> f64 {
    down(x) - TINY
}

/// Like [`up`], for products and quotients, which may underflow.
#[inline(always)]
pub fn up_product(x: f64) -> f64 {
    up(x) + TINY
}

/// The format a concrete program computes in.
///
/// Sums are accumulated in float64 and rounded once per operation, so a float32 run stays well inside
/// the depth promised by [`Arithmetic::Float32`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// IEEE single precision.
    Float32,
    /// IEEE double precision.
    #[default]
    Float64,
}

impl Precision {
    /// Rounds every entry to the format.
    pub fn round(self, values: &mut [f64]) {
        if self == Self::Float32 {
            for value in values {
                *value = f64::from(*value as f32);
            }
        }
    }

    /// Rounds one number to the format.
    pub fn rounded(self, value: f64) -> f64 {
        match self {
            Self::Float32 => f64::from(value as f32),
            Self::Float64 => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directed_rounding_brackets_the_nearest_neighbours() {
        for x in [0.0, 1.0, -1.0, 1e300, -3.5e-310, 5e-324, f64::MIN_POSITIVE, 0.1, -1e-200] {
            assert!(down(x) <= x && x <= up(x), "{x}");
            if x.abs() >= f64::MIN_POSITIVE {
                assert!(down(x) <= x.next_down() && up(x) >= x.next_up(), "{x}");
            }
            assert!(down_product(x) < x && x < up_product(x) || x.abs() > 1.0, "{x}");
        }
        assert_eq!(down(0.0), 0.0, "an exact zero stays zero");
    }

    #[test]
    fn depth_covers_pairwise_summation() {
        for terms in 1..2000_usize {
            let pairwise = (terms as f64).log2().ceil() as usize + 2;
            assert!(Arithmetic::depth(terms) >= pairwise, "{terms}");
        }
    }

    #[test]
    fn numbers_beyond_float32_are_told() {
        let kept = [0.0, -0.0, 1.0, -0.1, 1.1754943508222875e-38, 3.4028234663852886e38];
        assert_eq!(beyond_float32(kept), None);
        assert_eq!(beyond_float32([1e-39_f32, -1e-45].map(f64::from)), None, "stored as they are");
        for x in [1.17e-38, -1e-45, 1e-46, 5e-324, 3.41e38, -1e39, f64::INFINITY] {
            assert_eq!(beyond_float32([1.0, x]), Some(x));
        }
        assert!(beyond_float32([f64::NAN]).is_some_and(f64::is_nan));
    }

    #[test]
    fn float32_costs_more_than_real() {
        assert!(Arithmetic::Float32.dot(300) > 1e6 * Arithmetic::Real.dot(300));
    }
}
