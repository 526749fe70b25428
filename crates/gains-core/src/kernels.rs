//! Small vectorised loops shared by everything that handles rows.
//!
//! Floating-point sums are only vectorised by the compiler when the lanes are written out, so they are.
//! Any summation order is covered by the rounding model.

use crate::relaxation::Lines;

const LANES: usize = 8;

/// Sums of several products at once, in eight lanes; `$term` sees the index through `$i`.
macro_rules! sums {
    ($length:expr, $i:ident, [$($name:ident += $term:expr),+ $(,)?]) => {{
        $(let mut $name = [0.0_f64; LANES];)+
        let blocks = $length / LANES;
        for block in 0..blocks {
            for lane in 0..LANES {
                let $i = block * LANES + lane;
                $($name[lane] += $term;)+
            }
        }
        for $i in blocks * LANES..$length {
            $($name[$i % LANES] += $term;)+
        }
        ($($name.iter().sum::<f64>(),)+)
    }};
}

/// `(Σ a·centre, Σ |a|·radius, Σ |a|·|centre|)`: value, spread and size of a row over a centred box.
#[inline(always)]
pub fn row_over_box(a: &[f64], centre: &[f64], radius: &[f64]) -> (f64, f64, f64) {
    let n = a.len();
    let (centre, radius) = (&centre[..n], &radius[..n]);
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            sums!(
                n,
                i,
                [
                    value += a[i] * centre[i],
                    spread += a[i].abs() * radius[i],
                    size += a[i].abs() * centre[i].abs(),
                ]
            )
        },
    )
}

/// The same for the difference `a − b` of two rows.
#[inline(always)]
pub fn difference_over_box(a: &[f64], b: &[f64], centre: &[f64], radius: &[f64]) -> (f64, f64, f64) {
    let n = a.len();
    let (b, centre, radius) = (&b[..n], &centre[..n], &radius[..n]);
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            sums!(
                n,
                i,
                [
                    value += (a[i] - b[i]) * centre[i],
                    spread += (a[i] - b[i]).abs() * radius[i],
                    size += (a[i] - b[i]).abs() * centre[i].abs(),
                ]
            )
        },
    )
}

/// `(Σ a·b, Σ |a|·v)`.
#[inline(always)]
pub fn dot_and_size(a: &[f64], b: &[f64], v: &[f64]) -> (f64, f64) {
    let n = a.len();
    let (b, v) = (&b[..n], &v[..n]);
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || sums!(n, i, [dot += a[i] * b[i], size += a[i].abs() * v[i]]),
    )
}

/// `Σ |a|·v`.
#[inline(always)]
pub fn size(a: &[f64], v: &[f64]) -> f64 {
    let n = a.len();
    let v = &v[..n];
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || sums!(n, i, [size += a[i].abs() * v[i]]).0,
    )
}

/// `y += factor·x`.
#[inline(always)]
pub fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            for (y, x) in y.iter_mut().zip(x) {
                *y += factor * x;
            }
        },
    );
}

/// Replaces each coefficient by itself times the slope of its side; returns the sum of the intercepts
/// taken and a bound of what rounding may be proportional to. See [`crate::Rows::relax`].
#[inline(always)]
pub fn relax_row(a: &mut [f64], lines: &Lines) -> (f64, f64) {
    let n = a.len();
    let (lower_slope, upper_slope) = (&lines.lower_slope[..n], &lines.upper_slope[..n]);
    let (lower_at, upper_at) = (&lines.lower_intercept[..n], &lines.upper_intercept[..n]);
    let magnitude = &lines.magnitude[..n];
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut constant = [0.0_f64; LANES];
            let mut owed = [0.0_f64; LANES];
            let mut one = |i: usize, lane: usize| {
                // One of the two parts is zero, so these are the slope and intercept of the right side.
                let (positive, negative) = (a[i].max(0.0), a[i].min(0.0));
                let offset = positive * lower_at[i] + negative * upper_at[i];
                a[i] = positive * lower_slope[i] + negative * upper_slope[i];
                constant[lane] += offset;
                owed[lane] += offset.abs() + a[i].abs() * magnitude[i];
            };
            for block in 0..n / LANES {
                for lane in 0..LANES {
                    one(block * LANES + lane, lane);
                }
            }
            for i in n / LANES * LANES..n {
                one(i, i % LANES);
            }
            (constant.iter().sum(), owed.iter().sum())
        },
    )
}
