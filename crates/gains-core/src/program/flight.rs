//! Rows on their way back through a graph: coefficients on several values, whose sum is the bound.

use std::sync::Arc;

use crate::affine::Matrix;
use crate::arithmetic::{Arithmetic, TINY, down};
use crate::dag::{Dag, Value};
use crate::interval::BoxVec;
use crate::operator::{Known, Operator, Spot, Steering};
use crate::rows::Rows;
use crate::shape::Shape;

/// Rows on several values of one graph. A quantity is nowhere below the sum of what they say on all of them.
#[derive(Clone, Debug)]
pub struct Flight {
    count: usize,
    on: Vec<Option<Box<Rows>>>,
}

/// What rows meet on their way back through a graph.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// For every node, what is known of it.
    pub known: &'a [Known],
    /// For every value, the entries that matter; all if there are none.
    pub entries: &'a [Option<Arc<[u32]>>],
    /// The entries of the inputs that matter; all if there are none.
    pub inputs: Option<&'a Arc<[u32]>>,
    /// For every value that is taken several times, its largest absolute entries.
    pub magnitudes: &'a [Vec<f64>],
    /// For every node, the linear part written out where that pays; may be empty.
    pub matrices: &'a [Option<Matrix>],
    /// Whose arithmetic is enclosed.
    pub arithmetic: Arithmetic,
}

impl Flight {
    /// Rows on one value of a graph of so many.
    pub fn new(values: usize, value: Value, rows: Rows) -> Self {
        let mut on = vec![None; values];
        let count = rows.count;
        on[value] = Some(Box::new(rows));
        Self { count, on }
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes the rows on a value out.
    pub fn take(&mut self, value: Value) -> Option<Rows> {
        self.on[value].take().map(|rows| *rows)
    }

    /// The rows on a value.
    pub fn on(&self, value: Value) -> Option<&Rows> {
        self.on[value].as_deref()
    }

    /// The rows on a value, if there are none on any other.
    pub fn only(&self, value: Value) -> Option<&Rows> {
        let elsewhere = self.on.iter().enumerate().any(|(other, rows)| other != value && rows.is_some());
        if elsewhere { None } else { self.on(value) }
    }

    /// Adds rows on a value to what is there; `magnitude` has the largest absolute entries of the value.
    pub fn add(&mut self, value: Value, rows: Rows, magnitude: &[f64]) {
        match &mut self.on[value] {
            Some(there) => there.add(rows, magnitude),
            None => self.on[value] = Some(Box::new(rows)),
        }
    }

    /// Replaces all rows by the given ones, some perhaps several times.
    pub fn select(&mut self, rows: &[usize]) {
        self.count = rows.len();
        self.on.iter_mut().flatten().for_each(|on| **on = on.select(rows));
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        self.on.iter().flatten().map(|rows| rows.bytes()).sum()
    }

    /// Certified lower bounds over boxes of all values.
    pub fn lower_bounds<'b>(&self, domain: impl Fn(Value) -> &'b BoxVec) -> Vec<f64> {
        self.bounded_by(|value, rows| rows.lower_bounds(domain(value)))
    }

    /// Certified lower bounds, given those of the rows on each value.
    pub fn bounded_by(&self, bounds: impl Fn(Value, &Rows) -> Vec<f64>) -> Vec<f64> {
        let mut parts = self.on.iter().enumerate().filter_map(|(v, rows)| Some((v, rows.as_ref()?)));
        let Some((value, rows)) = parts.next() else { return vec![f64::NEG_INFINITY; self.count] };
        let mut lower = bounds(value, rows);
        for (value, rows) in parts {
            for (sum, part) in lower.iter_mut().zip(bounds(value, rows)) {
                // What is rounded is the sum, so that much is owed.
                *sum = down(*sum + part) - TINY;
                if sum.is_nan() {
                    *sum = f64::NEG_INFINITY;
                }
            }
        }
        lower
    }

    /// Takes the rows on a node's value to its arguments.
    pub fn pass<O, S: Steering + ?Sized>(
        &mut self,
        graph: &Dag<O>,
        value: Value,
        operator: &Operator,
        way: &Way<'_>,
        steering: &mut S,
    ) {
        let Some(rows) = self.take(value) else { return };
        let Some(node) = graph.node(value) else { return };
        let index = value - graph.inputs().len();
        let shapes: Vec<Shape> = node.from.iter().map(|&v| graph.shape(v)).collect();
        let matters = |&v: &Value| match v < graph.inputs().len() {
            true => way.inputs,
            false => way.entries.get(v).and_then(Option::as_ref),
        };
        let entries: Vec<Option<&Arc<[u32]>>> = node.from.iter().map(matters).collect();
        let spot = Spot {
            value,
            from: &node.from,
            shapes: &shapes,
            entries: &entries,
            matrix: way.matrices.get(index).and_then(Option::as_ref),
            arithmetic: way.arithmetic,
        };
        let parts = operator.pull(&way.known[index], rows, spot, steering);
        for (&v, part) in node.from.iter().zip(parts) {
            self.add(v, part, way.magnitudes.get(v).map_or(&[], Vec::as_slice));
        }
    }
}

impl super::Circuit {
    /// Takes rows on any values back to the inputs.
    pub fn pull<S: Steering + ?Sized>(&self, flight: &mut Flight, way: &Way<'_>, steering: &mut S) {
        for (value, node) in self.nodes().rev() {
            flight.pass(self, value, &node.operator, way, steering);
        }
    }
}
