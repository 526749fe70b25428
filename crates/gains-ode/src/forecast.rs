//! Predicting one series: encoder, decoder up to the time asked for, outputs. Never on a batch or on a union of
//! grids, so that a prediction cannot depend on its batch mates.

use gains_core::network::Tape;
use gains_core::{Network, Precision, SeriesEncoder};

use crate::inference::Inference;
use crate::integrate::{Solution, SolveError};
use crate::observations::{ForecastError, Observations};
use crate::ode_rnn::{Encoding, SeriesGradient};
use crate::watch::Watch;

/// A forecasting network with its decoder set to one time: what all series with that target share.
pub struct Forecaster<'a> {
    /// The encoder.
    pub encoder: &'a SeriesEncoder,
    /// The decoder, from the latent state to the features at the target time.
    pub decoder: Network,
    target_time: f64,
}

impl<'a> Forecaster<'a> {
    /// Sets the decoder to a time. At time 0 there is nothing to integrate.
    pub fn new(network: &'a Network, target_time: f64) -> Result<Self, ForecastError> {
        let encoder = network.encoder.as_ref().ok_or(ForecastError::NoEncoder)?;
        let fail = |problem| ForecastError::Target { time: target_time, problem };
        if !(target_time >= 0.0 && target_time.is_finite()) {
            return Err(fail("must be finite and not negative".into()));
        }
        let decoder = network.decoder_at(target_time).map_err(fail)?;
        Ok(Self { encoder, decoder, target_time })
    }

    /// The time it predicts.
    pub fn target_time(&self) -> f64 {
        self.target_time
    }

    /// Predicts a series; its own target time must be this one's.
    pub fn run(&self, series: &Observations, precision: Precision) -> Result<Forecast<'_>, ForecastError> {
        self.run_within(series, precision, &Watch::default())
    }

    /// Predicts a series within limits.
    pub fn run_within(
        &self,
        series: &Observations,
        precision: Precision,
        watch: &Watch<'_>,
    ) -> Result<Forecast<'_>, ForecastError> {
        series.check(self.encoder)?;
        if series.target_time != self.target_time {
            let problem = format!("the decoder is set to {}", self.target_time);
            return Err(ForecastError::Target { time: series.target_time, problem });
        }
        let encoding = Encoding::run_within(self.encoder, series, precision, watch)?;
        if encoding.mean().iter().any(|v| !v.is_finite()) {
            return Err(SolveError::NotFinite { time: 0.0 }.into());
        }
        let watch = watch.beside(encoding.bytes());
        let decoding = Inference::run_within(&self.decoder, encoding.mean(), precision, &watch)?;
        Ok(Forecast { encoder: self.encoder, encoding, decoding })
    }
}

/// A prediction.
pub struct Forecast<'a> {
    encoder: &'a SeriesEncoder,
    /// What the encoder did.
    pub encoding: Encoding,
    decoding: Inference<'a>,
}

impl Forecast<'_> {
    /// The features predicted.
    pub fn output(&self) -> &[f64] {
        &self.decoding.output
    }

    /// The solution of the decoder's ODE; `None` at time 0.
    pub fn solution(&self) -> Option<&Solution<Tape>> {
        self.decoding.solutions().next()
    }

    /// Gradient of `cotangent · output` with respect to the series, through the accepted solver steps.
    pub fn pull_back(&self, series: &Observations, cotangent: &[f64]) -> SeriesGradient {
        let on_latent = self.decoding.pull_back(cotangent);
        self.encoding.pull_back(self.encoder, series, &on_latent)
    }

    /// The same within limits.
    pub fn pull_back_within(
        &self,
        series: &Observations,
        cotangent: &[f64],
        watch: &Watch<'_>,
    ) -> Result<SeriesGradient, SolveError> {
        let on_latent = self.decoding.pull_back_within(cotangent, watch)?;
        Ok(self.encoding.pull_back(self.encoder, series, &on_latent))
    }
}

/// Mean of `|output − truth|` over the features observed at the target.
pub fn mean_absolute_error(output: &[f64], truth: &[f64], mask: &[bool]) -> f64 {
    let errors = output.iter().zip(truth).zip(mask).filter(|(_, seen)| **seen);
    let (sum, count) = errors.fold((0.0, 0), |(sum, count), ((o, t), _)| (sum + (o - t).abs(), count + 1));
    sum / f64::from(count.max(1))
}
