//! How settings change from epoch to epoch. Epochs are counted from 0 within a phase, and a setting is constant
//! within an epoch.

use serde::{Deserialize, Serialize};

/// The perturbation: `Smooth(target, start, start + length, middle)` of the paper, by Xu et al. (2020).
///
/// It grows like the `beta`-th power of the epoch until `middle` of the way, then linearly, without a kink.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Smooth {
    /// The last value, on pixels in [0, 1].
    pub target: f64,
    /// First epoch with a value above 0.
    #[serde(default)]
    pub start: u32,
    /// Epochs until the target is reached.
    #[serde(default)]
    pub length: u32,
    /// Exponent of the first part.
    #[serde(default = "default_beta")]
    pub beta: f64,
    /// Where the first part ends.
    #[serde(default = "default_middle")]
    pub middle: f64,
    /// Whether it grows from batch to batch; else from epoch to epoch, as in the paper.
    #[serde(default)]
    pub every_batch: bool,
    /// Where it begins to grow and where it reaches the target, as parts of the phase, in place of `start` and `length`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<[f64; 2]>,
}

/// An epoch as a part of so many.
fn epoch_of(part: f64, epochs: u32) -> u32 {
    (part * f64::from(epochs)).round() as u32
}

fn default_beta() -> f64 {
    4.0
}

fn default_middle() -> f64 {
    0.6
}

impl Smooth {
    /// The schedule with the usual shape.
    pub fn new(target: f64, start: u32, length: u32) -> Self {
        let (beta, middle) = (default_beta(), default_middle());
        Self { target, start, length, beta, middle, every_batch: false, over: None }
    }

    /// The schedule in epochs of a phase of so many.
    #[must_use]
    pub fn within(self, epochs: u32) -> Self {
        let Some([first, last]) = self.over else { return self };
        let start = epoch_of(first, epochs);
        Self { start, length: epoch_of(last, epochs).saturating_sub(start), over: None, ..self }
    }

    /// The value in an epoch, or at its end if it grows within.
    pub fn at(&self, epoch: u32) -> f64 {
        self.after(epoch, 1.0)
    }

    /// The value in a batch of an epoch.
    pub fn in_batch(&self, epoch: u32, batch: u32, batches: u32) -> f64 {
        let part = if self.every_batch { f64::from(batch + 1) / f64::from(batches.max(1)) } else { 1.0 };
        self.after(epoch, part)
    }

    /// The value after a part of an epoch.
    fn after(&self, epoch: u32, part: f64) -> f64 {
        if epoch < self.start {
            return 0.0;
        }
        let since = f64::from(epoch - self.start) + part;
        let length = f64::from(self.length);
        if since >= length {
            return self.target;
        }
        let middle = (self.middle * length).floor();
        // Both parts and their slopes meet at the middle: there the power is m^β with slope β m^(β−1).
        let power = middle.powf(self.beta);
        let slope = self.beta * middle.powf(self.beta - 1.0);
        let scale = self.target / ((length - middle) * slope + power);
        let value = if since < middle {
            scale * since.powf(self.beta)
        } else {
            let turn = scale * power;
            turn + (self.target - turn) * (since - middle) / (length - middle)
        };
        value.min(self.target)
    }
}

/// The sampling parameter q₁ = q₂: `Sin(start, end, first, last)` of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sin {
    /// Value up to the epoch `first`.
    pub start: f64,
    /// Value from the epoch `last` on.
    pub end: f64,
    /// Where it begins to change.
    pub first: u32,
    /// Where it ends changing.
    pub last: u32,
    /// Both as parts of the phase, in place of `first` and `last`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<[f64; 2]>,
}

impl Default for Sin {
    fn default() -> Self {
        Self { start: 0.15, end: 0.33, first: 10, last: 80, over: None }
    }
}

impl Sin {
    /// The schedule in epochs of a phase of so many.
    #[must_use]
    pub fn within(self, epochs: u32) -> Self {
        let Some([first, last]) = self.over else { return self };
        Self { first: epoch_of(first, epochs), last: epoch_of(last, epochs), over: None, ..self }
    }

    /// The value in an epoch.
    pub fn at(&self, epoch: u32) -> f64 {
        if epoch <= self.first {
            return self.start;
        }
        if epoch > self.last {
            return self.end;
        }
        let (first, last) = (f64::from(self.first), f64::from(self.last));
        let middle = (first + last) / 2.0;
        let wave = (std::f64::consts::PI * (f64::from(epoch) - middle) / (last - first)).sin();
        wave * (self.end - self.start) / 2.0 + (self.end + self.start) / 2.0
    }
}

/// From an epoch on, how many trajectories of the trajectory graph are sampled (κ).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trajectories {
    /// First epoch.
    #[serde(default)]
    pub from: u32,
    /// The first epoch as a part of the phase, in place of `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<f64>,
    /// How many.
    pub count: u32,
}

impl Trajectories {
    /// So many from an epoch on.
    pub fn new(from: u32, count: u32) -> Self {
        Self { from, part: None, count }
    }

    /// The first epoch, in a phase of so many.
    pub fn first(&self, epochs: u32) -> u32 {
        self.part.map_or(self.from, |part| epoch_of(part, epochs))
    }
}

/// κ in an epoch of so many; 1 before the first entry.
pub fn trajectories(schedule: &[Trajectories], epoch: u32, epochs: u32) -> u32 {
    schedule.iter().rev().find(|entry| entry.first(epochs) <= epoch).map_or(1, |entry| entry.count)
}

/// The factor on the learning rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum RateSchedule {
    /// Always 1.
    #[default]
    Constant,
    /// Multiplied at given epochs.
    MultiStep {
        /// The epochs.
        milestones: Vec<u32>,
        /// What the rate is multiplied with at each.
        factor: f64,
    },
    /// Multiplied at parts of the phase.
    Drops {
        /// The parts, 0 its beginning and 1 its end.
        at: Vec<f64>,
        /// What the rate is multiplied with at each.
        factor: f64,
    },
    /// Half a cosine from 1 to `floor` over the phase.
    Cosine {
        /// Last value.
        #[serde(default)]
        floor: f64,
    },
}

impl RateSchedule {
    /// The factor in an epoch of a phase with so many epochs.
    pub fn at(&self, epoch: u32, epochs: u32) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::MultiStep { milestones, factor } => {
                let passed = milestones.iter().filter(|milestone| **milestone <= epoch).count();
                factor.powi(i32::try_from(passed).unwrap_or(i32::MAX))
            }
            Self::Drops { at, factor } => {
                let passed = at.iter().filter(|part| **part * f64::from(epochs) <= f64::from(epoch)).count();
                factor.powi(i32::try_from(passed).unwrap_or(i32::MAX))
            }
            Self::Cosine { floor } => {
                let done = f64::from(epoch) / f64::from(epochs.max(1));
                floor + (1.0 - floor) * (1.0 + (std::f64::consts::PI * done).cos()) / 2.0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smooth_takes_the_values_of_the_authors_program() {
        let smooth = Smooth::new(0.11, 0, 60);
        for (epoch, value, digits) in [
            (0, 0.0, 1e-4),
            (10, 0.00026, 5e-6),
            (20, 0.0035, 5e-5),
            (30, 0.0165, 5e-5),
            (35, 0.030, 5e-4),
            (50, 0.080, 5e-4),
            (59, 0.11, 1e-15),
            (99, 0.11, 0.0),
        ] {
            assert!((smooth.at(epoch) - value).abs() <= digits, "{epoch}: {}", smooth.at(epoch));
        }
        assert!(smooth.at(0) > 0.0);
    }

    #[test]
    fn smooth_starts_late_and_never_falls() {
        let smooth = Smooth::new(1.0 / 255.0, 10, 30);
        assert_eq!(smooth.at(9), 0.0);
        assert!(smooth.at(10) > 0.0);
        assert!(smooth.at(38) < 1.0 / 255.0 && smooth.at(39) == 1.0 / 255.0);
        for smooth in [smooth, Smooth::new(0.3, 0, 1), Smooth::new(0.3, 2, 0), Smooth::new(0.3, 0, 2)] {
            for epoch in 0..60 {
                let (now, next) = (smooth.at(epoch), smooth.at(epoch + 1));
                assert!(now.is_finite() && (0.0..=smooth.target).contains(&now) && now <= next);
            }
        }
    }

    #[test]
    fn smooth_may_grow_within_an_epoch() {
        let by_epoch = Smooth::new(0.11, 1, 6);
        let by_batch = Smooth { every_batch: true, ..by_epoch };
        let mut before = 0.0;
        for epoch in 0..9 {
            for batch in 0..10 {
                assert_eq!(by_epoch.in_batch(epoch, batch, 10), by_epoch.at(epoch));
                let now = by_batch.in_batch(epoch, batch, 10);
                assert!(now >= before && (epoch == 0) == (now == 0.0));
                before = now;
            }
            assert_eq!(before, by_epoch.at(epoch), "the end of an epoch is what the epoch was");
        }
    }

    #[test]
    fn sin_runs_from_start_to_end() {
        let sin = Sin::default();
        assert_eq!((sin.at(0), sin.at(10), sin.at(81)), (0.15, 0.15, 0.33));
        assert!((sin.at(45) - 0.24).abs() < 1e-12, "half way");
        assert!((sin.at(80) - 0.33).abs() < 1e-12);
        assert!((11..80).all(|epoch| sin.at(epoch) < sin.at(epoch + 1)));
    }

    #[test]
    fn trajectories_follow_the_list() {
        let paper = [(0, 2), (25, 4), (50, 8), (65, 4)].map(|(from, count)| Trajectories::new(from, count));
        let found: Vec<u32> =
            [0, 24, 25, 49, 50, 64, 65, 99].iter().map(|epoch| trajectories(&paper, *epoch, 100)).collect();
        assert_eq!(found, [2, 2, 4, 4, 8, 8, 4, 4]);
        assert_eq!(trajectories(&[], 3, 9), 1);
    }

    #[test]
    fn parts_of_a_phase_follow_its_length() {
        let eps = Smooth { over: Some([0.1, 0.6]), ..Smooth::new(0.3, 7, 7) };
        for epochs in [10, 40, 100] {
            let eps = eps.within(epochs);
            assert_eq!((eps.start, eps.start + eps.length), (epochs / 10, 6 * epochs / 10));
            let sin = Sin { over: Some([0.5, 1.0]), ..Sin::default() }.within(epochs);
            assert_eq!((sin.first, sin.last), (epochs / 2, epochs));
            let kappa =
                [Trajectories::new(0, 1), Trajectories { part: Some(0.5), ..Trajectories::new(0, 4) }];
            assert_eq!(trajectories(&kappa, epochs / 2 - 1, epochs), 1);
            assert_eq!(trajectories(&kappa, epochs / 2, epochs), 4);
        }
        assert_eq!(Smooth::new(0.3, 7, 8).within(3), Smooth::new(0.3, 7, 8));
    }

    #[test]
    fn learning_rates() {
        let steps = RateSchedule::MultiStep { milestones: vec![3, 5], factor: 0.1 };
        let at: Vec<f64> = (0..6).map(|epoch| steps.at(epoch, 10)).collect();
        assert_eq!(at[..5], [1.0, 1.0, 1.0, 0.1, 0.1]);
        assert!((at[5] - 0.01).abs() < 1e-15);
        let drops = RateSchedule::Drops { at: vec![0.5, 0.9], factor: 0.1 };
        assert_eq!((drops.at(4, 10), drops.at(5, 10), drops.at(8, 10)), (1.0, 0.1, 0.1));
        assert!((drops.at(9, 10) - 0.01).abs() < 1e-15 && drops.at(0, 1) == 1.0);
        let cosine = RateSchedule::Cosine { floor: 0.1 };
        assert!((cosine.at(0, 10) - 1.0).abs() < 1e-15 && (cosine.at(5, 10) - 0.55).abs() < 1e-15);
        assert!((cosine.at(10, 10) - 0.1).abs() < 1e-15);
    }
}
