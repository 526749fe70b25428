//! Programs: graphs of operators and ODE blocks, bound to their weights.
//!
//! A [`Circuit`] is a graph of operators; the dynamics of an ODE are one. A [`Program`] is a graph of operators and
//! ODE blocks: a classifier from its image to its logits, a forecaster from the observations of one series to its
//! features at one time.

mod evaluate;
mod flight;
mod trace;

pub use evaluate::Evaluation;
pub use flight::{Flight, Way};
pub use trace::Trace;

use std::sync::{Arc, OnceLock};

use crate::affine::Matrix;
use crate::dag::Dag;
use crate::description::SolverSpec;
use crate::operator::Operator;
use crate::shape::Shape;

/// A graph of operators without a solver.
pub type Circuit = Dag<Operator>;

/// A graph of operators and ODE blocks.
pub type Program = Dag<Step>;

/// A neural ODE: `z(0)` is its input, `z(end time)` its output.
#[derive(Clone, Debug)]
pub struct OdeBlock {
    /// The right-hand side `g(t, z)`, from the state to a vector of its shape.
    pub dynamics: Circuit,
    /// How it is integrated.
    pub solver: SolverSpec,
    matrices: OnceLock<Vec<Option<Matrix>>>,
}

impl OdeBlock {
    /// A neural ODE.
    pub fn new(dynamics: Circuit, solver: SolverSpec) -> Self {
        Self { dynamics, solver, matrices: OnceLock::new() }
    }

    /// For every node of the dynamics, the linear part written out where that pays; worked out once.
    pub fn matrices(&self) -> &[Option<Matrix>] {
        self.matrices.get_or_init(|| {
            let matrix = |operator: &Operator| match operator {
                Operator::Affine(map) => map.to_small_matrix(),
                _ => None,
            };
            self.dynamics.nodes().map(|(_, node)| matrix(&node.operator)).collect()
        })
    }

    /// Shape of the state.
    pub fn state(&self) -> Shape {
        self.dynamics.shape(0)
    }
}

/// An ODE block read off at a time.
#[derive(Clone, Debug)]
pub struct Ode {
    /// The block.
    pub block: Arc<OdeBlock>,
    /// When the state is read off.
    pub end_time: f64,
}

impl Ode {
    /// The solver's settings, with this end time.
    pub fn solver(&self) -> SolverSpec {
        SolverSpec { end_time: self.end_time, ..self.block.solver.clone() }
    }
}

/// A node of a program.
#[derive(Clone, Debug)]
pub enum Step {
    /// An operator.
    Plain(Operator),
    /// An ODE block.
    Ode(Ode),
}

impl From<Operator> for Step {
    fn from(operator: Operator) -> Self {
        Self::Plain(operator)
    }
}

impl Program {
    /// The ODE blocks, each with the value it makes.
    pub fn odes(&self) -> impl Iterator<Item = (usize, &Ode)> {
        self.nodes().filter_map(|(value, node)| match &node.operator {
            Step::Ode(ode) => Some((value, ode)),
            Step::Plain(_) => None,
        })
    }

    /// Number of trained parameters.
    pub fn parameters(&self) -> usize {
        self.nodes()
            .map(|(_, node)| match &node.operator {
                Step::Plain(operator) => parameters(operator),
                Step::Ode(ode) => ode.block.dynamics.parameters(),
            })
            .sum()
    }

    /// A number of the program that float32 cannot store but for a relative rounding error, or a step that is not far
    /// from such numbers: what a float32 program makes of them is not known.
    pub fn beyond_float32(&self) -> Option<f64> {
        self.nodes().find_map(|(_, node)| match &node.operator {
            Step::Plain(operator) => operator.beyond_float32(),
            Step::Ode(ode) => {
                let inside = ode.block.dynamics.nodes().find_map(|(_, node)| node.operator.beyond_float32());
                inside.or_else(|| ode.solver().beyond_float32())
            }
        })
    }

    /// The same with every ODE read off at another time; at time 0 without them.
    pub fn read_off_at(&self, time: f64) -> Self {
        let mut changed = Self::new(self.inputs().to_vec());
        let mut here: Vec<usize> = (0..self.inputs().len()).collect();
        for (_, node) in self.nodes() {
            let from: Vec<usize> = node.from.iter().map(|&v| here[v]).collect();
            here.push(match &node.operator {
                Step::Ode(_) if time == 0.0 => from[0],
                Step::Ode(ode) => {
                    let ode = Ode { block: ode.block.clone(), end_time: time };
                    changed.push(Step::Ode(ode), from, node.shape)
                }
                Step::Plain(operator) => changed.push(operator.clone().into(), from, node.shape),
            });
        }
        changed.set_output(here[self.output()]);
        changed
    }

    /// The same program with other solvers.
    pub fn with_solvers(&self, solver: impl Fn(&Ode) -> SolverSpec) -> Self {
        let mut changed = Self::new(self.inputs().to_vec());
        for (_, node) in self.nodes() {
            let operator = match &node.operator {
                Step::Ode(ode) => {
                    let block = Arc::new(OdeBlock::new(ode.block.dynamics.clone(), solver(ode)));
                    Step::Ode(Ode { block, end_time: ode.end_time })
                }
                plain => plain.clone(),
            };
            changed.push(operator, node.from.clone(), node.shape);
        }
        changed.set_output(self.output());
        changed
    }

    /// The program from one value on, if nothing behind takes anything in front of it: its only input is that value.
    pub fn behind(&self, value: usize) -> Option<Self> {
        let mut rest = Self::of("state", self.shape(value));
        let mut here: Vec<Option<usize>> = vec![None; self.values()];
        here[value] = Some(0);
        for (made, node) in self.nodes().filter(|(made, _)| *made > value) {
            let from = node.from.iter().map(|&v| here[v]).collect::<Option<Vec<usize>>>()?;
            here[made] = Some(rest.push(node.operator.clone(), from, node.shape));
        }
        rest.set_output(here[self.output()]?);
        Some(rest)
    }

    /// The operators in front of a value, if they are all that it depends on and there is no ODE among them: from
    /// the program's inputs to that value.
    pub fn front(&self, value: usize) -> Option<Circuit> {
        let mut front = Circuit::new(self.inputs().to_vec());
        for (_, node) in self.nodes().filter(|(made, _)| *made <= value) {
            let Step::Plain(operator) = &node.operator else { return None };
            front.push(operator.clone(), node.from.clone(), node.shape);
        }
        front.set_output(value);
        Some(front)
    }
}

impl Circuit {
    /// Number of trained parameters.
    pub fn parameters(&self) -> usize {
        self.nodes().map(|(_, node)| parameters(&node.operator)).sum()
    }
}

fn parameters(operator: &Operator) -> usize {
    match operator {
        Operator::Affine(map) => map.parameters(),
        _ => 0,
    }
}
