//! One record: values at irregular times.

/// One value of one feature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Position in the set's list of features.
    pub feature: u16,
    /// The value, in the units of the source.
    pub value: f32,
}

/// What was observed at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point<'a> {
    /// The time, in the units of the source; hours for PhysioNet.
    pub time: f64,
    /// At most one value per feature, in the order of the features. May be empty.
    pub observations: &'a [Observation],
}

/// One patient's stay, or whatever a record stands for: values that hold throughout and values at times.
///
/// Times increase strictly. Nothing is clipped or scaled yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    id: String,
    /// Of static features only, in the order of the features.
    statics: Vec<Observation>,
    times: Vec<f64>,
    /// Where the observations of each point end.
    ends: Vec<usize>,
    observations: Vec<Observation>,
}

impl Record {
    /// Its name in the source.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The values that hold throughout, in the order of the features.
    pub fn statics(&self) -> &[Observation] {
        &self.statics
    }

    /// The times at which it has a point.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// All values at times.
    pub fn observations(&self) -> &[Observation] {
        &self.observations
    }

    /// What was observed at the time with this position.
    ///
    /// # Panics
    ///
    /// If there is no such point.
    pub fn point(&self, index: usize) -> Point<'_> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Point { time: self.times[index], observations: &self.observations[start..self.ends[index]] }
    }

    /// Its points in time.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = Point<'_>> + ExactSizeIterator {
        (0..self.times.len()).map(|index| self.point(index))
    }
}

/// Collects values in any order and averages those of the same feature at the same time.
#[derive(Debug, Default)]
pub(super) struct Builder {
    statics: Vec<Observation>,
    timed: Vec<(f64, Observation)>,
    points: Vec<f64>,
}

impl Builder {
    /// A value that holds throughout.
    pub fn constant(&mut self, feature: u16, value: f32) {
        self.statics.push(Observation { feature, value });
    }

    /// A value at a finite time.
    pub fn at(&mut self, time: f64, feature: u16, value: f32) {
        self.timed.push((time, Observation { feature, value }));
    }

    /// Makes sure that there is a point at this finite time, if an empty one.
    pub fn point(&mut self, time: f64) {
        self.points.push(time);
    }

    /// Whether nothing was given.
    pub fn is_empty(&self) -> bool {
        self.statics.is_empty() && self.timed.is_empty()
    }

    /// Puts all in order. The mean of values at the same place is taken in the order they were given.
    pub fn finish(mut self, id: String) -> Record {
        // Both sorts are stable.
        self.timed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.feature.cmp(&b.1.feature)));
        self.statics.sort_by_key(|value| value.feature);
        let mut statics = Vec::new();
        let mut mean = Mean::default();
        for value in self.statics {
            mean.push(&mut statics, 0, value);
        }
        self.points.extend(self.timed.iter().map(|&(time, _)| time));
        self.points.sort_by(f64::total_cmp);
        self.points.dedup();
        let mut ends = Vec::with_capacity(self.points.len());
        let mut observations = Vec::with_capacity(self.timed.len());
        let mut timed = self.timed.into_iter().peekable();
        for &time in &self.points {
            let start = observations.len();
            let mut mean = Mean::default();
            while let Some((_, value)) = timed.next_if(|&(at, _)| at == time) {
                mean.push(&mut observations, start, value);
            }
            ends.push(observations.len());
        }
        Record { id, statics, times: self.points, ends, observations }
    }
}

/// A running mean in float32, which is how the reference averages.
#[derive(Default)]
struct Mean {
    count: f32,
}

impl Mean {
    /// Appends `value`, or averages it into the last of `list` if that is of the same feature and not
    /// before `start`.
    fn push(&mut self, list: &mut Vec<Observation>, start: usize, value: Observation) {
        match list.get_mut(start..).and_then(<[_]>::last_mut) {
            Some(last) if last.feature == value.feature => {
                last.value = (last.value * self.count + value.value) / (self.count + 1.0);
                self.count += 1.0;
            }
            _ => {
                list.push(value);
                self.count = 1.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_one_place_are_averaged_and_times_are_sorted() {
        let mut builder = Builder::default();
        builder.at(2.0, 1, 10.0);
        builder.at(1.0, 3, 5.0);
        builder.at(2.0, 0, 7.0);
        builder.at(2.0, 1, 20.0);
        builder.at(2.0, 1, 60.0);
        builder.constant(9, 4.0);
        builder.constant(8, 1.0);
        builder.constant(9, 6.0);
        builder.point(0.0);
        builder.point(2.0);
        let record = builder.finish("x".into());
        assert_eq!(record.times(), [0.0, 1.0, 2.0]);
        let points: Vec<Vec<(u16, f32)>> = record
            .points()
            .map(|point| point.observations.iter().map(|o| (o.feature, o.value)).collect())
            .collect();
        assert_eq!(points, [vec![], vec![(3, 5.0)], vec![(0, 7.0), (1, 30.0)]]);
        let statics: Vec<(u16, f32)> = record.statics().iter().map(|o| (o.feature, o.value)).collect();
        assert_eq!(statics, [(8, 1.0), (9, 5.0)]);
    }

    #[test]
    fn the_same_feature_at_neighbouring_times_is_not_averaged() {
        let mut builder = Builder::default();
        builder.at(0.0, 1, 10.0);
        builder.at(1.0, 1, 20.0);
        let record = builder.finish("x".into());
        assert_eq!(record.point(0).observations[0].value, 10.0);
        assert_eq!(record.point(1).observations[0].value, 20.0);
    }

    #[test]
    fn the_mean_runs_in_float32() {
        let mut builder = Builder::default();
        for value in [0.1_f32, 0.2, 0.7] {
            builder.at(0.0, 0, value);
        }
        let first = (0.1_f32 + 0.2) / 2.0;
        let expected = (first * 2.0 + 0.7) / 3.0;
        assert_eq!(builder.finish("x".into()).observations()[0].value, expected);
    }
}
