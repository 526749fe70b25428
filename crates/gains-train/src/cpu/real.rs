//! The numbers the CPU computes in: float32 to train, float64 to check gradients.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// A floating-point format.
pub trait Real:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
{
    /// Its name.
    const NAME: &'static str;
    /// 0.
    const ZERO: Self;
    /// ½.
    const HALF: Self;
    /// 1.
    const ONE: Self;

    /// The nearest number.
    fn of(value: f64) -> Self;

    /// As float64, exactly.
    fn wide(self) -> f64;

    /// Magnitude.
    fn abs(self) -> Self;

    /// `max(self, 0)`, but a NaN stays one.
    #[inline(always)]
    fn relu(self) -> Self {
        if self < Self::ZERO { Self::ZERO } else { self }
    }

    /// −1, 0 or 1.
    #[inline(always)]
    fn sign(self) -> Self {
        Self::when(self > Self::ZERO, Self::ONE) - Self::when(self < Self::ZERO, Self::ONE)
    }

    /// `value` if `condition`, else 0.
    #[inline(always)]
    fn when(condition: bool, value: Self) -> Self {
        if condition { value } else { Self::ZERO }
    }
}

macro_rules! real {
    ($type:ident) => {
        impl Real for $type {
            const NAME: &'static str = stringify!($type);
            const ZERO: Self = 0.0;
            const HALF: Self = 0.5;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn of(value: f64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn wide(self) -> f64 {
                self.into()
            }

            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }
        }
    };
}

real!(f32);
real!(f64);

/// `bit` if `on`, else 0.
#[inline(always)]
pub(crate) fn flag<T: From<bool> + Mul<Output = T>>(on: bool, bit: T) -> T {
    T::from(on) * bit
}

/// Defines a function over a [`Real`] that is compiled for AVX-512, for AVX2 and for the baseline, and picks the
/// widest the processor has when it is called. No operation is fused or reordered, so all give the same numbers.
macro_rules! vectorised {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<F>($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        $vis fn $name<F: Real>($($arg: $ty),*) {
            #[inline(always)]
            fn body<F: Real>($($arg: $ty),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
                fn widest<F: Real>($($arg: $ty),*) {
                    body::<F>($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn wide<F: Real>($($arg: $ty),*) {
                    body::<F>($($arg),*)
                }
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                {
                    // SAFETY: the processor has just been asked for every feature the function enables.
                    return unsafe { widest::<F>($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: as above.
                    return unsafe { wide::<F>($($arg),*) };
                }
            }
            body::<F>($($arg),*)
        }
    };
}
pub(crate) use vectorised;

/// A matrix inside a slice: entry `(i, j)` lies at `i·row + j·column`.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, F> {
    pub values: &'a [F],
    pub row: usize,
    pub column: usize,
}

/// `out[m×n] += a[m×k] · b[k×n]`; rows of `out` are contiguous and follow each other at `out_row`.
pub(crate) fn multiply_add<F: Real>(
    [m, n, k]: [usize; 3],
    out: &mut [F],
    out_row: usize,
    a: View<'_, F>,
    b: View<'_, F>,
) {
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    let last =
        |rows: usize, columns: usize, row: usize, column: usize| (rows - 1) * row + (columns - 1) * column;
    assert!(n <= out_row || m == 1, "rows of the product overlap");
    assert!(last(m, n, out_row, 1) < out.len(), "product out of bounds");
    assert!(last(m, k, a.row, a.column) < a.values.len(), "left factor out of bounds");
    assert!(last(k, n, b.row, b.column) < b.values.len(), "right factor out of bounds");
    // SAFETY: the strides stay inside the slices (asserted above), `out` is borrowed mutably and its entries do
    // not alias, and `F` is f32 or f64, which the crate supports.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            out_row as isize,
            true,
            a.values.as_ptr(),
            a.column as isize,
            a.row as isize,
            b.values.as_ptr(),
            b.column as isize,
            b.row as isize,
            F::ONE,
            F::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
