//! A program enclosed by affine forms once more, by the rules of certificates and with all choices noted.
//!
//! Trajectories that go on from the ends of a block stay apart up to the outputs, through further blocks too.

use std::sync::Arc;

use gains_core::affine_form::{AffineForm, Symbol, Symbols};
use gains_core::operator::Forming;
use gains_core::{Arithmetic, BoxVec, Interval, Ode, Program, Rows, Step};
use gains_ode::graph::explore;
use gains_ode::timeline::Place;
use gains_ode::{Action, Graph, Grid, Limits};

use super::notes::{Notes, StepNotes};
use super::steps::{FormSteps, Travelling};
use super::{World, held, only_relu_takes};
use crate::limits::{Clock, Reason};
use crate::property::Property;
use crate::steps::{Reach, StepTrace};

/// How much of the numbers involved a row has to be above 0 by.
const ROOM: f64 = 1e-9;

/// The trajectories of one block from one set of states.
#[derive(Clone, Debug)]
pub struct FormGraph {
    /// The value of the block.
    pub ode: usize,
    /// In the order of the solver.
    pub vertices: Vec<FormVertex>,
}

/// A place with one set of states.
#[derive(Clone, Debug)]
pub struct FormVertex {
    /// Where in the automaton.
    pub at: Place,
    /// All error estimates, where the solver looks at them.
    pub error: Option<Interval>,
    /// Actions and the vertices they lead to; none for the end.
    pub out: Vec<(Action, Option<usize>)>,
    /// What is chosen in the step from here.
    pub notes: StepNotes,
    /// Pairs of the sets that arrive here, to be joined one after the other.
    pub joins: Vec<(usize, usize)>,
}

/// The trajectories of all blocks, depth first, if the property follows from the forms at the outputs and the rows that are known.
pub fn by_rules(
    program: &Program,
    region: &[BoxVec],
    property: &Property,
    known: &[f64],
    clock: Clock<'_>,
) -> Result<Vec<FormGraph>, Reason> {
    let mut symbols = Symbols::default();
    let inputs = region.iter().map(|within| Arc::new(AffineForm::from_box(within, &mut symbols))).collect();
    let (rows, relus) = (property.rows(program.output_shape()), only_relu_takes(program));
    let mut prover = Prover { program, property, rows, relus, known, clock, symbols, graphs: Vec::new() };
    prover.world(inputs)?;
    Ok(prover.graphs)
}

struct Prover<'a> {
    program: &'a Program,
    property: &'a Property,
    rows: Rows,
    relus: Vec<bool>,
    known: &'a [f64],
    clock: Clock<'a>,
    symbols: Symbols,
    graphs: Vec<FormGraph>,
}

impl Prover<'_> {
    /// Goes on from the forms of some first values.
    fn world(&mut self, mut world: World) -> Result<(), Reason> {
        let first = world.len();
        for (value, node) in self.program.nodes().filter(|(value, _)| *value >= first) {
            match &node.operator {
                Step::Plain(operator) => {
                    let arguments: Vec<&AffineForm> = node.from.iter().map(|&v| &*world[v]).collect();
                    let clock = self.clock;
                    let stop = || clock.check(0).is_err();
                    let (then_relu, arithmetic) = (self.relus[value], Arithmetic::Real);
                    let formed = Forming { time: 0.0, arithmetic, then_relu, matrix: None, stop: &stop };
                    let (form, _) = operator.form_by_chords(&arguments, None, formed, &mut self.symbols);
                    self.clock.check(held(std::slice::from_ref(&world)) + form.bytes())?;
                    if !form.is_sane() {
                        return Err(Reason::Overflow { time: 0.0 });
                    }
                    world.push(Arc::new(form));
                }
                Step::Ode(ode) => {
                    let held = held(std::slice::from_ref(&world));
                    let start = AffineForm::clone(&world[node.from[0]]);
                    let ends = self.through(value, ode, start, held)?;
                    for end in ends {
                        let mut world = world.clone();
                        world.push(Arc::new(end.state.clone()));
                        self.world(world)?;
                    }
                    return Ok(());
                }
            }
        }
        self.outputs(&world[self.program.output()])
    }

    /// Whether the property holds of a form at the outputs, with a little room.
    fn outputs(&self, form: &AffineForm) -> Result<(), Reason> {
        let size = form.bounds.magnitudes();
        let bound = |row: usize| {
            let coefficients = self.rows.row(row);
            let own = form.functional(coefficients).lower + self.rows.constant[row] - self.rows.slack[row];
            let involved: f64 = coefficients.iter().zip(&size).map(|(a, x)| a.abs() * x).sum();
            own - ROOM * (involved + self.rows.constant[row].abs())
        };
        let bounds: Vec<f64> = (0..self.rows.count).map(|row| bound(row).max(self.known[row])).collect();
        let margin = self.property.margin(&bounds);
        if margin > 0.0 { Ok(()) } else { Err(Reason::Loose { margin }) }
    }

    /// All trajectories of a block, and the sets of states at its end, each once.
    fn through(
        &mut self,
        value: usize,
        ode: &Ode,
        start: AffineForm,
        held: usize,
    ) -> Result<Vec<Arc<Travelling>>, Reason> {
        let grid = Grid::new(&ode.solver()).map_err(gains_ode::Halt::<Reason>::from)?;
        let start = Travelling::new(start, &mut self.symbols);
        let first = start.origin;
        let mut carrier =
            FormSteps::new(&ode.block, grid.tolerance, Arithmetic::Real, self.clock, &mut self.symbols);
        carrier.outside = held;
        carrier.notes = Some(Notes::default());
        carrier.thresholds =
            grid.increase_below.map_or_else(Vec::new, |least| vec![least * grid.tolerance, grid.tolerance]);
        let limits = Limits { vertices: self.clock.budget().vertices, stop: &|| false };
        let explored = explore(&mut carrier, &grid, vec![start], &limits)?;
        let notes = carrier.notes.take().unwrap_or_default();
        let mut vertices = vertices(&explored.graph, notes, first);
        for vertex in &mut vertices {
            vertex.error = vertex.error.map(|error| as_wide_as_decided(&grid, &vertex.at, error));
        }
        self.graphs.push(FormGraph { ode: value, vertices });
        let mut ends: Vec<Arc<Travelling>> = Vec::new();
        for end in explored.ends {
            if ends.iter().all(|other| other.origin != end.origin) {
                ends.push(end);
            }
        }
        Ok(ends)
    }
}

/// What a checker may take the threshold of an increase to be off by.
const OFF: f64 = 1e-9;
/// No error estimate of a form that is sane is larger.
const LARGEST_ERROR: f64 = 1e30;

/// The widest claim about error estimates that leads to the same places. What is written is nothing but the reason for the edges; what
/// another program loses by rounding grows from step to step, and matters only next to a threshold.
fn as_wide_as_decided(grid: &Grid, at: &Place, error: Interval) -> Interval {
    let leads = |error: Interval| grid.branches(at, grid.decide(at, error)).collect::<Vec<_>>();
    let wanted = leads(error);
    let same = |error: &Interval| leads(*error) == wanted;
    let least = grid.increase_below.unwrap_or(0.0);
    let lower = [0.0, least * (1.0 + OFF), 1.0 + OFF].into_iter().filter(|lower| *lower < error.lower);
    let error = lower.map(|lower| Interval { lower, ..error }).find(same).unwrap_or(error);
    let upper =
        [LARGEST_ERROR, 1.0 - OFF, least * (1.0 - OFF)].into_iter().filter(|upper| *upper > error.upper);
    upper.map(|upper| Interval { upper, ..error }).find(same).unwrap_or(error)
}

/// The graph with what was noted; `first` names the states at the start.
fn vertices(graph: &Graph<Reach, StepTrace>, notes: Notes, first: Symbol) -> Vec<FormVertex> {
    let travels = |edge: usize| {
        let edge = &graph.edges[edge];
        let step = &notes.steps[edge.from];
        if edge.action == Action::Reject { step.from } else { step.to }
    };
    let vertex = |index: usize| {
        let (vertex, notes_here) = (&graph.vertices[index], &notes.steps[index]);
        let mut arriving: Vec<Symbol> = if index == 0 { vec![first] } else { Vec::new() };
        let mut incoming = vertex.incoming.clone();
        incoming.sort_unstable();
        for set in incoming.into_iter().map(travels) {
            if !arriving.contains(&set) {
                arriving.push(set);
            }
        }
        let mut joins = Vec::new();
        pairs(notes_here.from, &arriving, &notes, &mut joins);
        FormVertex {
            at: vertex.place,
            error: vertex.error,
            out: vertex.outgoing.iter().map(|&e| (graph.edges[e].action, graph.edges[e].to)).collect(),
            notes: notes_here.clone(),
            joins,
        }
    };
    (0..graph.vertices.len()).map(vertex).collect()
}

/// How a set is made of those that arrive: its number among them once all pairs are joined.
fn pairs(set: Symbol, arriving: &[Symbol], notes: &Notes, joins: &mut Vec<(usize, usize)>) -> usize {
    if let Some(number) = arriving.iter().position(|other| *other == set) {
        return number;
    }
    let Some(&(first, second)) = notes.joins.get(&set) else { return 0 };
    let first = pairs(first, arriving, notes, joins);
    let second = pairs(second, arriving, notes, joins);
    joins.push((first, second));
    first
}

#[cfg(test)]
mod tests {
    use gains_core::description::RungeKutta;
    use gains_testkit::controlled;

    use super::*;

    #[test]
    fn claims_about_errors_are_wide_and_lead_to_the_same_places() {
        let grid =
            Grid::new(&controlled(RungeKutta::Dopri5, 2, 0.01, 0.3, 1)).expect("its steps are on a grid");
        let start = grid.line.start();
        let Some((_, gains_ode::timeline::Moment::At(clipped))) =
            grid.branches(&start, grid.decide(&start, Interval::point(0.0))).next()
        else {
            panic!("the end is far")
        };
        let (least, largest) = (1.0 / 32.0, LARGEST_ERROR);
        for (at, [lower, upper], [least_end, greatest_end]) in [
            (start, [0.01, 0.02], [0.0, least]),
            (start, [0.01, 0.1], [0.0, 1.0]),
            (start, [0.04, 0.1], [least, 1.0]),
            (start, [0.04, 2.0], [least, largest]),
            (start, [1.5, 2.0], [1.0, largest]),
            (start, [0.01, 2.0], [0.0, largest]),
            // Here an increase leads where a keep does.
            (clipped, [0.04, 0.1], [0.0, 1.0]),
            // Nothing is wider than thresholds allow.
            (start, [least.next_up(), 1.0], [least.next_up(), 1.0]),
        ] {
            let wide = as_wide_as_decided(&grid, &at, Interval { lower, upper });
            let near = |a: f64, b: f64| (a - b).abs() <= 2.0 * OFF * b;
            assert!(
                near(wide.lower, least_end) && near(wide.upper, greatest_end),
                "{lower} {upper}: {wide:?}"
            );
            assert!(wide.lower <= lower && upper <= wide.upper);
            let leads = |error| grid.branches(&at, grid.decide(&at, error)).collect::<Vec<_>>();
            assert_eq!(leads(wide), leads(Interval { lower, upper }));
        }
    }
}
