//! Forecasts of irregularly sampled series as problems: which series are considered, and what is asked of the
//! prediction.
//!
//! ```text
//! statics ─▶ state ─▶ [Euler step, gated update with xᵢ] … ─▶ latent ─▶ decoder's trajectory graph ─▶ features
//! ```
//!
//! A forecasting network laid out for one series ([`gains_ode::SeriesProgram`]) is a program like any other; its inputs are
//! the statics and one observation for every stop.

pub mod region;

pub use region::{Allowance, Perturbation};

use gains_core::Arithmetic;
use gains_ode::{Inference, Observations, SeriesProgram};

use crate::limits::{Clock, Reason};
use crate::problem::Problem;
use crate::property::{ErrorLimit, Property, Tolerance};
use crate::verifier::precision_of;

/// Whether the forecast of a series stays almost as good as it is, whatever of the perturbation happens: ν-δ-robustness
/// (paper, section 6). `truth` and `mask` are what is observed at the target time.
pub fn forecast_problem<'a>(
    program: &'a SeriesProgram,
    series: &Observations,
    (truth, mask): (&[f64], &[bool]),
    perturbation: &Perturbation,
    tolerance: Tolerance,
    arithmetic: Arithmetic,
    clock: Clock<'_>,
) -> Result<Problem<'a>, Reason> {
    let outputs = program.program().output_shape().len();
    if truth.len() != outputs || mask.len() != outputs {
        let found = if truth.len() == outputs { mask.len() } else { truth.len() };
        return Err(Reason::InputSize { found, expected: outputs });
    }
    series_problem(program, series, perturbation, arithmetic, clock, |prediction| {
        let errors = ErrorLimit::new(truth, mask, prediction, tolerance)
            .ok_or_else(|| Reason::Concrete("nothing is observed at the target, or it is NaN".into()))?;
        Ok(Property::Errors(errors))
    })
}

/// Whether something holds of the forecast of a series, whatever of the perturbation happens. What is asked may depend on
/// what is predicted without it.
pub fn series_problem<'a>(
    program: &'a SeriesProgram,
    series: &Observations,
    perturbation: &Perturbation,
    arithmetic: Arithmetic,
    clock: Clock<'_>,
    asked: impl FnOnce(&[f64]) -> Result<Property, Reason>,
) -> Result<Problem<'a>, Reason> {
    let nominal = program.inputs(series);
    let inputs: Vec<&[f64]> = nominal.iter().map(Vec::as_slice).collect();
    let run = Inference::run_within(program.program(), &inputs, precision_of(arithmetic), &clock.watch())
        .and_then(Inference::certain)
        .map_err(|error| clock.reason(&error))?;
    Ok(Problem {
        program: program.program(),
        region: perturbation.region(program, series, arithmetic)?,
        property: asked(&run.output)?,
        output: Some(run.output),
        nominal,
    })
}
