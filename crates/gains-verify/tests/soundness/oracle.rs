//! The box and the linear analysis once more, without rounding, for networks of linear layers, ReLUs and
//! ODE blocks: an independent implementation in exact arithmetic to compare with.
//!
//! Boxes are pairs of ends, rows are vectors, the graph is explored with the automaton of
//! [`crate::direct`]; chord slopes and CURLS weights are exact quotients. Beside the bound the
//! oracle reports what is charged to it, the scale rounding errors are measured in.

use std::collections::BTreeMap;

use gains_core::BoxVec;
use gains_core::description::{ControllerSpec, LayerSpec, SolverSpec};
use gains_core::model_file::Tensors;
use gains_ode::{Action, Tableau};

use crate::direct::Pace;
use crate::exact::Exact;
use crate::oracle_rows::{Dense, Range, Ranges, Row, curls, lines, relax};

/// A layer, with the box it maps.
enum Part {
    Dense(Dense, Ranges),
    Relu(Ranges),
    Ode(Box<Trajectories>),
}

impl Part {
    fn pull(&self, row: &Row) -> Row {
        match self {
            Self::Dense(dense, x) => dense.pull(row, x),
            Self::Relu(x) => relax(row, x),
            Self::Ode(graph) => graph.pull(row),
        }
    }
}

struct Place {
    step: Exact,
    state: Ranges,
    /// For every stage: its input and its layers.
    stages: Vec<(Ranges, Vec<Part>)>,
    after: Ranges,
    outgoing: Vec<usize>,
}

struct Move {
    to: Option<usize>,
    rejected: bool,
    state: Ranges,
}

/// The trajectory graph of one ODE block.
struct Trajectories {
    places: Vec<Place>,
    moves: Vec<Move>,
    end: Ranges,
    tableau: &'static Tableau,
}

fn hull(boxes: &[Ranges]) -> Ranges {
    let mut all = boxes[0].clone();
    for other in &boxes[1..] {
        for (a, b) in all.iter_mut().zip(other) {
            a.low = a.low.clone().min(b.low.clone());
            a.high = a.high.clone().max(b.high.clone());
            a.charge = a.charge.max(b.charge);
        }
    }
    all
}

/// `base + h Σ weight·slope`.
fn advance(base: Option<&Ranges>, h: &Exact, weights: &[f64], slopes: &[Ranges], n: usize) -> Ranges {
    let one = |i: usize| {
        let mut sum = base.map_or(Range::point(Exact::zero()), |b| b[i].clone());
        let mut size = sum.size();
        for (w, k) in weights.iter().zip(slopes) {
            let term = k[i].scaled(&(h * &Exact::from(*w)));
            size += term.size();
            sum = sum.plus(&term);
        }
        Range { charge: sum.charge + size, ..sum }
    };
    (0..n).map(one).collect()
}

/// The smallest and largest `Σ |error|`.
fn norms(errors: &[Range]) -> (Exact, Exact) {
    errors.iter().fold((Exact::zero(), Exact::zero()), |(low, high), e| {
        let straddles = e.low.is_negative() && !e.high.is_negative();
        let least = if straddles { Exact::zero() } else { e.low.abs().min(e.high.abs()) };
        (&low + &least, &high + &e.low.abs().max(e.high.abs()))
    })
}

impl Trajectories {
    fn build(dynamics: &[LayerSpec], solver: &SolverSpec, tensors: &Tensors, start: Ranges) -> Self {
        let tableau = Tableau::of(solver.method);
        let controlled = match &solver.controller {
            ControllerSpec::ControlledAdaptive(c) => {
                Some((c.tolerance, 1.0 / f64::from(c.factor.pow(tableau.order))))
            }
            _ => None,
        };
        let n = start.len();
        let mut graph = Self { places: Vec::new(), moves: Vec::new(), end: Vec::new(), tableau };
        let first = Pace::new(solver);
        let mut pending = BTreeMap::from([(first.key(), (first, Vec::<usize>::new()))]);
        while let Some((_, (pace, incoming))) = pending.pop_first() {
            let here = graph.places.len();
            for &edge in &incoming {
                graph.moves[edge].to = Some(here);
            }
            let arriving: Vec<Ranges> = incoming.iter().map(|&e| graph.moves[e].state.clone()).collect();
            let state = if here == 0 { start.clone() } else { hull(&arriving) };
            let (time, size) = pace.now();
            let h = Exact::from(size);
            let (mut slopes, mut stages) = (Vec::<Ranges>::new(), Vec::new());
            for (weights, node) in tableau.stages.iter().zip(tableau.nodes) {
                let clock = &Exact::from(time) + &(&h * &Exact::from(*node));
                let entering = advance(Some(&state), &h, weights, &slopes, n);
                let mut value = entering.clone();
                let mut parts = Vec::new();
                for layer in dynamics {
                    if matches!(layer, LayerSpec::Relu {}) {
                        let image = value.iter().map(Range::relu).collect();
                        parts.push(Part::Relu(std::mem::replace(&mut value, image)));
                    } else {
                        let dense = Dense::new(layer, tensors, &clock);
                        let image = dense.image(&value);
                        parts.push(Part::Dense(dense, std::mem::replace(&mut value, image)));
                    }
                }
                stages.push((entering, parts));
                slopes.push(value);
            }
            let after = advance(Some(&state), &h, tableau.weights, &slopes, n);
            let mut actions = vec![(Action::Keep, true)];
            if let (Some((tolerance, threshold)), false) = (controlled, pace.settled) {
                let (low, high) = norms(&advance(None, &h, tableau.error, &slopes, n));
                let (one, cut) = (Exact::from(tolerance), &Exact::from(tolerance) * &Exact::from(threshold));
                actions = vec![
                    (Action::Reject, high > one),
                    (Action::Keep, low <= one && high > cut),
                    (Action::Increase, low <= cut),
                ];
            }
            let mut outgoing = Vec::new();
            let mut reached = Vec::new();
            for (action, _) in actions.into_iter().filter(|(_, possible)| *possible) {
                let next = pace.clone().after(action);
                let key = next.as_ref().map(Pace::key);
                if reached.contains(&key) {
                    continue;
                }
                reached.push(key);
                let rejected = action == Action::Reject;
                let edge = graph.moves.len();
                let state = if rejected { &state } else { &after }.clone();
                graph.moves.push(Move { to: None, rejected, state });
                outgoing.push(edge);
                if let Some(next) = next {
                    pending.entry(next.key()).or_insert((next, Vec::new())).1.push(edge);
                }
            }
            graph.places.push(Place { step: h, state, stages, after, outgoing });
        }
        let finals = graph.moves.iter().filter(|m| m.to.is_none()).map(|m| m.state.clone());
        graph.end = hull(&finals.collect::<Vec<_>>());
        graph
    }

    /// A row at the end, as a row at the start.
    fn pull(&self, end: &Row) -> Row {
        let mut at: Vec<Vec<Row>> = vec![Vec::new(); self.places.len()];
        for (index, place) in self.places.iter().enumerate().rev() {
            let rows = place.outgoing.iter().map(|&e| {
                let edge = &self.moves[e];
                let merged = edge.to.map_or_else(|| end.clone(), |to| curls(&at[to], &edge.state));
                if edge.rejected { merged } else { self.pull_step(&merged, place) }
            });
            at[index] = rows.collect();
        }
        curls(&at[0], &self.places[0].state)
    }

    fn pull_step(&self, row: &Row, place: &Place) -> Row {
        let times = |a: &[Exact], factor: f64| -> Vec<Exact> {
            let factor = &place.step * &Exact::from(factor);
            a.iter().map(|a| (a * &factor).trim()).collect()
        };
        let add = |to: &mut Vec<Exact>, what: &[Exact]| {
            to.iter_mut().zip(what).for_each(|(to, x)| *to = (&*to + x).trim());
        };
        let mut out = row.clone();
        out.charge += row.size(&place.after);
        let mut on_slopes: Vec<Vec<Exact>> =
            self.tableau.weights.iter().map(|b| times(&row.coefficients, *b)).collect();
        for (i, (entering, parts)) in place.stages.iter().enumerate().rev() {
            let start = Row::new(on_slopes[i].clone(), Exact::zero());
            let pulled = parts.iter().rev().fold(start, |row, part| part.pull(&row));
            out.charge += pulled.charge + pulled.size(entering);
            out.constant = (&out.constant + &pulled.constant).trim();
            add(&mut out.coefficients, &pulled.coefficients);
            for (j, a) in self.tableau.stages[i].iter().enumerate() {
                add(&mut on_slopes[j], &times(&pulled.coefficients, *a));
            }
        }
        out
    }
}

/// Whether intervals alone, or rows as well.
#[derive(Clone, Copy, PartialEq)]
pub enum Depth {
    Boxes,
    Rows,
}

/// What the oracle finds.
pub struct Found {
    pub lower: Vec<Exact>,
    /// What rounding is measured in, row by row.
    pub scales: Vec<f64>,
    /// Vertices (ends included) and edges of all graphs.
    pub graph: (usize, usize),
}

/// A bound of a row over the input, and its scale.
fn bound(parts: &[Part], row: Row, input: &[Range]) -> (Exact, f64) {
    let pulled = parts.iter().rev().fold(row, |row, part| part.pull(&row));
    (pulled.range(input).low, pulled.charge + pulled.size(input))
}

/// The bounds of every entry in front of a non-linear layer, by rows from there to the input.
fn refined(parts: &[Part], count: usize, input: &[Range]) -> Ranges {
    let unit = |i: usize, sign: f64| {
        let coefficients = (0..count).map(|j| Exact::from(if i == j { sign } else { 0.0 }));
        bound(parts, Row::new(coefficients.collect(), Exact::zero()), input)
    };
    let both = (0..count).map(|i| (unit(i, 1.0), unit(i, -1.0)));
    both.map(|((low, below), (high, above))| Range { low, high: -&high, charge: below.max(above) }).collect()
}

/// Lower bounds of rows over the outputs.
pub fn analyse(
    layers: &[LayerSpec],
    tensors: &Tensors,
    region: &BoxVec,
    rows: &[Vec<f64>],
    depth: Depth,
) -> Found {
    let side = |i: usize| Range { low: region.lower[i].into(), high: region.upper[i].into(), charge: 0.0 };
    let input: Ranges = (0..region.len()).map(side).collect();
    let mut parts: Vec<Part> = Vec::new();
    let mut value = input.clone();
    let (mut mixing, mut graph) = (0, (0, 0));
    for layer in layers {
        let linear = matches!(layer, LayerSpec::Linear { .. });
        if !linear && depth == Depth::Rows && mixing >= 2 && matches!(parts.last(), Some(Part::Dense(..))) {
            value = refined(&parts, value.len(), &input);
        }
        match layer {
            LayerSpec::Linear { .. } => {
                let dense = Dense::new(layer, tensors, &Exact::zero());
                let image = dense.image(&value);
                parts.push(Part::Dense(dense, std::mem::replace(&mut value, image)));
                mixing += 1;
            }
            LayerSpec::Relu {} => {
                let between_lines = |x: &Range| {
                    let (lower, upper, intercept) = lines(x);
                    let high = (&(&upper * &x.high) + &intercept).trim();
                    Range { low: &lower * &x.low, high, charge: x.charge + x.size() }
                };
                let image = match depth {
                    Depth::Boxes => value.iter().map(Range::relu).collect(),
                    Depth::Rows => value.iter().map(between_lines).collect(),
                };
                parts.push(Part::Relu(std::mem::replace(&mut value, image)));
                mixing += 1;
            }
            LayerSpec::Ode { dynamics, solver } => {
                let trajectories = Trajectories::build(dynamics, solver, tensors, value);
                graph.0 += trajectories.places.len() + 1;
                graph.1 += trajectories.moves.len();
                value = trajectories.end.clone();
                parts.push(Part::Ode(Box::new(trajectories)));
                mixing += 2;
            }
            other => unreachable!("{other:?} is beyond the oracle"),
        }
    }
    let found = rows.iter().map(|row| {
        let row = Row::new(row.iter().map(|&a| a.into()).collect(), Exact::zero());
        match depth {
            Depth::Boxes => (row.range(&value).low, row.size(&value)),
            Depth::Rows => bound(&parts, row, &input),
        }
    });
    let (lower, scales) = found.unzip();
    Found { lower, scales, graph }
}
