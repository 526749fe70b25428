//! Entries side by side, and some of them.

use std::ops::Range;

use crate::cpu::Real;
use crate::matrix::Matrix;

/// Rows of several values side by side.
pub fn concat<F: Real>(x: &[&Matrix<F>]) -> Matrix<F> {
    let rows = x[0].rows;
    let columns = x.iter().map(|x| x.columns).sum();
    let lane = |of: fn(&Matrix<F>) -> &Vec<F>| {
        let mut out = Vec::new();
        for row in 0..rows {
            for x in x.iter().filter(|x| !of(x).is_empty()) {
                out.extend_from_slice(&of(x)[row * x.columns..][..x.columns]);
            }
        }
        out
    };
    Matrix { rows, columns, centre: lane(|x| &x.centre), radius: lane(|x| &x.radius) }
}

/// Some columns.
pub fn slice<F: Real>(x: &Matrix<F>, range: Range<usize>) -> Matrix<F> {
    let lane = |lane: &[F]| {
        lane.chunks_exact(x.columns).flat_map(|row| row[range.clone()].iter().copied()).collect()
    };
    Matrix { rows: x.rows, columns: range.len(), centre: lane(&x.centre), radius: lane(&x.radius) }
}

/// The gradient of what [`slice`] took columns of.
pub fn slice_back<F: Real>(x: &Matrix<F>, range: Range<usize>, gradient: &Matrix<F>) -> Matrix<F> {
    let mut part = x.zeros_like();
    for (to, from) in [(&mut part.centre, &gradient.centre), (&mut part.radius, &gradient.radius)] {
        for (to, from) in to.chunks_exact_mut(x.columns).zip(from.chunks_exact(range.len())) {
            to[range.clone()].copy_from_slice(from);
        }
    }
    part
}
