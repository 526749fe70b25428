use super::adam::Adam;
use super::{Place, Rule};
use crate::device::AdamStep;

/// Adam whose weights decay on their own: by `rate·decay` of themselves before each step.
pub(super) struct AdamW<'a>(Adam<'a>);

impl<'a> AdamW<'a> {
    pub(super) fn new(step: &'a AdamStep) -> Self {
        Self(Adam::new(step).without_decay())
    }
}

impl Rule for AdamW<'_> {
    fn follow(&self, at: Place, gradient: f64) -> Place {
        let step = self.0.step;
        let parameter = at.parameter * (1.0 - step.rate * step.decay);
        self.0.follow(Place { parameter, ..at }, gradient)
    }
}
