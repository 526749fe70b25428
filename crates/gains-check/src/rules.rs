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
    let x = |i: usize| &boxes[node.arguments[i]];
    match &node.operator {
        Operator::Input | Operator::Ode(_) => vec![Interval::ALL; node.shape.count()],
        Operator::Affine(map) => map.apply(&network.arguments(index, boxes), time),
        Operator::Curve(curve) => {
            let image = |&x: &Interval| if deadline.is_past() { Interval::ALL } else { curve.image(x) };
            x(0).iter().map(image).collect()
        }
        Operator::Product => each(x(0), x(1), |x, y| x * y),
        Operator::Maximum => each(x(0), x(1), Interval::max),
        Operator::Blend => (0..x(0).len()).map(|i| blend(x(0)[i], x(1)[i], x(2)[i])).collect(),
    }
}

/// (1 − u) g + u y at a point.
pub fn blend_at(u: f64, g: f64, y: f64) -> Interval {
    (Interval::ONE - Interval::point(u)) * Interval::point(g) + u * Interval::point(y)
}

/// Blends grow with g and y, since u is from 0 to 1, and are linear in u, so they are least at an end of u.
fn blend(u: Interval, g: Interval, y: Interval) -> Interval {
    let (first, last) = (u.low.clamp(0.0, 1.0), u.high.clamp(0.0, 1.0));
    let ends = |g: f64, y: f64| blend_at(first, g, y).hull(blend_at(last, g, y));
    Interval::new(ends(g.low, y.low).low, ends(g.high, y.high).high)
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
    let of = |boxes: &[Region], i: usize| boxes[node.arguments[i]].clone();
    match &node.operator {
        Operator::Affine(map) => map.changes(&network.arguments(index, changes), time),
        Operator::Curve(curve) => {
            let slopes = |x: Interval| if deadline.is_past() { Interval::ALL } else { curve.slopes(x) };
            let both = each(&of(before, 0), &of(now, 0), Interval::hull);
            each(&both, &of(changes, 0), |x, d| slopes(x) * d)
        }
        // x'y' − xy = x' (y' − y) + y (x' − x).
        Operator::Product => {
            let (new, old) = (
                each(&of(now, 0), &of(changes, 1), |x, d| x * d),
                each(&of(before, 1), &of(changes, 0), |y, d| y * d),
            );
            each(&new, &old, |a, b| a + b)
        }
        // A maximum changes by what one of both does, or by something in between.
        Operator::Maximum => {
            let (dx, dy) = (of(changes, 0), of(changes, 1));
            let one = |entry: usize| match Leader::steady((before, now), &node.arguments, entry) {
                Leader::First => dx[entry],
                Leader::Second => dy[entry],
                Leader::Either => dx[entry].hull(dy[entry]),
            };
            (0..dx.len()).map(one).collect()
        }
        // Only networks for series have blends, outside of their ODE.
        Operator::Blend | Operator::Input | Operator::Ode(_) => vec![Interval::ALL; node.shape.count()],
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
