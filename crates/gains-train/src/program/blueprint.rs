//! A network as training sees it: the graph that is also verified, each operator with its rules for training, and the
//! places of its weights in one list of parameters.
//!
//! Nothing here knows layers: `gains-core` lays a description out as a program and says which tensors it needs.

use std::ops::Range;

use gains_core::affine::{AffineMap, ScaleKind};
use gains_core::dag::Dag;
use gains_core::description::{LayerSpec, SolverSpec, Task};
use gains_core::model_file::{ModelError, Tensors, build};
use gains_core::operator::Operator;
use gains_core::program::{Program, Step};
use gains_core::{Description, Shape};

use super::ops::{BatchNorm, Each, Fixed, Layer, Operation, Scale};
use super::parameters::{self, Kind, Parameters};
use crate::plan::PlanError;

/// Largest tensor of a network.
const MOST_NUMBERS: usize = 1 << 28;

/// A graph of operators.
pub type Circuit = Dag<Operation>;

/// An ODE block.
#[derive(Clone, Debug)]
pub struct OdePart {
    /// The right-hand side.
    pub dynamics: Circuit,
    /// The solver that ships with the network.
    pub solver: SolverSpec,
}

/// A stretch of a network. ODE blocks stand on its main line, so that everything passes them.
#[derive(Clone, Debug)]
pub enum Stretch {
    /// Operators.
    Plain(Circuit),
    /// An ODE block.
    Ode(OdePart),
}

/// The whole network.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// What it was made from.
    pub description: Description,
    /// One after the other.
    pub stretches: Vec<Stretch>,
    /// The last layer of a classifier, if that is a linear one: margins are then differences of its rows.
    pub head: Option<Layer>,
    /// The parameters by name.
    pub parameters: Parameters,
    /// Layers of batch normalisation.
    pub norms: usize,
}

impl Blueprint {
    /// Lays a described network out.
    pub fn new(description: &Description) -> Result<Self, PlanError> {
        if matches!(description.task, Task::Forecasting { .. }) || description.encoder.is_some() {
            let problem = "networks that forecast series are trained with task = \"forecasting\"".into();
            return Err(PlanError::Layer { layer: "task".into(), problem });
        }
        let tensors = needed(description)?;
        let network = build(description.clone(), &tensors.all, String::new())?;
        let mut builder = Builder {
            parameters: Parameters::new(tensors.groups()),
            next: 0,
            norms: 0,
            inside: false,
            description,
        };
        let mut stretches = builder.stretches(&network.body)?;
        let head = match (&description.task, stretches.last_mut()) {
            (Task::Classification { .. }, Some(Stretch::Plain(circuit))) => take_head(circuit),
            _ => None,
        };
        let (parameters, norms) = (builder.parameters, builder.norms);
        Ok(Self { description: description.clone(), stretches, head, parameters, norms })
    }

    /// Outputs of the last stretch.
    pub fn outputs(&self) -> usize {
        match self.stretches.last() {
            Some(Stretch::Plain(circuit)) => circuit.output_shape().len(),
            Some(Stretch::Ode(ode)) => ode.dynamics.output_shape().len(),
            None => 0,
        }
    }

    /// The ODE blocks.
    pub fn odes(&self) -> impl Iterator<Item = &OdePart> {
        self.stretches.iter().filter_map(|stretch| match stretch {
            Stretch::Ode(ode) => Some(ode),
            Stretch::Plain(_) => None,
        })
    }

    /// All layers of batch normalisation, by number.
    pub fn batch_norms(&self) -> Vec<&BatchNorm> {
        let circuits = self.stretches.iter().map(|stretch| match stretch {
            Stretch::Plain(circuit) => circuit,
            Stretch::Ode(ode) => &ode.dynamics,
        });
        circuits
            .flat_map(|circuit| circuit.nodes())
            .filter_map(|(_, node)| match &node.operator {
                Operation::BatchNorm(norm) => Some(norm),
                _ => None,
            })
            .collect()
    }

    /// Whether the dynamics of any ODE depend on the time.
    pub fn uses_time(&self) -> bool {
        let takes = |operation: &Operation| matches!(operation, Operation::Layer(layer) if layer.uses_time());
        self.odes().any(|ode| ode.dynamics.nodes().any(|(_, node)| takes(&node.operator)))
    }
}

/// The tensors a description needs, in the order the network is laid out.
struct Needed {
    all: Tensors,
    order: Vec<String>,
}

impl Needed {
    fn groups(&self) -> Vec<parameters::Layer> {
        let mut groups: Vec<parameters::Layer> = Vec::new();
        for name in &self.order {
            let layer = name.rsplit_once('.').map_or(name.as_str(), |(layer, _)| layer);
            let entry = (name.clone(), self.all[name].0.clone());
            match groups.last_mut().filter(|(last, _)| last == layer) {
                Some((_, tensors)) => tensors.push(entry),
                None => groups.push((layer.to_string(), vec![entry])),
            }
        }
        groups
    }
}

/// Asks the model format which tensors a description needs: it says which one is missing, then which shape it should have.
fn needed(description: &Description) -> Result<Needed, PlanError> {
    let mut needed = Needed { all: Tensors::new(), order: Vec::new() };
    loop {
        match build(description.clone(), &needed.all, String::new()) {
            Ok(_) => return Ok(needed),
            Err(ModelError::MissingTensor(name)) => {
                needed.order.push(name.clone());
                needed.all.insert(name, (vec![0], Vec::new()));
            }
            Err(ModelError::TensorShape { name, expected, found }) if found == [0] => {
                let count = expected.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
                let Some(count @ ..=MOST_NUMBERS) = count else {
                    return Err(PlanError::Layer {
                        layer: name,
                        problem: format!("has {expected:?} weights, more than {MOST_NUMBERS}"),
                    });
                };
                needed.all.insert(name, (expected, vec![0.0; count]));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

struct Builder<'d> {
    description: &'d Description,
    parameters: Parameters,
    /// The layer with weights that comes next.
    next: usize,
    norms: usize,
    /// Whether operators belong to the dynamics of an ODE.
    inside: bool,
}

impl Builder<'_> {
    fn stretches(&mut self, program: &Program) -> Result<Vec<Stretch>, PlanError> {
        let mut all = Vec::new();
        let mut circuit = Circuit::of("input", program.shape(0));
        // Where the values of the program are in the stretch at hand; those before an ODE are nowhere.
        let mut here: Vec<Option<usize>> = vec![Some(0)];
        for (value, node) in program.nodes() {
            let from: Option<Vec<usize>> = node.from.iter().map(|v| here[*v]).collect();
            let from = from.ok_or_else(|| PlanError::Layer {
                layer: value.to_string(),
                problem: "takes a value from before an ODE, which the trainer cannot".into(),
            })?;
            match &node.operator {
                Step::Plain(operator) => {
                    let operation = self.operation(operator, program.shape(node.from[0]))?;
                    here.push(Some(circuit.push(operation, from, node.shape)));
                }
                Step::Ode(ode) => {
                    circuit.set_output(from[0]);
                    let before = std::mem::replace(&mut circuit, Circuit::of("state", node.shape));
                    all.push(Stretch::Plain(before));
                    self.inside = true;
                    let dynamics = self.dynamics(&ode.block.dynamics)?;
                    self.inside = false;
                    all.push(Stretch::Ode(OdePart { dynamics, solver: ode.solver() }));
                    here.fill(None);
                    here.push(Some(0));
                }
            }
        }
        if let Some(output) = here[program.output()] {
            circuit.set_output(output);
        }
        all.push(Stretch::Plain(circuit));
        Ok(all)
    }

    fn dynamics(&mut self, dynamics: &Dag<Operator>) -> Result<Circuit, PlanError> {
        let mut circuit = Circuit::of("state", dynamics.shape(0));
        for (_, node) in dynamics.nodes() {
            let operation = self.operation(&node.operator, dynamics.shape(node.from[0]))?;
            circuit.push(operation, node.from.clone(), node.shape);
        }
        circuit.set_output(dynamics.output());
        Ok(circuit)
    }

    fn operation(&mut self, operator: &Operator, input: Shape) -> Result<Operation, PlanError> {
        if let Some(each) = Each::of(operator) {
            return Ok(Operation::Each(each));
        }
        match operator {
            Operator::Affine(map) => self.affine(map, input),
            Operator::Sum(sum) => Ok(Operation::Sum(sum.coefficients.clone())),
            Operator::Concat(_) => Ok(Operation::Concat),
            Operator::Slice(slice) => Ok(Operation::Slice(slice.range())),
            Operator::Curve(_) | Operator::Product | Operator::Maximum | Operator::Blend(_) => {
                unreachable!("elementwise")
            }
        }
    }

    fn affine(&mut self, map: &std::sync::Arc<AffineMap>, input: Shape) -> Result<Operation, PlanError> {
        match &**map {
            AffineMap::Conv(conv) => {
                let group = self.next_group(&[Kind::Weight, Kind::Bias])?;
                let (outputs, time) = (conv.output().channels, map.uses_time());
                let layer = Layer::new(input, conv.geometry(), outputs, time, group[0].start);
                let fits = layer.filter(|layer| layer.weights() == group[0] && layer.biases() == group[1]);
                fits.map(Operation::Layer).ok_or_else(|| self.misfit())
            }
            AffineMap::Scale(scale) => match scale.kind() {
                ScaleKind::Normalise => Ok(Operation::Fixed(Fixed(map.clone()))),
                ScaleKind::Affine => {
                    let group = self.next_group(&[Kind::Factor, Kind::Zero])?;
                    let by_entry = group[0].len() > input.channels;
                    // Tensors of images lie channel by channel, values pixel by pixel.
                    let index = |i: usize| match by_entry {
                        true => i % input.channels * input.positions() + i / input.channels,
                        false => i % input.channels,
                    };
                    let index = (0..input.len()).map(|i| index(i) as u32).collect();
                    let [factors, summands] = [group[0].clone(), group[1].clone()];
                    Ok(Operation::Scale(Scale { factors, summands, index }))
                }
                ScaleKind::BatchNorm { parameters } => {
                    let kinds = [Kind::Mean, Kind::Variance, Kind::Factor, Kind::Zero];
                    let name = self.parameters.group_name(self.next);
                    let eps = eps_of(&self.description.layers, name).unwrap_or(1e-5);
                    let group = self.next_group(if parameters > 0 { &kinds } else { &kinds[..2] })?;
                    let affine = (parameters > 0).then(|| [group[2].clone(), group[3].clone()]);
                    self.norms += 1;
                    Ok(Operation::BatchNorm(BatchNorm {
                        index: self.norms - 1,
                        inside: self.inside,
                        channels: input.channels,
                        eps,
                        affine,
                        running: [group[0].clone(), group[1].clone()],
                    }))
                }
            },
            AffineMap::Pool(_) | AffineMap::Select(_) | AffineMap::Group(_) => {
                Ok(Operation::Fixed(Fixed(map.clone())))
            }
        }
    }

    /// The tensors of the next layer with weights.
    fn next_group(&mut self, kinds: &[Kind]) -> Result<Vec<Range<usize>>, PlanError> {
        let group = self.parameters.set_kinds(self.next, kinds);
        self.next += 1;
        group.ok_or_else(|| self.misfit())
    }

    fn misfit(&self) -> PlanError {
        PlanError::Tensor(self.parameters.group_name(self.next.saturating_sub(1)).to_string())
    }
}

/// What a layer of batch normalisation adds to variances.
fn eps_of(layers: &[LayerSpec], wanted: &str) -> Option<f64> {
    layers.iter().find_map(|spec| match spec {
        LayerSpec::BatchNorm { name, eps, .. } if name == wanted => Some(*eps),
        LayerSpec::Ode { dynamics, .. } => eps_of(dynamics, wanted),
        LayerSpec::Parallel { branches, .. } => branches.iter().find_map(|branch| eps_of(branch, wanted)),
        _ => None,
    })
}

/// Takes the last layer off a circuit if it is a linear one.
fn take_head(circuit: &mut Circuit) -> Option<Layer> {
    let (value, node) = circuit.nodes().next_back()?;
    let Operation::Layer(layer) = &node.operator else { return None };
    // A convolution of a single pixel may look at padding; only a plain product of rows is a head.
    if value != circuit.output() || node.shape.positions() != 1 || !layer.is_plain() {
        return None;
    }
    let (layer, from) = (layer.clone(), node.from[0]);
    if circuit.shape(from).positions() != 1 {
        return None;
    }
    let mut rest = Circuit::new(circuit.inputs().to_vec());
    for (_, node) in circuit.nodes().take_while(|(other, _)| *other < value) {
        rest.push(node.operator.clone(), node.from.clone(), node.shape);
    }
    rest.set_output(from);
    *circuit = rest;
    Some(layer)
}
