//! Short series, times at the edge, odd numbers: bounds where there are some, reasons where there are none.

use gains_core::Interval;
use gains_ode::Observations;
use gains_testkit::latent::{self, FEATURES, STATICS};
use gains_verify::Reason;
use gains_verify::limits::Budget;
use gains_verify::series::{
    Allowance, ForecastReport, ForecastSettings, ForecastVerdict, ForecastVerifier, Perturbation,
    SeriesAttack, SeriesMethod,
};

use crate::attacked::check;
use crate::perturbation::perturbation;

fn certify(series: &Observations, eps: f64, change: impl Fn(&mut ForecastSettings)) -> ForecastReport {
    let network = latent::model(6, 0.8).network();
    let mut settings = ForecastSettings::default();
    change(&mut settings);
    let truth = [0.1, -0.4, 0.3, 0.9];
    let mask = [true, true, false, true];
    ForecastVerifier::new(&network).certify(
        series,
        &truth,
        &mask,
        &perturbation(eps),
        &settings,
        Budget::default(),
    )
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
        let report = certify(&series, 0.0, |_| {});
        assert_eq!(report.verdict, ForecastVerdict::Verified, "seed {seed}");
        let (worst, error) = (report.worst.unwrap(), report.error.unwrap());
        assert!(worst >= error - 1e-12 && worst < error + 1e-9, "seed {seed}: {worst} {error}");
        assert_eq!(report.graph.unwrap().1 + 1, report.graph.unwrap().0, "one trajectory");
    }
}

#[test]
fn huge_values_are_unknown_for_their_size() {
    let mut series = latent::series(5, 3);
    let at = series.mask.iter().position(|&seen| seen).unwrap();
    series.values[at] = 1e30;
    let report = certify(&series, 0.1, |_| {});
    assert!(
        matches!(report.verdict, ForecastVerdict::Unknown(Reason::Overflow { .. })),
        "{:?}",
        report.verdict
    );
    series.values[at] = 0.5;
    series.statics[0] = -1e25;
    let report = certify(&series, 0.1, |_| {});
    assert!(
        matches!(report.verdict, ForecastVerdict::Unknown(Reason::Overflow { .. })),
        "{:?}",
        report.verdict
    );
    series.statics[0] = 0.5;
    for eps in [1e30, f64::INFINITY, f64::NAN] {
        let report = certify(&series, eps, |_| {});
        assert!(matches!(report.verdict, ForecastVerdict::Unknown(Reason::Overflow { .. })), "{eps}");
    }
}

/// A gate whose inputs overflow looks harmless behind its sigmoid.
#[test]
fn layers_that_overflow_are_not_hidden_by_gates() {
    let network = latent::model(6, 0.8).scale("update", 1e25).network();
    let series = latent::series(6, 3);
    let (truth, mask) = ([0.0; FEATURES], [true; FEATURES]);
    let report = ForecastVerifier::new(&network).certify(
        &series,
        &truth,
        &mask,
        &perturbation(0.01),
        &ForecastSettings::default(),
        Budget::default(),
    );
    assert!(
        matches!(report.verdict, ForecastVerdict::Unknown(Reason::Overflow { .. })),
        "{:?}",
        report.verdict
    );
}

#[test]
fn what_is_no_number_is_unknown_with_its_place() {
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
        let report = certify(&series, 0.1, |s| s.attack = Some(SeriesAttack::default()));
        assert!(
            matches!(report.verdict, ForecastVerdict::Unknown(Reason::Concrete(_))),
            "{:?}",
            report.verdict
        );
        assert!(report.worst.is_none());
    }
}

#[test]
fn lists_of_the_wrong_size_are_refused() {
    let network = latent::model(6, 0.8).network();
    let series = latent::series(6, 3);
    let verifier = ForecastVerifier::new(&network);
    let settings = ForecastSettings { attack: Some(SeriesAttack::default()), ..ForecastSettings::default() };
    let truth = [0.0; FEATURES];
    let mask = [true; FEATURES];
    let exact = vec![Allowance::EXACT; STATICS];
    let narrow = Perturbation { features: vec![Allowance::within(50.0)], statics: exact.clone() };
    let none = Perturbation { features: vec![], statics: exact };
    let stiff = Perturbation { statics: vec![], ..perturbation(0.1) };
    let run = |truth: &[f64], mask: &[bool], p: &Perturbation| {
        verifier.certify(&series, truth, mask, p, &settings, Budget::default()).verdict
    };
    let p = perturbation(0.1);
    let sizes = [(&truth[1..], &mask[..], &p), (&truth, &mask[1..], &p)];
    let lists = [&narrow, &none, &stiff].map(|wrong| (&truth[..], &mask[..], wrong));
    for (truth, mask, p) in sizes.into_iter().chain(lists) {
        let verdict = run(truth, mask, p);
        assert!(matches!(verdict, ForecastVerdict::Unknown(Reason::InputSize { .. })), "{verdict:?}");
    }
    let nothing = run(&truth, &[false; FEATURES], &p);
    assert!(matches!(nothing, ForecastVerdict::Unknown(Reason::Concrete(_))), "{nothing:?}");
}

#[test]
fn budgets_end_with_their_reason() {
    let network = latent::model(6, 0.8).network();
    let series = latent::series(8, 8);
    let certify = |budget: Budget<'_>| {
        let (truth, mask) = ([5.0; FEATURES], [true; FEATURES]);
        let settings = ForecastSettings::default();
        let p = perturbation(0.3);
        ForecastVerifier::new(&network).certify(&series, &truth, &mask, &p, &settings, budget).verdict
    };
    let timeout = Some(std::time::Duration::ZERO);
    let verdict = certify(Budget { timeout, ..Budget::default() });
    assert!(matches!(verdict, ForecastVerdict::Unknown(Reason::TimeLimit { .. })), "{verdict:?}");
    let verdict = certify(Budget { interrupted: &|| true, ..Budget::default() });
    assert!(matches!(verdict, ForecastVerdict::Unknown(Reason::Interrupted)), "{verdict:?}");
    let verdict = certify(Budget { vertices: 1, ..Budget::default() });
    assert!(matches!(verdict, ForecastVerdict::Unknown(Reason::TooManyVertices { .. })), "{verdict:?}");
}

/// Witnesses lie inside the region, have the given times and mask, and are as wrong as claimed when run again.
#[test]
fn witnesses_are_inside_and_reproducible() {
    let mut falsified = 0;
    for seed in 0..40 {
        let network = latent::model(seed, 1.5).network();
        let series = latent::series(seed, 4);
        let target = gains_verify::series::Target::new(&network, series.target_time).unwrap();
        let run = target.forecaster.run(&series, gains_core::Precision::Float64).unwrap();
        let truth: Vec<f64> = run.output().iter().map(|o| o + 0.05).collect();
        let mask = [true; FEATURES];
        let p = perturbation(0.4);
        let settings = ForecastSettings {
            attack: Some(SeriesAttack { step_size: 0.02, steps: 60, ..SeriesAttack::default() }),
            ..ForecastSettings::default()
        };
        let report =
            ForecastVerifier::new(&network).certify(&series, &truth, &mask, &p, &settings, Budget::default());
        if let ForecastVerdict::Falsified { witness } = report.verdict {
            falsified += 1;
            assert_eq!((&witness.times, &witness.mask), (&series.times, &series.mask));
            assert!(p.region(&series, gains_core::Arithmetic::Real).contains(&witness));
            let again = target.forecaster.run(&witness, gains_core::Precision::Float64).unwrap();
            let error = gains_ode::mean_absolute_error(again.output(), &truth, &mask);
            assert!(error >= report.limit.unwrap(), "{error}");
            for (i, seen) in series.mask.iter().enumerate() {
                let moved = witness.values[i] - series.values[i];
                assert!(!*seen || i % FEATURES != 2 || moved == 0.0, "an exact feature moved");
                // A value out of range may move towards it.
                let (l, u) = (series.values[i].min(0.0), series.values[i].max(1.0));
                assert!(!*seen || i % FEATURES != 1 || Interval::new(l, u).contains(witness.values[i]));
            }
        } else {
            assert_ne!(report.verdict.word(), "falsified");
        }
    }
    assert!(falsified > 10, "{falsified}");
}

/// A method alone, and all of them, agree with each other about what is proved.
#[test]
fn methods_prove_no_less_than_the_ones_before() {
    for seed in 0..20 {
        let series = latent::series(seed, 5);
        let worst =
            |method: SeriesMethod| certify(&series, 0.02, |s| s.methods = vec![method]).worst.unwrap();
        let (boxes, linear, tight) =
            (worst(SeriesMethod::Box), worst(SeriesMethod::Linear), worst(SeriesMethod::Tight));
        assert!(
            linear <= boxes + 1e-12 && tight <= linear * 1.02 + 1e-9,
            "seed {seed}: {boxes} {linear} {tight}"
        );
    }
}
