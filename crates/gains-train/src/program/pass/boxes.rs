//! Boxes through a program, along sampled trajectories.

use super::ProgramPass;
use super::regularise::Watched;
use super::steps::{Charge, ProgramSteps};
use crate::config::Aggregation;
use crate::engine::{BoxTrip, Reference};
use crate::explore::{Rules, explore};
use crate::program::blueprint::Stretch;
use crate::program::machine::Machine;
use crate::program::ops::Rule;
use crate::program::step::walk;
use crate::program::tape::{Norms, ProgramTape, ValueId};
use crate::solve::Failure;

/// Boxes in front of the loss.
pub struct BoxRun<'p, M: Machine> {
    pub(super) tape: ProgramTape<'p, M>,
    pub(super) outputs: Vec<ValueId>,
    pub(super) trip: BoxTrip,
    /// Steps that the loss asks for.
    pub(super) charged: Vec<Charge>,
    /// Values that it asks for.
    pub(super) watched: Option<Watched>,
}

impl<'p, M: Machine> ProgramPass<'p, M> {
    /// Boxes as far as the loss: at every ODE each is followed along a few trajectories.
    pub(super) fn explore_boxes(
        &mut self,
        region: M::Values,
        reference: &Reference,
        rules: &Rules,
        random: &mut fastrand::Rng,
    ) -> Result<BoxRun<'p, M>, Failure> {
        let norms = Norms::Given(self.books.measured.clone());
        let weights = self.judge.outlook.weights;
        let mut tape = ProgramTape::new(self.machine, weights, norms, self.blueprint.norms);
        let mut all = vec![tape.input(region, false)];
        let mut trip = BoxTrip { trajectories: 1, ..BoxTrip::default() };
        let mut charged = Vec::new();
        let loss = &self.setting.phase.loss;
        let watching = self.setting.early > 0.0 && (loss.tightness > 0.0 || loss.balance > 0.0);
        let mut watched = watching.then(Watched::default);
        let mut number = 0;
        for stretch in &self.blueprint.stretches {
            match stretch {
                Stretch::Plain(circuit) => {
                    for at in &mut all {
                        let values = walk(&mut tape, circuit, *at, 0.0);
                        if let Some(watched) = &mut watched {
                            watched.circuit(circuit, &values);
                        }
                        *at = values[circuit.output()];
                    }
                }
                Stretch::Ode(ode) => {
                    let each = Rules { trajectories: (rules.trajectories / all.len()).max(1), ..*rules };
                    let mut ends = Vec::new();
                    for at in all {
                        if let Some(watched) = &mut watched {
                            // Once more than steps need it, and only at the beginning.
                            watched.circuit(&ode.dynamics, &walk(&mut tape, &ode.dynamics, at, 0.0));
                        }
                        let chosen =
                            self.stepping(&mut tape, ode, at, reference.first.get(number).copied())?;
                        let form = self.setting.phase.step_form;
                        let mut steps =
                            ProgramSteps::new(self.machine, &mut tape, ode, &chosen.stepping, form);
                        let visits = &reference.visits[number];
                        let found = explore(&mut steps, &chosen.stepping, at, visits, &each, random)?;
                        charged.append(&mut steps.charged);
                        trip.splits += found.splits;
                        trip.steps += found.steps;
                        ends.extend(self.joined(&mut tape, found.ends));
                    }
                    if let Some(watched) = &mut watched {
                        ends.iter().for_each(|end| watched.end(*end));
                    }
                    all = ends;
                    trip.trajectories = trip.trajectories.max(all.len());
                    number += 1;
                }
            }
        }
        trip.boxes = all.len();
        Ok(BoxRun { tape, outputs: all, trip, charged, watched })
    }

    /// The ends of trajectories as the phase wants them.
    fn joined(&self, tape: &mut ProgramTape<'p, M>, ends: Vec<ValueId>) -> Vec<ValueId> {
        let share = 1.0 / ends.len() as f64;
        match (self.setting.phase.aggregation, &ends[..]) {
            (Aggregation::Stack, _) | (_, [_]) => ends,
            (Aggregation::Average, [first, ..]) => {
                vec![tape.sum(ends.iter().map(|end| (*end, share)).collect(), *first)]
            }
            (Aggregation::WorstCase, [first, rest @ ..]) => {
                vec![rest.iter().fold(*first, |hull, end| tape.rule(Rule::Hull, vec![hull, *end]))]
            }
            (_, []) => ends,
        }
    }
}
