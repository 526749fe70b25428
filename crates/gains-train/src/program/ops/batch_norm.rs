//! Batch normalisation: `(x − mean) / √(variance + eps)·w + b` by channel.
//!
//! The statistics are those of the *clean* points of a batch: points are normalised by their own, the boxes around
//! them by the same numbers. In the dynamics of an ODE the running statistics count, so that every evaluation of a solve
//! is of the same function. A network in use has the running ones, and there it is nothing but factors and summands.

use std::ops::Range;

use super::{Clock, Weights};
use crate::cpu::Real;
use crate::gradients::Gradients;
use crate::matrix::Matrix;

/// How fast running statistics follow those of the batches.
pub(in crate::program) const MOMENTUM: f64 = 0.1;

/// Such a layer.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// Its number among those of the network.
    pub index: usize,
    /// Whether it stands in the dynamics of an ODE.
    pub inside: bool,
    /// Entries of a pixel.
    pub channels: usize,
    /// Added to variances.
    pub eps: f64,
    /// Where factors and summands are among the parameters, if there are any.
    pub affine: Option<[Range<usize>; 2]>,
    /// Where the running means and variances are.
    pub running: [Range<usize>; 2],
}

/// Mean and variance of every channel, and over how many entries they were taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    mean: Vec<f64>,
    variance: Vec<f64>,
    count: f64,
}

impl BatchNorm {
    /// The statistics of some points (of the centres of boxes).
    pub fn measure<F: Real>(&self, x: &Matrix<F>) -> Statistics {
        let count = (x.centre.len() / self.channels) as f64;
        let mean_of = |f: &dyn Fn(usize, f64) -> f64| {
            let mut sums = vec![0.0; self.channels];
            for (at, value) in x.centre.iter().enumerate() {
                sums[at % self.channels] += f(at % self.channels, value.wide());
            }
            sums.into_iter().map(|sum| sum / count).collect::<Vec<f64>>()
        };
        let mean = mean_of(&|_, x| x);
        let variance = mean_of(&|channel, x| (x - mean[channel]) * (x - mean[channel]));
        Statistics { mean, variance, count }
    }

    /// The running statistics.
    pub fn running<F: Real>(&self, weights: &Weights<F>) -> Statistics {
        let of = |range: &Range<usize>| weights.values[range.clone()].iter().map(|v| v.wide()).collect();
        Statistics { mean: of(&self.running[0]), variance: of(&self.running[1]), count: 0.0 }
    }

    /// Moves the running statistics towards those of a batch, whose variance is corrected for its size.
    pub fn follow<F: Real>(&self, batch: &Statistics, values: &mut [F]) {
        let corrected = batch.count / (batch.count - 1.0).max(1.0);
        let pairs = [(&self.running[0], &batch.mean, 1.0), (&self.running[1], &batch.variance, corrected)];
        for (range, fresh, factor) in pairs {
            for (value, fresh) in values[range.clone()].iter_mut().zip(fresh) {
                *value = F::of((1.0 - MOMENTUM) * value.wide() + MOMENTUM * factor * fresh);
            }
        }
    }

    fn deviation(&self, statistics: &Statistics, channel: usize) -> f64 {
        (statistics.variance[channel] + self.eps).sqrt()
    }

    fn factor<F: Real>(&self, weights: &Weights<F>, channel: usize) -> f64 {
        self.affine.as_ref().map_or(1.0, |[factors, _]| weights.values[factors.start + channel].wide())
    }

    /// The value by given statistics, or of changes without what is added.
    pub fn forward<F: Real>(
        &self,
        weights: &Weights<F>,
        x: &Matrix<F>,
        clock: Clock,
        statistics: &Statistics,
    ) -> Matrix<F> {
        let mut out = x.zeros_like();
        let per_channel: Vec<[f64; 3]> = (0..self.channels)
            .map(|channel| {
                let scale = self.factor(weights, channel) / self.deviation(statistics, channel);
                let summands = self.affine.as_ref().map(|[_, summands]| summands.start);
                let shift = summands.map_or(0.0, |start| weights.values[start + channel].wide());
                let biased = f64::from(u8::from(clock.biased));
                [scale, biased * statistics.mean[channel], biased * shift]
            })
            .collect();
        for (at, value) in out.centre.iter_mut().enumerate() {
            let [scale, mean, shift] = per_channel[at % self.channels];
            *value = F::of((x.centre[at].wide() - mean) * scale + shift);
        }
        for (at, value) in out.radius.iter_mut().enumerate() {
            *value = F::of(x.radius[at].wide() * per_channel[at % self.channels][0].abs());
        }
        out
    }

    /// Adds the gradients of factors and summands; returns that of the input, which the statistics depend on if they
    /// are its `own`.
    pub fn backward<F: Real>(
        &self,
        weights: &Weights<F>,
        x: &Matrix<F>,
        (clock, statistics, own): (Clock, &Statistics, bool),
        gradient: &Matrix<F>,
        into: &mut Gradients<F>,
    ) -> Matrix<F> {
        let mut part = x.zeros_like();
        let (mut sums, mut products) = (vec![0.0; self.channels], vec![0.0; self.channels]);
        let normal = |at: usize| {
            let channel = at % self.channels;
            let mean = if clock.biased { statistics.mean[channel] } else { 0.0 };
            (x.centre[at].wide() - mean) / self.deviation(statistics, channel)
        };
        for (at, on) in gradient.centre.iter().enumerate() {
            sums[at % self.channels] += on.wide();
            products[at % self.channels] += on.wide() * normal(at);
        }
        let mut magnitudes = vec![0.0; self.channels];
        for (at, on) in gradient.radius.iter().enumerate() {
            let channel = at % self.channels;
            let deviation = self.deviation(statistics, channel);
            magnitudes[channel] += on.wide() * x.radius[at].wide() / deviation;
            part.radius[at] = F::of(on.wide() * self.factor(weights, channel).abs() / deviation);
        }
        for (at, on) in gradient.centre.iter().enumerate() {
            let channel = at % self.channels;
            let scale = self.factor(weights, channel) / self.deviation(statistics, channel);
            let shared = match own {
                true => (sums[channel] + normal(at) * products[channel]) / statistics.count,
                false => 0.0,
            };
            part.centre[at] = F::of(scale * (on.wide() - shared));
        }
        if let Some([factors, summands]) = &self.affine {
            for channel in 0..self.channels {
                into.signed[factors.start + channel] += F::of(products[channel]);
                into.signed[summands.start + channel] += F::when(clock.biased, F::of(sums[channel]));
                if !gradient.radius.is_empty() {
                    into.magnitudes[factors.start + channel] += F::of(magnitudes[channel]);
                }
            }
        }
        part
    }
}
