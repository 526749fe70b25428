use super::{Place, Rule};
use crate::device::AdamStep;

/// Gradient descent with momentum, as PyTorch's `SGD` does it: `v ← beta1·v + g`, then a step of `rate·v`.
pub(super) struct Sgd<'a> {
    step: &'a AdamStep,
}

impl<'a> Sgd<'a> {
    pub(super) fn new(step: &'a AdamStep) -> Self {
        Self { step }
    }
}

impl Rule for Sgd<'_> {
    fn follow(&self, at: Place, gradient: f64) -> Place {
        let gradient = gradient + self.step.decay * at.parameter;
        let first = self.step.beta1 * at.first + gradient;
        Place { parameter: at.parameter - self.step.rate * first, first, second: at.second }
    }
}
