//! Rows: linear functions on their way from the end of a network to its inputs.
//!
//! A row on some values is nowhere above the quantity that is to be bounded. Going back over an operator it is
//! replaced by one on the operator's arguments that is nowhere above it. Coefficients are float64 numbers; what
//! rounding makes of them is off by some ρ, and ρ · max |x| over the box of the value x is taken off the constant.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::affine::Affine;
use crate::curve::{Curve, Line};
use crate::fault::Deadline;
use crate::interval::{Dot, Interval, add_down, mul_down, mul_up};
use crate::network::{Network, Operator};
use crate::rules::{Leader, Region, blend_at};
use crate::steps::Stage;

/// A linear function of one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// A coefficient for each entry.
    pub coefficients: Vec<f64>,
    /// The constant.
    pub constant: f64,
}

impl Linear {
    /// A function with coefficients that are known to lie in intervals, made one that is nowhere above it where the
    /// value is in its box.
    pub fn settle(coefficients: impl Iterator<Item = Interval>, constant: f64, boxes: &[Interval]) -> Self {
        let mut constant = constant;
        let settle = |(coefficient, x): (Interval, &Interval)| {
            let middle = coefficient.middle();
            let off = coefficient - Interval::point(middle);
            if off != Interval::ZERO {
                constant =
                    add_down(constant, -(Interval::point(off.size()) * Interval::point(x.size())).high);
            }
            middle
        };
        let coefficients = coefficients.zip(boxes).map(settle).collect();
        Self { coefficients, constant: nothing_if_nan(constant) }
    }

    /// This function plus a multiple of another one of the same value.
    pub fn plus(&self, factor: Interval, other: &[f64], boxes: &[Interval]) -> Self {
        let sum = self.coefficients.iter().zip(other);
        let sum =
            sum.map(|(&a, &b)| if b == 0.0 { Interval::point(a) } else { Interval::point(a) + b * factor });
        Self::settle(sum, self.constant, boxes)
    }

    /// A function below all of these over a box: Σ wⱼ rⱼ + s with the largest s that can be shown.
    pub fn below_all(rows: &[&Self], shares: &[f64], boxes: &[Interval]) -> Self {
        let weighted = |i: usize| {
            let terms =
                rows.iter().zip(shares).map(|(row, &share)| share * Interval::point(row.coefficients[i]));
            terms.fold(Interval::ZERO, |sum, term| sum + term).middle()
        };
        let coefficients: Vec<f64> = (0..boxes.len()).map(weighted).collect();
        let room = |row: &&Self| row.plus(-Interval::ONE, &coefficients, boxes).least(boxes);
        let constant = rows.iter().map(room).fold(f64::INFINITY, f64::min);
        Self { coefficients, constant }
    }

    /// Its least value over a box, or a little less.
    pub fn least(&self, boxes: &[Interval]) -> f64 {
        let terms = self.coefficients.iter().zip(boxes).map(|(&a, &x)| (a * x).low);
        nothing_if_nan(terms.fold(self.constant, add_down))
    }
}

/// A bound that is no number is no bound.
fn nothing_if_nan(bound: f64) -> f64 {
    if bound.is_nan() { f64::NEG_INFINITY } else { bound }
}

/// A linear function of several values.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Coefficients by the number of the value.
    pub on: BTreeMap<usize, Vec<f64>>,
    /// The constant.
    pub constant: f64,
}

impl Row {
    /// Adds a function of value `index`, whose box is given.
    pub fn add(&mut self, index: usize, part: Linear, boxes: &[Interval]) {
        self.constant = nothing_if_nan(add_down(self.constant, part.constant));
        let sum = match self.on.remove(&index) {
            None => part.coefficients,
            Some(there) => {
                let there = Linear { coefficients: there, constant: self.constant };
                let sum = there.plus(Interval::ONE, &part.coefficients, boxes);
                self.constant = sum.constant;
                sum.coefficients
            }
        };
        self.on.insert(index, sum);
    }
}

/// What a row has to know of the values it goes over.
pub trait Knowledge {
    /// The boxes of all values.
    fn boxes(&self) -> &[Region];
    /// What an affine map adds to row `row` besides W x: bias and time.
    fn shift(&self, map: &Affine, row: usize) -> Interval;
    /// Planes over the arguments below and above what entry `entry` of value `index` is, which is made of these entries alone.
    fn planes(&self, index: usize, entry: usize) -> (Plane, Plane);
}

/// `constant` plus a slope times each of up to three arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plane {
    /// The slopes.
    pub slopes: [f64; 3],
    /// Value where all are zero.
    pub constant: f64,
}

impl Plane {
    /// The planes with these slopes below and above a function that is least and largest beside any plane in corners, as those
    /// are that are linear in each argument.
    fn at_corners<const N: usize>(
        boxes: [Interval; N],
        slopes: [f64; N],
        value: impl Fn([f64; N]) -> Interval,
    ) -> (Self, Self) {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for corner in 0..1 << N {
            let mut at = [0.0; N];
            for (i, x) in boxes.iter().enumerate() {
                at[i] = if corner >> i & 1 == 0 { x.low } else { x.high };
            }
            let terms = at.iter().zip(slopes).map(|(&x, slope)| slope * Interval::point(x));
            let rest = value(at) - terms.fold(Interval::ZERO, |sum, term| sum + term);
            (low, high) = (low.min(rest.low), high.max(rest.high));
        }
        let mut all = [0.0; 3];
        all[..N].copy_from_slice(&slopes);
        (Self { slopes: all, constant: low }, Self { slopes: all, constant: high })
    }

    /// The plane that is argument `i`.
    fn argument(i: usize) -> Self {
        let mut plane = Self { slopes: [0.0; 3], constant: 0.0 };
        plane.slopes[i] = 1.0;
        plane
    }

    /// Planes below and above max(x, y): both arguments are below.
    fn of_maximum(x: Interval, y: Interval) -> (Self, Self) {
        match Leader::of(x, y) {
            Leader::First => (Self::argument(0), Self::argument(0)),
            Leader::Second => (Self::argument(1), Self::argument(1)),
            Leader::Either => {
                (Self::argument(usize::from(x.middle() < y.middle())), Self::above_maximum(x, y))
            }
        }
    }

    /// The mean of the planes through the corner where both are least and its two neighbours, and where both are largest.
    /// A maximum is convex: what is above it in corners is.
    fn above_maximum(x: Interval, y: Interval) -> Self {
        let slope = |along: Interval, other: f64| {
            let slope = (along.high.max(other) - along.low.max(other)) / (along.high - along.low);
            if slope.is_finite() { slope.clamp(0.0, 1.0) } else { 0.0 }
        };
        let mean =
            |along: Interval, other: Interval| 0.5 * slope(along, other.low) + 0.5 * slope(along, other.high);
        Self::at_corners([x, y], [mean(x, y), mean(y, x)], |[p, q]| Interval::point(p.max(q))).1
    }

    fn of_line(line: Line) -> Self {
        Self { slopes: [line.slope, 0.0, 0.0], constant: line.intercept }
    }
}

/// Moves a function of value `index` to its arguments.
pub fn back(network: &Network, index: usize, row: &mut Row, of: Vec<f64>, known: &impl Knowledge) {
    let (node, boxes) = (&network.nodes[index], known.boxes());
    let used = || of.iter().copied().enumerate().filter(|(_, a)| *a != 0.0);
    let mut constant = 0.0;
    // By entry of the first argument, of the second, and so on.
    let lengths = || node.arguments.iter().map(|&argument| network.length(argument));
    let coefficients: Vec<Interval> = match &node.operator {
        Operator::Input | Operator::Ode(_) => return,
        Operator::Affine(map) => {
            let mut sums = vec![Dot::default(); lengths().sum()];
            for (entry, a) in used() {
                for (column, weight, off) in map.row(entry) {
                    sums[column].add(a, weight);
                    if off != 0.0 {
                        sums[column].open(mul_up(a.abs(), off));
                    }
                }
                constant = add_down(constant, (a * known.shift(map, entry)).low);
            }
            sums.into_iter().map(Dot::interval).collect()
        }
        _ => {
            let mut products = vec![Interval::ZERO; lengths().sum()];
            for (entry, a) in used() {
                let (below, above) = known.planes(index, entry);
                let plane = if a > 0.0 { below } else { above };
                constant = nothing_if_nan(add_down(constant, mul_down(a, plane.constant)));
                for (argument, slope) in plane.slopes.into_iter().enumerate().take(node.arguments.len()) {
                    products[argument * of.len() + entry] = a * Interval::point(slope);
                }
            }
            products
        }
    };
    let mut rest = &coefficients[..];
    for (&argument, length) in node.arguments.iter().zip(lengths()) {
        let (own, others) = rest.split_at(length);
        let part = Linear::settle(own.iter().copied(), std::mem::take(&mut constant), &boxes[argument]);
        row.add(argument, part, &boxes[argument]);
        rest = others;
    }
}

/// Takes a function of a value of dynamics back to their input.
pub fn through_dynamics(network: &Network, value: usize, of: Linear, known: &impl Knowledge) -> Linear {
    let mut row = Row { on: BTreeMap::from([(value, of.coefficients)]), constant: of.constant };
    for index in (1..=value).rev() {
        if let Some(of) = row.on.remove(&index) {
            back(network, index, &mut row, of, known);
        }
    }
    let none = || vec![0.0; network.nodes[0].shape.count()];
    Linear { coefficients: row.on.remove(&0).unwrap_or_else(none), constant: row.constant }
}

/// Slopes that lines below kinks are to have.
#[derive(Clone, Debug, Default)]
pub struct Slopes {
    /// Where no slope is given: 0 by the larger half of the box, 1 the flat one, 2 the steep one.
    pub policy: usize,
    /// Slopes of the entries of a value.
    pub given: BTreeMap<usize, Vec<f64>>,
}

impl Slopes {
    /// The slope for an entry whose argument is in a box.
    pub fn wish(&self, index: usize, entry: usize, x: Interval) -> f64 {
        match (self.given.get(&index), self.policy) {
            (Some(slopes), _) => slopes[entry],
            (None, 2) => 1.0,
            (None, 0) if x.high >= -x.low => 1.0,
            _ => f64::NEG_INFINITY,
        }
    }
}

/// Slopes of the lines beside functions that take them, and what came of them.
#[derive(Clone, Debug, Default)]
pub struct Tangents {
    /// Of the lines below and above the entries of a value; where none are given, the chord.
    pub given: BTreeMap<usize, [Vec<f64>; 2]>,
    /// Lines by value and entry that were worked out already, with what they hold for.
    found: RefCell<BTreeMap<(usize, usize), Found>>,
}

/// An interval, and the lines below and above a function over it.
type Found = (Interval, (Line, Line));

impl Tangents {
    /// Other slopes for a value.
    pub fn give(&mut self, index: usize, slopes: [Vec<f64>; 2]) {
        self.given.insert(index, slopes);
        self.found.get_mut().clear();
    }

    fn lines(&self, index: usize, entry: usize, curve: Curve, x: Interval) -> (Line, Line) {
        if let Some((on, lines)) = self.found.borrow().get(&(index, entry))
            && *on == x
        {
            return *lines;
        }
        let slopes = match self.given.get(&index) {
            Some([below, above]) => (below[entry], above[entry]),
            None => (curve.chord(x), curve.chord(x)),
        };
        let lines = curve.lines(x, slopes);
        self.found.borrow_mut().insert((index, entry), (x, lines));
        lines
    }
}

/// What is known of the values of a network.
pub struct Values<'a> {
    /// The network.
    pub network: &'a Network,
    /// Boxes of its values.
    pub boxes: &'a [Region],
    /// The time.
    pub time: Interval,
    /// Slopes below kinks.
    pub slopes: &'a Slopes,
    /// Slopes beside functions that take them.
    pub tangents: &'a Tangents,
    /// When to stop: from then on functions that take long are not bounded any more.
    pub deadline: Deadline,
}

impl Knowledge for Values<'_> {
    fn boxes(&self) -> &[Region] {
        self.boxes
    }

    fn shift(&self, map: &Affine, row: usize) -> Interval {
        map.shift(row, self.time, true)
    }

    fn planes(&self, index: usize, entry: usize) -> (Plane, Plane) {
        let node = &self.network.nodes[index];
        let x = |i: usize| self.boxes[node.arguments[i]][entry];
        match node.operator {
            Operator::Curve(curve) => {
                let (lower, upper) = match curve.takes_slopes() {
                    true if self.deadline.is_past() => {
                        let line = |intercept| Line { slope: 0.0, intercept };
                        (line(f64::NEG_INFINITY), line(f64::INFINITY))
                    }
                    true => self.tangents.lines(index, entry, curve, x(0)),
                    false => curve.lines(x(0), (self.slopes.wish(index, entry, x(0)), 0.0)),
                };
                (Plane::of_line(lower), Plane::of_line(upper))
            }
            Operator::Maximum => Plane::of_maximum(x(0), x(1)),
            Operator::Product => {
                let slopes = [x(1).middle(), x(0).middle()];
                Plane::at_corners([x(0), x(1)], slopes, |[p, q]| p * Interval::point(q))
            }
            // Planes beside u y and beside u g, which they share their slopes with.
            _ => {
                let [u, g, y] = [x(0), x(1), x(2)];
                let slopes = [y.middle() - g.middle(), 1.0 - u.middle(), u.middle()];
                Plane::at_corners([u, g, y], slopes, |[u, g, y]| blend_at(u, g, y))
            }
        }
    }
}

/// What is known of the changes from one stage to the next.
pub struct Changes<'a> {
    /// The dynamics.
    pub network: &'a Network,
    /// The stage before.
    pub before: &'a Stage,
    /// The stage itself, in difference form.
    pub now: &'a Stage,
}

impl Knowledge for Changes<'_> {
    fn boxes(&self) -> &[Region] {
        &self.now.changes
    }

    fn shift(&self, map: &Affine, row: usize) -> Interval {
        map.shift(row, self.now.time - self.before.time, false)
    }

    fn planes(&self, index: usize, entry: usize) -> (Plane, Plane) {
        let node = &self.network.nodes[index];
        let of = |boxes: &[Region], i: usize| boxes[node.arguments[i]][entry];
        let (before, now) = (&self.before.values[..], &self.now.values[..]);
        let d = |i: usize| of(&self.now.changes, i);
        // Below a function, and above it as below its opposite.
        let both = |below: &dyn Fn(f64) -> Plane| {
            let Plane { slopes, constant } = below(-1.0);
            (below(1.0), Plane { slopes: slopes.map(|slope| -slope), constant: -constant })
        };
        match node.operator {
            Operator::Maximum => match Leader::steady((before, now), &node.arguments, entry) {
                Leader::First => (Plane::argument(0), Plane::argument(0)),
                Leader::Second => (Plane::argument(1), Plane::argument(1)),
                // From min(dx, dy) = −max(−dx, −dy) to max(dx, dy).
                Leader::Either => {
                    let below = Plane::above_maximum(-d(0), -d(1));
                    (Plane { constant: -below.constant, ..below }, Plane::above_maximum(d(0), d(1)))
                }
            },
            Operator::Curve(curve) => {
                let slopes = curve.slopes(of(before, 0).hull(of(now, 0)));
                let change = self.now.changes[index][entry];
                both(&|sign| Plane::of_line(line_below_change(sign * slopes, d(0), sign * change)))
            }
            // x' dy + y dx: a line for each term.
            Operator::Product => both(&|sign| {
                let in_x = line_below_change(sign * of(before, 1), d(0), Interval::ALL);
                let in_y = line_below_change(sign * of(now, 0), d(1), Interval::ALL);
                let constant = nothing_if_nan(add_down(in_x.intercept, in_y.intercept));
                Plane { slopes: [in_x.slope, in_y.slope, 0.0], constant }
            }),
            _ => both(&|_| Plane { slopes: [0.0; 3], constant: f64::NEG_INFINITY }),
        }
    }
}

/// A line below c·d for all c of `slopes` = [m, M] and d of its box; `change` is known to hold all these, too.
///
/// c·d is at least min(m d, M d), which is concave: a line that is below it at both ends of the box is so everywhere.
fn line_below_change(slopes: Interval, d: Interval, change: Interval) -> Line {
    let least = |d: f64| (slopes * Interval::point(d)).low;
    let slope = if slopes.low == slopes.high || d.low >= 0.0 {
        slopes.low
    } else if d.high <= 0.0 {
        slopes.high
    } else {
        (least(d.high) - least(d.low)) / (d.high - d.low)
    };
    let flat = Line { slope: 0.0, intercept: change.low };
    if !slope.is_finite() {
        return flat;
    }
    let above = |d: f64| (slope * Interval::point(d)).high;
    let at = |end: f64| nothing_if_nan(add_down(least(end), -above(end)));
    let intercept = at(d.low).min(at(d.high));
    if change.low > slope * d.middle() + intercept { flat } else { Line { slope, intercept } }
}
