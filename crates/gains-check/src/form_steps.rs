//! What operators make of affine forms, and one step of a Runge-Kutta method on them.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::automaton::Place;
use crate::curve::Curve;
use crate::fault::{Deadline, Fault};
use crate::form::{Form, Strip, Work};
use crate::interval::Interval;
use crate::network::{Network, Ode, Operator};
use crate::rules::{Region, image};
use crate::value::bad;

/// The form of value `index`, given those in front of it; perhaps also all values of an evaluation nearby, and which entries pass as
/// changes since then.
pub fn form(
    network: &Network,
    index: usize,
    forms: &[Rc<Form>],
    time: Interval,
    nearby: Option<(&[Rc<Form>], &[bool])>,
    work: &mut Work,
) -> Result<Form, Fault> {
    let node = &network.nodes[index];
    let arguments: Vec<&Form> = node.arguments.iter().map(|&argument| &*forms[argument]).collect();
    work.admit(arguments.iter().map(|form| form.order()).sum(), node.shape.count())?;
    let form = match (&node.operator, &arguments[..]) {
        (Operator::Affine(map), [x]) => x.affine(map, time, work)?,
        (Operator::Affine(map), _) => Form::list(&arguments)?.affine(map, time, work)?,
        (Operator::Curve(of), [x]) => {
            let nearby = nearby.map(|(near, changes)| (&*near[node.arguments[0]], &*near[index], changes));
            curve(*of, x, nearby, work)?
        }
        (Operator::Product, [x, y]) => x.product(y, work)?,
        (Operator::Maximum, [x, y]) => {
            // y + relu(x − y).
            let ahead = x.plus(-Interval::ONE, y, work)?;
            let ahead = curve(Curve::Leaky { slope: 0.0 }, &ahead, None, work)?;
            y.plus(Interval::ONE, &ahead, work)?.within(&plain(network, index, forms, work.deadline))?
        }
        (Operator::Blend, [u, new, old]) => {
            // g + u (y − g).
            let mixed = u.product(&old.plus(-Interval::ONE, new, work)?, work)?;
            new.plus(Interval::ONE, &mixed, work)?.within(&plain(network, index, forms, work.deadline))?
        }
        _ => return Err(bad("a value that has no form")),
    };
    work.keep(&form);
    Ok(form)
}

/// What intervals make of the boxes of all arguments.
fn plain(network: &Network, index: usize, forms: &[Rc<Form>], deadline: Deadline) -> Region {
    let wanted = &network.nodes[index].arguments;
    let boxes = |value: usize| if wanted.contains(&value) { forms[value].bounds.clone() } else { vec![] };
    let boxes: Vec<Region> = (0..forms.len()).map(boxes).collect();
    image(network, index, &boxes, Interval::ZERO, deadline)
}

/// A function of each entry: on its own, beside the chord; or, where flags say so, as the change since an evaluation nearby.
///
/// There f(x) − f(x') is s (x − x') for some s in [m, M], which holds all slopes between both boxes: with the middle of that, what is
/// left open is (s − middle) (x − x').
fn curve(
    of: Curve,
    x: &Form,
    nearby: Option<(&Form, &Form, &[bool])>,
    work: &mut Work,
) -> Result<Form, Fault> {
    let changes = |entry: usize| nearby.is_some_and(|(.., changes)| changes[entry]);
    let far = match nearby.filter(|(.., changes)| changes.contains(&true)) {
        Some((before, ..)) => Some(x.plus(-Interval::ONE, before, work)?),
        None => None,
    };
    let strip = |entry: usize| -> Result<Strip, Fault> {
        work.deadline.check()?;
        let here = x.bounds[entry];
        let (Some((before, ..)), Some(far), true) = (nearby, &far, changes(entry)) else {
            let slope = of.slope(here);
            return Ok(Strip { slope, rest: of.strip(here, slope), change: false });
        };
        let slopes = of.slopes(here.hull(before.bounds[entry]));
        let slope = slopes.middle();
        Ok(Strip { slope, rest: (slopes - Interval::point(slope)) * far.bounds[entry], change: true })
    };
    let strips: Vec<Strip> = (0..x.bounds.len()).map(strip).collect::<Result<_, _>>()?;
    let image = |&x: &Interval| work.deadline.check().map(|()| of.image(x));
    let image = x.bounds.iter().map(image).collect::<Result<_, _>>()?;
    x.pass(&strips, image, nearby.map(|(before, result, _)| (before, result)), work)
}

/// Remainders of slopes that are more than this share of what symbols add become symbols at once: so small that rounding, which
/// is smaller, and joined sets, which leave more, do not come near it. The program that wrote a proof may take more.
const LARGE: f64 = 1e-7;

/// States on their way, and the dynamics at these states or close to them, over the same symbols.
pub struct Set {
    /// The states.
    pub state: Rc<Form>,
    /// All values of the dynamics, in the last stage of the step that led here.
    pub near: Option<Vec<Rc<Form>>>,
}

/// What a file chooses for one step.
#[derive(Default)]
pub struct Choices {
    /// By stage and value: which entries pass as changes since the stage before.
    pub changes: BTreeMap<(usize, usize), Vec<bool>>,
    /// Weights in [−1, 1] for the lower end of δ.
    pub lower: Option<Vec<f64>>,
    /// And for the upper end.
    pub upper: Option<Vec<f64>>,
}

impl Set {
    /// States of which nothing else is known.
    pub fn new(state: Rc<Form>) -> Self {
        Self { state, near: None }
    }

    /// What it takes, in numbers.
    pub fn numbers(&self) -> usize {
        let near = self.near.iter().flatten().map(|form| form.numbers()).sum::<usize>();
        near.saturating_add(self.state.numbers())
    }

    /// Its symbols: of the states and of all that is known near them.
    fn symbols(&self) -> std::collections::BTreeSet<u64> {
        let forms = std::iter::once(&self.state).chain(self.near.iter().flatten());
        forms.flat_map(|form| form.symbols()).collect()
    }

    /// Both sets in one: a fresh symbol tells which of them a state is of, in the states and in all that is known near them. Nothing
    /// but these two knows symbols beyond `outer`.
    pub fn beside(&self, other: &Self, ode: &Ode, outer: u64, work: &mut Work) -> Result<Self, Fault> {
        let (mine, theirs) = (self.symbols(), other.symbols());
        let alone = |symbol: u64| symbol > outer && mine.contains(&symbol) != theirs.contains(&symbol);
        let side = work.fresh();
        let mut join = |a: &Form, b: &Form| -> Result<Form, Fault> {
            let form = a.beside(b, side, &alone, work)?;
            work.keep(&form);
            Ok(form)
        };
        let mut state = join(&self.state, &other.state)?;
        let near = self.near.iter().zip(&other.near);
        let near = near.map(|(a, b)| a.iter().zip(b).map(|(a, b)| join(a, b)).collect::<Result<Vec<_>, _>>());
        let mut near = near.last().transpose()?;
        if let Some(near) = &mut near {
            near[ode.dynamics.output].name(LARGE, work)?;
        }
        state.name(0.0, work)?;
        let near = near.map(|near| near.into_iter().map(Rc::new).collect());
        Ok(Self { state: Rc::new(state), near })
    }

    /// The states after the step from a place, and δ where it is looked at.
    pub fn step(
        &self,
        ode: &Ode,
        place: Place,
        choices: &Choices,
        work: &mut Work,
    ) -> Result<(Self, Option<Interval>), Fault> {
        let (tableau, dynamics) = (&ode.solver.tableau, &ode.dynamics);
        let (start, size) = ode.solver.clock(place)?;
        let tolerance = ode.solver.looks_at_errors(place);
        let count = tableau.stages_for(tolerance.is_some());
        let (mut slopes, mut near): (Vec<Rc<Form>>, _) = (Vec::new(), self.near.clone());
        for i in 0..count {
            let time = start + tableau.times[i] * size;
            let weights: Vec<Interval> = (0..i).map(|j| tableau.stage(i, j)).collect();
            let mut values = vec![weigh(Some(&self.state), size, &weights, &slopes, work)?];
            for index in 1..dynamics.nodes.len() {
                let changes = choices.changes.get(&(i, index));
                let nearby = near.as_deref().zip(changes.map(Vec::as_slice));
                if changes.is_some() && nearby.is_none() {
                    return Err(Fault::wrong("changes since an evaluation that there is not"));
                }
                let mut value = form(dynamics, index, &values, time, nearby, work)?;
                if index == dynamics.output {
                    value.name(LARGE, work)?;
                }
                values.push(Rc::new(value));
            }
            slopes.push(values[dynamics.output].clone());
            near = Some(values);
        }
        let mut state = Form::clone(&*weigh(Some(&self.state), size, &tableau.result, &slopes, work)?);
        state.name(0.0, work)?;
        let error = match tolerance {
            None => None,
            Some(tolerance) => {
                let errors = weigh(None, size, &tableau.errors, &slopes, work)?;
                let sum = errors.magnitudes(choices.lower.as_deref(), choices.upper.as_deref());
                let error = sum / Interval::point(tolerance);
                if !error.is_sound() {
                    return Err(Fault::wrong("an error that is no number"));
                }
                Some(error)
            }
        };
        Ok((Self { state: Rc::new(state), near }, error))
    }
}

/// The base plus h Σ wⱼ kⱼ.
fn weigh(
    base: Option<&Rc<Form>>,
    size: Interval,
    weights: &[Interval],
    slopes: &[Rc<Form>],
    work: &mut Work,
) -> Result<Rc<Form>, Fault> {
    let weighed = weights.iter().zip(slopes).filter(|(weight, _)| **weight != Interval::ZERO);
    let mut terms: Vec<(Interval, &Form)> =
        weighed.map(|(weight, slope)| (size * *weight, &**slope)).collect();
    terms.extend(base.map(|base| (Interval::ONE, &**base)));
    if let (Some(base), [_]) = (base, &terms[..]) {
        return Ok(base.clone());
    }
    let Some((_, first)) = terms.first() else { return Err(Fault::wrong("a sum of nothing")) };
    work.admit(terms.iter().map(|(_, form)| form.order()).sum(), first.bounds.len())?;
    let sum = Form::sum(&terms, work)?;
    work.keep(&sum);
    Ok(Rc::new(sum))
}
