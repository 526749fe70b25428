//! Names in a model file: each tensor belongs to one layer, each layer has tensors of its own, and no two classes
//! or features go by one name.
//!
//! A tensor that nothing uses and a name that is there twice are slips of whoever wrote the file, and what the
//! network then computes is not what was meant. Names that
//! stand for two things are found before anything is laid out.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{ModelError, Tensors, kind};
use crate::description::{Description, LayerSpec, Task};

/// So many names are told in a message.
const MOST_TOLD: usize = 3;

/// Refuses names that stand for two things. This needs no weights, so it comes first.
pub(super) fn distinct(description: &Description) -> Result<(), ModelError> {
    match &description.task {
        Task::Classification { classes } => each_once("class", classes)?,
        Task::Regression { outputs, units } => {
            each_once("output", outputs)?;
            if let Some(name) = units.keys().find(|name| !outputs.contains(name)) {
                return Err(ModelError::Description(format!("'{name}' among units is no output")));
            }
        }
        Task::Forecasting { features, statics, horizon, ranges, perturbed } => {
            each_once("feature", features)?;
            each_once("static", statics)?;
            let wrong = |problem: String| Err(ModelError::Description(problem));
            let known = |name: &&String| features.contains(name) || statics.contains(name);
            if let Some(name) = ranges.keys().chain(perturbed.iter().flatten()).find(|name| !known(name)) {
                return wrong(format!("'{name}' among ranges or perturbed is no feature and no static"));
            }
            if let Some((name, [low, high])) =
                ranges.iter().find(|(_, [low, high])| low.is_nan() || low > high)
            {
                return wrong(format!("the range of '{name}' is [{low}, {high}]"));
            }
            if let Some(ahead) = horizon.filter(|ahead| !(ahead.is_finite() && *ahead > 0.0)) {
                return wrong(format!("horizon is {ahead}, must be positive"));
            }
        }
    }
    owners(description).map(drop)
}

/// Refuses tensors that no layer uses.
pub(super) fn all_used(description: &Description, tensors: &Tensors) -> Result<(), ModelError> {
    let owners = owners(description)?;
    let used: BTreeSet<String> = owners
        .iter()
        .flat_map(|(name, owner)| owner.parts.iter().map(move |part| format!("{name}.{part}")))
        .collect();
    let unused: Vec<&String> = tensors.keys().filter(|name| !used.contains(*name)).collect();
    if unused.is_empty() { Ok(()) } else { Err(ModelError::Unused(enumerate(&unused))) }
}

fn each_once(what: &'static str, names: &[String]) -> Result<(), ModelError> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(name) => Err(ModelError::Twice { what, name: name.clone() }),
    }
}

/// A layer with weights: where it stands, and what its tensors are called behind its name.
struct Owner {
    place: String,
    parts: &'static [&'static str],
}

/// The layer that each name of weights belongs to.
fn owners(description: &Description) -> Result<BTreeMap<&str, Owner>, ModelError> {
    let mut owners = BTreeMap::new();
    if let Some(encoder) = &description.encoder {
        let parts = [
            ("initial", &encoder.initial),
            ("dynamics", &encoder.dynamics),
            ("update", &encoder.update),
            ("reset", &encoder.reset),
            ("candidate", &encoder.candidate),
            ("latent", &encoder.latent),
        ];
        for (part, layers) in parts {
            claim(&mut owners, &format!("encoder {part} "), layers)?;
        }
    }
    claim(&mut owners, "", &description.layers)?;
    Ok(owners)
}

/// Notes the owner of every name of weights among some layers, and in them.
fn claim<'d>(
    owners: &mut BTreeMap<&'d str, Owner>,
    before: &str,
    layers: &'d [LayerSpec],
) -> Result<(), ModelError> {
    for (index, spec) in layers.iter().enumerate() {
        let place = format!("{before}{index} ({})", kind(spec));
        match spec {
            LayerSpec::Ode { dynamics, .. } => claim(owners, &format!("{place} dynamics "), dynamics)?,
            LayerSpec::Parallel { branches, .. } => {
                for (number, branch) in branches.iter().enumerate() {
                    claim(owners, &format!("{place} branch {number} "), branch)?;
                }
            }
            _ => {}
        }
        let Some((name, parts)) = weights(spec) else { continue };
        if let Some(first) = owners.get(name) {
            let first = first.place.clone();
            return Err(ModelError::Shared { name: name.into(), first, second: place });
        }
        owners.insert(name, Owner { place, parts });
    }
    Ok(())
}

/// The name of a layer's weights and what its tensors are called behind it, if it has any.
fn weights(spec: &LayerSpec) -> Option<(&str, &'static [&'static str])> {
    const AFFINE: &[&str] = &["weight", "bias"];
    match spec {
        LayerSpec::Conv2d { name, .. } | LayerSpec::Linear { name, .. } => Some((name, AFFINE)),
        LayerSpec::BatchNorm { name, affine: true, .. } => {
            Some((name, &["weight", "bias", "running_mean", "running_var"]))
        }
        LayerSpec::BatchNorm { name, affine: false, .. } => Some((name, &["running_mean", "running_var"])),
        LayerSpec::GroupNorm { name, affine: true, .. } | LayerSpec::LayerNorm { name, affine: true, .. } => {
            Some((name, AFFINE))
        }
        _ => None,
    }
}

/// The first few, and how many more there are.
fn enumerate(names: &[&String]) -> String {
    let told: Vec<String> = names.iter().take(MOST_TOLD).map(|name| format!("'{name}'")).collect();
    match names.len().saturating_sub(MOST_TOLD) {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}
