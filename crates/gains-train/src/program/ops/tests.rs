//! Gradients of every rule against central differences, and boxes against the points in them, in float64.

use std::sync::Arc;

use gains_core::Shape;
use gains_core::activation::Activation;
use gains_core::affine::{
    AffineMap, AveragePool, ConvGeometry, GroupMean, GroupPart, Scale as Given, Selection,
};
use gains_core::smooth::Smooth;

use super::*;

type M = Matrix<f64>;

const CURVES: [Activation; 15] = [
    Activation::Relu,
    Activation::LeakyRelu { slope: 0.1 },
    Activation::Sigmoid,
    Activation::Tanh,
    Activation::Absolute,
    Activation::Smooth(Smooth::Softplus),
    Activation::Smooth(Smooth::Silu),
    Activation::Smooth(Smooth::Gelu),
    Activation::Smooth(Smooth::GeluTanh),
    Activation::Smooth(Smooth::Elu { alpha: 1.5 }),
    Activation::Smooth(Smooth::Sin),
    Activation::Smooth(Smooth::Cos),
    Activation::Smooth(Smooth::Square),
    Activation::Smooth(Smooth::Clamp { low: -0.5, high: 0.7 }),
    Activation::Smooth(Smooth::InverseRoot { eps: 0.5 }),
];

/// Centres in [−2, 2] with radii that let some boxes straddle kinks and turns.
fn random(rows: usize, columns: usize, boxes: bool, rng: &mut fastrand::Rng) -> M {
    let mut number = |scale: f64| (0..rows * columns).map(|_| scale * (2.0 * rng.f64() - 1.0)).collect();
    let (centre, radius): (Vec<f64>, Vec<f64>) = (number(2.0), number(0.6));
    let radius = if boxes { radius.iter().map(|r| r.abs() + 0.01).collect() } else { Vec::new() };
    M { rows, columns, centre, radius }
}

fn dot(a: &M, b: &M) -> f64 {
    let lanes = a.lanes().zip(b.lanes());
    lanes.flat_map(|(a, b)| a.iter().zip(b)).map(|(a, b)| a * b).sum()
}

/// Compares gradients of all arguments, for a random gradient of the value.
fn agree(
    what: &str,
    inputs: &[M],
    forward: impl Fn(&[&M]) -> M,
    backward: impl Fn(&[&M], &M) -> Vec<Option<M>>,
    rng: &mut fastrand::Rng,
) {
    fn refs(inputs: &[M]) -> Vec<&M> {
        inputs.iter().collect()
    }
    let out = forward(&refs(inputs));
    let seed = random(out.rows, out.columns, out.is_box(), rng);
    let found = backward(&refs(inputs), &seed);
    assert_eq!(found.len(), inputs.len(), "{what}");
    for (which, gradient) in found.iter().enumerate() {
        let gradient = gradient.as_ref().unwrap();
        for lane in 0..if gradient.is_box() { 2 } else { 1 } {
            for i in 0..gradient.centre.len() {
                let moved = |by: f64| {
                    let mut inputs = inputs.to_vec();
                    let target = &mut inputs[which];
                    *if lane == 0 { &mut target.centre[i] } else { &mut target.radius[i] } += by;
                    dot(&forward(&refs(&inputs)), &seed)
                };
                let h = 1e-6;
                let expected = (moved(h) - moved(-h)) / (2.0 * h);
                let got = if lane == 0 { gradient.centre[i] } else { gradient.radius[i] };
                assert!(
                    (expected - got).abs() < 1e-6 * (1.0 + expected.abs()),
                    "{what}: argument {which}, lane {lane}, entry {i}: {got}, expected {expected}"
                );
            }
        }
    }
}

fn eaches() -> Vec<(Each, usize)> {
    let mut all: Vec<(Each, usize)> = CURVES.iter().map(|f| (Each::Curve(*f), 1)).collect();
    all.extend([(Each::Product, 2), (Each::Maximum, 2), (Each::Blend, 3)]);
    all
}

/// Gates lie in [0, 1].
fn arguments(each: Each, count: usize, boxes: bool, rng: &mut fastrand::Rng) -> Vec<M> {
    let mut all: Vec<M> = (0..count).map(|_| random(3, 4, boxes, rng)).collect();
    if matches!(each, Each::Blend) {
        all[0].centre.iter_mut().for_each(|c| *c = 0.5 + 0.1 * *c);
        all[0].radius.iter_mut().for_each(|r| *r *= 0.4);
    }
    all
}

#[test]
fn elementwise_rules_have_the_right_gradients() {
    let rng = &mut fastrand::Rng::with_seed(1);
    for (each, count) in eaches() {
        for _ in 0..3 {
            let points = arguments(each, count, false, rng);
            let some = |parts: Vec<M>| parts.into_iter().map(Some).collect::<Vec<_>>();
            let name = format!("{each:?}");
            agree(&name, &points, |x| each::forward(each, x), |x, g| some(each::backward(each, x, g)), rng);
            let boxes = arguments(each, count, true, rng);
            let over = Rule::Over(each);
            agree(&name, &boxes, |x| over.forward(x), |x, g| some(over.backward(x, g)), rng);
            // Before, after, apart.
            let all: Vec<M> = (0..3).flat_map(|_| arguments(each, count, true, rng)).collect();
            let moved = Rule::Moved(each);
            agree(
                &format!("change of {name}"),
                &all,
                |x| moved.forward(x),
                |x, g| some(moved.backward(x, g)),
                rng,
            );
        }
    }
    for (rule, count) in [(Rule::Meet, 2), (Rule::Hull, 2), (Rule::Value, 3), (Rule::Change, 3)] {
        for _ in 0..5 {
            // Enclosures of the same overlap.
            let all: Vec<M> = (0..count)
                .map(|_| {
                    let mut m = random(3, 4, true, rng);
                    m.centre.iter_mut().for_each(|c| *c *= 0.1);
                    m.radius.iter_mut().for_each(|r| *r += 1.0);
                    m
                })
                .collect();
            let some = |parts: Vec<M>| parts.into_iter().map(Some).collect::<Vec<_>>();
            agree(&format!("{rule:?}"), &all, |x| rule.forward(x), |x, g| some(rule.backward(x, g)), rng);
        }
    }
}

/// A point of a box: anywhere, or a corner.
fn point(x: &M, corner: bool, rng: &mut fastrand::Rng) -> M {
    let mut at = |(c, r): (&f64, &f64)| {
        let part = if corner { f64::from(rng.i8(0..2)) * 2.0 - 1.0 } else { 2.0 * rng.f64() - 1.0 };
        c + r * part
    };
    M::points(x.rows, x.columns, x.centre.iter().zip(&x.radius).map(&mut at).collect())
}

fn holds(outer: &M, inner: &M, what: &str) {
    for ((c, r), v) in outer.centre.iter().zip(&outer.radius).zip(&inner.centre) {
        assert!((v - c).abs() <= r + 1e-9, "{what}: {v} outside {c} ± {r}");
    }
}

#[test]
fn boxes_hold_the_values_of_their_points_and_changes_hold_theirs() {
    let rng = &mut fastrand::Rng::with_seed(2);
    for (each, count) in eaches() {
        for _ in 0..3 {
            let before = arguments(each, count, true, rng);
            let after = arguments(each, count, true, rng);
            let value = Rule::Over(each).forward(&before.iter().collect::<Vec<_>>());
            for round in 0..200 {
                let p: Vec<M> = before.iter().map(|x| point(x, round % 2 == 0, rng)).collect();
                let q: Vec<M> = after.iter().map(|x| point(x, round % 2 == 0, rng)).collect();
                let at = |x: &[M]| each::forward(each, &x.iter().collect::<Vec<_>>());
                holds(&value, &at(&p), &format!("{each:?}"));
                // Exactly how far these two are apart.
                let apart: Vec<M> = p
                    .iter()
                    .zip(&q)
                    .map(|(p, q)| {
                        let centre = p.centre.iter().zip(&q.centre).map(|(p, q)| q - p).collect();
                        M { radius: vec![0.0; p.centre.len()], centre, ..p.clone() }
                    })
                    .collect();
                let all: Vec<&M> = before.iter().chain(&after).chain(&apart).collect();
                let moved = Rule::Moved(each).forward(&all);
                let (a, b) = (at(&p), at(&q));
                let difference = a.centre.iter().zip(&b.centre).map(|(a, b)| b - a).collect();
                holds(&moved, &M::points(3, 4, difference), &format!("change of {each:?}"));
            }
        }
    }
}

fn weights(count: usize, rng: &mut fastrand::Rng) -> Weights<f64> {
    Weights::new((0..count).map(|_| rng.f64() - 0.5).collect())
}

/// Operators with parameters and affine maps, with the shape of their input.
fn operations() -> Vec<(Operation, Shape)> {
    let g = |kernel, stride, padding, dilation| ConvGeometry { kernel, stride, padding, dilation };
    let image = Shape::image(4, 3, 2);
    let fixed = |map: AffineMap| Operation::Fixed(Fixed(Arc::new(map)));
    let layer = |shape, geometry, outputs, time| {
        Operation::Layer(Layer::new(shape, geometry, outputs, time, 0).unwrap())
    };
    let norm = |affine| {
        Operation::BatchNorm(BatchNorm {
            index: 0,
            inside: true,
            channels: 2,
            eps: 1e-3,
            affine,
            running: [4..6, 6..8],
        })
    };
    vec![
        (layer(Shape::flat(5), ConvGeometry::POINT, 3, false), Shape::flat(5)),
        (layer(Shape::flat(5), ConvGeometry::POINT, 3, true), Shape::flat(5)),
        (layer(image, g((3, 3), (1, 1), (1, 1), (1, 1)), 3, true), image),
        (layer(image, g((2, 3), (2, 1), (1, 0), (1, 1)), 2, false), image),
        (layer(image, g((2, 2), (1, 1), (1, 1), (2, 2)), 2, true), image),
        (
            Operation::Scale(Scale {
                factors: 0..2,
                summands: 2..4,
                index: (0..24).map(|i| i % 2).collect(),
            }),
            image,
        ),
        (norm(Some([0..2, 2..4])), image),
        (norm(None), image),
        (fixed(AffineMap::Pool(AveragePool::global(image).unwrap())), image),
        (fixed(AffineMap::Select(Selection::flatten(image))), image),
        (fixed(AffineMap::Select(Selection::channels(image, 1..2).unwrap())), image),
        (fixed(AffineMap::Group(GroupMean::new(image, 2, GroupPart::Mean).unwrap())), image),
        (fixed(AffineMap::Group(GroupMean::new(image, 1, GroupPart::Rest).unwrap())), image),
        (fixed(AffineMap::Group(GroupMean::new(image, 2, GroupPart::Rest).unwrap())), image),
        (fixed(AffineMap::Scale(Given::normalise(image, &[0.3, -0.1], &[0.5, 2.0]))), image),
        (Operation::Sum(vec![1.0]), image),
        (Operation::Sum(vec![-0.7]), image),
        (Operation::Slice(1..4), Shape::flat(5)),
    ]
}

#[test]
fn operators_have_the_right_gradients() {
    let rng = &mut fastrand::Rng::with_seed(3);
    for (number, (operation, shape)) in operations().into_iter().enumerate() {
        let mut weights = weights(200, rng);
        // Variances are not negative.
        (4..8).for_each(|i| weights.values[i] = weights.values[i].abs());
        weights.refresh();
        for clock in [Clock::at(0.7), Clock::passed(-0.2)] {
            for boxes in [false, true] {
                let x = random(3, shape.len(), boxes, rng);
                let name = format!("{number}: {operation:?}");
                let backward = |x: &[&M], g: &M| {
                    let mut into = Gradients::new(200, true);
                    operation.backward(
                        x,
                        clock,
                        g,
                        &mut Return { weights: &weights, into: &mut into, wanted: true },
                    )
                };
                let inputs = [x.clone()];
                agree(&name, &inputs, |x| operation.forward(&weights, x, clock), backward, rng);
                // And of the parameters.
                let out = operation.forward(&weights, &[&x], clock);
                let seed = random(out.rows, out.columns, boxes, rng);
                let mut into = Gradients::new(200, true);
                let mut back = Return { weights: &weights, into: &mut into, wanted: false };
                operation.backward(&[&x], clock, &seed, &mut back);
                let mut total = vec![0.0; 200];
                into.settle(&weights.values, &mut total);
                let fixed = if matches!(operation, Operation::BatchNorm(_)) { 4..8 } else { 0..0 };
                for index in (0..120).filter(|index| !fixed.contains(index)) {
                    let moved = |by: f64| {
                        let mut weights = weights.clone();
                        weights.values[index] += by;
                        weights.refresh();
                        dot(&operation.forward(&weights, &[&x], clock), &seed)
                    };
                    let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                    let near = (expected - total[index]).abs() < 1e-6 * (1.0 + expected.abs());
                    assert!(near, "{name}: parameter {index}: {}, expected {expected}", total[index]);
                }
            }
        }
        // Boxes hold their points.
        let x = random(2, shape.len(), true, rng);
        let over = operation.forward(&weights, &[&x], Clock::at(0.3));
        for round in 0..50 {
            let p = point(&x, round % 2 == 0, rng);
            holds(&over, &operation.forward(&weights, &[&p], Clock::at(0.3)), &format!("{operation:?}"));
        }
    }
    let (a, b) = (random(3, 2, true, rng), random(3, 4, true, rng));
    let backward = |x: &[&M], g: &M| {
        let mut into = Gradients::new(0, true);
        let mut back = Return { weights: &Weights::default(), into: &mut into, wanted: true };
        Operation::Concat.backward(x, Clock::at(0.0), g, &mut back)
    };
    let forward = |x: &[&M]| Operation::Concat.forward(&Weights::default(), x, Clock::at(0.0));
    agree("concat", &[a, b], forward, backward, rng);
}

#[test]
fn statistics_of_a_batch_have_gradients_and_normalise_it() {
    let rng = &mut fastrand::Rng::with_seed(4);
    let weights = weights(8, rng);
    let norm = BatchNorm {
        index: 0,
        inside: false,
        channels: 2,
        eps: 1e-3,
        affine: Some([0..2, 2..4]),
        running: [4..6, 6..8],
    };
    let x = random(5, 6, false, rng);
    let clock = Clock::at(0.0);
    let forward = |x: &[&M]| norm.forward(&weights, x[0], clock, &norm.measure(x[0]));
    let backward = |x: &[&M], g: &M| {
        let statistics = norm.measure(x[0]);
        vec![Some(norm.backward(&weights, x[0], (clock, &statistics, true), g, &mut Gradients::new(8, true)))]
    };
    agree("batch norm", std::slice::from_ref(&x), forward, backward, rng);
    let mut values = vec![1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0];
    let plain = norm.forward(&Weights::new(values.clone()), &x, clock, &norm.measure(&x));
    let again = norm.measure(&plain);
    let mut moved = values.clone();
    norm.follow(&again, &mut moved);
    assert!(moved[4].abs() < 1e-9 && (moved[6] - (0.9 + 0.1 * 15.0 / 14.0)).abs() < 0.01, "{moved:?}");
    for _ in 0..200 {
        norm.follow(&norm.measure(&x), &mut values);
    }
    let settled = norm.forward(&Weights::new(values), &x, clock, &norm.measure(&x));
    assert!(settled.centre.iter().zip(&plain.centre).all(|(a, b)| (a - b).abs() < 0.1));
}
