//! What the widths of output boxes weigh.

use crate::config::Phase;
use crate::device::WidthNorm;

/// What the summed widths of `count` boxes for each sample are multiplied with; see [`width_weights`].
pub(crate) fn width_share(phase: &Phase, count: usize) -> f64 {
    let count = count as f64;
    match phase.loss.width_norm {
        WidthNorm::Squared => 1.0 / (count * count),
        WidthNorm::Absolute => 1.0 / count,
    }
}

/// What a sample's widths weigh, before [`width_share`].
///
/// Squared widths are weighed as in the authors' program: the mean over the κ boxes and the outputs of a class's
/// samples, summed over classes, divided by κB. Absolute widths as in the paper: the mean over boxes of the sum over
/// outputs.
pub(crate) fn width_weights(phase: &Phase, labels: &[u8], classes: usize) -> Vec<f32> {
    let samples = labels.len() as f64;
    let mut counts = [0.0_f64; 256];
    for label in labels {
        counts[usize::from(*label)] += 1.0;
    }
    let weight = |label: &u8| match phase.loss.width_norm {
        WidthNorm::Squared => 1.0 / (counts[usize::from(*label)] * classes as f64 * samples),
        WidthNorm::Absolute => 1.0 / samples,
    };
    labels.iter().map(|label| weight(label) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Widths of κ = 2 boxes of 5 samples with 3 outputs, weighed as the reference describes it in words.
    #[test]
    fn widths_are_weighed_as_in_the_authors_program_or_the_paper() {
        let labels = [0_u8, 1, 1, 0, 1];
        let (boxes, outputs) = (2, 3);
        let mut random = fastrand::Rng::with_seed(3);
        let widths: Vec<[f64; 3]> =
            (0..boxes * labels.len()).map(|_| [(); 3].map(|()| random.f64())).collect();
        let ours = |norm: WidthNorm, measure: fn(f64) -> f64| {
            let mut phase = Phase::default();
            phase.loss.width_norm = norm;
            let weights = width_weights(&phase, &labels, outputs);
            let sum: f64 = widths
                .iter()
                .enumerate()
                .map(|(row, widths)| {
                    f64::from(weights[row % 5]) * widths.iter().map(|w| measure(*w)).sum::<f64>()
                })
                .sum();
            sum * width_share(&phase, boxes)
        };
        let mut squared = 0.0;
        for class in 0..2 {
            let rows = widths.iter().enumerate().filter(|(row, _)| labels[row % 5] == class);
            let entries: Vec<f64> = rows.flat_map(|(_, widths)| widths.map(|w| w * w)).collect();
            squared += entries.iter().sum::<f64>() / entries.len() as f64;
        }
        assert!((ours(WidthNorm::Squared, |w| w * w) - squared / 10.0).abs() < 1e-7);
        let absolute = widths.iter().flatten().sum::<f64>() / 10.0;
        assert!((ours(WidthNorm::Absolute, |w| w) - absolute).abs() < 1e-7);
    }
}
