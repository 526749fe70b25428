//! The loss of a batch and its gradient: points, then the boxes around them along a sampled trajectory.

use rayon::prelude::*;

use super::decode::Decoder;
use super::loss::{Sums, Terms, loss};
use super::network::Weights;
use super::part::{PARTS, Part, deal};
use super::sample::{Region, Sample};
use super::tape::{Gradients, Tape, ValueId};
use crate::config::SolverConfig;
use crate::cpu::Real;
use crate::explore::{Rules, explore};
use crate::solve::{Failure, Stepping, Visit, solve};

/// What is done with a batch.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The decoder's solver; its end time is that of scaled time.
    pub solver: &'a SolverConfig,
    /// The boxes, if any.
    pub region: Option<Region>,
    /// Weights of the loss; `samples`, `entries` and `whole` are filled in.
    pub terms: Terms,
    /// Part of the loss that is the boxes'.
    pub robust: f64,
    /// q of the sampled trajectory.
    pub q: f64,
    /// First step in scaled time; by the rule for training if none.
    pub first_step: Option<f64>,
    /// Numbers around 0 with deviation 1, one for each latent entry of each sample; none to take the means.
    pub noise: Vec<f64>,
    /// Seed of the sampled trajectory.
    pub explore: u64,
}

/// What became of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome<F> {
    /// Gradient of all parameters.
    pub gradient: Vec<F>,
    /// The points' loss, before its weight.
    pub clean: f64,
    /// The boxes' loss, before its weight.
    pub robust: f64,
    /// What was minimised.
    pub total: f64,
    /// Sums over the points.
    pub points: Sums,
    /// Sums over the boxes.
    pub boxes: Sums,
    /// Observed targets.
    pub entries: usize,
    /// First step, in scaled time.
    pub initial_step: f64,
    /// Trial steps of the points.
    pub visits: Vec<Visit>,
    /// Trial steps of the boxes.
    pub abstract_steps: usize,
    /// Box steps at which the trajectory split.
    pub splits: usize,
}

/// The parts of a batch behind the encoder.
struct Encoded<'w, F: Real> {
    tapes: Vec<Tape<'w, F>>,
    latents: Vec<ValueId>,
    starts: Vec<ValueId>,
    end_times: Vec<std::sync::Arc<[F]>>,
}

/// Samples of a batch, and how they are divided.
struct Batch<'a, 'w, F: Real> {
    weights: &'w Weights<F>,
    samples: &'a [&'a Sample],
    dealt: Vec<Vec<usize>>,
}

impl<'w, F: Real> Batch<'_, 'w, F> {
    fn encode(&self, region: Option<&Region>, noise: &[f64]) -> Encoded<'w, F> {
        let latent = self.weights.network.latent_width();
        let run = |members: &Vec<usize>| {
            let part = Part::new(self.samples, members.clone(), region);
            let noise: Vec<F> = match noise.is_empty() {
                true => Vec::new(),
                false => {
                    let of = |member: &usize| &noise[member * latent..(member + 1) * latent];
                    members.iter().flat_map(of).map(|value| F::of(*value)).collect()
                }
            };
            let mut tape = Tape::new(self.weights, region.is_some());
            let end_times = part.end_times.clone();
            let latent = part.encode(&mut tape);
            let start = tape.sample(latent, noise);
            (tape, latent, start, end_times)
        };
        let parts: Vec<_> = self.dealt.par_iter().map(run).collect();
        let mut encoded =
            Encoded { tapes: Vec::new(), latents: Vec::new(), starts: Vec::new(), end_times: Vec::new() };
        for (tape, latent, start, end_times) in parts {
            encoded.tapes.push(tape);
            encoded.latents.push(latent);
            encoded.starts.push(start);
            encoded.end_times.push(end_times);
        }
        encoded
    }

    /// From the states at the end to the loss and back; adds to the gradient in the order of the parts.
    fn finish(
        &self,
        tapes: Vec<Tape<'w, F>>,
        latents: &[ValueId],
        ends: &[ValueId],
        terms: &Terms,
        gradient: &mut [F],
    ) -> Sums {
        let network = &self.weights.network;
        let run = |mut tape: Tape<'w, F>, latent: ValueId, end: ValueId, members: &[usize]| {
            let output = tape.layers(members.len(), network.output.clone(), end, None);
            let rows: Vec<&Sample> = members.iter().map(|member| self.samples[*member]).collect();
            let (sums, on_output, on_latent) = loss(&rows, terms, tape.value(output), tape.value(latent));
            tape.seed(output, &on_output);
            tape.seed(latent, &on_latent);
            let mut gradients = Gradients::new(network.parameters, tape.is_box());
            tape.backward(&mut gradients);
            (sums, gradients)
        };
        let parts = tapes.into_par_iter().zip(latents).zip(ends).zip(&self.dealt);
        let parts: Vec<_> =
            parts.map(|(((tape, latent), end), members)| run(tape, *latent, *end, members)).collect();
        let mut total = Sums::default();
        for (sums, gradients) in parts {
            total.add(&sums);
            gradients.settle(&self.weights.parameters, gradient);
        }
        total
    }
}

/// The loss of a batch and its gradient.
pub fn run<F: Real>(weights: &Weights<F>, samples: &[&Sample], job: &Job<'_>) -> Result<Outcome<F>, Failure> {
    let batch = Batch { weights, samples, dealt: deal(samples, PARTS) };
    let entries: usize = samples.iter().map(|sample| sample.observed()).sum();
    let mut outcome =
        Outcome { gradient: vec![F::ZERO; weights.network.parameters], entries, ..Outcome::default() };
    let robust = if job.region.is_some() { job.robust } else { 0.0 };
    let terms =
        Terms { samples: samples.len() as f64, entries: entries as f64, whole: 1.0 - robust, ..job.terms };

    let Encoded { mut tapes, latents, starts, end_times } = batch.encode(None, &job.noise);
    let (mut decoder, start) = Decoder::new(&mut tapes, end_times, starts, job.solver.method);
    outcome.initial_step = match job.first_step {
        Some(step) => step,
        None => decoder.initial_step(job.solver, start, samples.len())?,
    };
    let stepping = Stepping::controlled(job.solver, outcome.initial_step, samples.len());
    let solution = solve(&mut decoder, &stepping, start)?;
    let ends = decoder.state(solution.end).to_vec();
    outcome.visits = solution.visits;
    outcome.points = batch.finish(tapes, &latents, &ends, &terms, &mut outcome.gradient);
    outcome.clean = outcome.points.loss(&terms);
    outcome.total = (1.0 - robust) * outcome.clean;

    if let Some(region) = &job.region {
        let terms = Terms { whole: robust, ..terms };
        let Encoded { mut tapes, latents, starts, end_times } = batch.encode(Some(region), &[]);
        let (mut decoder, start) = Decoder::new(&mut tapes, end_times, starts, job.solver.method);
        let rules = Rules { trajectories: 1, q: job.q, include_reference: false };
        let mut random = fastrand::Rng::with_seed(job.explore);
        let found = explore(&mut decoder, &stepping, start, &outcome.visits, &rules, &mut random)?;
        let ends = match found.ends.first() {
            Some(end) => decoder.state(*end).to_vec(),
            None => return Err(Failure::Diverged("no trajectory of the boxes came to an end".into())),
        };
        (outcome.abstract_steps, outcome.splits) = (found.steps, found.splits);
        outcome.boxes = batch.finish(tapes, &latents, &ends, &terms, &mut outcome.gradient);
        outcome.robust = outcome.boxes.loss(&terms);
        outcome.total += robust * outcome.robust + terms.width * outcome.boxes.width / terms.entries;
    }
    Ok(outcome)
}
