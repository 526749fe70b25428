//! The same network with a wider ODE state: for studying what size alone costs.
//!
//! Every channel of the ODE's state, and of all layers inside it, is there `k` times. A layer that reads
//! `k` copies has its weights divided by `k`, so that the copies carry equal values and the outputs stay what
//! they were. The solver's error estimate sums over all entries, so its tolerance is multiplied by `k`; the
//! trajectories are then the same, up to rounding.
//!
//! ```text
//! encoder … last weights │ ODE: k copies, τ·k │ first weights … decoder
//!                1 → k                             k → 1
//! ```

use thiserror::Error;

use crate::description::{ControllerSpec, Description, LayerSpec, SolverSpec};
use crate::model_file::{ModelError, Tensors, build};

/// Most copies; far more than anyone measures, and safe to multiply with.
pub const MOST_COPIES: usize = 64;

/// Why a network cannot be widened.
#[derive(Debug, Error)]
pub enum WidenError {
    /// Too many copies, or none.
    #[error("{found} copies of a channel, must be 1 to {MOST_COPIES}")]
    Copies {
        /// How many.
        found: usize,
    },
    /// There is no state to widen.
    #[error("the network has no ODE block")]
    NoOde,
    /// The state is the input itself, or the input without a layer that could repeat it.
    #[error("no convolution or linear layer before the ODE block could emit its channels several times")]
    NothingBefore,
    /// The state is the output.
    #[error("no convolution or linear layer after the ODE block could merge the copies of its channels")]
    NothingAfter,
    /// Layers inside and outside the widened stretch use the same weights.
    #[error("tensor '{name}' belongs to several layers, which would need it in different widths")]
    SharedTensor {
        /// Its name.
        name: String,
    },
    /// Layers side by side, parts of a vector, or an order of entries that copies would break.
    #[error("networks with branches, slices, pad, reshape or layer_norm cannot be widened")]
    Branches,
    /// The network is not sound to begin with, or becomes too large.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Tensors of batch normalisation, those of its affine part last.
const BATCH_NORM: &[&str] = &["running_mean", "running_var", "weight", "bias"];

/// How often a layer's input and output channels are there.
#[derive(Clone, Copy)]
struct Copies {
    input: usize,
    output: usize,
}

/// A description and weights that compute the same function with a state `copies` times as large.
///
/// Channels are repeated as a whole (`c₀ c₁ … c₀ c₁ …`), an order that flattening preserves. All blocks between
/// the first and the last ODE are widened. Weights grow by `copies²` inside that stretch.
pub fn widen(
    description: &Description,
    tensors: &Tensors,
    copies: usize,
) -> Result<(Description, Tensors), WidenError> {
    if !(1..=MOST_COPIES).contains(&copies) {
        return Err(WidenError::Copies { found: copies });
    }
    build(description.clone(), tensors, String::new())?;
    let layers = &description.layers;
    let is_ode = |layer: &LayerSpec| matches!(layer, LayerSpec::Ode { .. });
    let has_weights =
        |layer: &LayerSpec| matches!(layer, LayerSpec::Conv2d { .. } | LayerSpec::Linear { .. });
    let first = layers.iter().position(is_ode).ok_or(WidenError::NoOde)?;
    let last = layers.iter().rposition(is_ode).unwrap_or(first);
    let opening = layers[..first].iter().rposition(has_weights).ok_or(WidenError::NothingBefore)?;
    let closing = layers[last..].iter().position(has_weights).ok_or(WidenError::NothingAfter)? + last;
    let mut wide = Widening { tensors, wide: Tensors::new() };
    let mut widened = description.clone();
    for (index, layer) in widened.layers.iter_mut().enumerate() {
        let copies = Copies {
            input: if (opening + 1..=closing).contains(&index) { copies } else { 1 },
            output: if (opening..closing).contains(&index) { copies } else { 1 },
        };
        wide.layer(layer, copies)?;
    }
    if copies > 1 {
        widened.name = format!("{}, state x{copies}", description.name);
    }
    build(widened.clone(), &wide.wide, String::new())?;
    Ok((widened, wide.wide))
}

struct Widening<'a> {
    tensors: &'a Tensors,
    wide: Tensors,
}

impl Widening<'_> {
    fn layer(&mut self, layer: &mut LayerSpec, copies: Copies) -> Result<(), WidenError> {
        match layer {
            LayerSpec::Conv2d { name, in_channels: inputs, out_channels: outputs, time, .. }
            | LayerSpec::Linear { name, in_features: inputs, out_features: outputs, time } => {
                self.weights(name, usize::from(*time), copies)?;
                self.bias(name, copies)?;
                *inputs *= copies.input;
                *outputs *= copies.output;
            }
            LayerSpec::Normalize { mean, std } => {
                *mean = mean.repeat(copies.input);
                *std = std.repeat(copies.input);
            }
            LayerSpec::Ode { dynamics, solver } => {
                for layer in dynamics {
                    self.layer(layer, copies)?;
                }
                scale_tolerance(solver, copies.input as f64);
            }
            LayerSpec::AvgPool2d { .. }
            | LayerSpec::GlobalAvgPool {}
            | LayerSpec::Flatten {}
            | LayerSpec::Relu {}
            | LayerSpec::LeakyRelu { .. }
            | LayerSpec::Sigmoid {}
            | LayerSpec::Tanh {}
            | LayerSpec::Absolute {}
            | LayerSpec::Softplus {}
            | LayerSpec::Silu {}
            | LayerSpec::Gelu { .. }
            | LayerSpec::Elu { .. }
            | LayerSpec::Sin {}
            | LayerSpec::Cos {}
            | LayerSpec::Square {}
            | LayerSpec::Clamp { .. }
            | LayerSpec::Hardtanh { .. }
            | LayerSpec::Relu6 {}
            | LayerSpec::MaxPool2d { .. } => {}
            LayerSpec::BatchNorm { name, channels, affine, .. } => {
                self.by_channel(name, if *affine { BATCH_NORM } else { &BATCH_NORM[..2] }, copies)?;
                *channels *= copies.input;
            }
            LayerSpec::GroupNorm { name, channels, groups, affine, .. } => {
                self.by_channel(name, if *affine { &BATCH_NORM[2..] } else { &[] }, copies)?;
                *channels *= copies.input;
                *groups *= copies.input;
            }
            LayerSpec::Slice { .. }
            | LayerSpec::Pad { .. }
            | LayerSpec::Reshape { .. }
            | LayerSpec::LayerNorm { .. }
            | LayerSpec::Parallel { .. } => return Err(WidenError::Branches),
        }
        Ok(())
    }

    /// Weights in `[output][input][taps]` order; the time, if there is one, is input 0 and stays single.
    fn weights(&mut self, layer: &str, time: usize, copies: Copies) -> Result<(), WidenError> {
        let name = format!("{layer}.weight");
        let (shape, values) = self.find(&name)?;
        let taps: usize = shape[2..].iter().product();
        let mut wide = Vec::with_capacity(values.len() * copies.input * copies.output);
        for output in values.chunks_exact(shape[1] * taps) {
            let (clock, inputs) = output.split_at(time * taps);
            wide.extend_from_slice(clock);
            for _ in 0..copies.input {
                wide.extend(inputs.iter().map(|w| w / copies.input as f64));
            }
        }
        let mut wide_shape = shape.clone();
        wide_shape[0] *= copies.output;
        wide_shape[1] = (shape[1] - time) * copies.input + time;
        self.keep(name, wide_shape, wide.repeat(copies.output))
    }

    /// Tensors with one number per channel, of a layer that keeps the channels apart.
    fn by_channel(&mut self, layer: &str, parts: &[&str], copies: Copies) -> Result<(), WidenError> {
        for part in parts {
            let name = format!("{layer}.{part}");
            let (shape, values) = self.find(&name)?;
            let (channels, values) = (shape[0] * copies.input, values.repeat(copies.input));
            self.keep(name, vec![channels], values)?;
        }
        Ok(())
    }

    fn bias(&mut self, layer: &str, copies: Copies) -> Result<(), WidenError> {
        let name = format!("{layer}.bias");
        let (shape, values) = self.find(&name)?;
        let (outputs, values) = (shape[0] * copies.output, values.repeat(copies.output));
        self.keep(name, vec![outputs], values)
    }

    fn find(&self, name: &str) -> Result<&(Vec<usize>, Vec<f64>), ModelError> {
        self.tensors.get(name).ok_or_else(|| ModelError::MissingTensor(name.into()))
    }

    fn keep(&mut self, name: String, shape: Vec<usize>, values: Vec<f64>) -> Result<(), WidenError> {
        let tensor = (shape, values);
        if self.wide.get(&name).is_some_and(|other| *other != tensor) {
            return Err(WidenError::SharedTensor { name });
        }
        self.wide.insert(name, tensor);
        Ok(())
    }
}

fn scale_tolerance(solver: &mut SolverSpec, factor: f64) {
    match &mut solver.controller {
        ControllerSpec::Fixed { .. } => {}
        ControllerSpec::Adaptive { tolerance, .. } => *tolerance *= factor,
        ControllerSpec::ControlledAdaptive(c) => c.tolerance *= factor,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A network of linear layers on three inputs: weights named by the layers, all of them 3×3.
    fn network(layers: &str) -> (Description, Tensors) {
        let description = serde_json::from_str(&format!(
            r#"{{"format": "gains-model", "version": 1, "name": "t", "input": {{"height": 1, "width": 1, "channels": 3}},
                 "task": {{"type": "classification", "classes": ["a", "b", "c"]}}, "layers": [{layers}]}}"#
        ))
        .unwrap();
        let mut tensors = Tensors::new();
        for name in ["in", "f", "out"] {
            let values = (0..9).map(|i| f64::from(i) - 4.0).collect();
            tensors.insert(format!("{name}.weight"), (vec![3, 3], values));
            tensors.insert(format!("{name}.bias"), (vec![3], vec![1.0, 2.0, 3.0]));
        }
        (description, tensors)
    }

    fn linear(name: &str) -> String {
        format!(r#"{{"type": "linear", "name": "{name}", "in_features": 3, "out_features": 3}}"#)
    }

    fn ode(name: &str) -> String {
        format!(
            r#"{{"type": "ode", "dynamics": [{}], "solver": {{"method": "dopri5", "end_time": 1.0, "controller":
                {{"type": "adaptive", "tolerance": 0.5, "initial_step": 0.1}}}}}}"#,
            linear(name)
        )
    }

    fn widened(layers: &[String], copies: usize) -> Result<(Description, Tensors), WidenError> {
        let (description, tensors) = network(&layers.join(","));
        widen(&description, &tensors, copies)
    }

    #[test]
    fn weights_are_repeated_and_divided() {
        let (description, tensors) = widened(&[linear("in"), ode("f"), linear("out")], 2).unwrap();
        let row = |name: &str, row: usize| {
            let (shape, values) = &tensors[name];
            values[row * shape[1]..][..shape[1]].to_vec()
        };
        assert_eq!(tensors["in.weight"].0, [6, 3]);
        assert_eq!(row("in.weight", 0), row("in.weight", 3));
        assert_eq!(row("f.weight", 4), [-0.5, 0.0, 0.5, -0.5, 0.0, 0.5]);
        assert_eq!(tensors["out.weight"].0, [3, 6]);
        assert_eq!(tensors["f.bias"].1, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        assert_eq!(tensors["out.bias"].1, [1.0, 2.0, 3.0]);
        let LayerSpec::Ode { solver, .. } = &description.layers[1] else { panic!("the ODE has moved") };
        assert!(matches!(solver.controller, ControllerSpec::Adaptive { tolerance: 1.0, .. }));
    }

    #[test]
    fn normalisation_is_repeated_by_channel() {
        let norm = |kind: &str, more: &str| {
            format!(r#"{{"type": "{kind}", "name": "{kind}", "channels": 3{more}}}"#)
        };
        let layers = [
            linear("in"),
            norm("batch_norm", ""),
            norm("group_norm", r#", "groups": 3"#),
            ode("f"),
            linear("out"),
        ];
        let (description, mut tensors) = network(&layers.join(","));
        for part in
            ["batch_norm.running_mean", "batch_norm.running_var", "batch_norm.weight", "batch_norm.bias"]
        {
            tensors.insert(part.into(), (vec![3], vec![1.0, 2.0, 3.0]));
            tensors.insert(part.replace("batch", "group"), (vec![3], vec![1.0, 2.0, 3.0]));
        }
        let (wide, tensors) = widen(&description, &tensors, 2).unwrap();
        assert_eq!(tensors["batch_norm.running_var"].1, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        assert_eq!(tensors["group_norm.bias"].0, [6]);
        assert!(matches!(wide.layers[1], LayerSpec::BatchNorm { channels: 6, .. }));
        assert!(matches!(wide.layers[2], LayerSpec::GroupNorm { channels: 6, groups: 6, .. }));
    }

    #[test]
    fn one_copy_changes_nothing() {
        let layers = [linear("in"), ode("f"), linear("out")].join(",");
        let (description, tensors) = network(&layers);
        assert_eq!(widen(&description, &tensors, 1).unwrap(), (description, tensors));
    }

    #[test]
    fn what_cannot_be_widened_is_refused() {
        let says = |layers: &[String], copies, message: &str| {
            let text = widened(layers, copies).unwrap_err().to_string();
            assert!(text.contains(message), "{text}");
        };
        says(&[linear("in"), linear("out")], 2, "no ODE block");
        says(&[ode("f"), linear("out")], 2, "before the ODE block");
        says(&[linear("in"), ode("f")], 2, "after the ODE block");
        says(&[linear("f"), ode("f"), linear("out")], 2, "tensor 'f.weight' belongs to several layers");
        says(&[linear("in"), ode("missing"), linear("out")], 2, "'missing.weight' is missing");
        for copies in [0, 65] {
            says(&[linear("in"), ode("f"), linear("out")], copies, "must be 1 to 64");
        }
        assert!(widened(&[linear("in"), ode("f"), ode("f"), linear("out")], 2).is_ok(), "shared, same width");
    }
}
