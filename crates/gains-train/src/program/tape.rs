//! What happened to a batch on its way through a program, so that gradients find their way back.

use super::machine::Machine;
use super::ops::{BatchNorm, Clock, Operation, Rule};

/// A value on a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueId(usize);

/// Where a value came from.
enum Source<'p, S> {
    /// From outside; `wanted` if its gradient is.
    Input { wanted: bool },
    /// An operator, or its change.
    Operation { operation: &'p Operation, from: Vec<ValueId>, clock: Clock },
    /// Batch normalisation by given statistics, or by the input's own.
    Norm { norm: &'p BatchNorm, from: ValueId, clock: Clock, statistics: S, own: bool },
    /// A rule over intervals.
    Rule { rule: Rule, from: Vec<ValueId> },
    /// A weighted sum.
    Sum { from: Vec<(ValueId, f64)> },
}

/// Whose statistics batch normalisation takes.
#[derive(Clone, Debug)]
pub enum Norms<S> {
    /// Those of the batch that passes.
    Own,
    /// Those that clean points had, by layer.
    Given(Vec<Option<S>>),
    /// The running ones: the network as it would be used.
    Running,
}

struct Entry<'p, M: Machine> {
    value: M::Values,
    gradient: Option<M::Values>,
    source: Source<'p, M::Statistics>,
}

/// Values in the order they were computed, all points or all boxes. A value may be used several times; its gradients
/// add up, and what no gradient reaches costs nothing on the way back.
pub struct ProgramTape<'p, M: Machine> {
    machine: &'p M,
    weights: &'p M::Weights,
    norms: Norms<M::Statistics>,
    /// What clean points measured, by layer of batch normalisation.
    measured: Vec<Option<M::Statistics>>,
    entries: Vec<Entry<'p, M>>,
}

impl<'p, M: Machine> ProgramTape<'p, M> {
    /// An empty tape for a network with so many layers of batch normalisation.
    pub fn new(machine: &'p M, weights: &'p M::Weights, norms: Norms<M::Statistics>, layers: usize) -> Self {
        Self { machine, weights, norms, measured: vec![None; layers], entries: Vec::new() }
    }

    /// What clean points measured.
    pub fn measured(&self) -> &[Option<M::Statistics>] {
        &self.measured
    }

    fn push(&mut self, value: M::Values, source: Source<'p, M::Statistics>) -> ValueId {
        self.entries.push(Entry { value, gradient: None, source });
        ValueId(self.entries.len() - 1)
    }

    /// A value from outside; `wanted` if its gradient is.
    pub fn input(&mut self, value: M::Values, wanted: bool) -> ValueId {
        self.push(value, Source::Input { wanted })
    }

    /// A value.
    pub fn value(&self, id: ValueId) -> &M::Values {
        &self.entries[id.0].value
    }

    fn values(&self, ids: &[ValueId]) -> Vec<&M::Values> {
        ids.iter().map(|id| self.value(*id)).collect()
    }

    /// An operator at a time, or its change while time passes, which elementwise operators do not have here.
    pub fn apply(&mut self, operation: &'p Operation, from: Vec<ValueId>, clock: Clock) -> ValueId {
        if let Operation::BatchNorm(norm) = operation {
            return self.normalise(norm, from[0], clock);
        }
        let value = self.machine.operation(operation, self.weights, &self.values(&from), clock);
        self.push(value, Source::Operation { operation, from, clock })
    }

    fn normalise(&mut self, norm: &'p BatchNorm, from: ValueId, clock: Clock) -> ValueId {
        let x = self.value(from);
        let of_batch = matches!(self.norms, Norms::Own);
        let own = of_batch && !norm.inside;
        // The first evaluation of dynamics is that at the beginning of the first step.
        let measured = (of_batch && clock.biased && self.measured[norm.index].is_none())
            .then(|| self.machine.statistics(norm, x));
        let statistics = match (&self.norms, &measured) {
            (Norms::Own, Some(own)) if !norm.inside => own.clone(),
            (Norms::Given(all), _) if !norm.inside => {
                all[norm.index].clone().unwrap_or_else(|| self.machine.running(norm, self.weights))
            }
            _ => self.machine.running(norm, self.weights),
        };
        let value = self.machine.normalise(norm, self.weights, x, clock, &statistics);
        if measured.is_some() {
            self.measured[norm.index] = measured;
        }
        self.push(value, Source::Norm { norm, from, clock, statistics, own })
    }

    /// A rule over intervals.
    pub fn rule(&mut self, rule: Rule, from: Vec<ValueId>) -> ValueId {
        let value = self.machine.rule(rule, &self.values(&from));
        self.push(value, Source::Rule { rule, from })
    }

    /// A weighted sum; of nothing, zeros like `like`.
    pub fn sum(&mut self, from: Vec<(ValueId, f64)>, like: ValueId) -> ValueId {
        let (ids, coefficients): (Vec<ValueId>, Vec<f64>) = from.iter().copied().unzip();
        let value = match ids.is_empty() {
            true => self.machine.zeros_like(self.value(like)),
            false => self.machine.sum(&coefficients, &self.values(&ids)),
        };
        self.push(value, Source::Sum { from })
    }

    /// Adds to the gradient of a value.
    pub fn seed(&mut self, id: ValueId, part: M::Values) {
        match &mut self.entries[id.0].gradient {
            Some(gradient) => self.machine.add(gradient, &part),
            empty => *empty = Some(part),
        }
    }

    /// Which values some others were made of, themselves included.
    pub fn reached(&self, from: &[ValueId]) -> Vec<bool> {
        let mut reached = vec![false; self.entries.len()];
        from.iter().for_each(|id| reached[id.0] = true);
        for at in (0..self.entries.len()).rev() {
            if !reached[at] {
                continue;
            }
            match &self.entries[at].source {
                Source::Input { .. } => {}
                Source::Operation { from, .. } | Source::Rule { from, .. } => {
                    from.iter().for_each(|id| reached[id.0] = true);
                }
                Source::Norm { from, .. } => reached[from.0] = true,
                Source::Sum { from } => from.iter().for_each(|(id, _)| reached[id.0] = true),
            }
        }
        reached
    }

    /// Whether a value is among those that were [`Self::reached`].
    pub fn is_among(id: ValueId, reached: &[bool]) -> bool {
        reached[id.0]
    }

    fn is_wanted(&self, id: ValueId) -> bool {
        !matches!(self.entries[id.0].source, Source::Input { wanted: false })
    }

    /// Takes all gradients back to the parameters; returns that of the input that was wanted, if it has one.
    pub fn backward(mut self, into: &mut M::Gradients) -> Option<M::Values> {
        let mut input = None;
        let (machine, weights) = (self.machine, self.weights);
        // A value's users all come after it, so its gradient is complete when its turn comes.
        while let Some(Entry { gradient, source, .. }) = self.entries.pop() {
            let Some(gradient) = gradient else { continue };
            match source {
                Source::Input { wanted } => {
                    if wanted {
                        input = Some(gradient);
                    }
                }
                Source::Operation { operation, from, clock } => {
                    let wanted = self.is_wanted(from[0]);
                    let x = self.values(&from);
                    let parts =
                        machine.operation_back(operation, weights, &x, clock, &gradient, into, wanted);
                    self.seed_all(&from, parts);
                }
                Source::Norm { norm, from, clock, statistics, own } => {
                    let how = (clock, &statistics, own);
                    let part = machine.normalise_back(norm, weights, self.value(from), how, &gradient, into);
                    self.seed_all(&[from], vec![Some(part)]);
                }
                Source::Rule { rule, from } => {
                    let parts = machine.rule_back(rule, &self.values(&from), &gradient);
                    self.seed_all(&from, parts.into_iter().map(Some).collect());
                }
                Source::Sum { from } => {
                    for (id, coefficient) in from {
                        let part = machine.sum_back(coefficient, &gradient);
                        self.seed_all(&[id], vec![Some(part)]);
                    }
                }
            }
        }
        input
    }

    fn seed_all(&mut self, ids: &[ValueId], parts: Vec<Option<M::Values>>) {
        for (id, part) in ids.iter().zip(parts) {
            if let Some(part) = part.filter(|_| self.is_wanted(*id)) {
                self.seed(*id, part);
            }
        }
    }
}
