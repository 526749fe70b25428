//! Dynamics made of large terms that cancel: the result is small, its rounding is not. Rows that forgot to
//! pay for the rounding of any one layer would be wrong here, with nothing else large enough to hide it.

use gains_core::description::{LayerSpec, Method as Rule};
use gains_core::model_file::Tensors;
use gains_core::{Arithmetic, BoxVec, Shape};
use gains_verify::Property;
use gains_verify::analysis::Prepared;

use crate::direct;
use crate::exact::Exact;
use crate::machines::{ExactMachine, Float32Machine};
use crate::region::{MODES, analyse};
use crate::zoo::{Model, fixed, linear};

const STATES: usize = 2;
const PAIRS: usize = 4;

fn float32(x: f64) -> f64 {
    f64::from(x as f32)
}

/// Hidden neurons in pairs that nearly agree, read with large weights of opposite sign.
fn model(random: &mut fastrand::Rng, rule: Rule, activated: bool) -> Model {
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
    let mut dynamics = vec![linear(&mut tensors, "g1", &first, &vec![0.0; 2 * PAIRS], true)];
    if activated {
        dynamics.push(LayerSpec::Relu {});
    }
    dynamics.push(linear(&mut tensors, "g2", &second, &[0.0; STATES], false));
    let ode = LayerSpec::Ode { dynamics, solver: fixed(rule, 1) };
    Model::new(Shape::flat(STATES), vec![ode], tensors, STATES)
}

/// Runs both kinds of programs at a point and compares with every bound there; returns how many runs lie
/// outside the bounds of real arithmetic.
fn check(random: &mut fastrand::Rng, rule: Rule, activated: bool) -> usize {
    let model = model(random, rule, activated);
    let at: Vec<f64> = (0..STATES).map(|_| float32(random.f64() + 0.5)).collect();
    let property = Property { outputs: 2, rows: vec![vec![1.0, 0.0], vec![-1.0, 0.0], vec![0.0, 1.0]] };
    let prepared = Prepared::new(model.network());
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
        let real = analyse(&prepared, &region, &property, mode, Arithmetic::Real).expect("a bound").1;
        let single = analyse(&prepared, &region, &property, mode, Arithmetic::Float32).expect("a bound").1;
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
    for rule in [Rule::Euler, Rule::Midpoint, Rule::Heun, Rule::Rk4] {
        for round in 0..40 {
            outside += check(&mut random, rule, round % 2 == 0);
        }
    }
    assert!(outside > 1000, "{outside}: the rounding of float32 is what this is about");
}
