//! Whose turn it is, and for how long.

use std::time::Duration;

/// What the first turns are measured by where time is not limited.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How many times the time that is left a search must need for others to start again in its place.
const HOPELESS: f64 = 4.0;

/// How a contender uses its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Goes on where it was left, and knows how far it has come.
    Steady,
    /// Starts again with every turn, and has all or nothing at its end.
    AtOnce,
    /// Has nothing to show before it has everything; a tenth of the time.
    Raid,
}

/// A contender as the race sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runner {
    pub(super) kind: Kind,
    pub(super) turns: usize,
    pub(super) spent: Duration,
    /// Length of the last turn.
    pub(super) last: Duration,
    /// The share of the way it has gone, and that before its last turn.
    pub(super) progress: (f64, f64),
    /// Whether it gets everywhere in the end.
    pub(super) complete: bool,
    /// What it cannot do without.
    pub(super) least: Duration,
    /// What all its turns may take together.
    pub(super) most: Duration,
    pub(super) over: bool,
}

impl Runner {
    pub(super) fn new(kind: Kind, complete: bool) -> Self {
        let zero = Duration::ZERO;
        Self {
            kind,
            turns: 0,
            spent: zero,
            last: zero,
            progress: (0.0, 0.0),
            complete,
            least: zero,
            most: Duration::MAX,
            over: false,
        }
    }

    /// Seconds it will need if it goes on as in its last turn; infinite if nothing can be told.
    fn needs(&self) -> f64 {
        let gained = self.progress.0 - self.progress.1;
        let left = 1.0 - self.progress.0;
        if self.kind == Kind::Steady && gained > 0.0 {
            left / gained * self.last.as_secs_f64()
        } else {
            f64::INFINITY
        }
    }
}

/// Who is next, and for how long; nobody, if all have ended.
pub(super) fn next(runners: &[Runner], left: Option<Duration>) -> Option<(usize, Duration)> {
    let left = left.unwrap_or_else(|| PATIENCE.max(runners.iter().map(|r| r.spent).sum()));
    let (seconds, turn) = (left.as_secs_f64(), left / 12);
    let alive = || (0..runners.len()).filter(|&i| !runners[i].over);
    let steady = || alive().filter(|&i| runners[i].kind == Kind::Steady);
    let by_need = |a: &usize, b: &usize| runners[*a].needs().total_cmp(&runners[*b].needs());
    let best = steady().filter(|&i| runners[i].turns > 0).min_by(by_need);
    let need = best.map_or(f64::INFINITY, |i| runners[i].needs());
    if let Some(raid) = alive().find(|&i| runners[i].kind == Kind::Raid && runners[i].turns == 0) {
        return Some((raid, turn / 2));
    }
    if let Some(best) = best.filter(|_| need <= seconds) {
        return Some((best, turn));
    }
    let first = |i: usize| match runners[i].kind {
        Kind::AtOnce if steady().next().is_none() => left,
        // Before a search has had a turn: rows are far from proving anything.
        Kind::AtOnce if best.is_none() && alive().all(|i| !runners[i].complete) => left / 2,
        Kind::AtOnce => turn / 2,
        Kind::Steady | Kind::Raid => turn,
    };
    if let Some(new) = alive().find(|&i| runners[i].turns == 0 && first(i) >= runners[i].least) {
        return Some((new, first(new)));
    }
    let spent: Duration = runners.iter().map(|r| r.spent).sum();
    let complete = alive().find(|&i| runners[i].complete);
    // A search may start slowly.
    let tried = steady().all(|i| 6 * runners[i].spent >= spent + left);
    // What starts again gets more than before or nothing: the more, the further the others are from arriving.
    let again = match best {
        Some(_) => left.mul_f64(0.7 * (1.0 - (HOPELESS * seconds / need).min(1.0))),
        None => left,
    };
    let allowed = |i: usize| again.min(runners[i].most.saturating_sub(runners[i].spent));
    let longer = |&i: &usize| {
        runners[i].kind == Kind::AtOnce && allowed(i) > runners[i].least.max(2 * runners[i].last)
    };
    if let Some(at_once) = alive().find(longer).filter(|_| tried && complete.is_none()) {
        return Some((at_once, allowed(at_once)));
    }
    let raid = alive().find(|&i| runners[i].kind == Kind::Raid);
    if let Some(raid) = raid.filter(|&i| best.is_none() || 10 * runners[i].spent < spent) {
        return Some((raid, turn));
    }
    let fair = |a: &usize, b: &usize| by_need(a, b).then(runners[*a].spent.cmp(&runners[*b].spent));
    complete.or_else(|| steady().min_by(fair)).map(|i| (i, turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Option<Duration> = Some(Duration::from_secs(12));

    /// A search that has come so far, and was so far before its last turn of a second.
    fn steady(progress: f64, before: f64) -> Runner {
        let second = Duration::from_secs(1);
        let progress = (progress, before);
        Runner { turns: 1, spent: second, last: second, progress, ..Runner::new(Kind::Steady, false) }
    }

    fn forms(last: f64) -> Runner {
        let last = Duration::from_secs_f64(last);
        let turns = usize::from(last > Duration::ZERO);
        Runner { turns, spent: last, last, ..Runner::new(Kind::AtOnce, false) }
    }

    #[test]
    fn a_search_that_will_arrive_goes_on() {
        // Nine more seconds at this pace.
        assert_eq!(next(&[steady(0.1, 0.0), forms(0.0)], LEFT), Some((0, Duration::from_secs(1))));
        // The faster of two.
        assert_eq!(next(&[steady(0.2, 0.0), steady(0.4, 0.0)], LEFT).map(|n| n.0), Some(1));
    }

    #[test]
    fn a_search_that_will_not_arrive_is_left_for_what_has_not_been_tried() {
        assert_eq!(next(&[steady(0.05, 0.0), forms(0.0)], LEFT).map(|n| n.0), Some(1));
        assert_eq!(next(&[steady(0.5, 0.5), forms(0.0)], LEFT).map(|n| n.0), Some(1), "nothing gained");
        let slow = Runner { least: Duration::from_secs(1), ..forms(0.0) };
        assert_eq!(
            next(&[steady(0.5, 0.5), slow], LEFT).map(|n| n.0),
            Some(0),
            "half a second is not enough"
        );
    }

    #[test]
    fn what_starts_again_gets_the_more_the_less_hope_there_is_elsewhere() {
        let long = |runner: Runner| Runner { spent: Duration::from_secs(4), ..runner };
        let (at, time) = next(&[long(steady(0.5, 0.5)), forms(1.0)], LEFT).unwrap();
        assert_eq!((at, time), (1, Duration::from_secs_f64(8.4)));
        // About 99 seconds, twice what is hopeless: half of that share.
        let (at, time) = next(&[long(steady(0.01, 0.0)), forms(1.0)], LEFT).unwrap();
        assert!(at == 1 && (time.as_secs_f64() - 4.3).abs() < 0.1, "{time:?}");
        // It would not get twice what it had.
        assert_eq!(next(&[long(steady(0.01, 0.0)), forms(3.0)], LEFT).map(|n| n.0), Some(0));
        // Together with the second it had it may take six.
        let limited = Runner { most: Duration::from_secs(6), ..forms(1.0) };
        let (at, time) = next(&[long(steady(0.5, 0.5)), limited], LEFT).unwrap();
        assert_eq!((at, time), (1, Duration::from_secs(5)));
        let limited = Runner { most: Duration::from_secs(3), ..forms(1.0) };
        assert_eq!(next(&[long(steady(0.5, 0.5)), limited], LEFT).map(|n| n.0), Some(0));
        // The search has had little time yet.
        assert_eq!(next(&[steady(0.5, 0.5), forms(1.0)], LEFT).map(|n| n.0), Some(0));
    }

    #[test]
    fn few_inputs_are_halved_before_anything_starts_again() {
        let halves = Runner { complete: true, ..steady(0.0, 0.0) };
        assert_eq!(next(&[steady(0.0, 0.0), forms(1.0), halves], LEFT).map(|n| n.0), Some(2));
    }

    #[test]
    fn alone_it_gets_all_the_time_and_who_has_ended_gets_none() {
        let ended = Runner { over: true, ..steady(0.9, 0.0) };
        assert_eq!(next(&[ended, forms(0.0)], LEFT), Some((1, Duration::from_secs(12))));
        assert_eq!(next(&[ended], LEFT), None);
        assert_eq!(next(&[ended, Runner { over: true, ..forms(1.0) }], None), None);
    }

    #[test]
    fn attacks_come_first_and_then_get_a_tenth() {
        let raid = Runner::new(Kind::Raid, false);
        assert_eq!(next(&[raid, steady(0.5, 0.0)], LEFT).map(|n| n.0), Some(0));
        let had = |seconds: f64| Runner { turns: 1, spent: Duration::from_secs_f64(seconds), ..raid };
        assert_eq!(next(&[had(0.05), steady(0.5, 0.5)], LEFT).map(|n| n.0), Some(0));
        assert_eq!(next(&[had(0.5), steady(0.5, 0.5)], LEFT).map(|n| n.0), Some(1));
    }
}
