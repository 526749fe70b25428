//! Splitting the region itself: for programs that start with an ODE block, whose inputs are few.

use std::collections::BinaryHeap;

use gains_core::BoxVec;

use crate::analysis::Analysis;
use crate::best_first::{Leaf, Lowest, proven_everywhere};
use crate::branch::{Branched, Task};
use crate::limits::Reason;
use crate::method::Method;
use crate::problem::Point;
use crate::steps::StepForm;

/// A part of the region with what is proven there for every row.
struct Half {
    region: Vec<BoxVec>,
    known: Vec<f64>,
}

impl Leaf for Half {
    fn bound(&self) -> f64 {
        self.known.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Halves the worst part along its widest side until everything is proven, a counterexample turns up or the
/// budget is spent. `known` is proven already for the whole region.
pub(crate) fn run(task: &Task<'_>, region: Vec<BoxVec>, known: &[f64]) -> Branched {
    let mut outcome = Branched::new(known);
    let mut proven = f64::INFINITY;
    let mut open = BinaryHeap::from([Lowest(Half { region, known: known.to_vec() })]);
    let mut bytes = task.held;
    while let Some(Lowest(part)) = open.pop() {
        if part.bound() > 0.0 {
            proven = proven.min(part.bound());
            continue;
        }
        let halves = task.clock.check(bytes).and_then(|()| halves(task, &part));
        match halves {
            Ok(halves) => {
                outcome.parts += halves.len();
                bytes += part.region.iter().map(|b| 16 * b.len()).sum::<usize>();
                outcome.witness = halves.iter().find_map(|half| (task.judge)(&middle(&half.region)));
                open.extend(halves.into_iter().map(Lowest));
                if outcome.witness.is_some() {
                    break;
                }
            }
            Err(reason) => {
                outcome.stopped = Some(reason);
                open.push(Lowest(part));
                break;
            }
        }
    }
    outcome.margin = outcome.margin.max(proven_everywhere(proven, &open));
    outcome
}

fn middle(region: &[BoxVec]) -> Point {
    let centre = |b: &BoxVec| b.lower.iter().zip(&b.upper).map(|(l, u)| 0.5 * l + 0.5 * u).collect();
    region.iter().map(centre).collect()
}

fn halves(task: &Task<'_>, part: &Half) -> Result<Vec<Half>, Reason> {
    let sides = part.region.iter().enumerate().flat_map(|(v, b)| (0..b.len()).map(move |i| (v, i)));
    let width = |(v, i): (usize, usize)| part.region[v].upper[i] - part.region[v].lower[i];
    let widest = sides.max_by(|a, b| width(*a).total_cmp(&width(*b)));
    let middle = middle(&part.region);
    let splits = |&(v, i): &(usize, usize)| {
        part.region[v].lower[i] < middle[v][i] && middle[v][i] < part.region[v].upper[i]
    };
    let Some((v, i)) = widest.filter(splits) else { return Err(Reason::Loose { margin: part.bound() }) };
    let mut halves = Vec::with_capacity(2);
    for below in [true, false] {
        let mut region = part.region.clone();
        let side = if below { &mut region[v].upper } else { &mut region[v].lower };
        side[i] = middle[v][i];
        let (method, form) = (Method::Tight, StepForm::Difference);
        let analysis =
            Analysis::new(task.program, region.clone(), method, form, task.arithmetic, task.clock)?;
        let bounds = analysis.bound(task.rows)?.lower;
        let known = part.known.iter().zip(&bounds).map(|(a, b)| a.max(*b)).collect();
        halves.push(Half { region, known });
    }
    Ok(halves)
}
