//! All that the generator asks of the verifier.

use std::time::Duration;

use gains_core::{Arithmetic, BoxVec, Network, Precision};
use gains_ode::{Forecast, Inference, Observations};
use gains_testkit::grammar::{ForecastCase, ImageCase};
use gains_verify::analysis::Prepared;
use gains_verify::limits::Clock;
use gains_verify::series::enclosure::Way as SeriesWay;
use gains_verify::series::{
    Allowance, Enclosure, ForecastProperty, ForecastSettings, ForecastVerdict, ForecastVerifier, MixForm,
    Perturbation, SeriesAttack, SeriesMethod, SeriesRegion, Target, Tolerance,
};
use gains_verify::verifier::Settings;
use gains_verify::{Analysis, Budget, Method, Property, Reason, StepForm, Verdict, Verifier};

/// Bounds that some way of computing them has given.
pub struct Bounded {
    /// Certified lower bounds of the rows.
    pub lower: Vec<f64>,
    /// A box of all outputs.
    pub output: BoxVec,
    /// Runs whose solver trajectory is no path of the graph.
    pub astray: Vec<usize>,
}

/// What was decided about a case.
#[derive(Debug)]
pub enum Decision<I> {
    /// The property holds.
    Verified,
    /// It does not, and this shows it.
    Falsified(I),
    /// Nothing is known.
    Open,
}

/// Ways to bound a classifier.
pub const WAYS: [(Method, StepForm); 8] = [
    (Method::Box, StepForm::Independent),
    (Method::Box, StepForm::Difference),
    (Method::Linear, StepForm::Independent),
    (Method::Linear, StepForm::Difference),
    (Method::Gains, StepForm::Independent),
    (Method::Gains, StepForm::Difference),
    (Method::Tight, StepForm::Difference),
    (Method::Symbolic, StepForm::Independent),
];

/// Ways to bound a forecast.
pub const SERIES_WAYS: [(SeriesMethod, MixForm, StepForm); 6] = [
    (SeriesMethod::Box, MixForm::Exact, StepForm::Independent),
    (SeriesMethod::Box, MixForm::Products, StepForm::Difference),
    (SeriesMethod::Linear, MixForm::Exact, StepForm::Independent),
    (SeriesMethod::Linear, MixForm::Products, StepForm::Difference),
    (SeriesMethod::Tight, MixForm::Exact, StepForm::Difference),
    (SeriesMethod::Stepwise, MixForm::Products, StepForm::Difference),
];

/// The program a verdict in some arithmetic is about.
pub fn precision(arithmetic: Arithmetic) -> Precision {
    match arithmetic {
        Arithmetic::Real => Precision::Float64,
        Arithmetic::Float32 => Precision::Float32,
    }
}

fn budget(seconds: f64) -> Budget<'static> {
    let timeout = Some(Duration::from_secs_f64(seconds));
    Budget { timeout, vertices: 150, memory: 256 << 20, ..Budget::default() }
}

/// Reasons that are no fault of the program; anything else is reported.
fn is_honest(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Loose { .. }
            | Reason::Overflow { .. }
            | Reason::TooManyVertices { .. }
            | Reason::TimeLimit { .. }
            | Reason::MemoryLimit { .. }
            | Reason::NotControlled
            | Reason::NoErrorEstimate
            | Reason::Concrete(_)
    )
}

fn gave_up<T>(reason: Reason) -> Result<Option<T>, String> {
    if is_honest(&reason) { Ok(None) } else { Err(format!("gave up: {reason}")) }
}

/// A classifier made ready.
pub struct Subject {
    prepared: Prepared,
    verifier: Verifier,
}

impl Subject {
    pub fn new(network: Network) -> Self {
        Self { prepared: Prepared::new(network.clone()), verifier: Verifier::new(network) }
    }

    pub fn network(&self) -> &Network {
        self.verifier.network()
    }

    /// Bounds rows of the outputs in one way; `None` if it honestly cannot, and an error if it says something odd.
    pub fn bound(
        &self,
        region: &BoxVec,
        rows: &[Vec<f64>],
        (method, form): (Method, StepForm),
        arithmetic: Arithmetic,
        runs: &[Inference<'_>],
    ) -> Result<Option<Bounded>, String> {
        let clock = Clock::start(budget(0.5));
        let analysis = match Analysis::new(&self.prepared, region.clone(), method, form, arithmetic, clock) {
            Ok(analysis) => analysis,
            Err(reason) => return gave_up(reason),
        };
        let property = Property { outputs: self.network().outputs(), rows: rows.to_vec() };
        let lower = match analysis.bound(&property) {
            Ok(bounds) => bounds.lower,
            Err(reason) => return gave_up(reason),
        };
        let strays = |run: &Inference<'_>| {
            analysis.graphs().zip(run.solutions()).any(|(graph, s)| !graph.admits(&s.trajectory))
        };
        let astray = (0..runs.len()).filter(|&i| strays(&runs[i])).collect();
        Ok(Some(Bounded { lower, output: analysis.output.clone(), astray }))
    }

    /// Everything there is, one after the other, on the inputs around the centre, all of them free.
    pub fn decide(
        &self,
        case: &ImageCase,
        label: usize,
        arithmetic: Arithmetic,
        seconds: f64,
    ) -> Result<(Decision<Vec<f64>>, Option<f64>), String> {
        let workers = 1 + case.seed as usize % 2;
        let settings =
            Settings { arithmetic, workers, pixels: case.range, ..Settings::cascade(case.radius, None) };
        let report = self.verifier.certify(&case.centre, label, case.radius, &settings, budget(seconds));
        let decision = match report.verdict {
            Verdict::Verified => Decision::Verified,
            Verdict::Falsified { witness } => Decision::Falsified(witness),
            Verdict::Misclassified => Decision::Open,
            Verdict::Unknown(reason) if is_honest(&reason) => Decision::Open,
            Verdict::Unknown(reason) => return Err(format!("auto gave up: {reason}")),
        };
        Ok((decision, report.margin))
    }
}

/// A forecasting network made ready.
pub struct SeriesSubject<'a> {
    network: &'a Network,
    pub target: Target<'a>,
    case: &'a ForecastCase,
    perturbation: Perturbation,
}

impl<'a> SeriesSubject<'a> {
    pub fn new(network: &'a Network, case: &'a ForecastCase) -> Result<Self, String> {
        let target = Target::new(network, case.series.target_time).map_err(|e| e.to_string())?;
        let allow = |radii: &[f64]| radii.iter().map(|r| Allowance::within(*r)).collect();
        let perturbation = Perturbation { features: allow(&case.features), statics: allow(&case.statics) };
        Ok(Self { network, target, case, perturbation })
    }

    /// Series that are certainly considered.
    pub fn inner_region(&self) -> SeriesRegion {
        self.perturbation.inner_region(&self.case.series)
    }

    /// Whether a series is among those considered.
    pub fn contains(&self, series: &Observations, arithmetic: Arithmetic) -> bool {
        self.perturbation.region(&self.case.series, arithmetic).contains(series)
    }

    /// Like [`Subject::bound`], for forecasts; and an upper bound of the error.
    pub fn bound(
        &self,
        rows: &[Vec<f64>],
        (method, mix, step_form): (SeriesMethod, MixForm, StepForm),
        arithmetic: Arithmetic,
        runs: &[&Forecast<'_>],
    ) -> Result<Option<(Bounded, f64)>, String> {
        let way = SeriesWay { method, mix, step_form, arithmetic };
        let clock = Clock::start(budget(0.5));
        let found = Enclosure::new(&self.target, &self.case.series, &self.perturbation, way, clock);
        let enclosure = match found {
            Ok(enclosure) => enclosure,
            Err(reason) => return gave_up(reason),
        };
        let lower = match enclosure.lower_bounds(rows) {
            Ok(lower) => lower,
            Err(reason) => return gave_up(reason),
        };
        let property = ForecastProperty {
            truth: self.case.truth.clone(),
            observed: (0..self.case.truth.len()).collect(),
            limit: f64::INFINITY,
        };
        let worst = match property.worst_together(&enclosure, enclosure.boxes()) {
            Ok(worst) => worst.min(property.worst(enclosure.boxes())),
            Err(reason) => return gave_up(reason),
        };
        let strays = |run: &Forecast<'_>| run.solution().is_some_and(|s| !enclosure.admits(&s.trajectory));
        let astray = (0..runs.len()).filter(|&i| strays(runs[i])).collect();
        Ok(Some((Bounded { lower, output: enclosure.boxes().clone(), astray }, worst)))
    }

    /// All methods, one after the other.
    pub fn decide(
        &self,
        arithmetic: Arithmetic,
        seconds: f64,
    ) -> Result<(Decision<Observations>, Option<f64>), String> {
        let methods =
            vec![SeriesMethod::Box, SeriesMethod::Linear, SeriesMethod::Tight, SeriesMethod::Stepwise];
        let tolerance = Tolerance { relative: 0.2, absolute: 0.05 };
        let attack = Some(SeriesAttack { steps: 8, step_size: 0.1, restarts: 1, seed: self.case.seed });
        let settings =
            ForecastSettings { methods, attack, tolerance, arithmetic, ..ForecastSettings::default() };
        let ForecastCase { series, truth, .. } = self.case;
        let mask = vec![true; truth.len()];
        let verifier = ForecastVerifier::new(self.network);
        let report = verifier.certify(series, truth, &mask, &self.perturbation, &settings, budget(seconds));
        let limit = report.limit;
        match report.verdict {
            ForecastVerdict::Verified => Ok((Decision::Verified, limit)),
            ForecastVerdict::Falsified { witness } => Ok((Decision::Falsified(*witness), limit)),
            ForecastVerdict::Unknown(reason) if is_honest(&reason) => Ok((Decision::Open, limit)),
            ForecastVerdict::Unknown(reason) => Err(format!("auto gave up: {reason}")),
        }
    }
}
