//! The layers of a latent ODE with their places among the parameters.

use std::ops::Range;

use gains_core::Description;
use gains_core::description::LayerSpec;
use gains_core::model_file::Tensors;

use crate::cpu::Real;
use crate::plan::PlanError;

/// What follows a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    Identity,
    /// `max(x, 0)`.
    Relu,
    /// The logistic function.
    Sigmoid,
}

/// A linear layer and the activation behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Prefix of its tensors.
    pub name: String,
    /// Entries it takes.
    pub inputs: usize,
    /// Entries it gives.
    pub outputs: usize,
    /// What follows.
    pub activation: Activation,
    /// Its weights among the parameters, row by output as in PyTorch.
    pub weights: Range<usize>,
    /// Its biases among the parameters.
    pub biases: Range<usize>,
}

/// A latent ODE as training sees it: stretches of layers, all parameters in one list.
///
/// # Shapes
///
/// As [`gains_core::SeriesEncoder`]; `decoder` maps the latent state to its derivative, `output` to the features.
#[derive(Clone, Debug)]
pub struct Network {
    layers: Vec<Layer>,
    /// From the statics to the first state.
    pub initial: Range<usize>,
    /// How the mean moves between observations.
    pub dynamics: Range<usize>,
    /// The update gate.
    pub update: Range<usize>,
    /// The reset gate.
    pub reset: Range<usize>,
    /// The candidate.
    pub candidate: Range<usize>,
    /// From the last state to the latent mean and deviation.
    pub latent: Range<usize>,
    /// The decoder's dynamics.
    pub decoder: Range<usize>,
    /// From the latent state to the features.
    pub output: Range<usize>,
    /// Number of parameters.
    pub parameters: usize,
    /// The encoder's walk starts this long after the last observation.
    pub lead: f64,
}

fn refuse(layer: &str, problem: &str) -> PlanError {
    PlanError::Layer { layer: layer.into(), problem: problem.into() }
}

impl Network {
    /// The layers of a description made by [`gains_core::latent_ode::LatentOde`].
    pub fn new(description: &Description) -> Result<Self, PlanError> {
        let Some(encoder) = &description.encoder else {
            return Err(refuse("encoder", "there is none, so this is no forecasting network"));
        };
        let Some((LayerSpec::Ode { dynamics, .. }, output)) = description.layers.split_first() else {
            return Err(refuse("0", "training needs a decoder that begins with its ODE"));
        };
        let mut network = Self {
            layers: Vec::new(),
            initial: 0..0,
            dynamics: 0..0,
            update: 0..0,
            reset: 0..0,
            candidate: 0..0,
            latent: 0..0,
            decoder: 0..0,
            output: 0..0,
            parameters: 0,
            lead: encoder.lead,
        };
        network.initial = network.add("initial", &encoder.initial)?;
        network.dynamics = network.add("dynamics", &encoder.dynamics)?;
        network.update = network.add("update", &encoder.update)?;
        network.reset = network.add("reset", &encoder.reset)?;
        network.candidate = network.add("candidate", &encoder.candidate)?;
        network.latent = network.add("latent", &encoder.latent)?;
        network.decoder = network.add("decoder", dynamics)?;
        network.output = network.add("output", output)?;
        // The deviation is an absolute value; behind a ReLU it is one already.
        if network.layers[network.initial.end - 1].activation != Activation::Relu {
            return Err(refuse("initial", "training needs a ReLU behind its last layer"));
        }
        Ok(network)
    }

    fn add(&mut self, part: &str, specs: &[LayerSpec]) -> Result<Range<usize>, PlanError> {
        let first = self.layers.len();
        for (index, spec) in specs.iter().enumerate() {
            let label = format!("{part} {index}");
            let last = self.layers[first..].last_mut();
            match (spec, last) {
                (LayerSpec::Linear { name, in_features, out_features, time: false }, _) => {
                    let weights = self.parameters..self.parameters + in_features * out_features;
                    let biases = weights.end..weights.end + out_features;
                    self.parameters = biases.end;
                    self.layers.push(Layer {
                        name: name.clone(),
                        inputs: *in_features,
                        outputs: *out_features,
                        activation: Activation::Identity,
                        weights,
                        biases,
                    });
                }
                (LayerSpec::Relu {}, Some(layer)) if layer.activation == Activation::Identity => {
                    layer.activation = Activation::Relu;
                }
                (LayerSpec::Sigmoid {}, Some(layer)) if layer.activation == Activation::Identity => {
                    layer.activation = Activation::Sigmoid;
                }
                _ => {
                    return Err(refuse(
                        &label,
                        "training knows linear layers with at most one ReLU or sigmoid behind each",
                    ));
                }
            }
        }
        if first == self.layers.len() {
            return Err(refuse(part, "has no layers"));
        }
        Ok(first..self.layers.len())
    }

    /// All layers.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Entries of the encoder's mean.
    pub fn width(&self) -> usize {
        self.layers[self.dynamics.start].inputs
    }

    /// Entries of the latent state.
    pub fn latent_width(&self) -> usize {
        self.layers[self.decoder.start].inputs
    }

    /// Features of the series.
    pub fn features(&self) -> usize {
        self.layers[self.output.end - 1].outputs
    }

    /// Entries known of the series as a whole.
    pub fn statics(&self) -> usize {
        self.layers[self.initial.start].inputs
    }

    /// Fresh parameters, as PyTorch starts linear layers, rounded to float32.
    pub fn initial_parameters(&self, seed: u64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut all = vec![0.0; self.parameters];
        for layer in &self.layers {
            let bound = 1.0 / (layer.inputs as f64).sqrt();
            for value in &mut all[layer.weights.start..layer.biases.end] {
                *value = f64::from(((random.f64() * 2.0 - 1.0) * bound) as f32);
            }
        }
        all
    }

    /// The parameters as the tensors of a model file.
    pub fn scatter(&self, parameters: &[f64]) -> Tensors {
        let mut tensors = Tensors::new();
        for layer in &self.layers {
            let mut put = |part: &str, shape: Vec<usize>, range: &Range<usize>| {
                tensors.insert(format!("{}.{part}", layer.name), (shape, parameters[range.clone()].to_vec()));
            };
            put("weight", vec![layer.outputs, layer.inputs], &layer.weights);
            put("bias", vec![layer.outputs], &layer.biases);
        }
        tensors
    }
}

/// A network with numbers: weights as they are, transposed, and their magnitudes both ways.
#[derive(Clone, Debug)]
pub struct Weights<F> {
    /// The layers.
    pub network: Network,
    /// All parameters.
    pub parameters: Vec<F>,
    /// |weights|, at the places of the weights.
    pub(super) magnitudes: Vec<F>,
    /// Weights by input, at the places of the weights.
    pub(super) transposed: Vec<F>,
    /// Their magnitudes.
    pub(super) transposed_magnitudes: Vec<F>,
}

impl<F: Real> Weights<F> {
    /// A network with these parameters.
    pub fn new(network: Network, parameters: &[f64]) -> Self {
        let zeros = vec![F::ZERO; network.parameters];
        let mut weights = Self {
            parameters: parameters.iter().map(|value| F::of(*value)).collect(),
            magnitudes: zeros.clone(),
            transposed: zeros.clone(),
            transposed_magnitudes: zeros,
            network,
        };
        weights.refresh();
        weights
    }

    /// Brings the copies up to date with the parameters.
    pub fn refresh(&mut self) {
        for (magnitude, value) in self.magnitudes.iter_mut().zip(&self.parameters) {
            *magnitude = value.abs();
        }
        for layer in &self.network.layers {
            for output in 0..layer.outputs {
                for input in 0..layer.inputs {
                    let value = self.parameters[layer.weights.start + output * layer.inputs + input];
                    let at = layer.weights.start + input * layer.outputs + output;
                    self.transposed[at] = value;
                    self.transposed_magnitudes[at] = value.abs();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SolverConfig;
    use gains_core::description::Points;
    use gains_core::latent_ode::{LatentOde, tensor_shapes};

    #[test]
    fn the_papers_network_has_its_parameters() {
        let names = |count: usize| (0..count).map(|i| format!("f{i}")).collect::<Vec<_>>();
        let solver = SolverConfig::default().spec(0.1);
        let description = LatentOde::default().description(names(35), names(6), Points::Observed, solver);
        let network = Network::new(&description).unwrap();
        let sizes: usize = tensor_shapes(&description).iter().map(|(_, s)| s.iter().product::<usize>()).sum();
        assert_eq!((network.parameters, network.layers().len()), (sizes, 18));
        let shape = (network.width(), network.latent_width(), network.features(), network.statics());
        assert_eq!(shape, (40, 20, 35, 6));
        let parameters = network.initial_parameters(3);
        assert!(parameters.iter().all(|v| v.abs() < 0.5 && *v != 0.0));
        assert_eq!(network.scatter(&parameters).len(), 36);
    }
}
