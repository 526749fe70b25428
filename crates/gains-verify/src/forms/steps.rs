//! One solver step on an affine form.
//!
//! Everything flows forward over common symbols: the input's pixels, and one for every relaxation on the
//! way. Stage inputs `x + h Σ aᵢⱼ kⱼ`, the result and the error estimate `h Σ eᵢ kᵢ` are sums of forms, so what the stages
//! have in common cancels as it does for numbers. A neuron that may be on both sides of its kink is
//! relaxed either on its own or as a change from the stage before ([`crate::steps`] has the
//! argument), whichever leaves less open. The last stage of a step serves as the stage before the first one of
//! the next: both are evaluated at the same state, so there the change is next to nothing.

use std::collections::HashSet;
use std::sync::Arc;

use gains_core::affine_form::{AffineForm, Symbol, Symbols};
use gains_core::operator::Forming;
use gains_core::{Activation, Arithmetic, Interval, OdeBlock, Operator};
use gains_ode::{Arrived, Carrier, Step, Tableau};

use super::estimate::{joint_sum_of_magnitudes, with_written_weights};
use super::notes::Notes;
use super::{COPIES, ENDS, MOST_SYMBOLS, closest, hull, reduce};
use crate::limits::{Clock, Reason};
use crate::steps::{Reach, StepTrace};

/// The forms of one evaluation of the dynamics: of all its values.
#[derive(Clone, Debug)]
pub struct FormValues {
    pub(super) values: Vec<Arc<AffineForm>>,
    output: usize,
}

impl FormValues {
    /// What came out.
    pub fn output(&self) -> &Arc<AffineForm> {
        &self.values[self.output]
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        self.values.iter().map(|v| v.bytes()).sum()
    }

    /// Gives what came out symbols for large remainders.
    pub(super) fn name_remainders(&mut self, symbols: &mut Symbols) {
        Arc::make_mut(&mut self.values[self.output]).name_remainders(1e-3, symbols);
    }

    /// Holds all values of both evaluations, of which `side` tells one from the other.
    pub(super) fn join_beside(&self, other: &Self, side: Symbol, apart: &[Symbol]) -> Self {
        let values = self.values.iter().zip(&other.values);
        let values = values.map(|(a, b)| Arc::new(a.join_beside(b, side, apart))).collect();
        Self { values, output: self.output }
    }

    /// Drops all symbols but the given ones.
    fn retain(&mut self, kept: &[Symbol]) {
        self.values.iter_mut().for_each(|v| Arc::make_mut(v).retain(kept));
    }
}

/// A set of states on its way through the solver.
#[derive(Clone, Debug)]
pub struct Travelling {
    /// Names the set: a step that is rejected leaves the very same states.
    pub origin: Symbol,
    /// The states.
    pub state: AffineForm,
    /// The dynamics at these states, or close to them, over the same symbols.
    pub near: Option<Arc<FormValues>>,
}

impl Travelling {
    /// A set of states about which nothing else is known.
    pub fn new(state: AffineForm, symbols: &mut Symbols) -> Self {
        Self { origin: symbols.fresh(), state, near: None }
    }

    pub(super) fn bytes(&self) -> usize {
        self.state.bytes() + self.near.as_ref().map_or(0, |near| near.bytes())
    }
}

/// An interval of error estimates as certificates claim it. What others lose by rounding, in strips that are open by little, and by
/// remainders that become symbols a little earlier or later, is a part of 10⁻⁷ where it is most.
fn with_room(error: Interval) -> Interval {
    let room = 1e-5 * error.upper;
    Interval::new((error.lower - room).max(0.0), error.upper + room)
}

/// What compressing a set of states takes for a moment: its generators three times, and what is near once more.
pub(super) fn tidying(states: &Travelling) -> usize {
    3 * states.state.bytes() + states.near.as_ref().map_or(0, |near| near.output().bytes())
}

/// Pushes affine forms through solver steps.
pub struct FormSteps<'a> {
    block: &'a OdeBlock,
    tableau: &'static Tableau,
    tolerance: f64,
    arithmetic: Arithmetic,
    pub(super) clock: Clock<'a>,
    pub(super) symbols: &'a mut Symbols,
    /// Symbols up to this one may be known outside the block.
    pub(super) outer: Symbol,
    /// For every value of the dynamics, whether nothing but a ReLU takes it.
    relus: Vec<bool>,
    /// Where the controller decides otherwise: sums of error estimates, increasing.
    pub thresholds: Vec<f64>,
    /// Most symbols a state may have.
    pub most_symbols: usize,
    /// Memory held by everything but the block's own forms.
    pub outside: usize,
    /// Memory of all sets of states, and of the stages of the step so far.
    pub(super) held: usize,
    /// Why there is no going on, found where nobody could be told.
    pub(super) over: Option<Reason>,
    /// What is chosen on the way, where that is asked for: then everything goes by the rules of certificates.
    pub(super) notes: Option<Notes>,
}

impl<'a> FormSteps<'a> {
    /// Steps of a block.
    pub fn new(
        block: &'a OdeBlock,
        tolerance: f64,
        arithmetic: Arithmetic,
        clock: Clock<'a>,
        symbols: &'a mut Symbols,
    ) -> Self {
        let uses = block.dynamics.uses();
        let mut relus = vec![false; uses.len()];
        for (_, node) in block.dynamics.nodes() {
            if matches!(node.operator, Operator::Curve(Activation::Relu)) {
                relus[node.from[0]] = uses[node.from[0]] == 1;
            }
        }
        let tableau = Tableau::of(block.solver.method);
        let outer = symbols.fresh();
        Self {
            block,
            tableau,
            tolerance,
            arithmetic,
            clock,
            symbols,
            outer,
            relus,
            thresholds: Vec::new(),
            most_symbols: MOST_SYMBOLS,
            outside: 0,
            held: 0,
            over: None,
            notes: None,
        }
    }

    /// Encloses every value of the dynamics, with the help of an evaluation nearby if there is one.
    pub fn evaluate(
        &mut self,
        input: AffineForm,
        time: f64,
        near: Option<&FormValues>,
    ) -> Result<FormValues, Reason> {
        let sane = |form: &AffineForm| if form.is_sane() { Ok(()) } else { Err(Reason::Overflow { time }) };
        sane(&input)?;
        let mut values = vec![Arc::new(input)];
        let matrices = self.block.matrices();
        for (index, (value, node)) in self.block.dynamics.nodes().enumerate() {
            let inside: usize = values.iter().map(|v| v.bytes()).sum();
            let arguments: Vec<&AffineForm> = node.from.iter().map(|&v| &*values[v]).collect();
            let order = arguments.iter().map(|form| form.order()).max().unwrap_or(0);
            let next = AffineForm::bytes_of(order, self.block.dynamics.shape(value).len());
            // Looked at before it is made; what is made on the way is about a quarter more.
            self.clock.check((self.outside + self.held + inside + next) / 4 * 5)?;
            let clock = self.clock;
            let stop = || clock.check(0).is_err();
            let before: Option<Vec<&AffineForm>> =
                near.map(|near| node.from.iter().map(|&v| &*near.values[v]).collect());
            let earlier = before.as_deref().zip(near.map(|near| &*near.values[value]));
            let formed = Forming {
                time,
                arithmetic: self.arithmetic,
                then_relu: self.relus[value],
                matrix: matrices[index].as_ref(),
                stop: &stop,
            };
            let next = match &mut self.notes {
                None => node.operator.form(&arguments, earlier, formed, self.symbols),
                Some(notes) => {
                    let (next, changes) =
                        node.operator.form_by_chords(&arguments, earlier, formed, self.symbols);
                    notes.changes(value, changes);
                    next
                }
            };
            self.clock.check(self.outside + self.held + inside + next.bytes())?;
            sane(&next)?;
            values.push(Arc::new(next));
        }
        Ok(FormValues { values, output: self.block.dynamics.output() })
    }

    /// All states reachable by one step, and all error estimates `δ` if `with_error`.
    fn take(
        &mut self,
        from: &Travelling,
        time: f64,
        step: f64,
        with_error: bool,
    ) -> Result<Step<Travelling, StepTrace>, Reason> {
        let (tableau, arithmetic) = (self.tableau, self.arithmetic);
        let x = &from.state;
        let count = if with_error { tableau.len() } else { tableau.solution_stages() };
        let mut near = from.near.clone();
        let mut first = None;
        let mut slopes: Vec<Arc<AffineForm>> = Vec::with_capacity(count);
        let weigh = |base: Option<&AffineForm>, weights: &[f64], slopes: &[Arc<AffineForm>]| {
            let terms: Vec<(f64, &AffineForm)> =
                weights.iter().map(|w| step * w).zip(slopes.iter().map(|k| &**k)).collect();
            AffineForm::combination(base, &terms, arithmetic)
        };
        let mut last_input = None;
        for i in 0..count {
            let mut input = if i == 0 { x.clone() } else { weigh(Some(x), tableau.stages[i], &slopes) };
            // Every stage knows the symbols of all before it, in the same order.
            if let Some(near) = &near {
                input.extend_to(near.output().symbols());
            }
            let at = time + tableau.nodes[i] * step;
            let mut stage = self.evaluate(input, at, near.as_deref())?;
            self.notes.iter_mut().for_each(|notes| notes.end_stage(i));
            stage.name_remainders(self.symbols);
            let stage = Arc::new(stage);
            // The first stage and the last are kept whole, of the others only what came out.
            self.held += if i == 0 { stage.bytes() } else { stage.output().bytes() };
            slopes.push(stage.output().clone());
            first.get_or_insert_with(|| stage.clone());
            last_input = Some(stage.values[0].clone());
            near = Some(stage);
        }
        let same = tableau.first_same_as_last() && with_error;
        let mut next = match last_input {
            Some(input) if same => AffineForm::clone(&input),
            _ => weigh(Some(x), tableau.weights, &slopes),
        };
        let overflow = Reason::Overflow { time: time + step };
        if !next.is_sane() {
            return Err(overflow);
        }
        let error = if with_error {
            let estimate = weigh(None, tableau.error, &slopes);
            let mut joint = joint_sum_of_magnitudes(&estimate, &self.thresholds, self.arithmetic);
            if let Some(notes) = &mut self.notes {
                joint = with_written_weights(&estimate, joint.weights, self.arithmetic);
                notes.weights(joint.weights);
            }
            let norm = joint.sum;
            let slack = self.arithmetic.short_sum(2);
            let lower = norm.lower / self.tolerance * (1.0 - slack);
            let upper = norm.upper / self.tolerance * (1.0 + slack);
            if !(lower.is_finite() && upper.is_finite()) {
                return Err(overflow);
            }
            let error = Interval::new(lower, upper);
            Some(if self.notes.is_some() { with_room(error) } else { error })
        } else {
            None
        };
        let mut before = x.clone();
        if let Some(first) = &first {
            before.extend_to(first.output().symbols());
        }
        let rejected = Travelling { origin: from.origin, state: before, near: first };
        if let Some(near) = &near {
            next.extend_to(near.output().symbols());
        }
        let mut accepted = Travelling { origin: self.symbols.fresh(), state: next, near };
        self.clock.check(self.outside + self.held + tidying(&accepted))?;
        self.tidy(&mut accepted);
        // By the rules of certificates a rejection leaves everything as it was.
        let rejected = Some(rejected).filter(|_| self.notes.is_none());
        self.notes.iter_mut().for_each(|notes| notes.end_step(from.origin, accepted.origin));
        Ok(Step { state: accepted, rejected, error, trace: StepTrace::default() })
    }

    /// Gives remainders symbols of their own, since a step multiplies what has none by hundreds; keeps the
    /// number of symbols within limits by compressing the lightest.
    pub(super) fn tidy(&mut self, states: &mut Travelling) {
        let symbols = &mut *self.symbols;
        let state = &mut states.state;
        if let Some(near) = &states.near {
            state.extend_to(&AffineForm::all_symbols([&*state, &**near.output()].into_iter()));
        }
        let unnamed = state.remainder.iter().filter(|r| **r > 0.0).count();
        if state.order() + unnamed <= self.most_symbols || self.notes.is_some() {
            state.name_remainders(1e-9, symbols);
            return;
        }
        let mut weights = state.weights();
        if let Some(near) = &states.near {
            let mut output = AffineForm::clone(near.output());
            output.extend_to(state.symbols());
            for (weight, more) in weights.iter_mut().zip(output.weights()) {
                *weight += more;
            }
        }
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
        order.truncate(self.most_symbols.saturating_sub(2 * unnamed));
        let mut kept: Vec<Symbol> = order.iter().map(|&s| state.symbols()[s]).collect();
        kept.sort_unstable();
        state.compress(&kept, symbols);
        if let Some(near) = states.near.take() {
            let mut near = Arc::unwrap_or_clone(near);
            near.retain(&kept);
            states.near = Some(Arc::new(near));
        }
    }
}

impl Carrier for FormSteps<'_> {
    type State = Travelling;
    type Record = Reach;
    type Trace = StepTrace;
    type Error = Reason;

    fn step(
        &mut self,
        from: &Travelling,
        time: f64,
        step: f64,
        with_error: bool,
    ) -> Result<Step<Travelling, StepTrace>, Reason> {
        self.take(from, time, step, with_error)
    }

    fn record(&self, states: &Arc<Travelling>) -> Arc<Reach> {
        Arc::new(states.state.bounds.clone().into())
    }

    /// Joins arrivals until few enough are left to go on apart. The same states may come several times:
    /// accepted with this step, and accepted with a larger one that was then rejected.
    fn meet(&mut self, all: Vec<Arrived<Travelling>>) -> Vec<Arrived<Travelling>> {
        let mut arrivals: Vec<Arrived<Travelling>> = Vec::with_capacity(all.len());
        for arrival in all {
            match arrivals.iter_mut().find(|a| a.state.origin == arrival.state.origin) {
                Some(same) => same.edges.extend(arrival.edges),
                None => arrivals.push(arrival),
            }
        }
        self.join_close(&mut arrivals);
        while arrivals.len() > COPIES && self.over.is_none() {
            let (i, j) = closest(&arrivals.iter().map(|a| &a.state.state).collect::<Vec<_>>());
            self.join(&mut arrivals, i, j);
        }
        arrivals
    }

    fn hull(&self, ends: &[Arc<Travelling>]) -> Reach {
        hull(ends.iter().map(|end| &end.state.bounds)).into()
    }

    /// Nothing is known near forms that were joined.
    fn thin(&mut self, ends: &mut Vec<Arc<Travelling>>) {
        while ends.len() > ENDS && self.notes.is_none() {
            let (i, j) = closest(&ends.iter().map(|end| &end.state).collect::<Vec<_>>());
            let other = ends.swap_remove(j);
            let mut state = ends[i].state.join(&other.state, self.symbols);
            reduce(&mut state, self.symbols);
            ends[i] = Arc::new(Travelling::new(state, self.symbols));
        }
    }

    fn admit(&mut self, alive: &mut dyn Iterator<Item = &Travelling>) -> Result<(), Reason> {
        if let Some(reason) = self.over.take() {
            return Err(reason);
        }
        let mut seen = HashSet::new();
        let each = alive.filter(|states| seen.insert(std::ptr::from_ref(*states)));
        self.held = each.map(Travelling::bytes).sum();
        self.clock.check(self.outside + self.held)
    }
}
