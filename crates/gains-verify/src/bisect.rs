//! Splitting the region itself: for few inputs, and for programs that start with an ODE block.
//!
//! The worst part is halved, across the input along which the margin changes most over it, until everything is proven, a
//! counterexample turns up or the budget is spent. Both halves are closed boxes that share their border, so together they
//! hold every input of the part. Each half is bounded by affine forms ([`Method::Symbolic`]), and where these do not bring
//! much by rows ([`Method::Tight`]) or by both: whichever has brought more in its time on the parts before. What is proven
//! of a part holds in its halves.

use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use gains_core::BoxVec;

use crate::analysis::Analysis;
use crate::attack::Hunt;
use crate::best_first::{Leaf, Lowest, proven_everywhere};
use crate::branch::{Branched, Task};
use crate::limits::Reason;
use crate::method::Method;
use crate::problem::Point;
use crate::steps::StepForm;

/// A part of the region with what is proven there.
struct Half {
    region: Vec<BoxVec>,
    /// For every row.
    known: Vec<f64>,
    /// For the property.
    margin: f64,
    /// Which part of the region's volume it is.
    share: f64,
}

impl Leaf for Half {
    fn bound(&self) -> f64 {
        self.margin
    }

    fn size(&self) -> f64 {
        self.share
    }
}

/// The methods that bound parts, in the order in which they are tried.
const METHODS: [Method; 2] = [Method::Symbolic, Method::Tight];

/// After how many parts every method is tried again.
const TRIALS: usize = 32;

/// A method that finds this much of what is missing in a part, on average, needs no other beside it.
const ENOUGH: f64 = 0.3;

/// What a method has brought so far.
#[derive(Clone, Copy, Default)]
struct Merit {
    /// Of what was missing in each part, the share it found; summed up.
    found: f64,
    parts: f64,
    time: Duration,
}

impl Merit {
    fn rate(&self) -> f64 {
        self.found / self.time.as_secs_f64().max(1e-9)
    }

    fn add(&mut self, other: Self) {
        self.found += other.found;
        self.parts += other.parts;
        self.time += other.time;
    }
}

/// The halves of a part, and what the methods brought.
struct Halved {
    halves: Vec<Half>,
    merits: [Merit; 2],
    witness: Option<Point>,
}

/// A search that can be left and taken up again.
pub(crate) struct Bisection<'s, 'a> {
    task: &'s Task<'a>,
    hunt: &'s Hunt<'a>,
    outcome: Branched,
    open: BinaryHeap<Lowest<Half>>,
    /// The smallest bound of parts that are closed, and their share of the region.
    proven: (f64, f64),
    merits: [Merit; 2],
    bytes: usize,
}

impl<'s, 'a> Bisection<'s, 'a> {
    /// Of a region; `known` is proven already for every row.
    pub fn new(task: &'s Task<'a>, hunt: &'s Hunt<'a>, region: Vec<BoxVec>, known: &[f64]) -> Self {
        let margin = task.property.margin(known);
        let whole = Half { region, known: known.to_vec(), margin, share: 1.0 };
        Self {
            task,
            hunt,
            outcome: Branched::new(margin),
            open: BinaryHeap::from([Lowest(whole)]),
            proven: (f64::INFINITY, 0.0),
            merits: [Merit::default(); 2],
            bytes: 0,
        }
    }

    /// Halves until everything is proven, a counterexample turns up, the budget is spent, or until a moment.
    pub fn go_on(&mut self, until: Option<Instant>) {
        while !self.is_over() {
            if until.is_some_and(|until| Instant::now() >= until) {
                return;
            }
            let mut batch: Vec<Half> = Vec::new();
            while batch.len() < self.task.workers
                && let Some(Lowest(part)) = self.open.pop()
            {
                if part.margin > 0.0 {
                    self.proven = (self.proven.0.min(part.margin), self.proven.1 + part.share);
                } else {
                    batch.push(part);
                }
            }
            let methods = self.methods();
            let all = match self.task.clock.check(self.task.held + self.bytes) {
                Ok(()) => self.halve_all(&batch, &methods),
                Err(reason) => batch.iter().map(|_| Err(reason.clone())).collect(),
            };
            for (part, halved) in batch.into_iter().zip(all) {
                self.take(part, halved);
            }
        }
    }

    /// Takes in what came of a part.
    fn take(&mut self, part: Half, halved: Result<Halved, Reason>) {
        match halved {
            Ok(Halved { halves, merits, witness }) => {
                self.outcome.parts += halves.len();
                self.bytes += part.region.iter().map(|b| 16 * b.len()).sum::<usize>() + 8 * part.known.len();
                self.outcome.witness = self.outcome.witness.take().or(witness);
                self.merits.iter_mut().zip(merits).for_each(|(all, new)| all.add(new));
                self.open.extend(halves.into_iter().map(Lowest));
            }
            Err(reason) => {
                self.outcome.stopped = Some(reason);
                self.open.push(Lowest(part));
            }
        }
    }

    /// What to bound the next parts by.
    fn methods(&self) -> Vec<Method> {
        let [forms, rows] = self.merits;
        if forms.parts < 2.0 || forms.found >= ENOUGH * forms.parts {
            return vec![METHODS[0]];
        }
        if rows.parts == 0.0 || self.outcome.parts % TRIALS < 2 {
            return METHODS.to_vec();
        }
        vec![METHODS[usize::from(rows.rate() > forms.rate())]]
    }

    fn halve_all(&self, batch: &[Half], methods: &[Method]) -> Vec<Result<Halved, Reason>> {
        if let [only] = batch {
            return vec![self.halve(only, methods)];
        }
        std::thread::scope(|scope| {
            let spawn = |part| scope.spawn(move || self.halve(part, methods));
            let workers: Vec<_> = batch.iter().map(spawn).collect();
            let done = workers.into_iter().map(|w| w.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
            done.collect()
        })
    }

    fn halve(&self, part: &Half, methods: &[Method]) -> Result<Halved, Reason> {
        let middle = middle(&part.region);
        let Some((v, i)) = self.widest(part, &middle) else {
            return Err(Reason::Loose { margin: part.margin });
        };
        let mut halved =
            Halved { halves: Vec::with_capacity(2), merits: [Merit::default(); 2], witness: None };
        for below in [true, false] {
            let mut region = part.region.clone();
            let side = if below { &mut region[v].upper } else { &mut region[v].lower };
            side[i] = middle[v][i];
            let (known, margin, share) = (part.known.clone(), part.margin, 0.5 * part.share);
            let mut half = Half { region, known, margin, share };
            for (merit, method) in halved.merits.iter_mut().zip(METHODS) {
                if methods.contains(&method) && half.margin <= 0.0 {
                    merit.add(self.bound(&mut half, part.margin, method)?);
                }
            }
            if half.margin <= 0.0 {
                halved.witness = halved.witness.or_else(|| (self.task.judge)(&self::middle(&half.region)));
            }
            halved.halves.push(half);
        }
        Ok(halved)
    }

    /// The input to split across: that along which the margin changes most, going by its gradient in the middle, and
    /// where that says little the widest.
    fn widest(&self, part: &Half, middle: &Point) -> Option<(usize, usize)> {
        let gradient = self.hunt.gradient(middle);
        let steepness = |v: usize, i: usize| gradient.as_ref().map_or(0.0, |g| g[v][i].abs());
        let sides = || part.region.iter().enumerate().flat_map(|(v, b)| (0..b.len()).map(move |i| (v, i)));
        let count = sides().count().max(1) as f64;
        let mean = sides().map(|(v, i)| steepness(v, i)).sum::<f64>() / count;
        let mean = if mean.is_finite() && mean > 0.0 { mean } else { 1.0 };
        let change = |(v, i): (usize, usize)| {
            let width = part.region[v].upper[i] - part.region[v].lower[i];
            width * (steepness(v, i).min(1e3 * mean) + 0.2 * mean)
        };
        let splits = |&(v, i): &(usize, usize)| {
            part.region[v].lower[i] < middle[v][i] && middle[v][i] < part.region[v].upper[i]
        };
        sides().filter(splits).max_by(|a, b| change(*a).total_cmp(&change(*b)))
    }

    /// Raises what is known of a half by a method; tells what that brought. A method that cannot bound it proves
    /// nothing.
    fn bound(&self, half: &mut Half, before: f64, method: Method) -> Result<Merit, Reason> {
        let task = self.task;
        let started = Instant::now();
        // One part must not take all that is left.
        let patience = task.clock.left().map_or(Duration::from_secs(60), |left| left / 8);
        let clock = task.clock.share(patience.max(Duration::from_millis(100)), 0);
        let region = half.region.clone();
        let bounds =
            Analysis::new(task.program, region, method, StepForm::Difference, task.arithmetic, clock)
                .and_then(|analysis| analysis.bound(task.rows));
        match bounds {
            Ok(bounds) => {
                for (known, new) in half.known.iter_mut().zip(&bounds.lower) {
                    *known = known.max(*new);
                }
                half.margin = half.margin.max(task.property.margin(&half.known));
            }
            Err(Reason::Overflow { .. } | Reason::TooManyVertices { .. } | Reason::MemoryLimit { .. }) => {}
            Err(Reason::TimeLimit { .. }) if task.clock.check(0).is_ok() => {}
            Err(reason) => return Err(reason),
        }
        let missing = (-before).max(f64::MIN_POSITIVE);
        let share = ((half.margin - before) / missing).clamp(0.0, 1.0);
        let found = if half.margin > 0.0 {
            1.0
        } else if share.is_nan() {
            0.0
        } else {
            share
        };
        Ok(Merit { found, parts: 1.0, time: started.elapsed() })
    }

    /// Whether everything is decided, or the search has ended.
    pub fn is_over(&self) -> bool {
        self.outcome.witness.is_some()
            || self.outcome.stopped.is_some()
            || self.open.peek().is_none_or(|worst| worst.0.margin > 0.0)
    }

    /// Memory held by the parts that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The share of the region's volume in which the property is proven.
    pub fn volume(&self) -> f64 {
        let open = self.open.iter().filter(|part| part.0.margin > 0.0);
        (self.proven.1 + open.map(|part| part.0.share).sum::<f64>()).min(1.0)
    }

    /// What has come of it so far.
    pub fn found(&self) -> Branched {
        let mut outcome = self.outcome.clone();
        outcome.margin = outcome.margin.max(proven_everywhere(self.proven.0, &self.open));
        outcome
    }
}

fn middle(region: &[BoxVec]) -> Point {
    let centre = |b: &BoxVec| b.lower.iter().zip(&b.upper).map(|(l, u)| 0.5 * l + 0.5 * u).collect();
    region.iter().map(centre).collect()
}
