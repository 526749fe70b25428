use super::{Place, Rule};
use crate::device::AdamStep;

/// Adam with L2 decay added to the gradient, as PyTorch's `Adam` does it.
pub(super) struct Adam<'a> {
    pub(super) step: &'a AdamStep,
    decay: f64,
    rate: f64,
    root: f64,
}

impl<'a> Adam<'a> {
    pub(super) fn new(step: &'a AdamStep) -> Self {
        let count = step.count as f64;
        let (correction1, correction2) = (1.0 - step.beta1.powf(count), 1.0 - step.beta2.powf(count));
        Self { step, decay: step.decay, rate: step.rate / correction1, root: correction2.sqrt() }
    }
}

impl Adam<'_> {
    /// The same without decay.
    pub(super) fn without_decay(self) -> Self {
        Self { decay: 0.0, ..self }
    }
}

impl Rule for Adam<'_> {
    fn follow(&self, at: Place, gradient: f64) -> Place {
        let step = self.step;
        let gradient = gradient + self.decay * at.parameter;
        let first = step.beta1 * at.first + (1.0 - step.beta1) * gradient;
        let second = step.beta2 * at.second + (1.0 - step.beta2) * gradient * gradient;
        let parameter = at.parameter - self.rate * first / (second.sqrt() / self.root + step.epsilon);
        Place { parameter, first, second }
    }
}
