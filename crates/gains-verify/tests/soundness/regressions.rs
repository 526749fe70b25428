//! Faults that were found once, each with its smallest example.

use std::sync::Arc;
use std::time::Duration;

use gains_core::affine::Conv2d;
use gains_core::description::{Join, LayerSpec, RungeKutta, SolverSpec};
use gains_core::model_file::Tensors;
use gains_core::operator::sum::Sum;
use gains_core::{
    Activation, AffineMap, Arithmetic, BoxVec, Circuit, Interval, Ode, OdeBlock, Operator, Precision,
    Program, Shape, Step,
};
use gains_ode::Inference;
use gains_testkit::{Gardener, Kinds, Model, fixed, linear};
use gains_verify::property::LinearRow;
use gains_verify::{Budget, Method, Problem, Property, Reason, Region, Settings, Stage, Verdict, Verifier};

use crate::region::{METHODS, MODES, RowsOf, analyse, certify, point, value};

fn first_output() -> RowsOf {
    RowsOf::new(&[&[1.0, 0.0], &[-1.0, 0.0]])
}

/// `k₁` overflows, the input of the second stage is `∞ − ∞`, and a ReLU makes zero of that. The midpoint
/// rule then used only the harmless-looking second stage.
#[test]
fn an_overflow_behind_a_relu_is_not_forgotten() {
    let mut tensors = Tensors::new();
    let dynamics = vec![
        linear(&mut tensors, "g1", &[&[1e200, 0.0], &[0.0, 1e200]], &[0.0, 0.0], false),
        LayerSpec::Relu {},
        linear(&mut tensors, "g2", &[&[1e200, 0.0], &[0.0, 1e200]], &[1.0, 1.0], false),
    ];
    let ode = LayerSpec::Ode { dynamics, solver: fixed(RungeKutta::Midpoint, 1) };
    let model = Model::new(Shape::flat(2), vec![ode], tensors, 2);
    let network = model.network();
    let region = BoxVec::new(vec![0.5, 0.5], vec![1.0, 1.0]);
    for mode in MODES {
        let found = analyse(&network, &region, &first_output(), mode, Arithmetic::Real);
        assert!(matches!(found.err(), Some(Reason::Overflow { .. })), "{mode:?}");
    }
}

/// The value 10³⁹ is nothing to float64 and infinity to float32.
#[test]
fn a_float32_program_that_overflows_is_not_bounded() {
    let mut tensors = Tensors::new();
    let layers = vec![
        linear(&mut tensors, "up", &[&[1e30]], &[0.0], false),
        linear(&mut tensors, "down", &[&[-1.2e-38], &[0.0]], &[20.0, 0.0], false),
    ];
    let model = Model::new(Shape::flat(1), layers, tensors, 2);
    let network = model.network();
    assert!(Inference::run(&network, &[1e9], Precision::Float32).is_err());
    let region = BoxVec::new(vec![1e9], vec![1.0001e9]);
    for mode in MODES {
        let found = analyse(&network, &region, &first_output(), mode, Arithmetic::Float32);
        assert!(matches!(found.err(), Some(Reason::Overflow { .. })), "{mode:?}");
    }
}

/// The same inside an ODE, where the next layer makes it small again.
#[test]
fn a_float32_program_that_overflows_inside_the_dynamics_is_not_bounded() {
    for activation in [None, Some(LayerSpec::Relu {}), Some(LayerSpec::Tanh {})] {
        let mut tensors = Tensors::new();
        let up = linear(&mut tensors, "up", &[&[1e38, 0.0], &[0.0, 1e38]], &[0.0; 2], false);
        let down = linear(&mut tensors, "down", &[&[-1.2e-38, 0.0], &[0.0, 1.2e-38]], &[0.0; 2], false);
        let dynamics = [up].into_iter().chain(activation).chain([down]).collect();
        let ode = LayerSpec::Ode { dynamics, solver: fixed(RungeKutta::Euler, 1) };
        let model = Model::new(Shape::flat(2), vec![ode], tensors, 2);
        let network = model.network();
        let region = BoxVec::new(vec![9.0, 9.0], vec![10.0, 10.0]);
        for mode in MODES {
            let found = analyse(&network, &region, &first_output(), mode, Arithmetic::Float32);
            assert!(matches!(found.err(), Some(Reason::Overflow { .. })), "{mode:?}");
        }
    }
}

/// A row coefficient of 10⁻⁴⁰⁰ underflows; on an entry of 10¹⁵⁰ it would still be worth 10⁻²⁵⁰.
#[test]
fn coefficients_that_underflow_on_huge_entries_are_not_forgotten() {
    let mut tensors = Tensors::new();
    let layers = vec![
        linear(&mut tensors, "one", &[&[-1e-200]], &[0.0], false),
        linear(&mut tensors, "two", &[&[1e-200], &[0.0]], &[1e-270, 0.0], false),
    ];
    let model = Model::new(Shape::flat(1), layers, tensors, 2);
    let network = model.network();
    let region = BoxVec::point(&[1e150]);
    for mode in MODES {
        if let Ok((_, lower)) = analyse(&network, &region, &first_output(), mode, Arithmetic::Real) {
            assert!(lower[0] <= -0.9e-250, "{mode:?}: {:e}", lower[0]);
        }
    }
}

/// Dynamics that begin with an activation some of whose neurons are dead: the rows have to find their
/// way back to all states, not only to those that are alive behind the activation.
#[test]
fn dynamics_may_begin_with_activations() {
    let mut random = fastrand::Rng::with_seed(81);
    for round in 0..60 {
        let shape = Shape::flat(4);
        let mut g = Gardener::new(&mut random, Kinds::All, shape);
        let first = match round % 3 {
            0 => vec![LayerSpec::Relu {}],
            1 => vec![LayerSpec::Relu {}, LayerSpec::Sigmoid {}],
            _ => vec![LayerSpec::Relu {}, LayerSpec::Tanh {}, LayerSpec::Relu {}],
        };
        let dynamics = first.into_iter().chain([g.linear(3, true), g.activation(), g.linear(4, false)]);
        let ode = LayerSpec::Ode { dynamics: dynamics.collect(), solver: fixed(RungeKutta::Heun, 2) };
        let layers = vec![ode, g.linear(2, false)];
        let model = g.finish(shape, layers);
        let network = model.network();
        // One state certainly negative, one certainly positive, two undecided.
        let region = BoxVec::new(vec![-0.9, 0.7, -0.1, -0.2], vec![-0.8, 0.8, 0.1, 0.3]);
        for mode in MODES {
            let (_, lower) = analyse(&network, &region, &first_output(), mode, Arithmetic::Real).unwrap();
            for _ in 0..20 {
                let at = point(&mut random, &region);
                let run = Inference::run(&network, &at, Precision::Float64).unwrap();
                for (row, bound) in first_output().rows.iter().zip(&lower) {
                    assert!(value(row, &run.output) >= bound - 1e-12, "round {round} {mode:?}");
                }
            }
        }
    }
}

/// A strided convolution that never sees the far edge of its input, inside an ODE: coefficients pulled
/// back through it live on a smaller window than the state.
#[test]
fn dynamics_may_be_blind_to_the_far_edge() {
    let mut random = fastrand::Rng::with_seed(82);
    let mut tensors = Tensors::new();
    let numbers = |random: &mut fastrand::Rng, n: usize| -> Vec<f64> {
        (0..n).map(|_| f64::from(random.f32() - 0.5)).collect()
    };
    let conv = |name: &str, channels: [usize; 2], stride: usize, padding: usize| LayerSpec::Conv2d {
        name: name.into(),
        in_channels: channels[0],
        out_channels: channels[1],
        kernel: [1, 1],
        stride: [stride; 2],
        padding: [padding; 2],
        dilation: [1, 1],
        time: false,
    };
    tensors.insert("a.weight".into(), (vec![9, 8, 1, 1], numbers(&mut random, 72)));
    tensors.insert("a.bias".into(), (vec![9], numbers(&mut random, 9)));
    tensors.insert("b.weight".into(), (vec![8, 9, 1, 1], numbers(&mut random, 72)));
    tensors.insert("b.bias".into(), (vec![8], numbers(&mut random, 8)));
    let dynamics = vec![conv("a", [8, 9], 2, 0), LayerSpec::Relu {}, conv("b", [9, 8], 1, 1)];
    let layers =
        vec![LayerSpec::Ode { dynamics, solver: fixed(RungeKutta::Rk4, 1) }, LayerSpec::Flatten {}, {
            let weights = [numbers(&mut random, 128), numbers(&mut random, 128)];
            linear(&mut tensors, "out", &[&weights[0], &weights[1]], &[0.0, 0.0], false)
        }];
    let shape = Shape::image(4, 4, 8);
    let model = Model::new(shape, layers, tensors, 2);
    let network = model.network();
    let lower: Vec<f64> = (0..shape.len()).map(|_| random.f64() - 0.5).collect();
    let region = BoxVec::new(lower.clone(), lower.iter().map(|l| l + 1e-3).collect());
    for mode in MODES {
        let (_, bounds) = analyse(&network, &region, &first_output(), mode, Arithmetic::Real).unwrap();
        for _ in 0..50 {
            let at = point(&mut random, &region);
            let run = Inference::run(&network, &at, Precision::Float64).unwrap();
            for (row, bound) in first_output().rows.iter().zip(&bounds) {
                let reached = value(row, &run.output);
                assert!(reached >= bound - 1e-12, "{mode:?}: {reached} {bound}");
                assert!(reached <= bound + 5.0, "{mode:?}: bounds this loose are wrong: {reached} {bound}");
            }
        }
    }
}

/// `x + 0.4·max(x, 0)` of the smallest float32 number is that number again: all of the step is lost, and a large weight
/// shows it. Rows were charged only for what is relative to the sum.
#[test]
fn sums_that_underflow_in_float32_lose_more_than_a_part_of_them() {
    let least = f64::from(f32::from_bits(1));
    for method in [RungeKutta::Euler, RungeKutta::Heun] {
        let mut tensors = Tensors::new();
        let solver = SolverSpec { end_time: 0.4, ..fixed(method, 1) };
        let ode = LayerSpec::Ode { dynamics: vec![LayerSpec::Relu {}], solver };
        let head = linear(&mut tensors, "head", &[&[3e38], &[0.0]], &[0.0, 5e-7], false);
        let model = Model::new(Shape::flat(1), vec![ode, head], tensors, 2);
        let network = model.network();
        let run = Inference::run(&network, &[least], Precision::Float32).unwrap();
        let seen = value(&first_output().rows[0], &run.output);
        assert!(seen < 5e-7, "{seen:e}");
        let region = BoxVec::new(vec![least], vec![3.0 * least]);
        for mode in MODES {
            let (_, lower) = analyse(&network, &region, &first_output(), mode, Arithmetic::Float32).unwrap();
            assert!(lower[0] <= seen, "{mode:?}: {:e} above {seen:e}", lower[0]);
        }
    }
}

/// A program may form `0.5 k + 0.5 k` before it multiplies by the step: of the smallest number that is zero, and a long step
/// makes nothing of it where it would make much.
#[test]
fn sums_that_underflow_in_float32_lose_all_of_a_long_step() {
    let (least, step) = (f32::from_bits(1), 1e5_f32);
    let mut tensors = Tensors::new();
    let constant = f64::from(least);
    let dynamics = vec![LayerSpec::Clamp { low: constant, high: constant }];
    let solver = SolverSpec { end_time: f64::from(step), ..fixed(RungeKutta::Heun, 1) };
    let head = linear(&mut tensors, "head", &[&[3e38], &[0.0]], &[0.0, 0.0], false);
    let model = Model::new(Shape::flat(1), vec![LayerSpec::Ode { dynamics, solver }, head], tensors, 2);
    let network = model.network();
    let end = least + step * (0.5 * least + 0.5 * least);
    assert_eq!(end, least);
    let seen = f64::from(3e38 * end);
    let region = BoxVec::new(vec![f64::from(least)], vec![3.0 * f64::from(least)]);
    for mode in MODES {
        let (_, lower) = analyse(&network, &region, &first_output(), mode, Arithmetic::Float32).unwrap();
        assert!(lower[0] <= seen, "{mode:?}: {:e} above {seen:e}", lower[0]);
        let (_, lower) = analyse(&network, &region, &first_output(), mode, Arithmetic::Real).unwrap();
        assert!(lower[0] <= 0.0421, "{mode:?}: {:e} in real arithmetic", lower[0]);
    }
}

/// What float32 makes of these numbers is another number: zero, infinity, or something in between. Rounding was taken to be
/// relative. In real arithmetic they are numbers like others.
#[test]
fn constants_that_float32_cannot_hold_prove_nothing_about_float32_programs() {
    let weight = |weight: f64| {
        let mut tensors = Tensors::new();
        let layer = linear(&mut tensors, "out", &[&[weight], &[0.0]], &[0.0, 0.0], false);
        (layer, tensors)
    };
    let (out, plain) = weight(1.0);
    let alone = |layer: LayerSpec| (vec![layer, out.clone()], plain.clone());
    let deviation = |std: f64| LayerSpec::Normalize { mean: vec![0.0], std: vec![std] };
    let solved = |end_time: f64| LayerSpec::Ode {
        dynamics: vec![LayerSpec::Relu {}],
        solver: SolverSpec { end_time, ..fixed(RungeKutta::Euler, 1) },
    };
    let strange = [
        alone(LayerSpec::LeakyRelu { slope: 1e-46 }),
        alone(LayerSpec::Elu { alpha: 1e-44 }),
        alone(deviation(1e50)),
        alone(deviation(1e-46)),
        alone(solved(1e38)),
        // What a sum of stages loses is multiplied by the step.
        alone(solved(1e30)),
    ];
    let usual = [
        alone(LayerSpec::LeakyRelu { slope: 1e-37 }),
        alone(LayerSpec::Elu { alpha: 1e-20 }),
        alone(deviation(1e37)),
        alone(solved(1e-3)),
        alone(solved(1e5)),
    ];
    let region = BoxVec::new(vec![0.5], vec![0.6]);
    for (number, (layers, tensors)) in strange.into_iter().chain(usual).enumerate() {
        let model = Model::new(Shape::flat(1), layers, tensors, 2);
        let network = model.network();
        for mode in MODES {
            let found = analyse(&network, &region, &first_output(), mode, Arithmetic::Float32);
            let refused = matches!(found.err(), Some(Reason::BeyondFloat32 { .. }));
            assert_eq!(refused, number < 6, "{mode:?}: {:?}", model.description.layers);
            let found = analyse(&network, &region, &first_output(), mode, Arithmetic::Real);
            assert!(!matches!(found.err(), Some(Reason::BeyondFloat32 { .. })));
        }
    }
}

/// Something beside the first ODE block that takes the same value: rows on it were still on their way when the slopes in
/// front of the block were polished, and were left out of the bound. No model file says such a program, graphs can.
#[test]
fn rows_beside_the_first_ode_block_are_not_forgotten() {
    let one = Shape::flat(1);
    let line = |weight: f64, bias: f64| {
        let map = Conv2d::linear_layer(1, &[weight], &[bias], false).unwrap();
        Step::Plain(Operator::Affine(Arc::new(AffineMap::Conv(map))))
    };
    let mut dynamics = Circuit::of("state", one);
    dynamics.push(Operator::Curve(Activation::Relu), vec![0], one);
    let block = Arc::new(OdeBlock::new(dynamics, fixed(RungeKutta::Euler, 1)));
    for beside_first in [false, true] {
        let mut program = Program::of("input", one);
        let mut push = |step, from| program.push(step, from, one);
        let y = push(line(1.0, 0.0), vec![0]);
        let x = push(Step::Plain(Operator::Curve(Activation::Relu)), vec![y]);
        let z = push(line(1.0, 0.0), vec![x]);
        let beside = if beside_first { push(line(-4.0, 1.0), vec![z]) } else { 0 };
        let end = push(Step::Ode(Ode { block: block.clone(), end_time: 1.0 }), vec![z]);
        let beside = if beside_first { beside } else { push(line(-4.0, 1.0), vec![z]) };
        push(Step::Plain(Operator::Sum(Sum::plain(2))), vec![end, beside]);
        let boxes = vec![BoxVec::new(vec![0.1], vec![0.9])];
        let plain = Region::ball(&[0.2], 0.1, Interval::new(0.0, 1.0));
        let region = Region { outer: boxes.clone(), inner: boxes, ..plain };
        // 2z − 4z + 1 is −0.8 at the upper end.
        let property = Property::all(1, vec![LinearRow::new(vec![1.0], 0.0)]);
        let problem = Problem { program: &program, region, property, nominal: vec![vec![0.2]], output: None };
        for method in METHODS {
            let settings = Settings { stages: vec![Stage::Bound(method)], ..Settings::default() };
            let report = Verifier::new(settings).decide(&problem, Budget::default());
            assert!(!matches!(report.verdict, Verdict::Verified), "{method:?}, {beside_first}");
            assert!(
                report.margin.is_none_or(|margin| margin <= -0.8 + 1e-9),
                "{method:?}: {:?}",
                report.margin
            );
        }
    }
}

/// The product of 1e-163 x with itself is nowhere zero, though float64 says so of its size: a later layer shows it.
#[test]
fn products_that_underflow_are_not_zero() {
    let one = Shape::flat(1);
    let line = |weight: f64| {
        let map = Conv2d::linear_layer(1, &[weight], &[0.0], false).unwrap();
        Step::Plain(Operator::Affine(Arc::new(AffineMap::Conv(map))))
    };
    let mut program = Program::of("input", one);
    let mut push = |step, from| program.push(step, from, one);
    let (x, y) = (push(line(1e-163), vec![0]), push(line(1e-163), vec![0]));
    let product = push(Step::Plain(Operator::Product), vec![x, y]);
    let large = push(line(1e300), vec![product]);
    push(line(1e9), vec![large]);
    // The output is 1e-17 x², and 5e-18 is asked to be more.
    let property = Property::all(1, vec![LinearRow::new(vec![-1.0], 5e-18)]);
    let region = Region::ball(&[1.0], 0.1, Interval::new(0.0, 2.0));
    let problem = Problem { program: &program, region, property, nominal: vec![vec![1.0]], output: None };
    for method in METHODS {
        let settings = Settings { stages: vec![Stage::Bound(method)], ..Settings::default() };
        let report = Verifier::new(settings).decide(&problem, Budget::default());
        assert!(!matches!(report.verdict, Verdict::Verified), "{method:?}: {:?}", report.margin);
    }
}

/// A clamp to 0 in the dynamics, with a function behind it that is not 0 there: rows that began at the clamp's argument lost
/// it on their way, so that the argument counted as 0 at the start, and parts where it is not counted as empty.
#[test]
fn what_a_clamp_makes_zero_is_not_zero_itself() {
    /// Where the decoder's needle is, which no row sees: 20,000 times as steep as the rest.
    const NEEDLE: f64 = 0.6;
    let behind = [LayerSpec::Sigmoid {}, LayerSpec::Cos {}, LayerSpec::Softplus {}];
    for (behind, value) in behind.into_iter().zip([0.5, 1.0, 2f64.ln()]) {
        let mut tensors = Tensors::new();
        let mut line =
            |name: &str, weights: &[&[f64]], bias: &[f64]| linear(&mut tensors, name, weights, bias, false);
        let branches = vec![
            vec![
                line("a", &[&[1.0, 0.0]], &[0.01]),
                LayerSpec::Clamp { low: 0.0, high: 0.0 },
                behind.clone(),
                line("b", &[&[0.001], &[0.001]], &[0.0, 0.0]),
            ],
            vec![line("c", &[&[-0.001, 0.0], &[0.0, -0.001]], &[0.0, 0.0])],
        ];
        // Inputs that do nothing keep the region from being halved instead.
        let mut sum = [0.0; 70];
        let mut difference = sum;
        (sum[0], sum[1]) = (1.0, 1.0);
        (difference[0], difference[1]) = (1.0, -1.0);
        let layers = vec![
            line("in", &[&sum, &difference], &[0.0, 0.0]),
            LayerSpec::Tanh {},
            LayerSpec::Ode {
                dynamics: vec![LayerSpec::Parallel { branches, join: Join::Add }],
                solver: fixed(RungeKutta::Euler, 1),
            },
            line("d", &[&[1.0, 0.0], &[0.0, 1.0]], &[-NEEDLE, 2.0]),
            LayerSpec::Absolute {},
            line("e", &[&[-2e4, 0.0], &[0.0, 1.0]], &[1.0, 0.0]),
            LayerSpec::Relu {},
            line("out", &[&[-5.0, 2.0], &[0.0, 0.0]], &[-1.0, 0.0]),
        ];
        let network = Model::new(Shape::flat(70), layers, tensors, 2).network();
        // z = tanh(x₀ + x₁) is at the needle after one step of 0.001 (f(0) − z).
        let mut x = [0.0; 70];
        x[..2].fill(0.5 * ((NEEDLE - 0.001 * value) / 0.999).atanh());
        let output = Inference::run(&network, &x, Precision::Float64).expect("the network runs").output;
        assert!(output[0] < output[1], "{behind:?}: {output:?}");
        for last in [Stage::Branch, Stage::Race] {
            let stages = vec![Stage::Bound(Method::Tight), last];
            let settings = Settings { stages, ..Settings::default() };
            let budget = Budget { timeout: Some(Duration::from_secs(3)), ..Budget::default() };
            let sample = (&[0.0; 70][..], 0, 1.0);
            let report = certify(&network, sample, Interval::new(-1.0, 1.0), &settings, budget);
            assert!(!matches!(report.verdict, Verdict::Verified), "{behind:?}: {:?}", report.margin);
        }
    }
}
