//! The step-size automaton together with its decision rule: the one place that knows how a solver goes on.
//!
//! Everything that follows a controlled adaptive solver (or one with equal steps) goes through [`Grid`]: an interval of
//! error estimates allows a set of actions ([`Grid::decide`]), and a set of actions leads to places
//! ([`Grid::branches`]). A concrete run is the case of a one-point interval, and has one way to go ([`Walk`]).

use gains_core::Interval;
use gains_core::description::{ControlledSpec, ControllerSpec, SolverSpec};
use thiserror::Error;

use crate::controller::{self, Action, ActionSet};
use crate::tableau::Tableau;
use crate::timeline::{Moment, Place, Timeline};

/// Why the step sizes of a solver do not lie on a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoGrid {
    /// The controller chooses its step sizes freely.
    #[error("a continuous adaptive controller chooses its step sizes freely")]
    NotControlled,
    /// The controller needs an error estimate.
    #[error("method {method} has no error estimate, which its controller needs")]
    NoErrorEstimate {
        /// The method.
        method: &'static str,
    },
}

/// The automaton and decision rule of a solver whose trajectories form a finite graph.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The automaton.
    pub line: Timeline,
    /// α⁻ᵖ; `None` for fixed steps, which are always kept.
    pub increase_below: Option<f64>,
    /// τ.
    pub tolerance: f64,
}

impl Grid {
    /// The grid of a solver.
    pub fn new(spec: &SolverSpec) -> Result<Self, NoGrid> {
        match &spec.controller {
            ControllerSpec::Fixed { steps } => Ok(Self::fixed(*steps, spec.end_time)),
            ControllerSpec::ControlledAdaptive(controlled) => {
                let tableau = Tableau::of(spec.method);
                if !tableau.estimates_error() {
                    return Err(NoGrid::NoErrorEstimate { method: tableau.name });
                }
                Ok(Self::controlled(controlled, tableau, spec.end_time))
            }
            ControllerSpec::Adaptive { .. } => Err(NoGrid::NotControlled),
        }
    }

    /// Equal steps, which are all kept.
    pub fn fixed(steps: u32, end: f64) -> Self {
        Self { line: Timeline::fixed(steps, end), increase_below: None, tolerance: 1.0 }
    }

    /// The grid of the controlled adaptive solver. The step may grow by α where `δ ≤ α⁻ᵖ`, p the order of the method:
    /// the error of the larger step is then expected to be at most 1.
    pub fn controlled(spec: &ControlledSpec, tableau: &Tableau, end: f64) -> Self {
        Self {
            line: Timeline::new(spec, end),
            increase_below: Some(f64::from(spec.factor).powi(-(tableau.order as i32))),
            tolerance: spec.tolerance,
        }
    }

    /// Whether the controller looks at the error of a step from here.
    pub fn judges(&self, place: &Place) -> bool {
        self.increase_below.is_some() && !place.settled
    }

    /// The step to try from a place.
    pub fn attempt(&self, place: &Place) -> Attempt {
        let (time, step) = (self.line.time(place), self.line.step(place));
        Attempt { place: *place, time, step, judged: self.judges(place) }
    }

    /// The actions that some error estimate `δ` in the interval leads to; only [`Action::Keep`] where nobody looks.
    pub fn decide(&self, place: &Place, error: Interval) -> ActionSet {
        match self.increase_below {
            Some(threshold) if !place.settled => controller::controlled(error, threshold),
            _ => ActionSet::only(Action::Keep),
        }
    }

    /// Where a set of actions leads; see [`Timeline::branches`].
    pub fn branches(&self, place: &Place, actions: ActionSet) -> impl Iterator<Item = (Action, Moment)> {
        self.line.branches(place, actions)
    }

    /// A concrete run from the start.
    pub fn walk(&self) -> Walk<'_> {
        Walk { grid: self, at: Moment::At(self.line.start()) }
    }
}

/// A step that is to be tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// Where in the automaton.
    pub place: Place,
    /// Time before the step.
    pub time: f64,
    /// Size of the step.
    pub step: f64,
    /// Whether the controller will look at its error.
    pub judged: bool,
}

/// A concrete run of the automaton: every error estimate has exactly one successor.
///
/// Ask for the [`Walk::attempt`], try it, and report its error by [`Walk::advance`], until there is none.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    grid: &'a Grid,
    at: Moment,
}

impl Walk<'_> {
    /// The step to try next; `None` at the end time.
    pub fn attempt(&self) -> Option<Attempt> {
        match &self.at {
            Moment::At(place) => Some(self.grid.attempt(place)),
            Moment::End => None,
        }
    }

    /// Goes on from an attempt with the error estimate `δ`, and says what the controller did. NaN is rejected.
    pub fn advance(&mut self, attempt: &Attempt, error: f64) -> Action {
        let place = &attempt.place;
        let actions = self.grid.decide(place, Interval::point(error));
        // Rejecting comes first, which matters for NaN alone: any other point allows one action.
        let first = self.grid.branches(place, actions).next();
        let (action, next) =
            first.unwrap_or_else(|| (Action::Reject, self.grid.line.follow(place, Action::Reject)));
        self.at = next;
        action
    }
}

#[cfg(test)]
mod tests {
    use gains_core::description::RungeKutta;

    use super::*;

    fn grid() -> Grid {
        let spec = ControlledSpec {
            factor: 2,
            tolerance: 0.01,
            initial_step: 0.3,
            minimum_step: 0.1,
            rejections_after_clipping: 1,
        };
        Grid::controlled(&spec, Tableau::of(RungeKutta::Dopri5), 1.0)
    }

    #[test]
    fn the_threshold_is_a_power_of_the_factor() {
        assert_eq!(grid().increase_below, Some(1.0 / 32.0));
    }

    #[test]
    fn only_a_controller_that_looks_decides() {
        let wide = Interval::new(0.0, 10.0);
        let grid = grid();
        let mut place = grid.line.start();
        assert!(grid.judges(&place) && grid.decide(&place, wide).iter().count() == 3);
        place.settled = true;
        assert!(!grid.judges(&place));
        assert_eq!(grid.decide(&place, wide), ActionSet::only(Action::Keep));
        let fixed = Grid::fixed(3, 1.0);
        assert!(!fixed.judges(&fixed.line.start()));
        assert_eq!(fixed.decide(&fixed.line.start(), wide), ActionSet::only(Action::Keep));
    }

    /// From 0.3 a step of 0.3 leads to 0.6, where 0.3 and 0.6 fit as little as each other: both are clipped to 0.4.
    #[test]
    fn an_increase_that_is_clipped_is_a_keep() {
        let grid = grid();
        let start = grid.line.start();
        let both = ActionSet::only(Action::Keep).with(Action::Increase, true);
        let apart: Vec<_> = grid.branches(&start, both).collect();
        assert_eq!(apart.len(), 2);
        let Moment::At(second) = apart[0].1 else { panic!("the end is far") };
        assert_eq!(grid.line.time(&second), 0.3);
        let Moment::At(third) = grid.line.follow(&second, Action::Keep) else { panic!("the end is far") };
        assert_ne!(grid.branches(&second, both).count(), 0);
        for actions in [both, ActionSet::only(Action::Increase), ActionSet::only(Action::Keep)] {
            let last: Vec<_> = grid.branches(&third, actions).collect();
            assert_eq!(last, [(Action::Keep, grid.line.follow(&third, Action::Keep))]);
        }
        let all = both.with(Action::Reject, true);
        let actions: Vec<_> = grid.branches(&third, all).map(|(action, _)| action).collect();
        assert_eq!(actions, [Action::Reject, Action::Keep]);
    }

    #[test]
    fn a_walk_is_one_of_the_branches_of_every_interval_around_it() {
        let grid = grid();
        let mut random = 7_u64;
        for _ in 0..200 {
            let mut walk = grid.walk();
            let mut tried = 0;
            while let Some(attempt) = walk.attempt() {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let error = (random >> 40) as f64 / (1 << 22) as f64;
                let around = grid.decide(&attempt.place, Interval::new(0.7 * error, 1.3 * error));
                let branches: Vec<_> = grid.branches(&attempt.place, around).collect();
                let action = walk.advance(&attempt, error);
                assert!(branches.contains(&(action, walk.at)), "{attempt:?} {error}");
                tried += 1;
                assert!(tried < 1000, "endless");
            }
        }
    }

    #[test]
    fn an_error_that_is_nan_is_rejected() {
        let grid = grid();
        let mut walk = grid.walk();
        let attempt = walk.attempt().expect("the start is not the end");
        assert_eq!(walk.advance(&attempt, f64::NAN), Action::Reject);
    }
}
