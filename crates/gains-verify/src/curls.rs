//! CURLS: merging several linear lower bounds of the same quantity into one (paper, section 5).
//!
//! The quantity is bounded below by *one of* several rows, depending on which trajectory was taken, so
//! only their minimum is certain. For two rows, `min(z, c) = c + min(0, z − c)`, and over a box with
//! `z − c ∈ [d, D]` the best linear lower bound of the concave `min(0, ·)` is its chord. More rows are
//! folded one after the other, smallest first.

use gains_core::arithmetic::{TINY, analysis_error, down, down_product, up};
use gains_core::interval::Centred;
use gains_core::kernels;

use gains_core::RowBlock;

/// A row being folded: `coefficients·x + constant` exactly, with its range over the box.
struct Candidate {
    coefficients: Vec<f64>,
    constant: f64,
    lower: f64,
    upper: f64,
    /// `Σ |a|·max|x| + |constant|`, for rounding.
    size: f64,
    /// Which blocks it is made of, and to which share.
    shares: Vec<(usize, f64)>,
}

impl Candidate {
    fn new(coefficients: Vec<f64>, constant: f64, shares: Vec<(usize, f64)>, domain: &Centred) -> Self {
        let (value, spread, size) = kernels::row_over_box(&coefficients, &domain.centre, &domain.radius);
        let size = size + spread + constant.abs();
        let owed = analysis_error(coefficients.len() + 2) * size + TINY;
        let lower = down(value - spread + constant - owed);
        let upper = up(value + spread + constant + owed);
        Self { coefficients, constant, lower, upper, size, shares }
    }

    /// The best single row below both `self` and `other`.
    fn meet(self, other: Self, domain: &Centred) -> Self {
        let (value, spread, size) = kernels::difference_over_box(
            &self.coefficients,
            &other.coefficients,
            &domain.centre,
            &domain.radius,
        );
        let constant = self.constant - other.constant;
        let owed = analysis_error(self.coefficients.len() + 4)
            * (size + spread + self.constant.abs() + other.constant.abs())
            + TINY;
        let low = down(value - spread + constant - owed);
        let high = up(value + spread + constant + owed);
        if high <= 0.0 {
            return self;
        }
        if low >= 0.0 {
            return other;
        }
        // Any weight in [0, 1] is sound with the shift below; this one makes the chord.
        let weight = (-low / (high - low)).clamp(0.0, 1.0);
        let rest = 1.0 - weight;
        let shift = down_product(rest * low).min(down_product(-weight * high));
        let coefficients: Vec<f64> =
            self.coefficients.iter().zip(&other.coefficients).map(|(z, c)| weight * z + rest * c).collect();
        let owed = 8.0 * f64::EPSILON * (weight * self.size + rest * other.size + shift.abs()) + TINY;
        let constant = down(weight * self.constant + rest * other.constant + shift - owed);
        let scaled = |shares: Vec<(usize, f64)>, by: f64| shares.into_iter().map(move |(i, s)| (i, by * s));
        let shares = scaled(self.shares, weight).chain(scaled(other.shares, rest)).collect();
        Self::new(coefficients, constant, shares, domain)
    }
}

/// Merges row blocks of equal size, row by row, over a box of states. Also tells, for every row, the share of
/// each block in it.
pub fn merge(blocks: &[RowBlock], domain: &Centred) -> (RowBlock, Vec<Vec<f64>>) {
    if let [only] = blocks {
        return (only.clone(), vec![vec![1.0]; only.count]);
    }
    let mut shares = vec![vec![0.0; blocks.len()]; blocks[0].count];
    let mut merged = RowBlock::zeros(blocks[0].count, blocks[0].length);
    for row in 0..merged.count {
        let mut candidates: Vec<Candidate> = blocks
            .iter()
            .enumerate()
            .map(|(index, block)| {
                let constant = down(block.constant[row] - block.slack[row]);
                Candidate::new(block.row(row).to_vec(), constant, vec![(index, 1.0)], domain)
            })
            .collect();
        // A row that is no longer finite bounds nothing, and neither does any merger with it.
        if candidates.iter().any(|c| !c.size.is_finite()) {
            merged.constant[row] = f64::NEG_INFINITY;
            continue;
        }
        candidates.sort_by(|a, b| a.lower.total_cmp(&b.lower));
        let mut rest = candidates.into_iter();
        let Some(mut best) = rest.next() else { continue };
        for candidate in rest {
            // Sorted: everything later is nowhere below `best` either.
            if best.upper <= candidate.lower {
                break;
            }
            best = best.meet(candidate, domain);
        }
        merged.row_mut(row).copy_from_slice(&best.coefficients);
        merged.constant[row] = best.constant;
        best.shares.iter().for_each(|(block, share)| shares[row][*block] += share);
    }
    (merged, shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gains_core::BoxVec;

    fn block(rows: &[(&[f64], f64)]) -> RowBlock {
        let mut block = RowBlock::zeros(rows.len(), rows[0].0.len());
        for (i, (a, c)) in rows.iter().enumerate() {
            block.row_mut(i).copy_from_slice(a);
            block.constant[i] = *c;
        }
        block
    }

    #[test]
    fn the_chord_of_two_crossing_rows() {
        // On [−1, 1]: min(x, −x) is bounded by the constant −1, and by nothing better.
        let domain = BoxVec::new(vec![-1.0], vec![1.0]).centres();
        let (merged, _) = merge(&[block(&[(&[1.0], 0.0)]), block(&[(&[-1.0], 0.0)])], &domain);
        assert!(merged.row(0)[0].abs() < 1e-12);
        assert!(merged.constant[0] <= -1.0 && merged.constant[0] > -1.0 - 1e-12);
    }

    #[test]
    fn a_row_below_all_others_survives_unchanged() {
        let domain = BoxVec::new(vec![0.0, 0.0], vec![1.0, 2.0]).centres();
        let blocks =
            [block(&[(&[1.0, 1.0], 5.0)]), block(&[(&[0.5, 0.5], -7.0)]), block(&[(&[3.0, 0.0], 0.0)])];
        let (merged, _) = merge(&blocks, &domain);
        assert_eq!(merged.row(0), &[0.5, 0.5]);
        assert!((merged.constant[0] + 7.0).abs() < 1e-12);
    }

    /// Random rows on random boxes: the merged row lies below every row at random points and corners.
    #[test]
    fn merged_rows_lie_below_their_parts() {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
        };
        for trial in 0..300 {
            let n = 1 + trial % 7;
            let scale = 10.0_f64.powi((trial % 9) as i32 * 3 - 12);
            let lower: Vec<f64> = (0..n).map(|_| random() * scale).collect();
            let upper: Vec<f64> = lower.iter().map(|l| l + (random() + 1.0) * scale).collect();
            let domain = BoxVec::new(lower.clone(), upper.clone());
            let blocks: Vec<RowBlock> = (0..2 + trial % 4)
                .map(|_| {
                    let a: Vec<f64> = (0..n).map(|_| random()).collect();
                    block(&[(&a, random() * scale)])
                })
                .collect();
            let (merged, _) = merge(&blocks, &domain.centres());
            for k in 0..40 {
                let x: Vec<f64> = (0..n)
                    .map(|i| {
                        let u = if k % 2 == 0 { f64::from(random() > 0.0) } else { random() * 0.5 + 0.5 };
                        lower[i] + u * (upper[i] - lower[i])
                    })
                    .collect();
                let at = |rows: &RowBlock| {
                    rows.row(0).iter().zip(&x).map(|(a, x)| a * x).sum::<f64>() + rows.constant[0]
                };
                for part in &blocks {
                    assert!(at(&merged) <= at(part) + 1e-14 * scale * n as f64, "trial {trial}");
                }
            }
        }
    }
}
