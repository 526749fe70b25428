//! Random, corner and attacked series against boxes, rows and the bounds of errors.

use gains_core::operator::blend::Blend;
use gains_core::{Arithmetic, Precision};
use gains_ode::{Forecaster, Observations};
use gains_testkit::Model;
use gains_testkit::latent::{self, FEATURES};
use gains_verify::limits::{Budget, Clock};
use gains_verify::property::{ErrorLimit, Tolerance};
use gains_verify::series::Perturbation;
use gains_verify::{Attack, AttackLoss, Hunt, Method, Point, Problem, Property, Reason, Region, StepForm};

use crate::perturbation::perturbation;
use crate::scene::{Scene, Way, by_methods, certify, intervals, worst_together};

/// A point of a region: random, at a corner, or mixed.
pub fn sample(region: &Region, random: &mut fastrand::Rng) -> Point {
    let kind = random.u8(0..3);
    let mut pick = |(l, u): (&f64, &f64)| {
        let corner = kind == 0 || kind == 1 && random.bool();
        match corner {
            true => [*l, *u][usize::from(random.bool())],
            false => (l + random.f64() * (u - l)).clamp(*l, *u),
        }
    };
    region.inner.iter().map(|b| b.lower.iter().zip(&b.upper).map(&mut pick).collect()).collect()
}

/// The worst that an attack finds.
fn attacked(
    scene: &Scene<'_>,
    errors: &ErrorLimit,
    attack: Attack,
    precision: Precision,
) -> Option<Observations> {
    let laid_out = scene.program(Blend::Exact);
    let problem = Problem {
        program: laid_out.program(),
        region: scene.region(Arithmetic::Real),
        // Everything is a violation, so an exhaustive attack goes on to the worst.
        property: Property::Errors(ErrorLimit { limit: 0.0, ..errors.clone() }),
        nominal: laid_out.inputs(scene.series),
        output: None,
    };
    let attack = Attack { exhaustive: true, loss: AttackLoss::Margin, ..attack };
    let found = Hunt::new(&problem, precision, Clock::start(Budget::default())).run(&attack);
    found.worst.map(|inputs| laid_out.series(scene.series, &inputs))
}

fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for method in [Method::Box, Method::Gains, Method::Tight, Method::Stepwise] {
        for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
            let (blend, form) = match arithmetic {
                Arithmetic::Real => (Blend::Exact, StepForm::Difference),
                Arithmetic::Float32 => (Blend::Products, StepForm::Independent),
            };
            ways.push(Way { method, blend, form, arithmetic });
        }
    }
    ways
}

/// Checks one network on one series; returns how many enclosures held, out of how many tried.
pub fn check(model: &Model, series: &Observations, perturbation: &Perturbation, seed: u64) -> (u32, u32) {
    let network = model.network();
    let scene = Scene::new(&network, series, perturbation);
    let mut random = fastrand::Rng::with_seed(seed);
    let region = scene.region(Arithmetic::Real);
    let mut moved = || scene.program(Blend::Exact).series(series, &sample(&region, &mut random));
    let mut points: Vec<Observations> = (0..24).map(|_| moved()).collect();
    points.push(series.clone());
    let truth: Vec<f64> = (0..FEATURES).map(|_| random.f64()).collect();
    let base = scene.forecaster.run(series, Precision::Float64).unwrap();
    let errors = ErrorLimit::new(&truth, &[true; FEATURES], base.output(), Tolerance::default()).unwrap();
    let attack = Attack { steps: 12, step_size: 0.01, seed, ..Attack::default() };
    for precision in [Precision::Float64, Precision::Float32] {
        points.extend(attacked(&scene, &errors, attack, precision));
    }
    let all: Vec<usize> = (0..FEATURES).collect();
    let (mut held, mut tried) = (0, 0);
    for way in ways() {
        tried += 1;
        let analysis = match scene.enclose(way) {
            Ok(analysis) => analysis,
            Err(Reason::Overflow { .. } | Reason::TooManyVertices { .. }) => continue,
            Err(other) => panic!("{other}"),
        };
        held += 1;
        let intervals = intervals(&analysis, &all);
        let apart = errors.worst(&intervals);
        let together = worst_together(&errors, &analysis, &intervals);
        let latent_box = &analysis.values()[scene.program(way.blend).latent()];
        let precision = match way.arithmetic {
            Arithmetic::Real => Precision::Float64,
            Arithmetic::Float32 => Precision::Float32,
        };
        for point in &points {
            let mut point = point.clone();
            precision.round(&mut point.statics);
            precision.round(&mut point.values);
            // Rounding to float32 may leave the region.
            if !scene.contains(&point, way.arithmetic) {
                continue;
            }
            let Ok(run) = scene.forecaster.run(&point, precision) else { continue };
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
            for (i, value) in run.latent().iter().enumerate() {
                let room = room * (1.0 + value.abs());
                let x = latent_box.get(i);
                assert!(x.lower - room <= *value && *value <= x.upper + room, "seed {seed} {way:?}: latent");
            }
            let error = errors.error(run.output());
            assert!(error <= apart + room && error <= together + room, "seed {seed} {way:?}: error {error}");
            if let Some(trajectory) = run.trajectory() {
                let admitted = analysis.graphs().all(|graph| graph.admits(trajectory));
                assert!(admitted, "seed {seed} {way:?}: trajectory");
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
        let perturbation = perturbation(0.05);
        let scene = Scene::new(&network, &series, &perturbation);
        let width =
            |method: Method| intervals(&scene.enclose(Way::of(method)).unwrap(), &[0, 1, 2, 3]).mean_width();
        boxes += width(Method::Box);
        linear += width(Method::Gains);
        tight += width(Method::Tight);
    }
    println!("mean widths: box {boxes:.3}, linear {linear:.3}, tight {tight:.3}");
    assert!(linear < 0.75 * boxes && tight <= 1.001 * linear);
}

/// The encoder alone does not depend on the time to predict, nor on what else is predicted.
#[test]
fn encodings_do_not_depend_on_the_target() {
    let network = latent::model(1, 1.0).network();
    let mut series = latent::series(1, 4);
    let latent = |series: &Observations| {
        let forecaster = Forecaster::new(&network, series.target_time).unwrap();
        forecaster.run(series, Precision::Float64).unwrap().latent().to_vec()
    };
    let first = latent(&series);
    series.target_time = 0.0;
    assert_eq!(first, latent(&series));
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
        let perturbation = Perturbation::of_features(network.encoder.as_ref().unwrap(), 0.3);
        let scene = Scene::new(&network, &series, &perturbation);
        let output = scene.forecaster.run(&series, Precision::Float64).unwrap().output().to_vec();
        for shift in [-1.0, 1.0] {
            let truth: Vec<f64> = output.iter().map(|o| o + shift).collect();
            let tolerance = Tolerance { relative: 0.0, absolute: 1e-4 };
            let errors = ErrorLimit::new(&truth, &[true; FEATURES], &output, tolerance).unwrap();
            let attack = Attack { steps: 60, step_size: 0.02, ..Attack::default() };
            let found = attacked(&scene, &errors, attack, Precision::Float64).unwrap();
            let found = scene.forecaster.run(&found, Precision::Float64).unwrap();
            let error = errors.error(found.output());
            for method in [Method::Gains, Method::Tight, Method::Stepwise] {
                let how = (&by_methods(&[method]), tolerance);
                let wanted = (&truth[..], &[true; FEATURES][..]);
                let certified = certify(&network, &series, wanted, &perturbation, how, Budget::default());
                let worst = certified.worst().unwrap();
                assert!(worst >= error, "{method}, seed {seed}: {worst} is below {error}");
            }
        }
    }
}
