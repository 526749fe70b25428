//! Weighted sums: residuals, and the stages of solver steps.

use crate::cpu::Real;
use crate::matrix::Matrix;

/// `Σ c·x`; a box has the radius `Σ |c|·r`.
pub fn forward<F: Real>(coefficients: &[f64], x: &[&Matrix<F>]) -> Matrix<F> {
    let mut out = x[0].zeros_like();
    for (coefficient, x) in coefficients.iter().zip(x) {
        let factor = F::of(*coefficient);
        for (sum, value) in out.centre.iter_mut().zip(&x.centre) {
            *sum += factor * *value;
        }
        for (sum, value) in out.radius.iter_mut().zip(&x.radius) {
            *sum += factor.abs() * *value;
        }
    }
    out
}

/// The gradient of the argument with this coefficient.
pub fn backward<F: Real>(coefficient: f64, gradient: &Matrix<F>) -> Matrix<F> {
    let factor = F::of(coefficient);
    let times = |lane: &[F], factor: F| lane.iter().map(|value| factor * *value).collect();
    Matrix {
        rows: gradient.rows,
        columns: gradient.columns,
        centre: times(&gradient.centre, factor),
        radius: times(&gradient.radius, factor.abs()),
    }
}
