//! Predicting one series: a forecasting network laid out as a program for the series' walk and target time. Never on a
//! batch or on a union of grids, so that a prediction cannot depend on its batch mates.

use gains_core::operator::blend::Blend;
use gains_core::series_encoder::Unrolled;
use gains_core::{Network, Precision, Program, SeriesEncoder};

use crate::inference::Inference;
use crate::integrate::{SolveError, Visit};
use crate::observations::{ForecastError, Observations};
use crate::watch::Watch;

/// A forecasting network as a program for series with one walk, one mask and one target time.
pub struct SeriesProgram {
    unrolled: Unrolled,
    features: usize,
}

impl SeriesProgram {
    /// Lays a network out for a series.
    pub fn new(network: &Network, series: &Observations, blend: Blend) -> Result<Self, ForecastError> {
        Forecaster::new(network, series.target_time)?.lay_out(series, blend)
    }

    /// From the statics and the observations to the features at the target time.
    pub fn program(&self) -> &Program {
        &self.unrolled.program
    }

    /// The value that is the latent state.
    pub fn latent(&self) -> usize {
        self.unrolled.latent
    }

    /// The point of the series behind every input but the first.
    pub fn points(&self) -> &[usize] {
        &self.unrolled.points
    }

    /// The program's inputs for a series: its statics, and what is observed at each stop, 0 where nothing is.
    pub fn inputs(&self, series: &Observations) -> Vec<Vec<f64>> {
        let seen = self.points().iter().map(|&point| series.row(point));
        std::iter::once(series.statics.clone()).chain(seen).collect()
    }

    /// The series with other values of the program's inputs.
    pub fn series(&self, like: &Observations, inputs: &[Vec<f64>]) -> Observations {
        let mut series = like.clone();
        series.statics.clone_from(&inputs[0]);
        for (&point, row) in self.points().iter().zip(&inputs[1..]) {
            for (i, x) in row.iter().enumerate() {
                let at = point * self.features + i;
                if series.mask[at] {
                    series.values[at] = *x;
                }
            }
        }
        series
    }
}

/// The gradient with respect to a series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesGradient {
    /// With respect to the statics.
    pub statics: Vec<f64>,
    /// With respect to the values; 0 where nothing is observed.
    pub values: Vec<f64>,
}

/// A forecasting network set to one time.
pub struct Forecaster<'a> {
    /// The encoder.
    pub encoder: &'a SeriesEncoder,
    /// From the latent state to the features at the target time.
    body: Program,
    target_time: f64,
}

impl<'a> Forecaster<'a> {
    /// Sets a network to a time. At time 0 there is nothing to integrate.
    pub fn new(network: &'a Network, target_time: f64) -> Result<Self, ForecastError> {
        let encoder = network.encoder.as_ref().ok_or(ForecastError::NoEncoder)?;
        let fail = |problem| ForecastError::Target { time: target_time, problem };
        if !(target_time >= 0.0 && target_time.is_finite()) {
            return Err(fail("must be finite and not negative".into()));
        }
        let body = network.body.read_off_at(target_time);
        let problem = body.odes().find_map(|(_, ode)| ode.solver().problem());
        problem.map_or(Ok(Self { encoder, body, target_time }), |problem| Err(fail(problem)))
    }

    /// The time it predicts.
    pub fn target_time(&self) -> f64 {
        self.target_time
    }

    /// The program for one series; its own target time must be this one's.
    pub fn lay_out(&self, series: &Observations, blend: Blend) -> Result<SeriesProgram, ForecastError> {
        series.check(self.encoder)?;
        if series.target_time != self.target_time {
            let problem = format!("the decoder is set to {}", self.target_time);
            return Err(ForecastError::Target { time: series.target_time, problem });
        }
        let unrolled = self.encoder.unroll(&series.walk(self.encoder), &self.body, blend);
        Ok(SeriesProgram { unrolled, features: self.encoder.features() })
    }

    /// Predicts a series.
    pub fn run(&self, series: &Observations, precision: Precision) -> Result<Forecast, ForecastError> {
        self.run_within(series, precision, &Watch::default())
    }

    /// Predicts a series within limits.
    pub fn run_within(
        &self,
        series: &Observations,
        precision: Precision,
        watch: &Watch<'_>,
    ) -> Result<Forecast, ForecastError> {
        let laid_out = self.lay_out(series, Blend::Exact)?;
        let inputs = laid_out.inputs(series);
        let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
        let run = Inference::run_within(laid_out.program(), &inputs, precision, watch)?;
        let latent = run.values[laid_out.latent()].clone();
        let output = run.output.clone();
        let trajectory = run.solutions().next().map(|solution| solution.trajectory.clone());
        Ok(Forecast { precision, laid_out, latent, output, trajectory })
    }
}

/// A prediction.
pub struct Forecast {
    precision: Precision,
    laid_out: SeriesProgram,
    latent: Vec<f64>,
    output: Vec<f64>,
    trajectory: Option<Vec<Visit>>,
}

impl Forecast {
    /// The features predicted.
    pub fn output(&self) -> &[f64] {
        &self.output
    }

    /// The latent state.
    pub fn latent(&self) -> &[f64] {
        &self.latent
    }

    /// Every trial step of the decoder's ODE; none at time 0.
    pub fn trajectory(&self) -> Option<&[Visit]> {
        self.trajectory.as_deref()
    }

    /// Gradient of `cotangent · output` with respect to the series, through the accepted solver steps.
    pub fn pull_back(&self, series: &Observations, cotangent: &[f64]) -> Result<SeriesGradient, SolveError> {
        let inputs = self.laid_out.inputs(series);
        let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
        let run = Inference::run_within(self.laid_out.program(), &inputs, self.precision, &Watch::default())?;
        let mut gradients = run.gradients(cotangent);
        let mut values = vec![0.0; series.values.len()];
        for (&point, gradient) in self.laid_out.points().iter().zip(&gradients[1..]) {
            for (i, g) in gradient.iter().enumerate() {
                let at = point * self.laid_out.features + i;
                values[at] += if series.mask[at] { *g } else { 0.0 };
            }
        }
        Ok(SeriesGradient { statics: gradients.swap_remove(0), values })
    }
}

/// Mean of `|output − truth|` over the features observed at the target.
pub fn mean_absolute_error(output: &[f64], truth: &[f64], mask: &[bool]) -> f64 {
    let errors = output.iter().zip(truth).zip(mask).filter(|(_, seen)| **seen);
    let (sum, count) = errors.fold((0.0, 0), |(sum, count), ((o, t), _)| (sum + (o - t).abs(), count + 1));
    sum / f64::from(count.max(1))
}
