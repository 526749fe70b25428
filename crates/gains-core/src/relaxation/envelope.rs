//! Lines below and above functions that are made of convex and concave pieces: one method for all of them.
//!
//! A line is *proposed* by its slope and *proved* by its intercept. For any slope `m`, the least value of `f(x) − m·x`
//! over an interval is found piece by piece: where `f` is concave or linear it is attained at an end of the piece; where
//! it is convex, there or where `f'` is `m`. The line with that intercept touches `f` from below, so the only question
//! is which slope is best: that of the convex hull of `f` at the point where the line is to be close. Lines above are
//! lines below `−f`.

use crate::arithmetic::{Arithmetic, TINY, down, up};
use crate::interval::Interval;
use crate::smooth::{Bend, Piece, Pieces, Smooth};

use super::Line;

/// Most halvings of a piece in which the point of contact is sought. What is left open falls with their square.
const HALVINGS: usize = 64;
/// How often a slope is tried for a function of several pieces.
const ROUNDS: usize = 4;
/// Points left and right of where the line is to be close, at which the hull is looked for.
const SAMPLES: usize = 8;
/// Distances from cuts at which it is looked for as well: all functions here bend on that scale.
const NEAR_CUTS: [f64; 3] = [0.5, 1.5, 4.0];

/// Which side of the function a line is on.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Below,
    Above,
}

impl Side {
    /// Mirrored so that the line is below.
    fn turned(self, value: f64) -> f64 {
        match self {
            Self::Below => value,
            Self::Above => -value,
        }
    }

    /// Whether a piece touches lines on this side in its interior.
    fn bulges(self, bend: Bend) -> bool {
        matches!((self, bend), (Self::Below, Bend::Convex) | (Self::Above, Bend::Concave))
    }
}

/// The line below and the line above `f` over an interval that are best in its middle, for the values that the given
/// arithmetic may compute.
pub fn lines(f: Smooth, x: Interval, arithmetic: Arithmetic) -> (Line, Line) {
    let middle = 0.5 * x.lower + 0.5 * x.upper;
    let error = program_error(f, x, arithmetic);
    (line(f, x, Side::Below, middle, error), line(f, x, Side::Above, middle, error))
}

/// [`lines`], and lines that are best near the end of the interval where those leave most.
pub fn pair(f: Smooth, x: Interval, arithmetic: Arithmetic) -> [(Line, Line); 2] {
    let first = lines(f, x, arithmetic);
    let error = program_error(f, x, arithmetic);
    let other = |side: Side, line_there: Line| {
        let gap = |end: f64| (f.value(end) - line_there.slope * end - line_there.intercept).abs();
        let (near, far) = if gap(x.lower) >= gap(x.upper) { (x.lower, x.upper) } else { (x.upper, x.lower) };
        line(f, x, side, 0.875 * near + 0.125 * far, error)
    };
    [first, (other(Side::Below, first.0), other(Side::Above, first.1))]
}

/// A slope and the interval that `f(x) − slope·x` stays in, about as narrow as it can be.
pub fn strip(f: Smooth, x: Interval, arithmetic: Arithmetic) -> (f64, f64, f64) {
    let error = program_error(f, x, arithmetic);
    if let Some(exact) = linear(f, x) {
        let (below, above) = on_both_sides(f, x, exact, error);
        return (exact.slope, below.intercept, above.intercept);
    }
    let slopes = f.derivative_range(x);
    let chord = usable((f.value(x.upper) - f.value(x.lower)) / (x.upper - x.lower), slopes);
    let (below, above) = lines(f, x, arithmetic);
    let between = |slope: f64| {
        let low = least(f, Side::Below, slope, x).less(error).value;
        let high = -least(f, Side::Above, -slope, x).less(error).value;
        (slope, low, high)
    };
    let (first, second) = (between(chord), between(0.5 * below.slope + 0.5 * above.slope));
    if second.2 - second.1 < first.2 - first.1 { second } else { first }
}

/// The interval that `f(x) − slope·x` stays in, in exact arithmetic.
pub fn strip_along(f: Smooth, slope: f64, x: Interval) -> (f64, f64) {
    (least(f, Side::Below, slope, x).value, -least(f, Side::Above, -slope, x).value)
}

/// What a value may be off, of a program and of float64.
fn program_error(f: Smooth, x: Interval, arithmetic: Arithmetic) -> f64 {
    let values = f.image(x, Arithmetic::Real);
    f.evaluation_error(x, values.magnitude(), arithmetic)
}

/// The line that `f` is over the whole interval, if it is one.
fn linear(f: Smooth, x: Interval) -> Option<Line> {
    let piece = f.pieces(x)?.single().filter(|piece| piece.bend == Bend::Linear)?;
    let middle = 0.5 * piece.on.lower + 0.5 * piece.on.upper;
    match f.derivative(middle) {
        0.0 => Some(Line { slope: 0.0, intercept: f.value(middle) }),
        1.0 if f.value(middle) == middle => Some(Line::through_origin(1.0)),
        _ => None,
    }
}

/// A line that `f` is, moved down and up by an error, and to where `f` is at the ends of the interval.
fn on_both_sides(f: Smooth, x: Interval, line: Line, error: f64) -> (Line, Line) {
    // Slopes are 0 and 1: what is left is exact, or a subnormal number beside a kink.
    let off = |end: f64| f.value(end) - (line.slope * end + line.intercept);
    let (a, b) = (off(x.lower), off(x.upper));
    let below = line.intercept + a.min(b).min(0.0) - error;
    let above = line.intercept + a.max(b).max(0.0) + error;
    let moved = |intercept: f64, round: fn(f64) -> f64| {
        let intercept = if intercept == line.intercept { intercept } else { round(intercept) };
        Line { slope: line.slope, intercept }
    };
    (moved(below, down), moved(above, up))
}

/// The line on one side of `f` that is best at a point.
fn line(f: Smooth, x: Interval, side: Side, at: f64, error: f64) -> Line {
    if let Some(exact) = linear(f, x) {
        let (below, above) = on_both_sides(f, x, exact, error);
        return if side == Side::Below { below } else { above };
    }
    let (slope, least) = best(f, x, side, at);
    Line { slope: side.turned(slope), intercept: side.turned(down(least - error)) }
}

/// A slope inside the range of the derivative whose products do not underflow.
fn usable(slope: f64, range: Interval) -> f64 {
    let slope = slope.max(range.lower).min(range.upper);
    if slope.abs() < TINY { 0.0 } else { slope }
}

/// The slope of a line below `±f` that is nearly the highest at a point, and its intercept.
///
/// A line that touches left of the point is too flat, one that touches right of it too steep; the segment between the
/// two points of contact is a better guess than both. It begins with the best segment between sampled points.
fn best(f: Smooth, x: Interval, side: Side, at: f64) -> (f64, f64) {
    let turned = f.derivative_range(x);
    let range = match side {
        Side::Below => turned,
        Side::Above => Interval::new(-turned.upper, -turned.lower),
    };
    let value = |p: f64| side.turned(f.value(p));
    let proved = |slope: f64| {
        let slope = usable(slope, range);
        (slope, least(f, side, slope, x))
    };
    let tangent = || side.turned(f.derivative(at));
    // NaN and infinite ends: any line, whose intercept is none.
    let Some(pieces) = f.pieces(x).filter(|_| (x.upper - x.lower).is_finite()) else {
        return (0.0, least(f, side, 0.0, x).value);
    };
    if let Some(piece) = pieces.single() {
        let chord = || (value(x.upper) - value(x.lower)) / (x.upper - x.lower);
        let (slope, found) = proved(if side.bulges(piece.bend) { tangent() } else { chord() });
        return (slope, found.value);
    }
    let (mut left, mut right) = sampled(f, x, &pieces, side, at);
    let mut guess = if left < right { (value(right) - value(left)) / (right - left) } else { tangent() };
    let mut best = (0.0, f64::NAN);
    for _ in 0..ROUNDS {
        let (slope, found) = proved(guess);
        // NaN is not better than anything, and stays if there is nothing else.
        if best.1.is_nan() || found.value + slope * at > best.1 + best.0 * at {
            best = (slope, found.value);
        }
        if found.contact < at {
            left = found.contact
        } else {
            right = found.contact
        }
        guess = (value(right) - value(left)) / (right - left);
        if found.contact == at || !guess.is_finite() {
            break;
        }
    }
    best
}

/// The ends of the segment that is lowest at `at`, among those between sampled points of `±f` left and right of it.
fn sampled(f: Smooth, x: Interval, pieces: &Pieces, side: Side, at: f64) -> (f64, f64) {
    let value = |p: f64| side.turned(f.value(p));
    let (mut left, mut right) = (vec![(at, value(at))], vec![(at, value(at))]);
    let mut look = |p: f64| {
        if x.lower <= p && p < at {
            left.push((p, value(p)));
        } else if at < p && p <= x.upper {
            right.push((p, value(p)));
        }
    };
    for k in 1..=SAMPLES {
        let part = k as f64 / SAMPLES as f64;
        look(at + part * (x.lower - at));
        look(at + part * (x.upper - at));
    }
    look(x.lower);
    look(x.upper);
    for Piece { on, .. } in pieces.iter() {
        for cut in [on.lower, on.upper] {
            look(cut);
            for distance in NEAR_CUTS {
                look(cut - distance);
                look(cut + distance);
            }
        }
    }
    let mut lowest = (value(at), (at, at));
    for &(p, at_p) in &left {
        for &(q, at_q) in right.iter().filter(|(q, _)| *q > p) {
            let there = at_p + (at_q - at_p) / (q - p) * (at - p);
            // Segments that end there are no better, but for rounding.
            if there < lowest.0 - 8.0 * f64::EPSILON * (at_p.abs() + at_q.abs()) {
                lowest = (there, (p, q));
            }
        }
    }
    lowest.1
}

/// The least value of a function less a line, rounded down, and about where it is attained.
#[derive(Clone, Copy)]
struct Least {
    value: f64,
    contact: f64,
}

impl Least {
    /// The lower one, and NaN if one of them is.
    fn or(self, other: Self) -> Self {
        if self.value.is_nan() || self.value < other.value { self } else { other }
    }

    fn less(self, by: f64) -> Self {
        Self { value: down(self.value - by), ..self }
    }
}

/// A number nowhere above `±f(x) − slope·x` on an interval (plus for lines below, minus for lines above), the rounding of
/// float64 counted, that of the program not.
///
/// On a convex piece `g(x) ≥ g(p) + g'(p)·(x − p)` for every `p`. Between two points where `g'` was found to be negative
/// and positive this leaves what the first tangent loses up to the second point; elsewhere `g` is at least what it is at
/// these points, up to what `g'` may be off times the length of the piece.
fn least(f: Smooth, side: Side, slope: f64, x: Interval) -> Least {
    let g = |p: f64| {
        let (value, product) = (side.turned(f.value(p)), slope * p);
        let own = f.evaluation_error(Interval::point(p), value.abs(), Arithmetic::Real);
        let rounding = 4.0 * f64::EPSILON * (value.abs() + product.abs()) + TINY;
        Least { value: value - product - own - rounding, contact: p }
    };
    let Some(pieces) = f.pieces(x) else {
        let values = f.image(x, Arithmetic::Real);
        let least = if side == Side::Below { values.lower } else { -values.upper };
        let product = up((slope * x.lower).max(slope * x.upper));
        return Least { value: down(least - product) - TINY, contact: x.lower };
    };
    let mut least: Option<Least> = None;
    for Piece { on, bend } in pieces.iter() {
        let mut here = g(on.lower).or(g(on.upper));
        if side.bulges(bend) {
            let rise = |p: f64| side.turned(f.derivative(p)) - slope;
            let (mut p, mut q, mut falls) = (on.lower, on.upper, -rise(on.lower));
            if falls > 0.0 && rise(q) > 0.0 {
                for _ in 0..HALVINGS {
                    if falls * (q - p) <= 4.0 * f64::EPSILON * here.value.abs() {
                        break;
                    }
                    let middle = 0.5 * p + 0.5 * q;
                    let there = -rise(middle);
                    if there > 0.0 { (p, falls) = (middle, there) } else { q = middle }
                }
                here = here.or(g(p).or(g(q)).less(up(falls * (q - p))));
            }
            let owed = (f.derivative_error(on) + 2.0 * f64::EPSILON * slope.abs()) * (on.upper - on.lower);
            here = here.less(up(owed));
        }
        least = Some(least.map_or(here, |least| least.or(here)));
    }
    least.unwrap_or(Least { value: f64::NAN, contact: x.lower })
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
