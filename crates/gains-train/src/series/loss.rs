//! What is minimised: likelihood and divergence of the latent ODE, and the absolute error, of points and boxes.
//!
//! For a batch of B samples with M observed targets in all, m of them in one sample, n latent entries,
//!
//! ```text
//! L = −w_e (LL − k·KL) + w_a MAE,
//! LL  = 1/B Σ 1/m Σ log N(x; p, 0.01²),    MAE = 1/M Σ |p − x|,
//! KL  = 1/(B n) Σ (−log σ + (σ² + μ²)/2 − 1/2).
//! ```
//!
//! Of boxes the worst case of each entry by itself: p is the end of its interval that is farther from x, μ the end
//! that is farther from 0, σ the end with the larger `σ² − 2 log σ`. The mean width of the observed outputs is added.

use super::sample::Sample;
use super::tape::Matrix;
use crate::cpu::Real;

/// Deviation of an observation around its prediction.
const OBSERVATION: f64 = 0.01;
/// Added to the latent deviation.
const SMALLEST: f64 = 1e-7;
/// Smallest lower end of a latent deviation.
const FLOOR: f64 = 1e-8;

/// Sums over the samples of a part of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Σ of the samples' mean log-likelihoods.
    pub likelihood: f64,
    /// Σ of the samples' mean divergences.
    pub divergence: f64,
    /// Σ of absolute errors.
    pub absolute: f64,
    /// Σ of widths of observed outputs.
    pub width: f64,
}

impl Sums {
    /// Adds those of another part.
    pub fn add(&mut self, other: &Self) {
        self.likelihood += other.likelihood;
        self.divergence += other.divergence;
        self.absolute += other.absolute;
        self.width += other.width;
    }

    /// The loss before its weight, without widths.
    pub fn loss(&self, terms: &Terms) -> f64 {
        let elbo = (self.likelihood - terms.divergence * self.divergence) / terms.samples;
        -terms.elbo * elbo + terms.error * self.absolute / terms.entries
    }
}

/// Weights of the terms of a loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// B.
    pub samples: f64,
    /// M.
    pub entries: f64,
    /// w_e.
    pub elbo: f64,
    /// k.
    pub divergence: f64,
    /// w_a.
    pub error: f64,
    /// Weight of the whole loss.
    pub whole: f64,
    /// Weight of the mean width.
    pub width: f64,
}

/// The loss of the rows of a part, with its gradients with respect to outputs and latent states.
pub fn loss<F: Real>(
    samples: &[&Sample],
    terms: &Terms,
    output: &Matrix<F>,
    latent: &Matrix<F>,
) -> (Sums, Matrix<F>, Matrix<F>) {
    let mut sums = Sums::default();
    let boxes = output.is_box();
    let mut on_output = Matrix::zeros(output.rows, output.columns, boxes);
    let mut on_latent = Matrix::zeros(latent.rows, latent.columns, boxes);
    for (row, sample) in samples.iter().enumerate() {
        let observed = sample.observed() as f64;
        let mut likelihood = 0.0;
        for j in (0..output.columns).filter(|j| sample.target_mask[*j]) {
            let at = row * output.columns + j;
            let (truth, radius) = (sample.target[j], radius(output, at));
            let centre = output.centre[at].wide();
            // Which end is farther from the truth.
            let side = if centre >= truth { 1.0 } else { -1.0 };
            let error = centre + side * radius - truth;
            likelihood -= error * error / (2.0 * OBSERVATION * OBSERVATION)
                + OBSERVATION.ln()
                + (2.0 * std::f64::consts::PI).ln() / 2.0;
            sums.absolute += error.abs();
            sums.width += 2.0 * radius;
            let sign = if error > 0.0 { 1.0 } else { -1.0 };
            let slope = terms.elbo * error / (OBSERVATION * OBSERVATION * observed * terms.samples)
                + terms.error * sign / terms.entries;
            on_output.centre[at] = F::of(terms.whole * slope);
            if boxes {
                let width = 2.0 * terms.width / terms.entries;
                on_output.radius[at] = F::of(terms.whole * slope * side + width);
            }
        }
        sums.likelihood += likelihood / observed;
        let half = latent.columns / 2;
        let weight = terms.whole * terms.elbo * terms.divergence / (terms.samples * half as f64);
        for j in 0..half {
            let at = row * latent.columns + j;
            let (centre, reach) = (latent.centre[at].wide(), radius(latent, at));
            let side = if centre >= 0.0 { 1.0 } else { -1.0 };
            let mean = centre + side * reach;
            let end = deviation(latent.centre[at + half].wide(), radius(latent, at + half));
            let sigma = end.value;
            sums.divergence += (-sigma.ln() + (sigma * sigma + mean * mean) / 2.0 - 0.5) / half as f64;
            on_latent.centre[at] = F::of(weight * mean);
            let slope = weight * (sigma - 1.0 / sigma);
            on_latent.centre[at + half] = F::of(slope * end.on_centre);
            if boxes {
                on_latent.radius[at] = F::of(weight * mean * side);
                on_latent.radius[at + half] = F::of(slope * end.on_radius);
            }
        }
    }
    (sums, on_output, on_latent)
}

fn radius<F: Real>(x: &Matrix<F>, at: usize) -> f64 {
    x.radius.get(at).map_or(0.0, |radius| radius.wide())
}

/// A deviation and how it depends on the box it comes from.
struct End {
    value: f64,
    on_centre: f64,
    on_radius: f64,
}

/// The worst deviation of a box; of a point the only one.
fn deviation(centre: f64, radius: f64) -> End {
    let side = if centre >= 0.0 { 1.0 } else { -1.0 };
    let high = End { value: centre.abs() + radius + SMALLEST, on_centre: side, on_radius: 1.0 };
    if radius == 0.0 {
        return high;
    }
    let low = match centre.abs() - radius {
        low if low > FLOOR => End { value: low + SMALLEST, on_centre: side, on_radius: -1.0 },
        _ => End { value: FLOOR + SMALLEST, on_centre: 0.0, on_radius: 0.0 },
    };
    let badness = |end: &End| end.value * end.value - 2.0 * end.value.ln();
    if badness(&low) > badness(&high) { low } else { high }
}
