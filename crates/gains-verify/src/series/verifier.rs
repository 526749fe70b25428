//! From a network, a series and a perturbation to a verdict.

use std::time::{Duration, Instant};

use gains_core::{Arithmetic, BoxVec, Network, Precision};
use gains_ode::Observations;

use crate::box_step::StepForm;
use crate::limits::{Budget, Clock, Reason};
use crate::series::attack::SeriesAttack;
use crate::series::enclosure::{Enclosure, SeriesMethod, Target, Way};
use crate::series::encode::MixForm;
use crate::series::property::{ForecastProperty, Tolerance};
use crate::series::region::Perturbation;
use crate::verifier::StageReport;

/// What is known about one series under one perturbation.
#[derive(Clone, Debug, PartialEq)]
pub enum ForecastVerdict {
    /// No series in the region is predicted worse than allowed.
    Verified,
    /// One is; it has been run by the concrete program.
    Falsified {
        /// The series.
        witness: Box<Observations>,
    },
    /// Neither could be shown.
    Unknown(Reason),
}

impl ForecastVerdict {
    /// The word used in result files.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Falsified { .. } => "falsified",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// What is tried, in order, until something decides.
#[derive(Clone, Debug, PartialEq)]
pub struct ForecastSettings {
    /// How much worse predictions may become.
    pub tolerance: Tolerance,
    /// Tried before the last method, so that no time goes into proving falsehoods.
    pub attack: Option<SeriesAttack>,
    /// Ever more expensive ones. All but the last bound the features only as far as that is cheap.
    pub methods: Vec<SeriesMethod>,
    /// How gated updates of boxes are enclosed.
    pub mix: MixForm,
    /// How the stages of the decoder's steps are bounded.
    pub step_form: StepForm,
    /// Whose arithmetic a verdict speaks about.
    pub arithmetic: Arithmetic,
}

impl Default for ForecastSettings {
    fn default() -> Self {
        Self {
            tolerance: Tolerance::default(),
            attack: None,
            methods: vec![SeriesMethod::Box, SeriesMethod::Linear, SeriesMethod::Tight],
            mix: MixForm::Exact,
            step_form: StepForm::Difference,
            arithmetic: Arithmetic::Real,
        }
    }
}

/// The outcome for one series.
#[derive(Clone, Debug)]
pub struct ForecastReport {
    /// The features predicted; `None` if the concrete program failed.
    pub prediction: Option<Vec<f64>>,
    /// The mean absolute error of the prediction.
    pub error: Option<f64>,
    /// The error that must not be reached.
    pub limit: Option<f64>,
    /// Smallest upper bound of the error that was proved.
    pub worst: Option<f64>,
    /// Largest error an attack saw.
    pub attacked: Option<f64>,
    /// Intervals of the features observed at the target, from the last method that bounded each on its own.
    pub intervals: Option<BoxVec>,
    /// The verdict.
    pub verdict: ForecastVerdict,
    /// What was tried, in order.
    pub stages: Vec<StageReport>,
    /// Vertices and edges of the decoder's trajectory graph, of the last method that finished.
    pub graph: Option<(usize, usize)>,
    /// Time for the verdict.
    pub elapsed: Duration,
}

/// A forecasting network ready to be verified.
pub struct ForecastVerifier<'a> {
    network: &'a Network,
}

impl<'a> ForecastVerifier<'a> {
    /// Prepares a network.
    pub fn new(network: &'a Network) -> Self {
        Self { network }
    }

    /// Decides one series. `truth` and `mask` are what is observed at its target time. Never panics on odd numbers,
    /// and says why when it does not know.
    pub fn certify(
        &self,
        series: &Observations,
        truth: &[f64],
        mask: &[bool],
        perturbation: &Perturbation,
        settings: &ForecastSettings,
        budget: Budget<'_>,
    ) -> ForecastReport {
        let clock = Clock::start(budget);
        let mut report = ForecastReport {
            prediction: None,
            error: None,
            limit: None,
            worst: None,
            attacked: None,
            intervals: None,
            verdict: ForecastVerdict::Unknown(Reason::Interrupted),
            stages: Vec::new(),
            graph: None,
            elapsed: Duration::ZERO,
        };
        report.verdict = self
            .decide(series, (truth, mask), perturbation, settings, clock, &mut report)
            .unwrap_or_else(ForecastVerdict::Unknown);
        report.elapsed = clock.elapsed();
        report
    }

    fn decide(
        &self,
        series: &Observations,
        (truth, mask): (&[f64], &[bool]),
        perturbation: &Perturbation,
        settings: &ForecastSettings,
        clock: Clock<'_>,
        report: &mut ForecastReport,
    ) -> Result<ForecastVerdict, Reason> {
        let concrete = |e: gains_ode::ForecastError| Reason::Concrete(e.to_string());
        let precision = match settings.arithmetic {
            Arithmetic::Real => Precision::Float64,
            Arithmetic::Float32 => Precision::Float32,
        };
        let target = Target::new(self.network, series.target_time).map_err(concrete)?;
        let outputs = self.network.outputs();
        if truth.len() != outputs || mask.len() != outputs {
            let found = if truth.len() == outputs { mask.len() } else { truth.len() };
            return Err(Reason::InputSize { found, expected: outputs });
        }
        let encoder = target.forecaster.encoder;
        if !perturbation.fits(encoder) {
            let (found, expected) = if perturbation.features.len() == encoder.features() {
                (perturbation.statics.len(), encoder.statics())
            } else {
                (perturbation.features.len(), encoder.features())
            };
            return Err(Reason::InputSize { found, expected });
        }
        let prediction = target.forecaster.run(series, precision).map_err(concrete)?.output().to_vec();
        let property = ForecastProperty::new(truth, mask, &prediction, settings.tolerance);
        report.error = Some(gains_ode::mean_absolute_error(&prediction, truth, mask));
        report.prediction = Some(prediction);
        let Some(property) = property else {
            return Err(Reason::Concrete("nothing is observed at the target, or it is no number".into()));
        };
        report.limit = Some(property.limit);
        // The given series is in the region: no bound of the worst error may be below its own, but for rounding.
        let least = report.error.map_or(f64::NEG_INFINITY, |error| error * (1.0 - 1e-6) - 1e-9);
        let mut unknown = Reason::Interrupted;
        for (index, &method) in settings.methods.iter().enumerate() {
            let last = index + 1 == settings.methods.len();
            if let Some(attack) = settings.attack.as_ref().filter(|_| last) {
                let started = Instant::now();
                let stop = || clock.check(0).is_err();
                let found = attack.run(&target, series, perturbation, &property, precision, &stop);
                report.stages.push(StageReport { name: "attack".into(), elapsed: started.elapsed() });
                report.attacked = Some(found.error).filter(|e| e.is_finite());
                let again = |witness: &Observations| {
                    let run = target.forecaster.run(witness, precision);
                    run.is_ok_and(|run| property.error(run.output()) >= property.limit)
                };
                if let Some(witness) = found.worst.filter(|witness| found.breaks && again(witness)) {
                    return Ok(ForecastVerdict::Falsified { witness: Box::new(witness) });
                }
            }
            let way = Way {
                method,
                mix: settings.mix,
                step_form: settings.step_form,
                arithmetic: settings.arithmetic,
            };
            let started = Instant::now();
            let outcome = self.bound(&target, series, perturbation, &property, way, last, clock, report);
            report.stages.push(StageReport { name: method.to_string(), elapsed: started.elapsed() });
            match outcome {
                Ok(worst) if worst < least => return Err(Reason::Contradicted),
                Ok(worst) => {
                    let best = report.worst.map_or(worst, |w| w.min(worst));
                    report.worst = Some(best);
                    if best < property.limit {
                        return Ok(ForecastVerdict::Verified);
                    }
                    unknown = Reason::Loose { margin: property.limit - best };
                }
                Err(reason) => unknown = reason,
            }
        }
        Err(if clock.interrupted() { Reason::Interrupted } else { unknown })
    }

    /// The smallest upper bound of the error that a method proves. All features together come first: that is one
    /// row, and often enough.
    fn bound(
        &self,
        target: &Target<'_>,
        series: &Observations,
        perturbation: &Perturbation,
        property: &ForecastProperty,
        way: Way,
        last: bool,
        clock: Clock<'_>,
        report: &mut ForecastReport,
    ) -> Result<f64, Reason> {
        let enclosure = Enclosure::new(target, series, perturbation, way, clock)?;
        report.graph = Some(enclosure.graph_size());
        let boxes = enclosure.boxes();
        let pick = |side: &[f64]| property.observed.iter().map(|&i| side[i]).collect();
        let mut intervals = BoxVec::new(pick(&boxes.lower), pick(&boxes.upper));
        let mut worst = property.worst(&intervals);
        if way.method != SeriesMethod::Box {
            worst = worst.min(property.worst_together(&enclosure, &intervals)?);
            // Where no error can change its sign, features on their own tell nothing new.
            if last && worst >= property.limit && property.may_change_sign(&intervals) {
                intervals.meet(&enclosure.intervals(&property.observed)?);
                worst = worst.min(property.worst(&intervals));
                worst = worst.min(property.worst_together(&enclosure, &intervals)?);
            }
        }
        report.intervals = Some(intervals);
        Ok(worst)
    }
}
