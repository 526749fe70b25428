//! A batch of series on its way through a latent ODE and its gradients on their way back: points, then the boxes around
//! them along a sampled trajectory.

use std::sync::Arc;

use rayon::prelude::*;

use super::cohort::Cohort;
use super::config::ForecastConfig;
use super::decode::Decoder;
use super::engine::Books;
use super::evaluate::{error_of, predict};
use super::loss::{Sums, Terms, loss};
use super::network::Weights;
use super::sample::{Region, Sample};
use super::tape::{Gradients, SeriesTape, ValueId};
use crate::cpu::Real;
use crate::device::{DeviceError, Pull, Tally};
use crate::engine::{BoxTerms, BoxTrip, FirstStep, JointOutcome, Look, Pass, Reference, Setting, Trip};
use crate::explore::{Rules, explore};
use crate::loss::Joint;
use crate::metrics::Latent;
use crate::random::{Purpose, seed_at};
use crate::solve::{Failure, Stepping, Visit, inference_step, solve};
use crate::threads::Threads;

/// A batch of series.
pub struct SeriesPass<'a, F: Real> {
    pub(super) weights: &'a Weights<F>,
    pub(super) samples: Vec<&'a Sample>,
    /// Which samples are computed together.
    pub(super) dealt: Vec<Vec<usize>>,
    pub(super) bounded: &'a [bool],
    pub(super) moving: &'a [bool],
    pub(super) forecast: &'a ForecastConfig,
    pub(super) setting: Setting<'a>,
    /// Whether latent states of points are drawn around their means.
    pub(super) drawn: bool,
    pub(super) books: &'a mut Books<F>,
    pub(super) threads: &'a Threads,
}

/// The parts of a batch behind the encoder.
struct Encoded<'a, F: Real> {
    tapes: Vec<SeriesTape<'a, F>>,
    latents: Vec<ValueId>,
    starts: Vec<ValueId>,
    end_times: Vec<Arc<[F]>>,
}

/// The parts of a batch behind the decoder.
struct Decoded<'a, F: Real> {
    tapes: Vec<SeriesTape<'a, F>>,
    latents: Vec<ValueId>,
    ends: Vec<ValueId>,
}

/// Points in front of the loss.
pub struct PointRun<'a, F: Real> {
    decoded: Decoded<'a, F>,
    trip: Trip,
    visits: Vec<Visit>,
    /// First step, in scaled time.
    first: f64,
}

/// Boxes in front of the loss.
pub struct BoxRun<'a, F: Real> {
    decoded: Decoded<'a, F>,
    trip: BoxTrip,
}

impl<'a, F: Real> SeriesPass<'a, F> {
    /// Observed targets of the batch.
    fn entries(&self) -> f64 {
        self.samples.iter().map(|sample| sample.observed()).sum::<usize>() as f64
    }

    /// Numbers around 0 with deviation 1, one for each latent entry of each sample.
    fn noise(&self) -> Vec<f64> {
        if !self.drawn {
            return Vec::new();
        }
        let at = self.setting.at;
        let seed = seed_at(self.setting.config.seed, Purpose::Latent, at.phase, at.epoch, at.batch);
        normal(self.samples.len() * self.weights.network.latent_width(), seed)
    }

    /// Runs the encoder; draws around the latent means if there is noise.
    fn encode(&self, region: Option<&Region>, noise: &[f64]) -> Encoded<'a, F> {
        let latent = self.weights.network.latent_width();
        let run = |members: &Vec<usize>| {
            let part = Cohort::new(&self.samples, members.clone(), region);
            let noise: Vec<F> = match noise.is_empty() {
                true => Vec::new(),
                false => {
                    let of = |member: &usize| &noise[member * latent..(member + 1) * latent];
                    members.iter().flat_map(of).map(|value| F::of(*value)).collect()
                }
            };
            let mut tape = SeriesTape::new(self.weights, region.is_some());
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

    /// The loss of what the decoder gave, times `whole`, and its way back; adds to the gradient in the order of the parts.
    fn finish(&mut self, decoded: Decoded<'a, F>, whole: f64, width: f64) -> (Sums, Terms) {
        let weights = &self.forecast.loss;
        let terms = Terms {
            samples: self.samples.len() as f64,
            entries: self.entries(),
            elbo: weights.elbo,
            divergence: weights.divergence(self.setting.at.epoch),
            error: weights.error,
            whole,
            width,
        };
        let network = &self.weights.network;
        let run = |mut tape: SeriesTape<'a, F>, latent: ValueId, end: ValueId, members: &[usize]| {
            let output = tape.layers(members.len(), network.output.clone(), end, None);
            let rows: Vec<&Sample> = members.iter().map(|member| self.samples[*member]).collect();
            let (sums, on_output, on_latent) = loss(&rows, &terms, tape.value(output), tape.value(latent));
            tape.seed(output, &on_output);
            tape.seed(latent, &on_latent);
            let mut gradients = Gradients::new(network.parameters, tape.is_box());
            tape.backward(&mut gradients);
            (sums, gradients)
        };
        let Decoded { tapes, latents, ends } = decoded;
        let parts = tapes.into_par_iter().zip(latents).zip(ends).zip(&self.dealt);
        let parts: Vec<_> =
            parts.map(|(((tape, latent), end), members)| run(tape, latent, end, members)).collect();
        let mut total = Sums::default();
        for (sums, gradients) in parts {
            total.add(&sums);
            gradients.settle(&self.weights.parameters, &mut self.books.gradient);
        }
        (total, terms)
    }

    /// The sums of a batch as the trainer keeps them.
    fn tally(&self, sums: &Sums, terms: &Terms) -> Tally {
        let samples = terms.samples;
        Tally {
            cross_entropy: samples * sums.loss(terms),
            width: sums.width / terms.entries,
            samples,
            error: samples * sums.absolute / terms.entries,
            ..Tally::default()
        }
    }

    /// What a pull makes the whole loss weigh.
    fn whole(&self, pull: Pull<'_>) -> Result<f64, Failure> {
        match pull {
            Pull::CrossEntropy(each) => Ok(each * self.samples.len() as f64),
            Pull::Margins(_) => Err(unknown("a loss of margins")),
        }
    }
}

/// What latent ODEs are not trained with; configurations that ask for it are refused before.
fn unknown(what: &str) -> Failure {
    DeviceError::Failed(format!("series know no {what}")).into()
}

impl<'a, F: Real> Pass for SeriesPass<'a, F> {
    /// The series themselves are the batch's.
    type Inputs = ();
    type Points = PointRun<'a, F>;
    type Boxes = BoxRun<'a, F>;

    fn inputs(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn attack(&mut self, _inputs: &(), _reach: f64, _seed: u64) -> Result<(), Failure> {
        Err(unknown("attack"))
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.books.ledger = Default::default();
        self.books.gradient.fill(F::ZERO);
        Ok(())
    }

    fn send_points(&mut self, _inputs: &(), first: FirstStep) -> Result<PointRun<'a, F>, Failure> {
        let noise = self.noise();
        self.threads.within(|| {
            let (solver, count) = (&self.setting.config.solver, self.samples.len());
            let Encoded { mut tapes, latents, starts, end_times } = self.encode(None, &noise);
            let (mut decoder, start) = Decoder::new(&mut tapes, end_times, starts, solver.method);
            let first = match first {
                FirstStep::Given(step) => step,
                FirstStep::Rule => decoder.initial_step(solver, start, count)?,
            };
            let solution = solve(&mut decoder, &Stepping::adaptive(solver, first, count), start)?;
            let ends = decoder.state(solution.end).to_vec();
            // A step of scaled time is as long as the samples' times are on average.
            let mean = self.samples.iter().map(|sample| sample.target_time).sum::<f64>() / count as f64;
            let trip = Trip {
                steps: solution.visits.len(),
                first_steps: vec![Some((first * mean).min(1.0))],
                ..Trip::default()
            };
            let decoded = Decoded { tapes, latents, ends };
            Ok(PointRun { decoded, trip, visits: solution.visits, first })
        })
    }

    fn trip<'r>(&self, points: &'r PointRun<'a, F>) -> &'r Trip {
        &points.trip
    }

    fn reference(&self, points: &PointRun<'a, F>) -> Reference {
        Reference { visits: vec![points.visits.clone()], first: vec![points.first] }
    }

    fn return_points(&mut self, points: PointRun<'a, F>, pull: Pull<'_>) -> Result<(), Failure> {
        let whole = self.whole(pull)?;
        let (sums, terms) = self.threads.within(|| self.finish(points.decoded, whole, 0.0));
        self.books.ledger.clean = self.tally(&sums, &terms);
        let Sums { likelihood, divergence, .. } = sums;
        self.books.ledger.latent = Some(Latent { entries: terms.entries, likelihood, divergence });
        Ok(())
    }

    fn send_boxes(
        &mut self,
        _inputs: &(),
        radius: f64,
        reference: &Reference,
        rules: &Rules,
        random: &mut fastrand::Rng,
    ) -> Result<BoxRun<'a, F>, Failure> {
        let ([visits], [first]) = (&reference.visits[..], &reference.first[..]) else {
            return Err(unknown("batch without points"));
        };
        let region = Region {
            eps: radius,
            ratio: self.forecast.ratio(self.setting.at.epoch),
            bounded: self.bounded.to_vec(),
            statics: self.moving.to_vec(),
        };
        self.threads.within(|| {
            let solver = &self.setting.config.solver;
            let stepping = Stepping::adaptive(solver, *first, self.samples.len());
            let Encoded { mut tapes, latents, starts, end_times } = self.encode(Some(&region), &[]);
            let (mut decoder, start) = Decoder::new(&mut tapes, end_times, starts, solver.method);
            let found = explore(&mut decoder, &stepping, start, visits, rules, random)?;
            let ends = match found.ends.first() {
                Some(end) => decoder.state(*end).to_vec(),
                None => return Err(Failure::Diverged("no trajectory of the boxes came to an end".into())),
            };
            let trip = BoxTrip { boxes: 1, trajectories: 1, splits: found.splits, steps: found.steps };
            Ok(BoxRun { decoded: Decoded { tapes, latents, ends }, trip })
        })
    }

    fn box_trip(&self, boxes: &BoxRun<'a, F>) -> BoxTrip {
        boxes.trip
    }

    fn pull_boxes(
        &mut self,
        boxes: BoxRun<'a, F>,
        pulls: &[Pull<'_>],
        width: f64,
    ) -> Result<BoxTerms, Failure> {
        let &[pull] = pulls else { return Err(unknown("several boxes for one series")) };
        let whole = self.whole(pull)?;
        let (sums, terms) = self.threads.within(|| self.finish(boxes.decoded, whole, width));
        self.books.ledger.robust = self.tally(&sums, &terms);
        Ok(BoxTerms::default())
    }

    fn return_both(
        &mut self,
        _points: PointRun<'a, F>,
        _boxes: BoxRun<'a, F>,
        _loss: &dyn Joint,
        _width: f64,
    ) -> Result<JointOutcome, Failure> {
        Err(unknown("loss of points and boxes together"))
    }

    /// Every series by itself, in its own time. What is left without the ODE is no forecast.
    fn look(&mut self, look: Look) -> Result<(), Failure> {
        if look == Look::WithoutOde {
            return Ok(());
        }
        let solver = &self.setting.config.solver;
        let step = inference_step(solver, self.setting.steps.first().copied().unwrap_or(0.0));
        let outputs = self.threads.within(|| predict(self.weights, solver, step, &self.samples))?;
        let errors = self.samples.iter().zip(&outputs).map(|(sample, output)| error_of(sample, output));
        let error: f64 = errors.sum();
        if !error.is_finite() {
            return Err(Failure::Diverged(format!("the validation error is {error}")));
        }
        self.books.ledger.clean.error += error;
        Ok(())
    }

    fn samples(&self) -> usize {
        self.samples.len()
    }
}

/// Normally distributed numbers (Box-Muller).
fn normal(count: usize, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all = Vec::with_capacity(count + 1);
    while all.len() < count {
        // The first factor's number lies in (0, 1].
        let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
        let angle = 2.0 * std::f64::consts::PI * random.f64();
        all.extend([radius * angle.cos(), radius * angle.sin()]);
    }
    all.truncate(count);
    all
}
