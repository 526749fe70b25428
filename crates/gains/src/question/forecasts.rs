//! Is a series predicted hardly worse within a radius? The calls into the verifier of forecasts.

use std::time::Instant;

use gains_core::{BoxVec, Network, Precision};
use gains_ode::{Forecaster, Observations, Solution, StopReason, mean_absolute_error};
use gains_verify::limits::Clock;
use gains_verify::series::enclosure::Way as SeriesWay;
use gains_verify::series::{
    Enclosure, ForecastProperty, ForecastReport, ForecastSettings, ForecastVerdict, ForecastVerifier,
    MixForm, Perturbation, SeriesAttack, SeriesAttackOutcome, SeriesMethod, SeriesRegion, Target, Tolerance,
};
use gains_verify::verifier::StageReport;
use gains_verify::{Budget, Reason};

use super::plan::{Step, Way, Word};
use super::{
    Answer, AttackPlan, Bounded, Findings, Plan, Ran, Struck, Tried, Verdict, Witness, precision_of,
    stage_times,
};

/// A series, what may move in it, and how much worse its prediction may become.
pub struct ForecastQuestion<'a> {
    /// The network.
    pub network: &'a Network,
    /// The series as the network takes it.
    pub observations: Observations,
    /// What is observed at the target.
    pub truth: Vec<f64>,
    /// Whether it is.
    pub truth_mask: Vec<bool>,
    /// What may move.
    pub perturbation: Perturbation,
    /// How much worse the prediction may become.
    pub tolerance: Tolerance,
}

/// Certified intervals of all features.
pub struct Band {
    /// On the scale of the network.
    pub intervals: BoxVec,
    /// Proved: the error stays at or below this.
    pub certified: f64,
    /// The method that proved it.
    pub method: Word,
}

impl From<AttackPlan> for SeriesAttack {
    fn from(plan: AttackPlan) -> Self {
        let AttackPlan { steps, step_size, restarts, seed, loss: _ } = plan;
        Self { steps, step_size, restarts, seed }
    }
}

impl From<Observations> for Witness {
    fn from(series: Observations) -> Self {
        Self::Series { statics: series.statics, times: series.times, values: series.values }
    }
}

/// The verifier's name of a method; those that only images have are refused before it comes to this.
fn method(word: Word) -> SeriesMethod {
    match word {
        Word::Box => SeriesMethod::Box,
        Word::Linear => SeriesMethod::Linear,
        Word::Tight | Word::Gains | Word::Symbolic => SeriesMethod::Tight,
        Word::Stepwise => SeriesMethod::Stepwise,
    }
}

fn series_way(way: Way) -> SeriesWay {
    let Way { word, step_form, arithmetic } = way;
    SeriesWay { method: method(word), mix: MixForm::Exact, step_form, arithmetic }
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
}

impl ForecastQuestion<'_> {
    /// The largest radius of the features.
    fn reach(&self) -> f64 {
        let radii = self.perturbation.features.iter().map(|allowance| allowance.radius);
        radii.filter(|radius| radius.is_finite()).fold(0.0, f64::max)
    }

    pub(super) fn decide(&self, plan: &Plan, seed: u64, budget: Budget<'_>) -> Answer {
        let started = Instant::now();
        let steps = plan.steps(self.reach(), seed);
        let last = steps.iter().rposition(|step| matches!(step, Step::Bound(_))).unwrap_or(0);
        let (early, late) = steps.split_at(last + 1);
        let methods = early.iter().filter_map(|step| match step {
            Step::Bound(word) => Some(method(*word)),
            _ => None,
        });
        let short = early.iter().find_map(|step| match step {
            Step::Attack(attack) => Some((*attack).into()),
            _ => None,
        });
        let mut report = self.bounds(plan, methods.collect(), short, started, budget);
        let mut contradicted = false;
        for step in late {
            let open = matches!(report.verdict, ForecastVerdict::Unknown(_));
            match step {
                // Where boxes grew beyond use.
                Step::Rescue(word)
                    if matches!(report.verdict, ForecastVerdict::Unknown(Reason::Overflow { .. })) =>
                {
                    let stages = std::mem::take(&mut report.stages);
                    report = self.bounds(plan, vec![method(*word)], None, started, budget);
                    report.stages.splice(0..0, stages);
                }
                Step::Worst(attack) => {
                    contradicted |= self.add_attack(*attack, plan, started, budget, &mut report)
                }
                Step::Attack(attack) if open => {
                    contradicted |= self.add_attack(*attack, plan, started, budget, &mut report);
                }
                _ => {}
            }
        }
        let verdict = match report.verdict {
            // What was cut short is done again.
            _ if (budget.interrupted)() => Verdict::Unknown(Reason::Interrupted),
            ForecastVerdict::Verified if contradicted => Verdict::Unknown(Reason::Contradicted),
            ForecastVerdict::Verified => Verdict::Verified,
            ForecastVerdict::Falsified { witness } => Verdict::Falsified((*witness).into()),
            ForecastVerdict::Unknown(reason) => Verdict::Unknown(reason),
        };
        let findings = Findings::Forecasts {
            mae: finite(report.error),
            limit: finite(report.limit),
            certified: finite(report.worst),
            attacked: finite(report.attacked),
        };
        let stages = stage_times(&report.stages);
        Answer { verdict, findings, stages, graph: report.graph, elapsed: started.elapsed() }
    }

    /// Adds what an attack finds to a report; says whether that is worse than what was proved to be the worst.
    fn add_attack(
        &self,
        attack: AttackPlan,
        plan: &Plan,
        started: Instant,
        budget: Budget<'_>,
        report: &mut ForecastReport,
    ) -> bool {
        let began = Instant::now();
        let late = || budget.timeout.is_some_and(|limit| started.elapsed() >= limit);
        let stop = || (budget.interrupted)() || late();
        let found = self.attack(attack, precision_of(plan.arithmetic), &stop);
        report.stages.push(StageReport { name: "attack".into(), elapsed: began.elapsed() });
        let Some(found) = found else { return false };
        let reached = finite(Some(found.error));
        report.attacked = reached.into_iter().chain(report.attacked).reduce(f64::max);
        let open = matches!(report.verdict, ForecastVerdict::Unknown(_));
        if let Some(witness) = found.worst.filter(|_| found.breaks && open) {
            report.verdict = ForecastVerdict::Falsified { witness: Box::new(witness) };
        }
        found.breaks && report.verdict == ForecastVerdict::Verified
            || contradicts(report.worst, report.attacked)
    }

    /// Tries methods for what is left of the time, with an attack before the last.
    fn bounds(
        &self,
        plan: &Plan,
        methods: Vec<SeriesMethod>,
        attack: Option<SeriesAttack>,
        started: Instant,
        budget: Budget<'_>,
    ) -> ForecastReport {
        let settings = ForecastSettings {
            tolerance: self.tolerance,
            attack,
            methods,
            mix: MixForm::Exact,
            step_form: plan.step_form,
            arithmetic: plan.arithmetic,
        };
        let left = budget.timeout.map(|limit| limit.saturating_sub(started.elapsed()));
        let mut report = ForecastVerifier::new(self.network).certify(
            &self.observations,
            &self.truth,
            &self.truth_mask,
            &self.perturbation,
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

    fn target(&self) -> Result<Target<'_>, Reason> {
        Target::new(self.network, self.observations.target_time).map_err(|e| Reason::Concrete(e.to_string()))
    }

    /// The property, from the prediction of the concrete program. `None` if it has none.
    fn property(&self, target: &Target<'_>, precision: Precision) -> Option<ForecastProperty> {
        let prediction = target.forecaster.run(&self.observations, precision).ok()?.output().to_vec();
        ForecastProperty::new(&self.truth, &self.truth_mask, &prediction, self.tolerance)
    }

    /// All steps of an attack, also beyond the first series that breaks the property, so that its error is the worst
    /// seen. The worst series is run once more; `breaks` says whether that run breaks the property. `None` if the
    /// network cannot be run on the record, or nothing is observed at the target.
    fn attack(
        &self,
        attack: AttackPlan,
        precision: Precision,
        stop: &dyn Fn() -> bool,
    ) -> Option<SeriesAttackOutcome> {
        let target = self.target().ok()?;
        let property = self.property(&target, precision)?;
        let endless = ForecastProperty { limit: f64::INFINITY, ..property.clone() };
        let mut found = SeriesAttack::from(attack).run(
            &target,
            &self.observations,
            &self.perturbation,
            &endless,
            precision,
            stop,
        );
        let again = found.worst.as_ref().and_then(|worst| {
            let run = target.forecaster.run(worst, precision).ok()?;
            Some(property.error(run.output()))
        });
        found.breaks = again.is_some_and(|error| error >= property.limit);
        Some(found)
    }

    pub(super) fn strike(&self, plan: &AttackPlan, precision: Precision, stop: &dyn Fn() -> bool) -> Struck {
        let mae = self.run(precision).ok().map(|run| self.error(&run.output));
        let found = self.attack(*plan, precision, stop);
        let attacked = finite(found.as_ref().map(|f| f.error));
        let broken = found.filter(|f| f.breaks).and_then(|f| f.worst).map(Into::into);
        Struck::Forecasts { mae, attacked, broken }
    }

    /// The worst prediction an attack finds, and its error.
    pub fn worst_prediction(
        &self,
        plan: &AttackPlan,
        precision: Precision,
        stop: &dyn Fn() -> bool,
    ) -> Option<(Vec<f64>, f64)> {
        let found = self.attack(*plan, precision, stop)?;
        let worst = found.worst?;
        let forecaster = Forecaster::new(self.network, worst.target_time).ok()?;
        Some((forecaster.run(&worst, precision).ok()?.output().to_vec(), found.error))
    }

    /// The mean absolute error of a prediction.
    pub fn error(&self, prediction: &[f64]) -> f64 {
        mean_absolute_error(prediction, &self.truth, &self.truth_mask)
    }

    pub(super) fn challenge(
        &self,
        (limit, certified): (f64, f64),
        points: usize,
        seed: u64,
        precision: Precision,
        stop: &dyn Fn() -> bool,
    ) -> Tried {
        let mut tried = Tried::NOTHING;
        let Ok(target) = self.target() else { return tried };
        let region = self.perturbation.inner_region(&self.observations);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut point = self.observations.clone();
        let mut uphill = 0;
        while tried.points < points && !stop() {
            if uphill == 0 {
                let corner = random.bool();
                scatter(&mut point.statics, &region.statics, corner, &mut random);
                scatter(&mut point.values, &region.values, corner, &mut random);
                uphill = 8;
            }
            uphill -= 1;
            if precision == Precision::Float32 {
                settle(&mut point, &self.observations, &region);
            }
            let Ok(run) = target.forecaster.run(&point, precision) else {
                tried.note(true, f64::INFINITY);
                uphill = 0;
                continue;
            };
            let error = self.error(run.output());
            // The limit is not to be reached; the sum of the error rounds.
            tried.note(error * (1.0 - 1e-12) >= limit, certified - error);
            let sign =
                |i: usize| if self.truth_mask[i] { (run.output()[i] - self.truth[i]).signum() } else { 0.0 };
            let cotangent: Vec<f64> = (0..self.truth.len()).map(sign).collect();
            let gradient = run.pull_back(&point, &cotangent);
            let step = random.f64();
            climb(&mut point.statics, &gradient.statics, &region.statics, step);
            climb(&mut point.values, &gradient.values, &region.values, step);
        }
        tried
    }

    pub(super) fn bound<R>(
        &self,
        way: Way,
        budget: Budget<'_>,
        show: impl FnOnce(Bounded<'_>) -> R,
    ) -> Result<R, Reason> {
        let clock = Clock::start(budget);
        let target = self.target()?;
        let nothing = || Reason::Concrete("nothing is observed at the target, or it is no number".into());
        let property = self.property(&target, precision_of(way.arithmetic)).ok_or_else(nothing)?;
        let enclosure =
            Enclosure::new(&target, &self.observations, &self.perturbation, series_way(way), clock)?;
        let boxes = enclosure.boxes();
        let pick = |side: &[f64]| property.observed.iter().map(|&i| side[i]).collect();
        let intervals = BoxVec::new(pick(&boxes.lower), pick(&boxes.upper));
        let mut worst = property.worst(&intervals);
        if way.word != Word::Box {
            worst = worst.min(property.worst_together(&enclosure, &intervals)?);
        }
        let (margin, size) = (property.limit - worst, enclosure.graph_size());
        Ok(show(Bounded { margin, size, graph: enclosure.graph() }))
    }

    /// Certified intervals of all features. `auto` goes on step by step where boxes grew beyond use.
    pub fn band(&self, plan: &Plan, budget: Budget<'_>) -> Result<Band, Reason> {
        let clock = Clock::start(budget);
        let rescue = plan.steps(0.0, 0).into_iter().find_map(|step| match step {
            Step::Rescue(word) => Some(word),
            _ => None,
        });
        match (self.band_by(plan.way(), clock), rescue) {
            (Err(Reason::Overflow { .. }), Some(word)) => self.band_by(Way { word, ..plan.way() }, clock),
            (band, _) => band,
        }
    }

    fn band_by(&self, way: Way, clock: Clock<'_>) -> Result<Band, Reason> {
        let target = self.target()?;
        let nothing = || Reason::Concrete("nothing is observed at the target, or it is no number".into());
        let property = self.property(&target, precision_of(way.arithmetic)).ok_or_else(nothing)?;
        let enclosure =
            Enclosure::new(&target, &self.observations, &self.perturbation, series_way(way), clock)?;
        let all: Vec<usize> = (0..self.truth.len()).collect();
        let intervals = enclosure.intervals(&all)?;
        let pick = |side: &[f64]| property.observed.iter().map(|&i| side[i]).collect();
        let seen = BoxVec::new(pick(&intervals.lower), pick(&intervals.upper));
        let certified = property.worst(&seen).min(property.worst_together(&enclosure, &seen)?);
        Ok(Band { intervals, certified, method: way.word })
    }

    pub(super) fn run(&self, precision: Precision) -> Result<Ran, String> {
        let forecaster =
            Forecaster::new(self.network, self.observations.target_time).map_err(|e| e.to_string())?;
        let run = forecaster.run(&self.observations, precision).map_err(|e| e.to_string())?;
        let solution = run.solution();
        Ok(Ran {
            output: run.output().to_vec(),
            trajectory: solution.map(|s| s.trajectory.clone()).unwrap_or_default(),
            accepted: solution.map_or(0, Solution::accepted),
            rejected: solution.map_or(0, Solution::rejected),
            evaluations: solution.map_or(0, |s| s.evaluations),
            within_tolerance: solution.is_none_or(|s| s.stop == StopReason::Finished),
        })
    }
}

impl Band {
    /// Whether a prediction that was seen lies outside, or its error above what was proved. That cannot be, but for
    /// rounding.
    pub fn excludes(&self, prediction: &[f64], error: f64) -> bool {
        let slack = |x: f64| 1e-6 * (1.0 + x.abs());
        let outside = |i: usize| {
            let (x, bounds) = (prediction[i], self.intervals.get(i));
            x < bounds.lower - slack(x) || x > bounds.upper + slack(x)
        };
        contradicts(Some(self.certified), Some(error)) || (0..prediction.len()).any(outside)
    }
}

/// Whether more was seen than was proved to be the most. That cannot be, but for rounding.
fn contradicts(proved: Option<f64>, seen: Option<f64>) -> bool {
    matches!((proved, seen), (Some(proved), Some(seen)) if seen > proved + 1e-6 * (1.0 + proved.abs()))
}

/// A random point or corner of a box.
fn scatter(values: &mut [f64], allowed: &BoxVec, corner: bool, random: &mut fastrand::Rng) {
    for (i, x) in values.iter_mut().enumerate() {
        let u = if corner { random.f64().round() } else { random.f64() };
        let (low, high) = (allowed.lower[i], allowed.upper[i]);
        *x = (low + u * (high - low)).clamp(low, high);
    }
}

/// A step upwards, a part of the way across.
fn climb(values: &mut [f64], gradient: &[f64], allowed: &BoxVec, part: f64) {
    for (i, x) in values.iter_mut().enumerate().filter(|(i, _)| gradient[*i] != 0.0) {
        let (low, high) = (allowed.lower[i], allowed.upper[i]);
        *x = (*x + part * (high - low) * gradient[i].signum()).clamp(low, high);
    }
}

/// A float32 program sees float32 series; what rounds out of the region is moved to the given one.
fn settle(point: &mut Observations, given: &Observations, region: &SeriesRegion) {
    let round = |values: &mut [f64], given: &[f64], allowed: &BoxVec| {
        for (i, x) in values.iter_mut().enumerate() {
            let rounded = f64::from(*x as f32);
            *x = if allowed.get(i).contains(rounded) { rounded } else { given[i] };
        }
    };
    round(&mut point.statics, &given.statics, &region.statics);
    round(&mut point.values, &given.values, &region.values);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_not_beyond_what_was_proved() {
        assert!(contradicts(Some(0.5), Some(0.6)));
        assert!(!contradicts(Some(0.5), Some(0.5)) && !contradicts(None, Some(0.5)));
        let intervals = BoxVec::new(vec![0.0], vec![1.0]);
        let band = Band { intervals, certified: 0.5, method: Word::Tight };
        assert!(!band.excludes(&[1.0], 0.5));
        assert!(band.excludes(&[1.1], 0.5) && band.excludes(&[0.5], 0.6) && band.excludes(&[-0.1], 0.1));
    }
}
