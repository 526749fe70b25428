//! From a part to its halves: what changes behind the front, and better bounds of the rows that are still open.

use std::collections::BTreeMap;
use std::sync::Arc;

use gains_core::{BoxVec, RowBlock, Rows, Support};

use super::part::{Choice, Part, Place, Target, emptied};
use super::{Brancher, Effort, LATEST, TUNING, VARIANTS, best_to_input, half_space, shrunk};
use crate::analysis::Analysis;
use crate::front::{Constraint, Solved, Split, Subject};
use crate::graph_pull::{Freedom, RowForm};
use crate::ledger::Ledger;
use crate::limits::Reason;
use crate::steps::{Assumption, Side};

/// The part of rows that first tries the way the others do not take through a stage.
const ASIDE: f32 = 0.1;

/// The part of the time that is left in which rows are improved inside the ODE block, one over this.
const TUNING_SHARE: u32 = 4;

/// A row pulled through everything behind the front.
pub(super) struct Trial {
    /// On the front's output.
    pub(super) row: Arc<RowBlock>,
    /// Its bound from boxes behind the front.
    pub(super) bound: f64,
    /// What it met in the first ODE block.
    pub(super) ledger: Ledger,
    pub(super) freedom: Option<Arc<Freedom>>,
}

/// A part of the region before its rows are bounded.
pub(super) struct Draft<'a> {
    pub(super) part: Part,
    /// Everything behind the front, if it was worked out anew.
    pub(super) analysis: Option<Analysis<'a>>,
    /// For every target, rows pulled through that.
    pub(super) trials: Vec<Vec<Trial>>,
}

impl Draft<'_> {
    /// The rows to choose from for a target: the trials, and last what the parent had.
    pub(super) fn candidates(&self, target: usize) -> Vec<Arc<RowBlock>> {
        let trials = self.trials.get(target).into_iter().flatten();
        trials.map(|trial| &trial.row).chain([&self.part.targets[target].row]).cloned().collect()
    }
}

impl<'a> Brancher<'a, '_> {
    /// One half of a part, with the box behind the front and everything after it worked out anew.
    pub(super) fn draft(&self, parent: &Part, choice: &Choice, side: Side) -> Result<Draft<'a>, Reason> {
        self.task.clock.check(0)?;
        let last = self.front.layers.len() - 1;
        let mut part = Part {
            bounds: parent.bounds.clone(),
            constraints: parent.constraints.clone(),
            assumed: parent.assumed.clone(),
            cuts: parent.cuts.clone(),
            pursuit: parent.pursuit.clone(),
            at_start: parent.at_start.clone(),
            started: parent.started.clone(),
            start: parent.start.clone(),
            targets: parent.targets.clone(),
            known: parent.known.clone(),
            margin: parent.margin,
            witness: None,
        };
        let mut behind_changes = false;
        match choice.place {
            Place::Front(layer, neuron) => {
                let split = Split { layer, neuron, at: choice.at, side };
                side.cut(Arc::make_mut(&mut part.bounds[layer]), neuron, choice.at);
                part.cuts.push(Arc::new(self.half_space(&split, parent)));
                part.constraints.push(Constraint::Neuron(split));
            }
            Place::Dynamics(value, neuron) => {
                behind_changes = true;
                // The neuron will stay about where it starts.
                for freedom in part.targets.iter_mut().filter_map(|target| target.freedom.as_mut()) {
                    Arc::make_mut(freedom).slopes[value][neuron] =
                        if side == Side::Above { 1.0 } else { 0.0 };
                }
                if let Some(argument) = self.argument(value) {
                    part.assumed.push(Assumption { value: argument, entry: neuron, at: choice.at, side });
                }
                if let Some([below, above]) = &choice.below {
                    let mut face = match side {
                        Side::Below => RowBlock::clone(below),
                        Side::Above => RowBlock::clone(above),
                    };
                    face.absorb(0, if side == Side::Below { -choice.at } else { choice.at }, 0.0);
                    let rows = Rows::from_block(face.clone(), Support::full(self.front.output_shape()));
                    let rows = best_to_input(&self.front, &rows, self.front.layers.len(), &part.bounds);
                    part.cuts.push(Arc::new(half_space(&rows, 0, 0.0)));
                    part.constraints.push(Constraint::Output(Arc::new(face)));
                }
            }
        }
        for target in &mut part.targets {
            let multiplier = target.first_multiplier(choice, side);
            target.fresh.multipliers.resize(part.constraints.len(), multiplier);
            // What the parent's row met behind the front has not changed.
            let multiplier = if behind_changes { 0.0 } else { multiplier };
            target.dual.multipliers.resize(part.constraints.len(), multiplier);
        }
        let mut arguments = BoxVec::clone(&part.bounds[last]);
        self.tighten(&mut arguments, &part.latest_cuts(LATEST));
        part.bounds[last] = Arc::new(arguments);
        self.tighten_start(&mut part);
        if part.bounds.iter().any(|b| b.is_inside_out()) {
            return Ok(Draft { part: emptied(part, self.task.property), analysis: None, trials: Vec::new() });
        }
        let start = self.front.output_box(&part.bounds[last]);
        if !behind_changes && !shrunk(&part.start, &start) {
            return Ok(Draft { part, analysis: None, trials: Vec::new() });
        }
        let assumed = [&part.assumed[..], &part.started].concat();
        let behind = self.analyse(start.clone(), &assumed).and_then(|analysis| {
            let pull =
                |t: &Target| Ok(vec![self.pull(&analysis, t.property, &t.variant, t.freedom.as_ref())?]);
            let trials = part.targets.iter().map(pull).collect::<Result<Vec<_>, Reason>>()?;
            Ok((analysis, trials))
        });
        match behind {
            Ok((analysis, trials)) => {
                for (target, trial) in part.targets.iter_mut().zip(&trials) {
                    target.bound = target.bound.max(trial[0].bound);
                }
                part.learn(self.task.property);
                part.start = Arc::new(start);
                Ok(Draft { part, analysis: Some(analysis), trials })
            }
            Err(Reason::Empty) => {
                Ok(Draft { part: emptied(part, self.task.property), analysis: None, trials: Vec::new() })
            }
            Err(reason @ (Reason::TimeLimit { .. } | Reason::Interrupted | Reason::MemoryLimit { .. })) => {
                Err(reason)
            }
            // The parent's rows hold here too.
            Err(_) => Ok(Draft { part, analysis: None, trials: Vec::new() }),
        }
    }

    /// Bounds the open rows of several parts, all as one block, first with every candidate row, then the best
    /// of them with better slopes inside the ODE block.
    pub(super) fn finish(&self, mut drafts: Vec<Draft<'a>>, effort: Effort) -> Result<Vec<Part>, Reason> {
        let property = self.task.property;
        // Draft, target, and number among the candidates.
        let mut all: Vec<(usize, usize, usize)> = Vec::new();
        for (d, draft) in drafts.iter().enumerate() {
            for (t, _) in draft.part.open(property).into_iter().enumerate().filter(|(_, open)| *open) {
                all.extend((0..draft.candidates(t).len()).map(|c| (d, t, c)));
            }
        }
        let rows: Vec<Arc<RowBlock>> =
            all.iter().map(|&(d, t, c)| drafts[d].candidates(t)[c].clone()).collect();
        let solved = self.solve(&drafts, &all, &rows, effort.rounds)?;
        // For every target, the candidate with the best bound.
        let mut best: BTreeMap<(usize, usize), (usize, Solved)> = BTreeMap::new();
        for (&(d, t, c), solved) in all.iter().zip(solved) {
            let fresh = drafts[d].trials.get(t).is_some_and(|own| own.len() == 1 && c == 0);
            if fresh {
                drafts[d].part.targets[t].fresh = solved.dual.clone();
            }
            if best.get(&(d, t)).is_none_or(|(_, known)| solved.bound > known.bound) {
                best.insert((d, t), (c, solved));
            }
        }
        for (&(d, t), (c, solved)) in &best {
            let Draft { part, trials, analysis } = &mut drafts[d];
            let target = &mut part.targets[t];
            if let Some(own) = trials.get(t).filter(|own| *c < own.len()) {
                target.row = own[*c].row.clone();
                if own.len() == VARIANTS.len() {
                    target.variant = VARIANTS[*c];
                    let ode = analysis.as_ref().and_then(Analysis::first_ode);
                    target.fresh.clone_from(&solved.dual);
                    target.freedom = ode.map(|ode| Arc::new(ode.freedom(target.variant.ode.slope)));
                }
            }
            target.take(solved);
        }
        let mut current: Vec<((usize, usize), Trial)> = Vec::new();
        for (&(d, t), (c, _)) in &best {
            if drafts[d].trials.get(t).is_some_and(|own| *c < own.len()) {
                current.push(((d, t), drafts[d].trials[t].swap_remove(*c)));
            }
        }
        if effort.tunings > 0 {
            for ((d, t), trial) in &mut current {
                self.divide(&mut drafts[*d], *t, trial)?;
            }
        }
        let clock = &self.task.clock;
        let until = clock.left().map(|left| clock.elapsed() + left / TUNING_SHARE);
        for tuning in 0..effort.tunings {
            if until.is_some_and(|until| clock.elapsed() >= until) {
                break;
            }
            drafts.iter_mut().for_each(|draft| draft.part.learn(property));
            let open: Vec<Vec<bool>> = drafts.iter().map(|draft| draft.part.open(property)).collect();
            current.retain(|((d, t), _)| open[*d][*t]);
            let rate = TUNING.0 * TUNING.1.powi(tuning as i32);
            let mut next = Vec::new();
            for ((d, t), trial) in &current {
                let Draft { part, analysis: Some(analysis), .. } = &drafts[*d] else { continue };
                let target = &part.targets[*t];
                let Some(freedom) = self.tuned(analysis, trial, target, rate) else {
                    continue;
                };
                let trial =
                    self.pull(analysis, target.property, &target.variant, Some(&Arc::new(freedom)))?;
                next.push(((*d, *t), trial));
            }
            // Not the parent's row: number 0.
            let keys: Vec<(usize, usize, usize)> = next.iter().map(|((d, t), _)| (*d, *t, 0)).collect();
            let rows: Vec<Arc<RowBlock>> = next.iter().map(|(_, trial)| trial.row.clone()).collect();
            let solved = self.solve(&drafts, &keys, &rows, effort.rounds / 2)?;
            for (((d, t), trial), solved) in next.into_iter().zip(solved) {
                let part = &mut drafts[d].part;
                part.witness = part.witness.take().or_else(|| (self.task.judge)(&solved.minimiser));
                let target = &mut part.targets[t];
                target.bound = target.bound.max(trial.bound);
                if solved.bound > target.reached {
                    target.row = trial.row.clone();
                    target.freedom = trial.freedom.clone();
                    target.fresh.clone_from(&solved.dual);
                    target.take(&solved);
                    if let Some((_, own)) = current.iter_mut().find(|(key, _)| *key == (d, t)) {
                        *own = trial;
                    }
                }
            }
            if drafts.iter().any(|draft| draft.part.witness.is_some()) {
                break;
            }
        }
        for ((d, t), trial) in &current {
            let Draft { part, analysis: Some(analysis), .. } = &mut drafts[*d] else { continue };
            let (inner, steps) = self.inner(analysis, trial, &part.targets[*t]);
            part.targets[*t].inner = inner;
            part.targets[*t].steps = steps.into();
        }
        let mut parts: Vec<Part> = drafts.into_iter().map(|draft| draft.part).collect();
        for part in &mut parts {
            part.learn(property);
            let mut open = part.open(property).into_iter();
            part.targets.retain(|_| open.next().unwrap_or(true));
            self.pursue(part);
        }
        Ok(parts)
    }

    /// Lets a target's row go both ways through the stages of the first ODE block from now on, most of it as it went.
    fn divide(&self, draft: &mut Draft<'a>, target: usize, trial: &mut Trial) -> Result<(), Reason> {
        let Draft { part, analysis: Some(analysis), .. } = draft else { return Ok(()) };
        let target = &mut part.targets[target];
        let (Some(ode), Some(freedom)) = (analysis.first_ode(), &target.freedom) else { return Ok(()) };
        let part = if target.variant.ode.form == RowForm::Direct { 1.0 - ASIDE } else { ASIDE };
        let freedom = Arc::new(Freedom::clone(freedom).divided(ode.block, part));
        target.variant.ode.form = RowForm::Chain;
        *trial = self.pull(analysis, target.property, &target.variant, Some(&freedom))?;
        target.bound = target.bound.max(trial.bound);
        target.freedom = Some(freedom);
        Ok(())
    }

    /// Bounds rows of targets of drafts, as one block.
    pub(super) fn solve(
        &self,
        drafts: &[Draft<'a>],
        keys: &[(usize, usize, usize)],
        rows: &[Arc<RowBlock>],
        rounds: usize,
    ) -> Result<Vec<Solved>, Reason> {
        let problem = |(&(d, t, c), row): (&(usize, usize, usize), &Arc<RowBlock>)| {
            let Part { bounds, constraints, targets, .. } = &drafts[d].part;
            let own = drafts[d].trials.get(t).is_some_and(|own| c < own.len());
            let dual = if own { &targets[t].fresh } else { &targets[t].dual }.clone();
            Subject { row: row.clone(), bounds, constraints, dual }
        };
        let problems: Vec<Subject<'_>> = keys.iter().zip(rows).map(problem).collect();
        let mut solved = self.front.optimise(&problems, rounds, true, &self.task.clock)?;
        for (&(d, _, _), solved) in keys.iter().zip(&mut solved) {
            if solved.bound <= 0.0 {
                let cuts = drafts[d].part.all_cuts();
                let RowBlock { coefficients, constant, slack, .. } = &solved.row;
                let cut = self.domain.lower_bound(coefficients, constant[0], slack[0], &cuts);
                solved.bound = solved.bound.max(cut);
            }
        }
        Ok(solved)
    }
}
