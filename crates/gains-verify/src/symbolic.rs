//! Enclosing a network by affine forms over its input, forward from the pixels to the outputs.
//!
//! Linear bounds pulled backwards need boxes for every step first, and on networks that were not
//! trained to be certified these boxes lose the input: a box does not know that all its entries move together, so
//! every decision of the step-size controller looks possible. Affine forms ([`crate::affine_form`]) keep the
//! dependence on the pixels from the first layer to the last.
//!
//! Trajectories that meet are kept apart, each with its own form, up to a few per place; beyond that the
//! closest are joined.

use std::collections::BTreeMap;
use std::sync::Arc;

use gains_core::arithmetic::keeps_subnormal_numbers;
use gains_core::{Arithmetic, Block, BoxVec, OdeBlock, Rows, Shape, Window};
use gains_ode::controller::{self, Action, ActionSet};
use gains_ode::graph::{Edge, Grid, Vertex};
use gains_ode::timeline::{Moment, Place};
use gains_ode::{Graph, Tableau};

use crate::affine_form::{AffineForm, Symbols};
use crate::analysis::{Bounds, Prepared};
use crate::box_step::{Reach, StepTrace};
use crate::limits::{Clock, Reason};
use crate::property::Property;
use crate::symbolic_step::{SymbolicSteps, Travelling, evaluate, hull};

/// Most forms kept apart at one place of the solver, and at the end.
const COPIES: usize = 8;
/// Most forms at the outputs.
const ENDS: usize = 16;
/// Most symbols a state may have.
const MOST_SYMBOLS: usize = 2000;

/// All outputs over one region, as affine forms over its entries.
pub struct Symbolic {
    forms: Vec<AffineForm>,
    /// The trajectories of each ODE block. A place stands there as many times as there are forms for it.
    pub graphs: Vec<Graph<Reach, StepTrace>>,
    /// All outputs.
    pub output: BoxVec,
}

impl Symbolic {
    /// Encloses every layer over the inputs in `region`.
    pub fn new(
        prepared: &Prepared,
        region: &BoxVec,
        arithmetic: Arithmetic,
        clock: Clock<'_>,
    ) -> Result<Self, Reason> {
        if !keeps_subnormal_numbers() {
            return Err(Reason::FlushToZero);
        }
        let expected = prepared.network.input().len();
        if region.len() != expected {
            return Err(Reason::InputSize { found: region.len(), expected });
        }
        if !region.is_sane() {
            return Err(Reason::Overflow { time: 0.0 });
        }
        let mut symbols = Symbols::default();
        let mut forms = vec![AffineForm::from_box(region, &mut symbols)];
        let mut graphs = Vec::new();
        for (index, block) in prepared.network.blocks.iter().enumerate() {
            match block {
                Block::Stack(stack) => {
                    for form in &mut forms {
                        clock.check(0)?;
                        let input = std::mem::take(form);
                        let all = evaluate(stack, None, input, 0.0, None, arithmetic, &mut symbols)?;
                        *form = AffineForm::clone(all.output());
                    }
                }
                Block::Ode(ode) => {
                    let start = merge(std::mem::take(&mut forms), 1, &mut symbols);
                    let matrices = prepared.ode_matrices(index);
                    let mut walk = Walk { ode, matrices, arithmetic, clock, symbols: &mut symbols };
                    let (graph, ends) = walk.explore(start)?;
                    graphs.push(graph);
                    forms = ends;
                }
            }
        }
        let output = hull(forms.iter().map(|f| &f.bounds));
        Ok(Self { forms, graphs, output })
    }

    /// Certified lower bounds of the rows of a property: of each form as a whole, and of its box.
    pub fn bound(&self, property: &Property) -> Bounds {
        let window = Window::full(Shape::flat(property.outputs));
        let rows = Rows::new(window, property.rows.concat());
        let nothing = if self.forms.is_empty() { f64::NEG_INFINITY } else { f64::INFINITY };
        let mut lower = vec![nothing; property.rows.len()];
        for form in &self.forms {
            let plain = rows.lower_bounds(&form.bounds);
            for ((bound, row), plain) in lower.iter_mut().zip(&property.rows).zip(plain) {
                // `max` ignores what is not a number.
                *bound = bound.min(form.functional(row).lower.max(plain));
            }
        }
        Bounds { lower, variants: Vec::new(), at_end: None }
    }
}

/// Joins the closest forms until at most `most` are left.
fn merge(mut forms: Vec<AffineForm>, most: usize, symbols: &mut Symbols) -> Vec<AffineForm> {
    while forms.len() > most.max(1) {
        let (i, j) = closest(&forms.iter().collect::<Vec<_>>());
        let other = forms.swap_remove(j);
        forms[i] = forms[i].join(&other, symbols);
        reduce(&mut forms[i], symbols);
    }
    forms
}

/// Compresses what a join has brought beyond the limit.
fn reduce(form: &mut AffineForm, symbols: &mut Symbols) {
    if form.order() > MOST_SYMBOLS {
        let weights = form.weights();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
        order.truncate(MOST_SYMBOLS.saturating_sub(form.len()));
        let mut kept: Vec<u32> = order.iter().map(|&s| form.symbols()[s]).collect();
        kept.sort_unstable();
        form.compress(&kept, symbols);
    }
}

/// The two forms whose centres are closest, the smaller index first.
fn closest(forms: &[&AffineForm]) -> (usize, usize) {
    let mut best = (0, 1, f64::INFINITY);
    for j in 1..forms.len() {
        for i in 0..j {
            let distance: f64 =
                forms[i].centre.iter().zip(&forms[j].centre).map(|(a, b)| (a - b).abs()).sum();
            if distance < best.2 {
                best = (i, j, distance);
            }
        }
    }
    (best.0, best.1)
}

/// States that have arrived at a place, with the edges they came along.
struct Arrival {
    edges: Vec<usize>,
    states: Travelling,
}

/// All trajectories through one ODE block.
struct Walk<'a> {
    ode: &'a OdeBlock,
    matrices: &'a [Option<gains_core::affine::Matrix>],
    arithmetic: Arithmetic,
    clock: Clock<'a>,
    symbols: &'a mut Symbols,
}

impl Walk<'_> {
    /// Follows all trajectories from the states in `start`, in the order of [`gains_ode::graph::build`].
    /// Returns them and the states at the end time.
    fn explore(
        &mut self,
        start: Vec<AffineForm>,
    ) -> Result<(Graph<Reach, StepTrace>, Vec<AffineForm>), Reason> {
        let grid = Grid::new::<Reason>(&self.ode.solver)?;
        let steps = SymbolicSteps {
            dynamics: &self.ode.dynamics,
            matrices: self.matrices,
            tableau: Tableau::of(self.ode.solver.method),
            tolerance: grid.tolerance,
            arithmetic: self.arithmetic,
            most_symbols: MOST_SYMBOLS,
        };
        let line = &grid.line;
        let mut vertices: Vec<Vertex<Reach, StepTrace>> = Vec::new();
        let mut edges: Vec<Edge<Reach>> = Vec::new();
        let mut ends: Vec<AffineForm> = Vec::new();
        let symbols = &mut *self.symbols;
        let mut arrive = |state| Arrival { edges: Vec::new(), states: Travelling::new(state, symbols) };
        let mut pending: BTreeMap<Place, Vec<Arrival>> =
            BTreeMap::from([(line.start(), start.into_iter().map(&mut arrive).collect())]);
        while let Some((place, arrivals)) = pending.pop_first() {
            for Arrival { edges: incoming, states } in self.meet(arrivals) {
                let held = pending
                    .values()
                    .flatten()
                    .map(|a| a.states.state.bytes() + a.states.near.as_ref().map_or(0, |n| n.bytes()));
                self.clock.check(held.sum())?;
                let limit = self.clock.budget().vertices;
                if vertices.len() + 1 >= limit {
                    return Err(Reason::TooManyVertices { limit });
                }
                let from = vertices.len();
                for &edge in &incoming {
                    edges[edge].to = Some(from);
                }
                let (time, step) = (line.time(&place), line.step(&place));
                let judged = grid.increase_below.filter(|_| !place.settled);
                let result = steps.step(&states, time, step, judged.is_some(), self.symbols)?;
                let actions = match (judged, result.error) {
                    (Some(threshold), Some(error)) => controller::controlled(error, threshold),
                    _ => ActionSet::only(Action::Keep),
                };
                let kept = line.follow(&place, Action::Keep);
                let mut outgoing = Vec::new();
                for action in actions.iter() {
                    let next = line.follow(&place, action);
                    // Keeping and increasing may both be clipped to the same successor: one edge then.
                    let same = action == Action::Increase && next == kept;
                    if same && actions.contains(Action::Keep) {
                        continue;
                    }
                    let travelling =
                        if action == Action::Reject { &result.rejected } else { &result.accepted };
                    let edge = edges.len();
                    let action = if same { Action::Keep } else { action };
                    edges.push(Edge {
                        from,
                        to: None,
                        action,
                        state: Arc::new(travelling.state.bounds.clone().into()),
                    });
                    outgoing.push(edge);
                    match next {
                        Moment::At(next) => {
                            let arrival = Arrival { edges: vec![edge], states: travelling.clone() };
                            pending.entry(next).or_default().push(arrival);
                        }
                        Moment::End => ends.push(travelling.state.clone()),
                    }
                }
                if ends.len() > ENDS {
                    ends = merge(ends, ENDS, self.symbols);
                }
                vertices.push(Vertex {
                    place,
                    time,
                    step,
                    state: Arc::new(states.state.bounds.into()),
                    error: result.error,
                    trace: StepTrace::default(),
                    outgoing,
                    incoming,
                });
            }
        }
        let end = hull(ends.iter().map(|f| &f.bounds));
        Ok((Graph { vertices, edges, end: end.into() }, ends))
    }

    /// Joins arrivals until few enough are left to go on apart. The same states may come several times:
    /// accepted with this step, and accepted with a larger one that was then rejected.
    fn meet(&mut self, all: Vec<Arrival>) -> Vec<Arrival> {
        let mut arrivals: Vec<Arrival> = Vec::with_capacity(all.len());
        for arrival in all {
            match arrivals.iter_mut().find(|a| a.states.origin == arrival.states.origin) {
                Some(same) => same.edges.extend(arrival.edges),
                None => arrivals.push(arrival),
            }
        }
        while arrivals.len() > COPIES {
            let (i, j) = closest(&arrivals.iter().map(|a| &a.states.state).collect::<Vec<_>>());
            let other = arrivals.swap_remove(j);
            let mut state = arrivals[i].states.state.join(&other.states.state, self.symbols);
            reduce(&mut state, self.symbols);
            arrivals[i].states = Travelling::new(state, self.symbols);
            arrivals[i].edges.extend(other.edges);
        }
        arrivals
    }
}
