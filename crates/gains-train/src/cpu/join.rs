//! Several boxes of each sample as one.

use super::Tensor;
use super::real::Real;
use crate::device::{Batch, DeviceError, Join};

/// What a join remembers for its gradient.
pub struct JoinMemory {
    /// Number of boxes joined, and whether they were boxes rather than points.
    count: usize,
    boxes: bool,
    /// For a hull: from which box the ends of each entry come.
    ends: Option<[Vec<u16>; 2]>,
}

pub(super) fn join<F: Real>(
    how: Join,
    xs: &[&Batch<Tensor<F>>],
) -> Result<(Batch<Tensor<F>>, JoinMemory), DeviceError> {
    let Some(first) = xs.first() else { return Err(DeviceError::Failed("nothing to join".into())) };
    let (length, boxes) = (first.centre.0.len(), first.radius.is_some());
    if xs.iter().any(|x| {
        x.centre.0.len() != length || x.radius.as_ref().map(|r| r.0.len()) != boxes.then_some(length)
    }) || xs.len() > usize::from(u16::MAX)
    {
        return Err(DeviceError::Failed("the boxes to be joined do not fit each other".into()));
    }
    let lanes: Vec<Vec<&[F]>> = xs.iter().map(|x| x.lanes()).collect();
    let mut memory = JoinMemory { count: xs.len(), boxes, ends: None };
    let joined = match how {
        Join::Average => {
            let share = F::of(1.0 / xs.len() as f64);
            let mean = |lane: usize| {
                let mut sum = vec![F::ZERO; length];
                for x in &lanes {
                    super::entries::add(&mut sum, x[lane]);
                }
                sum.iter_mut().for_each(|s| *s = *s * share);
                sum
            };
            (0..lanes[0].len()).map(mean).collect()
        }
        Join::Hull => {
            let mut ends = [vec![0; length], vec![0; length]];
            let mut out = vec![vec![F::ZERO; length]; 2];
            for i in 0..length {
                let bounds = |x: &[&[F]]| {
                    let radius = x.get(1).map_or(F::ZERO, |radius| radius[i]);
                    (x[0][i] - radius, x[0][i] + radius)
                };
                let (mut lower, mut upper) = bounds(&lanes[0]);
                for (number, x) in lanes.iter().enumerate().skip(1) {
                    let (l, u) = bounds(x);
                    // Once a NaN is in, no comparison takes it out.
                    if l < lower || l.wide().is_nan() {
                        (lower, ends[0][i]) = (l, number as u16);
                    }
                    if u > upper || u.wide().is_nan() {
                        (upper, ends[1][i]) = (u, number as u16);
                    }
                }
                out[0][i] = F::HALF * (upper + lower);
                out[1][i] = F::HALF * (upper - lower);
            }
            memory.ends = Some(ends);
            out
        }
    };
    Ok((Batch::of_lanes(joined), memory))
}

pub(super) fn join_back<F: Real>(memory: &JoinMemory, gradient: &Batch<Tensor<F>>) -> Vec<Batch<Tensor<F>>> {
    let lanes = gradient.lanes();
    let Some(ends) = &memory.ends else {
        let share = F::of(1.0 / memory.count as f64);
        let part: Vec<Vec<F>> = lanes.iter().map(|g| g.iter().map(|g| *g * share).collect()).collect();
        return (0..memory.count).map(|_| Batch::of_lanes(part.clone())).collect();
    };
    let length = lanes[0].len();
    let mut parts = vec![vec![vec![F::ZERO; length]; if memory.boxes { 2 } else { 1 }]; memory.count];
    for i in 0..length {
        let (c, r) = (lanes[0][i], lanes.get(1).map_or(F::ZERO, |radius| radius[i]));
        let (lower, upper) = (F::HALF * (c - r), F::HALF * (c + r));
        for (end, value, sign) in [(0, lower, -F::ONE), (1, upper, F::ONE)] {
            let part = &mut parts[usize::from(ends[end][i])];
            part[0][i] += value;
            if memory.boxes {
                part[1][i] += sign * value;
            }
        }
    }
    parts.into_iter().map(Batch::of_lanes).collect()
}
