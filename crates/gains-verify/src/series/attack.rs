//! Projected gradient ascent on a series: looking for a prediction that is worse than allowed.

use gains_core::{BoxVec, Precision};
use gains_ode::Observations;

use crate::series::enclosure::Target;
use crate::series::property::ForecastProperty;
use crate::series::region::Perturbation;

/// Settings of an attack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesAttack {
    /// Gradient steps per start.
    pub steps: usize,
    /// Size of one step.
    pub step_size: f64,
    /// Starts; all but the first if there are several, and that one too, are random.
    pub restarts: usize,
    /// Seed of the random starts.
    pub seed: u64,
}

impl Default for SeriesAttack {
    /// The paper's evaluation attack: 200 steps of 0.0025 on the mean absolute error, one start.
    fn default() -> Self {
        Self { steps: 200, step_size: 0.0025, restarts: 1, seed: 0 }
    }
}

/// What an attack found.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesAttackOutcome {
    /// The worst series seen; `None` if the concrete program failed at once.
    pub worst: Option<Observations>,
    /// Its error, rounded down; `-∞` without one.
    pub error: f64,
    /// Whether the error is at or above the limit of the property.
    pub breaks: bool,
}

/// Moves an entry into an interval and, for float32 programs, to a number of that format.
fn settle(values: &mut [f64], allowed: &BoxVec, precision: Precision) {
    for (i, x) in values.iter_mut().enumerate() {
        *x = x.clamp(allowed.lower[i], allowed.upper[i]);
        if precision == Precision::Float32 {
            let mut rounded = *x as f32;
            if f64::from(rounded) > allowed.upper[i] {
                rounded = rounded.next_down();
            }
            if f64::from(rounded) < allowed.lower[i] {
                rounded = rounded.next_up();
            }
            *x = f64::from(rounded);
        }
    }
}

impl SeriesAttack {
    /// Climbs the mean absolute error by signed gradients, keeping the best iterate; every iterate is run by the
    /// concrete program. Ends at the first series that breaks the property. Only what is certainly inside the region
    /// counts; `stop` is asked before every step.
    pub fn run(
        &self,
        target: &Target<'_>,
        series: &Observations,
        perturbation: &Perturbation,
        property: &ForecastProperty,
        precision: Precision,
        stop: &dyn Fn() -> bool,
    ) -> SeriesAttackOutcome {
        let mut found = SeriesAttackOutcome { worst: None, error: f64::NEG_INFINITY, breaks: false };
        if series.check(target.forecaster.encoder).is_err() || !perturbation.fits(target.forecaster.encoder) {
            return found;
        }
        let region = perturbation.inner_region(series);
        if region.statics.len() != series.statics.len() || region.values.len() != series.values.len() {
            return found;
        }
        let mut random = fastrand::Rng::with_seed(self.seed ^ 0x5E21_E5A7);
        for _ in 0..self.restarts.max(1) {
            let mut point = series.clone();
            let mut scatter = |values: &mut [f64], allowed: &BoxVec| {
                for (i, x) in values.iter_mut().enumerate() {
                    *x = allowed.lower[i] + random.f64() * (allowed.upper[i] - allowed.lower[i]);
                }
            };
            scatter(&mut point.statics, &region.statics);
            scatter(&mut point.values, &region.values);
            for step in 0..=self.steps {
                if stop() {
                    return found;
                }
                settle(&mut point.statics, &region.statics, precision);
                settle(&mut point.values, &region.values, precision);
                let Ok(run) = target.forecaster.run(&point, precision) else { break };
                let error = property.error(run.output());
                if error > found.error && region.contains(&point) {
                    let breaks = error >= property.limit;
                    found = SeriesAttackOutcome { worst: Some(point.clone()), error, breaks };
                    if breaks {
                        return found;
                    }
                }
                if step == self.steps {
                    break;
                }
                let mut cotangent = vec![0.0; run.output().len()];
                for &i in &property.observed {
                    cotangent[i] = (run.output()[i] - property.truth[i]).signum();
                }
                let gradient = run.pull_back(&point, &cotangent);
                for (x, g) in point.statics.iter_mut().zip(&gradient.statics) {
                    *x += if *g == 0.0 { 0.0 } else { self.step_size * g.signum() };
                }
                for (x, g) in point.values.iter_mut().zip(&gradient.values) {
                    *x += if *g == 0.0 { 0.0 } else { self.step_size * g.signum() };
                }
            }
        }
        found
    }
}
