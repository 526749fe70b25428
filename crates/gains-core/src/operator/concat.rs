//! Tensors one after the other.

use crate::interval::BoxVec;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::support::Support;

/// One tensor after the other, as they lie in memory; the result is a vector.
#[derive(Clone, Debug, Default)]
pub struct Concat;

impl Concat {
    /// Shape of the value: the lengths add up.
    pub fn shape(arguments: &[Shape]) -> Shape {
        Shape::flat(arguments.iter().map(Shape::len).sum())
    }

    pub(super) fn image(arguments: &[&BoxVec]) -> BoxVec {
        let side = |get: fn(&BoxVec) -> &Vec<f64>| arguments.iter().flat_map(|b| get(b)).copied().collect();
        BoxVec::new(side(|b| &b.lower), side(|b| &b.upper))
    }

    pub(super) fn gradient(arguments: &[&[f64]], cotangent: &[f64]) -> Vec<Vec<f64>> {
        let mut rest = cotangent;
        let mut part = |argument: &&[f64]| {
            let (head, tail) = rest.split_at(argument.len());
            rest = tail;
            head.to_vec()
        };
        arguments.iter().map(&mut part).collect()
    }

    /// Every coefficient stays on its entry; the constants go with the first argument.
    pub(super) fn pull(rows: Rows, shapes: &[Shape]) -> Vec<Rows> {
        let all = rows.widened();
        let mut first = 0;
        let mut parts = Vec::with_capacity(shapes.len());
        for (index, shape) in shapes.iter().enumerate() {
            let mut coefficients = Vec::with_capacity(all.count * shape.len());
            for row in 0..all.count {
                coefficients.extend_from_slice(&all.row(row)[first..first + shape.len()]);
            }
            let mut part = Rows::of_count(all.count, Support::full(*shape), coefficients);
            if index == 0 {
                part.constant.copy_from_slice(&all.constant);
                part.slack.copy_from_slice(&all.slack);
            }
            first += shape.len();
            parts.push(part);
        }
        parts
    }
}
