//! A concrete run of the usual continuous controller, which chooses its step sizes freely.
//!
//! Nothing can be proved about it, since its trajectories form no finite graph; it is what the controlled solver is compared
//! with, and what networks of elsewhere were trained by.

use crate::controller::{self, Action};
use crate::timeline::arrival;

/// How far a step may grow or shrink: `h ← h·clamp(safety·δ^(−1/p), shrink, grow)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FreeRule {
    /// Order p of the method.
    pub order: u32,
    /// Safety factor.
    pub safety: f64,
    /// Strongest reduction in one step.
    pub shrink: f64,
    /// Strongest growth in one step.
    pub grow: f64,
}

/// A run from 0 to the end time. Ask for the [`FreeWalk::attempt`], try it, and report its error by
/// [`FreeWalk::advance`], until there is none.
#[derive(Clone, Debug)]
pub struct FreeWalk {
    rule: FreeRule,
    time: f64,
    step: f64,
    end: f64,
}

/// The step became too small to go on with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stuck {
    /// Where.
    pub time: f64,
    /// The step.
    pub step: f64,
}

impl FreeWalk {
    /// A run that tries this step first.
    pub fn new(rule: FreeRule, first: f64, end: f64) -> Self {
        Self { rule, time: 0.0, step: first.min(end), end }
    }

    /// Time and size of the step to try next; none at the end time, up to rounding.
    pub fn attempt(&self) -> Option<(f64, f64)> {
        (self.time < self.arrived()).then_some((self.time, self.step))
    }

    /// Goes on with the error estimate `δ` of the attempt, and says what the controller did. NaN is rejected.
    pub fn advance(&mut self, error: f64) -> Result<Action, (Action, Stuck)> {
        let FreeRule { order, safety, shrink, grow } = self.rule;
        let (accepted, factor) = controller::adaptive(error, order, safety, shrink, grow);
        let action = match (accepted, factor > 1.0) {
            (false, _) => Action::Reject,
            (true, false) => Action::Keep,
            (true, true) => Action::Increase,
        };
        if accepted {
            self.time += self.step;
        }
        self.step = (self.step * factor).min(self.end - self.time);
        match self.step < 1e-14 * self.end && self.time < self.arrived() {
            true => Err((action, Stuck { time: self.time, step: self.step })),
            false => Ok(action),
        }
    }

    /// From here on the end is reached: what is left is rounding.
    fn arrived(&self) -> f64 {
        self.end - arrival(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: FreeRule = FreeRule { order: 5, safety: 0.9, shrink: 0.2, grow: 10.0 };

    #[test]
    fn steps_add_up_to_the_end_time() {
        let mut walk = FreeWalk::new(RULE, 0.01, 1.0);
        let (mut sum, mut tried) = (0.0, Vec::new());
        while let Some((time, step)) = walk.attempt() {
            assert!((time - sum).abs() < 1e-15);
            // An error that grows with the fifth power of the step, 1 at a step of 0.3.
            let action = walk.advance((step / 0.3).powi(5)).unwrap();
            if action != Action::Reject {
                sum += step;
            }
            tried.push((step, action));
        }
        assert_eq!(sum, 1.0);
        assert_eq!(&tried[..2], &[(0.01, Action::Increase), (0.1, Action::Increase)]);
        assert!(tried.len() < 8 && tried.iter().any(|(step, _)| (step - 0.27).abs() < 1e-12));
    }

    #[test]
    fn a_step_that_is_never_good_enough_ends() {
        let mut walk = FreeWalk::new(RULE, 0.5, 1.0);
        let stuck = std::iter::repeat_with(|| walk.advance(f64::INFINITY)).take(40).find_map(Result::err);
        let (action, at) = stuck.unwrap();
        assert_eq!((action, at.time), (Action::Reject, 0.0));
        assert!(at.step < 1e-14);
    }

    #[test]
    fn a_first_step_beyond_the_end_is_clipped() {
        let mut walk = FreeWalk::new(RULE, 7.0, 2.0);
        assert_eq!(walk.attempt(), Some((0.0, 2.0)));
        assert_eq!(walk.advance(0.5), Ok(Action::Increase));
        assert_eq!(walk.attempt(), None);
    }
}
