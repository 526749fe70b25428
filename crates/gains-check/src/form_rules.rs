//! What operators make of affine forms.

use std::rc::Rc;

use crate::curve::Curve;
use crate::fault::{Deadline, Fault};
use crate::form::{Form, Strip, Work};
use crate::interval::Interval;
use crate::network::{Network, Operator};
use crate::rules::{Region, image};
use crate::value::bad;

/// Which entries of a value pass as changes since an evaluation nearby, and the values of that.
#[derive(Clone, Copy)]
pub struct Nearby<'a> {
    /// All its values.
    pub values: &'a [Rc<Form>],
    /// A flag for each entry.
    pub changes: &'a [bool],
}

/// The form of value `index`, given those in front of it.
pub fn form(
    network: &Network,
    index: usize,
    forms: &[Rc<Form>],
    time: Interval,
    nearby: Option<Nearby>,
    work: &mut Work,
) -> Result<Form, Fault> {
    let node = &network.nodes[index];
    let arguments: Vec<&Form> = node.arguments.iter().map(|&argument| &*forms[argument]).collect();
    work.admit(arguments.iter().map(|form| form.order()).sum(), node.shape.count())?;
    let deadline = work.deadline;
    let sum = |a: &Form, b: &Form, factor| Form::sum(&[(Interval::ONE, a), (factor, b)], deadline);
    let form = match (&node.operator, &arguments[..]) {
        (Operator::Affine(map), [x]) => x.affine(map, time, work.deadline)?,
        (Operator::Affine(map), _) => Form::list(&arguments)?.affine(map, time, work.deadline)?,
        (Operator::Curve(of), [x]) => {
            let nearby =
                nearby.map(|near| (&*near.values[node.arguments[0]], &*near.values[index], near.changes));
            curve(*of, x, nearby, work)?
        }
        (Operator::Product, [x, y]) => x.product(y, work)?,
        (Operator::Maximum, [x, y]) => {
            // y + relu(x − y).
            let ahead = curve(Curve::Leaky { slope: 0.0 }, &sum(x, y, -Interval::ONE)?, None, work)?;
            sum(y, &ahead, Interval::ONE)?.within(&plain(network, index, forms, work.deadline))?
        }
        (Operator::Blend, [u, new, old]) => {
            // g + u (y − g).
            let mixed = u.product(&sum(old, new, -Interval::ONE)?, work)?;
            sum(new, &mixed, Interval::ONE)?.within(&plain(network, index, forms, work.deadline))?
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
        Some((before, ..)) => {
            Some(Form::sum(&[(Interval::ONE, x), (-Interval::ONE, before)], work.deadline)?)
        }
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
