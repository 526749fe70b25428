//! One row of coefficients through lines.

use crate::kernels::{LANES, vectorised};

use super::Lines;

/// What becomes of a coefficient: itself times the slope of its side, the intercept taken, and what rounding may be
/// proportional to. `slopes` and `offsets` are those of the lower and of the upper line.
#[inline(always)]
fn relaxed(a: f64, slopes: (f64, f64), offsets: (f64, f64), magnitude: f64) -> (f64, f64, f64) {
    // One of the two parts is zero, so these are the slope and intercept of the right side. Not `max` and `min`,
    // which would turn NaN into zero.
    let (positive, negative) = if a > 0.0 { (a, 0.0) } else { (0.0, a) };
    let offset = positive * offsets.0 + negative * offsets.1;
    let a = positive * slopes.0 + negative * slopes.1;
    (a, offset, offset.abs() + a.abs() * magnitude)
}

vectorised! {
    /// Replaces each coefficient by itself times the slope of its side; returns the sum of the intercepts
    /// taken and what rounding may be proportional to. See [`crate::Rows::relax`].
    ///
    /// Blocks are copied out of the row and back, so that the compiler sees that nothing overlaps.
    pub(crate) fn relax_row(a: &mut [f64], lines: &Lines) -> (f64, f64) {
        let n = a.len();
        let (lower_slope, upper_slope) = (&lines.lower_slope[..n], &lines.upper_slope[..n]);
        let (lower_at, upper_at) = (&lines.lower_intercept[..n], &lines.upper_intercept[..n]);
        let magnitude = &lines.magnitude[..n];
        let mut constant = [0.0_f64; LANES];
        let mut owed = [0.0_f64; LANES];
        let whole = n / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            let block = |side: &[f64]| -> [f64; LANES] {
                let mut block = [0.0; LANES];
                block.copy_from_slice(&side[first..first + LANES]);
                block
            };
            let slopes = (block(lower_slope), block(upper_slope));
            let offsets = (block(lower_at), block(upper_at));
            let (magnitude, mut row) = (block(magnitude), block(a));
            for i in 0..LANES {
                let (slopes, offsets) = ((slopes.0[i], slopes.1[i]), (offsets.0[i], offsets.1[i]));
                let (next, offset, size) = relaxed(row[i], slopes, offsets, magnitude[i]);
                row[i] = next;
                constant[i] += offset;
                owed[i] += size;
            }
            a[first..first + LANES].copy_from_slice(&row);
        }
        for i in whole..n {
            let (slopes, offsets) = ((lower_slope[i], upper_slope[i]), (lower_at[i], upper_at[i]));
            let (next, offset, size) = relaxed(a[i], slopes, offsets, magnitude[i]);
            a[i] = next;
            constant[i % LANES] += offset;
            owed[i % LANES] += size;
        }
        (constant.iter().sum(), owed.iter().sum())
    }
}
