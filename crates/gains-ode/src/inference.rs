//! Running a network on one input: inference and gradients. Never on a batch, so that a result cannot
//! depend on its batch mates.

use gains_core::network::Tape;
use gains_core::{Block, Network, Precision};

use crate::integrate::{Solution, SolveError, solve};
use crate::system::NeuralDynamics;
use crate::tableau::Tableau;

/// What one block remembers.
enum Trace {
    Stack(Tape),
    Ode(Box<Solution<Tape>>),
}

/// A network evaluated at one input.
pub struct Inference<'a> {
    network: &'a Network,
    precision: Precision,
    traces: Vec<Trace>,
    /// The outputs, e.g. logits.
    pub output: Vec<f64>,
    /// The input of each block.
    pub block_inputs: Vec<Vec<f64>>,
}

impl<'a> Inference<'a> {
    /// Evaluates the network.
    pub fn run(network: &'a Network, input: &[f64], precision: Precision) -> Result<Self, SolveError> {
        let expected = network.input().len();
        if input.len() != expected {
            return Err(SolveError::InputSize { found: input.len(), expected });
        }
        let mut value = input.to_vec();
        precision.round(&mut value);
        let mut traces = Vec::with_capacity(network.blocks.len());
        let mut block_inputs = Vec::with_capacity(network.blocks.len());
        for block in &network.blocks {
            block_inputs.push(value.clone());
            match block {
                Block::Stack(stack) => {
                    let (next, tape) = stack.evaluate(&value, 0.0, precision);
                    value = next;
                    traces.push(Trace::Stack(tape));
                }
                Block::Ode(ode) => {
                    let system = NeuralDynamics { stack: &ode.dynamics, precision };
                    let solution = solve(&system, &ode.solver, &value)?;
                    value.clone_from(&solution.state);
                    traces.push(Trace::Ode(Box::new(solution)));
                }
            }
        }
        if value.iter().any(|v| !v.is_finite()) {
            return Err(SolveError::NotFinite { time: f64::NAN });
        }
        Ok(Self { network, precision, traces, output: value, block_inputs })
    }

    /// Index of the largest output.
    pub fn prediction(&self) -> usize {
        let mut best = 0;
        for (index, value) in self.output.iter().enumerate() {
            if *value > self.output[best] {
                best = index;
            }
        }
        best
    }

    /// The solutions of the network's ODE blocks, in order.
    pub fn solutions(&self) -> impl Iterator<Item = &Solution<Tape>> {
        self.traces.iter().filter_map(|trace| match trace {
            Trace::Ode(solution) => Some(solution.as_ref()),
            Trace::Stack(_) => None,
        })
    }

    /// Gradient with respect to the input of `cotangent · output`, through the accepted solver steps.
    pub fn pull_back(&self, cotangent: &[f64]) -> Vec<f64> {
        let mut gradient = cotangent.to_vec();
        for (block, trace) in self.network.blocks.iter().zip(&self.traces).rev() {
            gradient = match (block, trace) {
                (Block::Stack(stack), Trace::Stack(tape)) => stack.pull_back(tape, &gradient),
                (Block::Ode(ode), Trace::Ode(solution)) => {
                    let system = NeuralDynamics { stack: &ode.dynamics, precision: self.precision };
                    solution.pull_back(&system, Tableau::of(ode.solver.method), &gradient)
                }
                _ => gradient,
            };
        }
        gradient
    }
}
