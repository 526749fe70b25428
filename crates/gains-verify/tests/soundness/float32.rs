//! Float32 verdicts against float32 programs: true float32 operations, in any admitted order.

use gains_core::description::{LayerSpec, RungeKutta};
use gains_core::model_file::Tensors;
use gains_core::{Arithmetic, BoxVec, Shape};
use gains_testkit::{Kinds, Model, fixed, linear, random_model};
use gains_verify::{Method, StepForm};

use crate::direct;
use crate::exact::Exact;
use crate::machines::Float32Machine;
use crate::region::{MODES, RowsOf, analyse, descend, is_path, point, property, random_region, to_float32};

const WIDTHS: [f64; 5] = [0.0, 1e-6, 1e-3, 0.1, 0.4];

/// `row · output`, exactly: what the property is about once the program has spoken.
fn exact_value(row: &[f64], output: &[f32]) -> Exact {
    let output: Vec<f64> = output.iter().map(|y| f64::from(*y)).collect();
    Exact::dot(row, &output)
}

#[test]
fn float32_programs_of_any_order_stay_inside_the_bounds() {
    let mut random = fastrand::Rng::with_seed(51);
    let (mut checked, mut least) = (0, f64::INFINITY);
    for round in 0..150 {
        let model = random_model(&mut random, Kinds::All);
        let network = model.network();
        let mut region = random_region(&mut random, model.inputs(), WIDTHS[round % WIDTHS.len()]);
        // Ends that are float32 numbers, so that corners can be run.
        for side in [&mut region.lower, &mut region.upper] {
            side.iter_mut().for_each(|x| *x = f64::from(*x as f32));
        }
        let property = property(&mut random, network.outputs());
        let mut points: Vec<Vec<f64>> = (0..4).map(|_| point(&mut random, &region)).collect();
        for row in &property.rows {
            let start = point(&mut random, &region);
            points.push(descend(&network, row, start, &region));
        }
        let runs: Vec<_> = points
            .iter()
            .filter_map(|p| to_float32(p, &region))
            .flat_map(|p| {
                let mut machine = Float32Machine { random: &mut random };
                [0; 3].map(|_| direct::run(&mut machine, &model.description, &model.tensors, &p))
            })
            .collect();
        for mode in MODES {
            let found = analyse(&network, &region, &property, mode, Arithmetic::Float32);
            let Ok((analysis, lower)) = found else { continue };
            for run in &runs {
                for (row, bound) in property.rows.iter().zip(&lower) {
                    let above = (&exact_value(row, &run.output) - &bound.max(f64::MIN).into()).to_f64();
                    assert!(above >= 0.0, "round {round} {mode:?}: {above:e} below {bound}");
                    least = least.min(above);
                }
                for (graph, trials) in analysis.graphs().zip(&run.trajectories) {
                    assert!(is_path(graph, trials), "round {round} {mode:?}: path {trials:?}");
                }
                checked += 1;
            }
        }
    }
    println!("{checked} float32 runs, the closest {least:.1e} above its bound");
    assert!(checked > 5000, "{checked}");
}

/// The same programs leave the bounds of exact arithmetic: the mode is needed.
#[test]
fn real_bounds_are_not_enough_for_float32_programs() {
    let mut random = fastrand::Rng::with_seed(52);
    let (mut outside, mut wrong_path, mut total) = (0, 0, 0);
    for _ in 0..60 {
        let model = random_model(&mut random, Kinds::Piecewise);
        let region = random_region(&mut random, model.inputs(), 0.0);
        let at: Vec<f64> = region.lower.iter().map(|x| f64::from(*x as f32)).collect();
        let property = property(&mut random, model.network().outputs());
        let network = model.network();
        let mode = (Method::Gains, StepForm::Independent);
        let found = analyse(&network, &BoxVec::point(&at), &property, mode, Arithmetic::Real);
        let Ok((analysis, lower)) = found else { continue };
        for _ in 0..5 {
            let mut machine = Float32Machine { random: &mut random };
            let run = direct::run(&mut machine, &model.description, &model.tensors, &at);
            let below = |(row, bound): (&Vec<f64>, &f64)| exact_value(row, &run.output) < (*bound).into();
            outside += usize::from(property.rows.iter().zip(&lower).any(below));
            wrong_path += usize::from(!analysis.graphs().zip(&run.trajectories).all(|(g, t)| is_path(g, t)));
            total += 1;
        }
    }
    println!("{outside} of {total} float32 runs are below the real bound, {wrong_path} on another path");
    assert!(outside > total / 4, "{outside} of {total}");
}

/// One plus seven terms a shade below half an ulp, added one after the other: every addition rounds down
/// by as much as it can, and the sum passes through as many roundings as are allowed.
#[test]
fn a_sum_that_always_rounds_down_stays_inside() {
    let terms = 7;
    let term = f64::from(f32::EPSILON / 2.0 * (1.0 - f32::EPSILON));
    assert_eq!(Arithmetic::depth(terms + 1), 7, "seven additions are allowed");
    let program = (0..terms).fold(1.0_f32, |sum, _| sum + term as f32);
    assert_eq!(program, 1.0);
    let mut tensors = Tensors::new();
    let out = linear(&mut tensors, "out", &[&vec![1.0; terms], &vec![0.0; terms]], &[1.0, 0.0], false);
    let model = Model::new(Shape::flat(terms), vec![out], tensors, 2);
    let region = BoxVec::point(&vec![term; terms]);
    let property = RowsOf::new(&[&[1.0, 0.0]]);
    let network = model.network();
    for mode in MODES {
        let (_, real) = analyse(&network, &region, &property, mode, Arithmetic::Real).unwrap();
        let (_, float32) = analyse(&network, &region, &property, mode, Arithmetic::Float32).unwrap();
        assert!(real[0] > f64::from(program), "{mode:?}: in exact arithmetic the sum is larger");
        assert!(float32[0] <= f64::from(program), "{mode:?}: {}", float32[0]);
        assert!(
            float32[0] >= f64::from(program) - 4.0 * f64::from(f32::EPSILON),
            "{mode:?}: and not by much"
        );
    }
}

/// A step whose sum rounds down at every term, through an ODE block at the input: boxes and rows of the
/// solver step have to leave that room.
#[test]
fn a_step_that_always_rounds_down_stays_inside() {
    let half = f64::from(f32::EPSILON / 2.0 * (1.0 - f32::EPSILON));
    // Midpoint, Heun and RK4 of z' = c with h = 1: 1 plus weights times c, never more than 1 in float32.
    for rule in [RungeKutta::Euler, RungeKutta::Heun, RungeKutta::Rk4] {
        let mut tensors = Tensors::new();
        let dynamics = vec![linear(&mut tensors, "g", &[&[0.0, 0.0], &[0.0, 0.0]], &[half, half], false)];
        let ode = LayerSpec::Ode { dynamics, solver: fixed(rule, 1) };
        let model = Model::new(Shape::flat(2), vec![ode], tensors, 2);
        let network = model.network();
        let property = RowsOf::new(&[&[1.0, 0.0]]);
        let region = BoxVec::point(&[1.0, 1.0]);
        let mut random = fastrand::Rng::with_seed(53);
        let mut machine = Float32Machine { random: &mut random };
        let run = direct::run(&mut machine, &model.description, &model.tensors, &[1.0, 1.0]);
        assert_eq!(run.output[0], 1.0);
        for mode in MODES {
            let (_, real) = analyse(&network, &region, &property, mode, Arithmetic::Real).unwrap();
            let (_, float32) = analyse(&network, &region, &property, mode, Arithmetic::Float32).unwrap();
            assert!(real[0] > 1.0 && float32[0] <= 1.0, "{rule:?} {mode:?}: {} {}", real[0], float32[0]);
        }
    }
}
