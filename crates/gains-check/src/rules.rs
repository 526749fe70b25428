//! What operators make of boxes, and of changes between two evaluations.

use crate::fault::Fault;
use crate::interval::Interval;
use crate::network::{Network, Operator};

/// An interval for each entry.
pub type Region = Vec<Interval>;

/// The box of value `index`, given those in front of it. ODEs and inputs have no rule: all numbers.
pub fn image(network: &Network, index: usize, boxes: &[Region], time: Interval) -> Region {
    let node = &network.nodes[index];
    let argument = |i: usize| boxes[node.arguments[i]].iter();
    match &node.operator {
        Operator::Input | Operator::Ode(_) => vec![Interval::ALL; node.shape.count()],
        Operator::Affine(matrix) => matrix.apply(&boxes[node.arguments[0]], time),
        Operator::Scale(factors, shifts) => {
            argument(0).zip(factors).zip(shifts).map(|((&x, &factor), &shift)| x * factor + shift).collect()
        }
        Operator::Curve(curve) => argument(0).map(|&x| curve.image(x)).collect(),
        Operator::Sum => {
            let add =
                |sum: Region, &next: &usize| sum.iter().zip(&boxes[next]).map(|(&a, &b)| a + b).collect();
            node.arguments[1..].iter().fold(boxes[node.arguments[0]].clone(), add)
        }
        Operator::Concat => {
            node.arguments.iter().flat_map(|&argument| boxes[argument].iter().copied()).collect()
        }
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
            both.zip(&changes[argument]).map(|((&p, &q), &d)| curve.slopes(p.hull(q)) * d).collect()
        }
        _ => image(network, index, changes, time),
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
