//! Numbers that know how they depend on others, so that a rule is written once and its gradient comes of itself.
//!
//! Elementwise rules ([`super::ops`]) are functions of a few ends of intervals. Written over [`Number`] they run on
//! plain float64 on the way forward and on [`Dual`] on the way back.

use std::ops::{Add, Mul, Neg, Sub};

/// A number, with or without slopes.
pub trait Number:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// A number that depends on nothing.
    fn constant(value: f64) -> Self;

    /// The number alone.
    fn value(self) -> f64;

    /// A function of this number, given by its value and slope here.
    fn chain(self, value: f64, slope: f64) -> Self;

    /// The smaller one; NaN if one of them is.
    fn smaller(self, other: Self) -> Self {
        if self.value().is_nan() || self.value() <= other.value() { self } else { other }
    }

    /// The larger one; NaN if one of them is.
    fn larger(self, other: Self) -> Self {
        if self.value().is_nan() || self.value() >= other.value() { self } else { other }
    }
}

impl Number for f64 {
    fn constant(value: f64) -> Self {
        value
    }

    fn value(self) -> f64 {
        self
    }

    fn chain(self, value: f64, _slope: f64) -> Self {
        value
    }
}

/// A number with its slopes in `N` others.
#[derive(Clone, Copy, Debug)]
pub struct Dual<const N: usize> {
    value: f64,
    slopes: [f64; N],
}

impl<const N: usize> Dual<N> {
    /// The number that the slope at `index` is about.
    pub fn variable(value: f64, index: usize) -> Self {
        let mut slopes = [0.0; N];
        slopes[index] = 1.0;
        Self { value, slopes }
    }

    /// The slopes.
    pub fn slopes(&self) -> &[f64; N] {
        &self.slopes
    }

    fn with(self, other: Self, value: f64, slope: impl Fn(f64, f64) -> f64) -> Self {
        let mut slopes = [0.0; N];
        for (slot, (a, b)) in slopes.iter_mut().zip(self.slopes.iter().zip(&other.slopes)) {
            *slot = slope(*a, *b);
        }
        Self { value, slopes }
    }
}

impl<const N: usize> Number for Dual<N> {
    fn constant(value: f64) -> Self {
        Self { value, slopes: [0.0; N] }
    }

    fn value(self) -> f64 {
        self.value
    }

    fn chain(self, value: f64, slope: f64) -> Self {
        Self { value, slopes: self.slopes.map(|own| slope * own) }
    }
}

impl<const N: usize> Add for Dual<N> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, self.value + other.value, |a, b| a + b)
    }
}

impl<const N: usize> Sub for Dual<N> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, self.value - other.value, |a, b| a - b)
    }
}

impl<const N: usize> Mul for Dual<N> {
    type Output = Self;

    // The rule of products is a sum.
    #[allow(clippy::suspicious_arithmetic_impl)]
    fn mul(self, other: Self) -> Self {
        self.with(other, self.value * other.value, |a, b| a * other.value + b * self.value)
    }
}

impl<const N: usize> Neg for Dual<N> {
    type Output = Self;

    fn neg(self) -> Self {
        self.chain(-self.value, -1.0)
    }
}

/// All numbers from one to another.
#[derive(Clone, Copy, Debug)]
pub struct Span<N> {
    /// The least.
    pub low: N,
    /// The largest.
    pub high: N,
}

impl<N: Number> Span<N> {
    /// From one number to another.
    pub fn new(low: N, high: N) -> Self {
        Self { low, high }
    }

    /// Sums of numbers of both.
    pub fn plus(self, other: Self) -> Self {
        Self::new(self.low + other.low, self.high + other.high)
    }

    /// Differences of numbers of both.
    pub fn minus(self, other: Self) -> Self {
        Self::new(self.low - other.high, self.high - other.low)
    }

    /// Products of numbers of both: the extremes are at the corners.
    pub fn times(self, other: Self) -> Self {
        let corners =
            [self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high];
        let [first, rest @ ..] = corners;
        Self::new(rest.into_iter().fold(first, N::smaller), rest.into_iter().fold(first, N::larger))
    }

    /// Numbers of one or the other.
    pub fn hull(self, other: Self) -> Self {
        Self::new(self.low.smaller(other.low), self.high.larger(other.high))
    }

    /// Numbers of both.
    pub fn meet(self, other: Self) -> Self {
        Self::new(self.low.larger(other.low), self.high.smaller(other.high))
    }
}
