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

/// Below this, a few terms of a series have more digits than what is left of a difference.
const SMALL: f64 = 1e-5;

/// eˣ − 1 at one point that is not positive; from x + x²/2 + x³/6 to x + x²/2 where it is small.
pub fn exp_m1_at(x: f64) -> Interval {
    let (point, square) = (exactly(x), exactly(x).square());
    if x < -SMALL {
        return exp(point) - Interval::ONE;
    }
    let high = point + 0.5 * square;
    (high + point * square / exactly(6.0)).hull(high)
}

/// Hyperbolic tangent, 2 sigmoid(2x) − 1; from x − x³/3 to x where that is small.
pub fn tanh(x: Interval) -> Interval {
    let positive = |x: f64| match x < SMALL {
        true => (exactly(x) - exactly(x) * exactly(x).square() / exactly(3.0)).hull(exactly(x)),
        false => 2.0 * sigmoid(2.0 * exactly(x)) - Interval::ONE,
    };
    growing(x, |x| if x < 0.0 { -positive(-x) } else { positive(x) })
}

/// ln(1 + eˣ), which is x + ln(1 + e⁻ˣ).
pub fn softplus(x: Interval) -> Interval {
    growing(x, |x| {
        let small = ln_1p(exp(exactly(-x.abs())));
        if x > 0.0 { exactly(x) + small } else { small }
    })
}

/// ln(1 + t) for t from 0 to 1: twice the inverse hyperbolic tangent of s = t / (2 + t), which is at most 1/3.
fn ln_1p(t: Interval) -> Interval {
    let s = t / (exactly(2.0) + t);
    // Σ s²ⁿ / (2n + 1), from the inside out; what is left beyond n = 20 is at most 1/41 + 1/43/9 + …
    let mut sum = Interval::new(0.0, 0.03);
    for n in (0..20).rev() {
        sum = Interval::ONE / exactly(f64::from(2 * n + 1)) + s.square() * sum;
    }
    2.0 * (s * sum)
}

/// π/2 = `QUARTER_HEAD` + `QUARTER_TAIL`; the head has 33 significant bits.
const QUARTER_HEAD: f64 = 1.570_796_326_734_125_6;
const QUARTER_TAIL: Interval = Interval { low: 6.077_100_506_506_192e-11, high: 6.077_100_506_506_193e-11 };
/// Beyond this, sines are not told apart: all of them are between −1 and 1.
const FAR: f64 = 1e6;

/// So many quarters of a turn, of at most 2²⁰.
pub fn quarters(count: f64) -> Interval {
    count * exactly(QUARTER_HEAD) + count * QUARTER_TAIL
}

/// Sine at one point.
pub fn sin_at(x: f64) -> Interval {
    wave(x, 0)
}

/// Cosine at one point: the sine a quarter of a turn further.
pub fn cos_at(x: f64) -> Interval {
    wave(x, 1)
}

fn wave(x: f64, ahead: i64) -> Interval {
    let all = Interval::new(-1.0, 1.0);
    if x.is_nan() || x.abs() > FAR {
        return all;
    }
    let count = (x / std::f64::consts::FRAC_PI_2).round();
    // |rest| < 0.79; the product with the head is exact.
    let rest = (exactly(x) - count * exactly(QUARTER_HEAD)) - count * QUARTER_TAIL;
    let square = rest.square();
    // Σ (−1)ⁿ rest²ⁿ / (2n + start)!, from the inside out; what is left beyond n = 12 is 1 − …
    let series = |start: i32| {
        let mut sum = Interval::new(0.9, 1.0);
        for n in (1..=12).rev() {
            let n = f64::from(2 * n + start);
            sum = Interval::ONE - square * sum / exactly(n * (n - 1.0));
        }
        sum
    };
    let quarter = (count as i64 + ahead).rem_euclid(4);
    let size = if quarter % 2 == 0 { rest * series(1) } else { series(0) };
    let value = if quarter < 2 { size } else { -size };
    value.meet(all).unwrap_or(all)
}

/// The error function at one point: 2/√π e^(−x²) Σ 2ⁿ x²ⁿ⁺¹ / (1·3·5···(2n + 1)).
pub fn erf_at(x: f64) -> Interval {
    if x < 0.0 {
        return -erf_at(-x);
    }
    if x.is_nan() || x > 6.0 {
        // 1 − erf(6) is less than 3e-17.
        return Interval::new(if x > 6.0 { 1.0_f64.next_down() } else { -1.0 }, 1.0);
    }
    let square = exactly(x).square();
    let terms = 30 + (4.0 * x * x) as u32;
    // From the inside out; what is left is 1 + …, where each term is at most half of the one before.
    let mut sum = Interval::new(1.0, 2.0);
    for n in (0..terms).rev() {
        sum = Interval::ONE + 2.0 * square * sum / exactly(f64::from(2 * n + 3));
    }
    let value = two_over_root_pi() * exp(-square) * (x * sum);
    value.meet(Interval::new(0.0, 1.0)).unwrap_or(Interval::new(0.0, 1.0))
}

/// 2/√π.
fn two_over_root_pi() -> Interval {
    exactly(2.0) / quarters(2.0).sqrt()
}

/// The density of the normal distribution at one point.
pub fn normal_at(x: f64) -> Interval {
    0.5 * two_over_root_pi() * exactly(0.5).sqrt() * exp(-0.5 * exactly(x).square())
}

/// √(2/π).
pub fn root_two_over_pi() -> Interval {
    (exactly(2.0) / quarters(2.0)).sqrt()
}
