//! Intervals of real numbers whose ends are rounded outwards.
//!
//! Every operation returns an interval that holds the exact result for all numbers of its arguments. Sums, products,
//! quotients and roots of ends are rounded in the right direction exactly: the error of the nearest result is itself
//! a floating-point number (error-free transformations), and its sign says whether to go one step further.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// All real numbers from `low` to `high`; infinite ends mean "no bound".
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The smaller end.
    pub low: f64,
    /// The larger end.
    pub high: f64,
}

/// Products smaller than this may have errors that are no floating-point numbers.
const TINY: f64 = 1e-280;

/// `rounded`, or the next number below if the exact result is (`error`: exact minus rounded) or may be less.
fn down(rounded: f64, error: f64) -> f64 {
    if error >= 0.0 { rounded } else { rounded.next_down() }
}

fn up(rounded: f64, error: f64) -> f64 {
    if error <= 0.0 { rounded } else { rounded.next_up() }
}

/// Exact error of the rounded sum (Knuth); not a number on overflow.
fn sum_error(a: f64, b: f64, sum: f64) -> f64 {
    let part = sum - a;
    (a - (sum - part)) + (b - part)
}

/// The sum, or a little less.
pub fn add_down(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if sum == f64::NEG_INFINITY { sum } else { down(sum, sum_error(a, b, sum)) }
}

/// The sum, or a little more.
pub fn add_up(a: f64, b: f64) -> f64 {
    -add_down(-a, -b)
}

/// The product, or a little less; nothing times infinity is nothing.
pub fn mul_down(a: f64, b: f64) -> f64 {
    if a == 0.0 || b == 0.0 {
        return 0.0;
    }
    let product = a * b;
    if product == f64::NEG_INFINITY || (a.is_infinite() || b.is_infinite()) {
        return product;
    }
    if product.abs() < TINY { product.next_down() } else { down(product, a.mul_add(b, -product)) }
}

/// The product, or a little more.
pub fn mul_up(a: f64, b: f64) -> f64 {
    -mul_down(-a, b)
}

fn div_down(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    if a == 0.0 || b.is_infinite() || quotient.is_infinite() || quotient.abs() < TINY || a.abs() < TINY {
        return if a == 0.0 { 0.0 } else { quotient.next_down() };
    }
    // What is left over, a - q b, has the sign of the error if b is positive.
    down(quotient, (-quotient).mul_add(b, a) * b.signum())
}

impl Interval {
    /// Nothing but zero.
    pub const ZERO: Self = Self { low: 0.0, high: 0.0 };
    /// Nothing but one.
    pub const ONE: Self = Self { low: 1.0, high: 1.0 };
    /// All numbers.
    pub const ALL: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// The interval between two numbers, in this order. Bounds that are none (NaN) become infinite.
    pub fn new(low: f64, high: f64) -> Self {
        let low = if low.is_nan() { f64::NEG_INFINITY } else { low };
        Self { low, high: if high.is_nan() { f64::INFINITY } else { high } }
    }

    /// What an operation that is monotone in both arguments makes of them: from the least to the largest of their ends.
    fn corners(self, other: Self, down: impl Fn(f64, f64) -> f64, up: impl Fn(f64, f64) -> f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for (a, b) in [self.low, self.high].into_iter().flat_map(|a| [(a, other.low), (a, other.high)]) {
            (low, high) = (low.min(down(a, b)), high.max(up(a, b)));
        }
        // Of ends that are no numbers nothing is known.
        if low <= high { Self { low, high } } else { Self::ALL }
    }

    /// One number.
    pub const fn point(x: f64) -> Self {
        Self { low: x, high: x }
    }

    /// The smallest interval that holds both.
    pub fn hull(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// What both have in common; `None` if that is nothing.
    pub fn meet(self, other: Self) -> Option<Self> {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        (low <= high).then_some(Self { low, high })
    }

    /// Whether all of the other lies in this one.
    pub fn holds(self, other: Self) -> bool {
        self.low <= other.low && other.high <= self.high
    }

    /// How far the other reaches beyond this one; `None` if it does not.
    pub fn misses(self, other: Self) -> Option<f64> {
        (!self.holds(other)).then(|| (self.low - other.low).max(other.high - self.high))
    }

    /// The largest absolute value.
    pub fn size(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// Absolute values.
    pub fn abs(self) -> Self {
        if self.low >= 0.0 {
            self
        } else if self.high <= 0.0 {
            -self
        } else {
            Self { low: 0.0, high: self.size() }
        }
    }

    /// Some number inside, near the middle where there is one.
    pub fn middle(self) -> f64 {
        let middle = 0.5 * self.low + 0.5 * self.high;
        if middle.is_finite() {
            middle.clamp(self.low, self.high)
        } else {
            self.low.max(f64::MIN).min(self.high)
        }
    }

    /// Squares.
    pub fn square(self) -> Self {
        let size = self.abs();
        Self { low: mul_down(size.low, size.low).max(0.0), high: mul_up(size.high, size.high) }
    }

    /// The middle, and how far the ends are from there.
    pub fn around(self) -> (f64, f64) {
        let middle = self.middle();
        (middle, (self - Self::point(middle)).size())
    }

    /// Square roots; negative numbers are left out.
    pub fn sqrt(self) -> Self {
        let root = |x: f64| {
            let root = x.sqrt();
            (root, if x < TINY || x.is_infinite() { f64::NAN } else { (-root).mul_add(root, x) })
        };
        let ((low, low_error), (high, high_error)) = (root(self.low.max(0.0)), root(self.high.max(0.0)));
        let zero = |x: f64, y: f64| if x <= 0.0 { 0.0 } else { y };
        Self { low: zero(self.low, down(low, low_error)), high: zero(self.high, up(high, high_error)) }
    }

    /// The larger of two numbers.
    pub fn max(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.max(other.high) }
    }

    /// Whether both ends are numbers, in the right order.
    pub fn is_sound(self) -> bool {
        self.low <= self.high && self.low < f64::INFINITY && self.high > f64::NEG_INFINITY
    }
}

impl Add for Interval {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::new(add_down(self.low, other.low), add_up(self.high, other.high))
    }
}

impl Neg for Interval {
    type Output = Self;
    fn neg(self) -> Self {
        Self { low: -self.high, high: -self.low }
    }
}

impl Sub for Interval {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Interval {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        self.corners(other, mul_down, mul_up)
    }
}

impl Mul<Interval> for f64 {
    type Output = Interval;
    fn mul(self, other: Interval) -> Interval {
        Interval::point(self) * other
    }
}

impl Div for Interval {
    type Output = Self;
    /// Quotients; all numbers if the divisor may be zero.
    fn div(self, other: Self) -> Self {
        if other.low <= 0.0 && other.high >= 0.0 {
            return Self::ALL;
        }
        self.corners(other, div_down, |a, b| -div_down(-a, b))
    }
}

/// A plain sum of products in float64, with what is needed to bound its error.
///
/// Rounding a product or a sum to nearest is off by at most u = 2⁻⁵³ times the rounded result. So the whole sum is off
/// by at most u Σ (|product| + |partial sum|), and by 2⁻¹⁰⁷⁵ for each product that underflows, which counting every
/// product with 1e-300 at least covers. `size` is that sum but for a relative error of 2⁻²⁵, for up to 2²⁷ products. Products
/// with ±1 are exact, and so is what is added to nothing: what is moved stays as it is.
#[derive(Clone, Copy, Default)]
pub struct Dot {
    sum: f64,
    size: f64,
    open: f64,
}

impl Dot {
    /// One more product, of numbers other than zero.
    #[inline]
    pub fn add(&mut self, a: f64, b: f64) {
        let (product, before) = (a * b, self.sum);
        self.sum += product;
        if a.abs() != 1.0 && b.abs() != 1.0 {
            self.size += product.abs().max(1e-300);
        }
        if before != 0.0 {
            self.size += self.sum.abs();
        }
    }

    /// One more number, from −r to r.
    pub fn open(&mut self, r: f64) {
        self.open = add_up(self.open, r);
    }

    /// The sum; exactly zero if nothing was added.
    pub fn interval(self) -> Interval {
        // 1.2e-16 is more than u by 8 percent: enough for the errors of `size` and of this product.
        let error = add_up(self.size * 1.2e-16, self.open);
        Interval::new(add_down(self.sum, -error), add_up(self.sum, error))
    }
}
