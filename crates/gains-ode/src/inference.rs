//! Running a program at one point: inference and gradients. Never on a batch, so that a result cannot
//! depend on its batch mates.

use std::convert::Infallible;

use gains_core::program::Evaluation;
use gains_core::{Network, Ode, Precision, Program, Step};

use crate::integrate::{Solution, SolveError, solve_within};
use crate::system::NeuralDynamics;
use crate::tableau::Tableau;
use crate::watch::{Progress, Watch};

/// A program evaluated at one point.
pub struct Inference<'a> {
    program: &'a Program,
    precision: Precision,
    /// All values: the inputs, then one per node.
    pub values: Vec<Vec<f64>>,
    /// For every value, the solution if an ODE made it.
    solutions: Vec<Option<Box<Solution<Evaluation>>>>,
    /// The outputs, e.g. logits.
    pub output: Vec<f64>,
}

impl<'a> Inference<'a> {
    /// Evaluates a network that takes one input.
    pub fn run(network: &'a Network, input: &[f64], precision: Precision) -> Result<Self, SolveError> {
        Self::run_within(&network.body, &[input], precision, &Watch::default())
    }

    /// Evaluates a program within limits, which its ODE blocks share.
    pub fn run_within(
        program: &'a Program,
        inputs: &[&[f64]],
        precision: Precision,
        watch: &Watch<'_>,
    ) -> Result<Self, SolveError> {
        let (found, expected) = (inputs.len(), program.inputs().len());
        if found != expected {
            return Err(SolveError::InputSize { found, expected });
        }
        let mut values: Vec<Vec<f64>> = Vec::with_capacity(program.values());
        for (input, given) in program.inputs().iter().zip(inputs) {
            if given.len() != input.shape.len() {
                return Err(SolveError::InputSize { found: given.len(), expected: input.shape.len() });
            }
            let mut value = given.to_vec();
            precision.round(&mut value);
            values.push(value);
        }
        let mut solutions: Vec<Option<Box<Solution<Evaluation>>>> = Vec::with_capacity(program.values());
        solutions.resize_with(values.len(), || None);
        let mut held = 0;
        for (_, node) in program.nodes() {
            let (value, solution) = match &node.operator {
                Step::Plain(operator) => {
                    watch.check(Progress { bytes: held, ..Progress::default() })?;
                    let arguments: Vec<&[f64]> = node.from.iter().map(|&v| &values[v][..]).collect();
                    (operator.evaluate(&arguments, 0.0, precision), None)
                }
                Step::Ode(ode) => {
                    let system = NeuralDynamics { circuit: &ode.block.dynamics, precision };
                    let solution =
                        solve_within(&system, &ode.solver(), &values[node.from[0]], &watch.beside(held))?;
                    held += solution.bytes();
                    (solution.state.clone(), Some(Box::new(solution)))
                }
            };
            held += 8 * value.len();
            values.push(value);
            solutions.push(solution);
        }
        let output = values[program.output()].clone();
        if output.iter().any(|v| !v.is_finite()) {
            return Err(SolveError::OutputNotFinite);
        }
        Ok(Self { program, precision, values, solutions, output })
    }

    /// The same run, if all its error estimates are finite. A step that overflows is rejected and tried again with a smaller
    /// one, but what other numbers would have made of an estimate that is not finite cannot be told: nothing about the
    /// program may be concluded from such a run.
    pub fn certain(self) -> Result<Self, SolveError> {
        let mut visits = self.solutions().flat_map(|solution| &solution.trajectory);
        let overflow = visits.find(|visit| !visit.error.is_finite()).map(|visit| visit.time + visit.step);
        drop(visits);
        overflow.map_or(Ok(self), |time| Err(SolveError::NotFinite { time }))
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

    /// The solutions of the program's ODE blocks, in order.
    pub fn solutions(&self) -> impl Iterator<Item = &Solution<Evaluation>> {
        self.solutions.iter().filter_map(Option::as_deref)
    }

    /// Gradient with respect to the first input of `cotangent · output`, through the accepted solver steps.
    pub fn pull_back(&self, cotangent: &[f64]) -> Vec<f64> {
        self.gradients(cotangent).swap_remove(0)
    }

    /// Gradients with respect to all inputs.
    pub fn gradients(&self, cotangent: &[f64]) -> Vec<Vec<f64>> {
        let through = |ode: &'a Ode, solution: &Solution<Evaluation>, gradient: &[f64]| {
            let tableau = Tableau::of(ode.block.solver.method);
            Ok::<_, Infallible>(solution.pull_back(&self.system(ode), tableau, gradient))
        };
        let Ok(gradients) = self.pull(cotangent, through);
        gradients
    }

    /// The same within limits: steps that were not kept are taken once more, which may last as long as the run.
    pub fn gradients_within(
        &self,
        cotangent: &[f64],
        watch: &Watch<'_>,
    ) -> Result<Vec<Vec<f64>>, SolveError> {
        self.pull(cotangent, |ode, solution, gradient| {
            let tableau = Tableau::of(ode.block.solver.method);
            solution.pull_back_within(&self.system(ode), tableau, gradient, watch)
        })
    }

    fn system(&self, ode: &'a Ode) -> NeuralDynamics<'a> {
        NeuralDynamics { circuit: &ode.block.dynamics, precision: self.precision }
    }

    fn pull<E>(
        &self,
        cotangent: &[f64],
        through: impl Fn(&'a Ode, &Solution<Evaluation>, &[f64]) -> Result<Vec<f64>, E>,
    ) -> Result<Vec<Vec<f64>>, E> {
        let program = self.program;
        let mut on: Vec<Option<Vec<f64>>> = vec![None; program.values()];
        on[program.output()] = Some(cotangent.to_vec());
        for (value, node) in program.nodes().rev() {
            let Some(gradient) = on[value].take() else { continue };
            let parts = match (&node.operator, &self.solutions[value]) {
                (Step::Ode(ode), Some(solution)) => vec![through(ode, solution, &gradient)?],
                (Step::Plain(operator), _) => {
                    let arguments: Vec<&[f64]> = node.from.iter().map(|&v| &self.values[v][..]).collect();
                    operator.gradient(&arguments, &gradient)
                }
                (Step::Ode(_), None) => vec![gradient],
            };
            for (&v, part) in node.from.iter().zip(parts) {
                match &mut on[v] {
                    Some(sum) => sum.iter_mut().zip(&part).for_each(|(s, p)| *s += p),
                    empty => *empty = Some(part),
                }
            }
        }
        let inputs = program.inputs().iter().zip(on);
        Ok(inputs.map(|(input, gradient)| gradient.unwrap_or_else(|| vec![0.0; input.shape.len()])).collect())
    }
}
