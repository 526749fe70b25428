//! A network before it is built: its description and its weights.

use gains_core::description::{ControlledSpec, ControllerSpec, LayerSpec, RungeKutta, SolverSpec, Task};
use gains_core::model_file::{Tensors, build};
use gains_core::{Description, Network, Shape};

/// A description with its weights, all of them float32 numbers.
#[derive(Clone, Debug)]
pub struct Model {
    /// The description.
    pub description: Description,
    /// The weights.
    pub tensors: Tensors,
}

impl Model {
    /// A classifier with the given layers; the outputs are named by number.
    pub fn new(input: Shape, layers: Vec<LayerSpec>, tensors: Tensors, outputs: usize) -> Self {
        let task = Task::Classification { classes: names(outputs) };
        Self { description: Description::new("test", task, input, layers), tensors }
    }

    /// The network.
    ///
    /// # Panics
    ///
    /// If the loader would refuse it.
    pub fn network(&self) -> Network {
        build(self.description.clone(), &self.tensors, String::new()).expect("a network the loader accepts")
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.description.input.len()
    }

    /// Multiplies the weights of all layers whose name contains a word.
    pub fn scale(mut self, word: &str, by: f64) -> Self {
        for (_, (_, values)) in self.tensors.iter_mut().filter(|(name, _)| name.contains(word)) {
            values.iter_mut().for_each(|v| *v *= by);
        }
        self
    }
}

/// The numbers below `count` as names of classes or features.
pub fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| i.to_string()).collect()
}

/// Random weights for every tensor that layers name, about as large as at the start of training.
pub fn random_tensors(layers: &[LayerSpec], random: &mut fastrand::Rng) -> Tensors {
    let mut tensors = Tensors::new();
    for layer in layers {
        let (name, shape) = match layer {
            LayerSpec::Conv2d { name, in_channels, out_channels, kernel, time, .. } => {
                (name, vec![*out_channels, in_channels + usize::from(*time), kernel[0], kernel[1]])
            }
            LayerSpec::Linear { name, in_features, out_features, time } => {
                (name, vec![*out_features, in_features + usize::from(*time)])
            }
            LayerSpec::Ode { dynamics, .. } => {
                tensors.extend(random_tensors(dynamics, random));
                continue;
            }
            LayerSpec::Parallel { branches, .. } => {
                branches.iter().for_each(|branch| tensors.extend(random_tensors(branch, random)));
                continue;
            }
            LayerSpec::BatchNorm { name, channels, .. } | LayerSpec::GroupNorm { name, channels, .. } => {
                let mut draw = |low: f64| -> Vec<f64> {
                    (0..*channels).map(|_| f64::from((low + random.f64()) as f32)).collect()
                };
                let mut parts = vec![("weight", draw(0.5)), ("bias", draw(-0.5))];
                if matches!(layer, LayerSpec::BatchNorm { .. }) {
                    parts.extend([("running_mean", draw(-0.5)), ("running_var", draw(0.2))]);
                }
                let named =
                    |(part, values): (&str, Vec<f64>)| (format!("{name}.{part}"), (vec![*channels], values));
                tensors.extend(parts.into_iter().map(named));
                continue;
            }
            _ => continue,
        };
        let scale = 1.5 / (shape[1..].iter().product::<usize>() as f64).sqrt();
        let mut draw = |count: usize| -> Vec<f64> {
            (0..count).map(|_| f64::from((scale * (2.0 * random.f64() - 1.0)) as f32)).collect()
        };
        let (weights, bias) = (draw(shape.iter().product()), draw(shape[0]));
        tensors.insert(format!("{name}.bias"), (vec![shape[0]], bias));
        tensors.insert(format!("{name}.weight"), (shape, weights));
    }
    tensors
}

/// A linear layer with explicit weights, row by row; the time, if it takes it, has the first column.
pub fn linear(tensors: &mut Tensors, name: &str, weights: &[&[f64]], bias: &[f64], time: bool) -> LayerSpec {
    let columns = weights[0].len();
    tensors.insert(format!("{name}.weight"), (vec![weights.len(), columns], weights.concat()));
    tensors.insert(format!("{name}.bias"), (vec![bias.len()], bias.to_vec()));
    LayerSpec::Linear {
        name: name.into(),
        in_features: columns - usize::from(time),
        out_features: weights.len(),
        time,
    }
}

/// Controlled adaptive steps up to time 1.
pub fn controlled(
    method: RungeKutta,
    factor: u32,
    tolerance: f64,
    initial_step: f64,
    rejections_after_clipping: u32,
) -> SolverSpec {
    let controlled =
        ControlledSpec { factor, tolerance, initial_step, minimum_step: 0.08, rejections_after_clipping };
    SolverSpec { method, controller: ControllerSpec::ControlledAdaptive(controlled), end_time: 1.0 }
}

/// Equal steps up to time 1.
pub fn fixed(method: RungeKutta, steps: u32) -> SolverSpec {
    SolverSpec { method, controller: ControllerSpec::Fixed { steps }, end_time: 1.0 }
}
