//! The network of a model file as a list of values, numbered as `docs/certificates.md` says.

use std::borrow::Cow;

use crate::affine::{Affine, listed};
use crate::automaton::Solver;
use crate::curve::Curve;
use crate::fault::Fault;
use crate::interval::Interval;
use crate::value::{Value, bad};

/// Most entries of one value.
pub(crate) const MAX_ENTRIES: usize = 1 << 22;

/// Rows, columns and channels; a vector has one pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) channels: usize,
}

impl Shape {
    /// Of so many rows, columns and channels.
    pub fn new(height: usize, width: usize, channels: usize) -> Result<Self, Fault> {
        let count = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(channels));
        match count {
            Some(1..=MAX_ENTRIES) => Ok(Self { height, width, channels }),
            _ => Err(bad(format!("a value of {height} × {width} × {channels} entries"))),
        }
    }

    /// As descriptions say it.
    pub fn read(value: &Value) -> Result<Self, Fault> {
        let fields = value.fields("height width channels")?;
        let side = |key| fields.index(key, usize::MAX);
        Self::new(side("height")?, side("width")?, side("channels")?)
    }

    /// A vector.
    pub fn vector(length: usize) -> Result<Self, Fault> {
        Self::new(1, 1, length)
    }

    /// Number of entries.
    pub fn count(self) -> usize {
        self.height * self.width * self.channels
    }

    /// Whether it has one pixel.
    pub fn is_vector(self) -> bool {
        self.height == 1 && self.width == 1
    }

    /// Where an entry is: pixel by pixel, the channels of a pixel next to each other.
    pub fn entry(self, row: usize, column: usize, channel: usize) -> usize {
        (row * self.width + column) * self.channels + channel
    }

    /// The same if it is there.
    pub fn inside(self, row: usize, column: usize, channel: usize) -> Option<usize> {
        let is_inside = row < self.height && column < self.width && channel < self.channels;
        is_inside.then(|| self.entry(row, column, channel))
    }

    /// Row, column and channel of an entry.
    pub fn place(self, entry: usize) -> (usize, usize, usize) {
        let pixel = entry / self.channels;
        (pixel / self.width, pixel % self.width, entry % self.channels)
    }

    /// Where an entry is in the list of all, channel by channel; and which one is there.
    pub fn by_channel(self, entry: usize) -> usize {
        entry % self.channels * (self.height * self.width) + entry / self.channels
    }

    /// The entry at a place in that list.
    pub fn of_channels(self, at: usize) -> usize {
        at % (self.height * self.width) * self.channels + at / (self.height * self.width)
    }
}

/// What makes a value of its arguments.
#[derive(Debug)]
pub enum Operator {
    /// Nothing: the value is given.
    Input,
    /// An affine map of all arguments, listed one after the other.
    Affine(Affine),
    /// A function of each entry.
    Curve(Curve),
    /// The product of two arguments, entry by entry.
    Product,
    /// The larger one of two arguments, entry by entry.
    Maximum,
    /// (1 − u) g + u y of three arguments u, g, y, entry by entry, where u is from 0 to 1.
    Blend,
    /// The solution of an ODE at its end, from the argument on.
    Ode(Box<Ode>),
}

/// dz/dt = dynamics(t, z).
#[derive(Debug)]
pub struct Ode {
    /// The right side.
    pub dynamics: Network,
    /// How it is solved.
    pub solver: Solver,
}

/// One value.
#[derive(Debug)]
pub struct Node {
    /// What makes it.
    pub operator: Operator,
    /// The numbers of what it is made of.
    pub arguments: Vec<usize>,
    /// Its shape.
    pub shape: Shape,
}

/// Values in order: the inputs (one, but for series), then what is made of them.
#[derive(Debug, Default)]
pub struct Network {
    /// The values.
    pub nodes: Vec<Node>,
    /// Number of the output: not the last if an empty branch ends it.
    pub output: usize,
}

impl Network {
    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.nodes.iter().take_while(|node| matches!(node.operator, Operator::Input)).count()
    }

    /// Number of entries of a value.
    pub fn length(&self, index: usize) -> usize {
        self.nodes[index].shape.count()
    }

    /// The ODE that makes a value.
    pub fn ode(&self, index: usize) -> Option<&Ode> {
        if let Operator::Ode(ode) = &self.nodes[index].operator { Some(ode) } else { None }
    }

    /// Boxes of all values of which nothing is known.
    pub fn unknown(&self) -> Vec<Vec<Interval>> {
        (0..self.nodes.len()).map(|index| vec![Interval::ALL; self.length(index)]).collect()
    }

    /// All arguments of a value, listed one after the other.
    pub fn arguments<'a, T: Clone>(&self, index: usize, of: &'a [Vec<T>]) -> Cow<'a, [T]> {
        listed(self.nodes[index].arguments.iter().map(|&argument| &of[argument][..]))
    }

    /// Entries of all values that functions make whose slopes files say.
    pub fn sloped(&self) -> usize {
        let made = |node: &&Node| matches!(node.operator, Operator::Curve(curve) if curve.takes_slopes());
        self.nodes.iter().filter(made).map(|node| node.shape.count()).sum()
    }
}
