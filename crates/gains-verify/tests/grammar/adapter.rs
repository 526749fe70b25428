//! All that the generator asks of the verifier.

use std::time::Duration;

use gains_core::operator::blend::Blend;
use gains_core::{Arithmetic, BoxVec, Network, Precision, Rows, Support};
use gains_ode::{Forecast, Forecaster, Inference, Observations, SeriesProgram, Watch};
use gains_testkit::grammar::{ForecastCase, ImageCase};
use gains_verify::limits::Clock;
use gains_verify::property::{ErrorLimit, Tolerance};
use gains_verify::series::{Allowance, Perturbation, forecast_problem};
use gains_verify::{
    Analysis, Attack, AttackLoss, Budget, Method, Point, Problem, Property, Reason, Region, Settings, Stage,
    StepForm, Verdict, Verifier,
};

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
pub const SERIES_WAYS: [(Method, Blend, StepForm); 8] = [
    (Method::Box, Blend::Exact, StepForm::Independent),
    (Method::Box, Blend::Products, StepForm::Difference),
    (Method::Linear, Blend::Exact, StepForm::Difference),
    (Method::Gains, Blend::Exact, StepForm::Independent),
    (Method::Gains, Blend::Products, StepForm::Difference),
    (Method::Tight, Blend::Exact, StepForm::Difference),
    (Method::Stepwise, Blend::Products, StepForm::Difference),
    (Method::Symbolic, Blend::Exact, StepForm::Independent),
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
            | Reason::BeyondFloat32 { .. }
            | Reason::NoErrorEstimate
            | Reason::Concrete(_)
    )
}

fn gave_up<T>(reason: Reason) -> Result<Option<T>, String> {
    if is_honest(&reason) { Ok(None) } else { Err(format!("gave up: {reason}")) }
}

/// Rows on the outputs of a program.
fn on_outputs(analysis: &Analysis<'_>, rows: &[Vec<f64>]) -> Rows {
    Rows::new(Support::full(analysis.program().output_shape()), rows.concat())
}

/// A classifier.
pub struct Subject {
    network: Network,
}

impl Subject {
    pub fn new(network: Network) -> Self {
        Self { network }
    }

    pub fn network(&self) -> &Network {
        &self.network
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
        let region = Region::boxes(vec![region.clone()]);
        self.bound_region(&region, rows, (method, form), arithmetic, runs)
    }

    /// The same over a region that may be a ball.
    pub fn bound_region(
        &self,
        region: &Region,
        rows: &[Vec<f64>],
        (method, form): (Method, StepForm),
        arithmetic: Arithmetic,
        runs: &[Inference<'_>],
    ) -> Result<Option<Bounded>, String> {
        let clock = Clock::start(budget(0.5));
        let analysis = match Analysis::over(&self.network.body, region, method, form, arithmetic, clock) {
            Ok(analysis) => analysis,
            Err(reason) => return gave_up(reason),
        };
        let lower = match analysis.bound(&on_outputs(&analysis, rows)) {
            Ok(bounds) => bounds.lower,
            Err(reason) => return gave_up(reason),
        };
        let strays = |run: &Inference<'_>| {
            analysis.graphs().zip(run.solutions()).any(|(graph, s)| !graph.admits(&s.trajectory))
        };
        let astray = (0..runs.len()).filter(|&i| strays(&runs[i])).collect();
        Ok(Some(Bounded { lower, output: analysis.output().clone(), astray }))
    }

    /// Everything there is, one after the other, on the inputs around the centre, all of them free.
    pub fn decide(
        &self,
        case: &ImageCase,
        label: usize,
        arithmetic: Arithmetic,
        seconds: f64,
    ) -> Result<(Decision<Vec<f64>>, Option<f64>), String> {
        let region = Region::ball(&case.centre, case.radius, case.range);
        self.decide_region(case, region, label, arithmetic, seconds)
    }

    /// The same over another region around the centre.
    pub fn decide_region(
        &self,
        case: &ImageCase,
        region: Region,
        label: usize,
        arithmetic: Arithmetic,
        seconds: f64,
    ) -> Result<(Decision<Vec<f64>>, Option<f64>), String> {
        let property = Property::classification(self.network.outputs(), label);
        self.decide_property(case, region, property, arithmetic, seconds)
    }

    /// The same for any property.
    pub fn decide_property(
        &self,
        case: &ImageCase,
        region: Region,
        property: Property,
        arithmetic: Arithmetic,
        seconds: f64,
    ) -> Result<(Decision<Vec<f64>>, Option<f64>), String> {
        let workers = 1 + case.seed as usize % 2;
        let of_label = Problem::classification(&self.network, &case.centre, 0, case.radius, case.range);
        let problem = Problem { region, property, ..of_label };
        let cascade = Settings::cascade(problem.program, case.radius, None);
        let mut settings = Settings { arithmetic, workers, ..cascade };
        // Combinations of constraints meet case distinctions by themselves now and then, not only where a race leads there.
        if matches!(problem.property, Property::Linear { .. }) && case.seed % 3 == 2 {
            settings.stages = vec![Stage::Bound(Method::Tight), Stage::Branch];
        }
        let report = Verifier::new(settings).decide(&problem, budget(seconds));
        let decision = match report.verdict {
            Verdict::Verified => Decision::Verified,
            Verdict::Falsified { witness } => Decision::Falsified(witness.concat()),
            Verdict::Misclassified => Decision::Open,
            Verdict::Unknown(reason) if is_honest(&reason) => Decision::Open,
            Verdict::Unknown(reason) => return Err(format!("auto gave up: {reason}")),
        };
        Ok((decision, report.margin))
    }
}

/// A forecasting network laid out for a series.
pub struct SeriesSubject<'a> {
    pub forecaster: Forecaster<'a>,
    /// With blends enclosed by their exact range, and by products.
    laid_out: [SeriesProgram; 2],
    case: &'a ForecastCase,
    perturbation: Perturbation,
}

impl<'a> SeriesSubject<'a> {
    pub fn new(network: &'a Network, case: &'a ForecastCase) -> Result<Self, String> {
        let forecaster = Forecaster::new(network, case.series.target_time).map_err(|e| e.to_string())?;
        let lay_out = |blend| forecaster.lay_out(&case.series, blend).map_err(|e| e.to_string());
        let laid_out = [lay_out(Blend::Exact)?, lay_out(Blend::Products)?];
        let allow = |radii: &[f64]| radii.iter().map(|r| Allowance::within(*r)).collect();
        let perturbation = Perturbation { features: allow(&case.features), statics: allow(&case.statics) };
        Ok(Self { forecaster, laid_out, case, perturbation })
    }

    /// The inputs considered.
    pub fn region(&self, arithmetic: Arithmetic) -> Result<Region, String> {
        let region = self.perturbation.region(&self.laid_out[0], &self.case.series, arithmetic);
        region.map_err(|reason| reason.to_string())
    }

    /// The given series as inputs.
    pub fn given(&self) -> Point {
        self.laid_out[0].inputs(&self.case.series)
    }

    /// Inputs as a series.
    pub fn series(&self, inputs: &Point) -> Observations {
        self.laid_out[0].series(&self.case.series, inputs)
    }

    /// The gradient of a row with respect to the inputs.
    pub fn gradients(&self, inputs: &Point, row: &[f64]) -> Option<Vec<Vec<f64>>> {
        let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
        let program = self.laid_out[0].program();
        let run = Inference::run_within(program, &inputs, Precision::Float64, &Watch::default()).ok()?;
        Some(run.gradients(row))
    }

    /// Whether a series is among those considered.
    pub fn contains(&self, series: &Observations, arithmetic: Arithmetic) -> bool {
        let inputs = self.laid_out[0].inputs(series);
        self.region(arithmetic).is_ok_and(|r| r.outer.iter().zip(&inputs).all(|(b, x)| b.contains(x)))
    }

    /// Like [`Subject::bound`], for forecasts; and an upper bound of the error.
    pub fn bound(
        &self,
        rows: &[Vec<f64>],
        (method, blend, form): (Method, Blend, StepForm),
        arithmetic: Arithmetic,
        runs: &[&Forecast],
    ) -> Result<Option<(Bounded, f64)>, String> {
        let program = self.laid_out[usize::from(blend == Blend::Products)].program();
        let clock = Clock::start(budget(0.5));
        let region = self.region(arithmetic)?.outer;
        let analysis = match Analysis::new(program, region, method, form, arithmetic, clock) {
            Ok(analysis) => analysis,
            Err(reason) => return gave_up(reason),
        };
        let lower = |rows: &[Vec<f64>]| Ok(analysis.bound(&on_outputs(&analysis, rows))?.lower);
        let truth = self.case.truth.clone();
        let errors = ErrorLimit { observed: (0..truth.len()).collect(), truth, limit: f64::INFINITY };
        let boxes = analysis.output();
        let together = errors.together(boxes);
        let found = lower(rows).and_then(|own| Ok((own, lower(std::slice::from_ref(&together.row))?[0])));
        let (own, all) = match found {
            Ok(found) => found,
            Err(reason) => return gave_up(reason),
        };
        let worst = errors.worst(boxes).min(errors.worst_together(&together, all));
        let strays = |run: &Forecast| {
            let trajectory = run.trajectory();
            trajectory.is_some_and(|t| analysis.graphs().any(|graph| !graph.admits(t)))
        };
        let astray = (0..runs.len()).filter(|&i| strays(runs[i])).collect();
        Ok(Some((Bounded { lower: own, output: boxes.clone(), astray }, worst)))
    }

    /// All methods, one after the other, or those of `auto`.
    pub fn decide(
        &self,
        arithmetic: Arithmetic,
        seconds: f64,
    ) -> Result<(Decision<Observations>, Option<f64>), String> {
        let ForecastCase { series, truth, seed, .. } = self.case;
        let tolerance = Tolerance { relative: 0.2, absolute: 0.05 };
        let mask = vec![true; truth.len()];
        let wanted = (&truth[..], &mask[..]);
        let program = &self.laid_out[0];
        let clock = Clock::start(Budget::default());
        let problem =
            forecast_problem(program, series, wanted, &self.perturbation, tolerance, arithmetic, clock);
        let problem = match problem {
            Ok(problem) => problem,
            Err(reason) => {
                return gave_up(reason).map(|found: Option<()>| (Decision::Open, found.map(|()| 0.0)));
            }
        };
        let loss = AttackLoss::Margin;
        let attack = Attack { steps: 8, step_size: 0.1, loss, seed: *seed, ..Attack::default() };
        let settings = match seed % 2 {
            0 => Settings::cascade(problem.program, problem.region.radius, Some(attack)),
            _ => {
                let methods = [Method::Box, Method::Gains, Method::Tight, Method::Stepwise];
                let stages = [Stage::bounds(&methods), vec![Stage::Attack(attack)]].concat();
                Settings { stages, step_form: StepForm::Difference, ..Settings::default() }
            }
        };
        let report = Verifier::new(Settings { arithmetic, ..settings }).decide(&problem, budget(seconds));
        let Property::Errors(errors) = &problem.property else { return Err("no error limit".into()) };
        let limit = Some(errors.limit);
        match report.verdict {
            Verdict::Verified => Ok((Decision::Verified, limit)),
            Verdict::Falsified { witness } => Ok((Decision::Falsified(self.series(&witness)), limit)),
            Verdict::Misclassified => Err("the series itself is taken for a violation".into()),
            Verdict::Unknown(reason) if is_honest(&reason) => Ok((Decision::Open, limit)),
            Verdict::Unknown(reason) => Err(format!("auto gave up: {reason}")),
        }
    }
}
