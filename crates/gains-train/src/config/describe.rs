//! The network a configuration asks for.

use gains_core::description::{Description, LayerSpec, Task};

use super::{Config, Encoder};

impl Config {
    /// The network that is trained, without weights.
    pub fn description(&self, initial_step: f64, classes: &[String]) -> Description {
        let single = |values: &[f64]| values.iter().map(|x| f64::from(*x as f32)).collect();
        let network = &self.network;
        let mut layers =
            vec![LayerSpec::Normalize { mean: single(&network.mean), std: single(&network.std) }];
        let Encoder { channels, kernel, stride, padding } = &network.encoder;
        let mut before = network.image.channels;
        for (index, after) in channels.iter().enumerate() {
            let name = format!("encoder.conv{}", index + 1);
            layers.push(convolution(name, [before, *after], *kernel, *stride, *padding, false));
            layers.push(LayerSpec::Relu {});
            before = *after;
        }
        let mut dynamics = Vec::new();
        for (index, after) in network.dynamics.channels.iter().enumerate() {
            let kernel = network.dynamics.kernel;
            let name = format!("ode.conv{}", index + 1);
            dynamics.push(convolution(name, [before, *after], kernel, 1, kernel / 2, network.dynamics.time));
            dynamics.push(LayerSpec::Relu {});
            before = *after;
        }
        layers.push(LayerSpec::Ode { dynamics, solver: self.solver.spec(initial_step) });
        layers.extend([
            LayerSpec::GlobalAvgPool {},
            LayerSpec::Flatten {},
            LayerSpec::Linear {
                name: "classifier.linear".into(),
                in_features: before,
                out_features: classes.len(),
                time: false,
            },
        ]);
        let task = Task::Classification { classes: classes.to_vec() };
        Description {
            dataset: Some(self.dataset.clone()),
            ..Description::new(self.name.clone(), task, network.image, layers)
        }
    }
}

fn convolution(
    name: String,
    [in_channels, out_channels]: [usize; 2],
    kernel: usize,
    stride: usize,
    padding: usize,
    time: bool,
) -> LayerSpec {
    LayerSpec::Conv2d {
        name,
        in_channels,
        out_channels,
        kernel: [kernel; 2],
        stride: [stride; 2],
        padding: [padding; 2],
        dilation: [1, 1],
        time,
    }
}
