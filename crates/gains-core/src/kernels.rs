//! Small vectorised loops shared by everything that handles rows and boxes.
//!
//! Floating-point sums are only vectorised by the compiler when the lanes are written out, so they are.
//! Any summation order is covered by the rounding model.

/// Defines a function that is compiled three times, for AVX-512, for AVX2 and for the baseline, and picks
/// the widest the processor has when it is called.
macro_rules! vectorised {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<const $g:ident: usize>)?
     ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block) => {
        $(#[$meta])*
        $vis fn $name $(<const $g: usize>)? ($($arg: $ty),*) -> $ret {
            #[inline(always)]
            fn body $(<const $g: usize>)? ($($arg: $ty),*) -> $ret $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
                fn widest $(<const $g: usize>)? ($($arg: $ty),*) -> $ret {
                    body $(::<$g>)? ($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn wide $(<const $g: usize>)? ($($arg: $ty),*) -> $ret {
                    body $(::<$g>)? ($($arg),*)
                }
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                {
                    // SAFETY: the processor has just been asked for every feature the function enables.
                    return unsafe { widest $(::<$g>)? ($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: as above.
                    return unsafe { wide $(::<$g>)? ($($arg),*) };
                }
            }
            body $(::<$g>)? ($($arg),*)
        }
    };
}
pub(crate) use vectorised;

/// Sums are taken in so many lanes.
pub(crate) const LANES: usize = 8;

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

vectorised! {
    /// `(Σ a·centre, Σ |a|·radius, Σ |a|·|centre|)`: value, spread and size of a row over a centred box.
    pub fn row_over_box(a: &[f64], centre: &[f64], radius: &[f64]) -> (f64, f64, f64) {
        let n = a.len();
        let (centre, radius) = (&centre[..n], &radius[..n]);
        sums!(n, i, [
            value += a[i] * centre[i],
            spread += a[i].abs() * radius[i],
            size += a[i].abs() * centre[i].abs(),
        ])
    }
}

vectorised! {
    /// The same for the difference `a − b` of two rows.
    pub fn difference_over_box(a: &[f64], b: &[f64], centre: &[f64], radius: &[f64]) -> (f64, f64, f64) {
        let n = a.len();
        let (b, centre, radius) = (&b[..n], &centre[..n], &radius[..n]);
        sums!(n, i, [
            value += (a[i] - b[i]) * centre[i],
            spread += (a[i] - b[i]).abs() * radius[i],
            size += (a[i] - b[i]).abs() * centre[i].abs(),
        ])
    }
}

vectorised! {
    /// `(Σ a·b, Σ |a|·v)`.
    pub fn dot_and_size(a: &[f64], b: &[f64], v: &[f64]) -> (f64, f64) {
        let n = a.len();
        let (b, v) = (&b[..n], &v[..n]);
        sums!(n, i, [dot += a[i] * b[i], size += a[i].abs() * v[i]])
    }
}

vectorised! {
    /// `Σ |a|·v`.
    pub fn size(a: &[f64], v: &[f64]) -> f64 {
        let n = a.len();
        let v = &v[..n];
        sums!(n, i, [size += a[i].abs() * v[i]]).0
    }
}

vectorised! {
    /// What another row is at the corner of a centred box at which a row is least.
    pub fn at_lowest_corner(row: &[f64], other: &[f64], centre: &[f64], radius: &[f64]) -> f64 {
        let n = row.len();
        let (other, centre, radius) = (&other[..n], &centre[..n], &radius[..n]);
        sums!(n, i, [
            value += other[i] * if row[i] < 0.0 { centre[i] + radius[i] } else { centre[i] - radius[i] },
        ]).0
    }
}

vectorised! {
    /// `y += factor·x`.
    pub fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) -> () {
        for (y, x) in y.iter_mut().zip(x) {
            *y += factor * x;
        }
    }
}

vectorised! {
    /// Centres and radii of a box.
    pub fn centre_and_radius(lower: &[f64], upper: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = lower.len();
        let upper = &upper[..n];
        let (mut centre, mut radius) = (vec![0.0; n], vec![0.0; n]);
        for i in 0..n {
            let c = 0.5 * lower[i] + 0.5 * upper[i];
            centre[i] = c;
            radius[i] = (upper[i] - c).max(c - lower[i]);
        }
        (centre, radius)
    }
}

vectorised! {
    /// Adds `coefficient·[low, high]` to sums of lower ends, upper ends and magnitudes; `low` and `high`
    /// are the ends in the order the sign of the coefficient asks for.
    pub fn add_scaled_box(
        sum: (&mut [f64], &mut [f64], &mut [f64]),
        coefficient: f64,
        low: &[f64],
        high: &[f64],
    ) -> () {
        let (lower, upper, magnitude) = sum;
        let n = lower.len();
        let (upper, magnitude, low, high) = (&mut upper[..n], &mut magnitude[..n], &low[..n], &high[..n]);
        let size = coefficient.abs();
        for i in 0..n {
            lower[i] += coefficient * low[i];
            upper[i] += coefficient * high[i];
            // A product may underflow to zero; what is not zero must not look like it.
            let largest = low[i].abs().max(high[i].abs());
            magnitude[i] += size * largest + if largest > 0.0 { f64::MIN_POSITIVE } else { 0.0 };
        }
    }
}

vectorised! {
    /// `radius + gamma·(|centre| + radius)`.
    pub fn inflate(centre: &[f64], radius: &[f64], gamma: f64) -> Vec<f64> {
        let mut inflated = radius.to_vec();
        for (r, c) in inflated.iter_mut().zip(centre) {
            *r += gamma * (c.abs() + *r);
        }
        inflated
    }
}

vectorised! {
    /// Turns `W c` and an inflated `|W| r` into the lower and upper ends of `W x + b`, in place.
    pub fn ends(
        centre: &mut [f64],
        radius: &mut [f64],
        bias: &[f64],
        bias_magnitude: &[f64],
        gamma: f64,
        tiny: f64,
    ) -> () {
        let n = centre.len();
        let (radius, bias, bias_magnitude) = (&mut radius[..n], &bias[..n], &bias_magnitude[..n]);
        for i in 0..n {
            let c = centre[i] + bias[i];
            let r = radius[i] + gamma * bias_magnitude[i] + tiny;
            let r = r + f64::EPSILON * (c.abs() + r);
            centre[i] = c - r;
            radius[i] = c + r;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_corner_is_where_the_row_is_least() {
        let mut random = fastrand::Rng::with_seed(61);
        for n in [0, 1, 7, 8, 21] {
            let mut numbers = || (0..n).map(|_| 2.0 * random.f64() - 1.0).collect::<Vec<f64>>();
            let (row, other, centre, mut radius) = (numbers(), numbers(), numbers(), numbers());
            radius.iter_mut().for_each(|r| *r = r.abs());
            let least = |i: usize| if row[i] < 0.0 { centre[i] + radius[i] } else { centre[i] - radius[i] };
            let expected: f64 = (0..n).map(|i| other[i] * least(i)).sum();
            let found = at_lowest_corner(&row, &other, &centre, &radius);
            assert!((found - expected).abs() <= 1e-14 * (1.0 + n as f64), "{found} and {expected}");
        }
    }
}
