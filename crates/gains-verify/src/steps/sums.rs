//! Runge-Kutta sums of boxes through the differences of their slopes.

use gains_core::interval::combine;
use gains_core::{Arithmetic, BoxVec};

/// `base + Σⱼ cⱼ kⱼ` written with the first slope and the differences: `(Σⱼ cⱼ) k₁ + Σ_{m≥2} (Σ_{j≥m} cⱼ) rₘ`.
///
/// The tail sums are rounded; their error is at most a few ulp of `Σ |cⱼ|`, charged on every term. What the
/// program rounds when it forms `base + Σⱼ cⱼ kⱼ` is charged on `magnitude = |base| + Σⱼ |cⱼ||kⱼ|`.
pub(super) fn telescoped(
    base: Option<&BoxVec>,
    coefficients: &[f64],
    slopes: &[BoxVec],
    differences: &[BoxVec],
    (magnitude, arithmetic): (&[f64], Arithmetic),
) -> BoxVec {
    let n = slopes[0].len();
    let mut tail = 0.0;
    let mut terms: Vec<(f64, &BoxVec)> = Vec::with_capacity(coefficients.len());
    for (m, c) in coefficients.iter().enumerate().rev() {
        tail += c;
        terms.push((tail, if m == 0 { &slopes[0] } else { &differences[m - 1] }));
    }
    let (mut sum, _) = combine(base, &terms, n, Arithmetic::Real);
    let total: f64 = coefficients.iter().map(|c| c.abs()).sum();
    let slack = (4.0 + coefficients.len() as f64) * f64::EPSILON * total;
    let mut size = vec![0.0; n];
    for (_, part) in &terms {
        for ((size, l), u) in size.iter_mut().zip(&part.lower).zip(&part.upper) {
            *size += l.abs().max(u.abs());
        }
    }
    let rounding = arithmetic.program_short_sum(coefficients.len() + 1);
    let tiny = arithmetic.program_underflow();
    sum.widen(|i| {
        let owed = if magnitude[i] > 0.0 { rounding * magnitude[i] + tiny } else { 0.0 };
        slack * size[i] + owed
    });
    sum
}
