//! Factors and summands, by channel or by entry.

use super::Lanes;
use crate::arithmetic::{LARGEST, beyond_float32};
use crate::row_block::RowBlock;
use crate::rows::Rows;
use crate::shape::{Shape, Window};

/// `scale·x + shift`, with one number of each per channel or per entry.
///
/// What they are made of is a few ulp off, which the slack of [`crate::arithmetic::Arithmetic::dot`] covers.
#[derive(Clone, Debug)]
pub struct Scale {
    shape: Shape,
    scale: Vec<f64>,
    shift: Vec<f64>,
    /// What the rounding of the summands is proportional to.
    size: Vec<f64>,
    kind: ScaleKind,
    /// One of the given numbers that float32 cannot store.
    beyond_float32: Option<f64>,
}

/// Weights of batch normalisation beyond this say nothing about float32 programs.
const LARGEST_WEIGHT: f64 = 1e6;
/// What float32 holds with room for a few roundings.
const LARGEST_BETWEEN: f64 = 1e38;

/// What a scale does in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleKind {
    /// `(x − mean) / std` with given numbers.
    Normalise,
    /// `(x − mean) / √(variance + eps)·weight + bias`; so many numbers were trained.
    BatchNorm {
        /// Weights and biases.
        parameters: usize,
    },
    /// `weight·x + bias`.
    Affine,
}

/// Statistics that a layer of batch normalisation has seen in training, and what it adds.
#[derive(Clone, Copy, Debug)]
pub struct BatchStatistics<'a> {
    /// Means.
    pub mean: &'a [f64],
    /// Variances.
    pub variance: &'a [f64],
    /// Added to the variances.
    pub eps: f64,
    /// Weights and biases, if there are any.
    pub affine: Option<(&'a [f64], &'a [f64])>,
}

impl Scale {
    /// Normalisation with one mean and deviation per channel.
    pub fn normalise(shape: Shape, mean: &[f64], deviation: &[f64]) -> Self {
        let shift: Vec<f64> = mean.iter().zip(deviation).map(|(m, s)| -m / s).collect();
        Self {
            shape,
            scale: deviation.iter().map(|s| 1.0 / s).collect(),
            size: shift.iter().map(|b| b.abs()).collect(),
            shift,
            kind: ScaleKind::Normalise,
            // A program may divide, or multiply by the reciprocal.
            beyond_float32: beyond_float32(
                mean.iter().copied().chain(deviation.iter().flat_map(|s| [*s, 1.0 / s])),
            ),
        }
    }

    /// Batch normalisation by channel. A program may subtract the mean first or last: what it rounds is proportional to
    /// `|scale|·(|x| + |mean|) + |bias|`.
    pub fn batch_norm(shape: Shape, s: BatchStatistics<'_>) -> Self {
        let channels = s.mean.len();
        let (weight, bias) = match s.affine {
            Some((weight, bias)) => (weight.to_vec(), bias.to_vec()),
            None => (vec![1.0; channels], vec![0.0; channels]),
        };
        let scale: Vec<f64> = weight.iter().zip(s.variance).map(|(w, v)| w / (v + s.eps).sqrt()).collect();
        let each = |f: &dyn Fn(usize) -> f64| (0..channels).map(f).collect();
        // Nothing encloses what a program has in between, `(x − mean)·factor` or `weight·(x − mean)`.
        let overflows = |c: usize| {
            let [mean, factor] = [s.mean[c].abs(), 1.0 / (s.variance[c] + s.eps).sqrt()];
            let between = (LARGEST + mean) * factor.max(1.0) * weight[c].abs().max(1.0);
            (between > LARGEST_BETWEEN).then(|| mean.max(factor))
        };
        Self {
            shift: each(&|c| bias[c] - s.mean[c] * scale[c]),
            size: each(&|c| bias[c].abs() + (s.mean[c] * scale[c]).abs()),
            shape,
            scale,
            kind: ScaleKind::BatchNorm { parameters: if s.affine.is_some() { 2 * channels } else { 0 } },
            // What a program loses by underflow before it multiplies by the weight is charged for moderate weights.
            beyond_float32: weight
                .iter()
                .copied()
                .find(|w| w.abs() > LARGEST_WEIGHT)
                .or_else(|| (0..channels).find_map(overflows))
                .or_else(|| {
                    let variances: Vec<f64> = each(&|c| s.variance[c] + s.eps);
                    beyond_float32([&variances, s.mean, &weight, &bias].into_iter().flatten().copied())
                }),
        }
    }

    /// `weight·x + bias`, per channel or per entry in the order of memory.
    pub fn affine(shape: Shape, weight: Vec<f64>, bias: Vec<f64>) -> Self {
        let size = bias.iter().map(|b| b.abs()).collect();
        let beyond_float32 = beyond_float32(weight.iter().chain(&bias).copied());
        Self { shape, scale: weight, shift: bias, size, kind: ScaleKind::Affine, beyond_float32 }
    }

    /// What it does in the network.
    pub fn kind(&self) -> ScaleKind {
        self.kind
    }

    /// Whether all numbers are finite.
    pub fn is_finite(&self) -> bool {
        self.scale.iter().chain(&self.shift).chain(&self.size).all(|x| x.is_finite())
    }

    /// One of its numbers, given or made of them, that float32 cannot store.
    pub(super) fn beyond_float32(&self) -> Option<f64> {
        self.beyond_float32
            .or_else(|| beyond_float32(self.scale.iter().chain(&self.shift).chain(&self.size).copied()))
    }

    pub(super) fn parameters(&self) -> usize {
        match self.kind {
            ScaleKind::Normalise => 0,
            ScaleKind::BatchNorm { parameters } => parameters,
            ScaleKind::Affine => self.scale.len() + self.shift.len(),
        }
    }

    pub(super) fn input(&self) -> Shape {
        self.shape
    }

    pub(super) fn output(&self) -> Shape {
        self.shape
    }

    /// A program rounds the factor of batch normalisation a few times before it is used.
    pub(super) fn terms(&self) -> usize {
        if matches!(self.kind, ScaleKind::BatchNorm { .. }) { 8 } else { 2 }
    }

    fn spread(&self, numbers: &[f64]) -> Vec<f64> {
        numbers.repeat(self.shape.len() / numbers.len().max(1))
    }

    pub(super) fn bias(&self, _: f64) -> Vec<f64> {
        self.spread(&self.shift)
    }

    pub(super) fn bias_magnitude(&self, _: f64) -> Vec<f64> {
        self.spread(&self.size)
    }

    fn scaled(x: &[f64], scale: &[f64], factor: impl Fn(f64) -> f64) -> Vec<f64> {
        x.iter().zip(scale.iter().cycle()).map(|(x, s)| factor(*s) * x).collect()
    }

    pub(super) fn linear(&self, x: &[f64]) -> Vec<f64> {
        Self::scaled(x, &self.scale, |s| s)
    }

    pub(super) fn absolute(&self, m: &[f64]) -> Vec<f64> {
        Self::scaled(m, &self.scale, f64::abs)
    }

    pub(super) fn lanes(&self, centre: &[f64], radius: &[f64], magnitude: Option<&[f64]>) -> Lanes {
        Lanes {
            centre: self.linear(centre),
            radius: self.absolute(radius),
            magnitude: magnitude.map(|m| self.absolute(m)).unwrap_or_default(),
        }
    }

    pub(super) fn transposed(&self, gradient: &[f64]) -> Vec<f64> {
        self.linear(gradient)
    }

    /// A window has whole pixels, so that factors of channels come round in it as in the image.
    pub(super) fn pull_rows(&self, rows: &RowBlock, window: &Window) -> Rows {
        let by_entry = self.scale.len() == self.shape.len();
        let mut pulled = rows.clone();
        pulled.coefficients = match by_entry {
            true => Self::scaled(&rows.coefficients, &window.cut(&self.scale), |s| s),
            false => self.linear(&rows.coefficients),
        };
        Rows::from_block(pulled, *window)
    }
}

#[cfg(test)]
mod tests {
    use super::super::AffineMap;
    use super::*;
    use crate::arithmetic::Arithmetic;
    use crate::interval::BoxVec;

    /// A program may lose all of `(x − mean)·factor` before it multiplies by the weight.
    #[test]
    fn large_weights_of_batch_normalisation_say_nothing_about_float32() {
        for (weight, told) in [(1.7e38, true), (-2e6, true), (1e5, false)] {
            let affine = Some((&[weight][..], &[0.0][..]));
            let statistics = BatchStatistics { mean: &[0.0], variance: &[6.25], eps: 1e-5, affine };
            let map = AffineMap::Scale(Scale::batch_norm(Shape::flat(1), statistics));
            assert_eq!(map.beyond_float32().is_some(), told, "{weight}");
        }
    }

    /// Divided by a small deviation they are beyond what float32 holds, and a small weight brings them back too late.
    #[test]
    fn means_that_overflow_before_the_weight_say_nothing_about_float32() {
        for (mean, variance, weight, told) in [
            (1e35, 0.0, 1e-30, true),
            (1e33, 1e38, 1e6, true),
            (0.0, 1e-36, 1.0, true),
            (1e6, 0.0, 1.0, false),
        ] {
            let affine = Some((&[weight][..], &[0.0][..]));
            let eps = if variance == 0.0 { 1e-12 } else { 0.0 };
            let statistics = BatchStatistics { mean: &[mean], variance: &[variance], eps, affine };
            let map = AffineMap::Scale(Scale::batch_norm(Shape::flat(1), statistics));
            assert_eq!(map.beyond_float32().is_some(), told, "{mean} {variance} {weight}");
        }
    }

    /// Mean and bias cancel, but not before a float32 program has rounded them.
    #[test]
    fn batch_normalisation_leaves_room_for_programs_that_take_the_mean_off_first() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            let (mean, variance) = (1000.0 * random.f32(), random.f32());
            let (weight, eps) = (random.f32() - 0.5, 1e-5_f32);
            let factor = 1.0 / (variance + eps).sqrt();
            let bias = mean * factor * weight;
            let one = |x: f32| [f64::from(x)];
            let statistics = BatchStatistics {
                mean: &one(mean),
                variance: &one(variance),
                eps: f64::from(eps),
                affine: Some((&one(weight), &one(bias))),
            };
            let map = AffineMap::Scale(Scale::batch_norm(Shape::flat(1), statistics));
            let x = random.f32();
            let first = (x - mean) * factor * weight + bias;
            let folded = x * (factor * weight) + (bias - mean * (factor * weight));
            let image = map.apply_box(&BoxVec::point(&one(x)), 0.0, Arithmetic::Float32);
            for y in [first, folded] {
                assert!(image.contains(&one(y)), "{y} not in {image:?}");
            }
        }
    }
}
