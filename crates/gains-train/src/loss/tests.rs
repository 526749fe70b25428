use super::criterion::{Absolute, CrossEntropy, Margin, Measure, Squared};
use super::*;

/// Cross-entropy, for the label that `draw` puts at 0.
fn plainly(label: usize) -> Measured<'static> {
    Measured { criterion: &CrossEntropy {}, label }
}

fn draw(random: &mut fastrand::Rng, label: usize, size: f64) -> Vec<f64> {
    (0..5).map(|class| if class == label { 0.0 } else { size * (random.f64() - 0.6) }).collect()
}

/// The cross-entropy by its definition, with the label at 0.
fn plain(margins: &[f64]) -> f64 {
    margins.iter().map(|margin| margin.exp()).sum::<f64>().ln()
}

#[test]
fn joint_losses_are_what_their_formulas_say() {
    let mut random = fastrand::Rng::with_seed(8);
    for label in 0..5 {
        let (points, boxes) = (draw(&mut random, label, 3.0), draw(&mut random, label, 5.0));
        for alpha in [0.0, 0.2, 0.7, 1.0] {
            let mixed: Vec<f64> =
                points.iter().zip(&boxes).map(|(p, b)| (1.0 - alpha) * p + alpha * b).collect();
            let found = CcIbp { alpha }.of(plainly(0), &points, &boxes).value;
            assert!((found - plain(&mixed)).abs() < 1e-12);
            let product = ((1.0 - alpha) * plain(&points).ln() + alpha * plain(&boxes).ln()).exp();
            assert!((ExpIbp { alpha }.of(plainly(0), &points, &boxes).value - product).abs() < 1e-12);
        }
    }
}

#[test]
fn slopes_of_joint_losses_are_differences_of_their_values() {
    let mut random = fastrand::Rng::with_seed(9);
    let losses: [&dyn Joint; 4] =
        [&CcIbp { alpha: 0.3 }, &CcIbp { alpha: 1.0 }, &ExpIbp { alpha: 0.3 }, &ExpIbp { alpha: 0.0 }];
    for (number, loss) in losses.into_iter().enumerate() {
        for label in 0..5 {
            let (points, boxes) = (draw(&mut random, label, 4.0), draw(&mut random, label, 4.0));
            let here = loss.of(plainly(0), &points, &boxes);
            for class in (0..5).filter(|class| *class != label) {
                let at = |reach: f64, point: bool| {
                    let (mut points, mut boxes) = (points.clone(), boxes.clone());
                    *if point { &mut points[class] } else { &mut boxes[class] } += reach;
                    loss.of(plainly(0), &points, &boxes).value
                };
                let slope = |point| (at(1e-5, point) - at(-1e-5, point)) / 2e-5;
                assert!((slope(true) - here.points[class]).abs() < 1e-8, "loss {number}, point {class}");
                assert!((slope(false) - here.boxes[class]).abs() < 1e-8, "loss {number}, box {class}");
            }
        }
    }
}

#[test]
fn tiny_and_huge_margins_have_finite_slopes_and_nan_is_not_hidden() {
    for size in [40.0, 700.0, 1e5] {
        for (points, boxes) in [(-size, -size), (-size, size), (size, size)] {
            let (points, boxes) = ([0.0, points, points], [0.0, boxes, boxes]);
            for found in [
                ExpIbp::default().of(plainly(0), &points, &boxes),
                CcIbp::default().of(plainly(0), &points, &boxes),
            ] {
                let slopes = found.points.iter().chain(&found.boxes);
                assert!(
                    found.value.is_finite() && slopes.clone().all(|slope| slope.is_finite()),
                    "{found:?}"
                );
            }
        }
    }
    assert!(ExpIbp::default().of(plainly(0), &[0.0, f64::NAN], &[0.0, 1.0]).value.is_nan());
    assert!(CcIbp::default().of(plainly(0), &[0.0, 1.0], &[0.0, f64::NAN]).value.is_nan());
}

#[test]
fn small_boxes_stay_within_the_perturbation() {
    let loss = Sabr { part: 0.4 };
    assert!(loss.attacks());
    let Boxes { around, part } = loss.boxes();
    assert_eq!((around, part), (Points::Attacked, 0.4));
    assert!(!Interval {}.attacks() && MtlIbp::default().attacks());
}

#[test]
fn slopes_of_criteria_are_differences_of_their_values() {
    let mut random = fastrand::Rng::with_seed(10);
    let criteria: [&dyn Measure; 5] =
        [&CrossEntropy {}, &Margin { gap: 1.0 }, &Margin { gap: 0.1 }, &Squared {}, &Absolute {}];
    for (number, criterion) in criteria.into_iter().enumerate() {
        for label in 0..5 {
            let row = draw(&mut random, label, 4.0);
            let (_, slopes) = criterion.of(&row, label);
            for class in (0..5).filter(|class| *class != label) {
                let at = |reach: f64| {
                    let mut row = row.clone();
                    row[class] += reach;
                    criterion.of(&row, label).0
                };
                let slope = (at(1e-6) - at(-1e-6)) / 2e-6;
                assert!((slope - slopes[class]).abs() < 1e-8, "criterion {number}, {class}");
            }
        }
        assert!(criterion.of(&[0.0, f64::NAN, -3.0], 0).0.is_nan(), "criterion {number}");
    }
}
