//! The trajectory graph: all trajectories a controlled adaptive solver can take from a set of states.
//!
//! Vertices are places of the step-size automaton, edges are actions some state in the set may cause
//! (paper, section 5). The smallest pending place is processed next; that order is topological, so each
//! vertex is processed once, after everything that leads to it, on the join of the states that arrive.

use std::collections::BTreeMap;
use std::sync::Arc;

use gains_core::Interval;
use gains_core::description::{ControllerSpec, SolverSpec};

use crate::controller::{self, Action, ActionSet};
use crate::tableau::Tableau;
use crate::timeline::{Moment, Place, Timeline};

/// What is pushed through the graph, e.g. boxes.
pub trait Carrier {
    /// A set of states.
    type State;
    /// What a step remembers for a later pass backwards.
    type Trace;
    /// What can stop a step.
    type Error;

    /// All states reachable by one step from `state`, and all error estimates `δ` (already divided by the
    /// tolerance; `None` if `with_error` is false).
    fn step(
        &mut self,
        state: &Self::State,
        time: f64,
        step: f64,
        with_error: bool,
    ) -> Result<Step<Self::State, Self::Trace>, Self::Error>;

    /// The same states after a rejected step: whatever is known of them may be known of one attempt only.
    fn again(&self, state: &Arc<Self::State>) -> Arc<Self::State> {
        state.clone()
    }

    /// A set that holds all the given ones.
    fn join(&self, states: &[Arc<Self::State>]) -> Self::State;
}

/// The result of one step of a [`Carrier`].
pub struct Step<S, T> {
    /// All states after the step.
    pub state: S,
    /// All error estimates, if asked for.
    pub error: Option<Interval>,
    /// For the way back.
    pub trace: T,
}

/// A processed place.
pub struct Vertex<S, T> {
    /// Where in time.
    pub place: Place,
    /// Time.
    pub time: f64,
    /// Step size.
    pub step: f64,
    /// All states that can be here.
    pub state: Arc<S>,
    /// All error estimates of the step from here; `None` where the solver no longer looks.
    pub error: Option<Interval>,
    /// What the step remembered.
    pub trace: T,
    /// Indices of outgoing edges.
    pub outgoing: Vec<usize>,
    /// Indices of incoming edges.
    pub incoming: Vec<usize>,
}

/// A possible decision.
pub struct Edge<S> {
    /// Vertex it leaves.
    pub from: usize,
    /// Vertex it enters; `None` for the end time.
    pub to: Option<usize>,
    /// The decision.
    pub action: Action,
    /// The states that travel along it, before they are joined with others.
    pub state: Arc<S>,
}

/// All trajectories from one set of states.
pub struct Graph<S, T> {
    /// In topological order.
    pub vertices: Vec<Vertex<S, T>>,
    /// In the order of creation.
    pub edges: Vec<Edge<S>>,
    /// All states at the end time.
    pub end: S,
}

impl<S, T> Graph<S, T> {
    /// Number of vertices, the end included, as the paper counts them.
    pub fn vertex_count(&self) -> usize {
        self.vertices.len() + 1
    }

    /// Whether the concrete trajectory is a path of the graph: the test every graph must pass.
    pub fn admits(&self, trajectory: &[crate::integrate::Visit]) -> bool {
        let mut at = Some(0);
        for visit in trajectory {
            let Some(vertex) = at.map(|i: usize| &self.vertices[i]) else { return false };
            if visit.place != Some(vertex.place) {
                return false;
            }
            let edge = vertex.outgoing.iter().map(|&e| &self.edges[e]).find(|e| e.action == visit.action);
            let Some(edge) = edge else { return false };
            at = edge.to;
        }
        at.is_none()
    }
}

/// Why a graph could not be finished.
#[derive(Clone, Debug, PartialEq)]
pub enum Halt<E> {
    /// The carrier gave up.
    Carrier(E),
    /// More vertices than allowed.
    TooManyVertices {
        /// The limit.
        limit: usize,
    },
    /// Asked to stop (time or memory).
    Stopped,
    /// The controller's step sizes are not on a grid.
    NotControlled,
    /// The method has no error estimate.
    NoErrorEstimate,
}

/// When to give up.
pub struct Limits<'a> {
    /// Most vertices.
    pub vertices: usize,
    /// Asked before every step; `true` stops.
    pub stop: &'a dyn Fn() -> bool,
}

/// The automaton and decision rule of a solver, if its trajectories form a finite graph.
pub struct Grid {
    /// The automaton.
    pub line: Timeline,
    /// α⁻ᵖ; `None` for fixed steps, which are always kept.
    pub increase_below: Option<f64>,
    /// τ.
    pub tolerance: f64,
}

impl Grid {
    /// The grid of a solver.
    pub fn new<E>(spec: &SolverSpec) -> Result<Self, Halt<E>> {
        match &spec.controller {
            ControllerSpec::Fixed { steps } => Ok(Self {
                line: Timeline::fixed(*steps, spec.end_time),
                increase_below: None,
                tolerance: 1.0,
            }),
            ControllerSpec::ControlledAdaptive(c) => {
                let tableau = Tableau::of(spec.method);
                if !tableau.estimates_error() {
                    return Err(Halt::NoErrorEstimate);
                }
                Ok(Self {
                    line: Timeline::new(c, spec.end_time),
                    increase_below: Some(f64::from(c.factor).powi(-(tableau.order as i32))),
                    tolerance: c.tolerance,
                })
            }
            ControllerSpec::Adaptive { .. } => Err(Halt::NotControlled),
        }
    }
}

/// The graph a carrier makes, or why there is none.
pub type Built<C> = Result<Graph<<C as Carrier>::State, <C as Carrier>::Trace>, Halt<<C as Carrier>::Error>>;

/// Builds the trajectory graph from the states in `start`.
pub fn build<C: Carrier>(carrier: &mut C, grid: &Grid, start: C::State, limits: &Limits<'_>) -> Built<C> {
    let line = &grid.line;
    let mut vertices: Vec<Vertex<C::State, C::Trace>> = Vec::new();
    let mut edges: Vec<Edge<C::State>> = Vec::new();
    // Pending places with the edges that lead there; the smallest is next.
    let mut pending: BTreeMap<Place, Vec<usize>> = BTreeMap::from([(line.start(), Vec::new())]);
    let mut start = Some(Arc::new(start));
    while let Some((place, incoming)) = pending.pop_first() {
        if (limits.stop)() {
            return Err(Halt::Stopped);
        }
        if vertices.len() + 1 >= limits.vertices {
            return Err(Halt::TooManyVertices { limit: limits.vertices });
        }
        let from = vertices.len();
        for &edge in &incoming {
            edges[edge].to = Some(from);
        }
        let arriving: Vec<_> =
            start.take().into_iter().chain(incoming.iter().map(|&e| edges[e].state.clone())).collect();
        let state = match &arriving[..] {
            [only] => only.clone(),
            several => Arc::new(carrier.join(several)),
        };
        let (time, step) = (line.time(&place), line.step(&place));
        let judged = grid.increase_below.filter(|_| !place.settled);
        let result = carrier.step(&state, time, step, judged.is_some()).map_err(Halt::Carrier)?;
        let actions = match (judged, result.error) {
            (Some(threshold), Some(error)) => controller::controlled(error, threshold),
            _ => ActionSet::only(Action::Keep),
        };
        let after = Arc::new(result.state);
        let mut outgoing = Vec::new();
        for action in actions.iter() {
            let next = line.follow(&place, action);
            // Keeping and increasing may both be clipped to the same successor: one edge then.
            if action == Action::Increase
                && actions.contains(Action::Keep)
                && next == line.follow(&place, Action::Keep)
            {
                continue;
            }
            let travelling = if action == Action::Reject { carrier.again(&state) } else { after.clone() };
            let action = if action == Action::Increase && next == line.follow(&place, Action::Keep) {
                Action::Keep
            } else {
                action
            };
            let edge = edges.len();
            edges.push(Edge { from, to: None, action, state: travelling });
            outgoing.push(edge);
            if let Moment::At(next) = next {
                pending.entry(next).or_default().push(edge);
            }
        }
        vertices.push(Vertex {
            place,
            time,
            step,
            state,
            error: result.error,
            trace: result.trace,
            outgoing,
            incoming,
        });
    }
    let finals: Vec<_> = edges.iter().filter(|e| e.to.is_none()).map(|e| e.state.clone()).collect();
    let end = carrier.join(&finals);
    Ok(Graph { vertices, edges, end })
}
