//! A part of a batch: samples sorted by their number of observations, so that those that still have some are always
//! the first rows.
//!
//! Rows never share a grid of times. Each has its own steps, and its result does not depend on the others.

use std::sync::Arc;

use super::sample::{Region, Sample};
use super::tape::{Matrix, SeriesTape, ValueId};
use crate::cpu::Real;

/// A batch is divided into so many parts, whatever the number of threads, so that sums are always formed alike.
pub const PARTS: usize = 4;

/// Samples as matrices.
#[derive(Clone, Debug)]
pub struct Cohort<F> {
    /// Which samples of the batch the rows are.
    pub members: Vec<usize>,
    /// What is known of each as a whole.
    statics: Matrix<F>,
    /// At each stop of the walk: the rows that come so far, their Euler steps, what they see.
    stops: Vec<(usize, Arc<[F]>, Matrix<F>)>,
    /// The times to predict.
    pub end_times: Arc<[F]>,
}

/// Divides a batch: sorted by length and dealt out, so that all parts take about as long.
pub fn deal(samples: &[&Sample], parts: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..samples.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(samples[*index].len()));
    let part = |number: usize| order.iter().skip(number).step_by(parts).copied().collect::<Vec<_>>();
    (0..parts).map(part).filter(|members| !members.is_empty()).collect()
}

impl<F: Real> Cohort<F> {
    /// The members of a batch, longest first, as points or as the boxes of a region.
    pub fn new(samples: &[&Sample], members: Vec<usize>, region: Option<&Region>) -> Self {
        let rows: Vec<&Sample> = members.iter().map(|member| samples[*member]).collect();
        let statics = intervals(rows.len(), region.is_some(), |row| {
            let values = rows[row].statics.iter().enumerate();
            values.map(|(i, value)| region.map_or((*value, *value), |region| region.fixed(i, *value)))
        });
        let longest = rows.first().map_or(0, |sample| sample.len());
        let mut stops = Vec::with_capacity(longest);
        for stop in 0..longest {
            let active = rows.iter().take_while(|sample| sample.len() > stop).count();
            let steps = rows[..active].iter().map(|sample| F::of(sample.stops[stop].1)).collect();
            let seen = intervals(active, region.is_some(), |row| {
                let sample = rows[row];
                let (width, time) = (sample.target.len(), sample.stops[stop].0);
                let range = stop * width..(stop + 1) * width;
                let entries = sample.values[range.clone()].iter().zip(&sample.mask[range]).enumerate();
                entries.map(move |(feature, (value, seen))| match region {
                    Some(region) if *seen => region.feature(feature, time, *value),
                    _ => (*value, *value),
                })
            });
            stops.push((active, steps, seen));
        }
        let end_times = rows.iter().map(|sample| F::of(sample.target_time)).collect();
        Self { members, statics, stops, end_times }
    }

    /// Runs the encoder; gives the latent mean and deviation, the deviation before its absolute value.
    pub fn encode(self, tape: &mut SeriesTape<'_, F>) -> ValueId {
        let network = &tape.weights().network;
        let rows = self.members.len();
        let statics = tape.input(self.statics);
        let mut state = tape.layers(rows, network.initial.clone(), statics, None);
        let mut ends = Vec::new();
        let mut open = rows;
        for (active, steps, seen) in self.stops {
            if active < open {
                ends.push((state, active, open));
                open = active;
            }
            let slope = tape.layers(active, network.dynamics.clone(), state, None);
            let moved = tape.combine(active, state, vec![(slope, F::ONE)], steps);
            let seen = tape.input(seen);
            let update = tape.layers(active, network.update.clone(), moved, Some(seen));
            let reset = tape.layers(active, network.reset.clone(), moved, Some(seen));
            let shown = tape.shrink(reset, moved);
            let candidate = tape.layers(active, network.candidate.clone(), shown, Some(seen));
            state = tape.mix(update, candidate, moved);
        }
        ends.push((state, 0, open));
        // Those that end last are the first rows.
        ends.reverse();
        let last = tape.stack(ends);
        tape.layers(rows, network.latent.clone(), last, None)
    }
}

/// Rows of intervals as points or as boxes.
fn intervals<F: Real, I: Iterator<Item = (f64, f64)>>(
    rows: usize,
    boxes: bool,
    row: impl Fn(usize) -> I,
) -> Matrix<F> {
    let mut out = Matrix { rows, ..Matrix::default() };
    for (low, high) in (0..rows).flat_map(&row) {
        out.centre.push(F::of((low + high) / 2.0));
        if boxes {
            out.radius.push(F::of((high - low) / 2.0));
        }
    }
    out.columns = out.centre.len() / rows.max(1);
    out
}
