//! Elementwise functions that are convex, concave or linear between known points.
//!
//! Each function says its value and derivative, between which points it bends which way, how far off a program may
//! evaluate it, and nothing else: images, slopes, lines ([`crate::relaxation`]) and strips of affine forms are made
//! of that, by one method for all.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, FRAC_PI_2, PI, SQRT_2};

use crate::arithmetic::{Arithmetic, TINY, UNIT32};
use crate::interval::{Interval, hull_of};

/// An elementwise function made of pieces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Smooth {
    /// `ln(1 + eˣ)`.
    Softplus,
    /// `x / (1 + e⁻ˣ)`.
    Silu,
    /// `x·Φ(x)` with the normal distribution Φ.
    Gelu,
    /// `½x·(1 + tanh(√(2/π)·(x + 0.044715x³)))`.
    GeluTanh,
    /// `x` for positive `x`, else `alpha·(eˣ − 1)`, with `alpha ≥ 0`.
    Elu {
        /// What is approached far left, with the opposite sign.
        alpha: f64,
    },
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// `x²`.
    Square,
    /// The nearest number in `[low, high]`.
    Clamp {
        /// Least value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// `1/√(max(x, 0) + eps)`.
    InverseRoot {
        /// Positive.
        eps: f64,
    },
}

/// How a function bends on a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bend {
    /// Not at all.
    Linear,
    /// Its derivative grows.
    Convex,
    /// Its derivative falls.
    Concave,
}

/// A part of an interval on which a function bends one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Where it is.
    pub on: Interval,
    /// Which way.
    pub bend: Bend,
}

/// Most pieces of an interval that are told apart; of more, as waves have them, only the range is used.
const MOST_PIECES: usize = 6;

/// The pieces of an interval, from left to right.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    all: [Piece; MOST_PIECES],
    count: usize,
}

impl Pieces {
    fn one(on: Interval, bend: Bend) -> Self {
        Self { all: [Piece { on, bend }; MOST_PIECES], count: 1 }
    }

    /// Cuts at the points that are inside; `bend` tells how the function bends at a point between cuts.
    fn cut(x: Interval, at: impl IntoIterator<Item = f64>, bend: impl Fn(f64) -> Bend) -> Option<Self> {
        let mut pieces = Self { count: 0, ..Self::one(x, Bend::Linear) };
        let mut from = x.lower;
        let inside = at.into_iter().filter(|p| x.lower < *p && *p < x.upper);
        for to in inside.chain([x.upper]) {
            let on = Interval::new(from, to);
            let piece = Piece { on, bend: bend(0.5 * from + 0.5 * to) };
            *pieces.all.get_mut(pieces.count)? = piece;
            pieces.count += 1;
            from = to;
        }
        Some(pieces)
    }

    /// From left to right.
    pub fn iter(&self) -> impl Iterator<Item = Piece> + '_ {
        self.all[..self.count].iter().copied()
    }

    /// The only piece, if there is only one.
    pub fn single(&self) -> Option<Piece> {
        (self.count == 1).then_some(self.all[0])
    }
}

/// Where SiLU bends the other way: `x·tanh(x/2) = 2`.
const SILU_BEND: f64 = 2.399_357_280_515_467_7;
/// Where SiLU is least.
const SILU_TURN: f64 = -1.278_464_542_761_074;
/// Where GELU is least.
const GELU_TURN: f64 = -0.751_791_524_693_564_5;
/// Where the approximation of GELU bends the other way.
const GELU_TANH_BEND: f64 = 1.418_504_008_790_828_4;
/// Where the approximation of GELU is least.
const GELU_TANH_TURN: f64 = -0.752_461_422_071_016_3;
/// Beyond this, GELU in either form is 0 or `x` to the last bit.
const GELU_END: f64 = 40.0;
/// Factor of the cubic term in the approximation of GELU.
const CUBIC: f64 = 0.044_715;
/// Beyond this, multiples of π are not told apart well enough.
const FAR_WAVES: f64 = 1e6;
/// What a float32 program may lose where its exponentials overflow or underflow.
const FLUSHED: f64 = 1e-36;

fn logistic(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

/// The argument of the hyperbolic tangent in the approximation of GELU, and its derivative.
fn gelu_inner(x: f64) -> (f64, f64) {
    let factor = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    (factor * (x + CUBIC * x * x * x), factor * (1.0 + 3.0 * CUBIC * x * x))
}

impl Smooth {
    /// The numbers it is given.
    pub fn constants(self) -> Vec<f64> {
        match self {
            Self::Elu { alpha } => vec![alpha],
            Self::Clamp { low, high } => vec![low, high],
            Self::InverseRoot { eps } => vec![eps],
            Self::Softplus
            | Self::Silu
            | Self::Gelu
            | Self::GeluTanh
            | Self::Sin
            | Self::Cos
            | Self::Square => Vec::new(),
        }
    }

    /// Value in float64.
    pub fn value(self, x: f64) -> f64 {
        match self {
            Self::Softplus if x > 0.0 => x + (-x).exp().ln_1p(),
            Self::Softplus => x.exp().ln_1p(),
            Self::Silu => x * logistic(x),
            Self::Gelu => 0.5 * x * libm::erfc(-x * FRAC_1_SQRT_2),
            Self::GeluTanh => 0.5 * x * (1.0 + gelu_inner(x).0.tanh()),
            Self::Elu { .. } if x > 0.0 => x,
            Self::Elu { alpha } => alpha * x.exp_m1(),
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
            Self::Square => x * x,
            // Not `f64::clamp`: this keeps NaN and does not panic.
            Self::Clamp { low, .. } if x < low => low,
            Self::Clamp { high, .. } if x > high => high,
            Self::Clamp { .. } => x,
            Self::InverseRoot { eps } if x < 0.0 => 1.0 / eps.sqrt(),
            Self::InverseRoot { eps } => 1.0 / (x + eps).sqrt(),
        }
    }

    /// Derivative; at a kink that of the piece which is not linear, or else any of the two.
    pub fn derivative(self, x: f64) -> f64 {
        match self {
            Self::Softplus => logistic(x),
            Self::Silu => {
                let s = logistic(x);
                s + x * s * logistic(-x)
            }
            Self::Gelu | Self::GeluTanh if x.abs() > GELU_END => f64::from(u8::from(x > 0.0)),
            Self::Gelu => {
                let density = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (-0.5 * x * x).exp();
                0.5 * libm::erfc(-x * FRAC_1_SQRT_2) + x * density
            }
            Self::GeluTanh => {
                let (inner, steepness) = gelu_inner(x);
                let c = inner.cosh();
                0.5 * (1.0 + inner.tanh()) + 0.5 * x * steepness / (c * c)
            }
            Self::Elu { .. } if x > 0.0 => 1.0,
            Self::Elu { alpha } => alpha * x.exp(),
            Self::Sin => x.cos(),
            Self::Cos => -x.sin(),
            Self::Square => 2.0 * x,
            Self::Clamp { low, high } if x < low || x > high => 0.0,
            Self::Clamp { .. } => 1.0,
            Self::InverseRoot { .. } if x < 0.0 => 0.0,
            Self::InverseRoot { eps } => -0.5 / ((x + eps) * (x + eps).sqrt()),
        }
    }

    /// How the function bends on parts of an interval; `None` if there are too many.
    ///
    /// The cuts are rounded: between one and the true point `w` away the function bends the wrong way, with a second
    /// derivative below `w`, so that it is off by `w³`, nothing beside the rounding of its values.
    pub fn pieces(self, x: Interval) -> Option<Pieces> {
        let between = |left: f64, right: f64, inside: Bend, outside: Bend| {
            Pieces::cut(x, [left, right], |p| if left < p && p < right { inside } else { outside })
        };
        match self {
            Self::Softplus | Self::Square => Some(Pieces::one(x, Bend::Convex)),
            Self::Silu => between(-SILU_BEND, SILU_BEND, Bend::Convex, Bend::Concave),
            Self::Gelu => between(-SQRT_2, SQRT_2, Bend::Convex, Bend::Concave),
            Self::GeluTanh => between(-GELU_TANH_BEND, GELU_TANH_BEND, Bend::Convex, Bend::Concave),
            Self::Elu { .. } => Pieces::cut(x, [0.0], |p| if p > 0.0 { Bend::Linear } else { Bend::Convex }),
            Self::Clamp { low, high } => Pieces::cut(x, [low, high], |_| Bend::Linear),
            Self::InverseRoot { .. } => {
                Pieces::cut(x, [0.0], |p| if p < 0.0 { Bend::Linear } else { Bend::Convex })
            }
            Self::Sin => waves(x, 0.0),
            Self::Cos => waves(x, FRAC_PI_2),
        }
    }

    /// Where the function is least, if it falls up to a point and rises from there on.
    fn turn(self) -> Option<f64> {
        match self {
            Self::Silu => Some(SILU_TURN),
            Self::Gelu => Some(GELU_TURN),
            Self::GeluTanh => Some(GELU_TANH_TURN),
            Self::Square => Some(0.0),
            _ => None,
        }
    }

    /// The values over an interval, as float64 finds them.
    fn range(self, x: Interval) -> Interval {
        let (at_lower, at_upper) = (self.value(x.lower), self.value(x.upper));
        let ends = hull_of([at_lower, at_upper]);
        match self {
            Self::Sin => wave_range(x, 0.0, ends),
            Self::Cos => wave_range(x, FRAC_PI_2, ends),
            _ => match self.turn() {
                Some(turn) if x.lower < turn && turn < x.upper => {
                    hull_of([self.value(turn), at_lower, at_upper])
                }
                _ => ends,
            },
        }
    }

    /// What every value of the function lies in, also as a program computes it.
    fn everything(self) -> Interval {
        let far = f64::INFINITY;
        match self {
            Self::Softplus | Self::Square | Self::InverseRoot { .. } => Interval::new(0.0, far),
            Self::Sin | Self::Cos => Interval::new(-1.0, 1.0),
            _ => Interval::new(-far, far),
        }
    }

    /// Encloses the values over an interval, as the given arithmetic may compute them.
    pub fn image(self, x: Interval, arithmetic: Arithmetic) -> Interval {
        let Interval { lower, upper } = self.range(x);
        let error = self.evaluation_error(x, lower.abs().max(upper.abs()), arithmetic);
        let most = self.everything();
        // Not `max` and `min`, which would hide NaN.
        let low = if lower - error < most.lower { most.lower } else { lower - error };
        let high = if upper + error > most.upper { most.upper } else { upper + error };
        Interval::new(low, high)
    }

    /// Encloses the derivative over an interval: it is monotone on every piece.
    pub fn derivative_range(self, x: Interval) -> Interval {
        let Some(pieces) = self.pieces(x) else { return self.steepest() };
        let mut range: Option<Interval> = None;
        for Piece { on, bend } in pieces.iter() {
            let part = match bend {
                Bend::Linear => Interval::point(self.derivative(0.5 * on.lower + 0.5 * on.upper)),
                _ => hull_of([self.derivative(on.lower), self.derivative(on.upper)]),
            };
            range = Some(range.map_or(part, |r| hull_of([r.lower, r.upper, part.lower, part.upper])));
        }
        let Interval { lower, upper } = range.unwrap_or(Interval::new(f64::NAN, f64::NAN));
        let error = self.derivative_error(x);
        if error == 0.0 {
            return Interval::new(lower, upper);
        }
        let most = self.steepest();
        let low = if lower - error < most.lower { most.lower } else { lower - error };
        let high = if upper + error > most.upper { most.upper } else { upper + error };
        Interval::new(low, high)
    }

    /// What every derivative of the function lies in.
    fn steepest(self) -> Interval {
        let far = f64::INFINITY;
        match self {
            Self::Softplus | Self::Clamp { .. } => Interval::new(0.0, 1.0),
            Self::Sin | Self::Cos => Interval::new(-1.0, 1.0),
            Self::Elu { alpha } => Interval::new(0.0, alpha.max(1.0)),
            Self::InverseRoot { .. } => Interval::new(-far, 0.0),
            Self::Silu | Self::Gelu | Self::GeluTanh => Interval::new(-0.2, 1.2),
            Self::Square => Interval::new(-far, far),
        }
    }

    /// How far off [`Self::derivative`] may be on an interval.
    pub fn derivative_error(self, x: Interval) -> f64 {
        let scale = match self {
            Self::Clamp { .. } => return 0.0,
            Self::Elu { .. } if x.lower >= 0.0 => return 0.0,
            Self::InverseRoot { .. } if x.upper <= 0.0 => return 0.0,
            Self::Elu { alpha } => alpha.max(1.0),
            Self::Square => 2.0 * x.magnitude(),
            Self::InverseRoot { .. } => self.derivative(if x.lower > 0.0 { x.lower } else { 0.0 }).abs(),
            _ => 1.0,
        };
        64.0 * f64::EPSILON * scale + TINY
    }

    /// How far off the value may be that is computed for an argument in `x`, of at most the given size: by
    /// [`Self::value`], and by a program in the given arithmetic.
    ///
    /// Of a float32 program is asked: eight units in the last place of the value (softplus, SiLU, the inverse root), of the
    /// argument (GELU, where `1 + erf` cancels), of `alpha` (ELU, where `eˣ − 1` does), four of one (sine, cosine), one
    /// rounding (the square, the ends of a clamp), and 1e-36 where exponentials leave its range.
    pub fn evaluation_error(self, x: Interval, size: f64, arithmetic: Arithmetic) -> f64 {
        let (unit, tiny) = match arithmetic {
            Arithmetic::Real => (f64::EPSILON, TINY),
            Arithmetic::Float32 => (f64::EPSILON + f64::from(f32::EPSILON), FLUSHED),
        };
        match self {
            Self::Softplus | Self::Silu | Self::InverseRoot { .. } => 8.0 * unit * size + tiny,
            Self::Gelu | Self::GeluTanh => 8.0 * unit * x.magnitude() + tiny,
            Self::Elu { .. } if x.lower >= 0.0 => 0.0,
            Self::Elu { alpha } => 8.0 * unit * alpha + tiny,
            Self::Sin | Self::Cos => 4.0 * unit,
            Self::Square => unit * size + arithmetic.underflow().max(TINY),
            Self::Clamp { low, high } => match arithmetic {
                Arithmetic::Float32 if !(is_single(low) && is_single(high)) => {
                    1.0001 * UNIT32 * low.abs().max(high.abs()) + arithmetic.underflow()
                }
                _ => 0.0,
            },
        }
    }
}

/// True for numbers that float32 has.
fn is_single(x: f64) -> bool {
    f64::from(x as f32) == x
}

/// Pieces of a sine that is moved right by `-phase`: concave where it is positive.
fn waves(x: Interval, phase: f64) -> Option<Pieces> {
    // NaN is no wave either.
    if !(x.magnitude() <= FAR_WAVES && x.upper - x.lower <= 4.0 * PI) {
        return None;
    }
    let first = ((x.lower + phase) / PI).ceil();
    let cuts = (0..MOST_PIECES).map(|k| (first + k as f64) * PI - phase);
    Pieces::cut(x, cuts, |p| if (p + phase).sin() > 0.0 { Bend::Concave } else { Bend::Convex })
}

/// The values of a sine that is moved right by `-phase`: those at the ends, and ±1 if a crest or a trough may be inside.
fn wave_range(x: Interval, phase: f64, ends: Interval) -> Interval {
    if !(x.magnitude() <= FAR_WAVES && x.upper - x.lower < 2.0 * PI) {
        return match x.lower.is_nan() || x.upper.is_nan() {
            true => Interval::new(f64::NAN, f64::NAN),
            false => Interval::new(-1.0, 1.0),
        };
    }
    // Whether a point `offset + 2πk` is inside, or so close that rounding could tell otherwise.
    let meets = |offset: f64| {
        let room = 1e-9;
        let turns = |p: f64| (p + phase - offset) / (2.0 * PI);
        (turns(x.upper) + room).floor() >= turns(x.lower) - room
    };
    Interval::new(
        if meets(-FRAC_PI_2) { -1.0 } else { ends.lower },
        if meets(FRAC_PI_2) { 1.0 } else { ends.upper },
    )
}

impl std::fmt::Display for Smooth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Softplus => f.write_str("softplus"),
            Self::Silu => f.write_str("silu"),
            Self::Gelu => f.write_str("gelu"),
            Self::GeluTanh => f.write_str("gelu(tanh)"),
            Self::Elu { alpha } => write!(f, "elu({alpha})"),
            Self::Sin => f.write_str("sin"),
            Self::Cos => f.write_str("cos"),
            Self::Square => f.write_str("square"),
            Self::Clamp { low, high } => write!(f, "clamp({low}, {high})"),
            Self::InverseRoot { eps } => write!(f, "inverse root(+ {eps})"),
        }
    }
}
