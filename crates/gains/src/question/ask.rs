//! Questions as problems: the calls into the verifier.

use std::sync::Arc;

use gains_core::operator::blend::Blend;
use gains_core::{Arithmetic, BoxVec, Precision};
use gains_ode::{Inference, SeriesProgram, Solution, StopReason, Watch, mean_absolute_error};
use gains_verify::certificate::prove::certificate;
use gains_verify::certificate::{Certificate, NotWritten};
use gains_verify::property::largest;
use gains_verify::series::{forecast_problem, series_problem};
use gains_verify::{
    Analysis, Budget, Clock, Hunt, Point, Problem, Property, Reason, Report, Settings, StageReport, Verifier,
};

use crate::property::{Asked, Sampled};

use super::plan::Way;
use super::{
    Answer, AttackPlan, Bounded, Claimed, Findings, Forecasted, OutputBounds, Plan, Question, Ran, Sample,
    StageTime, Struck, Task, Tried, Verdict, Wanted, Witness, micro, precision_of,
};

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
}

/// Stages as result files name them, to the microsecond.
fn stage_times(stages: &[StageReport]) -> Vec<StageTime> {
    stages.iter().map(|s| StageTime { name: s.name.clone(), seconds: micro(s.elapsed) }).collect()
}

impl Question<'_> {
    /// What is asked.
    pub fn task(&self) -> Task {
        match self.sample {
            Sample::Values { .. } => Task::of(self.network),
            Sample::Series { .. } => Task::Forecasts,
        }
    }

    /// Whether a forecast is asked to become hardly worse, and not something of its own.
    pub fn is_usual(&self) -> bool {
        matches!(&self.sample, Sample::Series { asked, .. } if asked.text().is_none())
    }

    /// The question as a problem of the verifier.
    pub(super) fn with_problem<R>(
        &self,
        arithmetic: Arithmetic,
        clock: Clock<'_>,
        look: impl FnOnce(&Problem<'_>) -> R,
    ) -> Result<R, Reason> {
        match &self.sample {
            Sample::Values { values, region, wanted } => {
                let nominal = vec![values.clone()];
                let mut region = region.clone();
                let is_float32 = |value: &f64| f64::from(*value as f32) == *value;
                if arithmetic == Arithmetic::Float32 && !values.iter().all(is_float32) {
                    region = region.rounded_to_float32(&nominal);
                }
                let (program, property) =
                    (&self.network.body, self.property(values, wanted, precision_of(arithmetic), clock)?);
                Ok(look(&Problem { program, region, property, nominal, output: None }))
            }
            Sample::Series { observations, truth, truth_mask, perturbation, tolerance, asked, units } => {
                let program = self.laid_out()?;
                let target = (&truth[..], &truth_mask[..]);
                let problem = if asked.text().is_none() {
                    forecast_problem(
                        &program,
                        observations,
                        target,
                        perturbation,
                        *tolerance,
                        arithmetic,
                        clock,
                    )?
                } else {
                    series_problem(&program, observations, perturbation, arithmetic, clock, |nominal| {
                        asked.linear(&Sampled { label: None, nominal, target: Some(target), units })
                    })?
                };
                Ok(look(&problem))
            }
        }
    }

    /// What must hold of the outputs, or why nothing can be asked.
    /// Where that depends on what comes out of the sample, it does so in the precision that the question is about.
    fn property(
        &self,
        values: &[f64],
        wanted: &Wanted,
        precision: Precision,
        clock: Clock<'_>,
    ) -> Result<Property, Reason> {
        wanted.asked.property(wanted.label, wanted.truth.as_deref(), || {
            let run = Inference::run_within(&self.network.body, &[values], precision, &clock.watch());
            run.map(|run| run.output).map_err(|error| clock.reason(&error))
        })
    }

    /// A forecasting network for this series; for inputs of fixed size there is none.
    fn laid_out(&self) -> Result<SeriesProgram, Reason> {
        match &self.sample {
            Sample::Values { .. } => Err(Reason::Concrete("the sample is no series".into())),
            Sample::Series { observations, .. } => {
                SeriesProgram::new(self.network, observations, Blend::Exact)
                    .map_err(|e| Reason::Concrete(e.to_string()))
            }
        }
    }

    /// An input that breaks the property, as result files show it.
    pub(super) fn witness(&self, mut point: Point) -> Witness {
        match &self.sample {
            Sample::Series { observations, .. } => match self.laid_out() {
                Ok(program) => {
                    let series = program.series(observations, &point);
                    Witness::Series { statics: series.statics, times: series.times, values: series.values }
                }
                Err(_) => Witness::Series { statics: Vec::new(), times: Vec::new(), values: Vec::new() },
            },
            Sample::Values { .. } => {
                Witness::Values(if point.is_empty() { Vec::new() } else { point.swap_remove(0) })
            }
        }
    }

    fn answer(&self, report: Report, property: Option<&Property>) -> Answer {
        let margin = finite(report.margin);
        let looseness = report.looseness.as_ref().map(ToString::to_string);
        let findings = match (property, self.task()) {
            (None, task) => Findings::nothing(task),
            (Some(Property::Errors(errors)), _) => Findings::Forecasts {
                mae: finite(report.output.as_ref().map(|output| self.error(output))),
                limit: finite(Some(errors.limit)),
                certified: finite(report.margin.map(|margin| errors.limit - margin)),
                attacked: finite(report.attacked_margin.map(|margin| errors.limit - margin)),
                margin: None,
            },
            (Some(_), Task::Forecasts) => {
                let mae = finite(report.output.as_ref().map(|output| self.error(output)));
                Findings::Forecasts { mae, limit: None, certified: None, attacked: None, margin }
            }
            (Some(_), Task::Classes) => {
                Findings::Classes { prediction: report.prediction(), margin, looseness }
            }
            (Some(_), Task::Regression) => {
                Findings::Regression { output: report.output.clone(), margin, looseness }
            }
        };
        let bounds = property.and_then(|property| OutputBounds::of_report(&report, property));
        let verdict = match report.verdict {
            gains_verify::Verdict::Verified => Verdict::Verified,
            gains_verify::Verdict::Falsified { witness } => Verdict::Falsified(self.witness(witness)),
            gains_verify::Verdict::Unknown(reason) => Verdict::Unknown(reason),
            // An error is not wrong in itself: its limit can only leave it no room.
            gains_verify::Verdict::Misclassified if matches!(property, Some(Property::Errors(_))) => {
                let room = "nu and delta leave no room above the error of the prediction itself";
                Verdict::Unknown(Reason::Property(room.into()))
            }
            gains_verify::Verdict::Misclassified => Verdict::Misclassified,
        };
        let stages = stage_times(&report.stages);
        Answer { verdict, findings, stages, graph: report.graph, bounds, elapsed: report.elapsed }
    }

    /// Answers it as planned. `seed` makes attacks of different samples differ; `workers` threads may be used.
    pub fn decide(&self, plan: &Plan, seed: u64, workers: usize, budget: Budget<'_>) -> Answer {
        self.decide_and(plan, seed, workers, budget, |_, _, _| ()).0
    }

    /// The same, and then writes down why, within the same budget once more.
    pub fn decide_and_certify(
        &self,
        plan: &Plan,
        seed: u64,
        workers: usize,
        budget: Budget<'_>,
    ) -> (Answer, Result<Certificate, NotWritten>) {
        let certify = |problem: &Problem<'_>, settings: &Settings, report: &Report| {
            let series = match &self.sample {
                Sample::Series { observations, .. } => Some(observations),
                Sample::Values { .. } => None,
            };
            certificate(problem, series, settings, report, Clock::start(budget))
        };
        let (answer, certificate) = self.decide_and(plan, seed, workers, budget, certify);
        (answer, certificate.unwrap_or(Err(NotWritten::NoVerdict)))
    }

    fn decide_and<R>(
        &self,
        plan: &Plan,
        seed: u64,
        workers: usize,
        budget: Budget<'_>,
        then: impl FnOnce(&Problem<'_>, &Settings, &Report) -> R,
    ) -> (Answer, Option<R>) {
        let clock = Clock::start(budget);
        let decided = self.with_problem(plan.arithmetic, clock, |problem| {
            let settings = Settings { workers, ..plan.settings(problem, seed) };
            let verifier = Verifier::new(settings);
            let report = verifier.decide(problem, budget);
            let more = then(problem, &verifier.settings, &report);
            (self.answer(report, Some(&problem.property)), Some(more))
        });
        decided.unwrap_or_else(|reason| {
            let report = Report { elapsed: clock.elapsed(), ..Report::unknown(reason) };
            (self.answer(report, None), None)
        })
    }

    /// Everything about one forecast: the verdict, a band around every feature, and the worst an attack finds.
    pub fn forecast(&self, plan: &Plan, budget: Budget<'_>) -> Result<Forecasted, Reason> {
        let clock = Clock::start(budget);
        self.with_problem(plan.arithmetic, clock, |problem| {
            let settings = Settings { intervals: true, ..plan.settings_of_one(problem) };
            let report = Verifier::new(settings).decide(problem, budget);
            let attacked = report.attacked.as_ref().and_then(|point| {
                let inputs: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
                let precision = precision_of(plan.arithmetic);
                let run = Inference::run_within(problem.program, &inputs, precision, &clock.watch());
                run.ok().map(|run| run.output)
            });
            let all = report.intervals.clone().filter(|b| b.len() == problem.program.output_shape().len());
            let band = match (&report.verdict, all) {
                (gains_verify::Verdict::Unknown(Reason::Contradicted), _) => Err(Reason::Contradicted),
                (_, Some(all)) => Ok(all),
                (gains_verify::Verdict::Unknown(reason), None) => Err(reason.clone()),
                (_, None) => Err(Reason::Interrupted),
            };
            Forecasted { answer: self.answer(report, Some(&problem.property)), band, attacked }
        })
    }

    /// Attacks, and nothing else.
    pub fn attack(&self, plan: &AttackPlan, precision: Precision, budget: Budget<'_>) -> Struck {
        let clock = Clock::start(budget);
        let ran = self.run(precision, &clock.watch()).ok();
        let arithmetic = match precision {
            Precision::Float32 => Arithmetic::Float32,
            Precision::Float64 => Arithmetic::Real,
        };
        let found = |exhaustive: bool| {
            self.with_problem(arithmetic, clock, |problem| {
                let mut attack = gains_verify::Attack { exhaustive, ..(*plan).into() };
                if !problem.region.paces.is_empty() {
                    attack = attack.crossing(problem.region.radius);
                }
                let limit = match &problem.property {
                    Property::Errors(errors) => Some(errors.limit),
                    _ => None,
                };
                (Hunt::new(problem, precision, clock).run(&attack), limit)
            })
            .ok()
        };
        match &self.sample {
            Sample::Values { values, wanted, .. } => {
                let property = self.property(values, wanted, precision, clock);
                let holds = |ran: &Ran| property.as_ref().is_ok_and(|p| !p.is_missed(&ran.output));
                let found = ran.as_ref().filter(|ran| holds(ran)).and_then(|_| found(false));
                let margin = found.as_ref().map_or(f64::NAN, |(found, _)| found.margin);
                let broken = found.and_then(|(found, _)| {
                    let point = found.witness?;
                    let inputs = [&point[0][..]];
                    // What was found when time was up is not thrown away.
                    let watch = Watch { deadline: None, ..clock.watch() };
                    let run = Inference::run_within(&self.network.body, &inputs, precision, &watch).ok()?;
                    Some((self.witness(point), run.output))
                });
                match self.task() {
                    Task::Regression => {
                        Struck::Regression { output: ran.map(|ran| ran.output), broken, margin }
                    }
                    _ => Struck::Classes {
                        prediction: ran.as_ref().map(Ran::largest),
                        broken: broken.map(|(witness, output)| (witness, largest(&output))),
                        margin,
                    },
                }
            }
            Sample::Series { .. } => {
                let mae = ran.map(|ran| self.error(&ran.output));
                let Some((found, limit)) = found(true) else {
                    return Struck::Forecasts { mae, attacked: None, margin: None, broken: None };
                };
                let attacked = finite(limit.map(|limit| limit - found.margin));
                let margin = finite(Some(found.margin)).filter(|_| limit.is_none());
                // The worst of all, if that breaks the property.
                let broken = found.witness.and(found.worst).map(|point| self.witness(point));
                Struck::Forecasts { mae, attacked, margin, broken }
            }
        }
    }

    /// Tries to break a claim with points drawn uniformly, at corners of the region, and on the way downhill from
    /// both; each is run by the concrete solver.
    pub fn challenge(
        &self,
        claimed: Claimed,
        points: usize,
        seed: u64,
        arithmetic: Arithmetic,
        budget: Budget<'_>,
    ) -> Tried {
        let clock = Clock::start(budget);
        let tried = self.with_problem(arithmetic, clock, |problem| {
            Challenge { problem, claimed, precision: precision_of(arithmetic), clock }.run(points, seed)
        });
        tried.unwrap_or(Tried::NOTHING)
    }

    /// Bounds by one method, once, and shows what came out.
    pub fn bound<R>(
        &self,
        way: Way,
        budget: Budget<'_>,
        show: impl FnOnce(Bounded<'_>) -> R,
    ) -> Result<R, Reason> {
        let Way { method, step_form, arithmetic } = way;
        let clock = Clock::start(budget);
        self.with_problem(arithmetic, clock, |problem| {
            let settings = Settings { step_form, arithmetic, ..Settings::default() };
            let (margin, analysis) = Verifier::new(settings).bound_by(problem, method, clock)?;
            let graph = analysis.graphs().next();
            let size = analysis.graph_size();
            Ok(show(Bounded { margin, size, graph, problem, analysis: &analysis }))
        })?
    }

    /// Certified intervals of all outputs, by the methods that are named; what several prove holds together. Outputs seen
    /// at the sample itself outside of them are a fault of ours, and nothing is certified.
    pub fn intervals(&self, ways: &[Way], budget: Budget<'_>) -> Result<BoxVec, Reason> {
        let clock = Clock::start(budget);
        let arithmetic = ways.first().map_or(Arithmetic::Real, |way| way.arithmetic);
        self.with_problem(arithmetic, clock, |problem| {
            let outputs: Vec<usize> = (0..problem.program.output_shape().len()).collect();
            let mut found: Result<BoxVec, Reason> = Err(Reason::Interrupted);
            for Way { method, step_form, arithmetic } in ways.iter().copied() {
                let region = &problem.region;
                let bounds = Analysis::over(problem.program, region, method, step_form, arithmetic, clock)
                    .and_then(|analysis| analysis.intervals(&outputs));
                found = match (found, bounds) {
                    (Ok(mut known), Ok(bounds)) => {
                        known.meet(&bounds);
                        Ok(known)
                    }
                    (Err(_), bounds) => bounds,
                    (known, Err(_)) => known,
                };
            }
            let found = found?;
            let inputs: Vec<&[f64]> = problem.nominal.iter().map(Vec::as_slice).collect();
            let run =
                Inference::run_within(problem.program, &inputs, precision_of(arithmetic), &clock.watch())
                    .map_err(|error| clock.reason(&error))?;
            let outside = |(at, x): (usize, &f64)| {
                let (bounds, slack) = (found.get(at), 1e-6 * (1.0 + x.abs()));
                !(bounds.lower - slack <= *x && *x <= bounds.upper + slack)
            };
            if run.output.iter().enumerate().any(outside) { Err(Reason::Contradicted) } else { Ok(found) }
        })?
    }

    /// The concrete run.
    pub fn run(&self, precision: Precision, watch: &Watch<'_>) -> Result<Ran, String> {
        match &self.sample {
            Sample::Values { values, .. } => {
                let run = Inference::run_within(&self.network.body, &[values], precision, watch);
                run.map(|run| ran(&run)).map_err(|e| e.to_string())
            }
            Sample::Series { observations, .. } => {
                let program = self.laid_out().map_err(|reason| reason.to_string())?;
                let inputs = program.inputs(observations);
                let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
                let run = Inference::run_within(program.program(), &inputs, precision, watch);
                run.map(|run| ran(&run)).map_err(|e| e.to_string())
            }
        }
    }

    /// The mean absolute error of a prediction; only series have one.
    pub fn error(&self, prediction: &[f64]) -> f64 {
        match &self.sample {
            Sample::Values { .. } => f64::NAN,
            Sample::Series { truth, truth_mask, .. } => mean_absolute_error(prediction, truth, truth_mask),
        }
    }

    /// The same region asked of another network: does it keep the answer it gives itself?
    pub fn about_own_answer<'b>(
        &self,
        network: &'b gains_core::Network,
        watch: &Watch<'_>,
    ) -> Result<Question<'b>, String> {
        let Sample::Values { values, region, .. } = &self.sample else {
            return Err("only classifiers are measured".into());
        };
        let run = Inference::run_within(&network.body, &[values], Precision::Float64, watch)
            .map_err(|e| e.to_string())?;
        let asked = Arc::new(Asked::usual(network));
        let wanted = Wanted { asked, label: Some(run.prediction()), truth: None };
        let (values, region) = (values.clone(), region.clone());
        Ok(Question { network, sample: Sample::Values { values, region, wanted } })
    }

    /// Whether the property holds of the sample itself, or a series is predicted at all.
    pub fn is_answered(&self, budget: Budget<'_>) -> bool {
        let clock = Clock::start(budget);
        let run = self.run(Precision::Float64, &clock.watch());
        match &self.sample {
            Sample::Values { values, wanted, .. } => {
                let property = self.property(values, wanted, Precision::Float64, clock);
                property.is_ok_and(|property| run.is_ok_and(|run| !property.is_missed(&run.output)))
            }
            Sample::Series { .. } => run.is_ok(),
        }
    }
}

fn ran(run: &Inference<'_>) -> Ran {
    Ran {
        trajectories: run.solutions().map(|s| s.trajectory.clone()).collect(),
        accepted: run.solutions().map(Solution::accepted).sum(),
        rejected: run.solutions().map(Solution::rejected).sum(),
        evaluations: run.solutions().map(|s| s.evaluations).sum(),
        within_tolerance: run.solutions().all(|s| s.stop == StopReason::Finished),
        output: run.output.clone(),
    }
}

/// Gradient steps from every point a challenge starts at.
const DOWNHILL: usize = 8;

/// An attempt to break a claim.
struct Challenge<'a> {
    problem: &'a Problem<'a>,
    claimed: Claimed,
    precision: Precision,
    clock: Clock<'a>,
}

impl Challenge<'_> {
    fn run(&self, points: usize, seed: u64) -> Tried {
        let region = &self.problem.region;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tried = Tried::NOTHING;
        let mut point: Point = Vec::new();
        let mut downhill = 0;
        while tried.points < points && self.clock.check(0).is_ok() {
            if downhill == 0 {
                let corner = random.bool();
                let mut pick = |low: f64, high: f64| {
                    let u = if corner { random.f64().round() } else { random.f64() };
                    (low + u * (high - low)).clamp(low, high)
                };
                let inside = region.inner.iter();
                point = inside
                    .map(|b| b.lower.iter().zip(&b.upper).map(|(l, u)| pick(*l, *u)).collect())
                    .collect();
                downhill = DOWNHILL;
            }
            region.settle(&mut point, self.precision);
            let inputs: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
            let run =
                Inference::run_within(self.problem.program, &inputs, self.precision, &self.clock.watch());
            // Who is interrupted has seen nothing.
            if self.clock.check(0).is_err() {
                return tried;
            }
            let Ok(run) = run else {
                tried.note(true, f64::INFINITY);
                downhill = 0;
                continue;
            };
            self.judge(&run.output, &mut tried);
            let downwards = self.problem.property.downhill(&run.output);
            let Ok(gradients) = run.gradients_within(&downwards, &self.clock.watch()) else {
                downhill = 0;
                continue;
            };
            let step = region.radius * random.f64();
            region.walk(&mut point, &gradients, step);
            downhill -= 1;
        }
        tried
    }

    /// Whether outputs break the property, and how far they are from the claim.
    fn judge(&self, outputs: &[f64], tried: &mut Tried) {
        let property = &self.problem.property;
        match (self.claimed, property) {
            (Claimed::Margin(margin), Property::Label { .. } | Property::Linear { .. }) => {
                tried.note(property.is_violated(outputs), property.margin_at(outputs) - margin);
            }
            (Claimed::Error { limit, certified }, Property::Errors(errors)) => {
                let error = errors.error(outputs);
                tried.note(error >= limit, certified - error);
            }
            // A claim about the other kind of network says nothing about this one.
            _ => tried.note(false, f64::INFINITY),
        }
    }
}

impl From<AttackPlan> for gains_verify::Attack {
    fn from(plan: AttackPlan) -> Self {
        let AttackPlan { steps, step_size, restarts, loss, seed } = plan;
        Self { steps, step_size, restarts, loss, seed, exhaustive: false }
    }
}
