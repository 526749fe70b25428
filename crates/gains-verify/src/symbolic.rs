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
use gains_core::{Arithmetic, Block, BoxVec, Interval, OdeBlock, Rows, Shape, Window};
use gains_ode::controller::Action;
use gains_ode::graph::{Edge, Vertex};
use gains_ode::timeline::{Moment, Place};
use gains_ode::{Graph, Grid, Tableau};

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
        let grid = Grid::new(&self.ode.solver)?;
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
                let result = steps.step(&states, time, step, grid.judges(&place), self.symbols)?;
                let actions = grid.decide(&place, result.error.unwrap_or(Interval::point(f64::NAN)));
                let mut outgoing = Vec::new();
                for (action, next) in grid.branches(&place, actions) {
                    let travelling =
                        if action == Action::Reject { &result.rejected } else { &result.accepted };
                    let edge = edges.len();
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

#[cfg(test)]
mod tests {
    use gains_core::affine::Conv2d;
    use gains_core::description::{ControllerSpec, Method as Rule, SolverSpec};
    use gains_core::{AffineMap, Stack};

    use super::*;
    use crate::limits::Budget;

    const INPUTS: usize = 3;
    const OUTPUTS: usize = 4;

    /// Numbers of few bits, so that maps of points of few bits are exact.
    fn short(random: &mut fastrand::Rng, scale: f64) -> f64 {
        f64::from(random.i32(-64..=64)) / 64.0 * scale
    }

    fn map(random: &mut fastrand::Rng, shift: f64) -> AffineMap {
        let weights: Vec<f64> = (0..INPUTS * OUTPUTS).map(|_| short(random, 1.0)).collect();
        let bias: Vec<f64> = (0..OUTPUTS).map(|_| short(random, 1.0) + shift).collect();
        AffineMap::Conv(Conv2d::linear_layer(INPUTS, &weights, &bias, false).expect("weights fit"))
    }

    fn inside(b: &BoxVec, point: &[f64], room: f64) -> bool {
        point.iter().enumerate().all(|(i, x)| b.lower[i] - room <= *x && *x <= b.upper[i] + room)
    }

    /// Few or many forms of one input, scattered or (in odd rounds) so many of them close together that
    /// joining them brings too many symbols, some of them twice: each edge goes on with a form that holds
    /// what came along it, where all of the input's symbols are open and where they are known.
    #[test]
    fn forms_that_are_joined_where_they_meet_hold_all_that_arrived() {
        let ode = OdeBlock {
            dynamics: Stack { input: Shape::flat(OUTPUTS), layers: Vec::new() },
            solver: SolverSpec {
                method: Rule::Euler,
                controller: ControllerSpec::Fixed { steps: 1 },
                end_time: 1.0,
            },
        };
        let arithmetic = Arithmetic::Real;
        let mut random = fastrand::Rng::with_seed(35);
        let (mut joined, mut alone) = (0, 0);
        for round in 0..60 {
            let centre: Vec<f64> = (0..INPUTS).map(|_| short(&mut random, 1.0)).collect();
            let radius: Vec<f64> = (0..INPUTS).map(|_| f64::from(random.u8(1..=64)) / 64.0).collect();
            let ends =
                |sign: f64| centre.iter().zip(&radius).map(|(c, r)| c + sign * r).collect::<Vec<f64>>();
            let mut symbols = Symbols::default();
            let input = AffineForm::from_box(&BoxVec::new(ends(-1.0), ends(1.0)), &mut symbols);
            assert_eq!(input.symbols(), [1, 2, 3]);
            let close = round % 2 == 1;
            let count = if close { 3 * COPIES } else { random.usize(1..=3 * COPIES) };
            let mut arrivals: Vec<Arrival> = Vec::new();
            // The map behind every edge, and the set of states it belongs to.
            let mut sources: Vec<(AffineMap, u32)> = Vec::new();
            for k in 0..count {
                let shift = if close && k < COPIES - 1 { 1024.0 * (k + 1) as f64 } else { 0.0 };
                let way = map(&mut random, shift);
                let state = input.affine(&way, None, 0.0, arithmetic, false);
                let near = evaluate(&ode.dynamics, None, state.clone(), 0.0, None, arithmetic, &mut symbols);
                let mut states = Travelling::new(state, &mut symbols);
                states.near = Some(Arc::new(near.expect("no overflow")));
                for _ in 0..random.usize(1..4) {
                    let edges = vec![sources.len()];
                    sources.push((way.clone(), states.origin));
                    arrivals.push(Arrival { edges, states: states.clone() });
                }
            }
            random.shuffle(&mut arrivals);
            let clock = Clock::start(Budget::default());
            let mut walk = Walk { ode: &ode, matrices: &[], arithmetic, clock, symbols: &mut symbols };
            let left = walk.meet(arrivals);

            assert_eq!(left.len(), count.min(COPIES), "round {round}");
            let mut edges: Vec<usize> = left.iter().flat_map(|a| a.edges.iter().copied()).collect();
            edges.sort_unstable();
            assert_eq!(edges, (0..sources.len()).collect::<Vec<_>>(), "round {round}: every edge, once");
            for Arrival { edges, states } in &left {
                let mut origins: Vec<u32> = edges.iter().map(|&e| sources[e].1).collect();
                origins.sort_unstable();
                origins.dedup();
                if origins.len() == 1 {
                    alone += 1;
                    assert!(
                        states.origin == origins[0] && states.near.is_some(),
                        "round {round}: as it came"
                    );
                } else {
                    joined += 1;
                    // These are other states than any of those that came, and nothing was evaluated there.
                    assert!(sources.iter().all(|s| s.1 != states.origin), "round {round}: a new set");
                    assert!(states.near.is_none(), "round {round}: nothing is known near it");
                }
                assert!(states.state.order() <= MOST_SYMBOLS, "round {round}: too many symbols");
                for sample in 0..40 {
                    // Corners first: that is where forms end.
                    let mut value = || {
                        if sample < 20 { short(&mut random, 1.0).signum() } else { short(&mut random, 1.0) }
                    };
                    let known: Vec<f64> = (0..INPUTS).map(|_| value()).collect();
                    let x: Vec<f64> = (0..INPUTS).map(|i| centre[i] + radius[i] * known[i]).collect();
                    let slice = states.state.slice(|s| known.get(s as usize - 1).copied());
                    for &edge in edges {
                        let y = sources[edge].0.apply(&x, 0.0);
                        assert!(inside(&states.state.bounds, &y, 0.0), "round {round}: {y:?} came by {edge}");
                        // Symbols of boxes reach a rounding further than their ends.
                        assert!(
                            inside(&slice, &y, 1e-11),
                            "round {round}: {y:?} came by {edge}, for its input"
                        );
                    }
                }
            }
        }
        // Every odd round joins one lot of close forms and leaves those far away alone; others add to that.
        assert!(joined > 30 && alone > 30 * (COPIES - 1), "{joined} joined, {alone} alone");
    }
}
