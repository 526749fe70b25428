//! What is counted over the lines of a file.

use std::collections::BTreeMap;

use crate::document::{Line, Losses, Verdict, Verdicts};
use crate::number::{middle_and_tail, short};

/// One radius.
pub struct Radius {
    /// The radius.
    pub eps: f64,
    /// How many samples.
    pub samples: usize,
    /// How many the network is right about without any change.
    pub correct: usize,
    /// How many have each verdict, in the order of [`Verdict::ALL`].
    pub counts: [usize; 4],
    /// The middle of the times, and nine tenths are below the second.
    pub seconds: Option<(f64, f64)>,
}

impl Radius {
    /// How many have a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.counts[verdict as usize]
    }

    /// How many are right and were not broken.
    pub fn unbroken(&self) -> usize {
        self.correct.saturating_sub(self.count(Verdict::Falsified))
    }
}

/// All radii of a file.
pub fn by_radius(results: &Verdicts) -> Vec<Radius> {
    let radius = |eps: f64| {
        let lines: Vec<&Line> = results.lines.iter().filter(|line| line.eps == eps).collect();
        let mut counts = [0; 4];
        lines.iter().for_each(|line| counts[line.verdict as usize] += 1);
        let seconds: Vec<f64> = lines.iter().map(|line| line.seconds).collect();
        let correct = lines.iter().filter(|line| line.is_correct()).count();
        Radius { eps, samples: lines.len(), correct, counts, seconds: middle_and_tail(&seconds) }
    };
    results.radii().into_iter().map(radius).collect()
}

/// A stage over all lines.
#[derive(Debug, Default, PartialEq)]
pub struct StageShare {
    /// Time spent in it.
    pub seconds: f64,
    /// How often it was tried.
    pub tried: usize,
    /// How often it decided.
    pub decided: usize,
}

/// All stages, the one that took longest first.
pub fn by_stage(results: &Verdicts) -> Vec<(String, StageShare)> {
    let mut shares: BTreeMap<&str, StageShare> = BTreeMap::new();
    for line in &results.lines {
        for (place, stage) in line.stages.iter().enumerate() {
            let share = shares.entry(&stage.name).or_default();
            share.seconds += stage.seconds;
            share.tried += 1;
            let last = place + 1 == line.stages.len();
            share.decided +=
                usize::from(last && matches!(line.verdict, Verdict::Verified | Verdict::Falsified));
        }
    }
    let mut shares: Vec<_> = shares.into_iter().map(|(name, share)| (name.to_owned(), share)).collect();
    shares.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
    shares
}

/// Why samples are unknown: how many for each reason, the most frequent first.
pub fn by_reason(results: &Verdicts) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in results.lines.iter().filter(|line| line.verdict == Verdict::Unknown) {
        let reason = if line.fault.is_some() {
            "line not trusted"
        } else {
            line.reason_code.as_deref().unwrap_or("not said")
        };
        *counts.entry(reason).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect();
    counts.sort_by_key(|reason| std::cmp::Reverse(reason.1));
    counts
}

/// Intervals of time in which the losses of solver steps are added up, where steps begin at many times.
const INTERVALS: usize = 8;

/// Where bounds lose: the mean over all lines that say so, by layer and by solver step, and how many lines those are.
pub fn mean_losses(results: &Verdicts) -> (Vec<(String, f64)>, usize) {
    let all: Vec<&Losses> = results.lines.iter().filter_map(Line::losses).collect();
    let Some(layers) = all.first().map(|first| first.layers.len()) else { return (Vec::new(), 0) };
    let same: Vec<&Losses> = all.into_iter().filter(|losses| losses.layers.len() == layers).collect();
    let mean = |sum: f64| sum / same.len() as f64;
    let layer = |i: usize| same.iter().map(|losses| losses.layers[i]).sum::<f64>();
    let mut parts: Vec<(String, f64)> =
        (0..layers).map(|i| (format!("encoder layer {}", i + 1), mean(layer(i)))).collect();
    let steps: Vec<[f64; 2]> = same.iter().flat_map(|losses| losses.steps.iter().copied()).collect();
    parts.extend(by_time(&steps).into_iter().map(|(name, sum)| (name, mean(sum))));
    parts.push(("rest".into(), mean(same.iter().map(|losses| losses.rest).sum())));
    (parts, same.len())
}

/// Losses of steps, added up by the time at which they begin.
fn by_time(steps: &[[f64; 2]]) -> Vec<(String, f64)> {
    let times = crate::document::radii(steps.iter().map(|step| step[0]));
    let total = |inside: &dyn Fn(f64) -> bool| steps.iter().filter(|s| inside(s[0])).map(|s| s[1]).sum();
    if times.len() <= INTERVALS {
        return times
            .iter()
            .map(|time| (format!("steps at t = {}", short(*time)), total(&|t| t == *time)))
            .collect();
    }
    let last = times[times.len() - 1];
    let edge = |i: usize| last * i as f64 / INTERVALS as f64;
    let interval = |i: usize| {
        let inside = |t: f64| t >= edge(i) && (t < edge(i + 1) || i + 1 == INTERVALS);
        (format!("steps from t = {} to {}", short(edge(i)), short(edge(i + 1))), total(&inside))
    };
    (0..INTERVALS).map(interval).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_steps_are_added_up_by_time() {
        assert_eq!(by_time(&[]), []);
        let few = by_time(&[[0.5, 1.0], [0.0, 2.0], [0.5, 3.0]]);
        assert_eq!(few, [("steps at t = 0".to_owned(), 2.0), ("steps at t = 0.5".to_owned(), 4.0)]);
        let many: Vec<[f64; 2]> = (0..=80).map(|i| [f64::from(i) / 80.0, 1.0]).collect();
        let found = by_time(&many);
        assert_eq!(found.len(), INTERVALS);
        assert_eq!(found.iter().map(|part| part.1).sum::<f64>(), 81.0, "no step is lost or counted twice");
    }
}
