//! The published latent ODEs for PhysioNet.
//!
//! Their dynamics are in the file three times under different names, and there is a classifier that nothing uses:
//! only what the network needs is kept.

use super::checkpoint::{Sidecar, shape_of, solver, training_record};
use crate::description::{Description, EncoderSpec, LayerSpec, Points, Task};
use crate::model_file::{ModelError, Tensors, facts, write_model};
use crate::shape::Shape;

const FEATURES: [&str; 35] = [
    "Weight",
    "Albumin",
    "ALP",
    "ALT",
    "AST",
    "Bilirubin",
    "BUN",
    "Cholesterol",
    "Creatinine",
    "DiasABP",
    "FiO2",
    "Glucose",
    "HCO3",
    "HCT",
    "HR",
    "K",
    "Lactate",
    "Mg",
    "MAP",
    "Na",
    "NIDiasABP",
    "NIMAP",
    "NISysABP",
    "PaCO2",
    "PaO2",
    "pH",
    "Platelets",
    "RespRate",
    "SaO2",
    "SysABP",
    "Temp",
    "TroponinI",
    "TroponinT",
    "Urine",
    "WBC",
];
const STATICS: [&str; 6] = ["Age", "Gender", "Height", "ICUType", "GCS", "MechVent"];

/// Linear layers `PREFIX.0`, `PREFIX.2`, … with ReLUs between them.
struct Perceptron<'a> {
    tensors: &'a Tensors,
    kept: Tensors,
}

impl Perceptron<'_> {
    fn layers(&mut self, prefix: &str, count: usize) -> Result<Vec<LayerSpec>, ModelError> {
        let mut layers = Vec::new();
        for index in 0..count {
            let name = format!("{prefix}.{}", 2 * index);
            let shape = shape_of(self.tensors, &format!("{name}.weight"), 2)?;
            for tensor in [format!("{name}.weight"), format!("{name}.bias")] {
                let values =
                    self.tensors.get(&tensor).ok_or_else(|| ModelError::MissingTensor(tensor.clone()))?;
                self.kept.insert(tensor, values.clone());
            }
            if index > 0 {
                layers.push(LayerSpec::Relu {});
            }
            layers.push(LayerSpec::Linear {
                name,
                in_features: shape[1],
                out_features: shape[0],
                time: false,
            });
        }
        Ok(layers)
    }

    fn gate(&mut self, prefix: &str) -> Result<Vec<LayerSpec>, ModelError> {
        let mut layers = self.layers(prefix, 2)?;
        layers.push(LayerSpec::Sigmoid {});
        Ok(layers)
    }
}

/// Names from the list, or numbers where the sizes are others.
fn names(known: &[&str], count: usize) -> Vec<String> {
    if known.len() == count {
        known.iter().map(|name| (*name).to_string()).collect()
    } else {
        (0..count).map(|i| i.to_string()).collect()
    }
}

/// Builds the model file of a published forecasting checkpoint. The walk of its encoder stops at all points.
pub(super) fn import(
    tensors: &Tensors,
    side: Sidecar,
    record: serde_json::Value,
) -> Result<Vec<u8>, ModelError> {
    let mut parts = Perceptron { tensors, kept: Tensors::new() };
    let mut initial = parts.layers("encoder_z0.hidden_init", 1)?;
    initial.push(LayerSpec::Relu {});
    let encoder = EncoderSpec {
        initial,
        dynamics: parts.layers("ode_func_rec.layers", 4)?,
        update: parts.gate("encoder_z0.GRU_update.update_gate")?,
        reset: parts.gate("encoder_z0.GRU_update.reset_gate")?,
        candidate: parts.layers("encoder_z0.GRU_update.new_state_net", 2)?,
        latent: parts.layers("encoder_z0.transform_z0", 2)?,
        lead: 0.01,
        points: Points::All,
    };
    let dynamics = parts.layers("ode_func_gen.layers", 4)?;
    let mut layers = vec![LayerSpec::Ode { dynamics, solver: solver(side.h0) }];
    layers.extend(parts.layers("decoder", 1)?);
    let latent = shape_of(tensors, "ode_func_gen.layers.0.weight", 2)?[1];
    let features = shape_of(tensors, "decoder.0.weight", 2)?[0];
    let statics = shape_of(tensors, "encoder_z0.hidden_init.0.weight", 2)?[1];
    let name = side.name.unwrap_or_else(|| "imported".into());
    let mut task = Task::forecasting(names(&FEATURES, features), names(&STATICS, statics)).as_in_the_paper();
    if let Task::Forecasting { horizon, .. } = &mut task {
        *horizon = facts::horizon(&record);
    }
    let description = Description {
        dataset: Some("physionet2012".into()),
        encoder: Some(encoder),
        training: training_record(record),
        ..Description::new(name, task, Shape::flat(latent), layers)
    };
    write_model(&description, &parts.kept)
}
