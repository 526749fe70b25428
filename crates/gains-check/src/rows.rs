//! Rows: linear functions on their way from the end of a network to its inputs.
//!
//! A row on some values is nowhere above the quantity that is to be bounded. Going back over an operator it is
//! replaced by one on the operator's arguments that is nowhere above it. Coefficients are float64 numbers; what
//! rounding makes of them is off by some ρ, and ρ · max |x| over the box of the value x is taken off the constant.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::curve::{Curve, Line};
use crate::fault::{Deadline, Fault};
use crate::interval::{Dot, Interval, add_down, mul_down};
use crate::network::{Network, Operator};
use crate::rules::{Leader, Region};
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
    /// The box of a value.
    fn boxes(&self, index: usize) -> &Region;
    /// What an affine map adds to row `row` besides W x: bias and time.
    fn shift(&self, index: usize, row: usize) -> Interval;
    /// Lines below and above the activation that makes a value, for entry `entry`.
    fn lines(&self, index: usize, entry: usize, curve: Curve) -> (Line, Line);
    /// Planes below and above the product (or the maximum, if that makes value `index`) of two of its arguments, for entry
    /// `entry`.
    fn planes(&self, index: usize, of: (usize, usize), entry: usize) -> (Plane, Plane);
}

/// `x` times the first argument plus `y` times the second one plus `constant`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plane {
    /// Slope in the first argument.
    pub x: f64,
    /// Slope in the second one.
    pub y: f64,
    /// Value where both are zero.
    pub constant: f64,
}

impl Plane {
    /// With these slopes above a function (or below it) in the four corners of a rectangle, where its values are given.
    fn at_corners(
        (x, y): (Interval, Interval),
        slopes: (f64, f64),
        above: bool,
        value: impl Fn(f64, f64) -> Interval,
    ) -> Self {
        let corners = [(x.low, y.low), (x.low, y.high), (x.high, y.low), (x.high, y.high)];
        let rest = corners
            .map(|(p, q)| value(p, q) - (slopes.0 * Interval::point(p) + slopes.1 * Interval::point(q)));
        let constant = match above {
            true => rest.iter().map(|rest| rest.high).fold(f64::NEG_INFINITY, f64::max),
            false => rest.iter().map(|rest| rest.low).fold(f64::INFINITY, f64::min),
        };
        Self { x: slopes.0, y: slopes.1, constant }
    }

    /// Planes below and above x y. What is left of it beside a plane is linear in x and in y: least and largest in corners.
    fn of_product(x: Interval, y: Interval) -> (Self, Self) {
        let (slopes, product) = ((y.middle(), x.middle()), |p: f64, q: f64| p * Interval::point(q));
        let plane = |above: bool| Self::at_corners((x, y), slopes, above, product);
        (plane(false), plane(true))
    }

    /// Planes below and above max(x, y): both arguments are below, and since it is convex, what is above in corners is.
    fn of_maximum(x: Interval, y: Interval) -> (Self, Self) {
        let first = Self { x: 1.0, y: 0.0, constant: 0.0 };
        let second = Self { x: 0.0, y: 1.0, constant: 0.0 };
        match Leader::of(x, y) {
            Leader::First => return (first, first),
            Leader::Second => return (second, second),
            Leader::Either => {}
        }
        let below = if x.middle() >= y.middle() { first } else { second };
        (below, Self::above_maximum(x, y))
    }

    /// The mean of the planes through the corner where both are least and its two neighbours, and where both are largest.
    fn above_maximum(x: Interval, y: Interval) -> Self {
        let slope = |along: Interval, other: f64| {
            let slope = (along.high.max(other) - along.low.max(other)) / (along.high - along.low);
            if slope.is_finite() { slope.clamp(0.0, 1.0) } else { 0.0 }
        };
        let mean =
            |along: Interval, other: Interval| 0.5 * slope(along, other.low) + 0.5 * slope(along, other.high);
        let larger = |p: f64, q: f64| Interval::point(p.max(q));
        Self::at_corners((x, y), (mean(x, y), mean(y, x)), true, larger)
    }

    /// From a plane above a function to one below minus that function.
    fn negated(self) -> Self {
        Self { x: -self.x, y: -self.y, constant: -self.constant }
    }

    /// From a plane above max(−x, −y), as a function of −x and −y, to one below min(x, y), as a function of x and y.
    fn below_minimum(self) -> Self {
        Self { constant: -self.constant, ..self }
    }
}

/// Moves a function of value `index` to its arguments.
pub fn back(network: &Network, index: usize, row: &mut Row, of: Vec<f64>, known: &impl Knowledge) {
    let node = &network.nodes[index];
    match &node.operator {
        Operator::Input | Operator::Ode(_) => {}
        Operator::Affine(matrix) => {
            let argument = node.arguments[0];
            let mut sums = vec![Dot::default(); matrix.inputs];
            let mut constant = 0.0;
            for (output, &a) in of.iter().enumerate().filter(|(_, a)| **a != 0.0) {
                for (column, weight) in matrix.row(output) {
                    sums[column].add(a, weight);
                }
                constant = add_down(constant, (a * known.shift(index, output)).low);
            }
            let sums = sums.into_iter().map(|sum| match matrix.divisor {
                Some(divisor) => sum.interval() / Interval::point(divisor),
                None => sum.interval(),
            });
            let boxes = known.boxes(argument);
            row.add(argument, Linear::settle(sums, constant, boxes), boxes);
        }
        Operator::Scale(factors, _) => {
            let argument = node.arguments[0];
            let constant =
                of.iter().enumerate().map(|(i, &a)| (a * known.shift(index, i)).low).fold(0.0, add_down);
            let products = of.iter().zip(factors).map(|(&a, &factor)| a * factor);
            let boxes = known.boxes(argument);
            row.add(argument, Linear::settle(products, constant, boxes), boxes);
        }
        Operator::Curve(curve) => {
            let argument = node.arguments[0];
            let mut constant = 0.0;
            let products: Vec<Interval> = (0..of.len())
                .map(|entry| {
                    let a = of[entry];
                    if a == 0.0 {
                        return Interval::ZERO;
                    }
                    let (lower, upper) = known.lines(index, entry, *curve);
                    let line = if a > 0.0 { lower } else { upper };
                    constant = nothing_if_nan(add_down(constant, mul_down(a, line.intercept)));
                    a * Interval::point(line.slope)
                })
                .collect();
            let boxes = known.boxes(argument);
            row.add(argument, Linear::settle(products.into_iter(), constant, boxes), boxes);
        }
        Operator::Product | Operator::Maximum => {
            let mut constant = 0.0;
            let none = || vec![Interval::ZERO; of.len()];
            let (mut on_first, mut on_second) = (none(), none());
            for (entry, &a) in of.iter().enumerate().filter(|(_, a)| **a != 0.0) {
                let (lower, upper) = known.planes(index, (node.arguments[0], node.arguments[1]), entry);
                let plane = if a > 0.0 { lower } else { upper };
                constant = nothing_if_nan(add_down(constant, mul_down(a, plane.constant)));
                on_first[entry] = a * Interval::point(plane.x);
                on_second[entry] = a * Interval::point(plane.y);
            }
            for (&argument, on) in node.arguments.iter().zip([on_first, on_second]) {
                let boxes = known.boxes(argument);
                row.add(argument, Linear::settle(on.into_iter(), constant, boxes), boxes);
                constant = 0.0;
            }
        }
        // g + u y − u g: planes beside both products.
        Operator::Blend => {
            let [u, g, y] = [node.arguments[0], node.arguments[1], node.arguments[2]];
            let mut on = [(); 3].map(|()| vec![Interval::ZERO; of.len()]);
            let mut constant = 0.0;
            for (entry, &a) in of.iter().enumerate().filter(|(_, a)| **a != 0.0) {
                let (old, new) = (known.planes(index, (u, y), entry), known.planes(index, (u, g), entry));
                let (old, new) = if a > 0.0 { (old.0, new.1) } else { (old.1, new.0) };
                let times = |x: Interval| a * x;
                on[0][entry] = times(Interval::point(old.x) - Interval::point(new.x));
                on[1][entry] = times(Interval::ONE - Interval::point(new.y));
                on[2][entry] = times(Interval::point(old.y));
                let constants = times(Interval::point(old.constant) - Interval::point(new.constant));
                constant = nothing_if_nan(add_down(constant, constants.low));
            }
            for (argument, on) in [u, g, y].into_iter().zip(on) {
                let boxes = known.boxes(argument);
                row.add(argument, Linear::settle(on.into_iter(), constant, boxes), boxes);
                constant = 0.0;
            }
        }
        Operator::Sum(factors) => {
            for (&argument, &factor) in node.arguments.iter().zip(factors) {
                let (boxes, factor) = (known.boxes(argument), Interval::point(factor));
                let on =
                    of.iter().map(|&a| if factor == Interval::ONE { Interval::point(a) } else { a * factor });
                row.add(argument, Linear::settle(on, 0.0, boxes), boxes);
            }
        }
        Operator::Concat => {
            let mut start = 0;
            for &argument in &node.arguments {
                let end = start + network.nodes[argument].shape.count();
                let part = Linear { coefficients: of[start..end].to_vec(), constant: 0.0 };
                row.add(argument, part, known.boxes(argument));
                start = end;
            }
        }
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
    pub policy: u8,
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

/// Slopes of the lines beside functions made of pieces, and what came of them.
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

/// Lines of the operators of a network, which an array of boxes belongs to.
pub struct Values<'a> {
    /// The network.
    pub network: &'a Network,
    /// Boxes of its values.
    pub boxes: &'a [Region],
    /// The time.
    pub time: Interval,
    /// Slopes below kinks.
    pub slopes: &'a Slopes,
    /// Slopes beside functions made of pieces.
    pub tangents: &'a Tangents,
    /// When to stop: from then on functions made of pieces, which take long, are not bounded any more.
    pub deadline: Deadline,
}

impl Knowledge for Values<'_> {
    fn boxes(&self, index: usize) -> &Region {
        &self.boxes[index]
    }

    fn shift(&self, index: usize, row: usize) -> Interval {
        match &self.network.nodes[index].operator {
            Operator::Affine(matrix) => matrix.shift(row, self.time),
            Operator::Scale(_, shifts) => shifts[row],
            _ => Interval::ZERO,
        }
    }

    fn lines(&self, index: usize, entry: usize, curve: Curve) -> (Line, Line) {
        let x = self.boxes[self.network.nodes[index].arguments[0]][entry];
        match curve {
            Curve::Pieced(_) if self.deadline.is_past() => {
                let line = |intercept| Line { slope: 0.0, intercept };
                (line(f64::NEG_INFINITY), line(f64::INFINITY))
            }
            Curve::Pieced(_) => self.tangents.lines(index, entry, curve, x),
            _ => curve.lines(x, (self.slopes.wish(index, entry, x), 0.0)),
        }
    }

    fn planes(&self, index: usize, (x, y): (usize, usize), entry: usize) -> (Plane, Plane) {
        let (x, y) = (self.boxes[x][entry], self.boxes[y][entry]);
        match self.network.nodes[index].operator {
            Operator::Maximum => Plane::of_maximum(x, y),
            _ => Plane::of_product(x, y),
        }
    }
}

/// Lines of the changes from one stage to the next.
pub struct Changes<'a> {
    /// The dynamics.
    pub network: &'a Network,
    /// The stage before.
    pub before: &'a Stage,
    /// The stage itself, in difference form.
    pub now: &'a Stage,
}

impl Knowledge for Changes<'_> {
    fn boxes(&self, index: usize) -> &Region {
        &self.now.changes[index]
    }

    fn shift(&self, index: usize, row: usize) -> Interval {
        match &self.network.nodes[index].operator {
            Operator::Affine(matrix) => {
                matrix.time.get(row).map_or(Interval::ZERO, |&unit| (self.now.time - self.before.time) * unit)
            }
            _ => Interval::ZERO,
        }
    }

    fn lines(&self, index: usize, entry: usize, curve: Curve) -> (Line, Line) {
        let argument = self.network.nodes[index].arguments[0];
        let slopes = curve.slopes(self.before.values[argument][entry].hull(self.now.values[argument][entry]));
        let (d, change) = (self.now.changes[argument][entry], self.now.changes[index][entry]);
        let lower = line_below_change(slopes, d, change);
        // The change of −f has the slopes −[m, M].
        let upper = line_below_change(-slopes, d, -change);
        (lower, Line { slope: -upper.slope, intercept: -upper.intercept })
    }

    fn planes(&self, index: usize, (x, y): (usize, usize), entry: usize) -> (Plane, Plane) {
        let node = &self.network.nodes[index];
        let (dx, dy) = (self.now.changes[x][entry], self.now.changes[y][entry]);
        if let Operator::Maximum = node.operator {
            let only = |x: f64, y: f64| (Plane { x, y, constant: 0.0 }, Plane { x, y, constant: 0.0 });
            let both = (&self.before.values[..], &self.now.values[..]);
            return match Leader::steady(both, &node.arguments, entry) {
                Leader::First => only(1.0, 0.0),
                Leader::Second => only(0.0, 1.0),
                // From min(dx, dy) = −max(−dx, −dy) to max(dx, dy).
                Leader::Either => {
                    (Plane::above_maximum(-dx, -dy).below_minimum(), Plane::above_maximum(dx, dy))
                }
            };
        }
        // x' dy + y dx: a line for each term.
        let (new_x, old_y) = (self.now.values[x][entry], self.before.values[y][entry]);
        let below = |sign: f64| {
            let in_x = line_below_change(sign * old_y, dx, Interval::ALL);
            let in_y = line_below_change(sign * new_x, dy, Interval::ALL);
            let constant = nothing_if_nan(add_down(in_x.intercept, in_y.intercept));
            Plane { x: in_x.slope, y: in_y.slope, constant }
        };
        (below(1.0), below(-1.0).negated())
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

/// Refused unless the number of entries is right.
pub fn fits<T>(numbers: &[T], expected: usize, what: &str) -> Result<(), Fault> {
    match numbers.len() == expected {
        true => Ok(()),
        false => Err(Fault::Malformed(format!("{what}: {} numbers instead of {expected}", numbers.len()))),
    }
}
