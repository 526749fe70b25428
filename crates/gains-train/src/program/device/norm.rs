//! Batch normalisation.

use std::sync::Arc;

use super::launcher::Launcher;
use super::learning::{DeviceGradients, DeviceWeights};
use super::values::DeviceValues;
use super::{Kernels, launch, spread};
use crate::cpu::Real;
use crate::program::ops::batch_norm::MOMENTUM;
use crate::program::ops::{BatchNorm, Clock};

/// Mean and variance of every channel on the device, and over how many entries they were taken.
pub struct DeviceStatistics<M> {
    both: Arc<[M; 2]>,
    count: f64,
}

impl<M> Clone for DeviceStatistics<M> {
    fn clone(&self) -> Self {
        Self { both: self.both.clone(), count: self.count }
    }
}

impl<L: Launcher, F: Real> Kernels<L, F> {
    fn blank_statistics(&self, norm: &BatchNorm, count: f64) -> DeviceStatistics<L::Memory> {
        DeviceStatistics { both: Arc::new([self.doubles(norm.channels), self.doubles(norm.channels)]), count }
    }

    fn two(&self, statistics: &DeviceStatistics<L::Memory>) -> [u64; 2] {
        [self.at(&statistics.both[0]), self.at(&statistics.both[1])]
    }

    /// Factors and summands, where there are any.
    fn affine(&self, norm: &BatchNorm, of: &L::Memory) -> [u64; 2] {
        let of = |start: usize| self.after(of, start);
        norm.affine.as_ref().map_or([0, 0], |[factors, summands]| [of(factors.start), of(summands.start)])
    }

    pub(super) fn measured(
        &self,
        norm: &BatchNorm,
        x: &DeviceValues<L::Memory>,
    ) -> DeviceStatistics<L::Memory> {
        let (channels, count) = (norm.channels, x.len() / norm.channels);
        let statistics = self.blank_statistics(norm, count as f64);
        let [mean, variance] = self.two(&statistics);
        launch!(self, "norm_measure", [channels, 1, 1], self.at(&x.centre), channels, count, mean, variance);
        statistics
    }

    pub(super) fn of_running(
        &self,
        norm: &BatchNorm,
        weights: &DeviceWeights<L::Memory>,
    ) -> DeviceStatistics<L::Memory> {
        let statistics = self.blank_statistics(norm, 0.0);
        let [mean, variance] = self.two(&statistics);
        let [means, variances] = [0, 1].map(|i: usize| self.after(&weights.values, norm.running[i].start));
        let channels = norm.channels;
        launch!(self, "norm_running", spread(channels), means, variances, mean, variance, channels);
        statistics
    }

    pub(super) fn followed(
        &self,
        norm: &BatchNorm,
        batch: &DeviceStatistics<L::Memory>,
        weights: &DeviceWeights<L::Memory>,
    ) {
        let corrected = batch.count / (batch.count - 1.0).max(1.0);
        let [mean, variance] = self.two(batch);
        let [means, variances] = [0, 1].map(|i: usize| self.after(&weights.values, norm.running[i].start));
        launch!(
            self,
            "norm_follow",
            spread(norm.channels),
            means,
            variances,
            mean,
            variance,
            MOMENTUM,
            corrected,
            norm.channels
        );
    }

    pub(super) fn normalised(
        &self,
        norm: &BatchNorm,
        weights: &DeviceWeights<L::Memory>,
        x: &DeviceValues<L::Memory>,
        clock: Clock,
        statistics: &DeviceStatistics<L::Memory>,
    ) -> DeviceValues<L::Memory> {
        let out = self.blank_like(x);
        let ([mean, variance], n) = (self.two(statistics), x.len());
        let [factors, summands] = self.affine(norm, &weights.values);
        for (radii, (from, to)) in [false, true].into_iter().zip(x.lanes().zip(out.lanes())) {
            launch!(
                self,
                "norm_forward",
                spread(n),
                self.at(from),
                mean,
                variance,
                norm.eps,
                factors,
                summands,
                clock.biased,
                radii,
                self.at(to),
                norm.channels,
                n
            );
        }
        out
    }

    pub(super) fn normalised_back(
        &self,
        norm: &BatchNorm,
        weights: &DeviceWeights<L::Memory>,
        x: &DeviceValues<L::Memory>,
        (clock, statistics, own): (Clock, &DeviceStatistics<L::Memory>, bool),
        gradient: &DeviceValues<L::Memory>,
        into: &DeviceGradients<L::Memory>,
    ) -> DeviceValues<L::Memory> {
        let part = self.blank_like(x);
        let ([mean, variance], n, channels) = (self.two(statistics), x.len(), norm.channels);
        let sums = self.doubles(3 * channels);
        let radius = |x: &DeviceValues<L::Memory>| x.radius.as_ref().map_or(0, |radius| self.at(radius));
        launch!(
            self,
            "norm_sums",
            [channels, 1, 1],
            self.at(&x.centre),
            radius(x),
            self.at(&gradient.centre),
            radius(gradient),
            mean,
            variance,
            norm.eps,
            clock.biased,
            channels,
            n / channels,
            self.at(&sums)
        );
        if norm.affine.is_some() {
            let [factors, summands] = self.affine(norm, &into.signed);
            let magnitudes = match &into.magnitudes {
                Some(magnitudes) if gradient.is_box() => self.affine(norm, magnitudes)[0],
                _ => 0,
            };
            let (sums, biased) = (self.at(&sums), clock.biased);
            launch!(
                self,
                "norm_parameters",
                spread(channels),
                sums,
                biased,
                factors,
                summands,
                magnitudes,
                channels
            );
        }
        let [factors, _] = self.affine(norm, &weights.values);
        for (radii, ((x, g), to)) in
            [false, true].into_iter().zip(x.lanes().zip(gradient.lanes()).zip(part.lanes()))
        {
            launch!(
                self,
                "norm_back",
                spread(n),
                self.at(x),
                self.at(g),
                mean,
                variance,
                norm.eps,
                factors,
                self.at(&sums),
                own,
                statistics.count,
                clock.biased,
                radii,
                self.at(to),
                channels,
                n
            );
        }
        part
    }
}
