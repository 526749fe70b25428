//! Pixels, the boxes around them, and the attacks on them.

use super::real::Real;
use super::{Tensor, mismatch};
use crate::device::{Batch, DeviceError, uniform};

pub(super) fn gather<F: Real>(
    images: &[u8],
    entries: usize,
    indices: &[u32],
) -> Result<Tensor<F>, DeviceError> {
    let mut pixels = Vec::with_capacity(indices.len() * entries);
    for index in indices {
        let start = *index as usize * entries;
        let image = images
            .get(start..start + entries)
            .ok_or_else(|| DeviceError::Failed(format!("there is no image {index} on the device")))?;
        pixels.extend(image.iter().map(|byte| F::of(f64::from(f32::from(*byte) / 255.0))));
    }
    Ok(Tensor(pixels))
}

pub(super) fn points<F: Real>(normalise: &[(F, F)], pixels: &Tensor<F>) -> Batch<Tensor<F>> {
    let mut points = pixels.0.clone();
    for pixel in points.chunks_mut(normalise.len()) {
        for (v, (mean, deviation)) in pixel.iter_mut().zip(normalise) {
            *v = (*v - *mean) / *deviation;
        }
    }
    Batch { centre: Tensor(points), radius: None }
}

fn clamp<F: Real>(value: F, lower: F, upper: F) -> F {
    if value < lower {
        lower
    } else if value > upper {
        upper
    } else {
        value
    }
}

pub(super) fn region<F: Real>(normalise: &[(F, F)], pixels: &Tensor<F>, reach: F) -> Batch<Tensor<F>> {
    let mut centres = pixels.0.clone();
    let mut radii = vec![F::ZERO; centres.len()];
    let channels = normalise.len();
    for (c, r) in centres.chunks_mut(channels).zip(radii.chunks_mut(channels)) {
        for ((c, r), (mean, deviation)) in c.iter_mut().zip(r).zip(normalise) {
            let (lower, upper) = (clamp(*c - reach, F::ZERO, F::ONE), clamp(*c + reach, F::ZERO, F::ONE));
            *c = (F::HALF * (upper + lower) - *mean) / *deviation;
            *r = F::HALF * (upper - lower) / *deviation;
        }
    }
    Batch { centre: Tensor(centres), radius: Some(Tensor(radii)) }
}

pub(super) fn scatter<F: Real>(pixels: &Tensor<F>, reach: F, seed: u64) -> Tensor<F> {
    let moved = pixels.0.iter().enumerate().map(|(i, pixel)| {
        let draw = F::of(f64::from(uniform(seed, i as u32)));
        clamp(*pixel + reach * ((draw + draw) - F::ONE), F::ZERO, F::ONE)
    });
    Tensor(moved.collect())
}

pub(super) fn ascend<F: Real>(
    attacked: &mut Tensor<F>,
    gradient: &Tensor<F>,
    pixels: &Tensor<F>,
    rate: F,
    reach: F,
) -> Result<(), DeviceError> {
    for other in [gradient, pixels] {
        if other.0.len() != attacked.0.len() {
            return Err(mismatch("an attack", attacked.0.len(), other.0.len()));
        }
    }
    for ((a, g), pixel) in attacked.0.iter_mut().zip(&gradient.0).zip(&pixels.0) {
        let moved = clamp(*a + rate * g.sign(), *pixel - reach, *pixel + reach);
        *a = clamp(moved, F::ZERO, F::ONE);
    }
    Ok(())
}
