//! Inputs and targets: what is known up to some time before the end, and what is observed at the end.

use std::fmt;
use std::str::FromStr;

use super::error::SeriesError;
use super::feature::{Feature, Kind, PHYSIONET_SPAN, Role, clip};
use super::record::{Observation, Record};
use super::recordings::Recordings;
use super::split::{Order, Subset, arrange, range};
use super::statistics::Statistics;

/// How far ahead to predict at least, in the source's unit of time: hours for PhysioNet.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Horizon(f64);

impl Horizon {
    /// The three data modes of the paper.
    pub const PAPER: [Horizon; 3] = [Horizon(6.0), Horizon(12.0), Horizon(24.0)];

    /// A positive, finite time.
    pub fn new(ahead: f64) -> Option<Horizon> {
        (ahead > 0.0 && ahead.is_finite()).then_some(Horizon(ahead))
    }

    /// The time.
    pub fn ahead(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Horizon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Horizon {
    type Err = SeriesError;

    /// `6h` and `6` are the same.
    fn from_str(text: &str) -> Result<Self, SeriesError> {
        let number = text.strip_suffix('h').unwrap_or(text).parse().ok();
        number.and_then(Horizon::new).ok_or_else(|| SeriesError::Horizon { text: text.to_owned() })
    }
}

/// A set of records made into a forecasting task.
///
/// Of each record, the points at least the horizon before its last point are kept, and the last point. A record
/// with fewer than two points left is dropped. The *target* is the last kept point at which a feature of the
/// series is observed. That is the last point, save where only GCS or MechVent is observed there (35 records of
/// PhysioNet). A record with no such point after its first is dropped too; there is none in PhysioNet.
///
/// The records kept are divided in order: a twentieth, and at most 400, for the test from the end, as many
/// before them for validation. Since the order is fixed before records are dropped, the parts for several
/// horizons differ by a few records only.
///
/// For PhysioNet, *at least the horizon before* is decided in float32, as in the reference: of 1316 records the
/// point exactly 24 h before the last is lost to rounding that way, and to keep it would move every mean.
#[derive(Debug)]
pub struct Forecasts<'a> {
    recordings: &'a Recordings,
    kept: Vec<Kept>,
    dropped: Dropped,
    statistics: Statistics,
    series: Vec<usize>,
}

/// Why records are not part of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Fewer than two points are left.
    pub too_short: usize,
    /// No feature of the series is observed at any kept point after the first.
    pub no_target: usize,
}

/// Which points of a record are kept: those before `prefix`, and the last one.
#[derive(Debug, Clone, Copy)]
struct Kept {
    record: usize,
    prefix: usize,
    target: usize,
}

/// One record as the network sees it, in normalised units.
///
/// # Shapes
///
/// `initial` has one entry per feature that is not part of the series (6 for PhysioNet: Age, Gender, Height,
/// ICUType, mean GCS before the target, MechVent seen before the target). `values` and `mask` have a row of
/// [`Series::width`] entries (35) per entry of `times`; `target` and `target_mask` are one such row. Where the
/// mask is false the value is 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name of the record.
    pub id: String,
    /// The initial state.
    pub initial: Vec<f64>,
    /// Times of the points before the target, increasing. Points with an empty row in `mask` are among them:
    /// something was observed then, only not of the series.
    pub times: Vec<f64>,
    /// What is observed at those times, row by row.
    pub values: Vec<f64>,
    /// Whether it is.
    pub mask: Vec<bool>,
    /// The time to predict.
    pub target_time: f64,
    /// What is observed then.
    pub target: Vec<f64>,
    /// Whether it is; true at least once.
    pub target_mask: Vec<bool>,
    /// Kept points after the target, at which nothing of the series is observed. Nearly always none.
    pub later_times: Vec<f64>,
}

/// Points in time with what is observed at them, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Increasing times.
    pub times: Vec<f64>,
    /// Values, 0 where the mask is false.
    pub values: Vec<f64>,
    /// Whether a value is observed.
    pub mask: Vec<bool>,
}

impl Series {
    /// Features of the series.
    pub fn width(&self) -> usize {
        self.target.len()
    }

    /// The points that the authors' encoder walks through: besides [`Series::times`] the target's own time with
    /// nothing observed, later times likewise, and an empty last point at time 1 where there is none.
    ///
    /// An empty point is no input, but the encoder's Euler step stops there. Their numbers come out only with
    /// this grid. They also round the initial state to float32, which is left to the caller.
    pub fn authors_grid(&self) -> Grid {
        let mut times = self.times.clone();
        times.push(self.target_time);
        times.extend(&self.later_times);
        if times.last().is_some_and(|&last| last < 1.0) {
            times.push(1.0);
        }
        let size = times.len() * self.width();
        let (mut values, mut mask) = (self.values.clone(), self.mask.clone());
        values.resize(size, 0.0);
        mask.resize(size, false);
        Grid { times, values, mask }
    }
}

impl<'a> Forecasts<'a> {
    /// Selects, divides and takes statistics; the rest is done record by record in [`Forecasts::series`].
    ///
    /// # Errors
    ///
    /// [`SeriesError::TooFew`] if fewer than three records are kept.
    pub fn new(recordings: &'a Recordings, horizon: Horizon, order: Order) -> Result<Self, SeriesError> {
        let series: Vec<usize> = recordings.with_role(Role::Series).collect();
        let (mut kept, mut dropped) = (Vec::new(), Dropped::default());
        for record in arrange(recordings.records().len(), order) {
            let points = &recordings.records()[record];
            let prefix = kept_prefix(points, recordings.kind(), horizon);
            if prefix == 0 {
                dropped.too_short += 1;
                continue;
            }
            let of_series = |value: &Observation| series.binary_search(&(value.feature as usize)).is_ok();
            let last = points.times().len() - 1;
            let target = (1..prefix)
                .chain([last])
                .rfind(|&index| points.point(index).observations.iter().any(of_series));
            match target {
                Some(target) => kept.push(Kept { record, prefix, target }),
                None => dropped.no_target += 1,
            }
        }
        if kept.len() < 3 {
            let records = recordings.records().len();
            return Err(SeriesError::TooFew { records, kept: kept.len(), horizon });
        }
        let train = &kept[range(kept.len(), Subset::Train)];
        let of = |kept: &Kept| &recordings.records()[kept.record];
        let values = || {
            train.iter().flat_map(|kept| {
                let record = of(kept);
                let points = kept_points(record, kept).flat_map(|index| record.point(index).observations);
                record.statics().iter().chain(points)
            })
        };
        let span = match recordings.kind() {
            Kind::PhysioNet2012 => PHYSIONET_SPAN,
            Kind::Csv => train.iter().filter_map(|kept| of(kept).times().last().copied()).fold(0.0, f64::max),
        };
        let span = if span > 0.0 { span } else { 1.0 };
        let statistics = Statistics::of(recordings, values, span);
        Ok(Forecasts { recordings, kept, dropped, statistics, series })
    }

    /// The same records on the scale of others, such as those that a network was trained with.
    ///
    /// # Panics
    ///
    /// If the statistics are of another number of features.
    #[must_use]
    pub fn on_scale_of(self, statistics: Statistics) -> Self {
        assert_eq!(statistics.mean().len(), self.recordings.features().len(), "one mean for each feature");
        Self { statistics, ..self }
    }

    /// Records in a part.
    pub fn len(&self, part: Subset) -> usize {
        range(self.kept.len(), part).len()
    }

    /// Whether a part has no records. None ever is.
    pub fn is_empty(&self, part: Subset) -> bool {
        self.len(part) == 0
    }

    /// Records that are not part of the task.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// To go to the scale of the network and back.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The features of the series, as positions in the list of all features.
    pub fn series_features(&self) -> &[usize] {
        &self.series
    }

    /// One record of a part.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`Forecasts::len`].
    pub fn series(&self, part: Subset, index: usize) -> Series {
        self.prepare(&self.kept[range(self.kept.len(), part)][index])
    }

    /// The name of one record of a part.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`Forecasts::len`].
    pub fn id(&self, part: Subset, index: usize) -> &str {
        self.recordings.records()[self.kept[range(self.kept.len(), part)][index].record].id()
    }

    /// All records of a part, one after the other.
    pub fn iter(&self, part: Subset) -> impl ExactSizeIterator<Item = Series> {
        self.kept[range(self.kept.len(), part)].iter().map(|kept| self.prepare(kept))
    }

    fn prepare(&self, kept: &Kept) -> Series {
        let record = &self.recordings.records()[kept.record];
        let time = |index: usize| self.scale_time(record.times()[index]);
        let inputs = kept.target.min(kept.prefix);
        let width = self.series.len();
        let (mut values, mut mask) = (vec![0.0; inputs * width], vec![false; inputs * width]);
        for row in 0..inputs {
            let place = row * width..(row + 1) * width;
            self.fill(record, row, &mut values[place.clone()], &mut mask[place]);
        }
        let (mut target, mut target_mask) = (vec![0.0; width], vec![false; width]);
        self.fill(record, kept.target, &mut target, &mut target_mask);
        Series {
            id: record.id().to_owned(),
            initial: self.initial(record, inputs),
            times: (0..inputs).map(time).collect(),
            values,
            mask,
            target_time: time(kept.target),
            target,
            target_mask,
            later_times: kept_points(record, kept).filter(|&index| index > kept.target).map(time).collect(),
        }
    }

    /// Times become float32 and are divided as such for PhysioNet, like the reference's.
    fn scale_time(&self, time: f64) -> f64 {
        match self.recordings.kind() {
            Kind::PhysioNet2012 => f64::from(time as f32 / self.statistics.span() as f32),
            Kind::Csv => time / self.statistics.span(),
        }
    }

    fn fill(&self, record: &Record, point: usize, values: &mut [f64], mask: &mut [bool]) {
        for value in record.point(point).observations {
            if let Ok(column) = self.series.binary_search(&(value.feature as usize)) {
                values[column] = self.normalised(value);
                mask[column] = true;
            }
        }
    }

    fn normalised(&self, value: &Observation) -> f64 {
        let feature = value.feature as usize;
        let clipped = clip(self.recordings.kind(), feature, value.value);
        self.statistics.normalise(feature, f64::from(clipped))
    }

    /// What is known of the other features from the first `inputs` points.
    fn initial(&self, record: &Record, inputs: usize) -> Vec<f64> {
        let observed = |feature: usize| {
            let of_feature = move |value: &&Observation| value.feature as usize == feature;
            (0..inputs)
                .flat_map(|index| record.point(index).observations)
                .filter(of_feature)
                .map(|value| self.normalised(value))
        };
        let features = self.recordings.features().iter().enumerate();
        features
            .filter_map(|(feature, Feature { role, .. })| match role {
                Role::Series => None,
                Role::Static => {
                    let value = record.statics().iter().find(|value| value.feature as usize == feature);
                    Some(value.map_or(0.0, |value| self.normalised(value)))
                }
                Role::Mean => {
                    let count = observed(feature).count();
                    Some(if count == 0 { 0.0 } else { observed(feature).sum::<f64>() / count as f64 })
                }
                Role::Seen => Some(if observed(feature).next().is_some() { 1.0 } else { 0.0 }),
            })
            .collect()
    }
}

/// How many points from the first on lie the horizon before the last one.
fn kept_prefix(record: &Record, kind: Kind, horizon: Horizon) -> usize {
    let Some((&last, before)) = record.times().split_last() else { return 0 };
    before.partition_point(|&time| match kind {
        Kind::PhysioNet2012 => time as f32 <= last as f32 - horizon.0 as f32,
        Kind::Csv => time <= last - horizon.0,
    })
}

/// The positions of all points kept.
fn kept_points(record: &Record, kept: &Kept) -> impl Iterator<Item = usize> {
    (0..kept.prefix).chain([record.times().len() - 1])
}

#[cfg(test)]
#[path = "forecast_tests.rs"]
mod tests;
