//! Short series, times at the edge, odd numbers: bounds where there are some, reasons where there are none.

use gains_core::{Arithmetic, Interval, Precision};
use gains_ode::Observations;
use gains_testkit::latent::{self, FEATURES, STATICS};
use gains_verify::limits::Budget;
use gains_verify::property::Tolerance;
use gains_verify::series::{Allowance, Perturbation};
use gains_verify::{Attack, AttackLoss, Method, Reason, Settings, Stage, Verdict};

use crate::attacked::check;
use crate::perturbation::perturbation;
use crate::scene::{self, Certified, Scene, USUAL, by_methods};

/// The usual methods, and an attack behind them.
fn with_attack(attack: Attack) -> Settings {
    let mut settings = by_methods(&USUAL);
    settings.stages.push(Stage::Attack(Attack { loss: AttackLoss::Margin, ..attack }));
    settings
}

fn certify(series: &Observations, eps: f64, settings: &Settings) -> Certified {
    let network = latent::model(6, 0.8).network();
    let truth = [0.1, -0.4, 0.3, 0.9];
    let mask = [true, true, false, true];
    let how = (settings, Tolerance::default());
    scene::certify(&network, series, (&truth, &mask), &perturbation(eps), how, Budget::default())
}

fn overflows(certified: &Certified) -> bool {
    matches!(certified.verdict(), Verdict::Unknown(Reason::Overflow { .. }))
}

#[test]
fn short_series_and_odd_times_are_bounded() {
    for seed in 0..8 {
        let model = latent::model(seed, 1.0);
        for points in [0, 1] {
            let mut series = latent::series(seed, points);
            for target in [0.0, 0.37, series.times.last().copied().unwrap_or(1.0)] {
                series.target_time = target;
                let (held, tried) = check(&model, &series, &perturbation(0.1), seed);
                assert_eq!(held, tried, "seed {seed}, {points} points, target {target}");
            }
        }
        // Nothing observed at all, at points that are there.
        let mut series = latent::series(seed, 3);
        series.mask.fill(false);
        assert_eq!(check(&model, &series, &perturbation(0.1), seed), (8, 8));
    }
}

#[test]
fn radius_zero_proves_what_is_predicted() {
    for seed in 0..10 {
        let series = latent::series(seed, 4);
        let certified = certify(&series, 0.0, &by_methods(&USUAL));
        assert_eq!(*certified.verdict(), Verdict::Verified, "seed {seed}");
        let (truth, mask) = ([0.1, -0.4, 0.3, 0.9], [true, true, false, true]);
        let output = certified.report.output.as_ref().unwrap();
        let error = gains_ode::mean_absolute_error(output, &truth, &mask);
        let worst = certified.worst().unwrap();
        assert!(worst >= error - 1e-12 && worst < error + 1e-9, "seed {seed}: {worst} {error}");
        let (vertices, edges) = certified.report.graph.unwrap();
        assert_eq!(edges + 1, vertices, "one trajectory");
    }
}

#[test]
fn huge_values_are_unknown_for_their_size() {
    let mut series = latent::series(5, 3);
    let at = series.mask.iter().position(|&seen| seen).unwrap();
    series.values[at] = 1e30;
    let settings = by_methods(&USUAL);
    let certified = certify(&series, 0.1, &settings);
    assert!(overflows(&certified), "{:?}", certified.verdict());
    series.values[at] = 0.5;
    series.statics[0] = -1e25;
    let certified = certify(&series, 0.1, &settings);
    assert!(overflows(&certified), "{:?}", certified.verdict());
    series.statics[0] = 0.5;
    for eps in [1e30, f64::INFINITY, f64::NAN] {
        let certified = certify(&series, eps, &settings);
        assert!(overflows(&certified), "{eps}: {:?}", certified.verdict());
    }
}

/// A gate whose inputs overflow looks harmless behind its sigmoid.
#[test]
fn layers_that_overflow_are_not_hidden_by_gates() {
    let network = latent::model(6, 0.8).scale("update", 1e25).network();
    let series = latent::series(6, 3);
    let wanted = (&[0.0; FEATURES][..], &[true; FEATURES][..]);
    let settings = by_methods(&USUAL);
    let how = (&settings, Tolerance::default());
    let certified = scene::certify(&network, &series, wanted, &perturbation(0.01), how, Budget::default());
    assert!(overflows(&certified), "{:?}", certified.verdict());
}

#[test]
fn nan_is_unknown_with_its_place() {
    let base = latent::series(5, 3);
    let at = base.mask.iter().position(|&seen| seen).unwrap();
    for change in [
        &|s: &mut Observations| s.values[at] = f64::NAN,
        &|s: &mut Observations| s.statics[2] = f64::INFINITY,
        &|s: &mut Observations| s.times[0] = f64::NAN,
        &|s: &mut Observations| s.target_time = f64::NAN,
        &|s: &mut Observations| s.target_time = -0.5,
        &|s: &mut Observations| s.times.reverse(),
    ] as [&dyn Fn(&mut Observations); 6]
    {
        let mut series = base.clone();
        change(&mut series);
        let certified = certify(&series, 0.1, &with_attack(Attack::default()));
        let verdict = certified.verdict();
        assert!(matches!(verdict, Verdict::Unknown(Reason::Concrete(_))), "{verdict:?}");
        assert!(certified.worst().is_none());
    }
}

#[test]
fn lists_of_the_wrong_size_are_refused() {
    let network = latent::model(6, 0.8).network();
    let series = latent::series(6, 3);
    let settings = with_attack(Attack::default());
    let truth = [0.0; FEATURES];
    let mask = [true; FEATURES];
    let exact = vec![Allowance::EXACT; STATICS];
    let narrow = Perturbation { features: vec![Allowance::within(50.0)], statics: exact.clone() };
    let none = Perturbation { features: vec![], statics: exact };
    let stiff = Perturbation { statics: vec![], ..perturbation(0.1) };
    let run = |truth: &[f64], mask: &[bool], p: &Perturbation| {
        let how = (&settings, Tolerance::default());
        scene::certify(&network, &series, (truth, mask), p, how, Budget::default()).report.verdict
    };
    let p = perturbation(0.1);
    let sizes = [(&truth[1..], &mask[..], &p), (&truth, &mask[1..], &p)];
    let lists = [&narrow, &none, &stiff].map(|wrong| (&truth[..], &mask[..], wrong));
    for (truth, mask, p) in sizes.into_iter().chain(lists) {
        let verdict = run(truth, mask, p);
        assert!(matches!(verdict, Verdict::Unknown(Reason::InputSize { .. })), "{verdict:?}");
    }
    let nothing = run(&truth, &[false; FEATURES], &p);
    assert!(matches!(nothing, Verdict::Unknown(Reason::Concrete(_))), "{nothing:?}");
}

#[test]
fn budgets_end_with_their_reason() {
    let network = latent::model(6, 0.8).network();
    let series = latent::series(8, 8);
    let certify = |budget: Budget<'_>| {
        let wanted = (&[5.0; FEATURES][..], &[true; FEATURES][..]);
        let settings = by_methods(&USUAL);
        let how = (&settings, Tolerance::default());
        scene::certify(&network, &series, wanted, &perturbation(0.3), how, budget).report.verdict
    };
    let timeout = Some(std::time::Duration::ZERO);
    let verdict = certify(Budget { timeout, ..Budget::default() });
    assert!(matches!(verdict, Verdict::Unknown(Reason::TimeLimit { .. })), "{verdict:?}");
    let verdict = certify(Budget { interrupted: &|| true, ..Budget::default() });
    assert!(matches!(verdict, Verdict::Unknown(Reason::Interrupted)), "{verdict:?}");
    let verdict = certify(Budget { vertices: 1, ..Budget::default() });
    assert!(matches!(verdict, Verdict::Unknown(Reason::TooManyVertices { .. })), "{verdict:?}");
}

/// Witnesses lie inside the region, have the given times and mask, and are as wrong as claimed when run again.
#[test]
fn witnesses_are_inside_and_reproducible() {
    let mut falsified = 0;
    for seed in 0..40 {
        let network = latent::model(seed, 1.5).network();
        let series = latent::series(seed, 4);
        let p = perturbation(0.4);
        let scene = Scene::new(&network, &series, &p);
        let run = scene.forecaster.run(&series, Precision::Float64).unwrap();
        let truth: Vec<f64> = run.output().iter().map(|o| o + 0.05).collect();
        let mask = [true; FEATURES];
        let settings = with_attack(Attack { step_size: 0.02, steps: 60, ..Attack::default() });
        let how = (&settings, Tolerance::default());
        let certified = scene::certify(&network, &series, (&truth, &mask), &p, how, Budget::default());
        if let Some(witness) = &certified.witness {
            falsified += 1;
            assert_eq!((&witness.times, &witness.mask), (&series.times, &series.mask));
            assert!(scene.contains(witness, Arithmetic::Real));
            let again = scene.forecaster.run(witness, Precision::Float64).unwrap();
            let error = gains_ode::mean_absolute_error(again.output(), &truth, &mask);
            assert!(error >= certified.limit.unwrap(), "{error}");
            for (i, seen) in series.mask.iter().enumerate() {
                let moved = witness.values[i] - series.values[i];
                assert!(!*seen || i % FEATURES != 2 || moved == 0.0, "an exact feature moved");
                // A value out of range may move towards it.
                let (l, u) = (series.values[i].min(0.0), series.values[i].max(1.0));
                assert!(!*seen || i % FEATURES != 1 || Interval::new(l, u).contains(witness.values[i]));
            }
        } else {
            assert_ne!(certified.verdict().word(), "falsified");
        }
    }
    assert!(falsified > 10, "{falsified}");
}

/// A method alone, and all of them, agree with each other about what is proved.
#[test]
fn methods_prove_no_less_than_the_ones_before() {
    for seed in 0..20 {
        let series = latent::series(seed, 5);
        let worst = |method: Method| certify(&series, 0.02, &by_methods(&[method])).worst().unwrap();
        let (boxes, linear, tight) = (worst(Method::Box), worst(Method::Gains), worst(Method::Tight));
        assert!(
            linear <= boxes + 1e-12 && tight <= linear * 1.02 + 1e-9,
            "seed {seed}: {boxes} {linear} {tight}"
        );
    }
}
