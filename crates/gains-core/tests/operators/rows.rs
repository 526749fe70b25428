//! Rows moved between parts of a tensor, and added.

use std::sync::Arc;

use gains_core::{Rows, Shape, Support, Window};

use crate::support::{inside, numbers, random_box, row_at};

/// Rows on a window, on chosen entries or on all.
fn rows(random: &mut fastrand::Rng, shape: Shape, kind: usize, count: usize) -> Rows {
    let on = match kind {
        0 => Support::full(shape),
        1 => Window::pixel(shape, random.usize(0..shape.height), random.usize(0..shape.width)).into(),
        _ => {
            let chosen: Arc<[u32]> = (0..shape.len() as u32).filter(|_| random.bool()).collect();
            Support::entries(shape, chosen)
        }
    };
    let mut rows = Rows::zeros(count, on);
    let length = rows.coefficients.len();
    rows.coefficients = numbers(random, length, 2.0);
    rows.constant = numbers(random, count, 1.0);
    rows.slack = numbers(random, count, 1e-3).iter().map(|s| s.abs()).collect();
    rows
}

#[test]
fn rows_say_the_same_wherever_they_are() {
    let mut random = fastrand::Rng::with_seed(41);
    for round in 0..600 {
        let shape = Shape::image(random.usize(1..4), random.usize(1..4), random.usize(1..4));
        let original = rows(&mut random, shape, round % 3, 3);
        let domain = random_box(&mut random, shape.len(), 1.0, 0.5);
        let mut point = inside(&mut random, &domain);
        let widened = original.clone().widened();
        assert!(widened.on().is_full() && widened.length == shape.len());
        for row in 0..3 {
            let (a, b) = (row_at(&original, row, &point), row_at(&widened, row, &point));
            assert!((a - b).abs() <= 1e-14 * (1.0 + a.abs()), "round {round}: {a} {b}");
        }
        for (a, b) in original.lower_bounds(&domain).iter().zip(widened.lower_bounds(&domain)) {
            assert!((a - b).abs() <= 1e-13 * (1.0 + a.abs()), "round {round}: {a} {b}");
        }
        assert_eq!(widened.clone().into_full().coefficients, widened.coefficients);
        // What is left out is zero.
        let kept: Arc<[u32]> = (0..shape.len() as u32).filter(|_| random.bool()).collect();
        for i in (0..shape.len()).filter(|i| !kept.contains(&(*i as u32))) {
            point[i] = 0.0;
        }
        let moved = original.clone().onto(&kept);
        assert_eq!(moved.on(), &Support::entries(shape, kept));
        for row in 0..3 {
            let (a, b) = (row_at(&original, row, &point), row_at(&moved, row, &point));
            assert!((a - b).abs() <= 1e-14 * (1.0 + a.abs()), "round {round}: {a} {b}");
        }
    }
}

/// The sum is nowhere above what both say together, and not far below.
#[test]
fn sums_of_rows_stay_below_their_parts() {
    let mut random = fastrand::Rng::with_seed(42);
    for round in 0..900 {
        let shape = Shape::image(random.usize(1..4), random.usize(1..4), random.usize(1..4));
        let (first, second) =
            (rows(&mut random, shape, round % 3, 2), rows(&mut random, shape, round / 3 % 3, 2));
        let scale = [1.0, 1e12, 1e-12][round / 9 % 3];
        let domain = random_box(&mut random, shape.len(), scale, scale);
        let mut sum = first.clone();
        sum.add(second.clone(), &domain.magnitudes());
        for _ in 0..10 {
            let point = inside(&mut random, &domain);
            for row in 0..2 {
                let parts = row_at(&first, row, &point) + row_at(&second, row, &point);
                let together = row_at(&sum, row, &point);
                let rounding = 1e-14 * scale * (1.0 + shape.len() as f64) + 1e-14;
                assert!(together <= parts + rounding, "round {round}: {together} above {parts}");
                assert!(together >= parts - 10.0 * rounding, "round {round}: {together} below {parts}");
            }
        }
    }
}
