//! Puts networks together, value by value: every layer becomes affine maps, functions of entries, products and maxima.

use crate::affine::Affine;
use crate::curve::Curve;
use crate::fault::Fault;
use crate::interval::Interval;
use crate::model::Tensors;
use crate::network::{Network, Node, Operator, Shape};
use crate::value::{Value, bad};

/// Most entries of all values and weights of all maps: 240 MB.
pub const MAX_SIZE: usize = 20_000_000;
/// Most values.
const MAX_VALUES: usize = 10_000;

/// Where layers stand: ODEs have no ODEs inside, and branches and encoders have none either.
#[derive(Clone, Copy, PartialEq)]
pub enum Places {
    /// In the network itself.
    Network,
    /// In the network itself, whose ODE is read off at this time.
    ReadOff(f64),
    /// In the dynamics of an ODE.
    Dynamics,
    /// In the encoder of a network for series: nothing takes the time.
    Encoder,
}

/// An entry of an argument, and its weight.
pub type Term = (usize, Interval);

/// A network that is being put together.
pub struct Builder<'a> {
    pub(crate) tensors: &'a Tensors,
    /// What there is so far.
    pub network: Network,
    /// Where the next layers stand.
    pub places: Places,
    /// Entries of all values and maps so far.
    pub(crate) size: usize,
}

impl<'a> Builder<'a> {
    /// Nothing yet.
    pub fn new(tensors: &'a Tensors, places: Places) -> Self {
        Self { tensors, network: Network::default(), places, size: 0 }
    }

    /// One more value.
    pub fn push(&mut self, operator: Operator, arguments: Vec<usize>, shape: Shape) -> Result<usize, Fault> {
        let weights = if let Operator::Affine(map) = &operator { map.size() } else { 0 };
        self.size += shape.count() + weights + arguments.len();
        if self.network.nodes.len() >= MAX_VALUES || self.size > MAX_SIZE {
            return Err(bad("the network is too large for this checker"));
        }
        self.network.nodes.push(Node { operator, arguments, shape });
        Ok(self.network.nodes.len() - 1)
    }

    /// A value that is given.
    pub fn input(&mut self, shape: Shape) -> Result<usize, Fault> {
        self.push(Operator::Input, vec![], shape)
    }

    /// The shape of a value.
    pub fn shape(&self, value: usize) -> Shape {
        self.network.nodes[value].shape
    }

    /// One more value of the shape of its first argument.
    pub fn like(&mut self, operator: Operator, arguments: &[usize]) -> Result<usize, Fault> {
        self.push(operator, arguments.to_vec(), self.shape(arguments[0]))
    }

    /// A function of each entry.
    pub fn curve(&mut self, input: usize, curve: Curve) -> Result<usize, Fault> {
        self.like(Operator::Curve(curve), &[input])
    }

    /// An affine map: the terms of every entry, its summand, and what the time is multiplied by.
    pub fn map<T: IntoIterator<Item = Term>>(
        &mut self,
        arguments: Vec<usize>,
        shape: Shape,
        row: impl Fn(usize) -> (T, Interval, Option<Interval>),
    ) -> Result<usize, Fault> {
        let mut map = Affine::default();
        for entry in 0..shape.count() {
            let (terms, shift, time) = row(entry);
            for (column, weight) in terms {
                map.push(column, weight)?;
            }
            map.end_row(shift, time)?;
        }
        self.push(Operator::Affine(map), arguments, shape)
    }

    /// Sums of entries.
    pub fn sums<T: IntoIterator<Item = Term>>(
        &mut self,
        input: usize,
        shape: Shape,
        row: impl Fn(usize) -> T,
    ) -> Result<usize, Fault> {
        self.map(vec![input], shape, |entry| (row(entry), Interval::ZERO, None))
    }

    /// Entries from elsewhere; zero where there is none.
    pub fn moves(
        &mut self,
        input: usize,
        shape: Shape,
        from: impl Fn(usize) -> Option<usize>,
    ) -> Result<usize, Fault> {
        self.sums(input, shape, |entry| from(entry).map(|from| (from, Interval::ONE)))
    }

    /// A factor and a summand for each entry.
    pub fn scale(
        &mut self,
        input: usize,
        of: impl Fn(usize) -> (Interval, Interval),
    ) -> Result<usize, Fault> {
        let row = |entry| ([(entry, of(entry).0)], of(entry).1, None);
        self.map(vec![input], self.shape(input), row)
    }

    /// All values, one after the other, as a vector.
    pub fn list(&mut self, values: &[usize]) -> Result<usize, Fault> {
        let length = values.iter().map(|&value| self.network.length(value)).sum();
        let row = |entry| ([(entry, Interval::ONE)], Interval::ZERO, None);
        self.map(values.to_vec(), Shape::vector(length)?, row)
    }

    /// The sum of values of one shape, each times its factor.
    pub fn sum(&mut self, values: &[usize], factors: &[f64]) -> Result<usize, Fault> {
        let factors: Vec<Interval> = factors.iter().map(|&factor| Interval::point(factor)).collect();
        let sum = Affine::sum(&factors, self.network.length(values[0]))?;
        self.like(Operator::Affine(sum), values)
    }

    /// So many channels from one on.
    pub fn slice(&mut self, input: usize, first: usize, length: usize) -> Result<usize, Fault> {
        let shape = self.shape(input);
        if first.saturating_add(length) > shape.channels {
            return Err(bad(format!("there are {} channels only", shape.channels)));
        }
        let to = Shape::new(shape.height, shape.width, length)?;
        self.moves(input, to, |i| Some(i / length * shape.channels + first + i % length))
    }

    /// Layers one after the other, from value `input` on; the number of what comes out.
    pub fn layers(&mut self, layers: &Value, input: usize, depth: usize) -> Result<usize, Fault> {
        let mut value = input;
        for (i, layer) in layers.list()?.iter().enumerate() {
            value = self.layer(layer, value, depth).map_err(|fault| fault.within(format!("layer {i}")))?;
        }
        Ok(value)
    }
}
