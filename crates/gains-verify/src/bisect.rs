//! Splitting the region itself: for networks that start with an ODE block, whose inputs are few.

use std::collections::BinaryHeap;

use gains_core::BoxVec;

use crate::analysis::{Analysis, Method};
use crate::best_first::{Leaf, Lowest, proven_everywhere};
use crate::box_step::StepForm;
use crate::branch::{Branched, Task};
use crate::limits::Reason;

/// A part of the region with what is proven there for every row.
struct Part {
    region: BoxVec,
    known: Vec<f64>,
}

impl Leaf for Part {
    fn bound(&self) -> f64 {
        self.known.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Halves the worst part along its widest side until everything is proven, a counterexample turns up or the
/// budget is spent. `known` is proven already for the whole region.
pub(crate) fn run(task: &Task<'_>, region: BoxVec, known: &[f64]) -> Branched {
    let mut outcome = Branched::new(known);
    let mut proven = f64::INFINITY;
    let mut open = BinaryHeap::from([Lowest(Part { region, known: known.to_vec() })]);
    let mut bytes = 0;
    while let Some(Lowest(part)) = open.pop() {
        if part.bound() > 0.0 {
            proven = proven.min(part.bound());
            continue;
        }
        let halves = task.clock.check(bytes).and_then(|()| halves(task, &part));
        match halves {
            Ok(halves) => {
                outcome.parts += halves.len();
                bytes += 16 * part.region.len();
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

fn middle(region: &BoxVec) -> Vec<f64> {
    region.lower.iter().zip(&region.upper).map(|(l, u)| 0.5 * l + 0.5 * u).collect()
}

fn halves(task: &Task<'_>, part: &Part) -> Result<Vec<Part>, Reason> {
    let width = |i: usize| part.region.upper[i] - part.region.lower[i];
    let widest = (0..part.region.len()).max_by(|a, b| width(*a).total_cmp(&width(*b)));
    let middle = middle(&part.region);
    let splits = |i: &usize| part.region.lower[*i] < middle[*i] && middle[*i] < part.region.upper[*i];
    let Some(widest) = widest.filter(splits) else { return Err(Reason::Loose { margin: part.bound() }) };
    let mut halves = Vec::with_capacity(2);
    for below in [true, false] {
        let mut region = part.region.clone();
        let side = if below { &mut region.upper } else { &mut region.lower };
        side[widest] = middle[widest];
        let (method, form) = (Method::Tight, StepForm::Difference);
        let analysis =
            Analysis::new(task.prepared, region.clone(), method, form, task.arithmetic, task.clock)?;
        let bounds = analysis.bound(task.property)?.lower;
        let known = part.known.iter().zip(&bounds).map(|(a, b)| a.max(*b)).collect();
        halves.push(Part { region, known });
    }
    Ok(halves)
}
