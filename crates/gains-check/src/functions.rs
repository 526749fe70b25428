//! Enclosures of elementary functions: short series in interval arithmetic, no library is trusted.

use crate::interval::Interval;

const fn exactly(x: f64) -> Interval {
    Interval::point(x)
}

/// ln 2 = `LN2_HEAD` + `LN2_TAIL`; the head ends with so many zeros that small multiples of it are exact.
const LN2_HEAD: f64 = 0.693_147_180_369_123_8;
const LN2_TAIL: Interval = Interval { low: 1.908_214_929_270_587e-10, high: 1.908_214_929_270_588e-10 };
/// Extends a function that grows everywhere from points to intervals.
fn growing(x: Interval, at: impl Fn(f64) -> Interval) -> Interval {
    Interval::new(at(x.low).low, at(x.high).high)
}

/// eˣ.
pub fn exp(x: Interval) -> Interval {
    growing(x, exp_at)
}

fn exp_at(x: f64) -> Interval {
    if x > 709.0 {
        return Interval::new(exp_at(709.0).low, f64::INFINITY);
    }
    if x < -708.0 {
        return Interval::new(0.0, exp_at(-708.0).high);
    }
    let doublings = (x / std::f64::consts::LN_2).round();
    // |rest| < 0.35; the head has 32 significant bits, so its product with at most 1024 is exact.
    let rest = (exactly(x) - doublings * exactly(LN2_HEAD)) - doublings * LN2_TAIL;
    // Σ restⁿ / n!, from the inside out; what is left beyond n = 17 is 1 + rest/18 + rest²/(18·19) + …
    let mut sum = Interval::new(0.97, 1.03);
    for n in (1..=17).rev() {
        sum = Interval::ONE + rest * sum / exactly(f64::from(n));
    }
    sum * exactly(2f64.powi(doublings as i32))
}

/// 1 / (1 + e⁻ˣ).
pub fn sigmoid(x: Interval) -> Interval {
    growing(x, |x| Interval::ONE / (Interval::ONE + exp(exactly(-x))))
        .meet(Interval::new(0.0, 1.0))
        .unwrap_or(Interval::ALL)
}

/// Hyperbolic tangent, 2 sigmoid(2x) − 1.
pub fn tanh(x: Interval) -> Interval {
    let positive = |x: f64| 2.0 * sigmoid(2.0 * exactly(x)) - Interval::ONE;
    growing(x, |x| if x < 0.0 { -positive(-x) } else { positive(x) })
}
