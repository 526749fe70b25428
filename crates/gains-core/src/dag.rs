//! Directed acyclic graphs of operators: what encoders, dynamics, decoders and heads are made of.

use crate::shape::Shape;

/// A value of a graph: its inputs are numbered first, then comes one for each node.
pub type Value = usize;

/// An input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// What it is called in regions and witnesses.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
}

/// An operator applied to some values.
#[derive(Clone, Debug)]
pub struct Node<O> {
    /// What is computed.
    pub operator: O,
    /// From which values, in the operator's order.
    pub from: Vec<Value>,
    /// Shape of the result.
    pub shape: Shape,
}

/// Nodes in an order in which each comes after what it takes.
#[derive(Clone, Debug)]
pub struct Dag<O> {
    inputs: Vec<Input>,
    nodes: Vec<Node<O>>,
    output: Value,
}

impl<O> Dag<O> {
    /// A graph with inputs and nothing else; its output is the last input until a node is added.
    pub fn new(inputs: Vec<Input>) -> Self {
        let output = inputs.len().saturating_sub(1);
        Self { inputs, nodes: Vec::new(), output }
    }

    /// A graph with one input.
    pub fn of(name: &str, shape: Shape) -> Self {
        Self::new(vec![Input { name: name.into(), shape }])
    }

    /// Adds a node, which becomes the output.
    pub fn push(&mut self, operator: O, from: Vec<Value>, shape: Shape) -> Value {
        assert!(from.iter().all(|v| *v < self.values()), "a node comes after what it takes");
        self.nodes.push(Node { operator, from, shape });
        self.output = self.values() - 1;
        self.output
    }

    /// Names another value as the output.
    pub fn set_output(&mut self, output: Value) {
        assert!(output < self.values(), "the output is one of the values");
        self.output = output;
    }

    /// The inputs.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The nodes, each with the value it makes.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = (Value, &Node<O>)> + ExactSizeIterator {
        let first = self.inputs.len();
        self.nodes.iter().enumerate().map(move |(i, node)| (first + i, node))
    }

    /// The node that makes a value; none for an input.
    pub fn node(&self, value: Value) -> Option<&Node<O>> {
        self.nodes.get(value.checked_sub(self.inputs.len())?)
    }

    /// Number of values.
    pub fn values(&self) -> usize {
        self.inputs.len() + self.nodes.len()
    }

    /// The output.
    pub fn output(&self) -> Value {
        self.output
    }

    /// Shape of a value.
    pub fn shape(&self, value: Value) -> Shape {
        match self.node(value) {
            Some(node) => node.shape,
            None => self.inputs[value].shape,
        }
    }

    /// Shape of the output.
    pub fn output_shape(&self) -> Shape {
        self.shape(self.output)
    }

    /// For every value, how often it is taken; the output counts as taken once more.
    pub fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.values()];
        self.nodes.iter().flat_map(|node| &node.from).for_each(|&v| uses[v] += 1);
        uses[self.output] += 1;
        uses
    }

    /// Appends the nodes of another graph, its inputs being `inputs` of this one; returns its output here.
    pub fn append<P: Clone + Into<O>>(&mut self, other: &Dag<P>, inputs: &[Value]) -> Value {
        let mut here = inputs.to_vec();
        assert_eq!(inputs.len(), other.inputs.len(), "one value for each input");
        for (_, node) in other.nodes() {
            let from = node.from.iter().map(|&v| here[v]).collect();
            here.push(self.push(node.operator.clone().into(), from, node.shape));
        }
        self.set_output(here[other.output]);
        self.output
    }
}
