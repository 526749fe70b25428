//! Networks grown layer by layer: an encoder, ODE blocks and a head, of every layer type, tableau and controller.

use gains_core::Shape;
use gains_core::description::{LayerSpec, RungeKutta, SolverSpec};
use gains_core::model_file::Tensors;

use crate::model::{Model, controlled, fixed};

/// Which activations a network may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// ReLU and LeakyReLU.
    Piecewise,
    /// Those and sigmoid and tanh.
    All,
}

/// Grows a model layer by layer.
pub struct Gardener<'a> {
    /// Where its random numbers come from.
    pub random: &'a mut fastrand::Rng,
    /// Activations it may use.
    pub kinds: Kinds,
    tensors: Tensors,
    shape: Shape,
    names: usize,
}

impl<'a> Gardener<'a> {
    /// Nothing grown yet.
    pub fn new(random: &'a mut fastrand::Rng, kinds: Kinds, shape: Shape) -> Self {
        Self { random, kinds, tensors: Tensors::new(), shape, names: 0 }
    }

    fn parameters(&mut self, count: usize, fan_in: usize) -> Vec<f64> {
        let gain = 1.6 / (fan_in as f64).sqrt();
        (0..count).map(|_| f64::from(((2.0 * self.random.f64() - 1.0) * gain) as f32)).collect()
    }

    fn tensor(&mut self, shape: Vec<usize>, bias: usize, fan_in: usize) -> String {
        self.names += 1;
        let name = format!("layer{}", self.names);
        let weights = self.parameters(shape.iter().product(), fan_in);
        let biases = self.parameters(bias, 4);
        self.tensors.insert(format!("{name}.weight"), (shape, weights));
        self.tensors.insert(format!("{name}.bias"), (vec![bias], biases));
        name
    }

    /// A linear layer on the current shape, which must be a vector.
    pub fn linear(&mut self, outputs: usize, time: bool) -> LayerSpec {
        let inputs = self.shape.channels;
        let columns = inputs + usize::from(time);
        let name = self.tensor(vec![outputs, columns], outputs, columns);
        self.shape = Shape::flat(outputs);
        LayerSpec::Linear { name, in_features: inputs, out_features: outputs, time }
    }

    fn conv(&mut self, outputs: usize, geometry: [[usize; 2]; 4], time: bool) -> LayerSpec {
        let [kernel, stride, padding, dilation] = geometry;
        let inputs = self.shape.channels;
        let columns = inputs + usize::from(time);
        let fan_in = columns * kernel[0] * kernel[1];
        let name = self.tensor(vec![outputs, columns, kernel[0], kernel[1]], outputs, fan_in);
        let side = |size: usize, i: usize| {
            (size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1
        };
        self.shape = Shape::image(side(self.shape.height, 0), side(self.shape.width, 1), outputs);
        LayerSpec::Conv2d {
            name,
            in_channels: inputs,
            out_channels: outputs,
            kernel,
            stride,
            padding,
            dilation,
            time,
        }
    }

    /// A convolution of whatever geometry fits.
    fn any_conv(&mut self) -> LayerSpec {
        let outputs = self.random.usize(1..4);
        loop {
            let mut pair =
                |range: std::ops::Range<usize>| [self.random.usize(range.clone()), self.random.usize(range)];
            let (kernel, stride, padding, dilation) = (pair(1..4), pair(1..3), pair(0..3), pair(1..3));
            let fits = |size: usize, i: usize| size + 2 * padding[i] > dilation[i] * (kernel[i] - 1);
            if fits(self.shape.height, 0) && fits(self.shape.width, 1) {
                return self.conv(outputs, [kernel, stride, padding, dilation], false);
            }
        }
    }

    /// An activation.
    pub fn activation(&mut self) -> LayerSpec {
        let choices = if self.kinds == Kinds::All { 5 } else { 3 };
        match self.random.usize(0..choices) {
            0 | 1 => LayerSpec::Relu {},
            2 => LayerSpec::LeakyRelu { slope: f64::from(0.1_f32) },
            3 => LayerSpec::Sigmoid {},
            _ => LayerSpec::Tanh {},
        }
    }

    fn solver(&mut self) -> SolverSpec {
        const FIXED: [RungeKutta; 7] = [
            RungeKutta::Euler,
            RungeKutta::Midpoint,
            RungeKutta::Heun,
            RungeKutta::Rk4,
            RungeKutta::Rk38,
            RungeKutta::Bosh3,
            RungeKutta::Dopri5,
        ];
        const ADAPTIVE: [RungeKutta; 4] =
            [RungeKutta::Heun, RungeKutta::Bosh3, RungeKutta::Fehlberg2, RungeKutta::Dopri5];
        if self.random.u8(..) < 90 {
            return fixed(FIXED[self.random.usize(0..FIXED.len())], self.random.u32(1..4));
        }
        let method = ADAPTIVE[self.random.usize(0..4)];
        let tolerance = 10.0_f64.powf(-0.5 - 2.0 * self.random.f64());
        let (factor, step) = (self.random.u32(2..4), 0.2 + 0.5 * self.random.f64());
        controlled(method, factor, tolerance, step, self.random.u32(0..3))
    }

    /// An ODE block on the current shape.
    pub fn ode(&mut self) -> LayerSpec {
        let shape = self.shape;
        let time = self.random.bool();
        let mut dynamics = Vec::new();
        if self.random.u8(..) < 60 {
            dynamics.push(self.activation());
        }
        if shape.positions() > 1 {
            let same = [[3, 3], [1, 1], [1, 1], [1, 1]];
            if shape.height.is_multiple_of(2) && shape.width.is_multiple_of(2) && self.random.bool() {
                // Down by a stride and up again by padding: the far edge is seen by nothing.
                let (h, w) = (shape.height / 2, shape.width / 2);
                dynamics.push(self.conv(2, [[1, 1], [2, 2], [0, 0], [1, 1]], time));
                dynamics.push(self.activation());
                if h.is_multiple_of(2) && w.is_multiple_of(2) {
                    dynamics.push(self.conv(shape.channels, [[1, 1], [1, 1], [h / 2, w / 2], [1, 1]], time));
                } else {
                    let padding = [h.div_ceil(2), w.div_ceil(2)];
                    let kernel = [1 + 2 * padding[0] - h, 1 + 2 * padding[1] - w];
                    dynamics.push(self.conv(shape.channels, [kernel, [1, 1], padding, [1, 1]], time));
                }
            } else {
                let middle = self.random.usize(1..4);
                dynamics.push(self.conv(middle, same, time));
                dynamics.push(self.activation());
                let late = self.random.bool();
                dynamics.push(self.conv(shape.channels, same, late));
            }
        } else {
            let middle = self.random.usize(2..6);
            dynamics.push(self.linear(middle, time));
            dynamics.push(self.activation());
            if self.random.u8(..) < 40 {
                dynamics.push(self.activation());
            }
            dynamics.push(self.linear(shape.channels, time));
        }
        if self.random.u8(..) < 60 {
            dynamics.push(self.activation());
        }
        assert_eq!(self.shape, shape, "dynamics keep the shape");
        LayerSpec::Ode { dynamics, solver: self.solver() }
    }

    /// The model with the layers grown.
    pub fn finish(self, input: Shape, layers: Vec<LayerSpec>) -> Model {
        Model::new(input, layers, self.tensors, self.shape.len())
    }
}

/// A network drawn at random: encoder, one or two ODE blocks, decoder, any of them possibly missing.
pub fn random_model(random: &mut fastrand::Rng, kinds: Kinds) -> Model {
    let image = random.bool();
    let input = if image {
        Shape::image(random.usize(2..6), random.usize(2..6), random.usize(1..3))
    } else {
        Shape::flat(random.usize(2..6))
    };
    let outputs = random.usize(2..5);
    let mut g = Gardener::new(random, kinds, input);
    let mut layers = Vec::new();
    if g.random.bool() {
        let channels = input.channels;
        let mean = (0..channels).map(|_| f64::from(g.random.f64() as f32)).collect();
        let std = (0..channels).map(|_| f64::from((0.3 + g.random.f64()) as f32)).collect();
        layers.push(LayerSpec::Normalize { mean, std });
    }
    if image {
        if g.random.bool() {
            layers.push(g.any_conv());
            layers.push(g.activation());
        }
        if g.random.bool() && g.shape.height > 1 && g.shape.width > 1 {
            layers.push(LayerSpec::AvgPool2d { kernel: [2, 2], stride: [1, 2], padding: [0, 1] });
            g.shape = Shape::image(g.shape.height - 1, g.shape.width / 2 + 1, g.shape.channels);
        }
        if g.random.bool() {
            layers.push(g.ode());
        }
        if g.random.bool() {
            layers.push(LayerSpec::Flatten {});
            g.shape = Shape::flat(g.shape.len());
        } else {
            layers.push(LayerSpec::GlobalAvgPool {});
            g.shape = Shape::flat(g.shape.channels);
        }
    }
    if g.random.bool() {
        let width = g.random.usize(2..5);
        layers.push(g.linear(width, false));
        if g.random.bool() {
            layers.push(g.activation());
        }
    }
    if g.random.u8(..) < 200 {
        layers.push(g.ode());
    }
    if g.random.bool() {
        layers.push(g.activation());
    }
    layers.push(g.linear(outputs, false));
    g.finish(input, layers)
}
