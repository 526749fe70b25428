//! Witnesses: a point at which the property does not hold, run in interval arithmetic.

use crate::automaton::{Action, Next, Place, lost};
use crate::certificate::PropertyRow;
use crate::fault::{Deadline, Fault};
use crate::interval::Interval;
use crate::network::{Network, Ode, Operator};
use crate::proof::Question;
use crate::rules::{Region, holds, image};
use crate::steps::{Form, step};
use crate::value::{Value, fits};

/// Checks that a point is in the region and that the property certainly does not hold there.
pub fn check(question: &Question, value: &Value) -> Result<Region, Fault> {
    let fields = value.fields("inputs actions outputs")?;
    let inputs = fields.each("inputs", Value::floats)?;
    fits(&inputs, question.inputs.len(), "inputs")?;
    let mut boxes: Vec<Region> = Vec::new();
    for (point, region) in inputs.iter().zip(&question.inputs) {
        fits(point, region.len(), "the witness")?;
        let point: Region = point.iter().map(|&x| Interval::point(x)).collect();
        holds(region, &point, "the witness is not in the region")?;
        boxes.push(point);
    }
    if question.ball.as_ref().is_some_and(|ball| !ball.holds(&inputs[0])) {
        return Err(Fault::wrong("the witness is not certain to be in the ball"));
    }
    let claims = fields
        .each("actions", |actions| actions.list()?.iter().map(Action::read).collect::<Result<Vec<_>, _>>())?;
    let mut claims = claims.into_iter();
    let outputs = run(&question.network, boxes, question.deadline, &mut |ode, state| {
        let claims = claims.next().ok_or_else(|| Fault::wrong("no actions"))?;
        let (end, moves) = solve(ode, state, claims.len(), question.deadline)?;
        for (i, (action, made)) in claims.iter().zip(&moves).enumerate() {
            let leads = ode.solver.after(made.place, *action);
            if leads != ode.solver.after(made.place, made.action) {
                return Err(Fault::wrong(format!("step {i}: the action is {:?}", made.action)));
            }
        }
        if claims.len() == moves.len() { Ok(end) } else { Err(Fault::wrong("actions after the end")) }
    })?;
    let open: Vec<bool> = question.property.rows.iter().map(|row| !broken(row, &outputs)).collect();
    match question.property.condition.follows(&open) {
        true => Err(Fault::wrong("the property is not certain to be broken at the witness")),
        false => Ok(outputs),
    }
}

/// Whether a row is certainly broken: below 0 for the largest constant, or not above it where `zero` says so.
fn broken(row: &PropertyRow, outputs: &Region) -> bool {
    let constant = Interval::point(row.constant.high);
    let sum = row.coefficients.iter().zip(outputs).fold(constant, |sum, (&a, &y)| sum + a * y);
    sum.high < 0.0 || (row.zero && sum.high <= 0.0)
}

/// Runs a network on small boxes; `solve` finds the end of an ODE.
pub fn run(
    network: &Network,
    inputs: Vec<Region>,
    deadline: Deadline,
    solve: &mut dyn FnMut(&Ode, Region) -> Result<Region, Fault>,
) -> Result<Region, Fault> {
    let mut boxes = inputs;
    for (index, node) in network.nodes.iter().enumerate().skip(boxes.len()) {
        boxes.push(match &node.operator {
            Operator::Ode(ode) => {
                let state = boxes[node.arguments[0]].clone();
                solve(ode, state).map_err(|fault| fault.within(format!("value {index}")))?
            }
            _ => image(network, index, &boxes, Interval::ZERO, deadline),
        });
    }
    Ok(boxes.swap_remove(network.output))
}

/// One step of a trajectory.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Where it starts.
    pub place: Place,
    /// δ, if it is looked at.
    pub error: Option<Interval>,
    /// What the solver does.
    pub action: Action,
}

/// The only trajectory from a small box of states, of at most `limit` steps.
pub fn solve(
    ode: &Ode,
    mut state: Region,
    limit: usize,
    deadline: Deadline,
) -> Result<(Region, Vec<Move>), Fault> {
    let solver = &ode.solver;
    let (mut place, mut moves) = (solver.start(), Vec::new());
    while moves.len() < limit {
        deadline.check()?;
        let step = step(ode, Form::Independent, (place, &state), None, None, deadline)?;
        let actions = solver.actions(place, step.error).unwrap_or_default();
        let [action] = actions[..] else {
            return Err(Fault::wrong(format!("step {}: all of {actions:?} are possible", moves.len())));
        };
        moves.push(Move { place, error: step.error, action });
        if action != Action::Reject {
            state = step.result;
        }
        match solver.after(place, action) {
            Some(Next::Place(next)) => place = next,
            Some(Next::End) => return Ok((state, moves)),
            None => return Err(lost()),
        }
    }
    Err(Fault::wrong("the actions do not lead to the end"))
}
