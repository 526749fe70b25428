//! Affine forms against points: with the pixels known, what is left of a form must hold the point's value.

use gains_core::affine::AffineMap;
use gains_core::affine_form::{AffineForm, Passing, Symbol, Symbols};
use gains_core::description::{LayerSpec, RungeKutta};
use gains_core::operator::Forming;
use gains_core::{Activation, Arithmetic, BoxVec, Circuit, OdeBlock, Operator, Precision, Shape};
use gains_ode::system::{NeuralDynamics, trial_step};
use gains_ode::{Carrier, Inference, Tableau};
use gains_testkit::{Gardener, Kinds, controlled, fixed, random_model};
use gains_verify::forms::{FormSteps, FormValues, Travelling};
use gains_verify::limits::Clock;
use gains_verify::{Budget, Method, StepForm};

use crate::region::{ARITHMETICS, analyse, point, property, random_region, to_float32, value};

/// The values of the input's symbols at a point: symbols are numbered from 1 in the order of the entries that
/// are not single numbers.
fn assignment(region: &BoxVec, point: &[f64]) -> Vec<f64> {
    let mut symbols = Symbols::default();
    let mut values = vec![0.0];
    for i in 0..region.len() {
        let side = BoxVec::new(vec![region.lower[i]], vec![region.upper[i]]);
        if AffineForm::from_box(&side, &mut symbols).order() == 1 {
            let centre = 0.5 * region.lower[i] + 0.5 * region.upper[i];
            let radius = (region.upper[i] - centre).max(centre - region.lower[i]);
            values.push(((point[i] - centre) / radius).clamp(-1.0, 1.0));
        }
    }
    values
}

/// Points computed in float64 may be off by their own rounding, and by that of their symbols' values.
fn inside(b: &BoxVec, point: &[f64]) -> bool {
    let close = |x: f64| 1e-12 * (1.0 + x.abs());
    point.iter().enumerate().all(|(i, x)| b.lower[i] - close(*x) <= *x && *x <= b.upper[i] + close(*x))
}

fn known(values: &[f64]) -> impl Fn(Symbol) -> Option<f64> + '_ {
    |symbol| values.get(symbol as usize).copied()
}

fn linear_map(random: &mut fastrand::Rng, inputs: usize, outputs: usize) -> AffineMap {
    let mut draw = |n: usize| -> Vec<f64> { (0..n).map(|_| 2.0 * random.f64() - 1.0).collect() };
    let (weights, bias) = (draw(inputs * outputs), draw(outputs));
    AffineMap::Conv(
        gains_core::affine::Conv2d::linear_layer(inputs, &weights, &bias, false).expect("weights fit"),
    )
}

/// Sums, maps, joins and compressions of forms hold what they do to points.
#[test]
fn operations_on_forms_hold_the_same_operations_on_points() {
    let mut random = fastrand::Rng::with_seed(901);
    for round in 0..400 {
        let n = random.usize(1..7);
        let region = random_region(&mut random, n, [0.5, 1e-3, 1e-9][round % 3]);
        let mut symbols = Symbols::default();
        let x = AffineForm::from_box(&region, &mut symbols);
        let (first, second) = (linear_map(&mut random, n, 6), linear_map(&mut random, n, 6));
        let matrix = first.to_matrix();
        let dense = random.bool().then_some(&matrix);
        let a = x.affine(&first, dense, 0.0, Arithmetic::Real, false);
        let b = x.affine(&second, None, 0.0, Arithmetic::Real, false);
        let (c, d) = (random.f64() - 0.5, random.f64() - 0.5);
        let sum = AffineForm::combination(Some(&a), &[(c, &b), (d, &a)], Arithmetic::Real);
        let mut passing = vec![Passing::default(); 6];
        for p in &mut passing {
            *p = Passing {
                slope: 2.0 * random.f64() - 1.0,
                offset: random.f64(),
                radius: 0.1 * random.f64(),
                as_change: false,
                named: random.bool(),
            };
        }
        let everything = BoxVec::new(vec![-1e9; 6], vec![1e9; 6]);
        let passed = a.pass(&passing, everything, None, &mut symbols);
        let joined = a.join(&b, &mut symbols);
        let kept: Vec<Symbol> = (1..=n as Symbol).filter(|_| random.bool()).collect();
        let mut compressed = passed.clone();
        compressed.compress(&kept, &mut symbols);
        let mut named = compressed.clone();
        named.name_remainders(0.0, &mut symbols);
        let mut retained = passed.clone();
        retained.retain(&kept);
        let row: Vec<f64> = (0..6).map(|_| random.f64() - 0.5).collect();
        for _ in 0..8 {
            let p = point(&mut random, &region);
            let values = assignment(&region, &p);
            let (ya, yb) = (first.apply(&p, 0.0), second.apply(&p, 0.0));
            let at = |f: &AffineForm| f.slice(known(&values));
            assert!(inside(&at(&a), &ya) && inside(&at(&b), &yb), "round {round}: maps");
            let ys: Vec<f64> = ya.iter().zip(&yb).map(|(a, b)| a + c * b + d * a).collect();
            assert!(inside(&at(&sum), &ys), "round {round}: sum");
            let width = at(&a).width();
            assert!(width < 1e-11, "round {round}: a map loses nothing, but {width}");
            assert!(inside(&at(&joined), &ya) && inside(&at(&joined), &yb), "round {round}: join");
            let noise: Vec<f64> = (0..6).map(|_| 2.0 * random.f64() - 1.0).collect();
            let yp: Vec<f64> = (0..6)
                .map(|j| passing[j].slope * ya[j] + passing[j].offset + noise[j] * passing[j].radius)
                .collect();
            let partly = |s: Symbol| kept.binary_search(&s).ok().and_then(|_| known(&values)(s));
            for form in [&passed, &compressed, &named, &retained] {
                assert!(inside(&form.slice(partly), &yp), "round {round}: passed");
                let value: f64 = row.iter().zip(&yp).map(|(r, y)| r * y).sum();
                let bounds = form.functional(&row);
                assert!(bounds.lower - 1e-12 <= value && value <= bounds.upper + 1e-12, "round {round}: row");
            }
            let entries: Vec<usize> = (0..6).collect();
            for (j, d) in a.apart(&b, &entries).iter().enumerate() {
                assert!(d.lower - 1e-12 <= ya[j] - yb[j] && ya[j] - yb[j] <= d.upper + 1e-12);
            }
        }
    }
}

/// Compressed forms are not much larger than they need to be: a square turned by an eighth stays one.
#[test]
fn compressing_follows_the_longest_generators() {
    let mut symbols = Symbols::default();
    let x = AffineForm::from_box(&BoxVec::new(vec![-1.0; 2], vec![1.0; 2]), &mut symbols);
    let s = 0.5_f64.sqrt();
    let turn = gains_core::affine::Conv2d::linear_layer(2, &[s, s, -s, s], &[0.0; 2], false).unwrap();
    let mut turned = x.affine(&AffineMap::Conv(turn), None, 0.0, Arithmetic::Real, false);
    turned.compress(&[], &mut symbols);
    assert_eq!(turned.order(), 2);
    assert!(turned.functional(&[s, s]).upper < 1.0 + 1e-12);
    assert!(turned.bounds.upper[0] < 2.0 * s + 1e-12);
}

/// What a circuit makes of a form, one operator after the other; `None` if it overflows.
fn forward(
    circuit: &Circuit,
    input: AffineForm,
    arithmetic: Arithmetic,
    symbols: &mut Symbols,
) -> Option<AffineForm> {
    let mut values = vec![input];
    for (_, node) in circuit.nodes() {
        let arguments: Vec<&AffineForm> = node.from.iter().map(|&v| &values[v]).collect();
        let formed = Forming { time: 0.0, arithmetic, then_relu: false, matrix: None, stop: &|| false };
        let form = node.operator.form(&arguments, None, formed, symbols);
        values.push(form);
    }
    Some(values.swap_remove(circuit.output())).filter(AffineForm::is_sane)
}

/// States and error estimates of random steps, in both arithmetics, several steps in a row, accepted or
/// rejected at random: with the pixels known the form must hold the state.
#[test]
fn states_and_estimates_of_solver_steps_stay_inside() {
    let mut random = fastrand::Rng::with_seed(902);
    let mut checked = 0;
    for round in 0..300 {
        let model = random_model(&mut random, Kinds::All);
        let network = model.network();
        let Some((made, ode)) = network.body.odes().next() else { continue };
        let start = network.body.node(made).expect("an ODE is a node").from[0];
        let front = network.body.front(start).expect("no ODE comes before the first");
        let block = &*ode.block;
        let tableau = Tableau::of(block.solver.method);
        let width = [0.3, 0.03, 1e-4][round % 3];
        let region = random_region(&mut random, model.inputs(), width);
        for arithmetic in ARITHMETICS {
            let precision = match arithmetic {
                Arithmetic::Real => Precision::Float64,
                Arithmetic::Float32 => Precision::Float32,
            };
            let mut symbols = Symbols::default();
            let input = AffineForm::from_box(&region, &mut symbols);
            let Some(form) = forward(&front, input, arithmetic, &mut symbols) else { continue };
            let points: Vec<Vec<f64>> = (0..6)
                .filter_map(|_| {
                    let p = point(&mut random, &region);
                    if precision == Precision::Float32 { to_float32(&p, &region) } else { Some(p) }
                })
                .collect();
            let assignments: Vec<Vec<f64>> = points.iter().map(|p| assignment(&region, p)).collect();
            let mut states: Vec<Vec<f64>> = points
                .iter()
                .map(|p| Inference::run(&network, p, precision).unwrap().values[start].clone())
                .collect();
            let most_symbols = [20, 1000][random.usize(0..2)];
            let mut travelling = Travelling::new(form, &mut symbols);
            let clock = Clock::start(Budget::default());
            let mut steps = FormSteps::new(block, 0.01, arithmetic, clock, &mut symbols);
            steps.most_symbols = most_symbols;
            let system = NeuralDynamics { circuit: &block.dynamics, precision };
            let (mut time, mut step) = (0.0, 0.25);
            for number in 0..5 {
                let wants = tableau.estimates_error();
                if let Some(state) = states.first().filter(|_| wants) {
                    // Whether a sum is above or below something is looked into where it is not plain.
                    let reached = trial_step(&system, tableau, time, step, state, None).error;
                    steps.thresholds = [0.3, 0.7, 0.95, 1.05, 1.5, 3.0].map(|share| share * reached).to_vec();
                }
                let Ok(result) = steps.step(&travelling, time, step, wants) else { break };
                let (accepted, rejected) = (result.state, result.rejected.unwrap_or(travelling));
                let accept = !random.u8(..).is_multiple_of(3);
                for (state, values) in states.iter_mut().zip(&assignments) {
                    let trial = trial_step(&system, tableau, time, step, state, None);
                    if let Some(error) = result.error {
                        let reached = trial.error / 0.01;
                        let slack = 1e-10 * (1.0 + reached);
                        assert!(
                            error.lower - slack <= reached && reached <= error.upper + slack,
                            "{round}: estimate"
                        );
                    }
                    let next = if accept { &accepted } else { &rejected };
                    if accept {
                        *state = trial.state;
                    }
                    let slice = next.state.slice(known(values));
                    assert!(inside(&slice, state), "round {round} step {number} {arithmetic}: state");
                    checked += 1;
                }
                if accept {
                    travelling = accepted;
                    time += step;
                } else {
                    travelling = rejected;
                    step *= 0.5;
                }
            }
        }
    }
    println!("{checked} states checked");
    assert!(checked > 5000, "{checked}");
}

/// A ReLU that is open in two evaluations of the same point is relaxed once: the second is the first.
#[test]
fn a_second_look_at_the_same_states_opens_nothing_new() {
    let mut symbols = Symbols::default();
    let x = AffineForm::from_box(&BoxVec::new(vec![-1.0], vec![2.0]), &mut symbols);
    let mut dynamics = Circuit::of("state", Shape::flat(1));
    dynamics.push(Operator::Curve(Activation::Relu), vec![0], Shape::flat(1));
    let block = OdeBlock::new(dynamics, fixed(RungeKutta::Euler, 1));
    let clock = Clock::start(Budget::default());
    let mut steps = FormSteps::new(&block, 1.0, Arithmetic::Real, clock, &mut symbols);
    let mut look = |near: Option<&FormValues>| steps.evaluate(x.clone(), 0.0, near).unwrap();
    let first = look(None);
    let second = look(Some(&first));
    let apart = second.output().apart(first.output(), &[0])[0];
    assert!(apart.magnitude() < 1e-12, "{apart:?}");
    let alone = look(None);
    assert!(alone.output().order() > first.output().order() - 1);
}

/// Coarse steps under a loose tolerance: neighbours end far apart, on different ways through the solver. What
/// stands for all of them afterwards must hold each, where few ways are kept apart and where many meet.
#[test]
fn forms_that_meet_hold_the_points_of_every_way() {
    let mut random = fastrand::Rng::with_seed(407);
    let mut ways = 0;
    for round in 0..900 {
        let shape = Shape::flat(2);
        let mut g = Gardener::new(&mut random, Kinds::Piecewise, shape);
        let mut layers = Vec::new();
        for _ in 0..2 {
            let mut ode = g.ode();
            if let LayerSpec::Ode { solver, .. } = &mut ode {
                let tolerance = 0.02 + 0.3 * g.random.f64();
                let step = 0.15 + 0.3 * g.random.f64();
                *solver = controlled(RungeKutta::Heun, 2, tolerance, step, 1);
            }
            layers.push(ode);
        }
        layers.push(g.linear(2, false));
        let model = g.finish(shape, layers);
        let network = model.network();
        let region = random_region(&mut random, 2, [0.4, 1.5, 0.8][round % 3]);
        let property = property(&mut random, 2);
        let mode = (Method::Symbolic, StepForm::Independent);
        let found = analyse(&network, &region, &property, mode, Arithmetic::Real);
        let Ok((analysis, lower)) = found else { continue };
        let ends = analysis.graphs().next().map_or(0, |g| g.edges.iter().filter(|e| e.to.is_none()).count());
        ways += usize::from(ends > 1);
        for _ in 0..60 {
            let x = point(&mut random, &region);
            let run = Inference::run(&network, &x, Precision::Float64).expect("the network runs");
            for (row, bound) in property.rows.iter().zip(&lower) {
                let reached = value(row, &run.output);
                assert!(
                    reached >= bound - 1e-11 * (1.0 + bound.abs()),
                    "round {round}: {reached} below {bound}"
                );
            }
            // One block starts where the other ends.
            let met = run.solutions().next().map(|solution| solution.state.clone());
            let graph = analysis.graphs().nth(1).expect("two graphs");
            for (i, x) in met.into_iter().flatten().enumerate() {
                let b = graph.vertices[0].state.get(i);
                assert!(b.lower - 1e-11 <= x && x <= b.upper + 1e-11, "round {round}: {x} not in {b:?}");
            }
        }
    }
    println!("{ways} regions with several ways");
    assert!(ways > 200, "{ways}");
}
