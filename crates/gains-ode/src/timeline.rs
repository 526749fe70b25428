//! Where a controlled adaptive solver can be: exact integers for time and step size.
//!
//! Before the step is clipped at the end time, time and step are whole multiples of one tick,
//! `h₀ α⁻ᴶ`, with J the number of times h₀ may be divided before the minimum step is undercut. Once a
//! step is clipped at time t_c, the remaining interval becomes the unit: progress and step are whole
//! multiples of `α⁻ᴿ` of it, R being the tolerated rejections. So two trajectories that meet, meet
//! exactly, and the concrete solver reads t and h off the same integers by the same expressions.

use std::cmp::Ordering;

use gains_core::description::ControlledSpec;

use crate::controller::{Action, ActionSet};

/// A state of the step-size automaton: a vertex of the trajectory graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Time before clipping, in ticks (the time of clipping afterwards).
    pub ticks: u64,
    /// Step before clipping, in ticks; 0 afterwards.
    pub step: u64,
    /// Part of the remaining interval already done, after clipping.
    pub progress: u64,
    /// Step as a part of the remaining interval, after clipping.
    pub fraction: u64,
    /// Rejections since clipping.
    pub rejections: u32,
    /// The solver has given up on the tolerance: every step is accepted as it is.
    pub settled: bool,
}

impl Place {
    /// Whether the step has been clipped at the end time.
    pub fn is_clipped(&self) -> bool {
        self.step == 0
    }
}

/// Smallest time first, then largest step; a topological order of every trajectory graph, since
/// accepting a step moves time forward and rejecting one makes the step smaller.
impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ticks
            .cmp(&other.ticks)
            .then(other.step.cmp(&self.step))
            .then(self.progress.cmp(&other.progress))
            .then(other.fraction.cmp(&self.fraction))
            .then(self.rejections.cmp(&other.rejections))
            .then(self.settled.cmp(&other.settled))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What follows an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Another step from here.
    At(Place),
    /// The end time is reached.
    End,
}

/// The part of `T / h₀` by which whole numbers of steps may fall short of it for the end time to be met exactly: many
/// roundings of the quotient, and far less than any step.
const MET_EXACTLY: f64 = 1e-12;

/// How close to the end time counts as having reached it: 1e-8, or that part of a shorter interval.
pub(crate) fn arrival(end: f64) -> f64 {
    1e-8 * end.min(1.0)
}

/// The automaton of one controlled adaptive solve from 0 to `end`.
#[derive(Clone, Debug)]
pub struct Timeline {
    factor: u64,
    initial_step: f64,
    end: f64,
    /// αᴶ.
    ticks_per_initial_step: u64,
    /// αᴿ.
    whole: u64,
    rejections: u32,
}

impl Timeline {
    /// The automaton for the given settings; they must have passed
    /// [`gains_core::description::SolverSpec::problem`].
    pub fn new(spec: &ControlledSpec, end: f64) -> Self {
        let factor = u64::from(spec.factor);
        let initial_step = spec.initial_step.min(end);
        let mut ticks = 1_u64;
        while initial_step / ((ticks * factor) as f64) >= spec.minimum_step && ticks < 1 << 40 {
            ticks *= factor;
        }
        Self {
            factor,
            initial_step,
            end,
            ticks_per_initial_step: ticks,
            whole: factor.pow(spec.rejections_after_clipping),
            rejections: spec.rejections_after_clipping,
        }
    }

    /// Equal steps: the automaton that only ever keeps its step.
    pub fn fixed(steps: u32, end: f64) -> Self {
        let initial_step = end / f64::from(steps);
        Self { factor: 2, initial_step, end, ticks_per_initial_step: 1, whole: 1, rejections: 0 }
    }

    /// The first place: time 0, step h₀.
    pub fn start(&self) -> Place {
        Place {
            ticks: 0,
            step: self.ticks_per_initial_step,
            progress: 0,
            fraction: 0,
            rejections: 0,
            settled: false,
        }
    }

    /// The end time.
    pub fn end(&self) -> f64 {
        self.end
    }

    fn in_initial_steps(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_initial_step as f64
    }

    /// Time at a place.
    pub fn time(&self, place: &Place) -> f64 {
        let clipped_at = self.in_initial_steps(place.ticks) * self.initial_step;
        if place.is_clipped() {
            let done = place.progress as f64 / self.whole as f64;
            clipped_at * (1.0 - done) + self.end * done
        } else {
            clipped_at
        }
    }

    /// Step size at a place.
    pub fn step(&self, place: &Place) -> f64 {
        if place.is_clipped() {
            let remaining = self.end - self.in_initial_steps(place.ticks) * self.initial_step;
            place.fraction as f64 / self.whole as f64 * remaining
        } else {
            self.in_initial_steps(place.step) * self.initial_step
        }
    }

    /// Where an action leads. At a settled place every action is [`Action::Keep`].
    pub fn follow(&self, place: &Place, action: Action) -> Moment {
        let action = if place.settled { Action::Keep } else { action };
        match action {
            Action::Reject => Moment::At(self.reject(place)),
            Action::Keep => self.accept(place, 1),
            Action::Increase => self.accept(place, self.factor),
        }
    }

    /// Where a set of actions leads, each successor once, in the order of [`Action::ALL`]: an increase that is clipped at
    /// the end time like a keep *is* a keep, and a settled place only keeps.
    pub fn branches(&self, place: &Place, actions: ActionSet) -> impl Iterator<Item = (Action, Moment)> {
        let actions = if place.settled { ActionSet::only(Action::Keep) } else { actions };
        actions.iter().filter_map(move |action| {
            let next = self.follow(place, action);
            if action != Action::Increase || next != self.follow(place, Action::Keep) {
                return Some((action, next));
            }
            (!actions.contains(Action::Keep)).then_some((Action::Keep, next))
        })
    }

    fn reject(&self, place: &Place) -> Place {
        let mut next = *place;
        if place.is_clipped() {
            if place.rejections < self.rejections {
                next.fraction /= self.factor;
                next.rejections += 1;
            } else {
                next.settled = true;
            }
        } else if place.step >= self.factor {
            next.step /= self.factor;
        } else {
            next.settled = true;
        }
        next
    }

    fn accept(&self, place: &Place, growth: u64) -> Moment {
        let mut next = *place;
        if place.is_clipped() {
            next.progress += place.fraction;
            let left = self.whole.saturating_sub(next.progress);
            next.fraction = place.fraction.saturating_mul(growth).min(left);
        } else {
            next.ticks += place.step;
            next.step = place.step.saturating_mul(growth);
            let after = self.in_initial_steps(next.ticks.saturating_add(next.step));
            if after >= self.end / self.initial_step * (1.0 - MET_EXACTLY) {
                next.step = 0;
                next.progress = 0;
                next.fraction = self.whole;
            }
        }
        if self.time(&next) + arrival(self.end) < self.end { Moment::At(next) } else { Moment::End }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(factor: u32, initial_step: f64, minimum_step: f64) -> ControlledSpec {
        ControlledSpec { factor, tolerance: 0.005, initial_step, minimum_step, rejections_after_clipping: 1 }
    }

    #[test]
    fn minimum_step_settles_instead_of_shrinking() {
        let line = Timeline::new(&spec(2, 0.17, 0.02), 1.0);
        let mut place = line.start();
        let mut steps = vec![line.step(&place)];
        while !place.settled {
            let Moment::At(next) = line.follow(&place, Action::Reject) else { unreachable!() };
            place = next;
            steps.push(line.step(&place));
        }
        // 0.17, 0.085, 0.0425, 0.02125; a further halving would undercut 0.02.
        assert_eq!(steps.len(), 5);
        assert_eq!(steps[3], steps[4]);
        assert!(steps[4] >= 0.02 && steps[4] / 2.0 < 0.02);
    }

    #[test]
    fn one_rejection_after_clipping_is_tolerated() {
        let line = Timeline::new(&spec(2, 0.6, 0.02), 1.0);
        let Moment::At(clipped) = line.follow(&line.start(), Action::Keep) else { panic!() };
        assert!(clipped.is_clipped());
        assert_eq!(line.time(&clipped), 0.6);
        assert!((line.step(&clipped) - 0.4).abs() < 1e-15);
        let Moment::At(half) = line.follow(&clipped, Action::Reject) else { panic!() };
        assert!(!half.settled && (line.step(&half) - 0.2).abs() < 1e-15);
        let Moment::At(settled) = line.follow(&half, Action::Reject) else { panic!() };
        assert!(settled.settled && line.step(&settled) == line.step(&half));
        let Moment::At(last) = line.follow(&settled, Action::Reject) else { panic!() };
        assert!((line.time(&last) - 0.8).abs() < 1e-15, "settled places accept everything");
        assert_eq!(line.follow(&last, Action::Keep), Moment::End);
    }

    /// Every trajectory ends, times grow, steps stay on the grid, and the order is topological.
    #[test]
    fn every_walk_ends_and_respects_the_order() {
        for (factor, initial, end, rejections) in
            [(2, 0.19, 1.0, 1), (3, 0.5, 2.0, 2), (2, 0.03, 1.0, 1), (4, 5.0, 1.0, 0), (3, 0.33, 1.0, 3)]
        {
            let mut s = spec(factor, initial, 0.02);
            s.rejections_after_clipping = rejections;
            let line = Timeline::new(&s, end);
            let mut seed = 12345_u64;
            for _ in 0..300 {
                let mut place = line.start();
                for count in 0.. {
                    assert!(count < 100_000, "endless walk");
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let action = Action::ALL[(seed >> 40) as usize % 3];
                    match line.follow(&place, action) {
                        Moment::End => {
                            let reached = line.time(&place) + line.step(&place);
                            assert!((reached - end).abs() < 2e-8, "{reached} {end}");
                            break;
                        }
                        Moment::At(next) => {
                            assert!(next > place, "{place:?} {action:?} {next:?}");
                            assert!(line.time(&next) >= line.time(&place));
                            assert!(line.step(&next) > 0.0);
                            place = next;
                        }
                    }
                }
            }
        }
    }

    /// A step that would end exactly at the end time is clipped there, however `T / h₀` is rounded: 0.9 / 0.3 is above 3,
    /// 0.3 / 0.1 below.
    #[test]
    fn an_end_that_is_met_exactly_is_clipped() {
        for (initial, end, count) in
            [(0.3, 0.9, 3), (0.1, 0.3, 3), (0.1, 0.7, 7), (1e7 / 3.0, 1e7, 3), (0.01, 1.0, 100)]
        {
            let line = Timeline::new(&spec(2, initial, initial / 4.0), end);
            let mut place = line.start();
            for step in 1..count {
                let Moment::At(next) = line.follow(&place, Action::Keep) else { panic!("{initial} {end}") };
                assert_eq!(next.is_clipped(), step + 1 == count, "{initial} {end}: {next:?}");
                place = next;
            }
            assert_eq!(line.follow(&place, Action::Keep), Moment::End, "{initial} {end}");
        }
    }

    /// So many equal steps are so many, whatever is rounded.
    #[test]
    fn equal_steps_are_counted_rightly() {
        let ends = [1.0, 0.9, 0.7, 1e-9, 1e-300, 3.3e7, 1e9, 1.7e15, 1e300];
        for end in ends {
            for steps in (1..200).chain([997, 4096, 9999]) {
                let line = Timeline::fixed(steps, end);
                let mut place = line.start();
                let mut count = 1;
                while let Moment::At(next) = line.follow(&place, Action::Keep) {
                    place = next;
                    count += 1;
                    assert!(count <= steps, "more than {steps} steps to {end}");
                }
                assert_eq!(count, steps, "to {end}");
            }
        }
    }

    #[test]
    fn fixed_steps_cover_the_interval() {
        let line = Timeline::fixed(3, 0.7);
        let mut place = line.start();
        let mut count = 1;
        while let Moment::At(next) = line.follow(&place, Action::Keep) {
            place = next;
            count += 1;
        }
        assert_eq!(count, 3);
    }
}
