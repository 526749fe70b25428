//! Functions of one number: activations. Their images, slopes, and lines on either side of them.
//!
//! All of them are made of pieces that are convex, concave or linear, which is what everything here rests on.

use crate::functions::{
    cos_at, erf_at, exp, exp_m1_at, normal_at, quarters, root_two_over_pi, sigmoid, sin_at, softplus, tanh,
};
use crate::interval::Interval;

/// A function of one number, convex, concave or linear between points that are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Curve {
    /// x above zero, `slope` x below, with a slope from −1 to 1: ReLU, its leaky kin and the absolute value. Convex.
    Leaky {
        /// Slope below zero.
        slope: f64,
    },
    /// 1 / (1 + e⁻ˣ).
    Sigmoid,
    /// Hyperbolic tangent.
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

/// How a function bends on a piece.
#[derive(Clone, Copy, PartialEq)]
enum Bend {
    /// Not at all: `slope` x + `rest`.
    Linear {
        slope: f64,
        rest: Interval,
    },
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

impl Curve {
    /// The value at a point.
    fn at(self, x: f64) -> Interval {
        let point = Interval::point(x);
        match self {
            Self::Leaky { slope } => (if x < 0.0 { slope } else { 1.0 }) * point,
            Self::Sigmoid => sigmoid(point),
            Self::Tanh => tanh(point),
            Self::Softplus => softplus(point),
            Self::Silu => x * sigmoid(point),
            Self::Gelu => 0.5 * (x * (Interval::ONE + erf_at_root(x))),
            Self::GeluTanh => 0.5 * (x * (Interval::ONE + tanh(inner(x).0))),
            Self::Elu { .. } if x > 0.0 => point,
            Self::Elu { alpha } => alpha * exp_m1_at(x),
            Self::Wave { cosine: false } => sin_at(x),
            Self::Wave { cosine: true } => cos_at(x),
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
            Self::Leaky { .. } | Self::Clamp { .. } => Interval::ALL,
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
            Self::Wave { cosine: false } => cos_at(x),
            Self::Wave { cosine: true } => -sin_at(x),
            Self::Square => 2.0 * point,
            Self::InverseRoot { eps } => {
                let sum = point + Interval::point(eps);
                Interval::point(-0.5) / (sum * sum.sqrt())
            }
        }
    }

    /// The points between which it bends one way, and how it does so in front of, between and behind them; `None` if
    /// there are too many.
    fn bends(self, x: Interval) -> Option<(Vec<Interval>, Vec<Bend>)> {
        use Bend::{Concave, Convex};
        let line = |slope: f64, rest: f64| Bend::Linear { slope, rest: Interval::point(rest) };
        let waist = |at: Interval| (vec![-at, at], vec![Concave, Convex, Concave]);
        let zero = |left: Bend, right: Bend| (vec![Interval::ZERO], vec![left, right]);
        Some(match self {
            Self::Leaky { slope } => zero(line(slope, 0.0), line(1.0, 0.0)),
            Self::Sigmoid | Self::Tanh => zero(Convex, Concave),
            Self::Softplus | Self::Square => (vec![], vec![Convex]),
            Self::Silu => waist(SILU_BEND),
            Self::Gelu => waist(Interval::point(2.0).sqrt()),
            Self::GeluTanh => waist(GELU_TANH_BEND),
            Self::Elu { .. } => zero(Convex, line(1.0, 0.0)),
            Self::InverseRoot { .. } => zero(Bend::Linear { slope: 0.0, rest: self.at(0.0) }, Convex),
            Self::Clamp { low, high } => (
                vec![Interval::point(low), Interval::point(high)],
                vec![line(0.0, low), line(1.0, 0.0), line(0.0, high)],
            ),
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
        for (cut, next) in cuts.into_iter().zip(&bends[1..]).take_while(|(cut, _)| cut.low <= x.high) {
            for (end, bend) in [(cut.low, bend), (cut.high.min(x.high), Bend::Unknown)] {
                if from < end {
                    pieces.push(Piece { on: Interval { low: from, high: end }, bend });
                    from = end;
                }
            }
            bend = *next;
        }
        if from < x.high || pieces.is_empty() {
            pieces.push(Piece { on: Interval { low: from, high: x.high }, bend });
        }
        Some(pieces)
    }

    /// Values on a piece of unknown bend.
    fn nearby(self, on: Interval) -> Interval {
        let far = (MOST_STEEP * (Interval::point(on.high) - Interval::point(on.low))).high;
        self.at(on.low) + Interval::new(-far, far)
    }

    /// The image of an interval.
    pub fn image(self, x: Interval) -> Interval {
        let ends = self.at(x.low).hull(self.at(x.high));
        let turn = match self {
            Self::Silu => SILU_TURN,
            Self::Gelu => GELU_TURN,
            Self::GeluTanh => GELU_TANH_TURN,
            Self::Square => Interval::ZERO,
            Self::Leaky { slope } if slope < 0.0 => Interval::ZERO,
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

    /// Slopes at all points of an interval, on either side of a kink if it is inside.
    pub fn slopes(self, x: Interval) -> Interval {
        let Some(pieces) = self.pieces(x) else { return Interval::new(-1.0, 1.0) };
        let slopes = pieces.iter().map(|Piece { on, bend }| match bend {
            // Monotone between both ends.
            Bend::Convex | Bend::Concave => self.steepness(on.low).hull(self.steepness(on.high)),
            Bend::Linear { slope, .. } => Interval::point(*slope),
            Bend::Unknown => {
                let far = (MOST_STEEP * (Interval::point(on.high) - Interval::point(on.low))).high;
                self.steepness(on.low) + Interval::new(-far, far)
            }
        });
        slopes.reduce(Interval::hull).unwrap_or(Interval::ALL)
    }

    /// Whether its lines have slopes that files say; those of the others follow from boxes, or have policies.
    pub fn takes_slopes(self) -> bool {
        !matches!(self, Self::Leaky { .. } | Self::Sigmoid | Self::Tanh)
    }

    /// Lines below and above the function over an interval. `slopes` are wishes: for the line below a kink, and for both
    /// lines of functions that take them.
    pub fn lines(self, x: Interval, slopes: (f64, f64)) -> (Line, Line) {
        let (below, above) = match self {
            Self::Leaky { slope } => match self.straight(x) {
                Some(slope) => (slope, slope),
                None => (slopes.0.clamp(slope, 1.0), self.chord(x)),
            },
            Self::Sigmoid | Self::Tanh => {
                // Nowhere more than the derivative.
                let flat = self.steepness(x.low).low.min(self.steepness(x.high).low);
                let chord = |on_one_side: bool| if on_one_side { self.chord(x) } else { flat };
                (chord(x.low >= 0.0), chord(x.high <= 0.0))
            }
            _ => slopes,
        };
        let strips = (self.least(1.0, below, x), -self.least(-1.0, -above, x));
        (Line { slope: below, intercept: strips.0 }, Line { slope: above, intercept: strips.1 })
    }

    /// The slope of the strip that forms take over an interval: that of the function where it is a line, else about that of the chord.
    pub fn slope(self, x: Interval) -> f64 {
        self.straight(x).unwrap_or_else(|| self.chord(x))
    }

    /// All values of f(x) − slope x over an interval.
    pub fn strip(self, x: Interval, slope: f64) -> Interval {
        Interval::new(self.least(1.0, slope, x), -self.least(-1.0, -slope, x))
    }

    /// The slope over an interval on which it is linear.
    fn straight(self, x: Interval) -> Option<f64> {
        match self.pieces(x)?[..] {
            [Piece { bend: Bend::Linear { slope, .. }, .. }] => Some(slope),
            _ => None,
        }
    }

    /// About the slope from end to end.
    pub fn chord(self, x: Interval) -> f64 {
        let slope = (self.at(x.high).middle() - self.at(x.low).middle()) / (x.high - x.low);
        if slope.is_finite() { slope } else { self.slopes(x).low.max(-1e300) }
    }

    /// A number nowhere above ±f(x) − slope x on an interval.
    ///
    /// On a piece where that is concave or linear it is least at an end. Where it is convex, it is nowhere below any of its
    /// tangents, which are lines: these are least at an end, too. A good point for the tangent is guessed.
    fn least(self, sign: f64, slope: f64, x: Interval) -> f64 {
        let beside = |on: Interval, values: Interval| (sign * values - slope * on).low;
        let Some(pieces) = self.pieces(x) else { return beside(x, self.image(x)) };
        let bulge = if sign > 0.0 { Bend::Convex } else { Bend::Concave };
        let rest = |p: f64| sign * self.at(p) - slope * Interval::point(p);
        let on_piece = |Piece { on, bend }: Piece| match bend {
            Bend::Unknown => beside(on, self.nearby(on)),
            Bend::Linear { slope: own, rest } => {
                let steep = sign * Interval::point(own) - Interval::point(slope);
                let to = |end: f64| steep * Interval::point(end);
                (sign * rest + to(on.low).hull(to(on.high))).low
            }
            _ if on.size() == f64::INFINITY => beside(on, self.image(on)),
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
mod tests;
