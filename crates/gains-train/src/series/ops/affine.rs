//! Linear layers with the activation behind them.

use super::super::network::{Activation, Layer, Weights};
use super::super::tape::{Gradients, Matrix};
use crate::cpu::Real;
use crate::cpu::real::{View, multiply_add, vectorised};

/// `φ(W x + b)` for the first rows. A box becomes `W c + b ± |W| r`, and its ends go through the activation, which is
/// monotone.
pub fn forward<F: Real>(
    weights: &Weights<F>,
    layer: &Layer,
    rows: usize,
    from: &Matrix<F>,
    beside: Option<&Matrix<F>>,
) -> Matrix<F> {
    let outputs = layer.outputs;
    let mut out = Matrix::zeros(rows, outputs, from.is_box());
    let bias = &weights.parameters[layer.biases.clone()];
    for row in out.centre.chunks_exact_mut(outputs) {
        row.copy_from_slice(bias);
    }
    let taken = layer.inputs - beside.map_or(0, |beside| beside.columns);
    let mut place = layer.weights.start;
    for (x, columns) in [(Some(from), taken), (beside, layer.inputs - taken)] {
        let Some(x) = x else { continue };
        let sizes = [rows, outputs, columns];
        let left = |values| View { values, row: x.columns, column: 1 };
        let right = |values| View { values, row: outputs, column: 1 };
        let range = place..place + columns * outputs;
        let signed = right(&weights.transposed[range.clone()]);
        multiply_add(sizes, &mut out.centre, outputs, left(&x.centre), signed);
        if x.is_box() {
            let magnitudes = right(&weights.transposed_magnitudes[range.clone()]);
            multiply_add(sizes, &mut out.radius, outputs, left(&x.radius), magnitudes);
        }
        place = range.end;
    }
    match (layer.activation, out.is_box()) {
        (Activation::Identity, _) => {}
        (Activation::Relu, false) => relu(&mut out.centre),
        (Activation::Relu, true) => relu_boxes(&mut out.centre, &mut out.radius),
        (Activation::Sigmoid, false) => out.centre.iter_mut().for_each(|x| *x = sigmoid(*x)),
        (Activation::Sigmoid, true) => {
            for (c, r) in out.centre.iter_mut().zip(&mut out.radius) {
                let (low, high) = (sigmoid(*c - *r), sigmoid(*c + *r));
                (*c, *r) = ((low + high) * F::HALF, (high - low) * F::HALF);
            }
        }
    }
    out
}

fn sigmoid<F: Real>(x: F) -> F {
    F::of(1.0 / (1.0 + (-x.wide()).exp()))
}

vectorised! {
    fn relu<F>(values: &mut [F]) {
        for x in values {
            *x = x.relu();
        }
    }
}

vectorised! {
    fn relu_boxes<F>(centre: &mut [F], radius: &mut [F]) {
        for (c, r) in centre.iter_mut().zip(radius) {
            let (low, high) = ((*c - *r).relu(), (*c + *r).relu());
            *c = (low + high) * F::HALF;
            *r = (high - low) * F::HALF;
        }
    }
}

/// From the gradient of the output to that of `W x + b`. The output alone tells the slopes: a ReLU's is 1 where its
/// end is positive, a sigmoid's is `y (1 − y)`.
pub fn activation_back<F: Real>(
    activation: Activation,
    value: &Matrix<F>,
    mut gradient: Matrix<F>,
) -> Matrix<F> {
    let (centre, radius) = (&mut gradient.centre, &mut gradient.radius);
    match (activation, value.is_box()) {
        (Activation::Identity, _) => {}
        (Activation::Relu, false) => relu_back(&value.centre, centre),
        (Activation::Relu, true) => relu_boxes_back(&value.centre, &value.radius, centre, radius),
        (Activation::Sigmoid, false) => sigmoid_back(&value.centre, centre),
        (Activation::Sigmoid, true) => sigmoid_boxes_back(&value.centre, &value.radius, centre, radius),
    }
    gradient
}

vectorised! {
    fn relu_back<F>(value: &[F], gradient: &mut [F]) {
        for (g, y) in gradient.iter_mut().zip(value) {
            *g = F::when(*y > F::ZERO, *g);
        }
    }
}

vectorised! {
    fn relu_boxes_back<F>(centre: &[F], radius: &[F], on_centre: &mut [F], on_radius: &mut [F]) {
        for (((c, r), gc), gr) in centre.iter().zip(radius).zip(on_centre).zip(on_radius) {
            let low = F::when(*c - *r > F::ZERO, (*gc - *gr) * F::HALF);
            let high = F::when(*c + *r > F::ZERO, (*gc + *gr) * F::HALF);
            *gc = low + high;
            *gr = high - low;
        }
    }
}

vectorised! {
    fn sigmoid_back<F>(value: &[F], gradient: &mut [F]) {
        for (g, y) in gradient.iter_mut().zip(value) {
            *g = *g * *y * (F::ONE - *y);
        }
    }
}

vectorised! {
    fn sigmoid_boxes_back<F>(centre: &[F], radius: &[F], on_centre: &mut [F], on_radius: &mut [F]) {
        for (((c, r), gc), gr) in centre.iter().zip(radius).zip(on_centre).zip(on_radius) {
            let (below, above) = (*c - *r, *c + *r);
            let low = (*gc - *gr) * F::HALF * below * (F::ONE - below);
            let high = (*gc + *gr) * F::HALF * above * (F::ONE - above);
            *gc = low + high;
            *gr = high - low;
        }
    }
}

/// Adds the gradient of the biases.
pub fn bias_back<F: Real>(layer: &Layer, gradient: &Matrix<F>, into: &mut Gradients<F>) {
    let sums = &mut into.signed[layer.biases.clone()];
    for row in gradient.centre.chunks_exact(layer.outputs) {
        for (sum, g) in sums.iter_mut().zip(row) {
            *sum += *g;
        }
    }
}

/// Adds the gradient of the weights of the inputs from `column` on, which are the first `columns` columns of `x`.
pub fn weights_back<F: Real>(
    layer: &Layer,
    column: usize,
    columns: usize,
    x: &Matrix<F>,
    gradient: &Matrix<F>,
    into: &mut Gradients<F>,
) {
    let sizes = [layer.outputs, columns, gradient.rows];
    let sums = [&mut into.signed, &mut into.magnitudes];
    for ((x_lane, g_lane), sum) in x.lanes().zip(gradient.lanes()).zip(sums) {
        let out = &mut sum[layer.weights.start + column..layer.weights.end];
        let left = View { values: g_lane, row: 1, column: layer.outputs };
        let right = View { values: x_lane, row: x.columns, column: 1 };
        multiply_add(sizes, out, layer.inputs, left, right);
    }
}

/// Adds the gradient of the first `columns` columns of an input, whose weights begin at input `column`.
pub fn input_back<F: Real>(
    weights: &Weights<F>,
    layer: &Layer,
    column: usize,
    columns: usize,
    gradient: &Matrix<F>,
    target: &mut Matrix<F>,
) {
    let sizes = [gradient.rows, columns, layer.outputs];
    let width = target.columns;
    let targets = [&mut target.centre, &mut target.radius];
    let range = layer.weights.start + column..layer.weights.end;
    let matrices = [&weights.parameters[range.clone()], &weights.magnitudes[range]];
    for ((lane, out), matrix) in gradient.lanes().zip(targets).zip(matrices) {
        let left = View { values: lane, row: layer.outputs, column: 1 };
        let right = View { values: matrix, row: layer.inputs, column: 1 };
        multiply_add(sizes, out, width, left, right);
    }
}
