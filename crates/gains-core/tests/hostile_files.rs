//! Model files that were written by mistake or with intent: names that are there twice, tensors nobody uses, and
//! small files that would unfold into large tables.
#![allow(clippy::unwrap_used)]

use gains_core::ModelError;
use gains_core::model_file::{read_model, read_parts, write_model};
use serde_json::{Value, json};

/// A tensor: name, shape and where its zeros are.
type Entry<'a> = (&'a str, Vec<usize>, std::ops::Range<usize>);

const ENTRIES: [(&str, &[usize], std::ops::Range<usize>); 2] =
    [("fc.weight", &[2, 2], 0..16), ("fc.bias", &[2], 16..24)];

fn entries() -> Vec<Entry<'static>> {
    ENTRIES.map(|(name, shape, at)| (name, shape.to_vec(), at)).into()
}

fn description() -> Value {
    json!({
        "format": "gains-model", "version": 1, "name": "small",
        "task": {"type": "classification", "classes": ["a", "b"]},
        "input": {"height": 1, "width": 1, "channels": 2},
        "layers": [{"type": "linear", "name": "fc", "in_features": 2, "out_features": 2}],
    })
}

/// A file written by hand: JSON that no library would write is possible.
fn by_hand(metadata: &str, entries: &[Entry<'_>]) -> Vec<u8> {
    let mut header = format!("{{\"__metadata__\":{metadata}");
    for (name, shape, at) in entries {
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [at.start, at.end]});
        header += &format!(",{}:{entry}", json!(name));
    }
    header.push('}');
    let end = entries.iter().map(|(_, _, at)| at.end).max().unwrap_or(0);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + end, 0);
    bytes
}

fn file(description: &Value, entries: &[Entry<'_>]) -> Vec<u8> {
    by_hand(&json!({"gains": description.to_string()}).to_string(), entries)
}

fn refusal(bytes: &[u8]) -> String {
    read_parts(bytes).expect_err("either reader refuses");
    read_model(bytes).expect_err("the file is wrong").to_string()
}

#[test]
fn the_file_the_others_are_spoiled_from_is_read() {
    assert_eq!(read_model(&file(&description(), &entries())).unwrap().outputs(), 2);
}

#[test]
fn a_tensor_that_is_there_twice_is_named() {
    // Both entries point at the same bytes, so that nothing else is wrong.
    let mut twice = entries();
    twice.push(twice[1].clone());
    let message = refusal(&file(&description(), &twice));
    assert!(message.contains("'fc.bias' is there twice"), "{message}");
}

#[test]
fn two_descriptions_in_one_file_are_refused() {
    let text = json!(description().to_string());
    let message = refusal(&by_hand(&format!("{{\"gains\":{text},\"gains\":{text}}}"), &entries()));
    assert!(message.contains("'gains' is there twice"), "{message}");
    let metadata = format!("{{\"gains\":{text}}},\"__metadata__\":{{\"gains\":{text}}}");
    let message = refusal(&by_hand(&metadata, &entries()));
    assert!(message.contains("'__metadata__' is there twice"), "{message}");
}

#[test]
fn tensors_that_no_layer_uses_are_named() {
    let mut more = entries();
    for (index, name) in ["old.weight", "fc.weights", "z", "a"].into_iter().enumerate() {
        more.push((name, vec![1], 24 + 4 * index..28 + 4 * index));
    }
    let message = refusal(&file(&description(), &more));
    assert_eq!(message, "no layer uses the tensors 'a', 'fc.weights', 'old.weight' and 1 more");
}

#[test]
fn two_layers_with_the_same_weights_are_named() {
    let mut shared = description();
    let layer = shared["layers"][0].clone();
    shared["layers"] = json!([layer, {"type": "relu"}, layer]);
    let message = refusal(&file(&shared, &entries()));
    assert!(message.contains("'fc' belong to layer 0 (linear) and to layer 2 (linear)"), "{message}");
    let mut inside = description();
    let solver = json!({"method": "euler", "controller": {"type": "fixed", "steps": 1}, "end_time": 1.0});
    inside["layers"] = json!([{"type": "ode", "dynamics": [layer], "solver": solver}, layer]);
    let message = refusal(&file(&inside, &entries()));
    assert!(message.contains("layer 0 (ode) dynamics 0 (linear) and to layer 1 (linear)"), "{message}");
}

#[test]
fn names_that_are_there_twice_are_told() {
    let mut spoiled = description();
    spoiled["task"]["classes"] = json!(["a", "a"]);
    assert_eq!(refusal(&file(&spoiled, &entries())), "the class 'a' is named twice");
    spoiled["task"] = json!({"type": "forecasting", "features": ["x", "y", "x"], "statics": []});
    assert_eq!(refusal(&file(&spoiled, &entries())), "the feature 'x' is named twice");
    spoiled["task"] = json!({"type": "forecasting", "features": ["x"], "statics": ["s", "s"]});
    assert_eq!(refusal(&file(&spoiled, &entries())), "the static 's' is named twice");
}

/// Derived parsers would take these: another program, which lists things in another order, for another network.
#[test]
fn types_are_text_and_objects_have_their_names() {
    let fc = description()["layers"][0].clone();
    let inside = json!([{"type": "parallel", "join": "add", "branches": [[{"type": 8}]]}, fc]);
    let solver = json!(["euler", {"type": "fixed", "steps": 1}, 1.0]);
    let fixed = json!({"method": "euler", "controller": ["fixed", 1], "end_time": 1.0});
    let ode = |solver: &Value| json!([{"type": "ode", "dynamics": [], "solver": solver}, fc]);
    for (key, value, place) in [
        ("layers", inside, "layers[0].branches[0][0].type"),
        ("layers", json!([["relu"], fc]), "layers[0]"),
        ("layers", ode(&solver), "layers[0].solver"),
        ("layers", ode(&fixed), "layers[0].solver.controller"),
        ("input", json!([1, 1, 2]), "input"),
        ("task", json!(["classification", ["a", "b"]]), "task"),
    ] {
        let mut odd = description();
        odd[key] = value;
        let message = refusal(&file(&odd, &entries()));
        assert!(message.contains(&format!("{place} is not what belongs there")), "{message}");
    }
}

#[test]
fn what_could_not_be_read_back_is_not_written() {
    let (good, tensors) = read_parts(&file(&description(), &entries())).unwrap();
    assert!(write_model(&good, &tensors).is_ok());
    let mut more = tensors.clone();
    more.insert("x".into(), (vec![1], vec![0.0]));
    assert!(matches!(write_model(&good, &more), Err(ModelError::Unused(_))));
    let mut twice = description();
    twice["task"]["classes"] = json!(["a", "a"]);
    let twice = serde_json::from_value(twice).unwrap();
    assert!(matches!(write_model(&twice, &tensors), Err(ModelError::Twice { what: "class", .. })));
}

#[test]
fn long_headers_and_long_descriptions_are_refused() {
    let mut bytes = file(&description(), &entries());
    bytes[..8].copy_from_slice(&(17_u64 << 20).to_le_bytes());
    bytes.resize(18 << 20, b' ');
    assert!(refusal(&bytes).contains("header would take"));
    let mut long = description();
    long["training"] = json!("x".repeat(5 << 20));
    assert!(refusal(&file(&long, &entries())).contains("at most 4194304"));
}

/// Each layer adds a table of 67 MB of what the time adds where, to a file of 15 KB.
#[test]
fn a_small_file_does_not_unfold() {
    let mut layers = vec![];
    let mut tensors = vec![];
    let names: Vec<[String; 2]> = (0..40).map(|i| [format!("b{i}.weight"), format!("b{i}.bias")]).collect();
    for (index, [weight, bias]) in names.iter().enumerate() {
        layers
            .push(json!({"type": "conv2d", "name": format!("b{index}"), "in_channels": 1, "out_channels": 1,
            "kernel": [1, 1], "padding": [1023, 1023], "time": true}));
        layers.push(json!({"type": "avg_pool2d", "kernel": [1, 1], "stride": [2047, 2047]}));
        let at = 12 * index;
        tensors.push((weight.as_str(), vec![1, 2, 1, 1], at..at + 8));
        tensors.push((bias.as_str(), vec![1], at + 8..at + 12));
    }
    let mut bomb = description();
    bomb["input"] = json!({"height": 1, "width": 1, "channels": 1});
    bomb["layers"] = json!(layers);
    let message = read_model(&file(&bomb, &tensors)).expect_err("a bomb").to_string();
    assert!(message.contains("layer 2 (conv2d)") && message.contains("tables"), "{message}");
}

/// A state of 28x28x32 and a residual-like tower of 64 channels on 32x32 are ordinary networks.
#[test]
fn ordinary_networks_are_far_from_the_limits() {
    let tower = |size: usize, channels: usize, depth: usize| {
        let mut layers = vec![];
        let names: Vec<[String; 2]> =
            (0..depth).map(|i| [format!("c{i}.weight"), format!("c{i}.bias")]).collect();
        let mut tensors = vec![];
        let mut at = 0;
        let mut place = |numbers: usize| {
            at += 4 * numbers;
            at - 4 * numbers..at
        };
        for (index, [weight, bias]) in names.iter().enumerate() {
            layers.push(json!({"type": "conv2d", "name": format!("c{index}"), "in_channels": channels,
                "out_channels": channels, "kernel": [3, 3], "padding": [1, 1], "time": true}));
            layers.push(json!({"type": "relu"}));
            let shape = vec![channels, channels + 1, 3, 3];
            tensors.push((weight.as_str(), shape.clone(), place(shape.iter().product())));
            tensors.push((bias.as_str(), vec![channels], place(channels)));
        }
        layers.push(json!({"type": "global_avg_pool"}));
        let mut network = description();
        network["input"] = json!({"height": size, "width": size, "channels": channels});
        network["layers"] = json!(layers);
        network["task"]["classes"] = (0..channels).map(|i| i.to_string()).collect();
        read_model(&file(&network, &tensors)).map(|network| network.outputs())
    };
    assert_eq!(tower(28, 32, 4).unwrap(), 32);
    assert_eq!(tower(32, 64, 80).unwrap(), 64);
}
