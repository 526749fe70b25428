//! Boxes with points in them, one of every operator, and lines for rows.

use std::sync::Arc;

use gains_core::affine::{BatchStatistics, GroupMean, GroupPart, Scale, Selection};
use gains_core::operator::blend::Blend;
use gains_core::operator::concat::Concat;
use gains_core::operator::curve::CurveKnown;
use gains_core::operator::slice::Slice;
use gains_core::operator::sum::Sum;
use gains_core::operator::{Elementwise, Steering};
use gains_core::smooth::Smooth;
use gains_core::{Activation, AffineMap, Arithmetic, BoxVec, LowerSlope, Operator, Rows, Shape, affine};

/// Entries of every argument.
pub const WIDTH: usize = 4;

pub fn numbers(random: &mut fastrand::Rng, count: usize, scale: f64) -> Vec<f64> {
    (0..count).map(|_| (2.0 * random.f64() - 1.0) * scale).collect()
}

pub fn random_box(random: &mut fastrand::Rng, count: usize, scale: f64, width: f64) -> BoxVec {
    let lower = numbers(random, count, scale);
    let upper = lower.iter().map(|l| l + width * random.f64() * f64::from(random.u8(..) > 30)).collect();
    BoxVec::new(lower, upper)
}

/// A point of a box, often at a corner.
pub fn inside(random: &mut fastrand::Rng, b: &BoxVec) -> Vec<f64> {
    let pick = |(l, u): (&f64, &f64)| match random.u8(0..4) {
        0 => *l,
        1 => *u,
        _ => (l + random.f64() * (u - l)).clamp(*l, *u),
    };
    b.lower.iter().zip(&b.upper).map(pick).collect()
}

pub fn linear_map(random: &mut fastrand::Rng, inputs: usize, outputs: usize, time: bool) -> AffineMap {
    let weights = numbers(random, (inputs + usize::from(time)) * outputs, 1.0);
    let bias = numbers(random, outputs, 1.0);
    AffineMap::Conv(affine::Conv2d::linear_layer(inputs, &weights, &bias, time).unwrap())
}

/// One of every operator with the number of its arguments, of [`WIDTH`] entries each.
pub fn operators(random: &mut fastrand::Rng) -> Vec<(Operator, usize)> {
    let curves = [
        Activation::Relu,
        Activation::LeakyRelu { slope: 0.2 },
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Absolute,
    ];
    let smooth = [
        Smooth::Softplus,
        Smooth::Silu,
        Smooth::Gelu,
        Smooth::GeluTanh,
        Smooth::Elu { alpha: 0.7 },
        Smooth::Sin,
        Smooth::Cos,
        Smooth::Square,
        Smooth::Clamp { low: -0.3, high: 0.7 },
        Smooth::InverseRoot { eps: 0.1 },
    ];
    let curves = curves.into_iter().chain(smooth.map(Activation::Smooth));
    let mut all: Vec<(Operator, usize)> = curves.map(|f| (Operator::Curve(f), 1)).collect();
    let shape = Shape::flat(WIDTH);
    let (mean, variance) = (numbers(random, WIDTH, 1.0), vec![0.5, 2.0, 0.0, 0.1]);
    let statistics = BatchStatistics { mean: &mean, variance: &variance, eps: 1e-2, affine: None };
    let maps = [
        AffineMap::Scale(Scale::batch_norm(shape, statistics)),
        AffineMap::Group(GroupMean::new(shape, 2, GroupPart::Rest).unwrap()),
        AffineMap::Group(GroupMean::new(shape, 1, GroupPart::Mean).unwrap()),
        AffineMap::Select(Selection::pad(shape, [1, 2], [0, 0], [0, 0]).unwrap()),
        AffineMap::Select(Selection::channels(shape, 1..3).unwrap()),
        AffineMap::Select(Selection::reshape(shape, Shape::image(2, 1, 2))),
    ];
    all.extend(maps.map(|map| (Operator::Affine(Arc::new(map)), 1)));
    all.push((Operator::Maximum, 2));
    let coefficients = numbers(random, 3, 2.0);
    all.extend([
        (Operator::Affine(Arc::new(linear_map(random, WIDTH, WIDTH, true))), 1),
        (Operator::Sum(Sum { coefficients }), 3),
        (Operator::Sum(Sum::plain(2)), 2),
        (Operator::Product, 2),
        (Operator::Blend(Blend::Exact), 3),
        (Operator::Concat(Concat), 2),
        (Operator::Slice(Slice { first: 1, length: 2 }), 1),
    ]);
    all
}

/// Boxes for the arguments of an operator; the first of a blend is a gate.
pub fn arguments(
    random: &mut fastrand::Rng,
    operator: &Operator,
    count: usize,
    scale: f64,
    width: f64,
) -> Vec<BoxVec> {
    let mut boxes: Vec<BoxVec> = (0..count).map(|_| random_box(random, WIDTH, scale, width)).collect();
    if matches!(operator, Operator::Blend(_)) {
        let gate = &mut boxes[0];
        for side in [&mut gate.lower, &mut gate.upper] {
            side.iter_mut().for_each(|x| *x = (0.5 + 0.5 * *x).clamp(0.0, 1.0));
        }
    }
    boxes
}

/// Rows pass functions by their least-area lines.
pub struct Plain(pub Arithmetic);

impl Steering for Plain {
    fn curve(&mut self, _: Elementwise, known: &CurveKnown, rows: &mut Rows) {
        rows.relax(&[&known.lines(LowerSlope::MinArea, self.0)]);
    }
}

/// What a row says at a point of the whole tensor, less its slack.
pub fn row_at(rows: &Rows, row: usize, point: &[f64]) -> f64 {
    let coefficients = rows.row(row).iter().zip(rows.on().cut(point).iter()).map(|(a, x)| a * x).sum::<f64>();
    coefficients + rows.constant[row] - rows.slack[row]
}
