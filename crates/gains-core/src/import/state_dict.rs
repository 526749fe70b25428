//! Weights under PyTorch's names, and a description that says what they belong to.

use serde_json::Value;

use crate::description::{Description, LayerSpec};
use crate::model_file::{ModelError, Tensors, parse_description, read_chosen, write_model};

use super::template::BLANK;

/// How many batches a batch normalisation has seen: PyTorch keeps it beside the weights, no prediction depends on it.
pub(super) const COUNTER: &str = "num_batches_tracked";

/// A model made of weights and a description.
pub struct Imported {
    /// The model file.
    pub model: Vec<u8>,
    /// Layers whose weights come without a bias (PyTorch's `bias=False`): theirs is zero.
    pub without_bias: Vec<String>,
}

/// Binds the weights of a safetensors file to a description in JSON, checking that every tensor has its layer.
pub fn import_state_dict(weights: &[u8], description: &str) -> Result<Imported, ModelError> {
    let mut tensors = read_chosen(weights, |name| !name.ends_with(COUNTER))?;
    if let Ok(value) = serde_json::from_str::<Value>(description)
        && let Some(blank) = first_blank(&value)
    {
        return Err(ModelError::Description(format!("a blank is left: \"{blank}\"")));
    }
    let description = parse_description(description)?;
    let without_bias = zero_biases(&description, &mut tensors);
    let model = write_model(&description, &tensors)?;
    Ok(Imported { model, without_bias })
}

/// The first text that a [`super::template`] left to be filled in.
fn first_blank(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => text.starts_with(BLANK).then_some(text),
        Value::Array(values) => values.iter().find_map(first_blank),
        Value::Object(entries) => entries.values().find_map(first_blank),
        _ => None,
    }
}

/// Adds a bias of zeros wherever a layer has weights but no bias; returns the names of those layers.
fn zero_biases(description: &Description, tensors: &mut Tensors) -> Vec<String> {
    let mut added = Vec::new();
    let encoder = description.encoder.iter().flat_map(|e| {
        [&e.initial, &e.dynamics, &e.update, &e.reset, &e.candidate, &e.latent].map(Vec::as_slice)
    });
    for layers in encoder.chain([description.layers.as_slice()]) {
        each_name(layers, &mut |name| {
            let bias = format!("{name}.bias");
            let outputs =
                tensors.get(&format!("{name}.weight")).and_then(|(shape, _)| shape.first().copied());
            if let (Some(outputs), false) = (outputs, tensors.contains_key(&bias)) {
                tensors.insert(bias, (vec![outputs], vec![0.0; outputs]));
                added.push(name.to_string());
            }
        });
    }
    added
}

/// Calls `visit` with the name of every linear layer and convolution among some layers, and in them.
fn each_name(layers: &[LayerSpec], visit: &mut impl FnMut(&str)) {
    for layer in layers {
        match layer {
            LayerSpec::Linear { name, .. } | LayerSpec::Conv2d { name, .. } => visit(name),
            LayerSpec::Ode { dynamics, .. } => each_name(dynamics, visit),
            LayerSpec::Parallel { branches, .. } => {
                branches.iter().for_each(|branch| each_name(branch, visit));
            }
            _ => {}
        }
    }
}
