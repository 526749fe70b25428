//! What operators make of boxes, and of changes between two evaluations.

use crate::fault::{Deadline, Fault};
use crate::interval::Interval;
use crate::network::{Network, Operator};

/// An interval for each entry.
pub type Region = Vec<Interval>;

/// The box of value `index`, given those in front of it. ODEs and inputs have no rule: all numbers.
pub fn image(
    network: &Network,
    index: usize,
    boxes: &[Region],
    time: Interval,
    deadline: Deadline,
) -> Region {
    let node = &network.nodes[index];
    let argument = |i: usize| boxes[node.arguments[i]].iter();
    match &node.operator {
        Operator::Input | Operator::Ode(_) => vec![Interval::ALL; node.shape.count()],
        Operator::Affine(matrix) => matrix.apply(&boxes[node.arguments[0]], time),
        Operator::Scale(factors, shifts) => {
            argument(0).zip(factors).zip(shifts).map(|((&x, &factor), &shift)| x * factor + shift).collect()
        }
        Operator::Curve(curve) => {
            let image = |&x: &Interval| if deadline.is_past() { Interval::ALL } else { curve.image(x) };
            argument(0).map(image).collect()
        }
        Operator::Sum(factors) => {
            let terms = node.arguments.iter().zip(factors);
            let terms = terms.map(|(&from, &by)| boxes[from].iter().map(|&x| x.times(by)).collect());
            terms.reduce(|a: Region, b| each(&a, &b, |a, b| a + b)).unwrap_or_default()
        }
        Operator::Blend => {
            let [u, new, old] = [0, 1, 2].map(|i| &boxes[node.arguments[i]]);
            (0..u.len()).map(|i| blend(u[i], new[i], old[i])).collect()
        }
        Operator::Product => each(&boxes[node.arguments[0]], &boxes[node.arguments[1]], |x, y| x * y),
        Operator::Maximum => each(&boxes[node.arguments[0]], &boxes[node.arguments[1]], Interval::max),
        Operator::Concat => {
            node.arguments.iter().flat_map(|&argument| boxes[argument].iter().copied()).collect()
        }
    }
}

/// (1 − u) g + u y: grows with g and y, since u is from 0 to 1, and is linear in u, so it is least at an end of u.
fn blend(u: Interval, g: Interval, y: Interval) -> Interval {
    let at = |u: f64, g: f64, y: f64| {
        (Interval::ONE - Interval::point(u)) * Interval::point(g) + u * Interval::point(y)
    };
    let (first, last) = (u.low.clamp(0.0, 1.0), u.high.clamp(0.0, 1.0));
    let low = at(first, g.low, y.low).low.min(at(last, g.low, y.low).low);
    Interval::new(low, at(first, g.high, y.high).high.max(at(last, g.high, y.high).high))
}

/// Which of two numbers is the larger one wherever they are in their intervals.
#[derive(Clone, Copy, PartialEq)]
pub enum Leader {
    /// The first.
    First,
    /// The second.
    Second,
    /// Now this one, now that one.
    Either,
}

impl Leader {
    /// Of two intervals.
    pub fn of(x: Interval, y: Interval) -> Self {
        match (x.low >= y.high, y.low >= x.high) {
            (true, _) => Self::First,
            (_, true) => Self::Second,
            _ => Self::Either,
        }
    }

    /// Of entry `entry` of two arguments, in both of two evaluations.
    pub fn steady((before, now): (&[Region], &[Region]), arguments: &[usize], entry: usize) -> Self {
        let of = |boxes: &[Region]| Self::of(boxes[arguments[0]][entry], boxes[arguments[1]][entry]);
        if of(before) == of(now) { of(now) } else { Self::Either }
    }
}

/// The change of value `index` between two evaluations with boxes `before` and `now`, given the changes of the values
/// in front of it and of the time: biases drop out, and f(p') − f(p) is p' − p times a slope of f in between.
pub fn change(
    network: &Network,
    index: usize,
    (before, now): (&[Region], &[Region]),
    changes: &[Region],
    time: Interval,
    deadline: Deadline,
) -> Region {
    let node = &network.nodes[index];
    match &node.operator {
        Operator::Affine(matrix) => {
            let mut change = matrix.times(&changes[node.arguments[0]]);
            for (entry, unit) in change.iter_mut().zip(&matrix.time) {
                *entry = *entry + time * *unit;
            }
            change
        }
        Operator::Scale(factors, _) => {
            changes[node.arguments[0]].iter().zip(factors).map(|(&d, &f)| d * f).collect()
        }
        Operator::Curve(curve) => {
            let argument = node.arguments[0];
            let both = before[argument].iter().zip(&now[argument]);
            let slopes = |x: Interval| if deadline.is_past() { Interval::ALL } else { curve.slopes(x) };
            both.zip(&changes[argument]).map(|((&p, &q), &d)| slopes(p.hull(q)) * d).collect()
        }
        // x'y' − xy = x' (y' − y) + y (x' − x).
        Operator::Product => {
            let (x, y) = (node.arguments[0], node.arguments[1]);
            each(
                &each(&now[x], &changes[y], |x, d| x * d),
                &each(&before[y], &changes[x], |y, d| y * d),
                |a, b| a + b,
            )
        }
        // A maximum changes by what one of both does, or by something in between.
        Operator::Maximum => {
            let (x, y) = (node.arguments[0], node.arguments[1]);
            let one = |entry: usize| match Leader::steady((before, now), &node.arguments, entry) {
                Leader::First => changes[x][entry],
                Leader::Second => changes[y][entry],
                Leader::Either => changes[x][entry].hull(changes[y][entry]),
            };
            (0..changes[x].len()).map(one).collect()
        }
        // Only networks for series have them, outside of their ODE.
        Operator::Blend => vec![Interval::ALL; node.shape.count()],
        Operator::Input | Operator::Ode(_) | Operator::Sum(_) | Operator::Concat => {
            image(network, index, changes, time, deadline)
        }
    }
}

/// What both have in common.
pub fn meet(a: &[Interval], b: &[Interval]) -> Result<Region, Fault> {
    a.iter().zip(b).map(|(a, b)| a.meet(*b).ok_or(Fault::Empty)).collect()
}

/// Entry by entry.
pub fn each(a: &[Interval], b: &[Interval], of: impl Fn(Interval, Interval) -> Interval) -> Region {
    a.iter().zip(b).map(|(&a, &b)| of(a, b)).collect()
}

/// Refused unless every entry of `inner` lies in `outer`; names the entry that lies farthest outside.
pub fn holds(outer: &[Interval], inner: &[Interval], what: &str) -> Result<(), Fault> {
    let misses = outer.iter().zip(inner).map(|(outer, inner)| outer.misses(*inner));
    let misses = misses.enumerate().filter_map(|(entry, misses)| Some((entry, misses?)));
    match misses.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((entry, amount)) => Err(Fault::refused(format!("{what}: entry {entry} lies outside"), amount)),
        None => Ok(()),
    }
}
