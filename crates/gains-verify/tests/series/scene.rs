//! A network with a series, enclosed and decided.

use gains_core::operator::blend::Blend;
use gains_core::{Arithmetic, BoxVec, Network, Rows, Support};
use gains_ode::{Forecaster, Observations, SeriesProgram};
use gains_verify::limits::{Budget, Clock};
use gains_verify::property::{ErrorLimit, Tolerance};
use gains_verify::series::{Perturbation, forecast_problem};
use gains_verify::{
    Analysis, Method, Property, Reason, Region, Report, Settings, Stage, StepForm, Verdict, Verifier,
};

/// What is enclosed, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    pub method: Method,
    pub blend: Blend,
    pub form: StepForm,
    pub arithmetic: Arithmetic,
}

impl Way {
    /// A method with our tightest boxes, in real arithmetic.
    pub const fn of(method: Method) -> Self {
        Self { method, blend: Blend::Exact, form: StepForm::Difference, arithmetic: Arithmetic::Real }
    }
}

/// A network laid out for a series, and what may move in it.
pub struct Scene<'a> {
    pub forecaster: Forecaster<'a>,
    pub series: &'a Observations,
    pub perturbation: &'a Perturbation,
    laid_out: [SeriesProgram; 2],
}

impl<'a> Scene<'a> {
    pub fn new(network: &'a Network, series: &'a Observations, perturbation: &'a Perturbation) -> Self {
        let forecaster = Forecaster::new(network, series.target_time).unwrap();
        let laid_out =
            [Blend::Exact, Blend::Products].map(|blend| forecaster.lay_out(series, blend).unwrap());
        Self { forecaster, series, perturbation, laid_out }
    }

    pub fn program(&self, blend: Blend) -> &SeriesProgram {
        &self.laid_out[usize::from(blend == Blend::Products)]
    }

    /// The inputs considered.
    pub fn region(&self, arithmetic: Arithmetic) -> Region {
        self.perturbation.region(&self.laid_out[0], self.series, arithmetic).unwrap()
    }

    /// Whether a series is among those considered.
    pub fn contains(&self, series: &Observations, arithmetic: Arithmetic) -> bool {
        let inputs = self.laid_out[0].inputs(series);
        self.region(arithmetic).outer.iter().zip(&inputs).all(|(b, x)| b.contains(x))
    }

    pub fn enclose(&self, way: Way) -> Result<Analysis<'_>, Reason> {
        let Way { method, blend, form, arithmetic } = way;
        let region = self.region(arithmetic).outer;
        let clock = Clock::start(Budget::default());
        Analysis::new(self.program(blend).program(), region, method, form, arithmetic, clock)
    }

    /// The box of the latent state.
    pub fn latent(&self, way: Way) -> BoxVec {
        self.enclose(way).unwrap().values()[self.program(way.blend).latent()].clone()
    }
}

/// Certified intervals of some outputs, by rows and by boxes.
pub fn intervals(analysis: &Analysis<'_>, outputs: &[usize]) -> BoxVec {
    let rows = Rows::units(analysis.program().output_shape(), outputs);
    let lower = analysis.bound(&rows).unwrap().lower;
    let boxes = analysis.output();
    let (below, above) = lower.split_at(outputs.len());
    BoxVec::new(
        outputs.iter().zip(below).map(|(&i, l)| l.max(boxes.lower[i])).collect(),
        outputs.iter().zip(above).map(|(&i, u)| (-u).min(boxes.upper[i])).collect(),
    )
}

/// An upper bound of the error by one row for all outputs together.
pub fn worst_together(errors: &ErrorLimit, analysis: &Analysis<'_>, intervals: &BoxVec) -> f64 {
    let together = errors.together(intervals);
    let rows = Rows::new(Support::full(analysis.program().output_shape()), together.row.clone());
    errors.worst_together(&together, analysis.bound(&rows).unwrap().lower[0])
}

/// The three methods, cheap ones first.
pub fn by_methods(methods: &[Method]) -> Settings {
    let stages = Stage::bounds(methods);
    Settings { stages, step_form: StepForm::Difference, ..Settings::default() }
}

/// All but the most expensive.
pub const USUAL: [Method; 3] = [Method::Box, Method::Gains, Method::Tight];

/// What was decided about a series, and the limit of its error.
pub struct Certified {
    pub report: Report,
    pub limit: Option<f64>,
    pub witness: Option<Observations>,
}

impl Certified {
    /// The worst error that is still possible.
    pub fn worst(&self) -> Option<f64> {
        Some(self.limit? - self.report.margin?)
    }

    pub fn verdict(&self) -> &Verdict {
        &self.report.verdict
    }
}

/// Decides whether a forecast stays good.
pub fn certify(
    network: &Network,
    series: &Observations,
    (truth, mask): (&[f64], &[bool]),
    perturbation: &Perturbation,
    (settings, tolerance): (&Settings, Tolerance),
    budget: Budget<'_>,
) -> Certified {
    let arithmetic = settings.arithmetic;
    let unknown = |reason| Certified { report: Report::unknown(reason), limit: None, witness: None };
    let program = match SeriesProgram::new(network, series, Blend::Exact) {
        Ok(program) => program,
        Err(error) => return unknown(Reason::Concrete(error.to_string())),
    };
    let clock = Clock::start(Budget::default());
    let wanted = (truth, mask);
    let problem = forecast_problem(&program, series, wanted, perturbation, tolerance, arithmetic, clock);
    let problem = match problem {
        Ok(problem) => problem,
        Err(reason) => return unknown(reason),
    };
    let limit = match &problem.property {
        Property::Errors(errors) => Some(errors.limit),
        _ => None,
    };
    let report = Verifier::new(settings.clone()).decide(&problem, budget);
    let witness = match &report.verdict {
        Verdict::Falsified { witness } => Some(program.series(series, witness)),
        _ => None,
    };
    Certified { report, limit, witness }
}
