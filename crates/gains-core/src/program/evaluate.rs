//! Circuits at points, and their gradients.

use crate::arithmetic::Precision;

use super::Circuit;

/// All values of a circuit at one point.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    /// Inputs first, then one per node.
    pub values: Vec<Vec<f64>>,
}

impl Evaluation {
    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        self.values.iter().map(|v| 8 * v.len()).sum()
    }
}

impl Circuit {
    /// All values at a point, each node rounded to the given precision.
    pub fn evaluate(&self, inputs: &[&[f64]], time: f64, precision: Precision) -> Evaluation {
        let time = precision.rounded(time);
        let mut values: Vec<Vec<f64>> = Vec::with_capacity(self.values());
        values.extend(inputs.iter().map(|x| x.to_vec()));
        for (_, node) in self.nodes() {
            let arguments: Vec<&[f64]> = node.from.iter().map(|&v| &values[v][..]).collect();
            let value = node.operator.evaluate(&arguments, time, precision);
            values.push(value);
        }
        Evaluation { values }
    }

    /// Gradients of `cotangent · output` with respect to the inputs.
    pub fn gradient(&self, at: &Evaluation, cotangent: &[f64]) -> Vec<Vec<f64>> {
        let mut on: Vec<Option<Vec<f64>>> = vec![None; self.values()];
        on[self.output()] = Some(cotangent.to_vec());
        for (value, node) in self.nodes().rev() {
            let Some(cotangent) = on[value].take() else { continue };
            let arguments: Vec<&[f64]> = node.from.iter().map(|&v| &at.values[v][..]).collect();
            for (&v, part) in node.from.iter().zip(node.operator.gradient(&arguments, &cotangent)) {
                add(&mut on[v], part);
            }
        }
        let inputs = self.inputs().iter().zip(on);
        inputs.map(|(input, gradient)| gradient.unwrap_or_else(|| vec![0.0; input.shape.len()])).collect()
    }
}

/// Adds a gradient to what has arrived already.
pub fn add(to: &mut Option<Vec<f64>>, part: Vec<f64>) {
    match to {
        Some(sum) => sum.iter_mut().zip(&part).for_each(|(s, p)| *s += p),
        None => *to = Some(part),
    }
}
