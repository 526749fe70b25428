//! One solver step on an affine form.
//!
//! Everything flows forward over common symbols: the input's pixels, and one for every relaxation on the
//! way. Stage inputs `x + h Σ aᵢⱼ kⱼ`, the result and the error estimate `h Σ eᵢ kᵢ` are sums of forms, so what the stages
//! have in common cancels as it does for numbers. A neuron that may be on both sides of its kink is
//! relaxed either on its own or as a change from the stage before ([`crate::steps`] has the
//! argument), whichever leaves less open. The last stage of a step serves as the stage before the first one of
//! the next: both are evaluated at the same state, so there the change is next to nothing.

use std::sync::Arc;

use gains_core::affine_form::{AffineForm, Symbols};
use gains_core::arithmetic::up;
use gains_core::interval::sum_of_magnitudes;
use gains_core::operator::Forming;
use gains_core::{Activation, Arithmetic, Interval, OdeBlock, Operator};
use gains_ode::{Arrived, Carrier, Step, Tableau};

use super::{COPIES, ENDS, MOST_SYMBOLS, closest, hull, reduce};
use crate::limits::{Clock, Reason};
use crate::steps::{Reach, StepTrace};

/// The forms of one evaluation of the dynamics: of all its values.
#[derive(Clone, Debug)]
pub struct Evaluation {
    values: Vec<Arc<AffineForm>>,
    output: usize,
}

impl Evaluation {
    /// What came out.
    pub fn output(&self) -> &Arc<AffineForm> {
        &self.values[self.output]
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        self.values.iter().map(|v| v.bytes()).sum()
    }

    /// Gives what came out symbols for large remainders.
    fn name_remainders(&mut self, symbols: &mut Symbols) {
        Arc::make_mut(&mut self.values[self.output]).name_remainders(1e-3, symbols);
    }

    /// Drops all symbols but the given ones.
    fn retain(&mut self, kept: &[u32]) {
        self.values.iter_mut().for_each(|v| Arc::make_mut(v).retain(kept));
    }
}

/// A set of states on its way through the solver.
#[derive(Clone, Debug)]
pub struct Travelling {
    /// Names the set: a step that is rejected leaves the very same states.
    pub origin: u32,
    /// The states.
    pub state: AffineForm,
    /// The dynamics at these states, or close to them, over the same symbols.
    pub near: Option<Arc<Evaluation>>,
}

impl Travelling {
    /// A set of states about which nothing else is known.
    pub fn new(state: AffineForm, symbols: &mut Symbols) -> Self {
        Self { origin: symbols.fresh(), state, near: None }
    }

    fn bytes(&self) -> usize {
        self.state.bytes() + self.near.as_ref().map_or(0, |near| near.bytes())
    }
}

/// Encloses `Σ |errorⱼ|` for a program that sums in any admitted order.
///
/// Entry by entry from the box, and jointly: `Σ |xⱼ| ≥ Σ sⱼ xⱼ` for any signs, and `|x| ≤ w x + β` with the chord
/// over the entry's interval, both linear, so that what entries have in common cancels.
fn joint_sum_of_magnitudes(error: &AffineForm, arithmetic: Arithmetic) -> Interval {
    let plain = sum_of_magnitudes(&error.bounds, arithmetic);
    let n = error.len();
    let signs: Vec<f64> = error.centre.iter().map(|c| if *c == 0.0 { 0.0 } else { c.signum() }).collect();
    let (mut stable, mut chords, mut above) = (vec![0.0; n], vec![0.0; n], 0.0);
    for j in 0..n {
        let Interval { lower: l, upper: u } = error.bounds.get(j);
        if l >= 0.0 || u <= 0.0 {
            stable[j] = signs[j];
            chords[j] = if u > 0.0 { 1.0 } else { -1.0 };
        } else {
            let w = ((u + l) / (u - l)).clamp(-1.0, 1.0);
            chords[j] = w;
            above += up(up((u - w * u).max(-l - w * l))) + 4.0 * f64::EPSILON * (u - l);
        }
    }
    let slack = arithmetic.dot(n);
    let tiny = arithmetic.underflow();
    let low = error.functional(&signs).lower.max(error.functional(&stable).lower);
    let high = (error.functional(&chords).upper + above * (1.0 + slack)) * (1.0 + slack) + tiny;
    Interval::new(plain.lower.max(low * (1.0 - slack) - tiny), plain.upper.min(high))
}

/// Pushes affine forms through solver steps.
pub struct FormSteps<'a> {
    block: &'a OdeBlock,
    tableau: &'static Tableau,
    tolerance: f64,
    arithmetic: Arithmetic,
    clock: Clock<'a>,
    symbols: &'a mut Symbols,
    /// For every value of the dynamics, whether nothing but a ReLU takes it.
    relus: Vec<bool>,
    /// Most symbols a state may have.
    pub most_symbols: usize,
    /// Memory held by everything but the block's own forms.
    pub outside: usize,
    /// Memory of the states that wait, and of the stages of the step so far.
    held: usize,
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
        Self {
            block,
            tableau,
            tolerance,
            arithmetic,
            clock,
            symbols,
            relus,
            most_symbols: MOST_SYMBOLS,
            outside: 0,
            held: 0,
        }
    }

    /// Encloses every value of the dynamics, with the help of an evaluation nearby if there is one.
    pub fn evaluate(
        &mut self,
        input: AffineForm,
        time: f64,
        near: Option<&Evaluation>,
    ) -> Result<Evaluation, Reason> {
        let sane = |form: &AffineForm| if form.is_sane() { Ok(()) } else { Err(Reason::Overflow { time }) };
        sane(&input)?;
        let mut values = vec![Arc::new(input)];
        let matrices = self.block.matrices();
        for (index, (value, node)) in self.block.dynamics.nodes().enumerate() {
            let inside: usize = values.iter().map(|v| v.bytes()).sum();
            self.clock.check(self.outside + self.held + inside)?;
            let clock = self.clock;
            let stop = || clock.check(0).is_err();
            let arguments: Vec<&AffineForm> = node.from.iter().map(|&v| &*values[v]).collect();
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
            let next = node.operator.form(&arguments, earlier, formed, self.symbols);
            // What is made on the way is about a quarter more.
            self.clock.check((self.outside + self.held + inside + next.bytes()) / 4 * 5)?;
            sane(&next)?;
            values.push(Arc::new(next));
        }
        Ok(Evaluation { values, output: self.block.dynamics.output() })
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
            let norm = joint_sum_of_magnitudes(&weigh(None, tableau.error, &slopes), self.arithmetic);
            let slack = self.arithmetic.short_sum(2);
            let lower = norm.lower / self.tolerance * (1.0 - slack);
            let upper = norm.upper / self.tolerance * (1.0 + slack);
            if !(lower.is_finite() && upper.is_finite()) {
                return Err(overflow);
            }
            Some(Interval::new(lower, upper))
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
        self.tidy(&mut accepted);
        Ok(Step { state: accepted, rejected: Some(rejected), error, trace: StepTrace::default() })
    }

    /// Gives remainders symbols of their own, since a step multiplies what has none by hundreds; keeps the
    /// number of symbols within limits by compressing the lightest.
    fn tidy(&mut self, states: &mut Travelling) {
        let symbols = &mut *self.symbols;
        let state = &mut states.state;
        let unnamed = state.remainder.iter().filter(|r| **r > 0.0).count();
        if state.order() + unnamed <= self.most_symbols {
            state.name_remainders(1e-9, symbols);
            return;
        }
        let mut weights = state.weights();
        if let Some(near) = &states.near {
            for (weight, more) in weights.iter_mut().zip(near.output().weights()) {
                *weight += more;
            }
        }
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
        order.truncate(self.most_symbols.saturating_sub(2 * unnamed));
        let mut kept: Vec<u32> = order.iter().map(|&s| state.symbols()[s]).collect();
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
        while arrivals.len() > COPIES {
            let (i, j) = closest(&arrivals.iter().map(|a| &a.state.state).collect::<Vec<_>>());
            let other = arrivals.swap_remove(j);
            let mut state = arrivals[i].state.state.join(&other.state.state, self.symbols);
            reduce(&mut state, self.symbols);
            arrivals[i].state = Arc::new(Travelling::new(state, self.symbols));
            arrivals[i].edges.extend(other.edges);
        }
        arrivals
    }

    fn hull(&self, ends: &[Arc<Travelling>]) -> Reach {
        hull(ends.iter().map(|end| &end.state.bounds)).into()
    }

    /// Nothing is known near forms that were joined.
    fn thin(&mut self, ends: &mut Vec<Arc<Travelling>>) {
        while ends.len() > ENDS {
            let (i, j) = closest(&ends.iter().map(|end| &end.state).collect::<Vec<_>>());
            let other = ends.swap_remove(j);
            let mut state = ends[i].state.join(&other.state, self.symbols);
            reduce(&mut state, self.symbols);
            ends[i] = Arc::new(Travelling::new(state, self.symbols));
        }
    }

    fn admit(&mut self, waiting: &mut dyn Iterator<Item = &Travelling>) -> Result<(), Reason> {
        self.held = waiting.map(Travelling::bytes).sum();
        self.clock.check(self.outside + self.held)
    }
}
