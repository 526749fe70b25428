//! What a file says of a place that a solver can reach: errors, actions, and where they lead.

use crate::automaton::{Action, Next, Place, Solver, lost};
use crate::fault::Fault;
use crate::interval::Interval;
use crate::rules::holds;
use crate::value::{Fields, Value, bad};

/// An action, and the vertex it leads to; `None` is the end.
#[derive(Debug, Clone, Copy)]
pub struct Edge {
    /// What the solver does.
    pub action: Action,
    /// A vertex further down the list.
    pub target: Option<usize>,
}

/// Most vertices of one graph.
const MAX_VERTICES: usize = 100_000;

/// All vertices of a graph, of which the first is the start; `keys` are those that they have beside their stations.
pub fn vertices<'v, 'a, T>(
    graph: Fields<'v, 'a>,
    solver: &Solver,
    keys: &str,
    mut of: impl FnMut(Fields<'v, 'a>, Station) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let list = graph.get("vertices")?.list()?;
    if !(1..=MAX_VERTICES).contains(&list.len()) {
        return Err(bad(format!("a graph of {} vertices", list.len())));
    }
    let mut vertex = |own: usize| {
        let fields = list[own].fields(&format!("at error out {keys}"))?;
        let station = Station::read(fields, own, list.len())?;
        match own == 0 && station.place != solver.start() {
            true => Err(Fault::wrong("it is not the start")),
            false => of(fields, station),
        }
    };
    (0..list.len()).map(|own| vertex(own).map_err(|fault| fault.within(format!("vertex {own}")))).collect()
}

/// A place, with what may happen there.
#[derive(Debug)]
pub struct Station {
    /// Where.
    pub place: Place,
    /// All δ, if it is looked at.
    pub error: Option<Interval>,
    /// In the order of actions.
    pub out: Vec<Edge>,
}

impl Station {
    /// Reads what stands under `at`, `error` and `out` of vertex `own` of so many.
    fn read(fields: Fields, own: usize, vertices: usize) -> Result<Self, Fault> {
        let mut at = [0; 6];
        for (number, value) in at.iter_mut().zip(fields.read("at", Value::items::<6>)?) {
            *number = value.integer()?;
        }
        let [ticks, step, progress, fraction, rejections, settled] = at;
        let place = Place { ticks, step, progress, fraction, rejections, settled };
        let error = match fields.get("error")? {
            Value::Null => None,
            value => Some(
                value
                    .items()
                    .and_then(|[low, high]| Ok(Interval { low: low.number()?, high: high.number()? }))?,
            ),
        };
        let out = fields.each("out", |value| {
            let [action, target] = value.items()?;
            let target = if *target == Value::Integer(-1) { None } else { Some(target.index(vertices)?) };
            match target {
                Some(target) if target <= own => Err(Fault::wrong("an edge that leads back")),
                _ => Ok(Edge { action: Action::read(action)?, target }),
            }
        })?;
        match out.windows(2).any(|pair| pair[0].action >= pair[1].action) {
            true => Err(bad("edges that are not in the order of actions")),
            false => Ok(Self { place, error, out }),
        }
    }

    /// Checks that δ is in `error`, that every action some δ in it leads to has an edge, and that all edges lead where their
    /// actions do; `place_of` tells the places of vertices.
    pub fn check(
        &self,
        solver: &Solver,
        error: Option<Interval>,
        place_of: impl Fn(usize) -> Place,
    ) -> Result<(), Fault> {
        match (self.error, error) {
            (None, None) => {}
            (Some(claim), Some(error)) => holds(&[claim], &[error], "the error")?,
            _ => return Err(Fault::wrong("an error where none is looked at, or none where one is")),
        }
        for action in solver.actions(self.place, self.error).ok_or_else(lost)? {
            if !self.out.iter().any(|edge| edge.action == action) {
                return Err(Fault::wrong(format!("no edge for the action {action:?}")));
            }
        }
        for edge in &self.out {
            let next = solver.after(self.place, edge.action).ok_or_else(lost)?;
            if next != edge.target.map_or(Next::End, |target| Next::Place(place_of(target))) {
                return Err(Fault::wrong(format!("the action {:?} leads elsewhere", edge.action)));
            }
        }
        Ok(())
    }
}
