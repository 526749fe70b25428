//! Whole passes and whole runs on small networks and made-up series.

use gains_core::Precision;
use gains_core::model_file::{build, read_model, write_model};
use gains_ode::{Forecaster, Observations};

use super::config::{ForecastConfig, Sizes};
use super::evaluate::{mean_absolute_error, predict};
use super::loss::Terms;
use super::network::{Network, Weights};
use super::part::{Part, deal};
use super::pass::{Job, run};
use super::sample::{Region, Sample};
use super::tape::Tape;
use super::trainer::{ForecastTrainer, Names};
use super::{ForecastCheckpoint, continues};
use crate::TrainError;
use crate::schedule::Smooth;

fn names() -> Names {
    let names = |list: &[&str]| list.iter().map(|name| name.to_string()).collect();
    Names { features: names(&["HR", "FiO2", "K"]), statics: names(&["Age", "Gender"]) }
}

fn config() -> ForecastConfig {
    ForecastConfig {
        name: "toy".into(),
        batch: 16,
        epochs: 3,
        seed: 3,
        network: Sizes {
            state: 5,
            dynamics: 6,
            dynamics_depth: 1,
            gates: 7,
            transform: 6,
            latent: 3,
            decoder: 6,
            decoder_depth: 1,
        },
        ..ForecastConfig::default()
    }
}

fn network() -> Network {
    ForecastTrainer::<f64>::network(&config(), &names()).unwrap()
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

fn job<'a>(config: &'a ForecastConfig, region: Option<Region>, noise: Vec<f64>) -> Job<'a> {
    let terms = Terms {
        samples: 0.0,
        entries: 0.0,
        elbo: 0.001,
        divergence: 0.7,
        error: 3.0,
        whole: 1.0,
        width: 0.3,
    };
    let solver = &config.solver;
    Job { solver, region, terms, robust: 0.4, q: 0.2, first_step: Some(0.3), noise, explore: 5 }
}

#[test]
fn the_whole_loss_has_the_right_gradient() {
    let (config, weights) = (config(), toy_weights(7));
    let samples = samples(9, 1);
    let batch: Vec<&Sample> = samples.iter().collect();
    let noise: Vec<f64> = (0..27).map(|i| (f64::from(i) * 1.7).sin()).collect();
    for region in [None, Some(region(0.05, 1.0)), Some(region(0.1, 0.3))] {
        let job = job(&config, region, noise.clone());
        let found = run(&weights, &batch, &job).unwrap();
        let mut checked = 0;
        for index in 0..weights.network.parameters {
            let moved = |by: f64| {
                let mut weights = weights.clone();
                weights.parameters[index] += by;
                weights.refresh();
                run(&weights, &batch, &job).unwrap().total
            };
            let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            // At a kink, the two sides differ.
            let sides = ((moved(1e-6) - found.total) / 1e-6, (found.total - moved(-1e-6)) / 1e-6);
            if (sides.0 - sides.1).abs() > 1e-3 * (1.0 + expected.abs()) {
                continue;
            }
            checked += 1;
            let got = found.gradient[index];
            assert!((got - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{index}: {got}, {expected}");
        }
        assert!(checked * 20 > weights.network.parameters * 19, "{checked}");
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
            let mut tape = Tape::new(&narrow, region.is_some());
            let together = Part::new(&batch, members.clone(), region.as_ref()).encode(&mut tape);
            for (row, member) in members.iter().enumerate() {
                let mut single = Tape::new(&narrow, region.is_some());
                let alone = Part::new(&batch, vec![*member], region.as_ref()).encode(&mut single);
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
            let mut tape = Tape::new(&weights, true);
            let boxes = Part::new(&[&sample], vec![0], Some(&region)).encode(&mut tape);
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
                let mut tape = Tape::new(&weights, false);
                let point = Part::new(&[&moved], vec![0], None).encode(&mut tape);
                for ((c, r), v) in boxes.centre.iter().zip(&boxes.radius).zip(&tape.value(point).centre) {
                    assert!((v - c).abs() <= r + 1e-12, "{v} outside {c} ± {r}");
                }
            }
        }
    }
}

#[test]
fn without_radius_a_box_is_its_point_and_the_losses_agree() {
    let (config, weights) = (config(), toy_weights(3));
    let samples = samples(9, 2);
    let batch: Vec<&Sample> = samples.iter().collect();
    let found = run(&weights, &batch, &job(&config, Some(region(1e-12, 1.0)), Vec::new())).unwrap();
    assert!((found.clean - found.robust).abs() < 1e-6 * found.clean.abs(), "{found:?}");
    assert!((found.points.absolute - found.boxes.absolute).abs() < 1e-8);
    assert_eq!((found.visits.len(), found.splits), (found.abstract_steps, 0));
    let wide = run(&weights, &batch, &job(&config, Some(region(0.1, 1.0)), Vec::new())).unwrap();
    assert!(wide.boxes.absolute > wide.points.absolute && wide.boxes.width > 0.0);
    assert!(wide.boxes.divergence >= wide.points.divergence);
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

fn provable() -> ForecastConfig {
    let mut config = config();
    config.method = super::ForecastMethod::Provable;
    config.eps = Some(Smooth::new(0.05, 1, 2));
    config.selection.from = 1;
    config
}

fn trainer<F: crate::cpu::Real>(config: ForecastConfig, threads: usize) -> ForecastTrainer<F> {
    ForecastTrainer::new(config, names(), samples(40, 10), samples(12, 11), Some(threads)).unwrap()
}

fn to_end<F: crate::cpu::Real>(trainer: &mut ForecastTrainer<F>) -> Vec<super::ForecastEpoch> {
    let mut epochs = Vec::new();
    while let Some(advance) = trainer.advance().unwrap() {
        epochs.extend(advance.epoch);
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
        second.restore(&ForecastCheckpoint::from_bytes(&bytes).unwrap()).unwrap();
        to_end(&mut second);
        let found = second.checkpoint().unwrap();
        assert_eq!(bits(&found.state.parameters), bits(&expected.state.parameters), "{stop}");
        assert_eq!(found, expected, "{stop}");
    }
    let bytes = expected.to_bytes().unwrap();
    for length in (0..bytes.len()).step_by(97) {
        assert!(ForecastCheckpoint::from_bytes(&bytes[..length]).is_err(), "{length}");
    }
}

#[test]
fn something_is_learnt_and_the_best_network_is_kept() {
    let mut config = config();
    config.epochs = 60;
    config.optimiser.rate = 0.01;
    config.selection.patience = Some(10);
    let mut trainer = trainer::<f32>(config, 2);
    let epochs = to_end(&mut trainer);
    let validation: Vec<f64> = epochs.iter().map(|epoch| epoch.validation.unwrap()).collect();
    let least = validation.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(least < 0.7 * validation[0], "{validation:?}");
    assert!(epochs.last().unwrap().mean.loss < 0.7 * epochs[0].mean.loss);
    let best = trainer.best().unwrap().clone();
    assert_eq!((best.validation, validation[best.epoch as usize]), (least, least));
    assert!(epochs.len() == 60 || epochs.len() as u32 == best.epoch + 12, "{} {}", epochs.len(), best.epoch);

    // The network in the file forecasts as the trainer did.
    let (description, tensors) = trainer.finish().unwrap();
    let network = read_model(&write_model(&description, &tensors).unwrap()).unwrap();
    let parameters = trainer.weights_of(&best);
    let rng = &mut fastrand::Rng::with_seed(11);
    let step = best.average_step;
    let mut total = 0.0;
    for i in 0..12 {
        let (series, target, mask) = observations(rng, i % 6);
        let sample = Sample::new(&parameters.network, &series, &target, &mask).unwrap();
        let ours = predict(&parameters, &trainer.config().solver, step, &[&sample]).unwrap();
        for precision in [Precision::Float32, Precision::Float64] {
            let forecaster = Forecaster::new(&network, series.target_time).unwrap();
            let forecast = forecaster.run(&series, precision).unwrap();
            for (a, b) in ours[0].iter().zip(forecast.output()) {
                assert!((f64::from(*a) - b).abs() < 1e-4, "{a} {b}");
            }
        }
        total += mean_absolute_error(&[&sample], &ours);
    }
    assert!((total / 12.0 - least).abs() < 1e-5, "{total} {least}");
}

#[test]
fn provable_training_narrows_boxes() {
    let mut config = provable();
    config.epochs = 25;
    config.eps = Some(Smooth::new(0.1, 1, 5));
    config.optimiser.rate = 0.01;
    config.selection.from = 6;
    let mut trainer = trainer::<f32>(config, 2);
    let epochs = to_end(&mut trainer);
    assert_eq!((epochs[0].mean.robust, epochs[0].eps), (0.0, 0.0));
    let (early, late) = (&epochs[6].mean, &epochs[24].mean);
    assert!(late.robust_error < early.robust_error && late.robust_error > late.error, "{early:?} {late:?}");
    assert!(trainer.best().unwrap().epoch >= 6);
    let (description, tensors) = trainer.finish().unwrap();
    assert!(build(description, &tensors, "x".into()).is_ok());
}

/// A network that does not learn is best at once; but it is not what the run is for before eps is reached.
#[test]
fn no_network_is_chosen_before_eps_is_reached() {
    let mut config = provable();
    config.epochs = 8;
    config.eps = Some(Smooth::new(0.1, 1, 5));
    config.optimiser.rate = 1e-12;
    config.selection.from = 0;
    let mut trainer = trainer::<f32>(config, 1);
    let epochs = to_end(&mut trainer);
    assert!(epochs.iter().all(|epoch| !epoch.best || epoch.eps == 0.1));
    assert!(epochs[5].best && trainer.best().unwrap().epoch >= 5, "the first that counts is the best so far");
}

#[test]
fn a_run_that_diverges_says_so_and_saves_nothing() {
    // Finite, but not in float32.
    let mut training = samples(40, 10);
    training[17].statics[0] = 1e300;
    let mut trainer =
        ForecastTrainer::<f32>::new(provable(), names(), training, Vec::new(), Some(1)).unwrap();
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
    ] {
        match ForecastConfig::from_toml(text) {
            Err(crate::ConfigError::Value(problem)) => assert_eq!(problem.key, key, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in ["task = 'forecasting'\nbach = 3", "task = 'classification'", "[loss]\nelbow = 1.0"] {
        assert!(matches!(ForecastConfig::from_toml(text), Err(crate::ConfigError::Syntax(_))), "{text}");
    }
    assert!(ForecastConfig::is_meant_by("task = 'forecasting'") && !ForecastConfig::is_meant_by("batch = 3"));
    assert_eq!(continues(&config(), &ForecastConfig { batch: 3, ..config() }).unwrap_err().key, "batch");
    assert!(continues(&config(), &ForecastConfig { epochs: 9, ..config() }).is_ok());

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
    let none: Vec<Sample> = Vec::new();
    assert!(ForecastTrainer::<f32>::new(config(), names(), none, Vec::new(), None).is_err());
}
