//! Proofs by affine forms: pushed forward from the inputs to the outputs, through every trajectory on its own.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::automaton::Action;
use crate::certificate::PropertyRow;
use crate::fault::Fault;
use crate::form::{Form, Work};
use crate::form_steps::{Choices, Set, form};
use crate::interval::Interval;
use crate::network::{Network, Ode, Operator};
use crate::proof::{Count, Question};
use crate::rules::Region;
use crate::station::{Station, vertices};
use crate::value::{Value, bad};

/// Checks that a property follows, for inputs in these boxes, of all forms at the outputs. `shown` are the rows that are known anyway,
/// `room` is how many numbers may be kept.
pub fn check(
    question: &Question,
    graphs: &[Value],
    inputs: &[Region],
    shown: &[bool],
    room: usize,
    count: &mut Count,
) -> Result<(), Fault> {
    let mut work = Work::new(room, question.deadline);
    let mut forms = Vec::new();
    for input in inputs {
        let form = Form::of_box(input, &mut work)?;
        work.keep(&form);
        forms.push(Rc::new(form));
    }
    let mut proof = Proof { question, graphs: graphs.iter().enumerate(), shown, work, count };
    proof.world(forms)?;
    match proof.graphs.next() {
        None => Ok(()),
        Some((number, _)) => Err(bad(format!("graph {number}: nothing leads there"))),
    }
}

struct Proof<'a, 'v> {
    question: &'a Question,
    /// What is left of them, with their numbers.
    graphs: std::iter::Enumerate<std::slice::Iter<'a, Value<'v>>>,
    shown: &'a [bool],
    work: Work,
    count: &'a mut Count,
}

impl Proof<'_, '_> {
    /// Goes on from the forms of some first values to the outputs; at an ODE, from each of its ends.
    fn world(&mut self, mut forms: Vec<Rc<Form>>) -> Result<(), Fault> {
        let network: &Network = &self.question.network;
        for index in forms.len()..network.nodes.len() {
            let node = &network.nodes[index];
            let within = |fault: Fault| fault.within(format!("value {index}"));
            let Operator::Ode(ode) = &node.operator else {
                let form = form(network, index, &forms, Interval::ZERO, None, &mut self.work);
                forms.push(Rc::new(form.map_err(within)?));
                continue;
            };
            let ends = self.ends(index, ode, forms[node.arguments[0]].clone())?;
            let held = self.work.held;
            for end in ends {
                let mut forms = forms.clone();
                forms.push(end.state.clone());
                self.world(forms)?;
                self.work.held = held;
            }
            return Ok(());
        }
        self.outputs(&forms[network.output])
    }

    /// Checks that the property holds of all vectors of a form.
    fn outputs(&mut self, form: &Form) -> Result<(), Fault> {
        let property = &self.question.property;
        let bound = |row: &PropertyRow| {
            self.question.deadline.check()?;
            Ok((form.along(&row.coefficients) + Interval::point(row.constant.low)).low)
        };
        let bounds: Vec<f64> = property.rows.iter().map(bound).collect::<Result<_, Fault>>()?;
        self.count.rows += bounds.len();
        let shown: Vec<bool> =
            bounds.iter().zip(self.shown).map(|(bound, shown)| *shown || *bound > 0.0).collect();
        if property.condition.follows(&shown) {
            return Ok(());
        }
        let worst = bounds.iter().fold(f64::INFINITY, |worst, bound| worst.min(*bound));
        Err(Fault::refused(
            "the condition does not follow from a form at the outputs, of which a row is missed",
            -worst,
        ))
    }

    /// All sets at the end of the next graph, which is that of an ODE from these states.
    fn ends(&mut self, index: usize, ode: &Ode, start: Rc<Form>) -> Result<Vec<Rc<Set>>, Fault> {
        let Some((number, graph)) = self.graphs.next() else {
            return Err(Fault::wrong(format!("no graph for value {index}")));
        };
        let within = |fault: Fault| fault.within(format!("graph {number}"));
        let vertices = read(graph, index, ode).map_err(within)?;
        self.count.vertices += vertices.len();
        self.count.edges += vertices.iter().map(|vertex| vertex.station.out.len()).sum::<usize>();
        through(ode, &vertices, start, &mut self.work).map_err(within)
    }
}

/// What a file says of a vertex.
struct Vertex {
    station: Station,
    choices: Choices,
    /// Which of the sets that arrive are joined, one pair after the other.
    joins: Vec<(usize, usize)>,
}

fn read(value: &Value, number: usize, ode: &Ode) -> Result<Vec<Vertex>, Fault> {
    let fields = value.fields("ode vertices")?;
    if fields.index("ode", usize::MAX)? != number {
        return Err(bad(format!("it should be that of value {number}")));
    }
    vertices(fields, &ode.solver, "changes weights joins", |fields, station| {
        let mut choices = Choices::default();
        fields.each("changes", |change| {
            let [stage, value, entries] = change.items()?;
            let stage = stage.index(ode.solver.tableau.count())?;
            let value = value.index(ode.dynamics.nodes.len())?;
            if !matches!(ode.dynamics.nodes[value].operator, Operator::Curve(_)) {
                return Err(bad(format!("changes of value {value}, which is no activation")));
            }
            let entries = entries.flags(ode.dynamics.length(value), "changes")?;
            choices.changes.insert((stage, value), entries);
            Ok(())
        })?;
        if let Some(weights) = fields.find("weights") {
            let [lower, upper] = weights.items()?;
            let read = |value: &Value| match value {
                Value::Null => Ok(None),
                _ => match value.numbers(ode.dynamics.length(0), "weights")? {
                    weights if weights.iter().all(|weight| weight.abs() <= 1.0) => Ok(Some(weights)),
                    _ => Err(bad("a weight that is not between −1 and 1")),
                },
            };
            (choices.lower, choices.upper) = (read(lower)?, read(upper)?);
        }
        let joins = fields.each("joins", |pair| {
            let [first, second] = pair.items()?;
            Ok((first.index(usize::MAX)?, second.index(usize::MAX)?))
        })?;
        Ok(Vertex { station, choices, joins })
    })
}

impl Vertex {
    /// The one set that goes on, of all that arrive.
    fn meet(&self, arrived: Vec<Rc<Set>>, ode: &Ode, outer: u64, work: &mut Work) -> Result<Rc<Set>, Fault> {
        let mut sets: Vec<Option<Rc<Set>>> = arrived.into_iter().map(Some).collect();
        for &(first, second) in &self.joins {
            let mut take = |number: usize| sets.get_mut(number).and_then(Option::take);
            let (Some(a), Some(b)) = (take(first), take(second)) else {
                return Err(Fault::wrong(format!("no two sets {first} and {second} to join")));
            };
            let held = work.held;
            let both = a.beside(&b, ode, outer, work)?;
            work.held = held.saturating_add(both.numbers());
            drop_set(a, work);
            drop_set(b, work);
            sets[first] = Some(Rc::new(both));
        }
        let mut left = sets.into_iter().flatten();
        match (left.next(), left.next()) {
            (Some(set), None) => Ok(set),
            (None, _) => Err(Fault::wrong("nothing leads there")),
            _ => Err(Fault::wrong("several sets arrive, and are not joined")),
        }
    }
}

/// Follows all trajectories from a set of states to the end.
///
/// A vertex knows the set that its edges bring: of an accepted step what came out, of a rejected one the set that was there, with all that
/// was known near it. So a trajectory's states are in the sets along its path, each for the values of the symbols that give its input.
fn through(ode: &Ode, vertices: &[Vertex], start: Rc<Form>, work: &mut Work) -> Result<Vec<Rc<Set>>, Fault> {
    let solver = &ode.solver;
    // Symbols that other values may know as well.
    let outer = work.fresh();
    work.keep(&start);
    let mut arrivals: BTreeMap<usize, Vec<Rc<Set>>> = BTreeMap::from([(0, vec![Rc::new(Set::new(start))])]);
    let mut ends: Vec<Rc<Set>> = Vec::new();
    for (number, vertex) in vertices.iter().enumerate() {
        let within = |fault: Fault| fault.within(format!("vertex {number}"));
        let set = arrivals.remove(&number).unwrap_or_default();
        let set = vertex.meet(set, ode, outer, work).map_err(within)?;
        let held = work.held;
        let station = &vertex.station;
        let (next, error) = set.step(ode, station.place, &vertex.choices, work).map_err(within)?;
        station.check(solver, error, |target| vertices[target].station.place).map_err(within)?;
        // Of all that was made on the way, this is what stays.
        work.held = held.saturating_add(next.numbers());
        let next = Rc::new(next);
        for edge in &station.out {
            let travels = if edge.action == Action::Reject { &set } else { &next };
            let there = match edge.target {
                Some(target) => arrivals.entry(target).or_default(),
                None => &mut ends,
            };
            if !there.iter().any(|other| Rc::ptr_eq(other, travels)) {
                there.push(travels.clone());
            }
        }
        drop_set(set, work);
        drop_set(next, work);
    }
    Ok(ends)
}

/// Takes a set off what is held if nobody else needs it.
fn drop_set(set: Rc<Set>, work: &mut Work) {
    if Rc::strong_count(&set) == 1 {
        work.held = work.held.saturating_sub(set.numbers());
    }
}
