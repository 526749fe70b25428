//! Dynamics made of large terms that cancel: the result is small, its rounding is not. Rows that forgot to
//! pay for the rounding of any one layer would be wrong here, with nothing else large enough to hide it.

use gains_core::description::{LayerSpec, RungeKutta};
use gains_core::model_file::Tensors;
use gains_core::operator::curve::CurveKnown;
use gains_core::operator::{Elementwise, Known, Spot, Steering};
use gains_core::{Arithmetic, BoxVec, Rows, Shape};
use gains_ode::{Carrier, Tableau};
use gains_testkit::{Model, fixed, linear};
use gains_verify::limits::Clock;
use gains_verify::steps::{BoxSteps, Reach, Room, StepTrace};
use gains_verify::{Budget, StepForm};

use crate::direct;
use crate::exact::Exact;
use crate::machines::{ExactMachine, Float32Machine};
use crate::region::{MODES, RowsOf, analyse, ode_of};

const STATES: usize = 2;
const PAIRS: usize = 4;

fn float32(x: f64) -> f64 {
    f64::from(x as f32)
}

/// Hidden neurons in pairs that nearly agree, also in their biases, read with large weights of opposite
/// sign.
fn model(random: &mut fastrand::Rng, rule: RungeKutta, activated: bool) -> Model {
    let mut tensors = Tensors::new();
    let (mut first, mut second) = (Vec::new(), vec![Vec::new(); STATES]);
    for _ in 0..PAIRS {
        let row: Vec<f64> = (0..=STATES).map(|_| float32(random.f64() + 0.1)).collect();
        let near = row.iter().map(|w| float32(w * (1.0 + 1e-6 * random.f64()))).collect();
        first.extend([row, near]);
        for to in &mut second {
            let weight = 1000.0 * (random.f64() - 0.5);
            to.extend([float32(weight), float32(-weight * (1.0 + 1e-6 * random.f64()))]);
        }
    }
    let first: Vec<&[f64]> = first.iter().map(Vec::as_slice).collect();
    let second: Vec<&[f64]> = second.iter().map(Vec::as_slice).collect();
    let biases: Vec<f64> = (0..2 * PAIRS).map(|i| float32(1.0 + 0.1 * (i / 2) as f64)).collect();
    let mut dynamics = vec![linear(&mut tensors, "g1", &first, &biases, true)];
    if activated {
        dynamics.push(LayerSpec::Relu {});
    }
    dynamics.push(linear(&mut tensors, "g2", &second, &[0.0; STATES], false));
    let ode = LayerSpec::Ode { dynamics, solver: fixed(rule, 1) };
    Model::new(Shape::flat(STATES), vec![ode], tensors, STATES)
}

/// Runs both kinds of programs at a point and compares with every bound there; returns how many runs lie
/// outside the bounds of real arithmetic.
fn check(random: &mut fastrand::Rng, rule: RungeKutta, activated: bool) -> usize {
    let model = model(random, rule, activated);
    let at: Vec<f64> = (0..STATES).map(|_| float32(random.f64() + 0.5)).collect();
    let property = RowsOf::new(&[&[1.0, 0.0], &[-1.0, 0.0], &[0.0, 1.0]]);
    let network = model.network();
    let exact = direct::run(&mut ExactMachine, &model.description, &model.tensors, &at).output;
    let programs: Vec<Vec<Exact>> = (0..6)
        .map(|_| {
            let mut machine = Float32Machine { random };
            let run = direct::run(&mut machine, &model.description, &model.tensors, &at);
            run.output.iter().map(|y| f64::from(*y).into()).collect()
        })
        .collect();
    let value = |row: &[f64], output: &[Exact]| {
        row.iter().zip(output).fold(Exact::zero(), |sum, (a, y)| &sum + &(&Exact::from(*a) * y))
    };
    let mut outside = 0;
    for mode in MODES {
        let what = format!("{rule:?} {mode:?} activated {activated}");
        let region = BoxVec::point(&at);
        let real = analyse(&network, &region, &property, mode, Arithmetic::Real).expect("a bound").1;
        let single = analyse(&network, &region, &property, mode, Arithmetic::Float32).expect("a bound").1;
        for ((row, real), single) in property.rows.iter().zip(real).zip(single) {
            let gap = &value(row, &exact) - &real.into();
            assert!(!gap.is_negative(), "{what}: {:e} above the exact value", -gap.to_f64());
            for program in &programs {
                let gap = &value(row, program) - &single.into();
                assert!(!gap.is_negative(), "{what}: {:e} above the float32 program", -gap.to_f64());
                outside += usize::from(value(row, program) < real.into());
            }
        }
    }
    outside
}

#[test]
fn cancelling_dynamics_pay_for_their_rounding() {
    let mut random = fastrand::Rng::with_seed(91);
    let mut outside = 0;
    for rule in [RungeKutta::Euler, RungeKutta::Midpoint, RungeKutta::Heun, RungeKutta::Rk4] {
        for round in 0..40 {
            outside += check(&mut random, rule, round % 2 == 0);
        }
    }
    assert!(outside > 1000, "{outside}: the rounding of float32 is what this is about");
}

fn step_of(
    model: &Model,
    rule: RungeKutta,
    form: StepForm,
    arithmetic: Arithmetic,
    state: &[f64],
    (time, size): (f64, f64),
    tolerance: f64,
) -> gains_ode::Step<Reach, StepTrace> {
    let network = model.network();
    let ode = ode_of(&network);
    let mut carrier = BoxSteps {
        dynamics: &ode.dynamics,
        tableau: Tableau::of(rule),
        tolerance,
        arithmetic,
        form,
        keep_traces: true,
        room: Room::None,
        clock: Clock::start(Budget::default()),
        bytes: 0,
        nonzero: Default::default(),
    };
    carrier.step(&BoxVec::point(state).into(), time, size, true).expect("a step")
}

/// The error estimate is a difference of slopes, so all that is left of it here is rounding: what a
/// program finds must lie in the interval that decides about its step size.
#[test]
fn estimates_of_cancelling_dynamics_hold_what_programs_find() {
    let mut random = fastrand::Rng::with_seed(92);
    for round in 0..300 {
        let rule = [RungeKutta::Heun, RungeKutta::Bosh3, RungeKutta::Dopri5][round % 3];
        let model = model(&mut random, rule, round % 2 == 0);
        let LayerSpec::Ode { dynamics, .. } = &model.description.layers[0] else { unreachable!("one ODE") };
        let (dynamics, tableau) = (dynamics.as_slice(), Tableau::of(rule));
        // From zero the stage inputs round next to nothing, and the layers are on their own.
        let size = [0.0, 1.0][round / 3 % 2];
        let state: Vec<f64> = (0..STATES).map(|_| float32(size * (random.f64() + 0.5))).collect();
        let at = (float32(random.f64()), float32([1e-3, 1e-8][round / 6 % 2] * random.f64()));
        let tolerance = float32(1e-3);
        for form in [StepForm::Independent, StepForm::Difference] {
            let real = step_of(&model, rule, form, Arithmetic::Real, &state, at, tolerance);
            let (next, delta) =
                direct::trial(&mut ExactMachine, dynamics, tableau, &model.tensors, &state, at, tolerance);
            let (found, delta) = (real.error.unwrap(), delta.unwrap());
            assert!(delta >= found.lower.into() && delta <= found.upper.into(), "{rule:?} {form:?} exact");
            for (i, y) in next.iter().enumerate() {
                assert!(
                    *y >= real.state.lower[i].into() && *y <= real.state.upper[i].into(),
                    "{rule:?} {form:?}"
                );
            }
            let single = step_of(&model, rule, form, Arithmetic::Float32, &state, at, tolerance);
            let found = single.error.unwrap();
            for _ in 0..5 {
                let mut machine = Float32Machine { random: &mut random };
                let (next, delta) =
                    direct::trial(&mut machine, dynamics, tableau, &model.tensors, &state, at, tolerance);
                let delta = f64::from(delta.unwrap());
                assert!(found.contains(delta), "{rule:?} {form:?}: {delta} in {found:?}");
                for (i, y) in next.iter().enumerate() {
                    assert!(single.state.get(i).contains(f64::from(*y)), "{rule:?} {form:?} state");
                }
            }
        }
    }
}

/// There is nothing to choose at an affine map.
struct NoChoice;

impl Steering for NoChoice {
    fn curve(&mut self, node: Elementwise, _: &CurveKnown, _: &mut Rows) {
        panic!("{node:?} is no affine map");
    }
}

/// What rows are charged for the change between two stages has to cover the rounding of both stages of a
/// float32 program: of their inputs, and of every layer.
#[test]
fn changes_between_stages_are_charged_for_both() {
    let mut random = fastrand::Rng::with_seed(93);
    let unit = f64::from(f32::EPSILON) / 2.0;
    for _ in 0..50 {
        let model = model(&mut random, RungeKutta::Heun, false);
        let state: Vec<f64> = (0..STATES).map(|_| float32(random.f64() + 0.5)).collect();
        let h = 1e-3;
        let step = step_of(
            &model,
            RungeKutta::Heun,
            StepForm::Difference,
            Arithmetic::Float32,
            &state,
            (0.5, h),
            1.0,
        );
        let change = step.trace.stages[1].change.as_ref().expect("the second stage has one");
        // The states move by next to nothing, so both stages have the magnitudes of the first.
        for (e, x) in state.iter().enumerate() {
            let least = 2.0 * x * unit;
            assert!(change.input_owed[e] >= least, "{} {least}", change.input_owed[e]);
        }
        let network = model.network();
        let node = ode_of(&network).dynamics.node(1).expect("a linear layer");
        // What a row of a single one is charged.
        let owed = |o: usize| {
            let row = Rows::units(node.shape, &[o]).select(&[0]);
            let (arithmetic, shapes) = (Arithmetic::Float32, [Shape::flat(STATES)]);
            let spot =
                Spot { value: 1, from: &[0], shapes: &shapes, entries: &[None], matrix: None, arithmetic };
            node.operator.pull(change.trace.known(0), row, spot, &mut NoChoice)[0].slack[0]
        };
        let weights = &model.tensors["g1.weight"].1;
        for (o, row) in weights.chunks(STATES + 1).enumerate() {
            let bias = model.tensors["g1.bias"].1[o].abs();
            let size = bias + row[0].abs() * 0.5 + row[1].abs() * state[0] + row[2].abs() * state[1];
            let least = 2.0 * Arithmetic::depth(STATES + 2) as f64 * unit * size * 0.99;
            assert!(owed(o) >= least, "{} {least}", owed(o));
        }
    }
}

/// The change of a stage's input is rounded as often as the inputs are: by half an ulp of the state at the
/// least, however short the step.
#[test]
fn changes_of_stage_inputs_leave_room_for_their_rounding() {
    let mut tensors = Tensors::new();
    let dynamics =
        vec![LayerSpec::Relu {}, linear(&mut tensors, "g", &[&[0.5, 0.0], &[0.0, 0.5]], &[0.0; 2], false)];
    let ode = LayerSpec::Ode { dynamics, solver: fixed(RungeKutta::Heun, 1) };
    let model = Model::new(Shape::flat(STATES), vec![ode], tensors, STATES);
    let (state, h) = ([1.0, 3.0], 1e-12);
    let step =
        step_of(&model, RungeKutta::Heun, StepForm::Difference, Arithmetic::Float32, &state, (0.0, h), 1.0);
    let change = step.trace.stages[1].change.as_ref().expect("the second stage has one");
    let Known::Change(known) = change.trace.known(0) else { unreachable!("a ReLU comes first") };
    for (magnitude, x) in known.lines[0].magnitude.iter().zip(state) {
        assert!(*magnitude >= 0.5 * h * x + x * f64::from(f32::EPSILON) / 2.0, "{magnitude}");
    }
}
