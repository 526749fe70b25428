//! Latent ODEs on single series: gradients against differences, and the cases at the edge.

#![allow(clippy::unwrap_used)]

use gains_core::description::{ControlledSpec, ControllerSpec, Points, RungeKutta, SolverSpec};
use gains_core::model_file::{build, read_model, write_model};
use gains_core::{LatentOde, Network, Precision};
use gains_ode::{ForecastError, Forecaster, Observations};
use gains_testkit::latent::{self, FEATURES, STATICS};
use gains_testkit::names;

fn network(seed: u64, points: Points) -> Network {
    let mut random = fastrand::Rng::with_seed(seed);
    let sizes = LatentOde { state: 5, dynamics: (6, 2), gates: 7, transform: 8, latent: 3, decoder: (6, 2) };
    let solver = SolverSpec {
        method: RungeKutta::Dopri5,
        controller: ControllerSpec::ControlledAdaptive(ControlledSpec {
            factor: 2,
            tolerance: 0.005,
            initial_step: 0.25,
            minimum_step: 0.02,
            rejections_after_clipping: 1,
        }),
        end_time: 1.0,
    };
    let description = sizes.description(names(FEATURES), names(STATICS), points, solver);
    let tensors = latent::tensors(&description, &mut random, 1.2);
    let file = write_model(&description, &tensors).unwrap();
    assert_eq!(read_model(&file).unwrap().description, description, "what is written can be read");
    build(description, &tensors, String::new()).unwrap()
}

fn series(seed: u64, times: &[f64]) -> Observations {
    let mut random = fastrand::Rng::with_seed(seed ^ 77);
    let entries = times.len() * FEATURES;
    Observations {
        statics: (0..STATICS).map(|_| random.f64() * 2.0 - 1.0).collect(),
        times: times.to_vec(),
        values: (0..entries).map(|_| random.f64() * 2.0 - 1.0).collect(),
        mask: (0..entries).map(|i| i % FEATURES == 0 || random.bool()).collect(),
        target_time: 0.9,
    }
}

fn predict(network: &Network, series: &Observations) -> Vec<f64> {
    let forecaster = Forecaster::new(network, series.target_time).unwrap();
    forecaster.run(series, Precision::Float64).unwrap().output().to_vec()
}

#[test]
fn gradients_agree_with_differences() {
    let mut compared = 0;
    for seed in 0..20 {
        let network = network(seed, Points::All);
        let base = series(seed, &[0.0, 0.1, 0.1, 0.35, 0.5]);
        let forecaster = Forecaster::new(&network, base.target_time).unwrap();
        let run = forecaster.run(&base, Precision::Float64).unwrap();
        let cotangent: Vec<f64> = (0..FEATURES).map(|i| 1.0 - 0.6 * i as f64).collect();
        let value = |s: &Observations| {
            let run = forecaster.run(s, Precision::Float64).unwrap();
            run.output().iter().zip(&cotangent).map(|(o, c)| o * c).sum::<f64>()
        };
        let gradient = run.pull_back(&base, &cotangent).unwrap();
        let step = 1e-6;
        let mut check = |analytic: f64, change: &dyn Fn(&mut Observations, f64)| {
            let at = |by: f64| {
                let mut moved = base.clone();
                change(&mut moved, by);
                value(&moved)
            };
            let (left, right) = ((at(0.0) - at(-step)) / step, (at(step) - at(0.0)) / step);
            // Next to a kink the two sides differ.
            if (left - right).abs() < 1e-4 {
                assert!(
                    (analytic - 0.5 * (left + right)).abs() < 1e-6,
                    "seed {seed}: {analytic} {left} {right}"
                );
                compared += 1;
            }
        };
        for i in 0..STATICS {
            check(gradient.statics[i], &|s, by| s.statics[i] += by);
        }
        for i in 0..base.values.len() {
            check(gradient.values[i], &|s, by| s.values[i] += by);
        }
    }
    assert!(compared > 400, "{compared}");
}

#[test]
fn what_is_not_observed_does_not_matter() {
    let network = network(3, Points::Observed);
    let base = series(3, &[0.0, 0.2, 0.4]);
    let mut other = base.clone();
    for (value, seen) in other.values.iter_mut().zip(&base.mask) {
        if !seen {
            *value = f64::NAN;
        }
    }
    assert_eq!(predict(&network, &base), predict(&network, &other));
}

#[test]
fn empty_points_matter_only_where_the_walk_stops_at_them() {
    let base = series(4, &[0.0, 0.2, 0.4]);
    let mut more = base.clone();
    more.times.extend([0.7, 1.0]);
    more.values.resize(5 * FEATURES, 9.0);
    more.mask.resize(5 * FEATURES, false);
    let observed = network(4, Points::Observed);
    assert_eq!(predict(&observed, &base), predict(&observed, &more));
    let all = network(4, Points::All);
    assert_eq!(predict(&all, &base), predict(&observed, &base));
    assert_ne!(predict(&all, &base), predict(&all, &more));
}

#[test]
fn short_series_and_odd_times_are_predicted() {
    let network = network(5, Points::Observed);
    for times in [&[][..], &[0.0], &[0.5], &[0.3, 0.3, 0.3]] {
        let mut s = series(5, times);
        for target in [0.0, 1e-9, 0.3, 0.5, 1.0, 7.5] {
            s.target_time = target;
            assert!(predict(&network, &s).iter().all(|v| v.is_finite()), "{times:?} {target}");
        }
    }
    // At time 0 the prediction is that of the latent state itself, and the limit of small times.
    let mut s = series(5, &[0.0, 0.25]);
    s.target_time = 0.0;
    let now = predict(&network, &s);
    s.target_time = 1e-9;
    for (a, b) in now.iter().zip(predict(&network, &s)) {
        assert!((a - b).abs() < 1e-6);
    }
}

#[test]
fn faults_are_named() {
    let network = network(6, Points::Observed);
    let forecaster = Forecaster::new(&network, 0.9).unwrap();
    let base = series(6, &[0.0, 0.2]);
    let run = |change: &dyn Fn(&mut Observations)| {
        let mut s = base.clone();
        change(&mut s);
        forecaster.run(&s, Precision::Float64).err()
    };
    assert_eq!(run(&|_| {}), None);
    assert!(matches!(run(&|s| s.times.swap(0, 1)), Some(ForecastError::Times { point: 1, .. })));
    assert!(matches!(run(&|s| s.times[1] = f64::NAN), Some(ForecastError::Times { point: 1, .. })));
    assert!(matches!(run(&|s| s.values[0] = f64::NAN), Some(ForecastError::NotFinite { index: 0, .. })));
    assert!(matches!(run(&|s| s.statics[1] = f64::INFINITY), Some(ForecastError::NotFinite { .. })));
    assert!(matches!(
        run(&|s| s.statics.truncate(1)),
        Some(ForecastError::Size { found: 1, expected: 3, .. })
    ));
    assert!(matches!(run(&|s| s.mask.truncate(1)), Some(ForecastError::Size { what: "mask", .. })));
    assert!(matches!(run(&|s| s.target_time = 0.8), Some(ForecastError::Target { .. })));
    for time in [-1.0, f64::NAN, f64::INFINITY, 1e-200, 1e12] {
        assert!(Forecaster::new(&network, time).is_err(), "{time}");
    }
}

#[test]
fn float32_is_close_to_float64() {
    let network = network(7, Points::Observed);
    let s = series(7, &[0.0, 0.1, 0.2, 0.4]);
    let forecaster = Forecaster::new(&network, 0.9).unwrap();
    let single = forecaster.run(&s, Precision::Float32).unwrap();
    let double = forecaster.run(&s, Precision::Float64).unwrap();
    let mut differ = false;
    for (a, b) in single.output().iter().zip(double.output()) {
        assert!((a - b).abs() < 1e-5);
        assert_eq!(*a, f64::from(*a as f32));
        differ |= a != b;
    }
    assert!(differ);
}
