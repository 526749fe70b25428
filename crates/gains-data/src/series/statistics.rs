//! Mean and spread of each feature, to go to the scale of the network and back.

use super::feature::{Scaling, clip, scaling};
use super::record::Observation;
use super::recordings::Recordings;

/// How values and times were brought to the scale of the network: `(value − mean) / deviation`, `time / span`.
///
/// Mean and deviation (that of the whole population, not of a sample) are taken over all values that the
/// training part keeps, targets included, after clipping. Categories are left alone and percentages are
/// divided by 100. A feature that is never seen, or always the same, has deviation 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    mean: Vec<f64>,
    deviation: Vec<f64>,
    span: f64,
}

impl Statistics {
    /// Over `values`, which can be gone through twice.
    pub(super) fn of<'a, I>(recordings: &Recordings, values: impl Fn() -> I, span: f64) -> Statistics
    where
        I: Iterator<Item = &'a Observation>,
    {
        let features = recordings.features().len();
        let clipped = |value: &Observation| {
            let feature = value.feature as usize;
            (feature, f64::from(clip(recordings.kind(), feature, value.value)))
        };
        let (mut count, mut mean) = (vec![0_usize; features], vec![0.0; features]);
        for (feature, value) in values().map(clipped) {
            count[feature] += 1;
            mean[feature] += value;
        }
        for (mean, &count) in mean.iter_mut().zip(&count) {
            *mean /= count.max(1) as f64;
        }
        let mut deviation = vec![0.0; features];
        for (feature, value) in values().map(clipped) {
            deviation[feature] += (value - mean[feature]).powi(2);
        }
        for (feature, deviation) in deviation.iter_mut().enumerate() {
            *deviation = (*deviation / count[feature].max(1) as f64).sqrt();
            if *deviation == 0.0 {
                *deviation = 1.0;
            }
            if let Scaling::Divided(by) = scaling(recordings.kind(), feature) {
                (mean[feature], *deviation) = (0.0, by);
            }
        }
        Statistics { mean, deviation, span }
    }

    /// Statistics that were taken of other records: one mean and one deviation for each feature of the set. Nothing if some
    /// are not finite, or a deviation or the span is not positive.
    pub fn new(mean: Vec<f64>, deviation: Vec<f64>, span: f64) -> Option<Self> {
        let positive = |x: &f64| x.is_finite() && *x > 0.0;
        let sound = mean.len() == deviation.len() && mean.iter().all(|x| x.is_finite());
        (sound && deviation.iter().all(positive) && positive(&span)).then_some(Self { mean, deviation, span })
    }

    /// The mean of each feature of the set, in the units of the source.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The deviation of each feature of the set, in the units of the source.
    pub fn deviation(&self) -> &[f64] {
        &self.deviation
    }

    /// What times are divided by.
    pub fn span(&self) -> f64 {
        self.span
    }

    /// A value of a feature of the set on the scale of the network.
    pub fn normalise(&self, feature: usize, value: f64) -> f64 {
        (value - self.mean[feature]) / self.deviation[feature]
    }

    /// And back.
    pub fn to_raw(&self, feature: usize, value: f64) -> f64 {
        value * self.deviation[feature] + self.mean[feature]
    }
}
