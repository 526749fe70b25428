//! Bounding rows on the outputs by everything an analysis has.

use std::sync::Arc;

use gains_core::program::{Flight, Way};
use gains_core::{BoxVec, Known, Operator, RowBlock, Rows, Step, Support};

use super::steering::BySlope;
use super::{Analysis, Points, Steered};
use crate::front::{Front, Subject, corner};
use crate::groups::Groups;
use crate::limits::Reason;
use crate::method::Variant;
use crate::property::ErrorLimit;

/// Certified lower bounds of rows on the outputs.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The best bound of each row.
    pub lower: Vec<f64>,
    /// Bounds by slope variant, rows pulled all the way to the input.
    pub variants: Vec<(Variant, Vec<f64>)>,
    /// Bounds from the rows at the end of the last ODE block, over its final box.
    pub at_end: Option<Vec<f64>>,
}

/// Rounds of gradient ascent for the row with the lowest bound.
const POLISH: usize = 20;

/// Raises bounds to better ones.
fn raise(best: &mut [f64], candidate: &[f64]) {
    for (best, new) in best.iter_mut().zip(candidate) {
        *best = best.max(*new);
    }
}

/// Whether rows pass an operator as they are, whatever its arguments can be.
fn is_linear(operator: &Operator) -> bool {
    matches!(operator, Operator::Affine(_) | Operator::Sum(_) | Operator::Concat(_) | Operator::Slice(_))
}

impl Analysis<'_> {
    /// Certified lower bounds of rows on the outputs over the whole region.
    pub fn bound(&self, rows: &Rows) -> Result<Bounds, Reason> {
        let mut lower = rows.lower_bounds(self.output());
        let finals = self.finals();
        if self.recipe.boxes && self.has_boxes() && rows.count > 0 {
            raise(&mut lower, &self.folded(rows));
        }
        if let Some(symbolic) = &self.symbolic {
            raise(&mut lower, &symbolic.lower_bounds(rows));
        }
        if finals.is_empty() || rows.count == 0 {
            return Ok(Bounds { lower, variants: Vec::new(), at_end: None });
        }
        let mut at_end: Option<Vec<f64>> = None;
        let mut on_the_way = vec![f64::NEG_INFINITY; rows.count];
        // Rows at the start of the first ODE block: the last that are seen.
        let mut at_start: Option<(Flight, Groups)> = None;
        let mut latest: Vec<Vec<f64>> = Vec::new();
        let steered = Steered { stop_there: self.recurrent, ..Steered::default() };
        let visit = |flight: &Flight, groups: &Groups| {
            at_start = (self.recipe.polish && !self.recurrent).then(|| (flight.clone(), groups.clone()));
            latest = groups.by_variant(flight, &self.over_inputs(flight), finals.len());
            at_end.get_or_insert_with(|| latest[0].clone());
            for bounds in &latest {
                raise(&mut on_the_way, bounds);
            }
        };
        let (pulled, groups) =
            self.pull_steered(self.program.output(), rows.clone(), finals, visit, steered)?;
        if self.recipe.boxes {
            raise(&mut lower, &on_the_way);
        } else {
            lower.fill(f64::NEG_INFINITY);
        }
        if self.recurrent {
            let bounds = groups.by_variant(&pulled, &self.over_inputs(&pulled), finals.len());
            self.bound_front(pulled, &groups, &bounds, &mut lower)?;
            return Ok(Bounds { lower, variants: Vec::new(), at_end });
        }
        let bounds = self.over_inputs(&pulled);
        let variants: Vec<_> =
            finals.iter().copied().zip(groups.by_variant(&pulled, &bounds, finals.len())).collect();
        for (_, bounds) in &variants {
            raise(&mut lower, bounds);
        }
        if let Some((flight, groups)) = at_start {
            self.polish(&flight, &groups, &variants, &mut lower)?;
        }
        Ok(Bounds { lower, variants, at_end })
    }

    /// Whether every value has a box: affine forms alone have only that of the outputs.
    pub(super) fn has_boxes(&self) -> bool {
        self.known.len() == self.program.values() - self.program.inputs().len()
    }

    /// Bounds by boxes alone, of rows taken back through everything linear at the end of the program: a box of the
    /// outputs has forgotten what they have in common.
    fn folded(&self, rows: &Rows) -> Vec<f64> {
        self.over_inputs(&self.fold(rows))
    }

    /// The rows on values that non-linear nodes make, and on inputs.
    pub(super) fn fold(&self, rows: &Rows) -> Flight {
        let program = self.program;
        let inputs = program.inputs().len();
        let arithmetic = self.arithmetic;
        let mut flight = Flight::new(program.values(), program.output(), rows.clone());
        let mut known = vec![Known::Nothing; program.values() - inputs];
        let mut magnitudes = vec![Vec::new(); program.values()];
        for (value, node) in program.nodes().rev() {
            let Step::Plain(operator) = &node.operator else { continue };
            if flight.on(value).is_none() || !is_linear(operator) {
                continue;
            }
            let arguments: Vec<&BoxVec> = node.from.iter().map(|&v| &self.values[v]).collect();
            let image = operator.image(&arguments, 0.0, arithmetic, true);
            let on = Support::full(program.shape(value));
            known[value - inputs] = operator.known(&arguments, &image.magnitude, on, 0.0, arithmetic);
            for &argument in node.from.iter().filter(|v| self.uses[**v] > 1) {
                magnitudes[argument] = self.values[argument].magnitudes();
            }
            let way = Way { known: &known, magnitudes: &magnitudes, ..self.way() };
            let mut steering = BySlope { lines: &[], inputs, arithmetic, slopes: Vec::new() };
            flight.pass(program, value, operator, &way, &mut steering);
        }
        flight
    }

    /// How final rows pass. Behind a recurrent encoder the other forms bring nothing that would be worth their time.
    pub(super) fn finals(&self) -> &'static [Variant] {
        let all = self.recipe.finals;
        if self.recurrent { &all[..all.len().min(4)] } else { all }
    }

    /// Certified intervals of some outputs.
    pub fn intervals(&self, outputs: &[usize]) -> Result<BoxVec, Reason> {
        let bounds = self.bound(&Rows::units(self.program.output_shape(), outputs))?.lower;
        let (lower, upper) = bounds.split_at(outputs.len());
        let mut found = BoxVec::new(lower.to_vec(), upper.iter().map(|u| -u).collect());
        for (i, &output) in outputs.iter().enumerate() {
            found.lower[i] = found.lower[i].max(self.output().lower[output]);
            found.upper[i] = found.upper[i].min(self.output().upper[output]);
        }
        Ok(found)
    }

    /// An upper bound of an error from one row for all outputs together, given intervals of those that count.
    pub fn worst_together(&self, errors: &ErrorLimit, intervals: &BoxVec) -> Result<f64, Reason> {
        let together = errors.together(intervals);
        let row = Rows::new(Support::full(self.program.output_shape()), together.row.clone());
        let lower = self.bound(&row)?.lower.first().copied().unwrap_or(f64::NEG_INFINITY);
        Ok(errors.worst_together(&together, lower))
    }

    /// Takes the best variant of every row on through a recurrent encoder; a second time, where that is wanted, with the
    /// lines and planes that are best where the bound is attained.
    fn bound_front(
        &self,
        mut flight: Flight,
        groups: &Groups,
        bounds: &[Vec<f64>],
        lower: &mut [f64],
    ) -> Result<(), Reason> {
        let best = |row: usize| {
            (0..bounds.len()).max_by(|a, b| bounds[*a][row].total_cmp(&bounds[*b][row])).unwrap_or(0)
        };
        let chosen: Vec<usize> = (0..lower.len()).map(|row| groups.row_of(&flight, row, best(row))).collect();
        flight.select(&chosen);
        for bounds in bounds {
            raise(lower, bounds);
        }
        let start = (0..self.program.values()).rev().find(|&value| flight.on(value).is_some());
        let Some(start) = start else { return Ok(()) };
        let mut first = flight.clone();
        self.pull_front(&mut first, start, &Points::default())?;
        raise(lower, &self.over_inputs(&first));
        if self.recipe.polish
            && let Some(points) = self.points_of(&first, start)
        {
            drop(first);
            self.pull_front(&mut flight, start, &points)?;
            raise(lower, &self.over_inputs(&flight));
        }
        Ok(())
    }

    /// Where rows on the inputs are least, for every row.
    fn points_of(&self, flight: &Flight, start: usize) -> Option<Points> {
        let corners = self.region().iter().enumerate().map(|(v, region)| {
            (0..flight.count()).flat_map(|row| corner(flight.on(v), row, region)).collect()
        });
        Points::run(self.program, start, flight.count(), corners.collect())
    }

    /// Improves the slopes in front of the first ODE block for the row with the lowest bound, until it is no
    /// longer the lowest or nothing more comes of it.
    fn polish(
        &self,
        at_start: &Flight,
        groups: &Groups,
        variants: &[(Variant, Vec<f64>)],
        lower: &mut [f64],
    ) -> Result<(), Reason> {
        let Some(front) = Front::new(&self.enclosed()) else { return Ok(()) };
        let lowest = (0..lower.len()).min_by(|a, b| lower[*a].total_cmp(&lower[*b]));
        let Some(row) = lowest else { return Ok(()) };
        let best = (0..variants.len()).max_by(|a, b| variants[*a].1[row].total_cmp(&variants[*b].1[row]));
        let Some(best) = best else { return Ok(()) };
        // What else is in flight beside the ODE block would be missing from the bound.
        let Some(rows) = at_start.only(front.output) else { return Ok(()) };
        let row_block: RowBlock = rows.select(&[groups.row_of(at_start, row, best)]).into_full();
        let bounds = front.whole_region();
        let subject = Subject {
            row: Arc::new(row_block),
            bounds: &bounds,
            constraints: &[],
            dual: front.first_dual(variants[best].0.stack),
        };
        for solved in front.optimise(&[subject], POLISH, false, &self.clock)? {
            lower[row] = lower[row].max(solved.bound);
        }
        Ok(())
    }
}
