//! Questions as problems: the calls into the verifier.

use gains_core::operator::blend::Blend;
use gains_core::{Arithmetic, Interval, Precision};
use gains_ode::{Inference, SeriesProgram, Solution, StopReason, Watch, mean_absolute_error};
use gains_verify::series::forecast_problem;
use gains_verify::{
    Budget, Clock, Hunt, Point, Problem, Property, Reason, Report, Settings, StageReport, Verifier,
};

use super::plan::Way;
use super::{
    Answer, AttackPlan, Bounded, Claimed, Findings, Forecasted, Plan, Question, Ran, Sample, StageTime,
    Struck, Task, Tried, Verdict, Witness, micro, precision_of,
};

/// Values a pixel can take.
const PIXELS: Interval = Interval::new(0.0, 1.0);

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
            Sample::Image { .. } => Task::Classes,
            Sample::Series { .. } => Task::Forecasts,
        }
    }

    /// The question as a problem of the verifier.
    fn with_problem<R>(
        &self,
        arithmetic: Arithmetic,
        clock: Clock<'_>,
        look: impl FnOnce(&Problem<'_>) -> R,
    ) -> Result<R, Reason> {
        match &self.sample {
            Sample::Image { image, label, eps } => {
                Ok(look(&Problem::classification(self.network, image, *label, *eps, PIXELS)))
            }
            Sample::Series { observations, truth, truth_mask, perturbation, tolerance } => {
                let program = self.laid_out()?;
                let target = (&truth[..], &truth_mask[..]);
                let problem = forecast_problem(
                    &program,
                    observations,
                    target,
                    perturbation,
                    *tolerance,
                    arithmetic,
                    clock,
                )?;
                Ok(look(&problem))
            }
        }
    }

    /// A forecasting network for this series; for images there is none.
    fn laid_out(&self) -> Result<SeriesProgram, Reason> {
        match &self.sample {
            Sample::Image { .. } => Err(Reason::Concrete("an image is no series".into())),
            Sample::Series { observations, .. } => {
                SeriesProgram::new(self.network, observations, Blend::Exact)
                    .map_err(|e| Reason::Concrete(e.to_string()))
            }
        }
    }

    /// An input that breaks the property, as result files show it.
    fn witness(&self, mut point: Point) -> Witness {
        match &self.sample {
            Sample::Series { observations, .. } => match self.laid_out() {
                Ok(program) => {
                    let series = program.series(observations, &point);
                    Witness::Series { statics: series.statics, times: series.times, values: series.values }
                }
                Err(_) => Witness::Series { statics: Vec::new(), times: Vec::new(), values: Vec::new() },
            },
            Sample::Image { .. } => {
                Witness::Image(if point.is_empty() { Vec::new() } else { point.swap_remove(0) })
            }
        }
    }

    fn answer(&self, report: Report, property: Option<&Property>) -> Answer {
        let findings = match property {
            Some(Property::Errors(errors)) => Findings::Forecasts {
                mae: finite(report.output.as_ref().map(|output| self.error(output))),
                limit: finite(Some(errors.limit)),
                certified: finite(report.margin.map(|margin| errors.limit - margin)),
                attacked: finite(report.attacked_margin.map(|margin| errors.limit - margin)),
            },
            None if self.task() == Task::Forecasts => {
                Findings::Forecasts { mae: None, limit: None, certified: None, attacked: None }
            }
            _ => Findings::Classes {
                prediction: report.prediction(),
                margin: finite(report.margin),
                looseness: report.looseness.as_ref().map(ToString::to_string),
            },
        };
        let verdict = match report.verdict {
            gains_verify::Verdict::Verified => Verdict::Verified,
            gains_verify::Verdict::Falsified { witness } => Verdict::Falsified(self.witness(witness)),
            gains_verify::Verdict::Unknown(reason) => Verdict::Unknown(reason),
            gains_verify::Verdict::Misclassified => Verdict::Misclassified,
        };
        let stages = stage_times(&report.stages);
        Answer { verdict, findings, stages, graph: report.graph, elapsed: report.elapsed }
    }

    /// Answers it as planned. `seed` makes attacks of different samples differ; `workers` threads may be used.
    pub fn decide(&self, plan: &Plan, seed: u64, workers: usize, budget: Budget<'_>) -> Answer {
        let clock = Clock::start(budget);
        let decided = self.with_problem(plan.arithmetic, clock, |problem| {
            let settings = Settings { workers, ..plan.settings(problem, seed) };
            let report = Verifier::new(settings).decide(problem, budget);
            self.answer(report, Some(&problem.property))
        });
        decided.unwrap_or_else(|reason| self.answer(Report::unknown(reason), None))
    }

    /// Everything about one forecast: the verdict, a band around every feature, and the worst an attack finds.
    pub fn forecast(&self, plan: &Plan, budget: Budget<'_>) -> Result<Forecasted, Reason> {
        let clock = Clock::start(budget);
        self.with_problem(plan.arithmetic, clock, |problem| {
            let settings = Settings { intervals: true, ..plan.settings_of_one(problem) };
            let report = Verifier::new(settings).decide(problem, budget);
            let attacked =
                report.attacked.as_ref().zip(report.attacked_margin).and_then(|(point, margin)| {
                    let inputs: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
                    let precision = precision_of(plan.arithmetic);
                    let run =
                        Inference::run_within(problem.program, &inputs, precision, &clock.watch()).ok()?;
                    let Property::Errors(errors) = &problem.property else { return None };
                    Some((run.output, errors.limit - margin))
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
                let attack = gains_verify::Attack { exhaustive, ..(*plan).into() };
                let limit = match &problem.property {
                    Property::Errors(errors) => errors.limit,
                    _ => 0.0,
                };
                (Hunt::new(problem, precision, clock).run(&attack), limit)
            })
            .ok()
        };
        match &self.sample {
            Sample::Image { label, .. } => {
                let prediction = ran.map(|ran| ran.largest());
                if prediction != Some(*label) {
                    return Struck::Classes { prediction, broken: None, margin: f64::NAN };
                }
                let Some((found, _)) = found(false) else {
                    return Struck::Classes { prediction, broken: None, margin: f64::NAN };
                };
                let broken = found.witness.and_then(|point| {
                    let run = Inference::run(self.network, &point[0], precision).ok()?;
                    Some((self.witness(point), run.prediction()))
                });
                Struck::Classes { prediction, broken, margin: found.margin }
            }
            Sample::Series { .. } => {
                let mae = ran.map(|ran| self.error(&ran.output));
                let Some((found, limit)) = found(true) else {
                    return Struck::Forecasts { mae, attacked: None, broken: None };
                };
                let attacked = finite(Some(limit - found.margin));
                // The worst of all, if that breaks the property.
                let broken = found.witness.and(found.worst).map(|point| self.witness(point));
                Struck::Forecasts { mae, attacked, broken }
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
            Ok(show(Bounded { margin, size: analysis.graph_size(), graph }))
        })?
    }

    /// The concrete run.
    pub fn run(&self, precision: Precision, watch: &Watch<'_>) -> Result<Ran, String> {
        match &self.sample {
            Sample::Image { image, .. } => {
                let run = Inference::run_within(&self.network.body, &[image], precision, watch);
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

    /// The mean absolute error of a prediction; of an image there is none.
    pub fn error(&self, prediction: &[f64]) -> f64 {
        match &self.sample {
            Sample::Image { .. } => f64::NAN,
            Sample::Series { truth, truth_mask, .. } => mean_absolute_error(prediction, truth, truth_mask),
        }
    }

    /// The same image and radius asked of another network: does it keep the answer it gives itself?
    pub fn about_own_answer<'b>(&self, network: &'b gains_core::Network) -> Result<Question<'b>, String> {
        let Sample::Image { image, eps, .. } = &self.sample else {
            return Err("only classifiers are measured".into());
        };
        let run = Inference::run(network, image, Precision::Float64).map_err(|e| e.to_string())?;
        let sample = Sample::Image { image: image.clone(), label: run.prediction(), eps: *eps };
        Ok(Question { network, sample })
    }

    /// Whether the concrete solver finds the class of an image, or predicts a series at all.
    pub fn is_answered(&self) -> bool {
        let run = self.run(Precision::Float64, &Watch::default());
        match &self.sample {
            Sample::Image { label, .. } => run.is_ok_and(|run| run.largest() == *label),
            Sample::Series { .. } => run.is_ok(),
        }
    }
}

fn ran(run: &Inference<'_>) -> Ran {
    Ran {
        trajectory: run.solutions().next().map(|s| s.trajectory.clone()).unwrap_or_default(),
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
            for (x, g) in point.iter_mut().zip(&gradients).flat_map(|(x, g)| x.iter_mut().zip(g)) {
                *x += if *g == 0.0 { 0.0 } else { step * g.signum() };
            }
            downhill -= 1;
        }
        tried
    }

    /// Whether outputs break the property, and how far they are from the claim.
    fn judge(&self, outputs: &[f64], tried: &mut Tried) {
        let property = &self.problem.property;
        match (self.claimed, property) {
            (Claimed::Margin(margin), Property::Label { .. } | Property::Clauses { .. }) => {
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
