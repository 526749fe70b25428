//! An irregularly sampled series as a forecasting network takes it.

use gains_core::SeriesEncoder;
use gains_core::series_encoder::Stop;
use thiserror::Error;

use crate::integrate::SolveError;

/// What is known of a series, and the time to predict.
///
/// # Shapes
///
/// `values` and `mask` have a row of one entry per feature for each of `times`. Where the mask is false the value
/// does not matter.
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    /// What is known of the series as a whole.
    pub statics: Vec<f64>,
    /// Times, not decreasing.
    pub times: Vec<f64>,
    /// What is observed, row by row.
    pub values: Vec<f64>,
    /// Whether it is.
    pub mask: Vec<bool>,
    /// The time to predict, not negative.
    pub target_time: f64,
}

/// Why a series cannot be predicted.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ForecastError {
    /// The network is not one for series.
    #[error("the network has no encoder, it does not take series")]
    NoEncoder,
    /// A list of the wrong size.
    #[error("{what}: {found} entries, the network and the times need {expected}")]
    Size {
        /// Which list.
        what: &'static str,
        /// Entries given.
        found: usize,
        /// Entries expected.
        expected: usize,
    },
    /// Times must be finite and not decrease.
    #[error("point {point} is at time {time}, after one at {previous}")]
    Times {
        /// The offender.
        point: usize,
        /// Its time.
        time: f64,
        /// The time before.
        previous: f64,
    },
    /// The time to predict cannot be reached.
    #[error("the time to predict is {time}: {problem}")]
    Target {
        /// The time.
        time: f64,
        /// What is wrong with it.
        problem: String,
    },
    /// NaN, or infinite.
    #[error("{what} is {value} at entry {index}")]
    NotFinite {
        /// Which list.
        what: &'static str,
        /// Where.
        index: usize,
        /// What.
        value: f64,
    },
    /// The decoder's solver failed.
    #[error(transparent)]
    Solve(#[from] SolveError),
}

impl Observations {
    /// Whether anything is observed at a point.
    pub fn is_observed(&self, point: usize) -> bool {
        let width = self.mask.len() / self.times.len().max(1);
        self.mask[point * width..(point + 1) * width].contains(&true)
    }

    /// The walk of an encoder through the series.
    pub fn walk(&self, encoder: &SeriesEncoder) -> Vec<Stop> {
        encoder.walk(&self.times, |point| self.is_observed(point))
    }

    /// The values at a point, 0 where nothing is observed.
    pub fn row(&self, point: usize) -> Vec<f64> {
        let width = self.mask.len() / self.times.len().max(1);
        let at = point * width..(point + 1) * width;
        let shown = |(value, seen): (&f64, &bool)| if *seen { *value } else { 0.0 };
        self.values[at.clone()].iter().zip(&self.mask[at]).map(shown).collect()
    }

    /// Checks sizes, times and numbers.
    pub fn check(&self, encoder: &SeriesEncoder) -> Result<(), ForecastError> {
        let entries = self.times.len().saturating_mul(encoder.features());
        for (what, found, expected) in [
            ("statics", self.statics.len(), encoder.statics()),
            ("values", self.values.len(), entries),
            ("mask", self.mask.len(), entries),
        ] {
            if found != expected {
                return Err(ForecastError::Size { what, found, expected });
            }
        }
        let mut previous = f64::NEG_INFINITY;
        for (point, &time) in self.times.iter().enumerate() {
            if !(time >= previous && time.is_finite()) {
                return Err(ForecastError::Times { point, time, previous });
            }
            previous = time;
        }
        if !(self.target_time >= 0.0 && self.target_time.is_finite()) {
            let problem = "must be finite and not negative".into();
            return Err(ForecastError::Target { time: self.target_time, problem });
        }
        if let Some(index) = self.statics.iter().position(|v| !v.is_finite()) {
            return Err(ForecastError::NotFinite { what: "statics", index, value: self.statics[index] });
        }
        match (0..entries).find(|&i| self.mask[i] && !self.values[i].is_finite()) {
            Some(index) => Err(ForecastError::NotFinite { what: "values", index, value: self.values[index] }),
            None => Ok(()),
        }
    }
}
