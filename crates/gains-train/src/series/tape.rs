//! Coarse operations over matrices of points or boxes, recorded so that gradients find their way back.
//!
//! A row is a sample. An operation may use only the first rows of a value, which is how samples with few observations
//! drop out of a batch, and only its first columns, which is how the mean is read off a state. Boxes are centres and
//! radii; every operation encloses what it does to the points of its boxes, up to rounding.

use std::sync::Arc;

use super::network::{Layer, Weights};
use super::ops::{affine, combine, gates};
use crate::cpu::Real;
pub use crate::gradients::Gradients;
pub use crate::matrix::Matrix;

/// A value on a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueId(pub(super) usize);

/// Where a value came from.
#[derive(Debug)]
enum Source<F> {
    Input,
    Affine { layer: usize, from: ValueId, beside: Option<ValueId> },
    Shrink { gate: ValueId, state: ValueId },
    Mix { gate: ValueId, candidate: ValueId, state: ValueId },
    Combine { base: ValueId, terms: Vec<(ValueId, F)>, scale: Arc<[F]> },
    Sample { latent: ValueId, noise: Vec<F> },
    Stack { pieces: Vec<(ValueId, usize, usize)> },
}

/// Values in the order they were computed, all points or all boxes. Gradients of values used several times add up;
/// what no gradient reaches costs nothing on the way back.
pub struct SeriesTape<'w, F: Real> {
    weights: &'w Weights<F>,
    boxes: bool,
    values: Vec<Matrix<F>>,
    sources: Vec<Source<F>>,
    gradients: Vec<Option<Matrix<F>>>,
}

impl<'w, F: Real> SeriesTape<'w, F> {
    /// An empty tape for points or for boxes.
    pub fn new(weights: &'w Weights<F>, boxes: bool) -> Self {
        Self { weights, boxes, values: Vec::new(), sources: Vec::new(), gradients: Vec::new() }
    }

    /// The network and its numbers.
    pub fn weights(&self) -> &'w Weights<F> {
        self.weights
    }

    /// Whether its values are boxes.
    pub fn is_box(&self) -> bool {
        self.boxes
    }

    /// A value.
    pub fn value(&self, id: ValueId) -> &Matrix<F> {
        &self.values[id.0]
    }

    fn push(&mut self, value: Matrix<F>, source: Source<F>) -> ValueId {
        self.values.push(value);
        self.sources.push(source);
        ValueId(self.values.len() - 1)
    }

    fn layer(&self, index: usize) -> &'w Layer {
        &self.weights.network.layers()[index]
    }

    /// A value from outside. Points on a tape of boxes have radius 0.
    pub fn input(&mut self, mut value: Matrix<F>) -> ValueId {
        if self.boxes && value.radius.is_empty() {
            value.radius = vec![F::ZERO; value.centre.len()];
        }
        self.push(value, Source::Input)
    }

    /// A layer on the first `rows` rows; its input is the first columns of `from`, then all of `beside`.
    pub fn affine(&mut self, rows: usize, layer: usize, from: ValueId, beside: Option<ValueId>) -> ValueId {
        let spec = self.layer(layer);
        let value =
            affine::forward(self.weights, spec, rows, self.value(from), beside.map(|id| self.value(id)));
        self.push(value, Source::Affine { layer, from, beside })
    }

    /// Layers one after another; `beside` goes into the first.
    pub fn layers(
        &mut self,
        rows: usize,
        layers: std::ops::Range<usize>,
        from: ValueId,
        beside: Option<ValueId>,
    ) -> ValueId {
        let mut at = from;
        for (number, layer) in layers.enumerate() {
            at = self.affine(rows, layer, at, beside.filter(|_| number == 0));
        }
        at
    }

    /// Mean and deviation, each times the gate.
    pub fn shrink(&mut self, gate: ValueId, state: ValueId) -> ValueId {
        let value = gates::shrink(self.value(gate), self.value(state));
        self.push(value, Source::Shrink { gate, state })
    }

    /// The gated update `(1 − u) g + u y`, of the candidate's deviation the absolute value.
    pub fn mix(&mut self, gate: ValueId, candidate: ValueId, state: ValueId) -> ValueId {
        let value = gates::mix(self.value(gate), self.value(candidate), self.value(state));
        self.push(value, Source::Mix { gate, candidate, state })
    }

    /// `base + scale·Σ w k`, the scale by row, on the first `rows` rows. Terms may have fewer columns than the base.
    pub fn combine(
        &mut self,
        rows: usize,
        base: ValueId,
        terms: Vec<(ValueId, F)>,
        scale: Arc<[F]>,
    ) -> ValueId {
        let inputs: Vec<(&Matrix<F>, F)> = terms.iter().map(|(id, w)| (self.value(*id), *w)).collect();
        let value = combine::combine(rows, self.value(base), &inputs, &scale);
        self.push(value, Source::Combine { base, terms, scale })
    }

    /// The latent mean, plus the noise times the absolute value of the latent deviation if there is any.
    pub fn sample(&mut self, latent: ValueId, noise: Vec<F>) -> ValueId {
        let value = combine::sample(self.value(latent), &noise);
        self.push(value, Source::Sample { latent, noise })
    }

    /// Rows of several values, one piece (`value`, from row, to row) after another.
    pub fn stack(&mut self, pieces: Vec<(ValueId, usize, usize)>) -> ValueId {
        let inputs: Vec<_> = pieces.iter().map(|(id, start, end)| (self.value(*id), *start, *end)).collect();
        let value = combine::stack(&inputs);
        self.push(value, Source::Stack { pieces })
    }

    /// Adds to the gradient of a value.
    pub fn seed(&mut self, id: ValueId, part: &Matrix<F>) {
        self.gradients.resize(self.values.len(), None);
        let value = &self.values[id.0];
        let sum = self.gradients[id.0]
            .get_or_insert_with(|| Matrix::zeros(value.rows, value.columns, value.is_box()));
        sum.add(part);
    }

    /// Takes all gradients back to the parameters.
    pub fn backward(mut self, into: &mut Gradients<F>) {
        self.gradients.resize(self.values.len(), None);
        // A value's users all come after it, so its gradient is complete when its turn comes.
        while let (Some(value), Some(source), Some(gradient)) =
            (self.values.pop(), self.sources.pop(), self.gradients.pop())
        {
            let Some(gradient) = gradient else { continue };
            match source {
                Source::Input => {}
                Source::Affine { layer, from, beside } => {
                    let (layer, weights) = (self.layer(layer), self.weights);
                    let gradient = affine::activation_back(layer.activation, &value, gradient);
                    affine::bias_back(layer, &gradient, into);
                    let mut column = 0;
                    let others = beside.map_or(0, |id| self.values[id.0].columns);
                    for (id, columns) in [(Some(from), layer.inputs - others), (beside, others)] {
                        let Some(id) = id else { continue };
                        affine::weights_back(layer, column, columns, &self.values[id.0], &gradient, into);
                        if let Some(target) = self.target(id) {
                            affine::input_back(weights, layer, column, columns, &gradient, target);
                        }
                        column += columns;
                    }
                }
                Source::Shrink { gate, state } => {
                    let (on_gate, on_state) =
                        gates::shrink_back(self.value(gate), self.value(state), &gradient);
                    self.seed(gate, &on_gate);
                    self.add_rows(state, 0, &on_state);
                }
                Source::Mix { gate, candidate, state } => {
                    let back = gates::mix_back(
                        self.value(gate),
                        self.value(candidate),
                        self.value(state),
                        &gradient,
                    );
                    self.seed(gate, &back.gate);
                    self.seed(candidate, &back.candidate);
                    self.add_rows(state, 0, &back.state);
                }
                Source::Combine { base, terms, scale } => {
                    for (id, weight) in &terms {
                        if let Some(target) = self.target(*id) {
                            combine::term_back(&gradient, *weight, &scale, target);
                        }
                    }
                    self.add_rows(base, 0, &gradient);
                }
                Source::Sample { latent, noise } => {
                    let part = combine::sample_back(self.value(latent), &noise, &gradient);
                    self.seed(latent, &part);
                }
                Source::Stack { pieces } => {
                    let mut row = 0;
                    for (id, start, end) in pieces {
                        let part = combine::rows(&gradient, row, row + end - start);
                        self.add_rows(id, start, &part);
                        row += end - start;
                    }
                }
            }
        }
    }

    /// The gradient of a value, to be added to; none for inputs.
    fn target(&mut self, id: ValueId) -> Option<&mut Matrix<F>> {
        if matches!(self.sources[id.0], Source::Input) {
            return None;
        }
        let value = &self.values[id.0];
        let zeros = || Matrix::zeros(value.rows, value.columns, value.is_box());
        Some(self.gradients[id.0].get_or_insert_with(zeros))
    }

    /// Adds to some rows of the gradient of a value.
    fn add_rows(&mut self, id: ValueId, first: usize, part: &Matrix<F>) {
        if let Some(target) = self.target(id) {
            let at = first * target.columns;
            for (s, p) in target.centre[at..].iter_mut().zip(&part.centre) {
                *s += *p;
            }
            for (s, p) in target.radius.iter_mut().skip(at).zip(&part.radius) {
                *s += *p;
            }
        }
    }
}
