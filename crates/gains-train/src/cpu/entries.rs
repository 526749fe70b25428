//! What is done entry by entry: sums of slopes, and the ReLU on points and on boxes given by centre and radius.
//!
//! A NaN that goes in comes out: comparisons are written so that it is never replaced by a number.

use super::real::{Real, flag, vectorised};

/// Lower bit of a mask: the lower end (of a point: the value) is above 0, so its gradient passes the ReLU.
pub(crate) const LOWER: u8 = 1;
/// The upper end is above 0.
pub(crate) const UPPER: u8 = 2;

const BLOCK: usize = 1024;

vectorised! {
    /// `out = base + Σ weight·values`, or `out += …` without a base.
    pub(crate) fn combine<F>(out: &mut [F], base: Option<&[F]>, terms: &[(F, &[F])]) {
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            let (start, length) = (block * BLOCK, out.len());
            if let Some(base) = base {
                out.copy_from_slice(&base[start..start + length]);
            }
            for (weight, values) in terms {
                for (o, v) in out.iter_mut().zip(&values[start..start + length]) {
                    *o += *weight * *v;
                }
            }
        }
    }
}

vectorised! {
    /// `out += values`.
    pub(crate) fn add<F>(out: &mut [F], values: &[F]) {
        for (o, v) in out.iter_mut().zip(values) {
            *o += *v;
        }
    }
}

vectorised! {
    /// ReLU of points, in place.
    pub(crate) fn relu_points<F>(values: &mut [F], masks: &mut [u8]) {
        for (v, mask) in values.iter_mut().zip(masks) {
            *mask = flag(*v > F::ZERO, LOWER);
            *v = v.relu();
        }
    }
}

vectorised! {
    /// The gradient of [`relu_points`], in place.
    pub(crate) fn relu_points_back<F>(gradient: &mut [F], masks: &[u8]) {
        for (g, mask) in gradient.iter_mut().zip(masks) {
            *g = F::when(mask & LOWER != 0, *g);
        }
    }
}

vectorised! {
    /// ReLU of boxes, in place: both ends are cut off at 0.
    pub(crate) fn relu_boxes<F>(centre: &mut [F], radius: &mut [F], masks: &mut [u8]) {
        for ((c, r), mask) in centre.iter_mut().zip(radius).zip(masks) {
            let (lower, upper) = (*c - *r, *c + *r);
            *mask = flag(lower > F::ZERO, LOWER) | flag(upper > F::ZERO, UPPER);
            let (lower, upper) = (lower.relu(), upper.relu());
            *c = F::HALF * (upper + lower);
            *r = F::HALF * (upper - lower);
        }
    }
}

vectorised! {
    /// The gradient of [`relu_boxes`], in place.
    pub(crate) fn relu_boxes_back<F>(centre: &mut [F], radius: &mut [F], masks: &[u8]) {
        for ((c, r), mask) in centre.iter_mut().zip(radius).zip(masks) {
            let upper = F::when(mask & UPPER != 0, F::HALF * (*c + *r));
            let lower = F::when(mask & LOWER != 0, F::HALF * (*c - *r));
            *c = upper + lower;
            *r = upper - lower;
        }
    }
}

/// ReLU of a tile in place, points (one lane) or boxes (two).
pub(crate) fn relu<F: Real>(lanes: &mut [Vec<F>], masks: &mut Vec<u8>) {
    match lanes {
        [points] => {
            super::tile::resize(masks, points.len());
            relu_points(points, masks);
        }
        [centre, radius] => {
            super::tile::resize(masks, centre.len());
            relu_boxes(centre, radius, masks);
        }
        _ => {}
    }
}

/// The gradient of [`relu`], in place.
pub(crate) fn relu_back<F: Real>(lanes: &mut [Vec<F>], masks: &[u8]) {
    match lanes {
        [points] => relu_points_back(points, masks),
        [centre, radius] => relu_boxes_back(centre, radius, masks),
        _ => {}
    }
}
