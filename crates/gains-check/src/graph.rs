//! Trajectory graphs: what a file claims of them is checked, and rows are taken back through them.

use crate::automaton::Action;
use crate::certificate::{OdeWay, region, tangent};
use crate::fault::{Deadline, Fault};
use crate::interval::{Interval, add_down};
use crate::network::Ode;
use crate::rows::{Changes, Linear, Slopes, Tangents, Values, through_dynamics};
use crate::rules::{Region, each, holds};
use crate::station::{Station, vertices};
use crate::steps::{Form, Step, step};
use crate::value::{Value, bad, fits};

/// Lines that are kept take the room of so many intervals.
pub const LINES: usize = 8;

/// A place with all states in which it can be reached, as a file says.
#[derive(Debug)]
struct Vertex {
    station: Station,
    state: Region,
    /// Slopes beside functions that take them, stage by stage.
    tangents: Vec<Tangents>,
    /// Number of the first edge out.
    first_edge: usize,
}

/// A graph that was checked.
#[derive(Debug)]
pub struct Graph {
    form: Form,
    vertices: Vec<Vertex>,
    /// The steps from all vertices.
    steps: Vec<Step>,
    /// All states at the end.
    pub end: Region,
    /// How many intervals are kept.
    pub intervals: usize,
    deadline: Deadline,
}

/// What all edges into a vertex carry of the values of the dynamics in its first stage, of which those from 1 on count: the hull
/// of what they do, or nothing if one of them carries nothing; `None` before the first.
type Carried = Option<Option<Vec<Region>>>;

/// One more edge.
fn join(carried: &mut Carried, more: Option<&[Region]>) {
    let hull = |(a, b): (&Region, &Region)| each(a, b, Interval::hull);
    *carried = Some(match (carried.take(), more) {
        (None, Some(more)) => Some(more.to_vec()),
        (Some(Some(there)), Some(more)) => Some(there.iter().zip(more).map(hull).collect()),
        _ => None,
    });
}

impl Graph {
    /// Reads a graph and checks it for all starts in `argument`. `known` is what splits say of the values of the
    /// dynamics at the start, `room` is how many intervals may be kept.
    pub fn check(
        value: &Value,
        ode: &Ode,
        argument: &Region,
        known: Option<Vec<Region>>,
        room: usize,
        deadline: Deadline,
    ) -> Result<Self, Fault> {
        let fields = value.fields("ode form vertices end")?;
        let form = if fields.index("form", 2)? == 1 { Form::Difference } else { Form::Independent };
        let end = fields.read("end", |end| region(end, argument.len()))?;
        let count = fields.get("vertices")?.list()?.len();
        if count.saturating_mul(argument.len()) > room {
            return Err(bad(format!("a graph of {count} vertices")));
        }
        let mut edges = 0;
        let vertices = vertices(fields, &ode.solver, "state lines", |fields, station| {
            let first_edge = edges;
            edges += station.out.len();
            let mut tangents = vec![Tangents::default(); ode.solver.tableau.count()];
            fields.each("lines", |line| {
                let [stage, value, below, above] = line.items()?;
                let (value, slopes) = tangent([value, below, above], &ode.dynamics)?;
                tangents[stage.index(ode.solver.tableau.count())?].give(value, slopes);
                Ok(())
            })?;
            let state = region(fields.get("state")?, argument.len())?;
            Ok(Vertex { station, state, tangents, first_edge })
        })?;
        let mut graph = Self { form, vertices, steps: vec![], end, intervals: 0, deadline };
        holds(&graph.vertices[0].state, argument, "vertex 0: the states at the start")?;
        let mut carried: Vec<Carried> = vec![None; count];
        carried[0] = Some(known);
        for i in 0..count {
            let step = graph.vertex(ode, i, &mut carried).map_err(|fault| match fault {
                Fault::Empty if i > 0 => Fault::wrong("a box came out empty").within(format!("vertex {i}")),
                fault => fault.within(format!("vertex {i}")),
            })?;
            let lines = LINES * ode.dynamics.sloped() * step.stages.len();
            graph.intervals += step.intervals() + argument.len() + lines;
            graph.steps.push(step);
            if graph.intervals > room {
                return Err(bad("more memory is needed than this checker takes"));
            }
        }
        Ok(graph)
    }

    /// Takes the step from a vertex, compares it with what is claimed, and tells its targets what is known of their first stages.
    fn vertex(&self, ode: &Ode, i: usize, carried: &mut [Carried]) -> Result<Step, Fault> {
        self.deadline.check()?;
        let (solver, Vertex { station, state, .. }) = (&ode.solver, &self.vertices[i]);
        let place = |target: usize| self.vertices[target].station.place;
        let got = carried[i].take().flatten();
        let carries = self.form == Form::Difference && solver.tableau.ends_where_the_next_begins();
        let accepted = station.out.iter().filter(|edge| edge.action != Action::Reject);
        let times =
            accepted.filter_map(|edge| edge.target).map(|target| Interval::point(solver.time(place(target))));
        let followers = times.reduce(Interval::hull).filter(|_| carries);
        let from = (station.place, state);
        let step = step(ode, self.form, from, got.as_deref(), followers, self.deadline)?;
        station.check(solver, step.error, place)?;
        for edge in &station.out {
            let last = step.stages.last().filter(|_| carries && step.error.is_some());
            let (travels, brings) = match edge.action {
                Action::Reject => (state, got.as_deref()),
                _ => (&step.result, last.map(|stage| &stage.values[..])),
            };
            match edge.target {
                None => holds(&self.end, travels, "the states that reach the end")?,
                Some(target) => {
                    let what = format!("the states that reach vertex {target}");
                    holds(&self.vertices[target].state, travels, &what)?;
                    join(&mut carried[target], brings);
                }
            }
        }
        Ok(step)
    }

    /// Takes a function of the states at the end back to one of the states at the start, nowhere above it.
    pub fn back(&self, ode: &Ode, of: &Linear, way: &OdeWay) -> Result<Linear, Fault> {
        if way.chain && self.form == Form::Independent {
            return Err(Fault::wrong("a chain needs a graph in difference form"));
        }
        let mut brought: Vec<Option<Linear>> = vec![None; self.size().1];
        for (i, Vertex { station, state, first_edge, .. }) in self.vertices.iter().enumerate().rev() {
            self.deadline.check()?;
            for (number, edge) in (*first_edge..).zip(&station.out) {
                let rejected = edge.action == Action::Reject;
                let row = match edge.target {
                    None => of.clone(),
                    Some(target) => {
                        let travels = if rejected { state } else { &self.steps[i].result };
                        self.merge(target, &brought, way.shares.get(&number), travels)
                            .map_err(|fault| fault.within(format!("edge {number}")))?
                    }
                };
                brought[number] = Some(if rejected { row } else { self.through_step(ode, i, row, way) });
            }
        }
        let start = self.merge(0, &brought, Some(&way.start), &self.vertices[0].state);
        start.map_err(|fault| fault.within("the start"))
    }

    /// One function below all those that edges out of a vertex brought, over a box of states: Σ wⱼ rⱼ + s with the
    /// largest s that can be shown.
    fn merge(
        &self,
        vertex: usize,
        brought: &[Option<Linear>],
        shares: Option<&Vec<f64>>,
        boxes: &Region,
    ) -> Result<Linear, Fault> {
        let Vertex { station, first_edge, .. } = &self.vertices[vertex];
        let rows: Vec<&Linear> = brought[*first_edge..][..station.out.len()].iter().flatten().collect();
        if let [row] = rows[..] {
            return Ok(row.clone());
        }
        let shares = shares.filter(|_| !rows.is_empty());
        let shares = shares.ok_or_else(|| Fault::wrong("no shares for the rows that meet there"))?;
        fits(shares, rows.len(), "shares")?;
        Ok(Linear::below_all(&rows, shares, boxes))
    }

    /// From a function of y = x + h Σ bᵢ kᵢ to one of x.
    fn through_step(&self, ode: &Ode, vertex: usize, of: Linear, way: &OdeWay) -> Linear {
        let (tableau, dynamics, step) = (&ode.solver.tableau, &ode.dynamics, &self.steps[vertex]);
        let state = &self.vertices[vertex].state;
        let slopes = |i: usize| &step.stages[i].values[dynamics.output];
        let nothing = Linear { coefficients: vec![0.0; state.len()], constant: 0.0 };
        let on_slope = |i| nothing.plus(step.size * tableau.result[i], &of.coefficients, slopes(i));
        let mut on_slopes: Vec<Linear> = (0..tableau.needed()).map(on_slope).collect();
        let mut on_state = of;
        while let Some(row) = on_slopes.pop() {
            let i = on_slopes.len();
            let chained = way.chain && i > 0;
            let input = if chained {
                let earlier = &mut on_slopes[i - 1];
                *earlier = earlier.plus(Interval::ONE, &row.coefficients, slopes(i - 1));
                let (before, now) = (&step.stages[i - 1], &step.stages[i]);
                through_dynamics(dynamics, dynamics.output, row, &Changes { network: dynamics, before, now })
            } else {
                through_dynamics(dynamics, dynamics.output, row, &self.values(ode, vertex, i, &way.slopes))
            };
            on_state.constant = add_down(on_state.constant, input.constant);
            for (j, earlier) in on_slopes.iter_mut().enumerate() {
                let before = if chained { tableau.stage(i - 1, j) } else { Interval::ZERO };
                let factor = step.size * (tableau.stage(i, j) - before);
                if factor != Interval::ZERO {
                    *earlier = earlier.plus(factor, &input.coefficients, slopes(j));
                }
            }
            if !chained {
                on_state = on_state.plus(Interval::ONE, &input.coefficients, state);
            }
        }
        on_state
    }

    /// What is known of the values of the dynamics in a stage of the step from a vertex.
    fn values<'a>(&'a self, ode: &'a Ode, vertex: usize, stage: usize, slopes: &'a Slopes) -> Values<'a> {
        let (tangents, deadline) = (&self.vertices[vertex].tangents[stage], self.deadline);
        let stage = &self.steps[vertex].stages[stage];
        Values { network: &ode.dynamics, boxes: &stage.values, time: stage.time, slopes, tangents, deadline }
    }

    /// A function of the states at the start nowhere above `of`, which is one of a value of the dynamics in the first
    /// stage.
    pub fn face(&self, ode: &Ode, value: usize, of: Linear) -> Linear {
        through_dynamics(&ode.dynamics, value, of, &self.values(ode, 0, 0, &Slopes::default()))
    }

    /// Numbers of vertices and edges.
    pub fn size(&self) -> (usize, usize) {
        (self.vertices.len(), self.vertices.iter().map(|vertex| vertex.station.out.len()).sum())
    }
}

#[cfg(test)]
mod tests;
