//! What is chosen on the way of forms through an ODE block: what certificates have to say, so that whoever checks them need not find it.

use std::collections::HashMap;

use gains_core::affine_form::Symbol;

use super::estimate::Weights;

/// What is chosen in one step.
#[derive(Clone, Debug, Default)]
pub struct StepNotes {
    /// Names the set of states before it.
    pub from: Symbol,
    /// Names the set of states after it.
    pub to: Symbol,
    /// By stage and value of the dynamics: which entries pass as changes, where some do.
    pub changes: Vec<(usize, usize, Vec<bool>)>,
    /// Weights of the error estimate, of float32.
    pub weights: Weights,
}

/// All steps, in the order of the graph's vertices, and all joins.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// One for each vertex.
    pub steps: Vec<StepNotes>,
    /// The two sets that others were made of.
    pub joins: HashMap<Symbol, (Symbol, Symbol)>,
    step: StepNotes,
    stage: Vec<(usize, Vec<bool>)>,
}

impl Notes {
    pub(super) fn changes(&mut self, value: usize, changes: Vec<bool>) {
        if changes.contains(&true) {
            self.stage.push((value, changes));
        }
    }

    pub(super) fn end_stage(&mut self, stage: usize) {
        let changes = self.stage.drain(..).map(|(value, changes)| (stage, value, changes));
        self.step.changes.extend(changes);
    }

    pub(super) fn weights(&mut self, weights: Weights) {
        self.step.weights = weights;
    }

    pub(super) fn end_step(&mut self, from: Symbol, to: Symbol) {
        let step = std::mem::take(&mut self.step);
        self.steps.push(StepNotes { from, to, ..step });
    }

    pub(super) fn join(&mut self, first: Symbol, second: Symbol, both: Symbol) {
        self.joins.insert(both, (first, second));
    }
}
