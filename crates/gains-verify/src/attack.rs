//! Projected gradient descent: looking for an input inside the region that the network gets wrong.

use gains_core::arithmetic::{down, up};
use gains_core::{BoxVec, Interval, Network, Precision};
use gains_ode::Inference;
use serde::{Deserialize, Serialize};

/// What the attack climbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttackLoss {
    /// Cross-entropy of the true class.
    #[default]
    CrossEntropy,
    /// Largest other logit minus the true one.
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
}

impl Default for Attack {
    /// The paper's evaluation attack: 200 steps of 0.0025 on the cross-entropy, one start.
    fn default() -> Self {
        Self { steps: 200, step_size: 0.0025, restarts: 1, loss: AttackLoss::CrossEntropy, seed: 0 }
    }
}

/// What an attack found.
#[derive(Clone, Debug, PartialEq)]
pub struct AttackOutcome {
    /// An input that is misclassified when run alone, if one was found.
    pub witness: Option<Vec<f64>>,
    /// Smallest `logit_label − logit_other` seen.
    pub margin: f64,
}

/// All images within `eps`, rounded inwards, so that a witness is certainly inside the region.
fn inner_ball(image: &[f64], eps: f64, pixels: Interval) -> BoxVec {
    let shrink = |x: f64, bound: f64| if bound.is_nan() { x } else { bound };
    BoxVec::new(
        image.iter().map(|&x| shrink(x, up(x - eps).max(pixels.lower).min(x))).collect(),
        image.iter().map(|&x| shrink(x, down(x + eps).min(pixels.upper).max(x))).collect(),
    )
}

/// Rounds a point to the program's format without leaving the ball.
fn settle(point: &mut [f64], ball: &BoxVec, precision: Precision) {
    for (i, x) in point.iter_mut().enumerate() {
        *x = x.clamp(ball.lower[i], ball.upper[i]);
        if precision == Precision::Float32 {
            let mut rounded = *x as f32;
            if f64::from(rounded) > ball.upper[i] {
                rounded = rounded.next_down();
            }
            if f64::from(rounded) < ball.lower[i] {
                rounded = rounded.next_up();
            }
            *x = f64::from(rounded);
        }
    }
}

/// By how much the label's logit is ahead of the next, and which that is.
pub(crate) fn margin(logits: &[f64], label: usize) -> (f64, usize) {
    let mut best = (f64::INFINITY, label);
    for (j, value) in logits.iter().enumerate().filter(|(j, _)| *j != label) {
        let m = logits[label] - value;
        if m < best.0 {
            best = (m, j);
        }
    }
    best
}

/// Derivative of the loss with respect to the logits.
fn cotangent(logits: &[f64], label: usize, loss: AttackLoss) -> Vec<f64> {
    match loss {
        AttackLoss::CrossEntropy => {
            let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut p: Vec<f64> = logits.iter().map(|l| (l - top).exp()).collect();
            let sum: f64 = p.iter().sum();
            p.iter_mut().for_each(|p| *p /= sum);
            p[label] -= 1.0;
            p
        }
        AttackLoss::Margin => {
            let mut g = vec![0.0; logits.len()];
            g[margin(logits, label).1] = 1.0;
            g[label] -= 1.0;
            g
        }
    }
}

/// The images within `eps` of one, and how they are judged: only what is certainly inside counts, and it is
/// run alone by the concrete solver.
pub struct Ball<'a> {
    network: &'a Network,
    label: usize,
    images: BoxVec,
    eps: f64,
    precision: Precision,
}

/// Gradient steps from an input that a bound points at.
const STEPS_NEAR: usize = 6;

impl<'a> Ball<'a> {
    /// The images within `eps` of `image`, pixels kept inside `pixels`.
    pub fn new(
        network: &'a Network,
        image: &[f64],
        label: usize,
        eps: f64,
        pixels: Interval,
        precision: Precision,
    ) -> Self {
        Self { network, label, images: inner_ball(image, eps, pixels), eps, precision }
    }

    /// A misclassified image next to an input that a bound points at, if a few steps downhill lead to one.
    pub fn near(&self, input: &[f64]) -> Option<Vec<f64>> {
        let step_size = self.eps / STEPS_NEAR as f64;
        self.descend(input.to_vec(), STEPS_NEAR, step_size, AttackLoss::Margin, &|| false).witness
    }

    /// Signed gradient steps from a point. Every iterate is run by the concrete solver; the first one that
    /// comes out wrong is the witness. A solver failure is no witness.
    fn descend(
        &self,
        mut point: Vec<f64>,
        steps: usize,
        step_size: f64,
        loss: AttackLoss,
        stop: &dyn Fn() -> bool,
    ) -> AttackOutcome {
        let mut best = f64::INFINITY;
        settle(&mut point, &self.images, self.precision);
        for step in 0..=steps {
            if stop() {
                break;
            }
            let Ok(run) = Inference::run(self.network, &point, self.precision) else { break };
            best = best.min(margin(&run.output, self.label).0);
            // Where the ball is narrower than the program's format, no point of it may be left.
            if run.prediction() != self.label && self.images.contains(&point) {
                return AttackOutcome { witness: Some(point), margin: best };
            }
            if step == steps {
                break;
            }
            let gradient = run.pull_back(&cotangent(&run.output, self.label, loss));
            for (x, g) in point.iter_mut().zip(&gradient) {
                if *g != 0.0 {
                    *x += step_size * g.signum();
                }
            }
            settle(&mut point, &self.images, self.precision);
        }
        AttackOutcome { witness: None, margin: best }
    }
}

impl Attack {
    /// Looks for a misclassified image in a ball. `stop` is asked before every step.
    pub fn run(&self, ball: &Ball<'_>, stop: &dyn Fn() -> bool) -> AttackOutcome {
        let mut best = f64::INFINITY;
        let mut random = fastrand::Rng::with_seed(self.seed ^ 0x9E37_79B9_7F4A_7C15);
        for _ in 0..self.restarts.max(1) {
            let BoxVec { lower, upper } = &ball.images;
            let point = lower.iter().zip(upper).map(|(l, u)| l + random.f64() * (u - l)).collect();
            let found = ball.descend(point, self.steps, self.step_size, self.loss, stop);
            best = best.min(found.margin);
            if found.witness.is_some() || stop() {
                return AttackOutcome { margin: best, ..found };
            }
        }
        AttackOutcome { witness: None, margin: best }
    }
}
