//! Random, corner and attacked series against boxes, rows and the bounds of errors.

use gains_core::{Arithmetic, BoxVec, Precision};
use gains_ode::{Encoding, Observations};
use gains_testkit::Model;
use gains_testkit::latent::{self, FEATURES};
use gains_verify::limits::{Budget, Clock};
use gains_verify::series::enclosure::Way;
use gains_verify::series::{
    Enclosure, ForecastProperty, ForecastSettings, ForecastVerifier, MixForm, Perturbation, SeriesAttack,
    SeriesMethod, SeriesRegion, Target, Tolerance,
};
use gains_verify::{Reason, StepForm};

use crate::perturbation::perturbation;

/// A point of a region: random, at a corner, or mixed.
pub fn sample(series: &Observations, region: &SeriesRegion, random: &mut fastrand::Rng) -> Observations {
    let kind = random.u8(0..3);
    let mut pick = |values: &mut [f64], allowed: &BoxVec| {
        for (i, x) in values.iter_mut().enumerate() {
            let (l, u) = (allowed.lower[i], allowed.upper[i]);
            let corner = kind == 0 || kind == 1 && random.bool();
            *x = match corner {
                true => [l, u][usize::from(random.bool())],
                false => (l + random.f64() * (u - l)).clamp(l, u),
            };
        }
    };
    let mut moved = series.clone();
    pick(&mut moved.statics, &region.statics);
    pick(&mut moved.values, &region.values);
    moved
}

fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for method in [SeriesMethod::Box, SeriesMethod::Linear, SeriesMethod::Tight, SeriesMethod::Stepwise] {
        for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
            let (mix, step_form) = match arithmetic {
                Arithmetic::Real => (MixForm::Exact, StepForm::Difference),
                Arithmetic::Float32 => (MixForm::Products, StepForm::Independent),
            };
            ways.push(Way { method, mix, step_form, arithmetic });
        }
    }
    ways
}

/// Checks one network on one series; returns how many enclosures held, out of how many tried.
pub fn check(model: &Model, series: &Observations, perturbation: &Perturbation, seed: u64) -> (u32, u32) {
    let network = model.network();
    let target = Target::new(&network, series.target_time).unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let inner = perturbation.inner_region(series);
    let mut points: Vec<Observations> = (0..24).map(|_| sample(series, &inner, &mut random)).collect();
    points.push(series.clone());
    let truth: Vec<f64> = (0..FEATURES).map(|_| random.f64()).collect();
    let base = target.forecaster.run(series, Precision::Float64).unwrap();
    let property = ForecastProperty::new(&truth, &[true; FEATURES], base.output(), Tolerance::default());
    let property = ForecastProperty { limit: f64::INFINITY, ..property.unwrap() };
    let attack = SeriesAttack { steps: 12, step_size: 0.01, restarts: 1, seed };
    for precision in [Precision::Float64, Precision::Float32] {
        let found = attack.run(&target, series, perturbation, &property, precision, &|| false);
        points.extend(found.worst);
    }
    let all: Vec<usize> = (0..FEATURES).collect();
    let (mut held, mut tried) = (0, 0);
    for way in ways() {
        tried += 1;
        let clock = Clock::start(Budget::default());
        let enclosure = match Enclosure::new(&target, series, perturbation, way, clock) {
            Ok(enclosure) => enclosure,
            Err(Reason::Overflow { .. } | Reason::TooManyVertices { .. }) => continue,
            Err(other) => panic!("{other}"),
        };
        held += 1;
        let intervals = enclosure.intervals(&all).unwrap();
        let apart = property.worst(&intervals);
        let together = property.worst_together(&enclosure, &intervals).unwrap();
        let precision = match way.arithmetic {
            Arithmetic::Real => Precision::Float64,
            Arithmetic::Float32 => Precision::Float32,
        };
        let region = perturbation.region(series, way.arithmetic);
        for point in &points {
            let mut point = point.clone();
            precision.round(&mut point.statics);
            precision.round(&mut point.values);
            // Rounding to float32 may leave the region.
            if !region.contains(&point) {
                continue;
            }
            let Ok(run) = target.forecaster.run(&point, precision) else { continue };
            // What float64 itself rounds is not what real arithmetic bounds.
            let room = if precision == Precision::Float64 { 1e-11 } else { 0.0 };
            for (i, value) in run.output().iter().enumerate() {
                let room = room * (1.0 + value.abs());
                let (l, u) = (intervals.lower[i], intervals.upper[i]);
                assert!(
                    l - room <= *value && *value <= u + room,
                    "seed {seed} {way:?}: {value} not in [{l}, {u}]"
                );
            }
            let latent = run.encoding.mean();
            for (i, value) in latent.iter().enumerate() {
                let room = room * (1.0 + value.abs());
                let x = enclosure.latent().get(i);
                assert!(x.lower - room <= *value && *value <= x.upper + room, "seed {seed} {way:?}: latent");
            }
            let error = property.error(run.output());
            assert!(error <= apart + room && error <= together + room, "seed {seed} {way:?}: error {error}");
            if let Some(solution) = run.solution() {
                assert!(enclosure.admits(&solution.trajectory), "seed {seed} {way:?}: trajectory");
            }
        }
    }
    (held, tried)
}

#[test]
fn no_series_escapes_its_bounds() {
    let (mut held, mut tried) = (0, 0);
    for seed in 0..120 {
        let model = latent::model(seed, [0.6, 1.0, 1.5, 2.5][seed as usize % 4]);
        let series = latent::series(seed, [1, 3, 6, 2][seed as usize % 4]);
        let eps = [0.3, 0.05, 0.01, 0.001][(seed / 4) as usize % 4];
        let (h, t) = check(&model, &series, &perturbation(eps), seed);
        held += h;
        tried += t;
    }
    println!("{held} of {tried} enclosures are finite");
    assert!(held * 10 > tried * 9);
}

/// Gates at 0 and 1, and intervals that span the whole sigmoid.
#[test]
fn no_series_escapes_where_gates_saturate() {
    let mut held = 0;
    for seed in 0..60 {
        let model = latent::model(seed, 1.0)
            .scale("update", 50.0)
            .scale("reset", if seed % 2 == 0 { 50.0 } else { 1.0 });
        let series = latent::series(seed, 4);
        held += check(&model, &series, &perturbation([0.2, 0.01][seed as usize % 2]), seed).0;
    }
    assert!(held > 400, "{held}");
}

/// Rows know more than boxes where what is added and what is taken off come from the same observation.
#[test]
fn rows_are_tighter_than_boxes() {
    let (mut boxes, mut linear, mut tight) = (0.0, 0.0, 0.0);
    for seed in 0..30 {
        let network = latent::model(seed, 1.0).network();
        let series = latent::series(seed, 5);
        let target = Target::new(&network, series.target_time).unwrap();
        let width = |method: SeriesMethod| {
            let clock = Clock::start(Budget::default());
            let perturbation = perturbation(0.05);
            let enclosure = Enclosure::new(&target, &series, &perturbation, Way::of(method), clock).unwrap();
            enclosure.intervals(&[0, 1, 2, 3]).unwrap().mean_width()
        };
        boxes += width(SeriesMethod::Box);
        linear += width(SeriesMethod::Linear);
        tight += width(SeriesMethod::Tight);
    }
    println!("mean widths: box {boxes:.3}, linear {linear:.3}, tight {tight:.3}");
    assert!(linear < 0.75 * boxes && tight <= 1.001 * linear);
}

/// The encoder alone does not depend on the time to predict, nor on what else is predicted.
#[test]
fn encodings_do_not_depend_on_the_target() {
    let network = latent::model(1, 1.0).network();
    let mut series = latent::series(1, 4);
    let encoder = network.encoder.as_ref().unwrap();
    let first = Encoding::run(encoder, &series, Precision::Float64).latent;
    series.target_time = 0.0;
    assert_eq!(first, Encoding::run(encoder, &series, Precision::Float64).latent);
}

#[test]
fn layers_with_windows_hold_what_is_found() {
    let (mut held, mut tried) = (0, 0);
    for seed in 0..8 {
        let series = latent::series(seed + 1, 4);
        let found = check(&latent::with_windows(seed), &series, &perturbation(0.3), seed);
        held += found.0;
        tried += found.1;
    }
    assert!(2 * held > tried, "{held} of {tried} enclosures held");
}

#[test]
fn errors_of_layers_with_windows_are_bounded() {
    for seed in [0, 1, 3, 4, 6] {
        let network = latent::with_windows(seed).network();
        let series = latent::series(seed + 1, 4);
        let target = Target::new(&network, series.target_time).unwrap();
        let output = target.forecaster.run(&series, Precision::Float64).unwrap().output().to_vec();
        let perturbation = Perturbation::of_features(network.encoder.as_ref().unwrap(), 0.3);
        for shift in [-1.0, 1.0] {
            let truth: Vec<f64> = output.iter().map(|o| o + shift).collect();
            let tolerance = Tolerance { relative: 0.0, absolute: 1e-4 };
            let property = ForecastProperty::new(&truth, &[true; FEATURES], &output, tolerance).unwrap();
            let endless = ForecastProperty { limit: f64::INFINITY, ..property };
            let attack = SeriesAttack { steps: 60, step_size: 0.02, ..SeriesAttack::default() };
            let found = attack.run(&target, &series, &perturbation, &endless, Precision::Float64, &|| false);
            for method in [SeriesMethod::Linear, SeriesMethod::Tight, SeriesMethod::Stepwise] {
                let settings =
                    ForecastSettings { methods: vec![method], tolerance, ..ForecastSettings::default() };
                let report = ForecastVerifier::new(&network).certify(
                    &series,
                    &truth,
                    &[true; FEATURES],
                    &perturbation,
                    &settings,
                    Budget::default(),
                );
                let worst = report.worst.unwrap();
                assert!(worst >= found.error, "{method}, seed {seed}: {worst} is below {}", found.error);
            }
        }
    }
}
