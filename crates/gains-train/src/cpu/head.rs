//! The last layer and the loss behind it.
//!
//! With y the label, `D_j = (W_j − W_y)·x + b_j − b_y` is computed from the difference of the rows, so that a box loses
//! nothing by bounding two logits separately. The cross-entropy is that of the logits `upper(D_j)`, 0 for the label.

use rayon::prelude::*;

use super::kernel::Kernel;
use super::real::Real;
use super::tile::Tiling;
use super::{Cpu, Tensor};
use crate::device::{Batch, DeviceError, LabelData, Pull, Tally, WidthNorm};
use crate::plan::LayerPlan;

/// What one part of a batch contributes.
struct Contribution<F> {
    /// `[output][input]`.
    weights: Vec<F>,
    biases: Vec<F>,
    tally: Tally,
}

/// What is weighed how.
struct Terms<'a> {
    labels: &'a LabelData,
    pull: Pull<'a>,
    width_weight: f64,
    norm: WidthNorm,
}

impl<F: Real> Cpu<F> {
    pub(super) fn head_loss(
        &mut self,
        head: &LayerPlan,
        x: &Batch<Tensor<F>>,
        labels: &LabelData,
        pull: Pull<'_>,
        width_weight: f64,
        norm: WidthNorm,
    ) -> Result<Batch<Tensor<F>>, DeviceError> {
        let kernel = self.kernel(head)?;
        if head.output.positions() != 1 || head.relu || head.time {
            return Err(DeviceError::Unsupported("the last layer must be linear, without activation".into()));
        }
        let (entries, classes) = (head.input.len(), head.output.channels);
        let samples = x.samples(entries)?;
        check_labels(labels, samples, classes)?;
        if let Pull::Margins(slopes) = pull
            && slopes.len() != samples * classes
        {
            return Err(super::mismatch("slopes of margins", samples * classes, slopes.len()));
        }
        let terms = Terms { labels, pull, width_weight, norm };
        let tiling = Tiling::new(samples, entries);
        let inputs = x.lanes();
        let mut gradient = vec![vec![F::ZERO; samples * entries]; inputs.len()];
        let jobs: Vec<_> = tiling.parts().zip(tiling.split_lanes(&mut gradient, entries)).collect();
        let run = |(part, mut out): (std::ops::Range<usize>, Vec<&mut [F]>)| {
            let mut sums = Contribution {
                weights: vec![F::ZERO; classes * entries],
                biases: vec![F::ZERO; classes],
                tally: Tally::default(),
            };
            for (row, sample) in part.enumerate() {
                let x: Vec<_> = inputs.iter().map(|x| &x[sample * entries..][..entries]).collect();
                let mut out: Vec<_> =
                    out.iter_mut().map(|out| &mut out[row * entries..][..entries]).collect();
                one_sample(kernel, &terms, sample, &x, &mut out, &mut sums);
            }
            sums
        };
        let parts: Vec<Contribution<F>> = self.install(|| jobs.into_par_iter().map(run).collect());
        if self.frozen {
            return Ok(Batch::of_lanes(gradient));
        }
        let boxes = inputs.len() == 2;
        let tally = if boxes { &mut self.ledger.robust } else { &mut self.ledger.clean };
        for part in &parts {
            tally.cross_entropy += part.tally.cross_entropy;
            tally.width += part.tally.width;
            tally.correct += part.tally.correct;
            tally.samples += part.tally.samples;
            let rows = entries;
            for (index, row, output) in super::kernel::weight_order(head) {
                self.gradients[head.weights.start + index] += part.weights[output * rows + row];
            }
            for (g, b) in self.gradients[head.biases.clone()].iter_mut().zip(&part.biases) {
                *g += *b;
            }
        }
        Ok(Batch::of_lanes(gradient))
    }

    /// The upper bounds of `D`.
    pub(super) fn head_margins(
        &self,
        head: &LayerPlan,
        x: &Batch<Tensor<F>>,
        labels: &LabelData,
    ) -> Result<Vec<f64>, DeviceError> {
        let kernel = self.kernel(head)?;
        let entries = head.input.len();
        let samples = x.samples(entries)?;
        check_labels(labels, samples, head.output.channels)?;
        let lanes = x.lanes();
        let of_sample = |sample: usize| {
            let x: Vec<_> = lanes.iter().map(|lane| &lane[sample * entries..][..entries]).collect();
            let (centre, radius) = margins(kernel, usize::from(labels.labels[sample]), &x);
            centre.into_iter().zip(radius).map(|(c, r)| c + r).collect::<Vec<f64>>()
        };
        Ok((0..samples).flat_map(of_sample).collect())
    }
}

fn check_labels(labels: &LabelData, samples: usize, classes: usize) -> Result<(), DeviceError> {
    if labels.labels.len() == samples && labels.labels.iter().all(|y| usize::from(*y) < classes) {
        return Ok(());
    }
    Err(DeviceError::Failed(format!("the labels do not fit {samples} samples of {classes} classes")))
}

/// Centres and radii of `D`, 0 for the label.
fn margins<F: Real>(kernel: &Kernel<F>, label: usize, x: &[&[F]]) -> (Vec<f64>, Vec<f64>) {
    let (entries, classes) = (x[0].len(), kernel.bias.len());
    let row = |class: usize| &kernel.transposed[0][class * entries..][..entries];
    let own = row(label);
    let mut centre = vec![0.0; classes];
    let mut radius = vec![0.0; classes];
    for class in (0..classes).filter(|class| *class != label) {
        let mut sum = kernel.bias[class].wide() - kernel.bias[label].wide();
        for ((w, o), c) in row(class).iter().zip(own).zip(x[0]) {
            sum += ((*w - *o) * *c).wide();
        }
        centre[class] = sum;
        if let Some(radii) = x.get(1) {
            radius[class] =
                row(class).iter().zip(own).zip(*radii).map(|((w, o), r)| ((*w - *o).abs() * *r).wide()).sum();
        }
    }
    (centre, radius)
}

fn one_sample<F: Real>(
    kernel: &Kernel<F>,
    terms: &Terms<'_>,
    sample: usize,
    x: &[&[F]],
    out: &mut [&mut [F]],
    sums: &mut Contribution<F>,
) {
    let (entries, classes) = (x[0].len(), kernel.bias.len());
    let label = usize::from(terms.labels.labels[sample]);
    let row = |class: usize| &kernel.transposed[0][class * entries..][..entries];
    let own = row(label);
    let (centre, radius) = margins(kernel, label, x);
    // A NaN logit must reach the loss, which `max` alone would not let it do.
    let worst: Vec<f64> = centre.iter().zip(&radius).map(|(c, r)| c + r).collect();
    let top = worst.iter().copied().fold(0.0, f64::max);
    let total: f64 = worst.iter().map(|v| (v - top).exp()).sum();
    sums.tally.cross_entropy += top + total.ln();
    sums.tally.samples += 1.0;
    if worst.iter().enumerate().all(|(class, v)| class == label || *v < 0.0) {
        sums.tally.correct += 1.0;
    }
    let share = f64::from(terms.labels.width_weights[sample]);
    for class in (0..classes).filter(|class| *class != label) {
        let pull = match terms.pull {
            Pull::CrossEntropy(weight) => weight * (worst[class] - top).exp() / total,
            Pull::Margins(slopes) => slopes[sample * classes + class],
        };
        let (g_centre, mut g_radius) = (F::of(pull), pull);
        if x.len() == 2 {
            let width = 2.0 * radius[class];
            let (measure, slope) = match terms.norm {
                WidthNorm::Squared => (width * width, 2.0 * width),
                WidthNorm::Absolute => (width, 1.0),
            };
            sums.tally.width += share * measure;
            g_radius += terms.width_weight * share * slope * 2.0;
        }
        sums.biases[class] += g_centre;
        sums.biases[label] -= g_centre;
        let g_radius = F::of(g_radius);
        for i in 0..entries {
            let difference = row(class)[i] - own[i];
            out[0][i] += g_centre * difference;
            let mut g_weight = g_centre * x[0][i];
            if x.len() == 2 {
                out[1][i] += g_radius * difference.abs();
                g_weight += g_radius * difference.sign() * x[1][i];
            }
            sums.weights[class * entries + i] += g_weight;
            sums.weights[label * entries + i] -= g_weight;
        }
    }
}
