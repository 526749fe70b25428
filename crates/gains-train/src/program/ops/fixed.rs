//! Affine maps without parameters: pooling, moves of entries, means of groups, normalisation by given numbers.

use std::sync::Arc;

use gains_core::affine::{AffineMap, GroupPart};

use super::Clock;
use crate::cpu::Real;
use crate::matrix::Matrix;

/// Such a map.
#[derive(Clone, Debug)]
pub struct Fixed(pub Arc<AffineMap>);

impl Fixed {
    /// `W x + b`, or of changes `W d`.
    pub fn forward<F: Real>(&self, x: &Matrix<F>, clock: Clock) -> Matrix<F> {
        let centre =
            |row: &[f64]| if clock.biased { self.0.apply(row, 0.0) } else { self.0.apply_linear(row) };
        let columns = self.0.output().len();
        let radius = rows(&x.radius, x.columns, |row| self.absolute(row));
        Matrix { rows: x.rows, columns, centre: rows(&x.centre, x.columns, centre), radius }
    }

    /// The gradient of the input.
    pub fn backward<F: Real>(&self, x: &Matrix<F>, gradient: &Matrix<F>) -> Matrix<F> {
        let centre = rows(&gradient.centre, gradient.columns, |row| self.0.apply_transposed(row));
        // |W| is symmetric where it is not W.
        let radius = rows(&gradient.radius, gradient.columns, |row| match self.is_rest() {
            true => self.absolute(row),
            false => self.0.apply_transposed(row),
        });
        Matrix { rows: x.rows, columns: x.columns, centre, radius }
    }

    fn is_rest(&self) -> bool {
        matches!(&*self.0, AffineMap::Group(map) if map.part() == GroupPart::Rest)
    }

    /// `|W| r`. All factors are positive but those of `x − mean`, where an entry counts `1 − 1/n` and the others of its
    /// group `1/n`: together `mean(r) + r − 2r/n`.
    fn absolute(&self, radius: &[f64]) -> Vec<f64> {
        let moved = self.0.apply_linear(radius);
        if !self.is_rest() {
            return moved;
        }
        // The entry that `terms` counts besides the members of a group are two.
        let members = (self.0.terms() - 2) as f64;
        let each = radius.iter().zip(moved);
        each.map(|(r, rest)| (r - rest) + r - 2.0 * r / members).collect()
    }
}

/// A function of every row.
fn rows<F: Real>(values: &[F], columns: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<F> {
    let mut out = Vec::new();
    for row in values.chunks_exact(columns.max(1)) {
        let row: Vec<f64> = row.iter().map(|value| value.wide()).collect();
        out.extend(f(&row).into_iter().map(F::of));
    }
    out
}
