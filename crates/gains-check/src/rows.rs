//! Rows: linear functions on their way from the end of a network to its inputs.
//!
//! A row on some values is nowhere above the quantity that is to be bounded. Going back over an operator it is
//! replaced by one on the operator's arguments that is nowhere above it. Coefficients are float64 numbers; what
//! rounding makes of them is off by some ρ, and ρ · max |x| over the box of the value x is taken off the constant.

use std::collections::BTreeMap;

use crate::curve::{Curve, Line};
use crate::fault::Fault;
use crate::interval::{Dot, Interval, add_down, mul_down};
use crate::network::{Network, Operator};
use crate::rules::Region;
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
        Operator::Sum => {
            for &argument in &node.arguments {
                row.add(argument, Linear { coefficients: of.clone(), constant: 0.0 }, known.boxes(argument));
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
        curve.lines(x, self.slopes.wish(index, entry, x))
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
    let intercept = add_down(least(d.low), -above(d.low)).min(add_down(least(d.high), -above(d.high)));
    if change.low > slope * d.middle() + intercept { flat } else { Line { slope, intercept } }
}

/// Refused unless the number of entries is right.
pub fn fits(numbers: &[f64], expected: usize, what: &str) -> Result<(), Fault> {
    match numbers.len() == expected {
        true => Ok(()),
        false => Err(Fault::Malformed(format!("{what}: {} numbers instead of {expected}", numbers.len()))),
    }
}
