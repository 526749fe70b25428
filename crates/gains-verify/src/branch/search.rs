//! The order in which parts are split.

use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use super::part::{Expansion, Experience, Part, Place};
use super::{Branched, Brancher};
use crate::best_first::{Leaf, Lowest, proven_everywhere};
use crate::limits::Reason;

/// The part of the time of the search, one over this, in which inputs are run that bounds point at.
const JUDGING: u32 = 20;

/// A search that can be left and taken up again.
pub(crate) struct Search<'b, 'a, 't> {
    brancher: &'b Brancher<'a, 't>,
    outcome: Branched,
    /// The smallest bound of parts that are closed.
    proven: f64,
    open: BinaryHeap<Lowest<Part>>,
    experience: HashMap<Place, Experience>,
    bytes: usize,
    /// Time in which parts were bounded, and in which the inputs they point at were run.
    spent: (Duration, Duration),
}

impl<'b, 'a, 't> Search<'b, 'a, 't> {
    /// Looks at the whole region. `known` are bounds that are proven already.
    pub fn new(brancher: &'b Brancher<'a, 't>, known: &[f64]) -> Self {
        let started = Instant::now();
        let mut outcome = Branched::new(brancher.task.property.margin(known));
        let mut open = BinaryHeap::new();
        let mut bytes = brancher.task.held;
        match brancher.root(known) {
            Ok(root) => {
                outcome.witness = brancher.counterexample(&root);
                outcome.looseness = brancher.looseness(&root);
                bytes += root.bytes_of_all();
                open.extend(brancher.apart(root).into_iter().map(Lowest));
                outcome.parts = 1;
                outcome.root = Some(started.elapsed());
            }
            Err(reason) => outcome.stopped = Some(reason),
        }
        Self {
            brancher,
            outcome,
            proven: f64::INFINITY,
            open,
            experience: HashMap::new(),
            bytes,
            spent: Default::default(),
        }
    }

    /// Splits until everything is proven, a counterexample turns up, the budget is spent, or until a moment.
    pub fn go_on(&mut self, until: Option<Instant>) {
        let task = self.brancher.task;
        let turn = until.map(|until| until.saturating_duration_since(Instant::now()));
        while self.outcome.witness.is_none() && self.outcome.stopped.is_none() {
            if until.is_some_and(|until| Instant::now() >= until) {
                return;
            }
            let mut batch: Vec<Part> = Vec::new();
            while batch.len() < task.workers
                && let Some(Lowest(part)) = self.open.pop()
            {
                if part.targets.is_empty() {
                    self.proven = self.proven.min(part.bound());
                } else {
                    self.bytes -= part.bytes().min(self.bytes);
                    batch.push(part);
                }
            }
            if batch.is_empty() {
                return;
            }
            let began = Instant::now();
            let expansions = match task.clock.check(self.bytes) {
                Ok(()) => self.brancher.expand_all(&batch, &self.experience, turn),
                Err(reason) => batch.iter().map(|_| Err(reason.clone())).collect(),
            };
            self.spent.0 += began.elapsed();
            for (part, expansion) in batch.into_iter().zip(expansions) {
                self.take(part, expansion);
            }
        }
    }

    /// Takes in what came of a part.
    fn take(&mut self, part: Part, expansion: Result<Expansion, Reason>) {
        match expansion {
            Ok(Expansion { children, learnt, parts }) => {
                self.outcome.parts += parts;
                for (place, share) in learnt {
                    let seen = self.experience.entry(place).or_default();
                    seen.share += share;
                    seen.count += 1.0;
                }
                for child in children {
                    self.judge(&child);
                    self.bytes += child.bytes();
                    self.open.push(Lowest(child));
                }
            }
            Err(reason) => {
                self.outcome.stopped = Some(reason);
                self.open.push(Lowest(part));
            }
        }
    }

    /// Runs the inputs that a part points at, while that has taken little of the time: those of parts are much like those of
    /// their parents.
    fn judge(&mut self, part: &Part) {
        if self.outcome.witness.is_none() && JUDGING * self.spent.1 <= self.spent.0 {
            let began = Instant::now();
            self.outcome.witness = self.brancher.counterexample(part);
            self.spent.1 += began.elapsed();
        }
    }

    /// Whether nothing is left to split.
    pub fn is_over(&self) -> bool {
        self.outcome.stopped.is_some() || self.open.iter().all(|part| part.0.targets.is_empty())
    }

    /// Memory held by the parts that wait.
    pub fn bytes(&self) -> usize {
        self.bytes.saturating_sub(self.brancher.task.held)
    }

    /// What has come of it so far.
    pub fn found(&self) -> Branched {
        let mut outcome = self.outcome.clone();
        outcome.margin = outcome.margin.max(proven_everywhere(self.proven, &self.open));
        if outcome.margin > 0.0 || outcome.witness.is_some() {
            outcome.looseness = None;
        }
        outcome
    }
}
