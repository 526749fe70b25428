//! Deciding one record at one radius: bounds, ever more expensive, and an attack.

use std::time::{Duration, Instant};

use gains_core::{Arithmetic, Network, Precision};
use gains_verify::series::{
    ForecastProperty, ForecastReport, ForecastSettings, ForecastVerdict, ForecastVerifier, Perturbation,
    SeriesAttack, SeriesAttackOutcome, SeriesMethod, Target, Tolerance,
};
use gains_verify::verifier::StageReport;
use gains_verify::{Budget, Reason, StepForm};

use crate::cli::{BoundArgs, MethodArg};
use crate::failure::Failure;
use crate::forecasting::source::Item;

/// When a record is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attacked {
    /// Only if the bounds do not verify it.
    IfOpen,
    /// In any case, for the worst error that can be found.
    Always,
}

/// How records are decided.
#[derive(Clone, Debug)]
pub struct Strength {
    method: MethodArg,
    step_form: StepForm,
    /// Whose arithmetic a verdict speaks about.
    pub arithmetic: Arithmetic,
    /// The attack, if any.
    pub attack: Option<SeriesAttack>,
    /// When it is made.
    pub attacked: Attacked,
}

/// What came out.
pub struct Decided {
    /// The report, its attacked error and time those of everything that was done.
    pub report: ForecastReport,
    /// Verified by the bounds and yet broken by the attack, which must not be.
    pub contradicts: bool,
}

impl Strength {
    /// What a command was asked for.
    pub fn new(
        bounds: &BoundArgs,
        attack: Option<SeriesAttack>,
        attacked: Attacked,
    ) -> Result<Self, Failure> {
        check_method(bounds.method)?;
        Ok(Self {
            method: bounds.method,
            step_form: bounds.step_form.map_or(StepForm::Difference, Into::into),
            arithmetic: bounds.arithmetic.into(),
            attack,
            attacked,
        })
    }

    /// The method as results name it.
    pub fn name(&self) -> String {
        let method = match self.method {
            MethodArg::Auto => "auto".into(),
            _ => self.methods().iter().map(ToString::to_string).collect::<String>(),
        };
        match (self.method, self.step_form) {
            (MethodArg::Auto | MethodArg::Box | MethodArg::Linear, StepForm::Independent) => {
                format!("{method}-independent")
            }
            _ => method,
        }
    }

    fn methods(&self) -> Vec<SeriesMethod> {
        match self.method {
            MethodArg::Box => vec![SeriesMethod::Box],
            MethodArg::Linear => vec![SeriesMethod::Linear],
            MethodArg::Tight => vec![SeriesMethod::Tight],
            MethodArg::Stepwise => vec![SeriesMethod::Stepwise],
            MethodArg::Auto | MethodArg::Gains | MethodArg::Symbolic => ForecastSettings::default().methods,
        }
    }

    /// Decides one record. `auto` goes on step by step where boxes grew beyond use.
    pub fn decide(
        &self,
        network: &Network,
        item: &Item,
        perturbation: &Perturbation,
        tolerance: Tolerance,
        seed: u64,
        budget: Budget<'_>,
    ) -> Decided {
        let started = Instant::now();
        let verifier = ForecastVerifier::new(network);
        let bound = |methods: Vec<SeriesMethod>| {
            let settings = ForecastSettings {
                tolerance,
                attack: None,
                methods,
                step_form: self.step_form,
                arithmetic: self.arithmetic,
                ..ForecastSettings::default()
            };
            let (truth, mask) = (&item.series.target, &item.series.target_mask);
            let budget = Budget { timeout: left(budget.timeout, started), ..budget };
            verifier.certify(&item.observations, truth, mask, perturbation, &settings, budget)
        };
        let mut report = bound(self.methods());
        let overflowed = matches!(report.verdict, ForecastVerdict::Unknown(Reason::Overflow { .. }));
        if self.method == MethodArg::Auto && overflowed {
            let stages = std::mem::take(&mut report.stages);
            report = bound(vec![SeriesMethod::Stepwise]);
            report.stages.splice(0..0, stages);
        }
        let mut decided = Decided { report, contradicts: false };
        let open = decided.report.verdict != ForecastVerdict::Verified;
        if let Some(attack) = self.attack.filter(|_| open || self.attacked == Attacked::Always) {
            let attack = SeriesAttack { seed: attack.seed ^ seed, ..attack };
            self.strike(network, item, perturbation, tolerance, attack, started, budget, &mut decided);
        }
        decided.report.elapsed = started.elapsed();
        decided
    }

    fn strike(
        &self,
        network: &Network,
        item: &Item,
        perturbation: &Perturbation,
        tolerance: Tolerance,
        attack: SeriesAttack,
        started: Instant,
        budget: Budget<'_>,
        decided: &mut Decided,
    ) {
        let began = Instant::now();
        let late = || budget.timeout.is_some_and(|limit| started.elapsed() >= limit);
        let stop = || (budget.interrupted)() || late();
        let precision = precision_of(self.arithmetic);
        let struck = assault(network, item, perturbation, tolerance, attack, precision, &stop);
        let report = &mut decided.report;
        report.stages.push(StageReport { name: "attack".into(), elapsed: began.elapsed() });
        let Some(found) = struck else { return };
        report.attacked = Some(found.error).filter(|e| e.is_finite());
        if found.breaks {
            if report.verdict == ForecastVerdict::Verified {
                decided.contradicts = true;
            } else if let Some(witness) = found.worst {
                report.verdict = ForecastVerdict::Falsified { witness: Box::new(witness) };
            }
        }
    }
}

/// Refuses the methods that only images have.
pub fn check_method(method: MethodArg) -> Result<(), Failure> {
    let name = match method {
        MethodArg::Gains => "gains",
        MethodArg::Symbolic => "symbolic",
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("--method {name} is for models that classify images"))
        .hint("forecasting models have auto, box, linear, tight and stepwise"))
}

/// How a program of some arithmetic is run.
pub fn precision_of(arithmetic: Arithmetic) -> Precision {
    match arithmetic {
        Arithmetic::Real => Precision::Float64,
        Arithmetic::Float32 => Precision::Float32,
    }
}

fn left(timeout: Option<Duration>, started: Instant) -> Option<Duration> {
    timeout.map(|limit| limit.saturating_sub(started.elapsed()))
}

/// All steps of an attack, also beyond the first series that breaks the property, so that its error is the worst
/// seen. The worst series is run once more; `breaks` says whether that run breaks the property. `None` if the
/// network cannot be run on the record, or nothing is observed at the target.
pub fn assault(
    network: &Network,
    item: &Item,
    perturbation: &Perturbation,
    tolerance: Tolerance,
    attack: SeriesAttack,
    precision: Precision,
    stop: &dyn Fn() -> bool,
) -> Option<SeriesAttackOutcome> {
    let series = &item.observations;
    let target = Target::new(network, series.target_time).ok()?;
    let prediction = target.forecaster.run(series, precision).ok()?.output().to_vec();
    let (truth, mask) = (&item.series.target, &item.series.target_mask);
    let property = ForecastProperty::new(truth, mask, &prediction, tolerance)?;
    let endless = ForecastProperty { limit: f64::INFINITY, ..property.clone() };
    let mut found = attack.run(&target, series, perturbation, &endless, precision, stop);
    let again = found.worst.as_ref().and_then(|worst| {
        let run = target.forecaster.run(worst, precision).ok()?;
        Some(property.error(run.output()))
    });
    found.breaks = again.is_some_and(|error| error >= property.limit);
    Some(found)
}
