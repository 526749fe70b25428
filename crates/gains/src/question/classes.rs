//! Does an image keep its class within a radius? The calls into the verifier of classifiers.

use gains_core::{BoxVec, Interval, Precision};
use gains_ode::{Inference, StopReason};
use gains_verify::limits::Clock;
use gains_verify::verifier::Settings;
use gains_verify::{Attack, Ball, Budget, Method, Reason, Stage};

use super::plan::{Step, Way, Word};
use super::{
    Answer, AttackPlan, Bounded, Findings, Model, Plan, Ran, Struck, Tried, Verdict, Witness, precision_of,
    stage_times,
};

/// Values a pixel can take.
const PIXELS: Interval = Interval::new(0.0, 1.0);

/// An image, its class and a radius.
pub struct ClassQuestion<'a> {
    model: &'a Model,
    image: Vec<f64>,
    label: usize,
    eps: f64,
}

impl From<AttackPlan> for Attack {
    fn from(plan: AttackPlan) -> Self {
        let AttackPlan { steps, step_size, restarts, loss, seed } = plan;
        Self { steps, step_size, restarts, loss, seed }
    }
}

/// The verifier's name of a method; `stepwise`, which images do not have, is refused before it comes to this.
fn method(word: Word) -> Method {
    match word {
        Word::Box => Method::Box,
        Word::Linear => Method::Linear,
        Word::Gains => Method::Gains,
        Word::Tight | Word::Stepwise => Method::Tight,
        Word::Symbolic => Method::Symbolic,
    }
}

fn stage(step: Step) -> Stage {
    match step {
        Step::Attack(attack) | Step::Worst(attack) => Stage::Attack(attack.into()),
        Step::Bound(word) => Stage::Bound(method(word)),
        Step::Rescue(word) => Stage::Rescue(method(word)),
        Step::Branch => Stage::Branch,
    }
}

impl<'a> ClassQuestion<'a> {
    /// Asks whether `image` is told to be `label` however it moves by at most `eps`.
    pub fn new(model: &'a Model, image: Vec<f64>, label: usize, eps: f64) -> Self {
        Self { model, image, label, eps }
    }

    pub(super) fn decide(&self, plan: &Plan, seed: u64, workers: usize, budget: Budget<'_>) -> Answer {
        let settings = Settings {
            stages: plan.steps(self.eps, seed).into_iter().map(stage).collect(),
            step_form: plan.step_form,
            arithmetic: plan.arithmetic,
            pixels: PIXELS,
            workers,
        };
        let report = self.model.verifier().certify(&self.image, self.label, self.eps, &settings, budget);
        let verdict = match report.verdict {
            gains_verify::Verdict::Verified => Verdict::Verified,
            gains_verify::Verdict::Falsified { witness } => Verdict::Falsified(Witness::Image(witness)),
            gains_verify::Verdict::Unknown(reason) => Verdict::Unknown(reason),
            gains_verify::Verdict::Misclassified => Verdict::Misclassified,
        };
        let findings = Findings::Classes {
            prediction: report.prediction,
            margin: report.margin.filter(|m| m.is_finite()),
            looseness: report.looseness.as_ref().map(ToString::to_string),
        };
        let stages = stage_times(&report.stages);
        Answer { verdict, findings, stages, graph: report.graph, elapsed: report.elapsed }
    }

    pub(super) fn strike(&self, plan: &AttackPlan, precision: Precision, stop: &dyn Fn() -> bool) -> Struck {
        let network = self.model.network();
        let predict =
            |image: &[f64]| Inference::run(network, image, precision).ok().map(|run| run.prediction());
        let prediction = predict(&self.image);
        if prediction != Some(self.label) {
            return Struck::Classes { prediction, broken: None, margin: f64::NAN };
        }
        let ball = Ball::new(network, &self.image, self.label, self.eps, PIXELS, precision);
        let found = Attack::from(*plan).run(&ball, stop);
        let broken = found.witness.and_then(|point| {
            let wrong = predict(&point)?;
            Some((Witness::Image(point), wrong))
        });
        Struck::Classes { prediction, broken, margin: found.margin }
    }

    pub(super) fn challenge(
        &self,
        margin: f64,
        points: usize,
        seed: u64,
        precision: Precision,
        stop: &dyn Fn() -> bool,
    ) -> Tried {
        let ball = BoxVec::ball(&self.image, self.eps, PIXELS);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tried = Tried::NOTHING;
        let mut point: Vec<f64> = Vec::new();
        let mut downhill = 0;
        while tried.points < points && !stop() {
            if downhill == 0 {
                let corner = random.bool();
                let pick = |i: usize, u: f64| {
                    let u = if corner { u.round() } else { u };
                    (ball.lower[i] + u * (ball.upper[i] - ball.lower[i])).clamp(ball.lower[i], ball.upper[i])
                };
                point = (0..ball.len()).map(|i| pick(i, random.f64())).collect();
                downhill = 8;
            }
            if precision == Precision::Float32 {
                // A float32 program sees float32 images; what rounds out of the ball is moved to the image.
                for (i, x) in point.iter_mut().enumerate() {
                    let rounded = f64::from(*x as f32);
                    let inside = ball.lower[i] <= rounded && rounded <= ball.upper[i];
                    *x = if inside { rounded } else { self.image[i] };
                }
            }
            let Ok(run) = Inference::run(self.model.network(), &point, precision) else {
                tried.note(true, f64::INFINITY);
                downhill = 0;
                continue;
            };
            let others = (0..run.output.len()).filter(|j| *j != self.label);
            let rival = others.max_by(|a, b| run.output[*a].total_cmp(&run.output[*b])).unwrap_or(self.label);
            let slack = run.output[self.label] - run.output[rival] - margin;
            tried.note(run.prediction() != self.label, slack);
            let mut cotangent = vec![0.0; run.output.len()];
            cotangent[self.label] = -1.0;
            cotangent[rival] += 1.0;
            let step = self.eps * random.f64();
            for (i, g) in run.pull_back(&cotangent).iter().enumerate().filter(|(_, g)| **g != 0.0) {
                point[i] = (point[i] + step * g.signum()).clamp(ball.lower[i], ball.upper[i]);
            }
            downhill -= 1;
        }
        tried
    }

    /// Bounds by one method, once, and shows what came out.
    pub fn bound<R>(
        &self,
        way: Way,
        budget: Budget<'_>,
        show: impl FnOnce(Bounded<'_>) -> R,
    ) -> Result<R, Reason> {
        let Way { word, step_form, arithmetic } = way;
        let settings = Settings { step_form, arithmetic, pixels: PIXELS, ..Settings::default() };
        let (verifier, clock) = (self.model.verifier(), Clock::start(budget));
        let (bounds, analysis) =
            verifier.bounds(&self.image, self.label, self.eps, method(word), &settings, clock)?;
        let graph = analysis.graphs().next();
        Ok(show(Bounded { margin: bounds.margin(), size: analysis.graph_size(), graph }))
    }

    pub(super) fn run(&self, precision: Precision) -> Result<Ran, String> {
        let run = Inference::run(self.model.network(), &self.image, precision).map_err(|e| e.to_string())?;
        let trajectory = run.solutions().next().map(|s| s.trajectory.clone()).unwrap_or_default();
        Ok(Ran {
            trajectory,
            accepted: run.solutions().map(gains_ode::Solution::accepted).sum(),
            rejected: run.solutions().map(gains_ode::Solution::rejected).sum(),
            evaluations: run.solutions().map(|s| s.evaluations).sum(),
            within_tolerance: run.solutions().all(|s| s.stop == StopReason::Finished),
            output: run.output.clone(),
        })
    }

    /// The same image and radius asked of another network: does it keep the answer it gives itself?
    pub fn about_own_answer<'b>(
        &self,
        model: &'b Model,
        precision: Precision,
    ) -> Result<ClassQuestion<'b>, String> {
        let run = Inference::run(model.network(), &self.image, precision).map_err(|e| e.to_string())?;
        Ok(ClassQuestion { model, image: self.image.clone(), label: run.prediction(), eps: self.eps })
    }

    /// Whether the concrete solver finds the class.
    pub fn is_correct(&self) -> bool {
        let run =
            Inference::run(self.model.network(), &self.image, precision_of(gains_core::Arithmetic::Real));
        run.is_ok_and(|run| run.prediction() == self.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{ArithmeticArg, BoundArgs, MethodArg};
    use crate::question::{Purpose, Task};

    /// `auto` is the verifier's own cascade.
    #[test]
    fn auto_is_the_cascade() {
        let bounds = BoundArgs { method: MethodArg::Auto, step_form: None, arithmetic: ArithmeticArg::Real };
        for attack in [None, Some(AttackPlan { steps: 40, ..AttackPlan::PAPER })] {
            let plan = Plan::new(Task::Classes, &bounds, attack, Purpose::Certify).unwrap();
            let ours: Vec<Stage> = plan.steps(0.1, 5).into_iter().map(stage).collect();
            let theirs = Settings::cascade(0.1, attack.map(|a| a.on(5).into()));
            assert_eq!((ours, plan.step_form), (theirs.stages, theirs.step_form));
        }
    }
}
