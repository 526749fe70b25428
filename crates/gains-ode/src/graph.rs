//! The trajectory graph: all trajectories a controlled adaptive solver can take from a set of states.
//!
//! Vertices are places of the step-size automaton, edges are actions some state in the set may cause
//! (paper, section 5). The smallest pending place is processed next; that order is topological, so each
//! vertex is processed once, after everything that leads to it.
//!
//! What travels is up to a [`Carrier`]: boxes, which are joined where they meet, so that a place is one vertex; or sets
//! that are worth keeping apart, so that a place is several, each with the edges that lead to it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gains_core::Interval;

use crate::controller::Action;
use crate::grid::{Attempt, Grid, NoGrid};
use crate::integrate::Visit;
use crate::timeline::{Moment, Place};

/// What is pushed through the graph, e.g. boxes.
pub trait Carrier {
    /// A set of states.
    type State;
    /// What the graph remembers of a set of states.
    type Record;
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

    /// What the graph is to remember of a set of states.
    fn record(&self, state: &Arc<Self::State>) -> Arc<Self::Record>;

    /// What goes on from one place, of all that arrives there. Every edge that arrives must be among the edges of a set
    /// that holds its states, of exactly one. [`Arrived::all_in_one`] joins them all.
    fn meet(&mut self, arrivals: Vec<Arrived<Self::State>>) -> Vec<Arrived<Self::State>>;

    /// A record of all the given sets: those at the end time, or of none.
    fn hull(&self, ends: &[Arc<Self::State>]) -> Self::Record;

    /// May join some of the sets that have reached the end time so far, should they become too many.
    fn thin(&mut self, ends: &mut Vec<Arc<Self::State>>) {
        let _ = ends;
    }

    /// Asked before every step: whether all sets there are (that before the step, those that wait, those at the end) are too
    /// much to go on with. A set may come several times.
    fn admit(&mut self, alive: &mut dyn Iterator<Item = &Self::State>) -> Result<(), Self::Error> {
        let _ = alive;
        Ok(())
    }
}

/// The result of one step of a [`Carrier`].
pub struct Step<S, T> {
    /// All states after the step.
    pub state: S,
    /// What goes on if the step is rejected: the states before it, with whatever the attempt has taught, or without
    /// what was known for one attempt only. `None` if they go on as they came.
    pub rejected: Option<S>,
    /// All error estimates, if asked for.
    pub error: Option<Interval>,
    /// For the way back.
    pub trace: T,
}

/// A set of states that has arrived at a place, with the edges it came along.
pub struct Arrived<S> {
    /// Indices of the edges; none at the start.
    pub edges: Vec<usize>,
    /// The states.
    pub state: Arc<S>,
}

impl<S> Arrived<S> {
    /// One set for all that arrives: as it came if it is alone, else joined.
    pub fn all_in_one(arrivals: Vec<Self>, join: impl FnOnce(&[Arc<S>]) -> S) -> Vec<Self> {
        if arrivals.len() <= 1 {
            return arrivals;
        }
        let (mut edges, mut states) = (Vec::new(), Vec::new());
        for arrived in arrivals {
            edges.extend(arrived.edges);
            states.push(arrived.state);
        }
        vec![Self { edges, state: Arc::new(join(&states)) }]
    }
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

/// All trajectories from one set of states. A place is as many vertices as there are sets kept apart there.
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
    pub fn admits(&self, trajectory: &[Visit]) -> bool {
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

impl<E> From<NoGrid> for Halt<E> {
    fn from(problem: NoGrid) -> Self {
        match problem {
            NoGrid::NotControlled => Self::NotControlled,
            NoGrid::NoErrorEstimate { .. } => Self::NoErrorEstimate,
        }
    }
}

/// The graph a carrier makes.
pub type GraphOf<C> = Graph<<C as Carrier>::Record, <C as Carrier>::Trace>;

/// All trajectories, and the sets of states at the end time.
pub struct Explored<C: Carrier> {
    /// The trajectories.
    pub graph: GraphOf<C>,
    /// What reached the end time, as far as [`Carrier::thin`] left it apart.
    pub ends: Vec<Arc<C::State>>,
}

/// The trajectory graph from the states in `start`.
pub fn build<C: Carrier>(
    carrier: &mut C,
    grid: &Grid,
    start: C::State,
    limits: &Limits<'_>,
) -> Result<GraphOf<C>, Halt<C::Error>> {
    Ok(explore(carrier, grid, vec![start], limits)?.graph)
}

/// The trajectory graph from several sets of states, and the sets at the end time.
pub fn explore<C: Carrier>(
    carrier: &mut C,
    grid: &Grid,
    starts: Vec<C::State>,
    limits: &Limits<'_>,
) -> Result<Explored<C>, Halt<C::Error>> {
    let mut vertices: Vec<Vertex<C::Record, C::Trace>> = Vec::new();
    let mut edges: Vec<Edge<C::Record>> = Vec::new();
    let mut ends: Vec<Arc<C::State>> = Vec::new();
    let starts = starts.into_iter().map(|state| Arrived { edges: Vec::new(), state: Arc::new(state) });
    // What waits at each place; the smallest is next.
    let mut pending: BTreeMap<Place, Vec<Arrived<C::State>>> =
        BTreeMap::from([(grid.line.start(), starts.collect())]);
    while let Some((place, arrivals)) = pending.pop_first() {
        let mut here = VecDeque::from(carrier.meet(arrivals));
        while let Some(Arrived { edges: incoming, state }) = here.pop_front() {
            if (limits.stop)() {
                return Err(Halt::Stopped);
            }
            let waiting = pending.values().flatten().chain(&here).map(|a| &*a.state);
            let alive = waiting.chain(std::iter::once(&*state)).chain(ends.iter().map(|end| &**end));
            carrier.admit(&mut { alive }).map_err(Halt::Carrier)?;
            if vertices.len() + 1 >= limits.vertices {
                return Err(Halt::TooManyVertices { limit: limits.vertices });
            }
            let from = vertices.len();
            for &edge in &incoming {
                edges[edge].to = Some(from);
            }
            let Attempt { time, step, judged, .. } = grid.attempt(&place);
            let result = carrier.step(&state, time, step, judged).map_err(Halt::Carrier)?;
            // A carrier that does not tell the error excludes nothing.
            let actions = grid.decide(&place, result.error.unwrap_or(Interval::point(f64::NAN)));
            let after = Arc::new(result.state);
            let before = result.rejected.map_or_else(|| state.clone(), Arc::new);
            let mut outgoing = Vec::new();
            for (action, next) in grid.branches(&place, actions) {
                let travelling = if action == Action::Reject { &before } else { &after };
                let edge = edges.len();
                edges.push(Edge { from, to: None, action, state: carrier.record(travelling) });
                outgoing.push(edge);
                match next {
                    Moment::At(next) => {
                        let arrived = Arrived { edges: vec![edge], state: travelling.clone() };
                        pending.entry(next).or_default().push(arrived);
                    }
                    Moment::End => ends.push(travelling.clone()),
                }
            }
            carrier.thin(&mut ends);
            vertices.push(Vertex {
                place,
                time,
                step,
                state: carrier.record(&state),
                error: result.error,
                trace: result.trace,
                outgoing,
                incoming,
            });
        }
    }
    let end = carrier.hull(&ends);
    Ok(Explored { graph: Graph { vertices, edges, end }, ends })
}

#[cfg(test)]
mod tests;
