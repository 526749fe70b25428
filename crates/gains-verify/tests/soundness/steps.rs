//! One solver step on a box, against the step in exact arithmetic.

use gains_core::description::{LayerSpec, RungeKutta};
use gains_core::model_file::Tensors;
use gains_core::{Arithmetic, BoxVec, Shape};
use gains_ode::{Carrier, Tableau};
use gains_testkit::{Model, fixed, linear};
use gains_verify::limits::Clock;
use gains_verify::steps::{BoxSteps, Room};
use gains_verify::{Budget, StepForm};

use crate::direct::Machine;
use crate::exact::Exact;
use crate::machines::ExactMachine;
use crate::region::ode_of;

const RULES: [RungeKutta; 6] = [
    RungeKutta::Euler,
    RungeKutta::Heun,
    RungeKutta::Rk4,
    RungeKutta::Bosh3,
    RungeKutta::Fehlberg2,
    RungeKutta::Dopri5,
];

fn affine_model(random: &mut fastrand::Rng, rule: RungeKutta, decay: bool) -> (Model, [f64; 6]) {
    let mut tensors = Tensors::new();
    let w: [f64; 6] = std::array::from_fn(|_| 2.0 * random.f64() - 1.0);
    // Time first, then the two states.
    let w = if decay { [0.0, w[1], w[2], 0.0, w[4], w[5]] } else { w };
    let layer = linear(&mut tensors, "g", &[&w[..3], &w[3..]], &[0.25, -0.5], true);
    let ode = LayerSpec::Ode { dynamics: vec![layer], solver: fixed(rule, 1) };
    (Model::new(Shape::flat(2), vec![ode], tensors, 2), w)
}

/// The step of a linear system from one point, exactly: next state and `Σ |error| / τ`.
fn exact_step(
    w: &[f64; 6],
    tableau: &Tableau,
    x: &[f64],
    time: f64,
    h: f64,
    tau: f64,
) -> (Vec<Exact>, Exact) {
    let mut m = ExactMachine;
    let mut slopes: Vec<[Exact; 2]> = Vec::new();
    let weigh =
        |m: &mut ExactMachine, base: Option<f64>, weights: &[f64], slopes: &[[Exact; 2]], i: usize| {
            let terms: Vec<_> = weights.iter().zip(slopes).map(|(w, k)| (*w, k[i].clone())).collect();
            m.advance(base.map(Exact::from).as_ref(), h, &terms)
        };
    for (weights, node) in tableau.stages.iter().zip(tableau.nodes) {
        let s: Vec<Exact> = (0..2).map(|i| weigh(&mut m, Some(x[i]), weights, &slopes, i)).collect();
        let t = &Exact::from(time) + &(&Exact::from(*node) * &Exact::from(h));
        let mut row = |w: &[f64], bias: f64| {
            m.dot(&[(w[0], t.clone()), (w[1], s[0].clone()), (w[2], s[1].clone())], bias, 4)
        };
        slopes.push([row(&w[..3], 0.25), row(&w[3..], -0.5)]);
    }
    let next = (0..2).map(|i| weigh(&mut m, Some(x[i]), tableau.weights, &slopes, i)).collect();
    let errors: Vec<Exact> = (0..2).map(|i| weigh(&mut m, None, tableau.error, &slopes, i)).collect();
    (next, m.estimate(&errors, tau))
}

/// From a single point the box is nothing but rounding, and must still hold the exact next state and the
/// exact error estimate; from a small box it must hold those of its corners.
#[test]
fn steps_hold_the_exact_states_and_error_estimates() {
    let mut random = fastrand::Rng::with_seed(41);
    let mut widest: f64 = 0.0;
    for round in 0..1500 {
        let rule = RULES[round % RULES.len()];
        let (model, w) = affine_model(&mut random, rule, false);
        let network = model.network();
        let ode = ode_of(&network);
        let tableau = Tableau::of(rule);
        let tolerance = 0.01 * random.f64() + 1e-4;
        let budget = Budget::default();
        let mut carrier = BoxSteps {
            dynamics: &ode.dynamics,
            tableau,
            tolerance,
            arithmetic: Arithmetic::Real,
            form: [StepForm::Independent, StepForm::Difference][round / 2 % 2],
            keep_traces: false,
            room: Room::None,
            clock: Clock::start(budget),
            bytes: 0,
            nonzero: Default::default(),
        };
        let width = [0.0, 0.0, 1e-3][round % 3];
        let lower: Vec<f64> = (0..2).map(|_| 4.0 * random.f64() - 2.0).collect();
        let upper: Vec<f64> = lower.iter().map(|l| l + width * random.f64()).collect();
        let (time, h) = (random.f64(), random.f64() + 1e-3);
        let with_error = tableau.estimates_error();
        let domain = BoxVec::new(lower.clone(), upper.clone());
        let step = carrier.step(&domain.clone().into(), time, h, with_error).unwrap();
        for corner in [[lower[0], lower[1]], [upper[0], lower[1]], [lower[0], upper[1]], [upper[0], upper[1]]]
        {
            let (next, delta) = exact_step(&w, tableau, &corner, time, h, tolerance);
            for i in 0..2 {
                assert!(Exact::from(step.state.lower[i]) <= next[i], "{rule:?} round {round}");
                assert!(Exact::from(step.state.upper[i]) >= next[i], "{rule:?} round {round}");
            }
            if let Some(error) = step.error {
                assert!(
                    Exact::from(error.lower) <= delta && Exact::from(error.upper) >= delta,
                    "{rule:?} {round}"
                );
                if width == 0.0 {
                    widest = widest.max((error.upper - error.lower) / error.upper.max(1.0));
                }
            }
        }
    }
    println!("error estimates of points are known to {widest:.1e}");
    assert!(widest < 1e-9, "{widest}");
}

/// δ lands exactly on both thresholds: whatever side rounding falls on, the graph has to allow for it.
#[test]
fn estimates_on_the_threshold_leave_both_decisions_open() {
    let mut random = fastrand::Rng::with_seed(42);
    for _ in 0..200 {
        let (model, w) = affine_model(&mut random, RungeKutta::Heun, true);
        let network = model.network();
        let ode = ode_of(&network);
        let x = [random.f64(), random.f64()];
        let (_, error) = exact_step(&w, Tableau::of(RungeKutta::Heun), &x, 0.0, 0.5, 1.0);
        for (threshold, below, above) in [
            (1.0, gains_ode::Action::Keep, gains_ode::Action::Reject),
            (0.25, gains_ode::Action::Increase, gains_ode::Action::Keep),
        ] {
            let mut carrier = BoxSteps {
                dynamics: &ode.dynamics,
                tableau: Tableau::of(RungeKutta::Heun),
                tolerance: error.to_f64() / threshold,
                arithmetic: Arithmetic::Real,
                form: StepForm::Independent,
                keep_traces: false,
                room: Room::None,
                clock: Clock::start(Budget::default()),
                bytes: 0,
                nonzero: Default::default(),
            };
            let step = carrier.step(&BoxVec::point(&x).into(), 0.0, 0.5, true).unwrap();
            let actions = gains_ode::controller::controlled(step.error.unwrap(), 0.25);
            assert!(actions.contains(below) && actions.contains(above), "{:?}", step.error);
        }
    }
}

/// The error weights of a table are rounded, so they do not add up to exactly zero: with a constant slope
/// that remainder is the whole estimate, and the difference form, whose tail sums are rounded as well, has
/// to leave room for it.
#[test]
fn constant_slopes_leave_the_rounding_of_the_table() {
    for rule in
        [RungeKutta::Heun, RungeKutta::Bosh3, RungeKutta::Fehlberg2, RungeKutta::Dopri5, RungeKutta::Dopri8]
    {
        let tableau = Tableau::of(rule);
        let mut tensors = Tensors::new();
        let layer = linear(&mut tensors, "g", &[&[0.0; 2], &[0.0; 2]], &[1000.0, -700.0], false);
        let ode = LayerSpec::Ode { dynamics: vec![layer], solver: fixed(rule, 1) };
        let network = Model::new(Shape::flat(2), vec![ode], tensors, 2).network();
        let ode = ode_of(&network);
        for form in [StepForm::Independent, StepForm::Difference] {
            for h in [1.0, 0.3, 0.1, 0.017] {
                let mut carrier = BoxSteps {
                    dynamics: &ode.dynamics,
                    tableau,
                    tolerance: 1e-12,
                    arithmetic: Arithmetic::Real,
                    form,
                    keep_traces: false,
                    room: Room::None,
                    clock: Clock::start(Budget::default()),
                    bytes: 0,
                    nonzero: Default::default(),
                };
                let error =
                    carrier.step(&BoxVec::point(&[0.5, 0.5]).into(), 0.0, h, true).unwrap().error.unwrap();
                let left = Exact::dot(tableau.error, &vec![h; tableau.len()]).abs();
                let delta = (&left * &Exact::from(1700.0)).over(&Exact::from(1e-12));
                let what = format!("{rule:?} {form:?} {h}: {:e} in {error:?}", delta.to_f64());
                assert!(Exact::from(error.lower) <= delta && delta <= Exact::from(error.upper), "{what}");
            }
        }
    }
}
