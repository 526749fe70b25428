//! From an interval of error estimates to the set of actions a step-size controller may take.

use gains_core::Interval;

/// What the controller does after a trial step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// The error is too large: repeat with a smaller step.
    Reject,
    /// Accept and keep the step size.
    Keep,
    /// Accept and enlarge the step size.
    Increase,
}

impl Action {
    /// All actions, in the order of growing step size.
    pub const ALL: [Self; 3] = [Self::Reject, Self::Keep, Self::Increase];

    /// 0 for reject, 1 for keep, 2 for increase, as the authors log them.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// A set of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ActionSet(u8);

impl ActionSet {
    /// The set of one action.
    pub fn only(action: Action) -> Self {
        Self(1 << action.code())
    }

    /// Adds an action if `possible`.
    #[must_use]
    pub fn with(self, action: Action, possible: bool) -> Self {
        Self(self.0 | (u8::from(possible) << action.code()))
    }

    /// Whether the action is in the set.
    pub fn contains(self, action: Action) -> bool {
        self.0 >> action.code() & 1 == 1
    }

    /// The members, in the order of growing step size.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.into_iter().filter(move |action| self.contains(*action))
    }
}

impl FromIterator<Action> for ActionSet {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        actions.into_iter().fold(Self::default(), |set, action| set.with(action, true))
    }
}

/// The rule of the controlled adaptive solver (paper, section 4): increase if `δ ≤ τ_α = α⁻ᵖ`, keep if
/// `τ_α < δ ≤ 1`, reject if `δ > 1`. For an interval of δ: every action some δ in it leads to. An end that is NaN says
/// nothing, so it excludes nothing.
pub fn controlled(error: Interval, increase_below: f64) -> ActionSet {
    let lower = if error.lower.is_nan() { f64::NEG_INFINITY } else { error.lower };
    let upper = if error.upper.is_nan() { f64::INFINITY } else { error.upper };
    ActionSet::default()
        .with(Action::Increase, lower <= increase_below)
        .with(Action::Keep, lower <= 1.0 && upper > increase_below)
        .with(Action::Reject, upper > 1.0)
}

/// Continuous adaptive rule `h ← h·clamp(safety·δ^(−1/p), shrink, grow)`; an accepted step never shrinks
/// the step size. Returns whether the step is accepted and the factor.
pub fn adaptive(error: f64, order: u32, safety: f64, shrink: f64, grow: f64) -> (bool, f64) {
    let accepted = error <= 1.0;
    let least = if accepted { 1.0 } else { shrink };
    (accepted, growth(error, f64::from(order), safety, least, grow))
}

/// `clamp(safety·δ^(−1/root), least, most)`, the factor by which a step of error δ may grow; NaN stays NaN.
pub fn growth(error: f64, root: f64, safety: f64, least: f64, most: f64) -> f64 {
    if error == 0.0 {
        return most;
    }
    let wished = safety * error.powf(-1.0 / root);
    if wished.is_nan() { wished } else { wished.max(least).min(most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLD: f64 = 0.03125;

    #[test]
    fn a_point_allows_exactly_one_action() {
        for (error, action) in [
            (0.0, Action::Increase),
            (THRESHOLD, Action::Increase),
            (THRESHOLD.next_up(), Action::Keep),
            (1.0, Action::Keep),
            (1.0_f64.next_up(), Action::Reject),
            (1e300, Action::Reject),
        ] {
            assert_eq!(controlled(Interval::point(error), THRESHOLD), ActionSet::only(action), "{error}");
        }
    }

    #[test]
    fn an_interval_allows_the_union_of_its_points() {
        let grid: Vec<f64> = (0..200).map(|i| 0.0003 * 1.06_f64.powi(i)).collect();
        for (i, &low) in grid.iter().enumerate().step_by(7) {
            for &high in grid[i..].iter().step_by(5) {
                let set = controlled(Interval::new(low, high), THRESHOLD);
                for &inside in grid.iter().filter(|x| low <= **x && **x <= high) {
                    let single = controlled(Interval::point(inside), THRESHOLD);
                    assert!(single.iter().all(|action| set.contains(action)));
                }
            }
        }
    }

    #[test]
    fn an_end_that_is_nan_excludes_nothing() {
        let all: ActionSet = Action::ALL.into_iter().collect();
        assert_eq!(controlled(Interval::point(f64::NAN), THRESHOLD), all);
        let below = controlled(Interval { lower: f64::NAN, upper: 0.5 }, THRESHOLD);
        assert_eq!(below, [Action::Keep, Action::Increase].into_iter().collect());
        let above = controlled(Interval { lower: 0.5, upper: f64::NAN }, THRESHOLD);
        assert_eq!(above, [Action::Reject, Action::Keep].into_iter().collect());
    }

    #[test]
    fn a_step_grows_by_the_root_of_its_error() {
        assert_eq!(adaptive(0.0, 5, 0.9, 0.2, 10.0), (true, 10.0));
        assert_eq!(adaptive(1.0, 5, 0.9, 0.2, 10.0), (true, 1.0));
        assert_eq!(adaptive(f64::INFINITY, 5, 0.9, 0.2, 10.0), (false, 0.2));
        let (accepted, factor) = adaptive(32.0, 5, 0.9, 0.2, 10.0);
        assert!(!accepted && (factor - 0.45).abs() < 1e-15);
        assert!(growth(f64::NAN, 4.0, 0.9, 0.2, 10.0).is_nan());
    }
}
