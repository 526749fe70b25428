//! Functions of one number: activations. Their images, slopes, and lines on either side of them.

use crate::functions::{sigmoid, tanh};
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
    /// The values at both ends.
    fn at(self, x: f64) -> Interval {
        match self {
            Self::Leaky { slope } => (if x < 0.0 { slope } else { 1.0 }) * Interval::point(x),
            Self::Sigmoid => sigmoid(Interval::point(x)),
            Self::Tanh => tanh(Interval::point(x)),
        }
    }

    /// The image of an interval.
    pub fn image(self, x: Interval) -> Interval {
        let ends = self.at(x.low).hull(self.at(x.high));
        match self {
            // The only one that does not grow is least at zero.
            Self::Leaky { slope } if slope < 0.0 && x.low < 0.0 && x.high > 0.0 => ends.hull(Interval::ZERO),
            _ => ends,
        }
    }

    /// Slopes at all points of an interval, on either side of the kink if it is inside.
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
        }
    }

    /// Derivative of a smooth function.
    fn steepness(self, x: f64) -> Interval {
        let x = Interval::point(x);
        match self {
            Self::Leaky { .. } => Interval::ALL,
            Self::Sigmoid => sigmoid(x) * sigmoid(-x),
            Self::Tanh => 4.0 * (sigmoid(2.0 * x) * sigmoid(-2.0 * x)),
        }
    }

    /// Lines below and above the function over an interval; `slope` is a wish for the one below a kink.
    pub fn lines(self, x: Interval, slope: f64) -> (Line, Line) {
        match self {
            Self::Leaky { .. } if x.low >= 0.0 => {
                (Line { slope: 1.0, intercept: 0.0 }, Line { slope: 1.0, intercept: 0.0 })
            }
            Self::Leaky { slope: leak } if x.high <= 0.0 => {
                (Line { slope: leak, intercept: 0.0 }, Line { slope: leak, intercept: 0.0 })
            }
            Self::Leaky { slope: leak } => {
                // A line through zero whose slope is between both is below; a convex function is below its chord.
                let lower = Line { slope: slope.clamp(leak, 1.0), intercept: 0.0 };
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
        }
    }

    /// About the slope from end to end.
    fn chord(self, x: Interval) -> f64 {
        let slope = (self.at(x.high).middle() - self.at(x.low).middle()) / (x.high - x.low);
        if slope.is_finite() { slope } else { self.slopes(x).low }
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
