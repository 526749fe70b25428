use gains_core::description::ControlledSpec;

use super::*;
use crate::tableau::Tableau;

/// Intervals of numbers that double every unit of time. Where sets meet, at most `copies` go on apart.
struct Doubling {
    copies: usize,
    /// Most sets waiting.
    waiting: usize,
    /// The error estimates of a step, by time.
    errors: fn(f64) -> Interval,
}

fn join(states: &[Arc<Interval>]) -> Interval {
    let lower = states.iter().map(|s| s.lower).fold(f64::INFINITY, f64::min);
    Interval::new(lower, states.iter().map(|s| s.upper).fold(f64::NEG_INFINITY, f64::max))
}

impl Carrier for Doubling {
    type State = Interval;
    type Record = f64;
    type Trace = ();
    type Error = String;

    fn step(&mut self, z: &Interval, time: f64, h: f64, judged: bool) -> Result<Step<Interval, ()>, String> {
        // A coarse rule, so that different steps lead to different states.
        let state = Interval::new(z.lower * (1.0 + h), z.upper * (1.0 + h));
        Ok(Step { state, rejected: None, error: judged.then(|| (self.errors)(time)), trace: () })
    }

    fn record(&self, state: &Arc<Interval>) -> Arc<f64> {
        Arc::new(state.upper)
    }

    fn meet(&mut self, mut arrivals: Vec<Arrived<Interval>>) -> Vec<Arrived<Interval>> {
        let most = self.copies.min(arrivals.len());
        let rest = arrivals.split_off(most.saturating_sub(1));
        arrivals.extend(Arrived::all_in_one(rest, join));
        arrivals
    }

    fn hull(&self, ends: &[Arc<Interval>]) -> f64 {
        join(ends).upper
    }

    fn thin(&mut self, ends: &mut Vec<Arc<Interval>>) {
        if ends.len() > self.copies {
            let rest = ends.split_off(self.copies - 1);
            ends.push(Arc::new(join(&rest)));
        }
    }

    fn admit(&mut self, waiting: &mut dyn Iterator<Item = &Interval>) -> Result<(), String> {
        let count = waiting.count();
        if count > self.waiting { Err(format!("{count} waiting")) } else { Ok(()) }
    }
}

fn grid() -> Grid {
    let spec = ControlledSpec {
        factor: 2,
        tolerance: 1.0,
        initial_step: 0.25,
        minimum_step: 0.1,
        rejections_after_clipping: 1,
    };
    Grid::controlled(&spec, Tableau::of(gains_core::description::RungeKutta::Heun), 1.0)
}

fn anything(_: f64) -> Interval {
    Interval::new(0.0, 2.0)
}

fn carrier(copies: usize) -> Doubling {
    Doubling { copies, waiting: usize::MAX, errors: anything }
}

fn explored(copies: usize) -> Explored<Doubling> {
    let limits = Limits { vertices: 100_000, stop: &|| false };
    let explored = explore(&mut carrier(copies), &grid(), vec![Interval::new(0.5, 1.0)], &limits);
    explored.unwrap_or_else(|halt| panic!("{halt:?}"))
}

/// Every edge leads to the vertex that lists it, vertices come after all that leads to them, and nothing is lost.
fn assert_consistent(graph: &Graph<f64, ()>) {
    for (at, vertex) in graph.vertices.iter().enumerate() {
        assert!(at == 0 || !vertex.incoming.is_empty());
        for &edge in &vertex.incoming {
            assert_eq!(graph.edges[edge].to, Some(at));
            assert!(graph.edges[edge].from < at);
            assert!(*graph.edges[edge].state <= *vertex.state, "a set holds what arrives");
        }
        for &edge in &vertex.outgoing {
            assert_eq!(graph.edges[edge].from, at);
        }
    }
    let entering: usize = graph.vertices.iter().map(|v| v.incoming.len()).sum();
    let leaving: usize = graph.vertices.iter().map(|v| v.outgoing.len()).sum();
    assert_eq!(leaving, graph.edges.len());
    assert_eq!(entering, graph.edges.iter().filter(|e| e.to.is_some()).count());
}

/// How many vertices each place is.
fn copies(graph: &Graph<f64, ()>) -> Vec<usize> {
    let mut places: BTreeMap<Place, usize> = BTreeMap::new();
    graph.vertices.iter().for_each(|v| *places.entry(v.place).or_default() += 1);
    places.into_values().collect()
}

#[test]
fn sets_that_are_joined_make_one_vertex_of_a_place() {
    let Explored { graph, ends } = explored(1);
    assert_consistent(&graph);
    assert!(copies(&graph).iter().all(|count| *count == 1));
    assert!(graph.vertices.iter().any(|v| v.incoming.len() > 1), "trajectories meet");
    assert_eq!(ends.len(), 1);
    assert_eq!(graph.end, ends[0].upper);
}

#[test]
fn sets_that_are_kept_apart_make_several_vertices_of_a_place() {
    let joined = explored(1).graph;
    let few = explored(3);
    let all = explored(usize::MAX);
    for Explored { graph, .. } in [&few, &all] {
        assert_consistent(graph);
    }
    let most = |graph| copies(graph).into_iter().max();
    assert_eq!(most(&few.graph), Some(3));
    assert!(most(&all.graph) > Some(3));
    assert!(all.graph.vertices.iter().all(|v| v.incoming.len() <= 1), "all trajectories on their own");
    assert!(few.ends.len() == 3 && all.ends.len() > 3);
    // The same places; the largest state at the end is that of the trajectory of smallest steps, however it is kept.
    assert_eq!(copies(&joined).len(), copies(&all.graph).len());
    assert_eq!((joined.end, few.graph.end), (all.graph.end, all.graph.end));
}

#[test]
fn every_concrete_walk_is_admitted_by_every_graph() {
    let graphs = [explored(1).graph, explored(2).graph, explored(usize::MAX).graph];
    let grid = grid();
    let mut random = 3_u64;
    for _ in 0..300 {
        let mut walk = grid.walk();
        let mut trajectory = Vec::new();
        while let Some(attempt) = walk.attempt() {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let error = (random >> 40) as f64 / (1 << 23) as f64;
            let action = walk.advance(&attempt, error);
            let (time, step, place) = (attempt.time, attempt.step, Some(attempt.place));
            trajectory.push(Visit { time, step, action, error, place });
        }
        assert!(graphs.iter().all(|graph| graph.admits(&trajectory)), "{trajectory:?}");
    }
}

#[test]
fn a_carrier_may_refuse_to_go_on() {
    let limits = Limits { vertices: 100_000, stop: &|| false };
    let mut carrier = Doubling { waiting: 4, ..carrier(usize::MAX) };
    let halt = build(&mut carrier, &grid(), Interval::point(1.0), &limits).err();
    assert_eq!(halt, Some(Halt::Carrier("5 waiting".into())));
}

#[test]
fn limits_hold() {
    let build = |limits: &Limits<'_>| build(&mut carrier(1), &grid(), Interval::point(1.0), limits).err();
    assert_eq!(build(&Limits { vertices: 100, stop: &|| true }), Some(Halt::Stopped));
    let few = Limits { vertices: 3, stop: &|| false };
    assert_eq!(build(&few), Some(Halt::TooManyVertices { limit: 3 }));
}

/// A step without an estimate, where the controller looks at one, excludes no action.
#[test]
fn an_error_that_is_nan_excludes_nothing() {
    let limits = Limits { vertices: 100_000, stop: &|| false };
    let mut silent = Doubling { errors: |_| Interval::point(f64::NAN), ..carrier(1) };
    let graph =
        build(&mut silent, &grid(), Interval::new(0.5, 1.0), &limits).unwrap_or_else(|h| panic!("{h:?}"));
    assert_eq!(graph.edges.len(), explored(1).graph.edges.len());
}
