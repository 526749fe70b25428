//! Planted counterexamples: a misclassified point just inside a corner of the region is never verified.

use gains_core::description::{LayerSpec, RungeKutta};
use gains_core::model_file::Tensors;
use gains_core::{Arithmetic, Interval, Precision, Shape};
use gains_ode::Inference;
use gains_testkit::{Model, controlled, fixed, linear};
use gains_verify::limits::Clock;
use gains_verify::{Attack, AttackLoss, Budget, Hunt, Problem, Settings, Stage, Verdict};

use crate::region::{ARITHMETICS, METHODS, certify};

const EPS: f64 = 0.125;
const PIXELS: Interval = Interval::new(-10.0, 10.0);

/// Class 0 wins exactly where `Σ xᵢ < bound` at the end of an ODE that moves every state by what `drift`
/// makes of it; the region is `[0, 1/8]ⁿ` around its centre, so the sum is largest at one corner.
fn model(n: usize, bound: f64, drift: bool) -> Model {
    let mut tensors = Tensors::new();
    let rows: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    let weights: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
    let solver =
        if drift { controlled(RungeKutta::Heun, 2, 0.05, 0.5, 1) } else { fixed(RungeKutta::Euler, 2) };
    let scale = if drift { 0.25 } else { 0.0 };
    let scaled: Vec<Vec<f64>> = rows.iter().map(|r| r.iter().map(|x| x * scale).collect()).collect();
    let scaled: Vec<&[f64]> = scaled.iter().map(Vec::as_slice).collect();
    let dynamics = vec![
        linear(&mut tensors, "g1", &scaled, &vec![0.0; n], false),
        LayerSpec::Relu {},
        linear(&mut tensors, "g2", &weights, &vec![0.0; n], false),
    ];
    let (minus, zero) = (vec![-1.0; n], vec![0.0; n]);
    let layers = vec![
        linear(&mut tensors, "in", &weights, &vec![0.0; n], false),
        LayerSpec::Ode { dynamics, solver },
        linear(&mut tensors, "out", &[&minus, &zero], &[bound, 0.0], false),
    ];
    Model::new(Shape::flat(n), layers, tensors, 2)
}

/// The largest value of the sum over the region, found by running its corner.
fn worst(model: &Model, n: usize, arithmetic: Arithmetic) -> f64 {
    let precision = if arithmetic == Arithmetic::Real { Precision::Float64 } else { Precision::Float32 };
    -Inference::run(&model.network(), &vec![2.0 * EPS; n], precision).expect("the network runs").output[0]
}

fn verdict(model: &Model, n: usize, arithmetic: Arithmetic, methods: &[gains_verify::Method]) -> Verdict {
    let settings = Settings { stages: Stage::bounds(methods), arithmetic, ..Settings::default() };
    let sample = (&vec![EPS; n][..], 0, EPS);
    certify(&model.network(), sample, PIXELS, &settings, Budget::default()).verdict
}

#[test]
fn a_counterexample_at_the_corner_is_never_verified() {
    for n in 1..6 {
        for drift in [false, true] {
            for arithmetic in ARITHMETICS {
                let at_corner = worst(&model(n, 0.0, drift), n, arithmetic);
                for inside in [0.0, 1e-15, 1e-13, 1e-9, 1e-6, 1e-3] {
                    let planted = model(n, at_corner * (1.0 - inside), drift);
                    for method in METHODS {
                        let verdict = verdict(&planted, n, arithmetic, &[method]);
                        let what = format!("{n} {drift} {arithmetic} {method} {inside:e}");
                        assert!(matches!(verdict, Verdict::Unknown(_)), "{what}: {verdict:?}");
                    }
                }
            }
        }
    }
}

/// Just outside, all methods may succeed; these networks are so simple that they must.
#[test]
fn without_the_counterexample_the_region_is_verified() {
    for n in 1..6 {
        for drift in [false, true] {
            for (arithmetic, outside) in [(Arithmetic::Real, 1e-11), (Arithmetic::Float32, 1e-4)] {
                let at_corner = worst(&model(n, 0.0, drift), n, arithmetic);
                // The graph of the drifting network holds longer steps than the corner's own.
                let room = if drift { 0.05 } else { outside };
                let safe = model(n, at_corner * (1.0 + room), drift);
                for method in METHODS {
                    let verdict = verdict(&safe, n, arithmetic, &[method]);
                    assert_eq!(verdict, Verdict::Verified, "{n} {drift} {arithmetic} {method}");
                }
            }
        }
    }
}

/// The attack walks to the corner; what it reports is inside the region and misclassified when run again.
#[test]
fn the_attack_finds_the_corner_and_reports_it_honestly() {
    for n in 1..6 {
        for arithmetic in ARITHMETICS {
            let at_corner = worst(&model(n, 0.0, true), n, arithmetic);
            let planted = model(n, at_corner * 0.97, true);
            let network = planted.network();
            let attack = Attack { steps: 40, step_size: 0.02, loss: AttackLoss::Margin, ..Attack::default() };
            let settings = Settings {
                stages: [Stage::bounds(&METHODS), vec![Stage::Attack(attack)]].concat(),
                arithmetic,
                ..Settings::default()
            };
            let sample = (&vec![EPS; n][..], 0, EPS);
            let report = certify(&network, sample, PIXELS, &settings, Budget::default());
            let Verdict::Falsified { witness } = report.verdict else { panic!("{n}: {:?}", report.verdict) };
            assert_eq!(witness.len(), 1);
            assert!(witness[0].iter().all(|x| (0.0..=2.0 * EPS).contains(x)));
            let precision =
                if arithmetic == Arithmetic::Real { Precision::Float64 } else { Precision::Float32 };
            assert_eq!(Inference::run(&network, &witness[0], precision).unwrap().prediction(), 1);
        }
    }
}

/// A ball narrower than float32's spacing holds no float32 input, so no witness can come out of it.
#[test]
fn witnesses_in_float32_stay_inside_a_ball_without_float32_numbers() {
    let centre = 0.1_f64;
    let (below, above) = (f64::from(0.1_f32.next_down()), f64::from(0.1_f32));
    let mut tensors = Tensors::new();
    // Wrong from the float32 neighbour above the centre on.
    let out = linear(&mut tensors, "out", &[&[-1.0], &[0.0]], &[below, 0.0], false);
    let model = Model::new(Shape::flat(1), vec![out], tensors, 2);
    assert!(below < centre && centre < above);
    assert_eq!(Inference::run(&model.network(), &[above], Precision::Float32).unwrap().prediction(), 1);
    let attack = Attack { steps: 5, step_size: 1e-9, loss: AttackLoss::Margin, ..Attack::default() };
    let pixels = Interval::new(0.0, 1.0);
    for eps in [1e-10, 1e-12, 5e-324, 0.0] {
        let network = model.network();
        let problem = Problem::classification(&network, &[centre], 0, eps, pixels);
        let hunt = Hunt::new(&problem, Precision::Float32, Clock::start(Budget::default()));
        if let Some(witness) = hunt.run(&attack).witness {
            let away = witness[0][0] - centre;
            assert!(away.abs() <= eps, "{} is {away:e} away", witness[0][0]);
        }
    }
}
