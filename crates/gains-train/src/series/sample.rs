//! Series to learn from, and the boxes around them.

use gains_core::description::Points;
use gains_core::series_encoder::walk;
use gains_ode::Observations;

use super::network::Network;

/// A series and what is observed at the time to predict, in the order in which the encoder walks: backwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub(super) statics: Vec<f64>,
    /// Time and Euler step of each stop.
    pub(super) stops: Vec<(f64, f64)>,
    /// What is observed at the stops, row by row, 0 elsewhere.
    pub(super) values: Vec<f64>,
    pub(super) mask: Vec<bool>,
    pub(super) target_time: f64,
    pub(super) target: Vec<f64>,
    pub(super) target_mask: Vec<bool>,
}

impl Sample {
    /// A series for a network; says what is wrong with it if it does not fit.
    pub fn new(
        network: &Network,
        series: &Observations,
        target: &[f64],
        target_mask: &[bool],
    ) -> Result<Self, String> {
        let (width, points) = (network.features(), series.times.len());
        for (what, found, expected) in [
            ("statics", series.statics.len(), network.statics()),
            ("values", series.values.len(), points * width),
            ("mask", series.mask.len(), points * width),
            ("target", target.len(), width),
            ("target's mask", target_mask.len(), width),
        ] {
            if found != expected {
                return Err(format!("{what}: {found} entries where {expected} were expected"));
            }
        }
        if !target_mask.contains(&true) {
            return Err("nothing is observed at the time to predict".into());
        }
        let numbers = [&series.statics[..], &series.times, &series.values, target, &[series.target_time]];
        if let Some(value) = numbers.iter().flat_map(|list| list.iter()).find(|value| !value.is_finite()) {
            return Err(format!("holds {value}"));
        }
        if series.target_time < 0.0 || series.times.windows(2).any(|pair| pair[1] < pair[0]) {
            return Err("times must not be negative or decrease".into());
        }
        let mut sample = Self {
            statics: series.statics.clone(),
            stops: Vec::new(),
            values: Vec::new(),
            mask: Vec::new(),
            target_time: series.target_time,
            target: target.to_vec(),
            target_mask: target_mask.to_vec(),
        };
        let observed = |point| series.is_observed(point);
        for stop in walk(&series.times, observed, network.lead, Points::Observed) {
            sample.stops.push((series.times[stop.point], stop.step));
            sample.values.extend(series.row(stop.point));
            sample.mask.extend_from_slice(&series.mask[stop.point * width..(stop.point + 1) * width]);
        }
        Ok(sample)
    }

    /// Observations.
    pub fn len(&self) -> usize {
        self.stops.len()
    }

    /// Whether nothing is observed before the time to predict.
    pub fn is_empty(&self) -> bool {
        self.stops.is_empty()
    }

    /// Features observed at the time to predict.
    pub fn observed(&self) -> usize {
        self.target_mask.iter().filter(|seen| **seen).count()
    }
}

/// Which entries of a series a perturbation moves, and how far.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// How far.
    pub eps: f64,
    /// ρ: observations up to this time move; from 1 on all do, and the statics.
    pub ratio: f64,
    /// Features that stay in [0, 1], by feature.
    pub bounded: Vec<bool>,
    /// Statics that move, by static.
    pub statics: Vec<bool>,
}

impl Region {
    /// The interval of a feature observed at a time. A value beyond its range moves towards it only.
    pub fn feature(&self, feature: usize, time: f64, value: f64) -> (f64, f64) {
        if self.ratio < 1.0 && time > self.ratio {
            return (value, value);
        }
        let (low, high) = (value - self.eps, value + self.eps);
        if self.bounded[feature] { (low.max(0.0).min(value), high.min(1.0).max(value)) } else { (low, high) }
    }

    /// The interval of a static entry.
    pub fn fixed(&self, entry: usize, value: f64) -> (f64, f64) {
        let reach = if self.ratio >= 1.0 && self.statics[entry] { self.eps } else { 0.0 };
        (value - reach, value + reach)
    }
}
