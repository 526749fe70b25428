//! The decoder: all samples of a batch are solved together, each to its own time.
//!
//! With `s = t/Tᵢ` a sample's ODE is `dz/ds = Tᵢ g(z)` from 0 to 1, whatever its time to predict Tᵢ. So one batch has
//! one step size and one decision for all samples, in scaled time, with `δ = Σ ‖e‖₁ / (B τ)`. (The authors' program
//! solves samples of equal Tᵢ together instead, mostly one or two at a time.) A network in use solves one series at a
//! time in its own time, from `h₀ = min(η, T)`; as most times are close to 1, both see nearly the same steps.

use std::sync::Arc;

use gains_core::Interval;
use gains_core::description::RungeKutta;
use gains_ode::Tableau;
use rayon::prelude::*;

use super::tape::{Matrix, SeriesTape, ValueId};
use crate::config::SolverConfig;
use crate::cpu::Real;
use crate::device::Measure;
use crate::solve::{self, Failure, Steps};

/// The parts of a batch on their way through the decoder.
pub struct Decoder<'t, 'w, F: Real> {
    tapes: &'t mut [SeriesTape<'w, F>],
    /// Tᵢ by part and row.
    end_times: Vec<Arc<[F]>>,
    /// Every state the batch has been in, by part.
    states: Vec<Vec<ValueId>>,
    method: RungeKutta,
}

/// A state of the batch.
#[derive(Clone, Copy, Debug)]
pub struct StateId(usize);

impl<'t, 'w, F: Real> Decoder<'t, 'w, F> {
    /// A batch at its start.
    pub fn new(
        tapes: &'t mut [SeriesTape<'w, F>],
        end_times: Vec<Arc<[F]>>,
        start: Vec<ValueId>,
        method: RungeKutta,
    ) -> (Self, StateId) {
        (Self { tapes, end_times, states: vec![start], method }, StateId(0))
    }

    /// The values of a state, by part.
    pub fn state(&self, id: StateId) -> &[ValueId] {
        &self.states[id.0]
    }

    fn run(
        &mut self,
        method: RungeKutta,
        from: StateId,
        step: f64,
        measured: bool,
    ) -> (Vec<ValueId>, Measure) {
        let starts = &self.states[from.0];
        let parts: Vec<(ValueId, Measure)> = self
            .tapes
            .par_iter_mut()
            .zip(starts)
            .zip(&self.end_times)
            .map(|((tape, start), times)| attempt(tape, method, *start, times, step, measured))
            .collect();
        let mut total = Measure::default();
        for (_, part) in &parts {
            total.lower += part.lower;
            total.upper += part.upper;
            total.state += part.state;
            total.slope += part.slope;
            // A NaN must not get lost.
            total.largest = if part.largest <= total.largest { total.largest } else { part.largest };
        }
        (parts.into_iter().map(|part| part.0).collect(), total)
    }

    /// The first step of a batch of so many samples, in scaled time.
    pub fn initial_step(
        &mut self,
        solver: &SolverConfig,
        from: StateId,
        samples: usize,
    ) -> Result<f64, Failure> {
        solve::initial_step(solver, samples, |method, step| Ok(self.run(method, from, step, true).1))
    }
}

impl<F: Real> Steps for Decoder<'_, '_, F> {
    type State = StateId;
    type Trial = Vec<ValueId>;

    fn attempt(
        &mut self,
        from: StateId,
        _time: f64,
        step: f64,
        measured: bool,
    ) -> Result<(Vec<ValueId>, Interval), Failure> {
        let (ends, sums) = self.run(self.method, from, step, measured);
        // `new` wants ordered ends, and NaN has no order; whoever looks at them looks for NaN first.
        Ok((ends, Interval { lower: sums.lower, upper: sums.upper }))
    }

    fn accept(&mut self, _from: StateId, trial: Vec<ValueId>) -> StateId {
        self.states.push(trial);
        StateId(self.states.len() - 1)
    }
}

/// A Runge-Kutta step, each row's slopes multiplied with its time. Boxes take it in independent form: stages know
/// nothing of each other.
pub fn attempt<F: Real>(
    tape: &mut SeriesTape<'_, F>,
    method: RungeKutta,
    from: ValueId,
    end_times: &[F],
    step: f64,
    measured: bool,
) -> (ValueId, Measure) {
    let tableau = Tableau::of(method);
    let rows = tape.value(from).rows;
    let layers = tape.weights().network.decoder.clone();
    let scale: Arc<[F]> = end_times.iter().map(|time| F::of(step) * *time).collect();
    let stages = if measured { tableau.len() } else { tableau.solution_stages() };
    let weighted = |slopes: &[ValueId], weights: &[f64]| {
        let terms = slopes.iter().zip(weights).filter(|(_, weight)| **weight != 0.0);
        terms.map(|(id, weight)| (*id, F::of(*weight))).collect::<Vec<_>>()
    };
    let mut slopes = Vec::with_capacity(stages);
    let mut last = from;
    for row in &tableau.stages[..stages] {
        if !slopes.is_empty() {
            last = tape.combine(rows, from, weighted(&slopes, row), scale.clone());
        }
        slopes.push(tape.layers(rows, layers.clone(), last, None));
    }
    let reuse = stages == tableau.len() && tableau.first_same_as_last();
    let end = match reuse {
        true => last,
        false => tape.combine(rows, from, weighted(&slopes, tableau.weights), scale.clone()),
    };
    let terms: Vec<(&Matrix<F>, F)> =
        weighted(&slopes, tableau.error).into_iter().map(|(id, w)| (tape.value(id), w)).collect();
    let (state, slope) = (tape.value(from), tape.value(slopes[0]));
    (end, measure(state, slope, &terms, &scale, end_times))
}

/// What a step tells about itself.
fn measure<F: Real>(
    state: &Matrix<F>,
    slope: &Matrix<F>,
    terms: &[(&Matrix<F>, F)],
    scale: &[F],
    end_times: &[F],
) -> Measure {
    let mut sums = Measure::default();
    let width = state.columns;
    for row in 0..state.rows {
        let (mut lower, mut upper) = (0.0, 0.0);
        for at in row * width..(row + 1) * width {
            let (mut centre, mut radius) = (F::ZERO, F::ZERO);
            for (k, weight) in terms {
                let factor = *weight * scale[row];
                centre += factor * k.centre[at];
                if k.is_box() {
                    radius += factor.abs() * k.radius[at];
                }
            }
            lower += (centre.abs() - radius).relu().wide();
            upper += (centre.abs() + radius).wide();
            sums.state += state.centre[at].abs().wide();
            sums.slope += (end_times[row] * slope.centre[at]).abs().wide();
        }
        sums.lower += lower;
        sums.upper += upper;
        sums.largest = if upper <= sums.largest { sums.largest } else { upper };
    }
    sums
}
