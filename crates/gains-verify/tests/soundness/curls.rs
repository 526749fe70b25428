//! CURLS in exact arithmetic: the merged row must lie below every row it replaces, on the whole box.

use gains_core::BoxVec;
use gains_core::RowBlock;
use gains_verify::curls::merge;

use crate::exact::Exact;

fn number(random: &mut fastrand::Rng, scale: f64) -> f64 {
    if random.u8(..) < 15 { 0.0 } else { (2.0 * random.f64() - 1.0) * scale }
}

/// The smallest value over the box of `part − merged`, both with their slack taken off.
fn smallest_gap(part: &RowBlock, merged: &RowBlock, row: usize, domain: &BoxVec) -> Exact {
    let constant = |rows: &RowBlock| &Exact::from(rows.constant[row]) - &rows.slack[row].into();
    (0..domain.len()).fold(&constant(part) - &constant(merged), |sum, i| {
        let slope = &Exact::from(part.row(row)[i]) - &merged.row(row)[i].into();
        &sum + &(&slope * &domain.lower[i].into()).min(&slope * &domain.upper[i].into())
    })
}

#[test]
fn merged_rows_lie_below_every_part_exactly() {
    let mut random = fastrand::Rng::with_seed(31);
    let mut crossing = 0;
    for round in 0..3000 {
        let n = random.usize(1..7);
        let scale = 10.0_f64.powi([0, -6, 6, -150, 15, -300][round % 6]);
        let width = scale * [1.0, 1e-9, 0.0, 1e3][random.usize(0..4)];
        let lower: Vec<f64> = (0..n).map(|_| number(&mut random, scale)).collect();
        let upper = lower.iter().map(|l| l + width * random.f64()).collect();
        let domain = BoxVec::new(lower, upper);
        let rows = random.usize(1..4);
        let near: Vec<f64> = (0..n).map(|_| number(&mut random, 1.0)).collect();
        let blocks: Vec<RowBlock> = (0..random.usize(2..6))
            .map(|_| {
                let mut block = RowBlock::zeros(rows, n);
                for row in 0..rows {
                    // Often close to a common row, where the differences are nothing but rounding.
                    let spread = [1.0, 1e-3, 1e-15][random.usize(0..3)];
                    for (a, near) in block.row_mut(row).iter_mut().zip(&near) {
                        *a = near + number(&mut random, spread);
                    }
                    block.constant[row] = number(&mut random, spread * scale);
                    block.slack[row] = number(&mut random, 1e-12 * scale).abs();
                }
                block
            })
            .collect();
        let (merged, _) = merge(&blocks, &domain.centres());
        for row in 0..rows {
            for (index, part) in blocks.iter().enumerate() {
                let gap = smallest_gap(part, &merged, row, &domain);
                assert!(!gap.is_negative(), "round {round} row {row} part {index}: {:e}", gap.to_f64());
                crossing += usize::from(part.row(row) != merged.row(row));
            }
        }
    }
    assert!(crossing > 5000, "{crossing}");
}

/// Two rows that cross: no single row can be better than the chord, and the merged one is the chord up to
/// rounding. Its value at both ends of a one-dimensional box is the minimum there.
#[test]
fn merging_two_rows_gives_the_chord() {
    let mut random = fastrand::Rng::with_seed(32);
    for _ in 0..1000 {
        let (l, u) = (-random.f64() - 0.01, random.f64() + 0.01);
        let domain = BoxVec::new(vec![l], vec![u]);
        let block = |a: f64, c: f64| {
            let mut block = RowBlock::zeros(1, 1);
            block.row_mut(0)[0] = a;
            block.constant[0] = c;
            block
        };
        let parts = [block(number(&mut random, 2.0), 0.3), block(number(&mut random, 2.0), 0.3)];
        let (merged, _) = merge(&parts, &domain.centres());
        for x in [l, u] {
            let at = |rows: &RowBlock| rows.row(0)[0] * x + rows.constant[0];
            let least = at(&parts[0]).min(at(&parts[1]));
            assert!((at(&merged) - least).abs() <= 1e-13, "{} {least}", at(&merged));
        }
    }
}

/// A part that is not finite bounds nothing, so neither does what it is merged into.
#[test]
fn a_broken_part_makes_a_useless_row() {
    let domain = BoxVec::new(vec![-1.0], vec![1.0]);
    for broken in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for place in 0..3 {
            let mut bad = RowBlock::zeros(1, 1);
            match place {
                0 => bad.row_mut(0)[0] = broken,
                1 => bad.constant[0] = broken,
                _ => bad.slack[0] = broken,
            }
            for blocks in [[RowBlock::zeros(1, 1), bad.clone()], [bad, RowBlock::zeros(1, 1)]] {
                let (merged, _) = merge(&blocks, &domain.centres());
                assert_eq!(merged.constant[0], f64::NEG_INFINITY, "{broken} at {place}");
            }
        }
    }
}
