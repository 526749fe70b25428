//! Rows of linear bounds from the latent state back to the observations.
//!
//! A row on the state after a gated update becomes a row on the state before it and on what is observed: the new
//! state is `g + u·y − u·g`, its two products are replaced by planes ([`crate::series::product::plane`]), the
//! coefficients on `g`, `r` and `u` go through their networks, and everything that arrives at one entry of the state
//! or at one observation is added up before it is bounded. An observation enters at one stop only, so its
//! coefficients are complete there and it is bounded there, with the same result as at the end.

use gains_core::arithmetic::{TINY, analysis_error};
use gains_core::{BoxVec, Interval, RowBlock, Rows, Shape, Window, kernels};
use gains_ode::Encoding;
use gains_ode::ode_rnn::{GateTrace, StopTrace};

use crate::limits::{Clock, Reason};
use crate::series::encode::{EncoderPass, EulerPass, UpdatePass, WalkPass};
use crate::series::product::{Bound, plane};
use crate::series::stack::{At, LinePair, relax};

/// The series at which a row is least: one per row.
#[derive(Clone, Debug)]
pub struct Corner {
    /// Statics.
    pub statics: Vec<f64>,
    /// Values, row by row.
    pub values: Vec<f64>,
}

/// Rows pulled all the way.
pub(crate) struct Pulled {
    /// Certified lower bounds.
    pub lower: Vec<f64>,
    /// Where they are attained, as far as the rows know; if asked for.
    pub corners: Vec<Corner>,
}

fn flat(coefficients: Vec<f64>, length: usize) -> Rows {
    Rows::new(Window::full(Shape::flat(length)), coefficients)
}

/// The columns `from..` of rows, `width` of them.
fn columns(rows: &RowBlock, from: usize, width: usize) -> Vec<f64> {
    (0..rows.count).flat_map(|row| &rows.row(row)[from..from + width]).copied().collect()
}

/// Adds the constants and the slack of some rows to those of others.
fn book(into: &mut RowBlock, from: &RowBlock) {
    for row in 0..into.count {
        into.absorb(row, from.constant[row], from.slack[row]);
    }
}

/// Charges every row `Σ |a|·owed`.
fn charge(rows: &mut RowBlock, owed: &[f64]) {
    for row in 0..rows.count {
        let size = kernels::size(&rows.row(row)[..owed.len()], owed);
        rows.absorb(row, 0.0, size);
    }
}

/// Relaxes the second half of every row by lines of the absolute value; `at` has the values of that half.
fn pull_absolute(rows: Rows, lines: &LinePair, at: &[Option<Vec<f64>>]) -> Rows {
    let half = rows.length / 2;
    let mut second = flat(columns(&rows, half, half), half);
    let points: Vec<Option<[Vec<f64>; 1]>> = at.iter().map(|p| p.clone().map(|p| [p])).collect();
    let points: Vec<At<'_>> = points.iter().map(|p| p.as_ref().map(|p| &p[..])).collect();
    relax(&mut second, lines, &points, 0);
    let mut out = rows;
    for row in 0..out.count {
        out.row_mut(row)[half..].copy_from_slice(second.row(row));
    }
    book(&mut out, &second);
    out
}

impl EncoderPass<'_> {
    /// Pulls rows on the latent state back to the region, and bounds them there. `at` has, for every row or for
    /// none, the encoder's run at the point where the row's bound is thought to be attained.
    pub fn pull(
        &self,
        rows: &RowBlock,
        at: &[Encoding],
        corners: bool,
        clock: &Clock<'_>,
    ) -> Result<Pulled, Reason> {
        let mut on_latent = flat(vec![0.0; rows.count * 2 * rows.length], 2 * rows.length);
        for row in 0..rows.count {
            on_latent.row_mut(row)[..rows.length].copy_from_slice(rows.row(row));
        }
        book(&mut on_latent, rows);
        let latent_at: Vec<At<'_>> = at.iter().map(|e| Some(e.latent_tape.inputs())).collect();
        let state = self.latent.pull(on_latent, &latent_at, self.walk.arithmetic);
        self.walk.pull(state, at, corners, clock)
    }
}

impl WalkPass<'_> {
    /// Pulls rows on the state after the last stop so far back to the region, and bounds them there.
    pub fn pull(
        &self,
        rows: Rows,
        at: &[Encoding],
        corners: bool,
        clock: &Clock<'_>,
    ) -> Result<Pulled, Reason> {
        let width = self.encoder.width();
        let points: usize = self.stops.iter().map(|s| s.stop.point + 1).max().unwrap_or(0);
        let mut found = Vec::new();
        if corners {
            let corner = Corner { statics: Vec::new(), values: vec![0.0; points * self.encoder.features()] };
            found = vec![corner; rows.count];
        }
        let mut state = rows;
        for (index, stop) in self.stops.iter().enumerate().rev() {
            clock.check(8 * state.coefficients.len())?;
            let traces: Vec<&StopTrace> = at.iter().map(|e| &e.stops[index]).collect();
            if let Some(update) = &stop.update {
                let gates: Vec<&GateTrace> = traces.iter().filter_map(|t| t.gates.as_ref()).collect();
                let (before, seen) = self.pull_update(state, update, &gates);
                state = before;
                let features = self.encoder.features();
                let place = stop.stop.point * features..(stop.stop.point + 1) * features;
                bound_inputs(&mut state, &seen, &update.seen, |row, values| {
                    if let Some(corner) = found.get_mut(row) {
                        corner.values[place.clone()].copy_from_slice(&values);
                    }
                });
            }
            if let Some(euler) = &stop.euler {
                let tapes: Vec<At<'_>> =
                    traces.iter().map(|t| t.dynamics.as_ref().map(|tape| tape.inputs())).collect();
                state = self.pull_euler(state, euler, &tapes);
            }
        }
        let second_half = |e: &Encoding| Some(e.initial[width..].to_vec());
        let initial_at: Vec<Option<Vec<f64>>> = at.iter().map(second_half).collect();
        let state = pull_absolute(state, &self.absolute, &initial_at);
        let statics_at: Vec<At<'_>> = at.iter().map(|e| Some(e.initial_tape.inputs())).collect();
        let mut statics = self.initial.pull(state, &statics_at, self.arithmetic);
        let coefficients = statics.clone();
        statics.coefficients.fill(0.0);
        bound_inputs(&mut statics, &coefficients, &self.initial.input, |row, values| {
            if let Some(corner) = found.get_mut(row) {
                corner.statics = values;
            }
        });
        let lower = (0..statics.count)
            .map(|row| {
                let bound = statics.constant[row] - statics.slack[row];
                let bound = bound - 4.0 * f64::EPSILON * (bound.abs() + statics.slack[row]) - TINY;
                if bound.is_nan() { f64::NEG_INFINITY } else { bound }
            })
            .collect();
        Ok(Pulled { lower, corners: found })
    }

    /// `mean + h·f(mean)`: the coefficients on the mean stay, and go through `h·f` as well.
    fn pull_euler(&self, rows: Rows, pass: &EulerPass<'_>, at: &[At<'_>]) -> Rows {
        let width = self.encoder.width();
        let mut out = rows;
        charge(&mut out, &pass.owed);
        let scaled = columns(&out, 0, width).iter().map(|a| pass.step * a).collect();
        let through = pass.dynamics.pull(flat(scaled, width), at, self.arithmetic);
        book(&mut out, &through);
        let magnitude = pass.dynamics.input.magnitudes();
        let gamma = analysis_error(2);
        for row in 0..out.count {
            let size = kernels::size(through.row(row), &magnitude)
                + kernels::size(&out.row(row)[..width], &magnitude);
            out.absorb(row, 0.0, gamma * size);
            kernels::add_scaled(&mut out.row_mut(row)[..width], 1.0, through.row(row));
        }
        out
    }

    /// Rows on the state before an update, and their coefficients on what is observed.
    fn pull_update(&self, rows: Rows, pass: &UpdatePass<'_>, at: &[&GateTrace]) -> (Rows, Rows) {
        let width = self.encoder.width();
        let count = rows.count;
        let arithmetic = self.arithmetic;
        let mut out = rows;
        charge(&mut out, &pass.mixed_owed);
        let mut on_update = flat(vec![0.0; count * width], width);
        let mut on_new = flat(vec![0.0; count * 2 * width], 2 * width);
        let mut through_mix = Planes::new(&pass.update.output, width);
        for row in 0..count {
            through_mix.mixed(row, &mut out, &mut on_update, &mut on_new, pass, at.get(row).copied());
        }
        let candidate_at: Vec<Option<Vec<f64>>> =
            at.iter().map(|t| Some(t.candidate[width..].to_vec())).collect();
        let on_candidate = pull_absolute(on_new, &pass.absolute, &candidate_at);
        let tapes: Vec<At<'_>> = at.iter().map(|t| Some(t.candidate_tape.inputs())).collect();
        let mut on_shown = pass.candidate.pull(on_candidate, &tapes, arithmetic);
        charge(&mut on_shown, &pass.shown_owed);
        let mut on_reset = flat(vec![0.0; count * width], width);
        let mut through_reset = Planes::new(&pass.reset.output, width);
        for row in 0..count {
            through_reset.shown(row, &mut out, &mut on_reset, &on_shown, pass, at.get(row).copied());
        }
        let tapes: Vec<At<'_>> = at.iter().map(|t| Some(t.update_tape.inputs())).collect();
        let update = pass.update.pull(on_update, &tapes, arithmetic);
        let tapes: Vec<At<'_>> = at.iter().map(|t| Some(t.reset_tape.inputs())).collect();
        let reset = pass.reset.pull(on_reset, &tapes, arithmetic);
        for part in [&on_shown, &update, &reset] {
            book(&mut out, part);
        }
        let seen = gather(&mut out, [&on_shown, &update, &reset], pass);
        (out, seen)
    }
}

/// Adds what comes through the gates and the candidate to the coefficients on the state and on the observation.
/// What comes through the candidate at the state has gone into planes before.
fn gather(out: &mut Rows, [shown, update, reset]: [&Rows; 3], pass: &UpdatePass<'_>) -> Rows {
    let state = out.length;
    let features = pass.seen.len();
    let (y, x) = (pass.before.magnitudes(), pass.seen.magnitudes());
    let gamma = analysis_error(4);
    let mut seen = flat(columns(shown, state, features), features);
    seen.constant.resize(out.count, 0.0);
    for row in 0..out.count {
        let mut size = kernels::size(out.row(row), &y) + kernels::size(seen.row(row), &x);
        for part in [update, reset] {
            let (on_state, on_seen) = part.row(row).split_at(state);
            size += kernels::size(on_state, &y) + kernels::size(on_seen, &x);
            kernels::add_scaled(out.row_mut(row), 1.0, on_state);
            kernels::add_scaled(seen.row_mut(row), 1.0, on_seen);
        }
        out.absorb(row, 0.0, gamma * size);
    }
    seen
}

/// Planes of products with one gate.
struct Planes<'p> {
    gate: &'p BoxVec,
    width: usize,
}

impl<'p> Planes<'p> {
    fn new(gate: &'p BoxVec, width: usize) -> Self {
        Self { gate, width }
    }

    /// `g + u·y − u·g`: coefficients on the new state go to `u`, to `g` and, in place, to `y`.
    fn mixed(
        &mut self,
        row: usize,
        out: &mut Rows,
        on_gate: &mut Rows,
        on_new: &mut Rows,
        pass: &UpdatePass<'_>,
        at: Option<&GateTrace>,
    ) {
        let mut constant = 0.0;
        let half = self.width;
        for i in 0..2 * half {
            let a = out.row(row)[i];
            if a == 0.0 {
                continue;
            }
            let u = self.gate.get(i % half);
            let (g, y) = (pass.new.get(i), pass.before.get(i));
            let (with_y, with_g) =
                if a > 0.0 { (Bound::Below, Bound::Above) } else { (Bound::Above, Bound::Below) };
            let point = |value: f64| at.map(|t| (t.update[i % half], value));
            let new_value = at.map_or(0.0, |t| if i < half { t.candidate[i] } else { t.candidate[i].abs() });
            let old = plane(u, y, with_y, point(at.map_or(0.0, |t| t.before[i])));
            let new = plane(u, g, with_g, point(new_value));
            on_gate.row_mut(row)[i % half] += a * (old.x - new.x);
            on_new.row_mut(row)[i] = a * (1.0 - new.y);
            out.row_mut(row)[i] = a * old.y;
            constant += a * (old.constant - new.constant);
        }
        // The rounding of the constant is part of what rows are charged for the update.
        out.absorb(row, constant, 0.0);
    }

    /// `r·y`: coefficients on what the candidate is shown go to `r` and are added to those on `y`.
    fn shown(
        &mut self,
        row: usize,
        out: &mut Rows,
        on_gate: &mut Rows,
        on_shown: &Rows,
        pass: &UpdatePass<'_>,
        at: Option<&GateTrace>,
    ) {
        let mut constant = 0.0;
        let half = self.width;
        for i in 0..2 * half {
            let b = on_shown.row(row)[i];
            if b == 0.0 {
                continue;
            }
            let (r, y): (Interval, Interval) = (self.gate.get(i % half), pass.before.get(i));
            let side = if b > 0.0 { Bound::Below } else { Bound::Above };
            let p = plane(r, y, side, at.map(|t| (t.reset[i % half], t.before[i])));
            on_gate.row_mut(row)[i % half] += b * p.x;
            out.row_mut(row)[i] += b * p.y;
            constant += b * p.constant;
        }
        out.absorb(row, constant, 0.0);
    }
}

/// Bounds the part of rows that depends on inputs, over their box, and adds it to `rows`; tells where it is least.
fn bound_inputs(
    rows: &mut RowBlock,
    coefficients: &RowBlock,
    inputs: &BoxVec,
    mut tell: impl FnMut(usize, Vec<f64>),
) {
    let domain = inputs.centres();
    let gamma = analysis_error(inputs.len() + 2);
    for row in 0..rows.count {
        let a = coefficients.row(row);
        let (value, spread, size) = kernels::row_over_box(a, &domain.centre, &domain.radius);
        rows.absorb(row, value - spread, gamma * (size + spread) + TINY);
        let least = |i: usize| if a[i] > 0.0 { inputs.lower[i] } else { inputs.upper[i] };
        tell(row, (0..inputs.len()).map(least).collect());
    }
}
