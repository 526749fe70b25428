//! State dicts become model files: with the counters and the missing biases of PyTorch, by descriptions that begin as
//! templates; pickles and solvers that can never run are refused.

use std::path::PathBuf;

use gains_core::ModelError;
use gains_core::import::{import_state_dict, template};
use gains_core::model_file::{read_model, read_tensors};
use serde_json::{Value, json};

const NETWORKS: [&str; 6] =
    ["moons", "breast-cancer", "convolutional", "runge-kutta", "augmented", "ode-net"];

fn tutorial(file: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../gains/tests/data/tutorial");
    std::fs::read(folder.join(file)).expect("a file of the tutorial")
}

fn weights(name: &str) -> Vec<u8> {
    tutorial(&format!("{name}.safetensors"))
}

fn description(name: &str) -> Value {
    serde_json::from_slice(&tutorial(&format!("{name}.json"))).expect("a description")
}

/// The layers of a template or description, those of the dynamics in their place.
fn flat(layers: &Value) -> Vec<Value> {
    let list = layers.as_array().expect("a list of layers");
    list.iter()
        .flat_map(|layer| if layer["type"] == "ode" { flat(&layer["dynamics"]) } else { vec![layer.clone()] })
        .collect()
}

#[test]
fn every_network_of_the_tutorial_is_imported() {
    for name in NETWORKS {
        let imported = import_state_dict(&weights(name), &description(name).to_string()).expect(name);
        let network = read_model(&imported.model).expect(name);
        assert_eq!(network.description.name, name);
        assert!(imported.without_bias.is_empty());
        assert!(read_tensors(&imported.model).expect(name).keys().all(|tensor| !tensor.contains("tracked")));
    }
}

#[test]
fn a_bias_that_is_missing_is_zero() {
    let one = f32::to_le_bytes(1.0).repeat(4);
    let view =
        safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2, 2], &one).expect("two by two");
    let bytes = safetensors::serialize([("head.weight", view)], None).expect("a file");
    let network = json!({
        "format": "gains-model", "version": 2, "name": "no bias",
        "task": {"type": "classification", "classes": ["a", "b"]},
        "input": {"height": 1, "width": 1, "channels": 2},
        "layers": [{"type": "linear", "name": "head", "in_features": 2, "out_features": 2}],
    });
    let imported = import_state_dict(&bytes, &network.to_string()).expect("zeros are added");
    assert_eq!(imported.without_bias, ["head"]);
    assert_eq!(read_tensors(&imported.model).expect("readable")["head.bias"], (vec![2], vec![0.0, 0.0]));
    let mut other = network.clone();
    other["layers"][0]["name"] = json!("tail");
    assert!(matches!(import_state_dict(&bytes, &other.to_string()), Err(ModelError::MissingTensor(_))));
}

/// Filling the blanks of a template of the state dict gives the network of its description.
#[test]
fn templates_have_all_layers_in_their_order() {
    for name in ["moons", "breast-cancer", "convolutional", "runge-kutta"] {
        let text = template(&weights(name)).expect(name);
        assert!(import_state_dict(&weights(name), &text).is_err(), "{name}: blanks are refused");
        let begun: Value = serde_json::from_str(&text).expect("JSON");
        let wanted = description(name);
        let named = |layers: &Value| -> Vec<Value> {
            flat(layers).into_iter().filter(|layer| layer["name"].is_string()).collect()
        };
        let (begun_layers, wanted_layers) = (named(&begun["layers"]), named(&wanted["layers"]));
        assert_eq!(begun_layers.len(), wanted_layers.len(), "{name}\n{text}");
        for (begun, wanted) in begun_layers.iter().zip(&wanted_layers) {
            for key in [
                "type",
                "name",
                "in_features",
                "out_features",
                "in_channels",
                "out_channels",
                "kernel",
                "time",
            ] {
                let (begun, wanted) = (begun.get(key), wanted.get(key));
                // Which input is the time no shape tells.
                let asked =
                    begun.and_then(Value::as_str).is_some_and(|b| b.starts_with("FILL IN: true if the time"));
                assert!(begun == wanted || key == "time" && asked, "{name}: {key}\n{text}");
            }
            for key in ["stride", "padding"] {
                let asked = begun[key].as_str().is_some_and(|b| b.starts_with("FILL IN"));
                assert!(asked || begun.get(key) == wanted.get(key), "{name}: {key}\n{text}");
            }
        }
        // Nothing tells the activation behind the last weights of the encoder.
        let hidden = usize::from(name == "convolutional");
        assert_eq!(flat(&begun["layers"]).len() + hidden, flat(&wanted["layers"]).len(), "{name}\n{text}");
        let classes = |value: &Value| value["task"]["classes"].as_array().map(Vec::len);
        assert_eq!(classes(&begun), classes(&wanted));
    }
    let text = template(&weights("ode-net")).expect("normalisations and time");
    let begun: Value = serde_json::from_str(&text).expect("JSON");
    let timed = flat(&begun["layers"]).iter().filter(|layer| layer["time"].is_string()).count();
    assert_eq!(timed, 2, "{text}");
    assert!(text.contains("group_norm"), "{text}");
}

#[test]
fn blanks_are_named() {
    let mut network = description("moons");
    network["layers"][0]["dynamics"][1] = json!({"type": "FILL IN: relu"});
    let refused = import_state_dict(&weights("moons"), &network.to_string()).err().expect("a blank");
    assert!(refused.to_string().contains("a blank is left: \"FILL IN: relu"), "{refused}");
}

#[test]
fn weights_and_description_must_fit() {
    let refused = |weights: &[u8], network: &Value| {
        import_state_dict(weights, &network.to_string()).err().expect("no fit").to_string()
    };
    assert!(refused(&weights("moons"), &description("augmented")).contains("shape"));
    let mut less = description("moons");
    less["layers"].as_array_mut().expect("layers").remove(1);
    assert!(refused(&weights("moons"), &less).contains("head.0"));
    assert!(refused(b"nothing", &description("moons")).contains("safetensors"));
    assert!(import_state_dict(&weights("moons"), "{").is_err());
}

#[test]
fn pickles_are_told_from_files_of_ours() {
    for begin in [
        &b"PK\x03\x04\x00\x00\x08\x08\x00\x00"[..],
        b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",
        b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}",
    ] {
        assert!(matches!(read_tensors(begin), Err(ModelError::Pickle)), "{begin:?}");
    }
    // A header of 640 bytes begins like a pickle of protocol 2, and is none.
    let header = format!("{{{}}}", " ".repeat(638));
    let file = [&640_u64.to_le_bytes()[..], header.as_bytes()].concat();
    assert_eq!(file[..2], *b"\x80\x02");
    assert!(read_tensors(&file).expect("an empty file").is_empty());
}

#[test]
fn a_solver_that_can_never_run_is_refused() {
    for method in ["euler", "midpoint", "rk4", "rk38"] {
        for controller in [
            description("moons")["layers"][0]["solver"]["controller"].clone(),
            json!({"type": "adaptive", "tolerance": 0.01, "initial_step": 0.1}),
        ] {
            let mut network = description("moons");
            network["layers"][0]["solver"]["method"] = json!(method);
            network["layers"][0]["solver"]["controller"] = controller;
            let refused =
                import_state_dict(&weights("moons"), &network.to_string()).err().expect("no estimate");
            assert!(refused.to_string().contains("estimates no error"), "{refused}");
        }
    }
}
