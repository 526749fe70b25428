//! The published GAINS checkpoints.
//!
//! They come as bare tensors with fixed names and a JSON sidecar that holds the initial step size and the
//! normalisation constants.

use serde::Deserialize;

use crate::description::{
    ControlledSpec, ControllerSpec, Description, LayerSpec, RungeKutta, SolverSpec, Task,
};
use crate::model_file::{ModelError, Tensors, read_tensors, write_model};
use crate::shape::Shape;

use super::physionet;

/// What the sidecar tells; other keys are kept as the training record.
#[derive(Deserialize)]
pub(super) struct Sidecar {
    pub h0: f64,
    dataset: String,
    #[serde(default)]
    norm_mean: Option<f64>,
    #[serde(default)]
    norm_std: Option<f64>,
    #[serde(default)]
    pub name: Option<String>,
}

/// Builds a model file from the tensors and the sidecar of a published checkpoint: a classification network, or a
/// latent ODE if the sidecar says `"dataset": "physionet"`.
///
/// The solver is the one all of them were trained with: dopri5, α = 2, τ = 0.005, minimum step 0.02, one
/// rejection tolerated after clipping, end time 1. The normalisation constants are float32 there, so they
/// are rounded to float32 here.
pub fn import_checkpoint(weights: &[u8], sidecar: &str) -> Result<Vec<u8>, ModelError> {
    let tensors = read_tensors(weights)?;
    let record: serde_json::Value =
        serde_json::from_str(sidecar).map_err(|e| ModelError::Description(format!("sidecar: {e}")))?;
    let side: Sidecar = serde_json::from_value(record.clone())
        .map_err(|e| ModelError::Description(format!("sidecar: {e}")))?;
    if side.dataset.to_lowercase().starts_with("physionet") {
        return physionet::import(&tensors, side, record);
    }
    let (Some(norm_mean), Some(norm_std)) = (side.norm_mean, side.norm_std) else {
        return Err(ModelError::Description("sidecar: norm_mean or norm_std is missing".into()));
    };
    let dataset = match side.dataset.to_lowercase().as_str() {
        "fmnist" | "f-mnist" | "fashion-mnist" => "fashion-mnist".to_string(),
        other => other.to_string(),
    };
    let first = shape_of(&tensors, "encoder.conv1.weight", 4)?;
    let second = shape_of(&tensors, "encoder.conv2.weight", 4)?;
    let dynamics = [shape_of(&tensors, "ode.conv1.weight", 4)?, shape_of(&tensors, "ode.conv2.weight", 4)?];
    let head = shape_of(&tensors, "classifier.linear.weight", 2)?;
    let side_length = if first[1] == 3 { 32 } else { 28 };
    let single = |x: f64| f64::from(x as f32);
    let conv = |name: &str, shape: &[usize], stride: usize, padding: usize, time: bool| LayerSpec::Conv2d {
        name: name.to_string(),
        in_channels: shape[1].saturating_sub(usize::from(time)),
        out_channels: shape[0],
        kernel: [shape[2], shape[3]],
        stride: [stride, stride],
        padding: [padding, padding],
        dilation: [1, 1],
        time,
    };
    let layers = vec![
        LayerSpec::Normalize {
            mean: vec![single(norm_mean); first[1]],
            std: vec![single(norm_std); first[1]],
        },
        conv("encoder.conv1", &first, 2, 0, false),
        LayerSpec::Relu {},
        conv("encoder.conv2", &second, 2, 0, false),
        LayerSpec::Relu {},
        LayerSpec::Ode {
            dynamics: vec![
                conv("ode.conv1", &dynamics[0], 1, 1, true),
                LayerSpec::Relu {},
                conv("ode.conv2", &dynamics[1], 1, 1, true),
                LayerSpec::Relu {},
            ],
            solver: solver(side.h0),
        },
        LayerSpec::GlobalAvgPool {},
        LayerSpec::Flatten {},
        LayerSpec::Linear {
            name: "classifier.linear".into(),
            in_features: head[1],
            out_features: head[0],
            time: false,
        },
    ];
    let name = side.name.unwrap_or_else(|| "imported".into());
    let task = Task::Classification { classes: class_names(&dataset, head[0]) };
    let input = Shape::image(side_length, side_length, first[1]);
    let description = Description {
        dataset: Some(dataset),
        training: training_record(record),
        ..Description::new(name, task, input, layers)
    };
    write_model(&description, &tensors)
}

/// The solver of all published networks.
pub(super) fn solver(initial_step: f64) -> SolverSpec {
    SolverSpec {
        method: RungeKutta::Dopri5,
        controller: ControllerSpec::ControlledAdaptive(ControlledSpec {
            factor: 2,
            tolerance: 0.005,
            initial_step: initial_step.clamp(0.0, 1.0),
            minimum_step: 0.02,
            rejections_after_clipping: 1,
        }),
        end_time: 1.0,
    }
}

/// The sidecar without what the model file already says about its tensors.
pub(super) fn training_record(mut record: serde_json::Value) -> serde_json::Value {
    if let Some(entries) = record.as_object_mut() {
        entries.remove("tensors");
    }
    record
}

pub(super) fn shape_of(tensors: &Tensors, name: &str, dimensions: usize) -> Result<Vec<usize>, ModelError> {
    let (shape, _) = tensors.get(name).ok_or_else(|| ModelError::MissingTensor(name.into()))?;
    if shape.len() != dimensions || shape.contains(&0) {
        return Err(ModelError::TensorShape {
            name: name.into(),
            found: shape.clone(),
            expected: vec![1; dimensions],
        });
    }
    Ok(shape.clone())
}

fn class_names(dataset: &str, count: usize) -> Vec<String> {
    const FASHION: [&str; 10] = [
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ];
    if dataset == "fashion-mnist" && count == FASHION.len() {
        FASHION.map(String::from).to_vec()
    } else {
        (0..count).map(|i| i.to_string()).collect()
    }
}
