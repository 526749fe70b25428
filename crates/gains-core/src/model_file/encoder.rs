//! Binding the encoder of a forecasting network to its weights.

use super::{Builder, ModelError, check_size};
use crate::activation::Activation;
use crate::description::{Description, EncoderSpec, LayerSpec, Task};
use crate::operator::Operator;
use crate::program::{Circuit, Program};
use crate::series_encoder::SeriesEncoder;
use crate::shape::Shape;

fn fail(part: &str, problem: String) -> ModelError {
    ModelError::Layer { layer: format!("encoder {part}"), problem }
}

/// The encoder, if the task is one that needs it.
pub(super) fn build(
    description: &Description,
    builder: &mut Builder<'_>,
) -> Result<Option<SeriesEncoder>, ModelError> {
    let (features, statics) = match (&description.task, &description.encoder) {
        (Task::Classification { .. } | Task::Regression { .. }, None) => return Ok(None),
        (Task::Classification { .. }, Some(_)) => {
            return Err(ModelError::Description("a classification network has an encoder".into()));
        }
        (Task::Regression { .. }, Some(_)) => {
            return Err(ModelError::Description("a regression network has an encoder".into()));
        }
        (Task::Forecasting { .. }, None) => {
            return Err(ModelError::Description("a forecasting network needs an encoder".into()));
        }
        (Task::Forecasting { features, statics, .. }, Some(_)) => (features.len(), statics.len()),
    };
    let Some(spec) = &description.encoder else { return Ok(None) };
    check_size(Shape::flat(features), "encoder features")?;
    check_size(Shape::flat(statics), "encoder statics")?;
    if !(spec.lead.is_finite() && spec.lead >= 0.0) {
        return Err(fail("lead", format!("is {:e}, must be finite and not negative", spec.lead)));
    }
    bind(spec, features, statics, description.input, builder).map(Some)
}

fn bind(
    spec: &EncoderSpec,
    features: usize,
    statics: usize,
    latent: Shape,
    builder: &mut Builder<'_>,
) -> Result<SeriesEncoder, ModelError> {
    let initial = part("initial", &spec.initial, statics, builder)?;
    let first = initial.output_shape();
    let state = first.len();
    if state % 2 != 0 || first != Shape::flat(state) {
        return Err(fail(
            "initial",
            format!("has {first} outputs, needs a vector: a mean and a deviation of equal size"),
        ));
    }
    let width = state / 2;
    let seen = state + features;
    let mut fitting = |name: &str, layers: &[LayerSpec], inputs: usize, outputs: usize| {
        let stack = part(name, layers, inputs, builder)?;
        let found = stack.output_shape();
        if found != Shape::flat(outputs) {
            return Err(fail(name, format!("has {found} outputs, needs {outputs}")));
        }
        Ok(stack)
    };
    let encoder = SeriesEncoder {
        dynamics: fitting("dynamics", &spec.dynamics, width, width)?,
        update: fitting("update", &spec.update, seen, width)?,
        reset: fitting("reset", &spec.reset, seen, width)?,
        candidate: fitting("candidate", &spec.candidate, seen, state)?,
        latent: fitting("latent", &spec.latent, state, 2 * latent.len())?,
        initial,
        lead: spec.lead,
        points: spec.points,
    };
    for (name, gate) in [("update", &encoder.update), ("reset", &encoder.reset)] {
        let last = gate.node(gate.output()).map(|node| &node.operator);
        if !matches!(last, Some(Operator::Curve(Activation::Sigmoid))) {
            return Err(fail(name, "must end with a sigmoid".into()));
        }
    }
    Ok(encoder)
}

/// One network of the encoder, from a vector to a vector.
fn part(
    name: &str,
    layers: &[LayerSpec],
    inputs: usize,
    builder: &mut Builder<'_>,
) -> Result<Circuit, ModelError> {
    let input = Shape::flat(inputs);
    let mut circuit = Circuit::of(name, input);
    if takes_time(layers) {
        return Err(fail(name, "the layers of an encoder do not take the time".into()));
    }
    builder.layers(&mut circuit, 0, layers, &format!("encoder {name}"))?;
    if circuit.nodes().len() == 0 {
        return Err(fail(name, "has no layers".into()));
    }
    Ok(circuit)
}

fn takes_time(layers: &[LayerSpec]) -> bool {
    layers.iter().any(|layer| match layer {
        LayerSpec::Linear { time, .. } | LayerSpec::Conv2d { time, .. } => *time,
        LayerSpec::Parallel { branches, .. } => branches.iter().any(|branch| takes_time(branch)),
        _ => false,
    })
}

/// Whether what follows the encoder predicts the features at one time.
pub(super) fn check_decoder(features: &[String], body: &Program) -> Result<(), ModelError> {
    let output = body.output_shape();
    if output != Shape::flat(features.len()) {
        return Err(ModelError::Description(format!(
            "{} features are named, the network has {output} outputs",
            features.len()
        )));
    }
    let odes = body.odes().count();
    if odes != 1 {
        return Err(ModelError::Description(format!(
            "a forecasting network has {odes} ODEs among its layers, must have one: it is read off at the time to predict"
        )));
    }
    Ok(())
}
