//! Points of a region that try to leave its bounds: random ones, corners, and where gradients lead, row by row.

use gains_core::{BoxVec, Network, Precision};
use gains_ode::Inference;

/// Points that do not follow a gradient.
const BLIND: usize = 24;
/// Gradient steps per row and start.
const STEPS: usize = 6;

/// `row · output`.
pub fn value(row: &[f64], output: &[f64]) -> f64 {
    row.iter().zip(output).map(|(a, y)| a * y).sum()
}

/// A point of a box: random, at a corner, or mixed.
pub fn scatter(random: &mut fastrand::Rng, region: &BoxVec) -> Vec<f64> {
    let kind = random.u8(0..3);
    let mut pick = |(&l, &u): (&f64, &f64)| {
        if kind == 0 || kind == 1 && random.bool() {
            if random.bool() { l } else { u }
        } else {
            (l + random.f64() * (u - l)).clamp(l, u)
        }
    };
    region.lower.iter().zip(&region.upper).map(&mut pick).collect()
}

/// One signed step against a gradient, of a part of each side of the box; a whole one leads to a corner.
pub fn descend(point: &mut [f64], gradient: &[f64], region: &BoxVec, part: f64) {
    for (i, x) in point.iter_mut().enumerate().filter(|(i, _)| gradient[*i] != 0.0) {
        let (l, u) = (region.lower[i], region.upper[i]);
        *x = (*x - part * (u - l) * gradient[i].signum()).clamp(l, u);
    }
}

/// The same point as float32 numbers of the region, if there are any next to it.
pub fn to_float32(point: &[f64], region: &BoxVec) -> Option<Vec<f64>> {
    let settle = |(i, x): (usize, &f64)| {
        let near = *x as f32;
        let inside = |y: f32| region.get(i).contains(f64::from(y));
        [near, near.next_up(), near.next_down()].into_iter().find(|y| inside(*y)).map(f64::from)
    };
    point.iter().enumerate().map(settle).collect()
}

/// Points of a region of inputs, the centre first.
pub fn points(
    network: &Network,
    region: &BoxVec,
    rows: &[Vec<f64>],
    centre: &[f64],
    seed: u64,
) -> Vec<Vec<f64>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut points = vec![centre.to_vec()];
    points.extend((0..BLIND).map(|_| scatter(&mut random, region)));
    for (row, start) in rows.iter().flat_map(|row| [(row, false), (row, true)]) {
        let mut point = if start { scatter(&mut random, region) } else { centre.to_vec() };
        for step in 0..STEPS {
            let Ok(run) = Inference::run(network, &point, Precision::Float64) else { break };
            let part = if start { 0.5_f64.powi(step as i32 + 1) } else { 1.0 };
            descend(&mut point, &run.pull_back(row), region, part);
            points.push(point.clone());
            // From a corner, whole steps lead to the same corners again.
            if !start && step == 1 {
                break;
            }
        }
    }
    points
}
