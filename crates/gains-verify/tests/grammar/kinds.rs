//! Dynamics of other kinds than the authors': one network of each, loaded, run, bounded in every way and attacked.

use std::time::Duration;

use gains_core::description::LayerSpec;
use gains_core::{Arithmetic, BoxVec, Interval, Precision, Rows, Shape, Support};
use gains_ode::Inference;
use gains_testkit::grammar::ImageCase;
use gains_testkit::{Model, random_tensors};
use gains_verify::limits::Clock;
use gains_verify::{Analysis, Budget};
use serde_json::{Value, json};

use crate::failure::{Subject, Tally};
use crate::{adapter, points};

fn layers(text: Value) -> Vec<LayerSpec> {
    serde_json::from_value(text).expect("layers")
}

fn linear(name: &str, inputs: usize, outputs: usize) -> Value {
    json!({"type": "linear", "name": name, "in_features": inputs, "out_features": outputs})
}

fn timed(name: &str, inputs: usize, outputs: usize) -> Value {
    json!({"type": "linear", "name": name, "in_features": inputs, "out_features": outputs, "time": true})
}

fn conv(name: &str, inputs: usize, outputs: usize) -> Value {
    json!({"type": "conv2d", "name": name, "in_channels": inputs, "out_channels": outputs, "kernel": [3, 3],
           "padding": [1, 1], "time": true})
}

fn ode(dynamics: Vec<Value>) -> Value {
    json!({"type": "ode", "dynamics": dynamics, "solver": {"method": "dopri5", "end_time": 1.0, "controller": {
        "type": "controlled_adaptive", "factor": 2, "tolerance": 0.05, "initial_step": 0.25, "minimum_step": 0.05,
        "rejections_after_clipping": 1}}})
}

fn branches(join: &str, all: Vec<Vec<Value>>) -> Value {
    json!({"type": "parallel", "join": join, "branches": all})
}

/// Bounds the outputs around a point by every method, in both arithmetics, and attacks every bound.
fn check(input: Shape, all: Value, outputs: usize, adjust: impl Fn(&mut Model)) -> Tally {
    let (mut model, centre) = drawn(input, all, outputs);
    adjust(&mut model);
    check_within(&model, &centre, [1e-3, 0.05])
}

/// A network with random weights, and an input.
fn drawn(input: Shape, all: Value, outputs: usize) -> (Model, Vec<f64>) {
    let all = layers(all);
    let mut random = fastrand::Rng::with_seed(11);
    let tensors = random_tensors(&all, &mut random);
    let centre = (0..input.len()).map(|_| f64::from(random.f32())).collect();
    (Model::new(input, all, tensors, outputs), centre)
}

fn check_within(model: &Model, centre: &[f64], radii: [f64; 2]) -> Tally {
    let free = vec![true; centre.len()];
    let mut tally = Tally::default();
    for radius in radii {
        let case = ImageCase {
            model: model.clone(),
            centre: centre.to_vec(),
            radius,
            free: free.clone(),
            range: Interval::new(-10.0, 10.0),
            seed: 5,
        };
        tally.add(&case.check().unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{tally:?}");
    // The small region at least, by some methods: how many depends on how fast the machine is.
    assert!(tally.bounded >= 6, "{tally:?}");
    tally
}

#[test]
fn the_time_as_sines() {
    let sines = |dynamics: &str, f: &str| vec![timed(dynamics, 3, 2), json!({"type": f})];
    let features = branches("concat", vec![vec![], sines("sines", "sin"), sines("cosines", "cos")]);
    let all = json!([
        linear("in", 2, 3),
        ode(vec![features, linear("f1", 7, 5), json!({"type": "tanh"}), linear("f2", 5, 3)]),
        linear("out", 3, 2)
    ]);
    check(Shape::flat(2), all, 2, |model| {
        // Features of the time alone: the state has no weight.
        for name in ["sines.weight", "cosines.weight"] {
            let (_, values) = model.tensors.get_mut(name).unwrap();
            values
                .iter_mut()
                .enumerate()
                .for_each(|(i, w)| *w = if i % 4 == 0 { 1.0 + i as f64 } else { 0.0 });
        }
    });
}

/// `(x, v)' = (v, acceleration(x, v))`.
#[test]
fn dynamics_of_second_order() {
    let velocity = vec![json!({"type": "slice", "first": 2, "length": 2})];
    let acceleration = vec![linear("a1", 4, 5), json!({"type": "softplus"}), linear("a2", 5, 2)];
    let all = json!([
        json!({"type": "pad", "after": 2}),
        ode(vec![branches("concat", vec![velocity, acceleration])]),
        json!({"type": "slice", "first": 0, "length": 2})
    ]);
    check(Shape::flat(2), all, 2, |_| {});
}

/// `(q, p)' = (∂H/∂p, −∂H/∂q)` for `H = a·Σ ln cosh(W(q, p) + b)`, whose gradient is `a·Wᵀ tanh(W(q, p) + b)`.
#[test]
fn hamiltonian_dynamics() {
    let part = |first: usize| json!({"type": "slice", "first": first, "length": 2});
    let gradient = vec![linear("w", 4, 5), json!({"type": "tanh"}), linear("wt", 5, 4)];
    let swapped = branches("concat", vec![vec![part(2)], vec![part(0), linear("minus", 2, 2)]]);
    let mut dynamics = gradient;
    dynamics.push(swapped);
    let all = json!([ode(dynamics), linear("out", 4, 2)]);
    check(Shape::flat(4), all, 2, |model| {
        let weights = model.tensors["w.weight"].1.clone();
        let transposed = (0..20).map(|i| 0.5 * weights[i % 5 * 4 + i / 5]).collect();
        model.tensors.insert("wt.weight".into(), (vec![4, 5], transposed));
        model.tensors.insert("wt.bias".into(), (vec![4], vec![0.0; 4]));
        model.tensors.insert("minus.weight".into(), (vec![2, 2], vec![-1.0, 0.0, 0.0, -1.0]));
        model.tensors.insert("minus.bias".into(), (vec![2], vec![0.0; 2]));
    });
}

#[test]
fn skip_connections_inside_dynamics() {
    let deep = vec![linear("f1", 4, 4), json!({"type": "silu"}), linear("f2", 4, 4), json!({"type": "gelu"})];
    let skipped = branches("add", vec![deep, vec![]]);
    let dense = branches("concat", vec![vec![], vec![linear("f3", 4, 3), json!({"type": "elu"})]]);
    let all = json!([linear("in", 3, 4), ode(vec![skipped, dense, linear("f4", 7, 4)]), linear("out", 4, 3)]);
    check(Shape::flat(3), all, 3, |_| {});
}

/// The residual blocks of ODE-Net (Chen et al. 2018), on a small image: normalised by group before every activation. Four
/// equal steps of Euler's method.
fn ode_net() -> (Model, Vec<f64>) {
    let norm = |name: &str| json!({"type": "group_norm", "name": name, "groups": 2, "channels": 4});
    let relu = || json!({"type": "relu"});
    let dynamics =
        vec![norm("n1"), relu(), conv("c1", 4, 4), norm("n2"), relu(), conv("c2", 4, 4), norm("n3")];
    let mut block = ode(dynamics);
    block["solver"] =
        json!({"method": "euler", "end_time": 1.0, "controller": {"type": "fixed", "steps": 4}});
    let all = json!([
        conv("in", 1, 4),
        block,
        norm("n4"),
        relu(),
        json!({"type": "global_avg_pool"}),
        json!({"type": "flatten"}),
        linear("out", 4, 2)
    ]);
    drawn(Shape::image(4, 4, 1), all, 2)
}

#[test]
fn dynamics_normalised_by_group() {
    let (model, centre) = ode_net();
    check_within(&model, &centre, [1e-5, 1e-3]);
}

/// How much wider the proved interval of the margin is than what is seen, by method and radius.
#[test]
#[ignore = "prints a table"]
fn how_loose_normalisation_by_group_is() {
    let (model, centre) = ode_net();
    let network = model.network();
    let row = vec![vec![1.0, -1.0], vec![-1.0, 1.0]];
    for radius in [1e-6, 1e-5, 1e-4, 1e-3, 1e-2] {
        let region = BoxVec::ball(&centre, radius, Interval::new(-10.0, 10.0));
        let mut seen = Interval::point(f64::NAN);
        for point in points::points(&network, &region, &row, &centre, 3) {
            let output = Inference::run(&network, &point, Precision::Float64).unwrap().output;
            let margin = output[0] - output[1];
            seen = Interval::new(seen.lower.min(margin), seen.upper.max(margin));
        }
        for (method, form) in adapter::WAYS {
            let clock = Clock::start(Budget { timeout: Some(Duration::from_secs(60)), ..Budget::default() });
            let found =
                Analysis::new(&network.body, vec![region.clone()], method, form, Arithmetic::Real, clock)
                    .and_then(|analysis| {
                        analysis.bound(&Rows::new(Support::full(Shape::flat(2)), row.concat()))
                    });
            match found {
                Ok(bounds) => {
                    let width = -bounds.lower[1] - bounds.lower[0];
                    let ratio = width / (seen.upper - seen.lower);
                    println!("{radius:e} {method:?} {form:?}: {width:.2e}, {ratio:.1} times what is seen");
                }
                Err(reason) => println!("{radius:e} {method:?} {form:?}: {reason}"),
            }
        }
    }
}

/// Batch normalisation inside the dynamics, pooling by maximum in front.
#[test]
fn dynamics_normalised_by_batch() {
    let norm = |name: &str| json!({"type": "batch_norm", "name": name, "channels": 3});
    let pool = json!({"type": "max_pool2d", "kernel": [2, 2], "stride": [2, 2]});
    let dynamics =
        vec![norm("n1"), json!({"type": "relu"}), conv("c1", 3, 3), norm("n2"), json!({"type": "tanh"})];
    let all = json!([
        conv("in", 1, 3),
        norm("n0"),
        pool,
        ode(dynamics),
        json!({"type": "flatten"}),
        linear("out", 12, 2)
    ]);
    check(Shape::image(4, 4, 1), all, 2, |_| {});
}
