//! Trajectory graphs: what a file claims of them is checked, and rows are taken back through them.

use crate::automaton::Action;
use crate::cbor::Value;
use crate::certificate::{Fields, OdeWay, index, list, region, tangent};
use crate::fault::{Deadline, Fault};
use crate::interval::{Interval, add_down};
use crate::network::Ode;
use crate::rows::{Changes, Linear, Slopes, Tangents, Values, fits, through_dynamics};
use crate::rules::{Region, each, holds};
use crate::station::{Edge, Station};
use crate::steps::{Form, Start, Step, step};

/// Lines that are kept take the room of so many intervals.
pub const LINES: usize = 8;
/// Most vertices of one graph.
const MAX_VERTICES: usize = 100_000;

/// A place with all states in which it can be reached.
#[derive(Debug)]
struct Vertex {
    state: Region,
    out: Vec<Edge>,
    /// Number of the first edge out.
    first_edge: usize,
    step: Step,
    /// Slopes beside functions made of pieces, stage by stage.
    tangents: Vec<Tangents>,
}

/// A graph that was checked.
#[derive(Debug)]
pub struct Graph {
    form: Form,
    vertices: Vec<Vertex>,
    /// All states at the end.
    pub end: Region,
    /// How many intervals are kept.
    pub intervals: usize,
    deadline: Deadline,
}

/// What checking a graph may take.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Intervals that may be kept.
    pub room: usize,
    /// When to stop.
    pub deadline: Deadline,
}

impl Graph {
    /// Reads a graph and checks it for all starts in `argument`. `known` is what splits say of the values of the
    /// dynamics at the start.
    pub fn check(
        value: &Value,
        ode: &Ode,
        argument: &Region,
        known: Option<&[Region]>,
        Limits { room, deadline }: Limits,
    ) -> Result<Self, Fault> {
        let fields = Fields::of(value, &["ode", "form", "vertices", "end"])?;
        let form = if fields.index("form", 2)? == 1 { Form::Difference } else { Form::Independent };
        let entries = argument.len();
        let end = region(fields.get("end")?, entries).map_err(|fault| fault.within("end"))?;
        let list = fields.list("vertices")?;
        if list.is_empty() || list.len() > MAX_VERTICES || list.len().saturating_mul(entries) > room {
            return Err(Fault::Malformed(format!("a graph of {} vertices", list.len())));
        }
        let claims: Vec<Claim> = list
            .iter()
            .enumerate()
            .map(|(i, vertex)| {
                Claim::read(vertex, i, list.len(), ode).map_err(|fault| fault.within(format!("vertex {i}")))
            })
            .collect::<Result<_, _>>()?;
        if claims[0].station.place != ode.solver.start() {
            return Err(Fault::wrong("vertex 0: it is not the start"));
        }
        holds(&claims[0].state, argument, "vertex 0: the states at the start")?;
        let mut carried: Vec<Carried> = (0..claims.len()).map(|_| Carried::Nothing { yet: true }).collect();
        if let Some(known) = known {
            carried[0] = Carried::Boxes(known.to_vec());
        }
        let mut graph = Self { form, vertices: Vec::new(), end, intervals: 0, deadline };
        let mut first_edge = 0;
        let pieced = ode.dynamics.pieced();
        for i in 0..claims.len() {
            deadline.check()?;
            let got = std::mem::replace(&mut carried[i], Carried::Nothing { yet: false });
            let step =
                claims[i].check(ode, form, &got, &claims, &graph.end, deadline).map_err(
                    |fault| match fault {
                        Fault::Empty if i > 0 => {
                            Fault::wrong("a box came out empty").within(format!("vertex {i}"))
                        }
                        fault => fault.within(format!("vertex {i}")),
                    },
                )?;
            claims[i].carry(ode, form, &step, &got, &mut carried);
            graph.intervals += step.intervals() + argument.len() + LINES * pieced * step.stages.len();
            if graph.intervals > room {
                return Err(Fault::Malformed("more memory is needed than this checker takes".into()));
            }
            let Claim { station: Station { out, .. }, state, tangents } = &claims[i];
            let edges = out.len();
            let (state, out, tangents) = (state.clone(), out.clone(), tangents.clone());
            graph.vertices.push(Vertex { state, out, first_edge, step, tangents });
            first_edge += edges;
        }
        Ok(graph)
    }

    /// Takes a function of the states at the end back to one of the states at the start, nowhere above it.
    pub fn back(&self, ode: &Ode, of: &Linear, way: &OdeWay) -> Result<Linear, Fault> {
        if way.chain && self.form == Form::Independent {
            return Err(Fault::wrong("a chain needs a graph in difference form"));
        }
        let mut brought: Vec<Option<Linear>> =
            vec![None; self.vertices.iter().map(|vertex| vertex.out.len()).sum()];
        for vertex in self.vertices.iter().rev() {
            self.deadline.check()?;
            for (number, edge) in (vertex.first_edge..).zip(&vertex.out) {
                let travels = if edge.action == Action::Reject { &vertex.state } else { &vertex.step.result };
                let row = match edge.target {
                    None => of.clone(),
                    Some(target) => self
                        .merge(target, &brought, way.shares.get(&number).map(Vec::as_slice), travels)
                        .map_err(|fault| fault.within(format!("edge {number}")))?,
                };
                brought[number] = Some(match edge.action {
                    Action::Reject => row,
                    _ => self.back_through_step(ode, vertex, row, way),
                });
            }
        }
        self.merge(0, &brought, Some(&way.start), &self.vertices[0].state)
            .map_err(|fault| fault.within("the start"))
    }

    /// One function below all those that edges out of a vertex brought, over a box of states: Σ wⱼ rⱼ + s with the
    /// largest s that can be shown.
    fn merge(
        &self,
        vertex: usize,
        brought: &[Option<Linear>],
        shares: Option<&[f64]>,
        boxes: &Region,
    ) -> Result<Linear, Fault> {
        let vertex = &self.vertices[vertex];
        let rows: Vec<&Linear> =
            (0..vertex.out.len()).filter_map(|i| brought[vertex.first_edge + i].as_ref()).collect();
        if let [row] = rows[..] {
            return Ok(row.clone());
        }
        let shares = shares.filter(|_| !rows.is_empty());
        let shares = shares.ok_or_else(|| Fault::wrong("no shares for the rows that meet there"))?;
        fits(shares, rows.len(), "shares")?;
        Ok(Linear::below_all(&rows, shares, boxes))
    }

    /// From a function of y = x + h Σ bᵢ kᵢ to one of x.
    fn back_through_step(&self, ode: &Ode, vertex: &Vertex, of: Linear, way: &OdeWay) -> Linear {
        let (tableau, dynamics, step) = (&ode.solver.tableau, &ode.dynamics, &vertex.step);
        let state = &vertex.state;
        let slopes = |i: usize| &step.stages[i].values[dynamics.output];
        let mut constant = of.constant;
        let mut on_slopes: Vec<Linear> = (0..tableau.needed())
            .map(|i| {
                let nothing = Linear { coefficients: vec![0.0; state.len()], constant: 0.0 };
                nothing.plus(step.size * tableau.result[i], &of.coefficients, slopes(i))
            })
            .collect();
        let mut on_state = Linear { coefficients: of.coefficients, constant: 0.0 };
        for i in (0..on_slopes.len()).rev() {
            let Some(row) = on_slopes.pop() else { break };
            let chained = way.chain && i > 0;
            let input = if chained {
                let earlier = &mut on_slopes[i - 1];
                *earlier = earlier.plus(Interval::ONE, &row.coefficients, slopes(i - 1));
                let changes =
                    Changes { network: dynamics, before: &step.stages[i - 1], now: &step.stages[i] };
                through_dynamics(dynamics, dynamics.output, row, &changes)
            } else {
                through_dynamics(
                    dynamics,
                    dynamics.output,
                    row,
                    &vertex.values(ode, i, &way.slopes, self.deadline),
                )
            };
            constant = add_down(constant, input.constant);
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
        on_state.constant = add_down(on_state.constant, constant);
        on_state
    }

    /// A function of the states at the start nowhere above `of`, which is one of a value of the dynamics in the first
    /// stage.
    pub fn face(&self, ode: &Ode, value: usize, of: Linear) -> Linear {
        let slopes = Slopes::default();
        let known = self.vertices[0].values(ode, 0, &slopes, self.deadline);
        through_dynamics(&ode.dynamics, value, of, &known)
    }

    /// Numbers of vertices and edges.
    pub fn size(&self) -> (usize, usize) {
        (self.vertices.len(), self.vertices.iter().map(|vertex| vertex.out.len()).sum())
    }
}

impl Vertex {
    fn values<'a>(
        &'a self,
        ode: &'a Ode,
        stage: usize,
        slopes: &'a Slopes,
        deadline: Deadline,
    ) -> Values<'a> {
        let (tangents, stage) = (&self.tangents[stage], &self.step.stages[stage]);
        let (network, boxes, time) = (&ode.dynamics, &stage.values, stage.time);
        Values { network, boxes, time, slopes, tangents, deadline }
    }
}

/// What all edges into a vertex carry of the values of the dynamics in its first stage.
enum Carried {
    /// Nothing: `yet` while no edge has been seen.
    Nothing { yet: bool },
    /// The hull of what they carry; only the values from 1 on count.
    Boxes(Vec<Region>),
}

impl Carried {
    /// One more edge.
    fn join(&mut self, more: Option<&[Region]>) {
        *self = match (std::mem::replace(self, Self::Nothing { yet: false }), more) {
            (Self::Nothing { yet: true }, Some(more)) => Self::Boxes(more.to_vec()),
            (Self::Boxes(there), Some(more)) => {
                Self::Boxes(there.iter().zip(more).map(|(a, b)| each(a, b, Interval::hull)).collect())
            }
            _ => Self::Nothing { yet: false },
        };
    }

    fn boxes(&self) -> Option<&[Region]> {
        match self {
            Self::Boxes(boxes) => Some(boxes),
            Self::Nothing { .. } => None,
        }
    }
}

/// What a file says of a vertex.
struct Claim {
    station: Station,
    state: Region,
    tangents: Vec<Tangents>,
}

impl Claim {
    fn read(value: &Value, own: usize, vertices: usize, ode: &Ode) -> Result<Self, Fault> {
        let fields = Fields::of(value, &["at", "state", "error", "out", "lines"])?;
        let station = Station::read(&fields, own, vertices)?;
        let mut tangents = vec![Tangents::default(); ode.solver.tableau.count()];
        for line in fields.list("lines")? {
            let [stage, value, below, above] = list(line)? else {
                return Err(Fault::Malformed("lines of other than four items".into()));
            };
            let (value, slopes) = tangent([value, below, above], &ode.dynamics)?;
            tangents[index(stage, ode.solver.tableau.count())?].give(value, slopes);
        }
        let state = region(fields.get("state")?, ode.dynamics.nodes[0].shape.count())?;
        Ok(Self { station, state, tangents })
    }

    /// Takes the step from here and compares it with what is claimed.
    fn check(
        &self,
        ode: &Ode,
        form: Form,
        got: &Carried,
        claims: &[Self],
        end: &Region,
        deadline: Deadline,
    ) -> Result<Step, Fault> {
        let solver = &ode.solver;
        let (time, size) = self.station.clock(solver)?;
        let followers = self
            .station
            .out
            .iter()
            .filter(|edge| edge.action != Action::Reject)
            .filter_map(|edge| edge.target);
        let followers = followers
            .map(|target| Interval::point(solver.time(claims[target].station.place)))
            .reduce(Interval::hull);
        let start = Start {
            state: &self.state,
            time,
            size,
            tolerance: solver.looks_at_errors(self.station.place),
            followers: followers.filter(|_| carries(ode, form)),
            carried: got.boxes(),
            deadline,
        };
        let step = step(ode, form, &start)?;
        self.station.check(solver, step.error, |target| claims[target].station.place)?;
        for edge in &self.station.out {
            let travels = if edge.action == Action::Reject { &self.state } else { &step.result };
            match edge.target {
                Some(target) => {
                    holds(&claims[target].state, travels, &format!("the states that reach vertex {target}"))?
                }
                None => holds(end, travels, "the states that reach the end")?,
            }
        }
        Ok(step)
    }

    /// Tells the targets what is known of their first stages.
    fn carry(&self, ode: &Ode, form: Form, step: &Step, got: &Carried, carried: &mut [Carried]) {
        let last = step.stages.last().filter(|_| carries(ode, form) && step.error.is_some());
        for edge in &self.station.out {
            let Some(target) = edge.target else { continue };
            carried[target].join(match edge.action {
                Action::Reject => got.boxes(),
                _ => last.map(|stage| stage.values.as_slice()),
            });
        }
    }
}

/// Whether the last stage of a step is the first of the next one.
fn carries(ode: &Ode, form: Form) -> bool {
    form == Form::Difference && ode.solver.tableau.ends_where_the_next_begins()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What two edges carry holds for whoever came by either of them; one that carries nothing takes all away.
    #[test]
    fn edges_carry_what_holds_for_all_of_them() {
        let carry = |low: f64, high: f64| vec![vec![Interval { low, high }]];
        let ends = |carried: &Carried| {
            let boxes = carried.boxes()?;
            Some((boxes[0][0].low, boxes[0][0].high))
        };
        let mut carried = Carried::Nothing { yet: true };
        carried.join(Some(&carry(0.0, 1.0)));
        carried.join(Some(&carry(3.0, 4.0)));
        carried.join(Some(&carry(-1.0, 0.5)));
        assert_eq!(ends(&carried), Some((-1.0, 4.0)));
        carried.join(None);
        assert_eq!(ends(&carried), None);
        carried.join(Some(&carry(0.0, 1.0)));
        assert_eq!(ends(&carried), None, "what came first carried nothing");
    }
}
