//! The recurrent encoder of series, run on one series, and its gradient.

use std::convert::Infallible;

use gains_core::network::Tape;
use gains_core::series_encoder::Stop;
use gains_core::{Precision, SeriesEncoder};

use crate::integrate::SolveError;
use crate::observations::Observations;
use crate::solution::{heap, tape_heap};
use crate::watch::{Progress, Watch};

/// One stop of the walk: everything that was computed there.
#[derive(Clone, Debug)]
pub struct StopTrace {
    /// The stop.
    pub stop: Stop,
    /// The dynamics at the state before the Euler step, if one is taken.
    pub dynamics: Option<Tape>,
    /// The update, if something is observed.
    pub gates: Option<GateTrace>,
}

impl StopTrace {
    /// Memory held, roughly.
    fn bytes(&self) -> usize {
        let gates = |gates: &GateTrace| {
            let tapes = [&gates.update_tape, &gates.reset_tape, &gates.candidate_tape];
            let vectors = [&gates.before, &gates.update, &gates.reset, &gates.candidate];
            tapes.into_iter().map(tape_heap).sum::<usize>()
                + vectors.map(|v| heap(v.len())).iter().sum::<usize>()
        };
        size_of::<Self>() + self.dynamics.as_ref().map_or(0, tape_heap) + self.gates.as_ref().map_or(0, gates)
    }
}

/// One gated update.
#[derive(Clone, Debug)]
pub struct GateTrace {
    /// Mean and deviation before.
    pub before: Vec<f64>,
    /// Values of the update gate.
    pub update: Vec<f64>,
    /// Values of the reset gate.
    pub reset: Vec<f64>,
    /// The candidate, before the absolute value of its deviation.
    pub candidate: Vec<f64>,
    /// Tape of the update gate.
    pub update_tape: Tape,
    /// Tape of the reset gate.
    pub reset_tape: Tape,
    /// Tape of the candidate.
    pub candidate_tape: Tape,
}

/// An encoder evaluated at one series.
#[derive(Clone, Debug)]
pub struct Encoding {
    /// Tape of the first state.
    pub initial_tape: Tape,
    /// The first state, before the absolute value of its deviation.
    pub initial: Vec<f64>,
    /// The stops, in the order of the walk.
    pub stops: Vec<StopTrace>,
    /// Tape of the latent network.
    pub latent_tape: Tape,
    /// Mean and deviation of the latent state; the deviation before its absolute value.
    pub latent: Vec<f64>,
}

/// The gradient with respect to a series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesGradient {
    /// With respect to the statics.
    pub statics: Vec<f64>,
    /// With respect to the values; 0 where nothing is observed.
    pub values: Vec<f64>,
}

/// The absolute value of the second half.
fn with_absolute_deviation(state: &[f64]) -> Vec<f64> {
    let half = state.len() / 2;
    state.iter().enumerate().map(|(i, v)| if i < half { *v } else { v.abs() }).collect()
}

/// Derivative of [`with_absolute_deviation`], applied to a gradient.
fn pull_absolute_deviation(gradient: &mut [f64], state: &[f64]) {
    let half = state.len() / 2;
    for (g, v) in gradient.iter_mut().zip(state).skip(half) {
        *g *= if *v > 0.0 { 1.0 } else { -1.0 };
    }
}

impl Encoding {
    /// Walks through a series, which must have passed [`Observations::check`].
    pub fn run(encoder: &SeriesEncoder, series: &Observations, precision: Precision) -> Self {
        let Ok(encoding) = Self::walk(encoder, series, precision, |_| Ok::<(), Infallible>(()));
        encoding
    }

    /// The same within limits, asked at every stop.
    pub fn run_within(
        encoder: &SeriesEncoder,
        series: &Observations,
        precision: Precision,
        watch: &Watch<'_>,
    ) -> Result<Self, SolveError> {
        Self::walk(encoder, series, precision, |progress| watch.check(progress))
    }

    fn walk<E>(
        encoder: &SeriesEncoder,
        series: &Observations,
        precision: Precision,
        ask: impl Fn(Progress) -> Result<(), E>,
    ) -> Result<Self, E> {
        let width = encoder.width();
        let mut statics = series.statics.clone();
        precision.round(&mut statics);
        let (initial, initial_tape) = encoder.initial.evaluate(&statics, 0.0, precision);
        let mut state = with_absolute_deviation(&initial);
        let mut stops: Vec<StopTrace> = Vec::new();
        let mut bytes = 0;
        for stop in series.walk(encoder) {
            ask(Progress { time: 0.0, steps: stops.len(), bytes })?;
            let mut dynamics = None;
            if stop.step != 0.0 {
                let (slope, tape) = encoder.dynamics.evaluate(&state[..width], 0.0, precision);
                for (y, k) in state.iter_mut().zip(&slope) {
                    *y += precision.rounded(stop.step) * k;
                }
                precision.round(&mut state);
                dynamics = Some(tape);
            }
            let gates = stop.observed.then(|| {
                let mut seen = series.row(stop.point);
                precision.round(&mut seen);
                let (next, trace) = update(encoder, &state, &seen, precision);
                state = next;
                trace
            });
            let trace = StopTrace { stop, dynamics, gates };
            bytes += trace.bytes();
            stops.push(trace);
        }
        let (latent, latent_tape) = encoder.latent.evaluate(&state, 0.0, precision);
        Ok(Self { initial_tape, initial, stops, latent_tape, latent })
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        self.stops.iter().map(StopTrace::bytes).sum()
    }

    /// The latent state: the mean.
    pub fn mean(&self) -> &[f64] {
        &self.latent[..self.latent.len() / 2]
    }

    /// Gradient of `cotangent · mean` with respect to the series.
    pub fn pull_back(
        &self,
        encoder: &SeriesEncoder,
        series: &Observations,
        cotangent: &[f64],
    ) -> SeriesGradient {
        let (width, features) = (encoder.width(), encoder.features());
        let mut on_latent = cotangent.to_vec();
        on_latent.resize(self.latent.len(), 0.0);
        let mut state = encoder.latent.pull_back(&self.latent_tape, &on_latent);
        let mut values = vec![0.0; series.values.len()];
        for StopTrace { stop, dynamics, gates } in self.stops.iter().rev() {
            if let Some(gates) = gates {
                let (before, seen) = pull_update(encoder, gates, &state);
                state = before;
                let at = stop.point * features;
                for (i, g) in seen.iter().enumerate().filter(|(i, _)| series.mask[at + i]) {
                    values[at + i] += g;
                }
            }
            if let Some(tape) = dynamics {
                let through = encoder.dynamics.pull_back(tape, &state[..width]);
                for (g, t) in state.iter_mut().zip(&through) {
                    *g += stop.step * t;
                }
            }
        }
        pull_absolute_deviation(&mut state, &self.initial);
        SeriesGradient { statics: encoder.initial.pull_back(&self.initial_tape, &state), values }
    }
}

/// Two vectors, one after the other.
fn joined(a: &[f64], b: &[f64]) -> Vec<f64> {
    [a, b].concat()
}

fn update(
    encoder: &SeriesEncoder,
    state: &[f64],
    seen: &[f64],
    precision: Precision,
) -> (Vec<f64>, GateTrace) {
    let width = encoder.width();
    let all = joined(state, seen);
    let (update, update_tape) = encoder.update.evaluate(&all, 0.0, precision);
    let (reset, reset_tape) = encoder.reset.evaluate(&all, 0.0, precision);
    let mut shown: Vec<f64> = state.iter().enumerate().map(|(i, v)| v * reset[i % width]).collect();
    precision.round(&mut shown);
    let (candidate, candidate_tape) = encoder.candidate.evaluate(&joined(&shown, seen), 0.0, precision);
    let new = with_absolute_deviation(&candidate);
    let mix = |i: usize| (1.0 - update[i % width]) * new[i] + update[i % width] * state[i];
    let mut next: Vec<f64> = (0..2 * width).map(mix).collect();
    precision.round(&mut next);
    let before = state.to_vec();
    (next, GateTrace { before, update, reset, candidate, update_tape, reset_tape, candidate_tape })
}

/// Gradients with respect to the state before an update and to what was observed.
fn pull_update(encoder: &SeriesEncoder, trace: &GateTrace, gradient: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let width = encoder.width();
    let new = with_absolute_deviation(&trace.candidate);
    let (mut on_update, mut on_reset) = (vec![0.0; width], vec![0.0; width]);
    let mut on_candidate = vec![0.0; 2 * width];
    let mut on_all = vec![0.0; 2 * width + encoder.features()];
    for (i, g) in gradient.iter().enumerate() {
        let u = trace.update[i % width];
        on_update[i % width] += g * (trace.before[i] - new[i]);
        on_candidate[i] = g * (1.0 - u);
        on_all[i] = g * u;
    }
    pull_absolute_deviation(&mut on_candidate, &trace.candidate);
    let on_shown = encoder.candidate.pull_back(&trace.candidate_tape, &on_candidate);
    for (i, g) in on_shown.iter().enumerate() {
        if i < 2 * width {
            on_reset[i % width] += g * trace.before[i];
            on_all[i] += g * trace.reset[i % width];
        } else {
            on_all[i] += g;
        }
    }
    for through in [
        encoder.update.pull_back(&trace.update_tape, &on_update),
        encoder.reset.pull_back(&trace.reset_tape, &on_reset),
    ] {
        on_all.iter_mut().zip(&through).for_each(|(a, t)| *a += t);
    }
    let seen = on_all.split_off(2 * width);
    (on_all, seen)
}
