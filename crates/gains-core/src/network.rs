//! Networks ready to run: descriptions bound to their weights.

use crate::activation::Activation;
use crate::affine::AffineMap;
use crate::arithmetic::Precision;
use crate::description::{Description, SolverSpec};
use crate::series_encoder::SeriesEncoder;
use crate::shape::Shape;

/// A layer without a solver in it.
#[derive(Clone, Debug)]
pub enum Layer {
    /// Affine map.
    Affine(AffineMap),
    /// Elementwise activation.
    Activation(Activation),
}

/// A sequence of affine maps and activations: an encoder, a decoder, the dynamics of an ODE.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Shape of the input.
    pub input: Shape,
    /// The layers in order.
    pub layers: Vec<Layer>,
}

/// What [`Stack::evaluate`] keeps for the way back: the input of every activation.
#[derive(Clone, Debug, Default)]
pub struct Tape(Vec<Vec<f64>>);

impl Tape {
    /// The inputs of the activations, in order.
    pub fn inputs(&self) -> &[Vec<f64>] {
        &self.0
    }
}

impl Stack {
    /// Shape of the output.
    pub fn output(&self) -> Shape {
        self.layers
            .iter()
            .rev()
            .find_map(|layer| match layer {
                Layer::Affine(map) => Some(map.output()),
                Layer::Activation(_) => None,
            })
            .unwrap_or(self.input)
    }

    /// Value at `x`, in the given precision, and the tape for [`Self::pull_back`].
    pub fn evaluate(&self, x: &[f64], time: f64, precision: Precision) -> (Vec<f64>, Tape) {
        let time = precision.rounded(time);
        let mut value = x.to_vec();
        let mut tape = Vec::new();
        for layer in &self.layers {
            match layer {
                Layer::Affine(map) => value = map.apply(&value, time),
                Layer::Activation(activation) => {
                    let next = value.iter().map(|&v| activation.value(v)).collect();
                    tape.push(std::mem::replace(&mut value, next));
                }
            }
            precision.round(&mut value);
        }
        (value, Tape(tape))
    }

    /// Gradient with respect to the input of `cotangent · output`.
    pub fn pull_back(&self, tape: &Tape, cotangent: &[f64]) -> Vec<f64> {
        let mut gradient = cotangent.to_vec();
        let mut before = tape.0.iter().rev();
        for layer in self.layers.iter().rev() {
            match layer {
                Layer::Affine(map) => gradient = map.apply_transposed(&gradient),
                Layer::Activation(activation) => {
                    let inputs = before.next().map_or(&[][..], Vec::as_slice);
                    for (g, &x) in gradient.iter_mut().zip(inputs) {
                        *g *= activation.derivative(x);
                    }
                }
            }
        }
        gradient
    }

    /// Number of trained parameters.
    pub fn parameters(&self) -> usize {
        self.layers
            .iter()
            .map(|layer| match layer {
                Layer::Affine(map) => map.parameters(),
                Layer::Activation(_) => 0,
            })
            .sum()
    }
}

/// A neural ODE: `z(0)` is the block's input, `z(end_time)` its output.
#[derive(Clone, Debug)]
pub struct OdeBlock {
    /// The right-hand side `g(t, z)`.
    pub dynamics: Stack,
    /// How it is integrated.
    pub solver: SolverSpec,
}

/// A stretch of a network.
#[derive(Clone, Debug)]
pub enum Block {
    /// Layers without a solver.
    Stack(Stack),
    /// A neural ODE.
    Ode(OdeBlock),
}

impl Block {
    /// Shape of the output.
    pub fn output(&self) -> Shape {
        match self {
            Self::Stack(stack) => stack.output(),
            Self::Ode(ode) => ode.dynamics.input,
        }
    }
}

/// A network bound to its weights.
#[derive(Clone, Debug)]
pub struct Network {
    /// The description it was built from.
    pub description: Description,
    /// What makes the input of the first block out of a series; for forecasting only.
    pub encoder: Option<SeriesEncoder>,
    /// The blocks in order.
    pub blocks: Vec<Block>,
    /// Content hash of the file it came from: the first 16 hexadecimal digits of its SHA-256.
    pub hash: String,
}

impl Network {
    /// Shape of the input.
    pub fn input(&self) -> Shape {
        self.description.input
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.blocks.last().map_or(self.input(), Block::output).len()
    }

    /// Number of trained parameters.
    pub fn parameters(&self) -> usize {
        let encoder = self.encoder.as_ref().map_or(0, SeriesEncoder::parameters);
        let block = |block: &Block| match block {
            Block::Stack(stack) => stack.parameters(),
            Block::Ode(ode) => ode.dynamics.parameters(),
        };
        encoder + self.blocks.iter().map(block).sum::<usize>()
    }

    /// What follows the encoder, with its ODE read off at another time; at time 0 without the ODE.
    pub fn decoder_at(&self, time: f64) -> Result<Self, String> {
        let description = Description { encoder: None, ..self.description.without_training() };
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            match block {
                Block::Ode(_) if time == 0.0 => {}
                Block::Ode(ode) => {
                    let solver = SolverSpec { end_time: time, ..ode.solver.clone() };
                    if let Some(problem) = solver.problem() {
                        return Err(problem);
                    }
                    blocks.push(Block::Ode(OdeBlock { dynamics: ode.dynamics.clone(), solver }));
                }
                Block::Stack(_) => blocks.push(block.clone()),
            }
        }
        Ok(Self { description, encoder: None, blocks, hash: self.hash.clone() })
    }
}
