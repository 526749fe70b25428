//! Numbers without rounding: whole multiples of powers of two, as long as they need to be.
//!
//! Every float64 is one, and so is every sum and product. Quotients are cut off after 1,500 bits, and
//! long computations may be trimmed to as many: that is 1e-450 of the value, some 280 orders of magnitude
//! below the smallest thing the code under test can represent, so comparisons may take it for exact.

use std::cmp::Ordering;
use std::ops::{Add, Mul, Neg, Sub};

use num_bigint::BigInt;

const BITS: u64 = 1500;

/// `mantissa · 2^exponent`.
#[derive(Clone, Debug)]
pub struct Exact {
    mantissa: BigInt,
    exponent: i64,
}

impl Exact {
    /// Zero.
    pub fn zero() -> Self {
        Self { mantissa: BigInt::ZERO, exponent: 0 }
    }

    /// Shifts the mantissa so that the exponent becomes `exponent`, which must not be larger.
    fn aligned(&self, exponent: i64) -> BigInt {
        &self.mantissa << (self.exponent - exponent)
    }

    /// Keeps the leading bits.
    pub fn trim(self) -> Self {
        let bits = self.mantissa.bits();
        if bits <= 2 * BITS {
            return self;
        }
        let drop = bits - BITS;
        Self { mantissa: self.mantissa >> drop, exponent: self.exponent + drop as i64 }
    }

    /// The quotient, to 1,500 bits.
    pub fn over(&self, divisor: &Self) -> Self {
        let shift = (BITS + divisor.mantissa.bits()).saturating_sub(self.mantissa.bits()) as i64;
        Self {
            mantissa: (&self.mantissa << shift) / &divisor.mantissa,
            exponent: self.exponent - divisor.exponent - shift,
        }
    }

    /// Absolute value.
    pub fn abs(&self) -> Self {
        if self.is_negative() { -self } else { self.clone() }
    }

    /// Whether it is below zero.
    pub fn is_negative(&self) -> bool {
        self.mantissa < BigInt::ZERO
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.mantissa == BigInt::ZERO
    }

    /// The nearer neighbour among float64 numbers, or nearly: for scales and messages only.
    pub fn to_f64(&self) -> f64 {
        let drop = self.mantissa.bits().saturating_sub(60);
        let head: i128 = (&self.mantissa >> drop).try_into().unwrap_or(0);
        let mut value = head as f64;
        let mut left = self.exponent + drop as i64;
        while left != 0 && value != 0.0 && value.is_finite() {
            let part = left.clamp(-1000, 1000);
            value *= 2.0_f64.powi(part as i32);
            left -= part;
        }
        value
    }

    /// `Σ a·b`.
    pub fn dot(a: &[f64], b: &[f64]) -> Self {
        a.iter().zip(b).fold(Self::zero(), |sum, (&a, &b)| &sum + &(&Self::from(a) * &Self::from(b)))
    }

    /// `Σ |a|·|b|`.
    pub fn size(a: &[f64], b: &[f64]) -> Self {
        a.iter()
            .zip(b)
            .fold(Self::zero(), |sum, (&a, &b)| &sum + &(&Self::from(a.abs()) * &Self::from(b.abs())))
    }
}

impl From<f64> for Exact {
    fn from(x: f64) -> Self {
        assert!(x.is_finite(), "{x} is not a number to compute with");
        let bits = x.to_bits();
        let fraction = (bits & ((1 << 52) - 1)) as i64;
        let (mantissa, exponent) = match (bits >> 52 & 0x7ff) as i64 {
            0 => (fraction, -1074),
            field => (fraction | 1 << 52, field - 1075),
        };
        let shift = if mantissa == 0 { 0 } else { mantissa.trailing_zeros() };
        let mantissa = (mantissa >> shift) * if x < 0.0 { -1 } else { 1 };
        Self { mantissa: mantissa.into(), exponent: exponent + i64::from(shift) }
    }
}

impl Add for &Exact {
    type Output = Exact;
    fn add(self, other: &Exact) -> Exact {
        if self.is_zero() {
            return other.clone();
        }
        if other.is_zero() {
            return self.clone();
        }
        let exponent = self.exponent.min(other.exponent);
        Exact { mantissa: self.aligned(exponent) + other.aligned(exponent), exponent }
    }
}

impl Sub for &Exact {
    type Output = Exact;
    fn sub(self, other: &Exact) -> Exact {
        self + &-other
    }
}

impl Mul for &Exact {
    type Output = Exact;
    fn mul(self, other: &Exact) -> Exact {
        Exact { mantissa: &self.mantissa * &other.mantissa, exponent: self.exponent + other.exponent }
    }
}

impl Neg for &Exact {
    type Output = Exact;
    fn neg(self) -> Exact {
        Exact { mantissa: -&self.mantissa, exponent: self.exponent }
    }
}

macro_rules! by_value {
    ($($name:ident $method:ident),*) => {$(
        impl $name for Exact {
            type Output = Exact;
            fn $method(self, other: Exact) -> Exact {
                (&self).$method(&other)
            }
        }
    )*};
}
by_value!(Add add, Sub sub, Mul mul);

impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Exact {}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Exact {
    fn cmp(&self, other: &Self) -> Ordering {
        let exponent = self.exponent.min(other.exponent);
        self.aligned(exponent).cmp(&other.aligned(exponent))
    }
}

#[test]
fn exact_numbers_agree_with_floats_where_those_are_exact() {
    for x in [0.0, 1.0, -1.5, 5e-324, f64::MIN_POSITIVE, f64::MAX, -0.1, 1e-310] {
        assert_eq!(Exact::from(x).to_f64(), x, "{x:e}");
        for y in [0.0, -1.0, 3.0, 5e-324, -1e300] {
            assert_eq!(Exact::from(x).cmp(&Exact::from(y)), x.partial_cmp(&y).unwrap());
        }
    }
    let third = Exact::from(1.0).over(&Exact::from(3.0));
    assert_eq!(third.to_f64(), 1.0 / 3.0);
    // 0.1 + 0.2 is not the float64 0.3, and not the rounded sum either.
    let sum = Exact::from(0.1) + Exact::from(0.2);
    assert!(sum > Exact::from(0.3) && sum < Exact::from(0.1 + 0.2));
}
