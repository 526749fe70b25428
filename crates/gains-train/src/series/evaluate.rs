//! How well a network forecasts: every series by itself, solved as it will be in use.

use gains_core::description::SolverSpec;
use rayon::prelude::*;

use super::cohort::{Cohort, deal};
use super::decode::Decoder;
use super::network::Weights;
use super::sample::Sample;
use super::tape::{Matrix, SeriesTape};
use crate::config::SolverConfig;
use crate::cpu::Real;
use crate::solve::{Failure, Stepping, solve};

/// Samples encoded together; it shows in no result but by rounding.
const CHUNK: usize = 16;

/// Predictions, one row for each sample. The encoder sees many samples at once, which changes nothing but rounding; each
/// decoder decides about its own steps, in its own time, the first being `min(first_step, T)`.
pub fn predict<F: Real>(
    weights: &Weights<F>,
    solver: &SolverConfig,
    first_step: f64,
    samples: &[&Sample],
) -> Result<Vec<Vec<F>>, Failure> {
    let parts = deal(samples, samples.len().div_ceil(CHUNK).max(1));
    let run = |members: &Vec<usize>| {
        let part = Cohort::new(samples, members.clone(), None);
        let mut tape = SeriesTape::new(weights, false);
        let latent = part.encode(&mut tape);
        let start = tape.sample(latent, Vec::new());
        let starts = tape.value(start);
        let rows = starts.centre.chunks_exact(starts.columns);
        let decoded = members.iter().zip(rows).map(|(member, row)| {
            Ok((*member, decode(weights, solver, first_step, samples[*member].target_time, row)?))
        });
        decoded.collect::<Result<Vec<(usize, Vec<F>)>, Failure>>()
    };
    let outputs: Vec<_> = parts.par_iter().map(run).collect::<Result<_, _>>()?;
    let mut all = vec![Vec::new(); samples.len()];
    for (member, output) in outputs.into_iter().flatten() {
        all[member] = output;
    }
    Ok(all)
}

/// One latent state to its time.
fn decode<F: Real>(
    weights: &Weights<F>,
    solver: &SolverConfig,
    first_step: f64,
    time: f64,
    latent: &[F],
) -> Result<Vec<F>, Failure> {
    let mut tapes = [SeriesTape::new(weights, false)];
    let start = tapes[0].input(Matrix::points(1, latent.len(), latent.to_vec()));
    let mut end = start;
    if time > 0.0 {
        let solver = SolverConfig { end_time: time, ..solver.clone() };
        let SolverSpec { method, .. } = solver.spec(first_step);
        let stepping = Stepping::adaptive(&solver, first_step.min(time), 1);
        // In the sample's own time, nothing is scaled.
        let (mut decoder, at) = Decoder::new(&mut tapes, vec![[F::ONE].into()], vec![start], method);
        let at = solve(&mut decoder, &stepping, at)?.end;
        end = decoder.state(at)[0];
    }
    let [tape] = &mut tapes;
    let output = tape.layers(1, weights.network.output.clone(), end, None);
    Ok(tape.value(output).centre.clone())
}

/// The mean absolute error of one sample.
pub fn error_of<F: Real>(sample: &Sample, output: &[F]) -> f64 {
    let output: Vec<f64> = output.iter().map(|value| value.wide()).collect();
    gains_ode::mean_absolute_error(&output, &sample.target, &sample.target_mask)
}
