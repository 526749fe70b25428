//! Deciding one record at one radius: bounds, ever more expensive, and an attack.

use std::time::Instant;

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

/// What is asked about one record.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The network.
    pub network: &'a Network,
    /// The record.
    pub item: &'a Item,
    /// What may move.
    pub perturbation: &'a Perturbation,
    /// How much worse the prediction may become.
    pub tolerance: Tolerance,
}

/// When a record is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attacked {
    /// Only if the bounds do not verify it.
    IfOpen,
    /// In any case, for the worst error that can be found.
    Always,
}

/// Steps of the attack with which `auto` looks for a witness before it takes up its most expensive bounds.
const SHORT_ATTACK: usize = 15;

/// How records are decided.
#[derive(Clone, Debug)]
pub struct Decider {
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

impl Decider {
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
    pub fn decide(&self, question: Question<'_>, seed: u64, budget: Budget<'_>) -> Decided {
        let started = Instant::now();
        let short = (self.method == MethodArg::Auto && self.attacked == Attacked::IfOpen).then(|| {
            let attack = SeriesAttack { steps: SHORT_ATTACK, seed, ..SeriesAttack::default() };
            SeriesAttack { step_size: self.step_size(&attack, question.perturbation), ..attack }
        });
        let mut report = self.bound(question, self.methods(), short, started, budget);
        let overflowed = matches!(report.verdict, ForecastVerdict::Unknown(Reason::Overflow { .. }));
        if self.method == MethodArg::Auto && overflowed {
            let stages = std::mem::take(&mut report.stages);
            report = self.bound(question, vec![SeriesMethod::Stepwise], None, started, budget);
            report.stages.splice(0..0, stages);
        }
        let mut contradicts = false;
        let open = matches!(report.verdict, ForecastVerdict::Unknown(_));
        if let Some(attack) = self.attack.filter(|_| open || self.attacked == Attacked::Always) {
            let began = Instant::now();
            let late = || budget.timeout.is_some_and(|limit| started.elapsed() >= limit);
            let stop = || (budget.interrupted)() || late();
            let step_size = self.step_size(&attack, question.perturbation);
            let attack = SeriesAttack { seed: attack.seed ^ seed, step_size, ..attack };
            let found = question.attack(attack, precision_of(self.arithmetic), &stop);
            report.stages.push(StageReport { name: "attack".into(), elapsed: began.elapsed() });
            let reached = found.as_ref().map(|f| f.error).filter(|e| e.is_finite());
            report.attacked = reached.into_iter().chain(report.attacked).reduce(f64::max);
            let breaks = found.as_ref().is_some_and(|f| f.breaks);
            contradicts = breaks && report.verdict == ForecastVerdict::Verified;
            if let Some(witness) = found.filter(|f| f.breaks && open).and_then(|f| f.worst) {
                report.verdict = ForecastVerdict::Falsified { witness: Box::new(witness) };
            }
        }
        report.elapsed = started.elapsed();
        Decided { report, contradicts }
    }

    /// Steps that were not chosen by the user cross the region, however few there are.
    fn step_size(&self, attack: &SeriesAttack, perturbation: &Perturbation) -> f64 {
        match self.attacked {
            Attacked::Always => attack.step_size,
            Attacked::IfOpen => {
                let radii = perturbation.features.iter().map(|a| a.radius);
                let reach = radii.filter(|r| r.is_finite()).fold(0.0, f64::max);
                attack.step_size.max(4.0 * reach / attack.steps.max(1) as f64)
            }
        }
    }

    /// Tries methods for what is left of the time, with an attack before the last.
    fn bound(
        &self,
        question: Question<'_>,
        methods: Vec<SeriesMethod>,
        attack: Option<SeriesAttack>,
        started: Instant,
        budget: Budget<'_>,
    ) -> ForecastReport {
        let settings = ForecastSettings {
            tolerance: question.tolerance,
            attack,
            methods,
            step_form: self.step_form,
            arithmetic: self.arithmetic,
            ..ForecastSettings::default()
        };
        let left = budget.timeout.map(|limit| limit.saturating_sub(started.elapsed()));
        let Item { series, observations } = question.item;
        let mut report = ForecastVerifier::new(question.network).certify(
            observations,
            &series.target,
            &series.target_mask,
            question.perturbation,
            &settings,
            Budget { timeout: left, ..budget },
        );
        // The limit that was asked for, not what was left of it.
        if let (ForecastVerdict::Unknown(Reason::TimeLimit { seconds }), Some(limit)) =
            (&mut report.verdict, budget.timeout)
        {
            *seconds = limit.as_secs_f64();
        }
        report
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

impl Question<'_> {
    /// All steps of an attack, also beyond the first series that breaks the property, so that its error is the worst
    /// seen. The worst series is run once more; `breaks` says whether that run breaks the property. `None` if the
    /// network cannot be run on the record, or nothing is observed at the target.
    pub fn attack(
        &self,
        attack: SeriesAttack,
        precision: Precision,
        stop: &dyn Fn() -> bool,
    ) -> Option<SeriesAttackOutcome> {
        let Item { series, observations } = self.item;
        let target = Target::new(self.network, observations.target_time).ok()?;
        let prediction = target.forecaster.run(observations, precision).ok()?.output().to_vec();
        let property =
            ForecastProperty::new(&series.target, &series.target_mask, &prediction, self.tolerance)?;
        let endless = ForecastProperty { limit: f64::INFINITY, ..property.clone() };
        let mut found = attack.run(&target, observations, self.perturbation, &endless, precision, stop);
        let again = found.worst.as_ref().and_then(|worst| {
            let run = target.forecaster.run(worst, precision).ok()?;
            Some(property.error(run.output()))
        });
        found.breaks = again.is_some_and(|error| error >= property.limit);
        Some(found)
    }
}
