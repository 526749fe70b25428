//! Whole passes and whole runs on small networks and made-up series.

use gains_core::Precision;
use gains_core::model_file::{build, read_model, write_model};
use gains_ode::{Forecaster, Observations};

use super::cohort::{Cohort, deal};
use super::config::{Names, Ratio, Sizes};
use super::engine::{SeriesEngine, network as network_of};
use super::evaluate::{error_of, predict};
use super::network::{Network, Weights};
use super::sample::{Region, Sample};
use super::tape::SeriesTape;
use crate::config::{Config, Training};
use crate::cpu::Real;
use crate::device::{Ledger, Pull};
use crate::engine::{Engine, FirstStep, Pass, Setting};
use crate::explore::Rules;
use crate::metrics::{EpochReport, Position};
use crate::schedule::Smooth;
use crate::{Checkpoint, TrainError, Trainer};

fn names() -> Names {
    let names = |list: &[&str]| list.iter().map(|name| name.to_string()).collect();
    Names { features: names(&["HR", "FiO2", "K"]), statics: names(&["Age", "Gender"]) }
}

fn config() -> Config {
    let mut config =
        Config::from_toml("task = 'forecasting'\nname = 'toy'\nbatch = 16\nepochs = 3\nseed = 3\n").unwrap();
    config.forecast.as_mut().unwrap().network = Sizes {
        state: 5,
        dynamics: 6,
        dynamics_depth: 1,
        gates: 7,
        transform: 6,
        latent: 3,
        decoder: 6,
        decoder_depth: 1,
    };
    config
}

fn network() -> Network {
    network_of(&config(), &names()).unwrap().1
}

pub(super) fn toy_weights(seed: u64) -> Weights<f64> {
    let network = network();
    let parameters = network.initial_parameters(seed);
    Weights::new(network, &parameters)
}

/// A damped wave whose later values follow from the earlier ones.
fn observations(rng: &mut fastrand::Rng, points: usize) -> (Observations, Vec<f64>, Vec<bool>) {
    let (phase, level) = (rng.f64() * 6.0, rng.f64());
    let value = |time: f64, feature: usize| match feature {
        1 => level,
        _ => (phase + 5.0 * time + feature as f64).sin(),
    };
    let target_time = 0.7 + 0.3 * rng.f64();
    let mut times: Vec<f64> = (0..points).map(|_| 0.6 * rng.f64()).collect();
    times.sort_by(f64::total_cmp);
    let mut mask: Vec<bool> = (0..3 * points).map(|_| rng.f64() < 0.6).collect();
    if points > 1 {
        // A point at which nothing is observed is no stop.
        mask[3..6].fill(false);
    }
    let values = (0..3 * points).map(|i| if mask[i] { value(times[i / 3], i % 3) } else { 0.0 }).collect();
    let series = Observations { statics: vec![phase.cos(), phase.sin()], times, values, mask, target_time };
    let target = (0..3).map(|feature| value(target_time, feature)).collect();
    (series, target, vec![true, rng.bool(), true])
}

fn samples(count: usize, seed: u64) -> Vec<Sample> {
    let (rng, network) = (&mut fastrand::Rng::with_seed(seed), network());
    (0..count)
        .map(|i| {
            let (series, target, mask) = observations(rng, i % 6);
            Sample::new(&network, &series, &target, &mask).unwrap()
        })
        .collect()
}

fn region(eps: f64, ratio: f64) -> Region {
    Region { eps, ratio, bounded: vec![false, true, false], statics: vec![true, false] }
}

/// A run at its perturbation from the first epoch on, whose terms are all of a size; without one, on points.
fn settled(eps: f64, ratio: f64) -> Config {
    let mut config = config();
    let phase = &mut config.phases[0];
    (phase.loss.robust, phase.loss.width) = (0.4, 0.3);
    if eps > 0.0 {
        config.method = Training::Provable;
        phase.eps = Some(Smooth::new(eps, 0, 1));
    }
    let forecast = config.forecast.as_mut().unwrap();
    forecast.ratio = vec![Ratio { from: 0, value: ratio }];
    let loss = &mut forecast.loss;
    (loss.elbo, loss.error, loss.anneal, loss.from) = (0.001, 3.0, 0.3, 0);
    config
}

/// The divergence weighs 0.7 here.
const LATER: Position = Position { phase: 0, epoch: 1, batch: 0 };

fn start<F: Real>(
    config: Config,
    training: Vec<Sample>,
    validation: Vec<Sample>,
    seed: u64,
    threads: usize,
) -> Result<Trainer<SeriesEngine<F>>, TrainError> {
    let (description, network) = network_of(&config, &names())?;
    let parameters = network.initial_parameters(seed);
    let made = (&description, network);
    let engine = SeriesEngine::new(&config, made, training, validation, Some(threads))?;
    Trainer::with(engine, config, description, &[], &parameters)
}

#[test]
fn the_whole_loss_has_the_right_gradient() {
    let all: Vec<u32> = (0..9).collect();
    for (eps, ratio) in [(0.0, 1.0), (0.05, 1.0), (0.1, 0.3)] {
        let mut trainer = start::<f64>(settled(eps, ratio), samples(9, 1), Vec::new(), 7, 1).unwrap();
        let parameters = trainer.parameters().unwrap();
        let mut at = |parameters: &[f64]| {
            trainer.set_parameters(parameters).unwrap();
            let (report, _) = trainer.pass(LATER, &all, FirstStep::Given(0.3), None).unwrap();
            assert_eq!((report.eps, report.abstract_steps > 0), (eps, eps > 0.0));
            (report.loss.total, trainer.engine.gradients().unwrap())
        };
        let (total, gradient) = at(&parameters);
        let mut checked = 0;
        for index in 0..parameters.len() {
            let mut moved = |by: f64| {
                let mut parameters = parameters.clone();
                parameters[index] += by;
                at(&parameters).0
            };
            let (more, less) = (moved(1e-6), moved(-1e-6));
            let expected = (more - less) / 2e-6;
            // At a kink, the two sides differ.
            let sides = ((more - total) / 1e-6, (total - less) / 1e-6);
            if (sides.0 - sides.1).abs() > 1e-3 * (1.0 + expected.abs()) {
                continue;
            }
            checked += 1;
            let got = gradient[index];
            assert!((got - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{index}: {got}, {expected}");
        }
        assert!(checked * 20 > parameters.len() * 19, "{checked}");
    }
}

#[test]
fn a_sample_alone_is_the_sample_in_a_batch() {
    let weights = toy_weights(2);
    let narrow = Weights::<f32>::new(network(), &weights.parameters);
    let samples = samples(11, 4);
    let batch: Vec<&Sample> = samples.iter().collect();
    for region in [None, Some(region(0.1, 1.0))] {
        for members in deal(&batch, 1) {
            let mut tape = SeriesTape::new(&narrow, region.is_some());
            let together = Cohort::new(&batch, members.clone(), region.as_ref()).encode(&mut tape);
            for (row, member) in members.iter().enumerate() {
                let mut single = SeriesTape::new(&narrow, region.is_some());
                let alone = Cohort::new(&batch, vec![*member], region.as_ref()).encode(&mut single);
                let (all, one) = (tape.value(together), single.value(alone));
                let at = row * one.columns..(row + 1) * one.columns;
                let pairs = all.centre[at.clone()].iter().zip(&one.centre);
                let radii = all.radius.iter().skip(at.start).zip(&one.radius);
                for (a, b) in pairs.chain(radii) {
                    assert!((a - b).abs() < 1e-6, "{a} {b}");
                }
            }
        }
    }
    let solver = config().solver;
    let all = predict(&narrow, &solver, 0.2, &batch).unwrap();
    for (index, sample) in batch.iter().enumerate() {
        let one = predict(&narrow, &solver, 0.2, &[sample]).unwrap();
        for (a, b) in all[index].iter().zip(&one[0]) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }
}

#[test]
fn boxes_hold_the_latent_states_of_their_series() {
    let (weights, network) = (toy_weights(8), network());
    let rng = &mut fastrand::Rng::with_seed(6);
    for ratio in [0.3, 1.0] {
        let region = region(0.2, ratio);
        for round in 0..20 {
            let (series, target, mask) = observations(rng, 1 + round % 5);
            let sample = Sample::new(&network, &series, &target, &mask).unwrap();
            let mut tape = SeriesTape::new(&weights, true);
            let boxes = Cohort::new(&[&sample], vec![0], Some(&region)).encode(&mut tape);
            let boxes = tape.value(boxes);
            for trial in 0..50 {
                let part = |rng: &mut fastrand::Rng| match trial % 2 {
                    0 => f64::from(rng.u8(0..2)),
                    _ => rng.f64(),
                };
                let mut moved = series.clone();
                for (i, value) in moved.values.iter_mut().enumerate().filter(|(i, _)| series.mask[*i]) {
                    let (low, high) = region.feature(i % 3, series.times[i / 3], *value);
                    *value = low + part(rng) * (high - low);
                }
                for (i, value) in moved.statics.iter_mut().enumerate() {
                    let (low, high) = region.fixed(i, *value);
                    *value = low + part(rng) * (high - low);
                }
                let moved = Sample::new(&network, &moved, &target, &mask).unwrap();
                let mut tape = SeriesTape::new(&weights, false);
                let point = Cohort::new(&[&moved], vec![0], None).encode(&mut tape);
                for ((c, r), v) in boxes.centre.iter().zip(&boxes.radius).zip(&tape.value(point).centre) {
                    assert!((v - c).abs() <= r + 1e-12, "{v} outside {c} ± {r}");
                }
            }
        }
    }
}

/// Points and boxes of a batch, latent states at their means, with the trial steps of both.
fn both(eps: f64) -> (Ledger, usize, usize, usize) {
    let config = settled(eps, 1.0);
    let mut trainer = start::<f64>(config.clone(), samples(9, 2), Vec::new(), 3, 1).unwrap();
    let indices: Vec<u32> = (0..9).collect();
    let (phase, steps) = (&config.phases[0], &[0.0]);
    let setting =
        Setting { config: &config, phase, at: LATER, indices: &indices, steps, early: 0.0, augment: None };
    let mut pass = trainer.engine.pass(setting).unwrap();
    pass.drawn = false;
    pass.begin().unwrap();
    let points = pass.send_points(&(), FirstStep::Given(0.3)).unwrap();
    let reference = pass.reference(&points);
    pass.return_points(points, Pull::CrossEntropy(0.6 / 9.0)).unwrap();
    let rules = Rules { trajectories: 1, q: 0.2, include_reference: false };
    let random = &mut fastrand::Rng::with_seed(5);
    let boxes = pass.send_boxes(&(), eps, &reference, &rules, random).unwrap();
    let trip = pass.box_trip(&boxes);
    pass.return_boxes(boxes, 0.4, 0.3).unwrap();
    (trainer.engine.take_ledger().unwrap(), reference.visits[0].len(), trip.steps, trip.splits)
}

#[test]
fn without_radius_a_box_is_its_point_and_the_losses_agree() {
    let (Ledger { clean, robust, .. }, visits, steps, splits) = both(1e-12);
    let size = clean.cross_entropy.abs();
    assert!((clean.cross_entropy - robust.cross_entropy).abs() < 1e-6 * size, "{clean:?} {robust:?}");
    assert!((clean.error - robust.error).abs() < 1e-8);
    assert_eq!((visits, splits), (steps, 0));
    let (Ledger { clean, robust, .. }, ..) = both(0.1);
    assert!(robust.error > clean.error && robust.width > 0.0 && robust.cross_entropy > clean.cross_entropy);
}

#[test]
fn region_keeps_ratios_in_range_and_follows_rho() {
    let early = region(0.3, 0.5);
    assert_eq!(early.feature(0, 0.6, 1.0), (1.0, 1.0));
    assert_eq!(early.feature(0, 0.5, 1.0), (0.7, 1.3));
    assert_eq!(
        (early.feature(1, 0.0, 0.9), early.feature(1, 0.0, 1.5)),
        ((0.6000000000000001, 1.0), (1.2, 1.5))
    );
    assert_eq!(early.fixed(0, 1.0), (1.0, 1.0));
    assert_eq!(
        (region(0.25, 1.0).fixed(0, 1.0), region(0.25, 1.0).fixed(1, 1.0)),
        ((0.75, 1.25), (1.0, 1.0))
    );
}

fn provable() -> Config {
    let mut config = config();
    config.method = Training::Provable;
    config.phases[0].eps = Some(Smooth::new(0.05, 1, 2));
    config.selection.as_mut().unwrap().from = 1;
    config
}

fn trainer<F: Real>(config: Config, threads: usize) -> Trainer<SeriesEngine<F>> {
    let seed = config.seed;
    start(config, samples(40, 10), samples(12, 11), seed, threads).unwrap()
}

/// Trains to the end, choosing by the validation error. Epochs, and whether each was the best so far.
fn to_end<F: Real>(trainer: &mut Trainer<SeriesEngine<F>>) -> Vec<(EpochReport, bool)> {
    let mut epochs = Vec::new();
    while let Some(advance) = trainer.advance().unwrap() {
        let Some(report) = advance.epoch else { continue };
        let patience = trainer.config().selection.unwrap().patience;
        let score = -report.evaluation.unwrap().error;
        let best = trainer.is_candidate(&report) && trainer.judge(report.epoch + 1, score, patience).unwrap();
        epochs.push((report, best));
    }
    epochs
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn an_interrupted_run_ends_with_the_same_bits_on_any_number_of_threads() {
    let mut whole = trainer::<f32>(provable(), 1);
    to_end(&mut whole);
    let expected = whole.checkpoint().unwrap();
    for stop in [1, 3, 4, 7] {
        let mut first = trainer::<f32>(provable(), 3);
        for _ in 0..stop {
            first.advance().unwrap();
        }
        let bytes = first.checkpoint().unwrap().to_bytes().unwrap();
        let mut second = trainer::<f32>(provable(), 2);
        second.restore(&Checkpoint::from_bytes(&bytes).unwrap()).unwrap();
        to_end(&mut second);
        let found = second.checkpoint().unwrap();
        assert_eq!(bits(&found.state.parameters), bits(&expected.state.parameters), "{stop}");
        assert_eq!(found, expected, "{stop}");
    }
    let bytes = expected.to_bytes().unwrap();
    for length in (0..bytes.len()).step_by(97) {
        assert!(Checkpoint::from_bytes(&bytes[..length]).is_err(), "{length}");
    }
}

#[test]
fn something_is_learnt_and_the_best_network_is_kept() {
    let mut config = config();
    config.phases[0].epochs = 60;
    config.optimiser.rate = 0.01;
    config.selection.as_mut().unwrap().patience = Some(10);
    let mut trainer = trainer::<f32>(config, 2);
    let epochs = to_end(&mut trainer);
    let validation: Vec<f64> = epochs.iter().map(|(epoch, _)| epoch.evaluation.unwrap().error).collect();
    let least = validation.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(least < 0.7 * validation[0], "{validation:?}");
    assert!(epochs.last().unwrap().0.loss < 0.7 * epochs[0].0.loss);
    let best = trainer.best().unwrap().clone();
    assert_eq!((-best.score, validation[best.epoch as usize - 1]), (least, least));
    assert!(epochs.len() == 60 || epochs.len() as u32 == best.epoch + 11, "{} {}", epochs.len(), best.epoch);

    // The network in the file forecasts as the trainer did.
    let (description, tensors) = trainer.finish().unwrap();
    assert_eq!(description.training["validation_error"].as_f64(), Some(least));
    let file = read_model(&write_model(&description, &tensors).unwrap()).unwrap();
    let weights = Weights::<f32>::new(network(), &best.parameters);
    let rng = &mut fastrand::Rng::with_seed(11);
    let step = best.average_steps[0];
    let mut total = 0.0;
    for i in 0..12 {
        let (series, target, mask) = observations(rng, i % 6);
        let sample = Sample::new(&weights.network, &series, &target, &mask).unwrap();
        let ours = predict(&weights, &trainer.config().solver, step, &[&sample]).unwrap();
        for precision in [Precision::Float32, Precision::Float64] {
            let forecaster = Forecaster::new(&file, series.target_time).unwrap();
            let forecast = forecaster.run(&series, precision).unwrap();
            for (a, b) in ours[0].iter().zip(forecast.output()) {
                assert!((f64::from(*a) - b).abs() < 1e-4, "{a} {b}");
            }
        }
        total += error_of(&sample, &ours[0]);
    }
    assert!((total / 12.0 - least).abs() < 1e-5, "{total} {least}");
}

/// Averages of the parameters are what is judged and kept.
#[test]
fn averaged_weights_are_the_network() {
    let mut config = config();
    config.optimiser.average = 0.5;
    let mut trainer = trainer::<f32>(config, 1);
    to_end(&mut trainer);
    let learned = trainer.parameters().unwrap();
    let best = trainer.best().unwrap().clone();
    assert!(best.parameters != learned && best.parameters.len() == learned.len());
    let weights = Weights::<f32>::new(network(), &best.parameters);
    let held = samples(12, 11);
    let step = crate::solve::inference_step(&trainer.config().solver, best.average_steps[0]);
    let errors = held.iter().map(|sample| {
        let output = predict(&weights, &trainer.config().solver, step, &[sample]).unwrap();
        error_of(sample, &output[0])
    });
    assert!((errors.sum::<f64>() / 12.0 + best.score).abs() < 1e-5);
}

#[test]
fn provable_training_narrows_boxes() {
    let mut config = provable();
    config.phases[0].epochs = 25;
    config.phases[0].eps = Some(Smooth::new(0.1, 1, 5));
    config.optimiser.rate = 0.01;
    config.selection.as_mut().unwrap().from = 6;
    let mut trainer = trainer::<f32>(config, 2);
    let epochs = to_end(&mut trainer);
    assert_eq!((epochs[0].0.robust, epochs[0].0.eps), (0.0, 0.0));
    let (early, late) = (&epochs[6].0, &epochs[24].0);
    assert!(late.robust_error < early.robust_error && late.robust_error > late.error, "{early:?} {late:?}");
    assert!(trainer.best().unwrap().epoch >= 7);
    let (description, tensors) = trainer.finish().unwrap();
    assert!(build(description, &tensors, "x".into()).is_ok());
}

/// A network that does not learn is best at once; but it is not what the run is for before eps is reached, whatever
/// `selection` says, and whatever it leaves unsaid.
#[test]
fn no_network_is_chosen_before_eps_is_reached() {
    let mut config = provable();
    config.phases[0].epochs = 8;
    config.phases[0].eps = Some(Smooth::new(0.1, 1, 5));
    config.optimiser.rate = 1e-12;
    config.selection.as_mut().unwrap().from = 0;
    let mut trainer = trainer::<f32>(config, 1);
    let epochs = to_end(&mut trainer);
    assert!(epochs.iter().all(|(epoch, best)| !best || epoch.eps == 0.1));
    assert!(epochs[5].1 && trainer.best().unwrap().epoch >= 6, "the first that counts is the best so far");
}

#[test]
fn a_run_that_diverges_says_so_and_saves_nothing() {
    // Finite, but not in float32.
    let mut training = samples(40, 10);
    training[17].statics[0] = 1e300;
    let mut trainer = start::<f32>(provable(), training, Vec::new(), 3, 1).unwrap();
    let error = loop {
        if let Err(error) = trainer.advance() {
            break error;
        }
    };
    assert!(matches!(error, TrainError::Diverged { .. }), "{error}");
    assert!(trainer.checkpoint().is_err() && trainer.advance().is_err());
}

#[test]
fn settings_and_series_that_make_no_sense_are_refused() {
    for (text, key) in [
        ("batch = 0", "batch"),
        ("epochs = 0", "epochs"),
        ("horizon = nan", "horizon"),
        ("method = 'provable'", "eps"),
        ("eps = { target = 0.1 }", "eps"),
        ("method = 'provable'\neps = { target = -0.1 }", "eps.target"),
        ("ratio = [{ from = 3, value = 1.0 }, { from = 2, value = 1.0 }]", "ratio"),
        ("ratio = [{ from = 3, value = 1.5 }]", "ratio[0].value"),
        ("q = { end = 0.6 }", "q.end"),
        ("[network]\nlatent = 0", "network.latent"),
        ("[solver]\nend_time = 2.0", "solver.end_time"),
        ("[optimiser]\nrate = nan", "optimiser.rate"),
        ("[loss]\nrobust = 2.0", "loss.robust"),
        ("[loss]\nwidth = nan", "loss.width"),
        ("[loss]\nanneal = 2.0", "loss.anneal"),
        ("method = 'adversarial'", "method"),
        ("records = 0", "records"),
    ] {
        match Config::from_toml(&format!("task = 'forecasting'\n{text}")) {
            Err(crate::ConfigError::Value(problem)) => assert_eq!(problem.key, key, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in [
        "task = 'forecasting'\nbach = 3",
        "task = 'classification'",
        "task = 'forecasting'\n[loss]\nelbow = 1.0",
        "task = 'forecasting'\n[[phases]]\nepochs = 1",
    ] {
        assert!(matches!(Config::from_toml(text), Err(crate::ConfigError::Syntax(_))), "{text}");
    }
    for config in [config(), provable()] {
        assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
        assert_eq!(Config::from_table(config.to_table().unwrap()).unwrap(), config);
    }

    let network = network();
    let (series, target, mask) = observations(&mut fastrand::Rng::with_seed(1), 3);
    let refused = |change: &dyn Fn(&mut Observations), mask: &[bool]| {
        let mut series = series.clone();
        change(&mut series);
        Sample::new(&network, &series, &target, mask).unwrap_err()
    };
    refused(&|series| series.statics[0] = f64::NAN, &mask);
    refused(&|series| series.times[1] = -1.0, &mask);
    refused(&|series| series.values.truncate(5), &mask);
    refused(&|_| (), &[false; 3]);
    assert!(start::<f32>(config(), Vec::new(), Vec::new(), 3, 1).is_err());
}
