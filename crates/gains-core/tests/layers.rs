//! Layers compute what their definitions say, written down a second time over images listed channel by channel; what
//! makes no sense is refused.

use gains_core::description::LayerSpec;
use gains_core::model_file::{Tensors, build, read_model, write_model};
use gains_core::{Description, ModelError, Network, Precision, Shape, Step};
use serde_json::{Value, json};

const IMAGE: Shape = Shape::image(3, 4, 4);

fn description(input: Shape, outputs: usize, layers: &Value) -> Description {
    let classes: Vec<String> = (0..outputs).map(|i| i.to_string()).collect();
    serde_json::from_value(json!({
        "format": "gains-model", "version": 2, "name": "t", "input": input, "layers": layers,
        "task": {"type": "classification", "classes": classes},
    }))
    .expect("a description")
}

fn load(input: Shape, outputs: usize, layers: &Value, tensors: &Tensors) -> Result<Network, ModelError> {
    build(description(input, outputs, layers), tensors, String::new())
}

fn evaluate(network: &Network, x: &[f64]) -> Vec<f64> {
    let mut values = vec![x.to_vec()];
    for (_, node) in network.body.nodes() {
        let Step::Plain(operator) = &node.operator else { panic!("no ODE here") };
        let arguments: Vec<&[f64]> = node.from.iter().map(|&v| &values[v][..]).collect();
        values.push(operator.evaluate(&arguments, 0.0, Precision::Float64));
    }
    values.swap_remove(network.body.output())
}

/// From channel by channel to the order of memory.
fn in_memory(shape: Shape, listed: &[f64]) -> Vec<f64> {
    let place = |i: usize| i % shape.channels * shape.positions() + i / shape.channels;
    (0..shape.len()).map(|i| listed[place(i)]).collect()
}

/// Entry `(channel, row, column)` of an image listed channel by channel.
fn at(shape: Shape, image: &[f64], channel: usize, row: usize, column: usize) -> f64 {
    image[(channel * shape.height + row) * shape.width + column]
}

fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| 4.0 * random.f64() - 2.0).collect()
}

/// What a network of these layers makes of an image, and what it should.
fn check(layers: Value, tensors: &Tensors, after: Shape, expected: impl Fn(&[f64]) -> Vec<f64>) {
    let network = load(IMAGE, after.len(), &layers, tensors).unwrap_or_else(|e| panic!("{layers}: {e}"));
    assert_eq!(network.body.output_shape(), after, "{layers}");
    for seed in 0..4 {
        let listed = numbers(IMAGE.len(), seed);
        let ours = evaluate(&network, &in_memory(IMAGE, &listed));
        let naive = in_memory(after, &expected(&listed));
        for (a, b) in ours.iter().zip(&naive) {
            assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{layers}: {a} for {b}");
        }
    }
}

fn plain(layer: Value, after: Shape, expected: impl Fn(&[f64]) -> Vec<f64>) {
    check(json!([layer]), &Tensors::new(), after, expected);
}

/// `1/√(2π)·∫ e^(−t²/2)` up to `x`, by Simpson's rule.
fn normal_below(x: f64) -> f64 {
    let (from, count) = (-12.0, 4000);
    let step = (x - from) / f64::from(count);
    let density = |k: i32| (-(from + step * f64::from(k)).powi(2) / 2.0).exp();
    let weight = |k: i32| if k == 0 || k == count { 1.0 } else { 2.0 + 2.0 * f64::from(k % 2) };
    let sum: f64 = (0..=count).map(|k| weight(k) * density(k)).sum();
    sum * step / 3.0 / (2.0 * std::f64::consts::PI).sqrt()
}

#[test]
fn activations() {
    let each = |f: fn(f64) -> f64| move |x: &[f64]| x.iter().map(|x| f(*x)).collect::<Vec<f64>>();
    plain(json!({"type": "softplus"}), IMAGE, each(|x| (1.0 + x.exp()).ln()));
    plain(json!({"type": "silu"}), IMAGE, each(|x| x / (1.0 + (-x).exp())));
    plain(json!({"type": "gelu"}), IMAGE, each(|x| x * normal_below(x)));
    let tanh =
        |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
    plain(json!({"type": "gelu", "approximate": "tanh"}), IMAGE, each(tanh));
    plain(json!({"type": "elu"}), IMAGE, each(|x| if x > 0.0 { x } else { x.exp() - 1.0 }));
    plain(
        json!({"type": "elu", "alpha": 0.25}),
        IMAGE,
        each(|x| if x > 0.0 { x } else { 0.25 * (x.exp() - 1.0) }),
    );
    plain(json!({"type": "sin"}), IMAGE, each(f64::sin));
    plain(json!({"type": "cos"}), IMAGE, each(f64::cos));
    plain(json!({"type": "square"}), IMAGE, each(|x| x * x));
    plain(json!({"type": "clamp", "low": -0.5, "high": 1.25}), IMAGE, each(|x| x.clamp(-0.5, 1.25)));
    plain(json!({"type": "hardtanh"}), IMAGE, each(|x| x.clamp(-1.0, 1.0)));
    plain(json!({"type": "relu6"}), IMAGE, each(|x| x.clamp(0.0, 6.0)));
}

/// Numbers that PyTorch 2 prints.
#[test]
fn activations_of_pytorch() {
    let known = [
        (json!({"type": "gelu"}), 1.0, 0.841_344_746_068_542_9),
        (json!({"type": "gelu"}), -0.5, -0.154_268_769_362_993_44),
        (json!({"type": "gelu", "approximate": "tanh"}), 1.0, 0.841_191_990_608_276_8),
        (json!({"type": "silu"}), -1.0, -0.268_941_421_369_995_1),
        (json!({"type": "softplus"}), 1.0, 1.313_261_687_518_222_8),
    ];
    for (layer, x, y) in known {
        let network = load(Shape::flat(2), 2, &json!([layer]), &Tensors::new()).expect("a network");
        assert!((evaluate(&network, &[x, x])[0] - y).abs() < 1e-12, "{layer} at {x}");
    }
}

/// Which `(channel, row, column)` an entry is taken from; none for zero.
type Take = fn(usize, usize, usize) -> Option<(usize, usize, usize)>;

#[test]
fn entries_are_moved() {
    let copy = |from: Shape, to: Shape, take: Take| {
        move |x: &[f64]| {
            let mut listed = Vec::new();
            for (c, row, column) in (0..to.channels)
                .flat_map(|c| (0..to.height).flat_map(move |y| (0..to.width).map(move |x| (c, y, x))))
            {
                listed.push(take(c, row, column).map_or(0.0, |(c, y, z)| at(from, x, c, y, z)));
            }
            listed
        }
    };
    let channels = Shape { channels: 2, ..IMAGE };
    plain(
        json!({"type": "slice", "first": 1, "length": 2}),
        channels,
        copy(IMAGE, channels, |c, y, x| Some((c + 1, y, x))),
    );
    let deep = Shape { channels: 7, ..IMAGE };
    let inside = |c: usize, y: usize, x: usize| (1..5).contains(&c).then(|| (c - 1, y, x));
    plain(json!({"type": "pad", "before": 1, "after": 2}), deep, copy(IMAGE, deep, inside));
    let wide = Shape::image(5, 5, 4);
    let inside = |c: usize, y: usize, x: usize| ((2..5).contains(&y) && x < 4).then(|| (c, y - 2, x));
    plain(json!({"type": "pad", "rows": [2, 0], "columns": [0, 1]}), wide, copy(IMAGE, wide, inside));
    let other = Shape::image(2, 3, 8);
    plain(json!({"type": "reshape", "to": other}), other, |x| x.to_vec());
    let flat = Shape::flat(48);
    plain(json!({"type": "reshape", "to": flat}), flat, |x| x.to_vec());
    check(json!([{"type": "flatten"}, {"type": "reshape", "to": IMAGE}]), &Tensors::new(), IMAGE, |x| {
        x.to_vec()
    });
}

#[test]
fn branches_of_images() {
    let twice = Shape { channels: 6, ..IMAGE };
    let both = json!([{"type": "parallel", "join": "concat", "branches": [
        [], [{"type": "slice", "first": 2, "length": 2}, {"type": "sin"}]]}]);
    check(both, &Tensors::new(), twice, |x| {
        let sines = x[2 * IMAGE.positions()..].iter().map(|x| x.sin());
        x.iter().copied().chain(sines).collect()
    });
    let largest = json!([{"type": "parallel", "join": "max", "branches": [
        [], [{"type": "cos"}], [{"type": "square"}]]}]);
    check(largest, &Tensors::new(), IMAGE, |x| x.iter().map(|x| x.max(x.cos()).max(x * x)).collect());
}

#[test]
fn pooling_by_maximum() {
    for (kernel, stride, padding) in [
        ([2, 2], [2, 2], [0, 0]),
        ([3, 2], [1, 2], [1, 1]),
        ([3, 4], [2, 1], [1, 2]),
        ([1, 3], [1, 1], [0, 1]),
    ] {
        let count = |size: usize, i: usize| (size + 2 * padding[i] - kernel[i]) / stride[i] + 1;
        let after = Shape::image(count(IMAGE.height, 0), count(IMAGE.width, 1), IMAGE.channels);
        let layer = json!({"type": "max_pool2d", "kernel": kernel, "stride": stride, "padding": padding});
        plain(layer, after, |x| {
            let mut pooled = Vec::new();
            for c in 0..after.channels {
                for (y, z) in (0..after.height).flat_map(|y| (0..after.width).map(move |z| (y, z))) {
                    let mut largest = f64::NEG_INFINITY;
                    for (i, j) in (0..kernel[0]).flat_map(|i| (0..kernel[1]).map(move |j| (i, j))) {
                        let row = (y * stride[0] + i).wrapping_sub(padding[0]);
                        let column = (z * stride[1] + j).wrapping_sub(padding[1]);
                        if row < IMAGE.height && column < IMAGE.width {
                            largest = largest.max(at(IMAGE, x, c, row, column));
                        }
                    }
                    pooled.push(largest);
                }
            }
            pooled
        });
    }
}

fn per_channel(name: &str, parts: &[&str]) -> Tensors {
    let tensor = |(k, part): (usize, &&str)| {
        let values = numbers(IMAGE.channels, 90 + k as u64);
        let positive = values.iter().map(|v| v.abs()).collect();
        (
            format!("{name}.{part}"),
            (vec![IMAGE.channels], if *part == "running_var" { positive } else { values }),
        )
    };
    parts.iter().enumerate().map(tensor).collect()
}

#[test]
fn batch_normalisation() {
    let all = per_channel("n", &["weight", "bias", "running_mean", "running_var"]);
    let number = |part: &str, c: usize| all[&format!("n.{part}")].1[c];
    let by_channel = |x: &[f64], f: &dyn Fn(usize, f64) -> f64| -> Vec<f64> {
        x.iter().enumerate().map(|(i, x)| f(i / IMAGE.positions(), *x)).collect()
    };
    let standard = |c: usize, x: f64, eps: f64| {
        (x - number("running_mean", c)) / (number("running_var", c) + eps).sqrt()
    };
    check(json!([{"type": "batch_norm", "name": "n", "channels": 4}]), &all, IMAGE, |x| {
        by_channel(x, &|c, x| standard(c, x, 1e-5) * number("weight", c) + number("bias", c))
    });
    let statistics = per_channel("n", &["-", "-", "running_mean", "running_var"])
        .into_iter()
        .filter(|(name, _)| name != "n.-")
        .collect();
    let layer = json!([{"type": "batch_norm", "name": "n", "channels": 4, "affine": false, "eps": 0.5}]);
    check(layer, &statistics, IMAGE, |x| by_channel(x, &|c, x| standard(c, x, 0.5)));
}

/// `(x − mean) / √(variance + eps)` of a list.
fn standardised(x: &[f64], eps: f64) -> Vec<f64> {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    x.iter().map(|x| (x - mean) / (variance + eps).sqrt()).collect()
}

#[test]
fn normalisation_of_groups_and_layers() {
    let tensors = per_channel("n", &["weight", "bias"]);
    for groups in [1, 2, 4] {
        let grouped = |x: &[f64], eps: f64| -> Vec<f64> {
            x.chunks(IMAGE.len() / groups).flat_map(|group| standardised(group, eps)).collect()
        };
        check(
            json!([{"type": "group_norm", "name": "n", "groups": groups, "channels": 4}]),
            &tensors,
            IMAGE,
            |x| {
                let number = |part: &str, i: usize| tensors[&format!("n.{part}")].1[i / IMAGE.positions()];
                let normal = grouped(x, 1e-5);
                normal.iter().enumerate().map(|(i, z)| z * number("weight", i) + number("bias", i)).collect()
            },
        );
        let bare = json!([{"type": "group_norm", "name": "", "groups": groups, "channels": 4, "eps": 0.25, "affine": false}]);
        check(bare, &Tensors::new(), IMAGE, |x| grouped(x, 0.25));
    }
    let shape = vec![IMAGE.channels, IMAGE.height, IMAGE.width];
    let entries = |seed: u64| (shape.clone(), numbers(IMAGE.len(), seed));
    let tensors: Tensors = [("n.weight".to_string(), entries(7)), ("n.bias".to_string(), entries(8))].into();
    check(json!([{"type": "layer_norm", "name": "n"}]), &tensors, IMAGE, |x| {
        let (weight, bias) = (&tensors["n.weight"].1, &tensors["n.bias"].1);
        standardised(x, 1e-5).iter().zip(weight).zip(bias).map(|((z, w), b)| z * w + b).collect()
    });
    let flat = |seed: u64| (vec![48], numbers(48, seed));
    let tensors: Tensors = [("n.weight".to_string(), flat(7)), ("n.bias".to_string(), flat(8))].into();
    check(
        json!([{"type": "flatten"}, {"type": "layer_norm", "name": "n", "eps": 1e-3}]),
        &tensors,
        Shape::flat(48),
        |x| {
            let (weight, bias) = (&tensors["n.weight"].1, &tensors["n.bias"].1);
            standardised(x, 1e-3).iter().zip(weight).zip(bias).map(|((z, w), b)| z * w + b).collect()
        },
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let statistics = per_channel("n", &["weight", "bias", "running_mean", "running_var"]);
    let refused = |layer: Value, tensors: &Tensors, word: &str| {
        let error = load(IMAGE, 48, &json!([layer]), tensors).expect_err("it makes no sense").to_string();
        assert!(error.contains(word), "{layer}: {error}");
    };
    let none = &Tensors::new();
    refused(json!({"type": "elu", "alpha": -1.0}), none, "alpha is -1");
    refused(json!({"type": "clamp", "low": 1.0, "high": 0.0}), none, "in order");
    refused(json!({"type": "clamp", "low": -1e300, "high": 0.0}), none, "from zero");
    refused(json!({"type": "slice", "first": 3, "length": 2}), none, "takes channels");
    refused(json!({"type": "slice", "first": 0, "length": 0}), none, "takes channels");
    refused(json!({"type": "slice", "first": usize::MAX, "length": 2}), none, "takes channels");
    refused(json!({"type": "pad", "before": usize::MAX}), none, "not a size");
    refused(json!({"type": "pad", "rows": [1_000_000, 1_000_000]}), none, "not a size");
    refused(
        json!({"type": "reshape", "to": {"height": 1, "width": 1, "channels": 47}}),
        none,
        "another number",
    );
    refused(json!({"type": "max_pool2d", "kernel": [2, 2], "stride": [0, 1]}), none, "stride positive");
    refused(json!({"type": "max_pool2d", "kernel": [65, 2], "stride": [1, 1]}), none, "kernel must be");
    refused(
        json!({"type": "max_pool2d", "kernel": [2, 2], "stride": [1, 1], "padding": [2, 0]}),
        none,
        "half of the kernel",
    );
    refused(json!({"type": "max_pool2d", "kernel": [9, 2], "stride": [1, 1]}), none, "does not fit");
    let norm = |kind: &str, more: Value| {
        let mut layer = json!({"type": kind, "name": "n", "channels": 4});
        layer.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        layer
    };
    refused(norm("batch_norm", json!({"eps": 0.0})), &statistics, "eps is 0");
    refused(norm("batch_norm", json!({"channels": 3})), &statistics, "expects 3 channels");
    refused(norm("batch_norm", json!({})), none, "'n.running_mean' is missing");
    let mut negative = statistics.clone();
    negative.get_mut("n.running_var").expect("it is there").1[2] = -1.0;
    refused(norm("batch_norm", json!({})), &negative, "must not be negative");
    refused(norm("group_norm", json!({"groups": 3})), &statistics, "into 3 groups");
    refused(norm("group_norm", json!({"groups": 0})), &statistics, "into 0 groups");
    refused(
        json!({"type": "parallel", "join": "max", "branches": [[], [{"type": "flatten"}]]}),
        none,
        "do not fit",
    );
    refused(
        json!({"type": "parallel", "join": "concat", "branches": [[], [{"type": "flatten"}]]}),
        none,
        "do not fit",
    );
}

/// A thousand small layers that ask for large tables, or tensors that nothing uses.
#[test]
fn tables_and_names_are_counted() {
    let many: Vec<Value> = (0..60)
        .map(|_| json!({"type": "max_pool2d", "kernel": [3, 3], "stride": [1, 1], "padding": [1, 1]}))
        .collect();
    let big = Shape::image(256, 256, 4);
    let error = load(big, big.len(), &json!(many), &Tensors::new()).expect_err("too large").to_string();
    assert!(error.contains("tables"), "{error}");
    let layers = json!([{"type": "batch_norm", "name": "n", "channels": 4, "affine": false}]);
    let tensors = per_channel("n", &["weight", "bias", "running_mean", "running_var"]);
    let error = write_model(&description(IMAGE, 48, &layers), &tensors).expect_err("unused").to_string();
    assert!(error.contains("no layer uses the tensors 'n.bias', 'n.weight'"), "{error}");
    let layers = json!([{"type": "batch_norm", "name": "n", "channels": 4}]);
    let bytes = write_model(&description(IMAGE, 48, &layers), &tensors).expect("a file");
    let network = read_model(&bytes).expect("it is read back");
    assert!(matches!(&network.description.layers[0], LayerSpec::BatchNorm { affine: true, .. }));
}
