//! Running a network on one input: inference and gradients. Never on a batch, so that a result cannot
//! depend on its batch mates.

use std::convert::Infallible;

use gains_core::network::Tape;
use gains_core::{Block, Network, OdeBlock, Precision};

use crate::integrate::{Solution, SolveError, solve_within};
use crate::system::NeuralDynamics;
use crate::tableau::Tableau;
use crate::watch::Watch;

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
        Self::run_within(network, input, precision, &Watch::default())
    }

    /// Evaluates the network within limits, which its ODE blocks share.
    pub fn run_within(
        network: &'a Network,
        input: &[f64],
        precision: Precision,
        watch: &Watch<'_>,
    ) -> Result<Self, SolveError> {
        let expected = network.input().len();
        if input.len() != expected {
            return Err(SolveError::InputSize { found: input.len(), expected });
        }
        let mut value = input.to_vec();
        precision.round(&mut value);
        let mut traces = Vec::with_capacity(network.blocks.len());
        let mut block_inputs = Vec::with_capacity(network.blocks.len());
        let mut held = 0;
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
                    let solution = solve_within(&system, &ode.solver, &value, &watch.beside(held))?;
                    held += solution.bytes();
                    value.clone_from(&solution.state);
                    traces.push(Trace::Ode(Box::new(solution)));
                }
            }
        }
        if value.iter().any(|v| !v.is_finite()) {
            return Err(SolveError::OutputNotFinite);
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
        let through = |ode: &'a OdeBlock, solution: &Solution<Tape>, gradient: &[f64]| {
            Ok::<_, Infallible>(solution.pull_back(
                &self.system(ode),
                Tableau::of(ode.solver.method),
                gradient,
            ))
        };
        let Ok(gradient) = self.pull(cotangent, through);
        gradient
    }

    /// The same within limits: steps that were not kept are taken once more, which may last as long as the run.
    pub fn pull_back_within(&self, cotangent: &[f64], watch: &Watch<'_>) -> Result<Vec<f64>, SolveError> {
        self.pull(cotangent, |ode, solution, gradient| {
            let tableau = Tableau::of(ode.solver.method);
            solution.pull_back_within(&self.system(ode), tableau, gradient, watch)
        })
    }

    fn system(&self, ode: &'a OdeBlock) -> NeuralDynamics<'a> {
        NeuralDynamics { stack: &ode.dynamics, precision: self.precision }
    }

    fn pull<E>(
        &self,
        cotangent: &[f64],
        through: impl Fn(&'a OdeBlock, &Solution<Tape>, &[f64]) -> Result<Vec<f64>, E>,
    ) -> Result<Vec<f64>, E> {
        let mut gradient = cotangent.to_vec();
        for (block, trace) in self.network.blocks.iter().zip(&self.traces).rev() {
            gradient = match (block, trace) {
                (Block::Stack(stack), Trace::Stack(tape)) => stack.pull_back(tape, &gradient),
                (Block::Ode(ode), Trace::Ode(solution)) => through(ode, solution, &gradient)?,
                _ => gradient,
            };
        }
        Ok(gradient)
    }
}
