//! Projected gradient descent: looking for inputs inside the region that violate the property.

use gains_core::Precision;
use gains_ode::Inference;
use serde::{Deserialize, Serialize};

use crate::limits::Clock;
use crate::problem::{Point, Problem};
use crate::property::Property;

/// What the attack climbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttackLoss {
    /// Cross-entropy of the true class; the margin where there are no classes.
    #[default]
    CrossEntropy,
    /// By how much the property is violated.
    Margin,
}

/// Settings of an L∞ attack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attack {
    /// Gradient steps per restart.
    pub steps: usize,
    /// Size of one step.
    pub step_size: f64,
    /// Random starts.
    pub restarts: usize,
    /// What to climb.
    pub loss: AttackLoss,
    /// Seed of the random starts.
    pub seed: u64,
    /// Whether to go on beyond the first violation, for the worst that can be found.
    pub exhaustive: bool,
}

impl Default for Attack {
    /// The paper's evaluation attack: 200 steps of 0.0025 on the cross-entropy, one start.
    fn default() -> Self {
        Self {
            steps: 200,
            step_size: 0.0025,
            restarts: 1,
            loss: AttackLoss::CrossEntropy,
            seed: 0,
            exhaustive: false,
        }
    }
}

impl Attack {
    /// The same with steps that cross a region of the given radius, however few there are.
    #[must_use]
    pub fn crossing(self, radius: f64) -> Self {
        let reach = if radius.is_finite() { radius } else { 0.0 };
        Self { step_size: self.step_size.max(4.0 * reach / self.steps.max(1) as f64), ..self }
    }
}

/// What an attack found.
#[derive(Clone, Debug, PartialEq)]
pub struct AttackOutcome {
    /// Inputs that certainly violate the property when run alone, if some were found.
    pub witness: Option<Point>,
    /// Smallest margin seen.
    pub margin: f64,
    /// The inputs of the region that had it.
    pub worst: Option<Point>,
}

impl AttackOutcome {
    const NOTHING: Self = Self { witness: None, margin: f64::INFINITY, worst: None };

    fn take(&mut self, other: Self) {
        if other.margin < self.margin {
            self.margin = other.margin;
            self.worst = other.worst.or(self.worst.take());
        }
        self.witness = self.witness.take().or(other.witness);
    }
}

/// Derivative of the loss with respect to the outputs.
fn cotangent(property: &Property, outputs: &[f64], loss: AttackLoss) -> Vec<f64> {
    match (property, loss) {
        (Property::Label { label, .. }, AttackLoss::CrossEntropy) => {
            let top = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut p: Vec<f64> = outputs.iter().map(|l| (l - top).exp()).collect();
            let sum: f64 = p.iter().sum();
            p.iter_mut().for_each(|p| *p /= sum);
            p[*label] -= 1.0;
            p
        }
        _ => property.downhill(outputs),
    }
}

/// How the inputs of a problem are judged: only what is certainly inside the region counts, and it is run alone by the
/// concrete solver.
pub struct Hunt<'a> {
    problem: &'a Problem<'a>,
    precision: Precision,
    clock: Clock<'a>,
}

/// Gradient steps from an input that a bound points at.
const STEPS_NEAR: usize = 6;

/// One descent.
#[derive(Clone, Copy)]
struct Descent {
    steps: usize,
    step_size: f64,
    loss: AttackLoss,
    exhaustive: bool,
}

impl<'a> Hunt<'a> {
    /// In the region of a problem.
    pub fn new(problem: &'a Problem<'a>, precision: Precision, clock: Clock<'a>) -> Self {
        Self { problem, precision, clock }
    }

    /// A violation next to inputs that a bound points at, if a few steps downhill lead to one.
    pub fn near(&self, point: &Point) -> Option<Point> {
        let step_size = self.problem.region.radius / STEPS_NEAR as f64;
        let descent = Descent { steps: STEPS_NEAR, step_size, loss: AttackLoss::Margin, exhaustive: false };
        self.descend(point.clone(), descent).witness
    }

    /// Looks for a violation.
    pub fn run(&self, attack: &Attack) -> AttackOutcome {
        let mut found = AttackOutcome::NOTHING;
        let mut random = fastrand::Rng::with_seed(attack.seed ^ 0x9E37_79B9_7F4A_7C15);
        let Attack { steps, step_size, loss, exhaustive, .. } = *attack;
        for _ in 0..attack.restarts.max(1) {
            let start = self
                .problem
                .region
                .inner
                .iter()
                .map(|b| b.lower.iter().zip(&b.upper).map(|(l, u)| l + random.f64() * (u - l)).collect());
            let start = start.collect();
            found.take(self.descend(start, Descent { steps, step_size, loss, exhaustive }));
            if (found.witness.is_some() && !exhaustive) || self.clock.check(0).is_err() {
                break;
            }
        }
        found
    }

    /// Signed gradient steps from a point. Every iterate is run by the concrete solver; one that violates the property is
    /// a witness. A solver failure is none.
    fn descend(&self, mut point: Point, descent: Descent) -> AttackOutcome {
        let Problem { program, region, property, .. } = self.problem;
        let watch = self.clock.watch();
        let mut found = AttackOutcome::NOTHING;
        region.settle(&mut point, self.precision);
        for step in 0..=descent.steps {
            if self.clock.check(0).is_err() {
                break;
            }
            let inputs: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
            let Ok(run) = Inference::run_within(program, &inputs, self.precision, &watch) else { break };
            let margin = property.margin_at(&run.output);
            // Where the region is narrower than the program's format, no point of it may be left; what is outside
            // says nothing.
            let inside = region.contains(&point);
            if inside && margin < found.margin {
                found.margin = margin;
                found.worst = Some(point.clone());
            }
            if inside && property.is_violated(&run.output) {
                if found.witness.is_none() || found.worst.as_ref() == Some(&point) {
                    found.witness = Some(point.clone());
                }
                if !descent.exhaustive {
                    break;
                }
            }
            if step == descent.steps {
                break;
            }
            let cotangent = cotangent(property, &run.output, descent.loss);
            let Ok(gradients) = run.gradients_within(&cotangent, &watch) else { break };
            for (x, g) in point.iter_mut().zip(&gradients).flat_map(|(x, g)| x.iter_mut().zip(g)) {
                if *g != 0.0 {
                    *x += descent.step_size * g.signum();
                }
            }
            region.settle(&mut point, self.precision);
        }
        found
    }
}
