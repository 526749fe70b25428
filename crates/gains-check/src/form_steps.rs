//! One step of a Runge-Kutta method on affine forms.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::fault::Fault;
use crate::form::{Form, Work};
use crate::form_rules::{Nearby, form};
use crate::interval::Interval;
use crate::network::Ode;

/// Remainders of slopes that are more than this share of what symbols add become symbols at once.
const LARGE: f64 = 1e-3;

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

    /// The states after a step of this size, and δ where there is a tolerance.
    pub fn step(
        &self,
        ode: &Ode,
        (time, size): (f64, f64),
        tolerance: Option<f64>,
        choices: &Choices,
        work: &mut Work,
    ) -> Result<(Self, Option<Interval>), Fault> {
        let (tableau, dynamics) = (&ode.solver.tableau, &ode.dynamics);
        let size = Interval::point(size);
        let count = tableau.stages_for(tolerance.is_some());
        let (mut slopes, mut near): (Vec<Rc<Form>>, _) = (Vec::new(), self.near.clone());
        for i in 0..count {
            let time = Interval::point(time) + tableau.times[i] * size;
            let weights: Vec<Interval> = (0..i).map(|j| tableau.stage(i, j)).collect();
            let mut values = vec![weigh(Some(&self.state), size, &weights, &slopes, work)?];
            for index in 1..dynamics.nodes.len() {
                let changes = choices.changes.get(&(i, index)).zip(near.as_deref());
                let nearby = changes.map(|(changes, values)| Nearby { values, changes });
                if choices.changes.contains_key(&(i, index)) && nearby.is_none() {
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
    let sum = Form::sum(&terms, work.deadline)?;
    work.keep(&sum);
    Ok(Rc::new(sum))
}
