//! Functions of one number: activations. Their images, slopes, and lines on either side of them.

use crate::functions::{
    cos_at, erf_at, exp, exp_m1_at, normal_at, quarters, root_two_over_pi, sigmoid, sin_at, softplus, tanh,
};
use crate::interval::Interval;

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Curve {
    /// x above zero, `slope` x below, with a slope from −1 to 1: ReLU, its leaky kin and the absolute value. Convex.
    Leaky {
        /// Slope below zero.
        slope: f64,
    },
    /// 1 / (1 + e⁻ˣ). Grows; convex below zero, concave above.
    Sigmoid,
    /// Hyperbolic tangent. Grows; convex below zero, concave above.
    Tanh,
    /// One that is made of pieces which are convex, concave or linear.
    Pieced(Pieced),
}

/// A function that is convex, concave or linear between points that are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pieced {
    /// 1 / (1 + e⁻ˣ), for strips: lines beside it have rules of their own.
    Sigmoid,
    /// Hyperbolic tangent, likewise.
    Tanh,
    /// ln(1 + eˣ).
    Softplus,
    /// x / (1 + e⁻ˣ).
    Silu,
    /// x Φ(x), Φ the normal distribution.
    Gelu,
    /// ½ x (1 + tanh(√(2/π) (x + 0.044715 x³))).
    GeluTanh,
    /// x above zero, α (eˣ − 1) below.
    Elu {
        /// α ≥ 0.
        alpha: f64,
    },
    /// The sine of x, or its cosine.
    Wave {
        /// Which.
        cosine: bool,
    },
    /// x².
    Square,
    /// The nearest number from `low` to `high`.
    Clamp {
        /// The least value.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// 1 / √(max(x, 0) + ε).
    InverseRoot {
        /// ε > 0.
        eps: f64,
    },
}

/// The line `slope` x + `intercept`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Its slope.
    pub slope: f64,
    /// Its value at zero.
    pub intercept: f64,
}

impl Curve {
    /// The value at a point.
    fn at(self, x: f64) -> Interval {
        match self {
            Self::Leaky { slope } => (if x < 0.0 { slope } else { 1.0 }) * Interval::point(x),
            Self::Sigmoid => sigmoid(Interval::point(x)),
            Self::Tanh => tanh(Interval::point(x)),
            Self::Pieced(pieced) => pieced.at(x),
        }
    }

    /// The image of an interval.
    pub fn image(self, x: Interval) -> Interval {
        let ends = self.at(x.low).hull(self.at(x.high));
        match self {
            // The only one of these that does not grow is least at zero.
            Self::Leaky { slope } if slope < 0.0 && x.low < 0.0 && x.high > 0.0 => ends.hull(Interval::ZERO),
            Self::Pieced(pieced) => pieced.image(x),
            _ => ends,
        }
    }

    /// Slopes at all points of an interval, on either side of a kink if it is inside.
    pub fn slopes(self, x: Interval) -> Interval {
        match self {
            Self::Leaky { .. } if x.low >= 0.0 => Interval::ONE,
            Self::Leaky { slope } if x.high <= 0.0 => Interval::point(slope),
            Self::Leaky { slope } => Interval::new(slope, 1.0),
            Self::Sigmoid | Self::Tanh => {
                // Steepest at zero, ever less so on both sides.
                let ends = self.steepness(x.low).hull(self.steepness(x.high));
                if x.low < 0.0 && x.high > 0.0 { ends.hull(self.steepness(0.0)) } else { ends }
            }
            Self::Pieced(pieced) => pieced.slopes(x),
        }
    }

    /// Derivative of a sigmoid or tanh.
    fn steepness(self, x: f64) -> Interval {
        let x = Interval::point(x);
        match self {
            Self::Sigmoid => sigmoid(x) * sigmoid(-x),
            Self::Tanh => 4.0 * (sigmoid(2.0 * x) * sigmoid(-2.0 * x)),
            _ => Interval::ALL,
        }
    }

    /// Lines below and above the function over an interval. `slopes` are wishes: for the line below a kink, and for both
    /// lines of a function made of pieces.
    pub fn lines(self, x: Interval, slopes: (f64, f64)) -> (Line, Line) {
        match self {
            Self::Leaky { .. } if x.low >= 0.0 => {
                (Line { slope: 1.0, intercept: 0.0 }, Line { slope: 1.0, intercept: 0.0 })
            }
            Self::Leaky { slope: leak } if x.high <= 0.0 => {
                (Line { slope: leak, intercept: 0.0 }, Line { slope: leak, intercept: 0.0 })
            }
            Self::Leaky { slope: leak } => {
                // A line through zero whose slope is between both is below; a convex function is below its chord.
                let lower = Line { slope: slopes.0.clamp(leak, 1.0), intercept: 0.0 };
                (lower, self.line_above_ends(x, self.chord(x)))
            }
            Self::Sigmoid | Self::Tanh => {
                let flat = self.steepness(x.low).low.min(self.steepness(x.high).low);
                // Concave where x ≥ 0: the chord is below. Otherwise `flat` is nowhere more than the derivative,
                // so f(x) − flat x grows and is least at the lower end, largest at the upper one.
                let lower = match x.low >= 0.0 {
                    true => self.line_below_ends(x, self.chord(x)),
                    false => Line { slope: flat, intercept: self.rest(x.low, flat).low },
                };
                let upper = match x.high <= 0.0 {
                    true => self.line_above_ends(x, self.chord(x)),
                    false => Line { slope: flat, intercept: self.rest(x.high, flat).high },
                };
                (lower, upper)
            }
            Self::Pieced(pieced) => {
                let lower = Line { slope: slopes.0, intercept: pieced.least(1.0, slopes.0, x) };
                (lower, Line { slope: slopes.1, intercept: -pieced.least(-1.0, -slopes.1, x) })
            }
        }
    }

    /// The slope of the strip that forms take over an interval: that of the function where it is a line, else about that of the chord.
    pub fn slope(self, x: Interval) -> f64 {
        match self {
            Self::Leaky { .. } if x.low >= 0.0 => 1.0,
            Self::Leaky { slope } if x.high <= 0.0 => slope,
            _ => self.chord(x),
        }
    }

    /// All values of f(x) − slope x over an interval.
    pub fn strip(self, x: Interval, slope: f64) -> Interval {
        let of_pieces =
            |pieced: Pieced| Interval::new(pieced.least(1.0, slope, x), -pieced.least(-1.0, -slope, x));
        match self {
            Self::Leaky { .. } if x.low >= 0.0 && slope == 1.0 => Interval::ZERO,
            Self::Leaky { slope: leak } if x.high <= 0.0 && slope == leak => Interval::ZERO,
            // Two lines that meet at zero.
            Self::Leaky { .. } => {
                let ends = self.rest(x.low, slope).hull(self.rest(x.high, slope));
                if x.low < 0.0 && x.high > 0.0 { ends.hull(Interval::ZERO) } else { ends }
            }
            Self::Sigmoid => of_pieces(Pieced::Sigmoid),
            Self::Tanh => of_pieces(Pieced::Tanh),
            Self::Pieced(pieced) => of_pieces(pieced),
        }
    }

    /// About the slope from end to end.
    pub fn chord(self, x: Interval) -> f64 {
        let slope = (self.at(x.high).middle() - self.at(x.low).middle()) / (x.high - x.low);
        if slope.is_finite() { slope } else { self.slopes(x).low.max(-1e300) }
    }

    /// f(x) − slope x.
    fn rest(self, x: f64, slope: f64) -> Interval {
        self.at(x) - slope * Interval::point(x)
    }

    fn line_below_ends(self, x: Interval, slope: f64) -> Line {
        Line { slope, intercept: self.rest(x.low, slope).low.min(self.rest(x.high, slope).low) }
    }

    fn line_above_ends(self, x: Interval, slope: f64) -> Line {
        Line { slope, intercept: self.rest(x.low, slope).high.max(self.rest(x.high, slope).high) }
    }
}

/// How a function bends on a piece.
#[derive(Clone, Copy, PartialEq)]
enum Bend {
    /// Not at all, with this slope.
    Linear(f64),
    Convex,
    Concave,
    /// Either way: a piece of some 10⁻¹⁴ around a point that is no float64 number.
    Unknown,
}

struct Piece {
    on: Interval,
    bend: Bend,
}

/// Most pieces of a wave that are told apart.
const MOST_WAVES: f64 = 8.0;
/// On pieces of unknown bend no function here has a first or second derivative beyond this.
const MOST_STEEP: f64 = 2.0;

/// Where x tanh(x/2) = 2: x / (1 + e⁻ˣ) is convex up to there from the mirrored point on, concave beyond both.
const SILU_BEND: Interval = Interval { low: 2.399_357_280_515_46, high: 2.399_357_280_515_48 };
/// Where x / (1 + e⁻ˣ) is least.
const SILU_TURN: Interval = Interval { low: -1.278_464_542_761_08, high: -1.278_464_542_761_07 };
/// Where x Φ(x) is least; it bends at ±√2.
const GELU_TURN: Interval = Interval { low: -0.751_791_524_693_57, high: -0.751_791_524_693_56 };
/// With u = √(2/π) (x + c x³), where x u'² tanh u = √(2/π) (1 + 6c x²): the left side grows faster than the right one.
const GELU_TANH_BEND: Interval = Interval { low: 1.418_504_008_790_82, high: 1.418_504_008_790_83 };
const GELU_TANH_TURN: Interval = Interval { low: -0.752_461_422_071_02, high: -0.752_461_422_071_01 };

impl Pieced {
    /// The value at a point.
    fn at(self, x: f64) -> Interval {
        let point = Interval::point(x);
        match self {
            Self::Sigmoid => sigmoid(point),
            Self::Tanh => tanh(point),
            Self::Softplus => softplus(point),
            Self::Silu => x * sigmoid(point),
            Self::Gelu => 0.5 * (x * (Interval::ONE + erf_at_root(x))),
            Self::GeluTanh => 0.5 * (x * (Interval::ONE + tanh(inner(x).0))),
            Self::Elu { .. } if x > 0.0 => point,
            Self::Elu { alpha } => alpha * exp_m1_at(x),
            Self::Wave { cosine } => {
                if cosine {
                    cos_at(x)
                } else {
                    sin_at(x)
                }
            }
            Self::Square => point.square(),
            Self::Clamp { low, high } => Interval::point(x.clamp(low, high)),
            Self::InverseRoot { eps } => {
                Interval::ONE / (Interval::point(x.max(0.0)) + Interval::point(eps)).sqrt()
            }
        }
    }

    /// The derivative at a point of a piece that is not linear.
    fn steepness(self, x: f64) -> Interval {
        let point = Interval::point(x);
        match self {
            Self::Sigmoid => sigmoid(point) * sigmoid(-point),
            Self::Tanh => 4.0 * (sigmoid(2.0 * point) * sigmoid(-2.0 * point)),
            Self::Softplus => sigmoid(point),
            Self::Silu => sigmoid(point) + x * (sigmoid(point) * sigmoid(-point)),
            Self::Gelu => 0.5 * (Interval::ONE + erf_at_root(x)) + x * normal_at(x),
            Self::GeluTanh => {
                let (inner, steepness) = inner(x);
                let bell = 4.0 * (sigmoid(2.0 * inner) * sigmoid(-2.0 * inner));
                0.5 * (Interval::ONE + tanh(inner)) + 0.5 * (x * (steepness * bell))
            }
            Self::Elu { alpha } => alpha * exp(point),
            Self::Wave { cosine } => {
                if cosine {
                    -sin_at(x)
                } else {
                    cos_at(x)
                }
            }
            Self::Square => 2.0 * point,
            Self::Clamp { .. } => Interval::new(0.0, 1.0),
            Self::InverseRoot { eps } => {
                let sum = point + Interval::point(eps);
                Interval::point(-0.5) / (sum * sum.sqrt())
            }
        }
    }

    /// The points between which it bends one way, and how it does so in front of, between and behind them; `None` if
    /// there are too many.
    fn bends(self, x: Interval) -> Option<(Vec<Interval>, Vec<Bend>)> {
        use Bend::{Concave, Convex, Linear};
        let waist = |at: Interval| (vec![-at, at], vec![Concave, Convex, Concave]);
        let zero = || vec![Interval::ZERO];
        Some(match self {
            Self::Softplus | Self::Square => (vec![], vec![Convex]),
            Self::Silu => waist(SILU_BEND),
            Self::Gelu => waist(Interval::point(2.0).sqrt()),
            Self::GeluTanh => waist(GELU_TANH_BEND),
            Self::Sigmoid | Self::Tanh => (zero(), vec![Convex, Concave]),
            Self::Elu { .. } => (zero(), vec![Convex, Linear(1.0)]),
            Self::InverseRoot { .. } => (zero(), vec![Linear(0.0), Convex]),
            Self::Clamp { low, high } => {
                let slopes = [0.0, 1.0, 0.0];
                (vec![Interval::point(low), Interval::point(high)], slopes.map(Linear).to_vec())
            }
            Self::Wave { cosine } => {
                // The sine is zero, and bends the other way, after every even number of quarters, the cosine after odd ones.
                let odd = if cosine { 1.0 } else { 0.0 };
                let half_turns = |x: f64| (x / std::f64::consts::FRAC_PI_2 - odd) / 2.0;
                let (first, last) = (half_turns(x.low).floor(), half_turns(x.high).ceil());
                if last - first > MOST_WAVES || x.size() > 1e6 {
                    return None;
                }
                let count = (last - first) as usize + 1;
                let number = |i: usize| first + i as f64;
                let cuts = (0..count).map(|i| quarters(2.0 * number(i) + odd)).collect();
                // Behind zero number n the sine is positive, and so concave, if n is even; the cosine if it is odd.
                let even = |n: f64| (n / 2.0).fract() == 0.0;
                let bend = |n: f64| if even(n) != cosine { Concave } else { Convex };
                (
                    cuts,
                    std::iter::once(bend(first - 1.0)).chain((0..count).map(|i| bend(number(i)))).collect(),
                )
            }
        })
    }

    /// An interval in pieces.
    fn pieces(self, x: Interval) -> Option<Vec<Piece>> {
        let (cuts, bends) = self.bends(x)?;
        let mut pieces = Vec::new();
        let (mut from, mut bend) = (x.low, bends[0]);
        for (cut, next) in cuts.into_iter().zip(&bends[1..]).take_while(|(cut, _)| cut.low < x.high) {
            if from < cut.low {
                pieces.push(Piece { on: Interval { low: from, high: cut.low }, bend });
                from = cut.low;
            }
            let end = cut.high.min(x.high);
            if from < end {
                pieces.push(Piece { on: Interval { low: from, high: end }, bend: Bend::Unknown });
                from = end;
            }
            bend = *next;
        }
        pieces.push(Piece { on: Interval { low: from, high: x.high }, bend });
        Some(pieces)
    }

    /// Values on a piece of unknown bend.
    fn nearby(self, on: Interval) -> Interval {
        let far = (MOST_STEEP * (Interval::point(on.high) - Interval::point(on.low))).high;
        self.at(on.low) + Interval::new(-far, far)
    }

    fn image(self, x: Interval) -> Interval {
        let ends = self.at(x.low).hull(self.at(x.high));
        let turn = match self {
            Self::Silu => SILU_TURN,
            Self::Gelu => GELU_TURN,
            Self::GeluTanh => GELU_TANH_TURN,
            Self::Square => Interval::ZERO,
            Self::Wave { cosine } => {
                let (crest, trough) = if cosine { (0.0, 2.0) } else { (1.0, 3.0) };
                let image = if meets(x, crest) { ends.hull(Interval::ONE) } else { ends };
                return if meets(x, trough) { image.hull(-Interval::ONE) } else { image };
            }
            _ => return ends,
        };
        // Falls up to there, and grows from there on.
        if x.low < turn.high && x.high > turn.low { ends.hull(self.nearby(turn)) } else { ends }
    }

    fn slopes(self, x: Interval) -> Interval {
        let Some(pieces) = self.pieces(x).filter(|_| x.size() < f64::INFINITY) else {
            return match self {
                Self::Wave { .. } => Interval::new(-1.0, 1.0),
                _ => Interval::ALL,
            };
        };
        let slopes = pieces.iter().map(|Piece { on, bend }| match bend {
            // Monotone between both ends.
            Bend::Convex | Bend::Concave => self.steepness(on.low).hull(self.steepness(on.high)),
            Bend::Linear(slope) => Interval::point(*slope),
            Bend::Unknown => {
                let far = (MOST_STEEP * (Interval::point(on.high) - Interval::point(on.low))).high;
                self.steepness(on.low) + Interval::new(-far, far)
            }
        });
        slopes.reduce(Interval::hull).unwrap_or(Interval::ALL)
    }

    /// A number nowhere above ±f(x) − slope x on an interval.
    ///
    /// On a piece where that is concave or linear it is least at an end. Where it is convex, it is nowhere below any of its
    /// tangents, which are lines: these are least at an end, too. A good point for the tangent is guessed.
    fn least(self, sign: f64, slope: f64, x: Interval) -> f64 {
        let line = |x: Interval| slope * x;
        let Some(pieces) = self.pieces(x).filter(|_| x.size() < f64::INFINITY) else {
            return (sign * self.image(x) - line(x)).low;
        };
        let bulge = if sign > 0.0 { Bend::Convex } else { Bend::Concave };
        let rest = |p: f64| sign * self.at(p) - line(Interval::point(p));
        let on_piece = |Piece { on, bend }: Piece| match bend {
            Bend::Unknown => (sign * self.nearby(on) - line(on)).low,
            bend if bend == bulge => {
                let p = self.contact(sign, slope, on);
                let rise = sign * self.steepness(p) - Interval::point(slope);
                let to = |end: f64| rise * (Interval::point(end) - Interval::point(p));
                (rest(p) + to(on.low).hull(to(on.high))).low
            }
            _ => rest(on.low).low.min(rest(on.high).low),
        };
        pieces.into_iter().map(on_piece).fold(f64::INFINITY, f64::min)
    }

    /// About where the derivative of ±f is `slope`, on a piece where it grows; any point would do.
    fn contact(self, sign: f64, slope: f64, on: Interval) -> f64 {
        // Where tanh' x = 1 − tanh² x is m; a sigmoid is half a tanh of half the argument.
        let far = |m: f64| (1.0 - m).clamp(0.0, 1.0).sqrt().atanh();
        let known = match self {
            Self::Tanh => Some(far(sign * slope)),
            Self::Sigmoid => Some(2.0 * far(4.0 * sign * slope)),
            _ => None,
        };
        if let Some(far) = known {
            return if far.is_nan() { on.low } else { (-sign * far).clamp(on.low, on.high) };
        }
        let rise = |p: f64| sign * self.steepness(p).middle() - slope;
        let (mut a, mut b) = (on.low, on.high);
        let (mut at_a, mut at_b) = (rise(a), rise(b));
        match (at_a < 0.0, at_b > 0.0) {
            (false, _) => return a,
            (_, false) => return b,
            _ => {}
        }
        // The secant, with the end that stays halved (Illinois).
        for _ in 0..30 {
            let p = (a - at_a * (b - a) / (at_b - at_a)).clamp(a, b);
            if p.is_nan() {
                return a;
            }
            let there = rise(p);
            if there.abs() <= 4.0 * f64::EPSILON * slope.abs().max(1e-3) || p == a || p == b {
                return p;
            }
            if there < 0.0 {
                (a, at_a, at_b) = (p, there, 0.5 * at_b);
            } else {
                (b, at_b, at_a) = (p, there, 0.5 * at_a);
            }
        }
        a
    }
}

/// erf(x / √2).
fn erf_at_root(x: f64) -> Interval {
    let z = Interval::point(x) * Interval::point(0.5).sqrt();
    Interval::new(erf_at(z.low).low, erf_at(z.high).high)
}

/// √(2/π) (x + c x³) and its derivative.
fn inner(x: f64) -> (Interval, Interval) {
    let (point, c) = (Interval::point(x), Interval::point(44715.0) / Interval::point(1e6));
    let square = point.square();
    let value = point * (Interval::ONE + c * square);
    (root_two_over_pi() * value, root_two_over_pi() * (Interval::ONE + 3.0 * (c * square)))
}

/// Whether an interval may hold a point of so many quarters of a turn, and some whole turns.
fn meets(x: Interval, after: f64) -> bool {
    if x.size() > 1e6 {
        return true;
    }
    let turns = |x: f64| (Interval::point(x) - quarters(after)) / quarters(4.0);
    turns(x.high).high.floor() >= turns(x.low).low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of the smallest number is none, but not nothing: what is multiplied later is not lost.
    #[test]
    fn the_smallest_numbers_are_not_taken_for_zero() {
        for pieced in [Pieced::Gelu, Pieced::GeluTanh, Pieced::Silu] {
            for x in [5e-324, 1.5e-323, 1e-310] {
                let (above, below) = (pieced.at(x), pieced.at(-x));
                assert!(above.high >= 0.5 * x && above.high > 0.0, "{pieced:?} {x:e}: {above:?}");
                assert!(below.low <= -0.5 * x && below.low < 0.0, "{pieced:?} {x:e}: {below:?}");
            }
        }
        assert!(Pieced::GeluTanh.steepness(5e-324).high > 0.5);
    }

    /// Ends whose difference overflows leave no tangent to look for.
    #[test]
    fn functions_over_nearly_all_numbers_are_bounded() {
        for pieced in [Pieced::Square, Pieced::Softplus, Pieced::Gelu, Pieced::Elu { alpha: 1.0 }] {
            for (low, high) in [(-1.7e308, 1.7e308), (-1.7e308, 1e-300), (0.0, 1.7e308)] {
                let x = Interval::new(low, high);
                let least = pieced.least(1.0, 0.0, x);
                assert!(least <= pieced.at(low).high.min(pieced.at(high).high), "{pieced:?}: {least}");
            }
        }
    }

    /// The points at which functions turn or bend lie in their intervals.
    #[test]
    fn functions_turn_and_bend_where_they_are_said_to() {
        for (pieced, turn) in
            [(Pieced::Silu, SILU_TURN), (Pieced::Gelu, GELU_TURN), (Pieced::GeluTanh, GELU_TANH_TURN)]
        {
            let (falls, grows) = (pieced.steepness(turn.low), pieced.steepness(turn.high));
            assert!(falls.high < 0.0 && grows.low > 0.0, "{pieced:?}: {falls:?} {grows:?}");
            assert!(turn.high - turn.low < 3e-14);
        }
        // x tanh(x/2) = 2.
        let silu = |x: f64| x * tanh(Interval::point(0.5 * x));
        assert!(silu(SILU_BEND.low).high < 2.0 && silu(SILU_BEND.high).low > 2.0);
        // x u'² tanh u = √(2/π) (1 + 6c x²).
        let gelu = |x: f64| {
            let (u, steepness) = inner(x);
            let c = Interval::point(44715.0) / Interval::point(1e6);
            let right = root_two_over_pi() * (Interval::ONE + 6.0 * (c * Interval::point(x).square()));
            x * (steepness.square() * tanh(u)) - right
        };
        assert!(gelu(GELU_TANH_BEND.low).high < 0.0 && gelu(GELU_TANH_BEND.high).low > 0.0);
        // Bends at √2 and at multiples of π, or half turns more.
        for (pieced, x) in [
            (Pieced::Gelu, Interval::new(-3.0, 3.0)),
            (Pieced::Wave { cosine: false }, Interval::new(-7.0, 7.0)),
            (Pieced::Wave { cosine: true }, Interval::new(-7.0, 7.0)),
        ] {
            for piece in pieced.pieces(x).unwrap_or_default() {
                let at = |part: f64| piece.on.low + part * (piece.on.high - piece.on.low);
                let (a, b) = (pieced.steepness(at(0.25)), pieced.steepness(at(0.75)));
                match piece.bend {
                    Bend::Convex => assert!(a.high < b.low, "{pieced:?} {:?}", piece.on),
                    Bend::Concave => assert!(a.low > b.high, "{pieced:?} {:?}", piece.on),
                    _ => assert!(piece.on.high - piece.on.low < 1e-14),
                }
            }
        }
    }
}
