//! The paper's forecasting network, of any size: what training starts from.

use crate::description::{Description, EncoderSpec, LayerSpec, Points, SolverSpec, Task};
use crate::shape::Shape;

/// Sizes of a latent ODE; the default is the paper's for PhysioNet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatentOde {
    /// Entries of the encoder's mean, and of its deviation.
    pub state: usize,
    /// Hidden entries of the encoder's dynamics, and how many layers of them there are.
    pub dynamics: (usize, usize),
    /// Hidden entries of the gates and of the candidate.
    pub gates: usize,
    /// Hidden entries between the encoder's state and the latent state.
    pub transform: usize,
    /// Entries of the latent state.
    pub latent: usize,
    /// Hidden entries of the decoder's dynamics, and how many layers of them there are.
    pub decoder: (usize, usize),
}

impl Default for LatentOde {
    fn default() -> Self {
        Self { state: 40, dynamics: (40, 3), gates: 50, transform: 100, latent: 20, decoder: (40, 3) }
    }
}

/// Linear layers with ReLUs between them, named `PREFIX.0`, `PREFIX.1`, ….
fn perceptron(prefix: &str, sizes: &[usize]) -> Vec<LayerSpec> {
    let mut layers = Vec::new();
    for (index, pair) in sizes.windows(2).enumerate() {
        if index > 0 {
            layers.push(LayerSpec::Relu {});
        }
        let name = format!("{prefix}.{index}");
        layers.push(LayerSpec::Linear { name, in_features: pair[0], out_features: pair[1], time: false });
    }
    layers
}

fn with(mut layers: Vec<LayerSpec>, last: LayerSpec) -> Vec<LayerSpec> {
    layers.push(last);
    layers
}

/// `ends.0`, then the hidden layers, then `ends.1`.
fn through(ends: (usize, usize), (hidden, depth): (usize, usize)) -> Vec<usize> {
    std::iter::once(ends.0).chain(std::iter::repeat_n(hidden, depth)).chain([ends.1]).collect()
}

impl LatentOde {
    /// The network for series with the given features and statics. Its weights are still to be made:
    /// [`tensor_shapes`] lists them.
    pub fn description(
        &self,
        features: Vec<String>,
        statics: Vec<String>,
        points: Points,
        solver: SolverSpec,
    ) -> Description {
        let (state, seen) = (2 * self.state, 2 * self.state + features.len());
        let gate = |name: &str| {
            with(
                perceptron(&format!("encoder.{name}"), &[seen, self.gates, self.state]),
                LayerSpec::Sigmoid {},
            )
        };
        let encoder = EncoderSpec {
            initial: with(perceptron("encoder.initial", &[statics.len(), state]), LayerSpec::Relu {}),
            dynamics: perceptron("encoder.dynamics", &through((self.state, self.state), self.dynamics)),
            update: gate("update"),
            reset: gate("reset"),
            candidate: perceptron("encoder.candidate", &[seen, self.gates, state]),
            latent: perceptron("encoder.latent", &[state, self.transform, 2 * self.latent]),
            lead: 0.01,
            points,
        };
        let dynamics = perceptron("decoder.dynamics", &through((self.latent, self.latent), self.decoder));
        let mut layers = vec![LayerSpec::Ode { dynamics, solver }];
        layers.extend(perceptron("decoder.output", &[self.latent, features.len()]));
        let task = Task::forecasting(features, statics);
        let decoder = Description::new("latent ODE", task, Shape::flat(self.latent), layers);
        Description { encoder: Some(encoder), ..decoder }
    }
}

/// Names and shapes of all linear layers' weights and biases, in the order of the network.
pub fn tensor_shapes(description: &Description) -> Vec<(String, Vec<usize>)> {
    fn collect(layers: &[LayerSpec], shapes: &mut Vec<(String, Vec<usize>)>) {
        for layer in layers {
            match layer {
                LayerSpec::Linear { name, in_features, out_features, time } => {
                    let inputs = in_features + usize::from(*time);
                    shapes.push((format!("{name}.weight"), vec![*out_features, inputs]));
                    shapes.push((format!("{name}.bias"), vec![*out_features]));
                }
                LayerSpec::Ode { dynamics, .. } => collect(dynamics, shapes),
                _ => {}
            }
        }
    }
    let mut shapes = Vec::new();
    if let Some(e) = &description.encoder {
        for part in [&e.initial, &e.dynamics, &e.update, &e.reset, &e.candidate, &e.latent] {
            collect(part, &mut shapes);
        }
    }
    collect(&description.layers, &mut shapes);
    shapes
}
