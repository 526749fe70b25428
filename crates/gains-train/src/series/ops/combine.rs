//! Sums of matrices, latent states around their means, and matrices made of rows of others.

use super::super::tape::Matrix;
use crate::cpu::Real;
use crate::cpu::real::vectorised;

vectorised! {
    /// `out += factor·x`.
    fn add<F>(out: &mut [F], x: &[F], factor: F) {
        for (o, x) in out.iter_mut().zip(x) {
            *o += factor * *x;
        }
    }
}

/// The rows from `start` to `end`.
pub fn rows<F: Real>(x: &Matrix<F>, start: usize, end: usize) -> Matrix<F> {
    let range = start * x.columns..end * x.columns;
    let radius = if x.is_box() { x.radius[range.clone()].to_vec() } else { Vec::new() };
    Matrix { rows: end - start, columns: x.columns, centre: x.centre[range].to_vec(), radius }
}

/// `base + scale·Σ w k`. Of boxes that know nothing of each other, the radii add up with the magnitudes of the
/// factors.
pub fn combine<F: Real>(count: usize, base: &Matrix<F>, terms: &[(&Matrix<F>, F)], scale: &[F]) -> Matrix<F> {
    let mut out = rows(base, 0, count);
    for row in 0..count {
        for (k, weight) in terms {
            let factor = *weight * scale[row];
            let (at, from) = (row * base.columns, row * k.columns..(row + 1) * k.columns);
            add(&mut out.centre[at..at + k.columns], &k.centre[from.clone()], factor);
            if k.is_box() {
                add(&mut out.radius[at..at + k.columns], &k.radius[from], factor.abs());
            }
        }
    }
    out
}

/// The gradient of one term of [`combine`], added to `target`.
pub fn term_back<F: Real>(gradient: &Matrix<F>, weight: F, scale: &[F], target: &mut Matrix<F>) {
    for row in 0..gradient.rows {
        let factor = weight * scale[row];
        let at = row * target.columns..(row + 1) * target.columns;
        let from = row * gradient.columns..row * gradient.columns + target.columns;
        add(&mut target.centre[at.clone()], &gradient.centre[from.clone()], factor);
        if gradient.is_box() {
            add(&mut target.radius[at], &gradient.radius[from], factor.abs());
        }
    }
}

/// The first half of the columns, plus noise times the magnitude of the second half if there is any.
///
/// # Shapes
///
/// `latent` has `2n` columns, the result `n`; `noise` is empty or has `n` numbers for each row. Boxes take none.
pub fn sample<F: Real>(latent: &Matrix<F>, noise: &[F]) -> Matrix<F> {
    let half = latent.columns / 2;
    let mut out = Matrix::zeros(latent.rows, half, latent.is_box());
    for row in 0..latent.rows {
        for column in 0..half {
            let (to, from) = (row * half + column, row * latent.columns + column);
            out.centre[to] = latent.centre[from];
            if let Some(noise) = noise.get(to) {
                out.centre[to] += latent.centre[from + half].abs() * *noise;
            }
            if latent.is_box() {
                out.radius[to] = latent.radius[from];
            }
        }
    }
    out
}

/// The gradient of [`sample`].
pub fn sample_back<F: Real>(latent: &Matrix<F>, noise: &[F], gradient: &Matrix<F>) -> Matrix<F> {
    let half = latent.columns / 2;
    let mut out = Matrix::zeros(latent.rows, latent.columns, latent.is_box());
    for row in 0..latent.rows {
        for column in 0..half {
            let (to, from) = (row * half + column, row * latent.columns + column);
            out.centre[from] = gradient.centre[to];
            if let Some(noise) = noise.get(to) {
                out.centre[from + half] = gradient.centre[to] * *noise * latent.centre[from + half].sign();
            }
            if latent.is_box() {
                out.radius[from] = gradient.radius[to];
            }
        }
    }
    out
}

/// Pieces (matrix, from row, to row) one after another.
pub fn stack<F: Real>(pieces: &[(&Matrix<F>, usize, usize)]) -> Matrix<F> {
    let mut out = Matrix { columns: pieces.first().map_or(0, |piece| piece.0.columns), ..Matrix::default() };
    for (x, start, end) in pieces {
        let range = start * x.columns..end * x.columns;
        out.rows += end - start;
        out.centre.extend_from_slice(&x.centre[range.clone()]);
        if x.is_box() {
            out.radius.extend_from_slice(&x.radius[range]);
        }
    }
    out
}
