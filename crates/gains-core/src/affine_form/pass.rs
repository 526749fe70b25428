//! Forms through non-linear layers.

use crate::arithmetic::{TINY, analysis_error, down, up};
use crate::interval::{BoxVec, Interval};

use super::{AffineForm, Symbols, union};

/// How one entry passes through a non-linear layer: `slope·x + offset ± radius`, beside
/// `old output − slope·(old input)` where it is written as a change from an earlier evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Passing {
    /// Factor of the entry.
    pub slope: f64,
    /// What is added.
    pub offset: f64,
    /// How far off that may be.
    pub radius: f64,
    /// Whether `slope` belongs to the change from an earlier evaluation, whose output is added.
    pub as_change: bool,
    /// Whether what is known only up to a distance becomes part of the fresh symbol, where there is one.
    pub named: bool,
}

impl AffineForm {
    /// Encloses `self − other` in the given entries.
    pub fn apart(&self, other: &Self, entries: &[usize]) -> Vec<Interval> {
        let known = Self::all_symbols([self, other].into_iter());
        let (own, its) = (self.aligned(&known), other.aligned(&known));
        own.apart_aligned(&its, entries)
    }

    /// The same where the symbols of one are the first ones of the other's.
    fn apart_aligned(&self, other: &Self, entries: &[usize]) -> Vec<Interval> {
        let both = self.order().min(other.order());
        let (mine, theirs) = (self.columns(), other.columns());
        let entry = |form: &Self, s: usize, column: Option<usize>| {
            column.map_or(0.0, |c| form.generators[s * form.live.len() + c])
        };
        let gamma = analysis_error(self.order().max(other.order()) + 4);
        entries
            .iter()
            .map(|&j| {
                let (a, b) = (mine[j], theirs[j]);
                let common: f64 = (0..both).map(|s| (entry(self, s, a) - entry(other, s, b)).abs()).sum();
                let own: f64 = (both..self.order()).map(|s| entry(self, s, a).abs()).sum();
                let other_own: f64 = (both..other.order()).map(|s| entry(other, s, b).abs()).sum();
                let size = self.centre[j].abs() + self.spread[j] + other.centre[j].abs() + other.spread[j];
                let radius =
                    (common + own + other_own + self.remainder[j] + other.remainder[j] + gamma * size)
                        * (1.0 + gamma)
                        + TINY;
                let centre = self.centre[j] - other.centre[j];
                let low = down(self.bounds.lower[j] - other.bounds.upper[j]);
                let high = up(self.bounds.upper[j] - other.bounds.lower[j]);
                Interval::new(low.max(down(centre - radius)), high.min(up(centre + radius)))
            })
            .collect()
    }

    /// Passes every entry on as `passing` says. `image` is a box around the results, `earlier` the form and
    /// its result at an earlier evaluation, for entries that pass as changes.
    ///
    /// What a relaxation leaves open becomes a fresh symbol: it is one unknown number, the same in
    /// everything computed from it. The remainder of an entry is unknown in the same way: `a e + w` with `|w| ≤ r` is `(a + r) e'`
    /// for some `e'` in `[−1, 1]`, so that the fresh symbol may stand for both. The next map would spread a remainder over all of its outputs,
    /// each for itself; of a symbol they know that it is one number.
    pub fn pass(
        &self,
        passing: &[Passing],
        image: BoxVec,
        earlier: Option<(&Self, &Self)>,
        symbols: &mut Symbols,
    ) -> Self {
        let n = self.len();
        let mut form = self.clone();
        let aligned;
        let earlier = match earlier {
            Some((input, output)) => {
                let known = Self::all_symbols([self, input, output].into_iter());
                form.extend_to(&known);
                aligned = (input.aligned(&known), output.aligned(&known));
                Some((&*aligned.0, &*aligned.1))
            }
            None => None,
        };
        let changing = (0..n).filter(|&j| passing[j].as_change).map(|j| j as u32);
        form.extend_columns(union(&self.live, changing));
        let slopes: Vec<f64> = form.live.iter().map(|&j| passing[j as usize].slope).collect();
        for row in form.generators.chunks_exact_mut(slopes.len().max(1)) {
            for (g, slope) in row.iter_mut().zip(&slopes) {
                *g *= slope;
            }
        }
        let columns = form.columns();
        let earlier_columns = earlier.map(|(input, output)| (input.columns(), output.columns()));
        let sizes = self.sizes();
        let mut fresh = Vec::new();
        for (j, p) in passing.iter().enumerate() {
            let steepness = p.slope.abs();
            let mut size = steepness * sizes[j];
            let mut centre = p.slope * self.centre[j];
            let mut remainder = steepness * self.remainder[j];
            if let Some((input, output)) = earlier.filter(|_| p.as_change) {
                let at = |f: &Self| f.centre[j].abs() + f.spread[j] + f.remainder[j];
                size += at(output) + steepness * at(input);
                centre += output.centre[j] - p.slope * input.centre[j];
                remainder += output.remainder[j] + steepness * input.remainder[j];
                let width = form.live.len();
                if let (Some(to), Some((inputs, outputs))) = (columns[j], &earlier_columns) {
                    for (factor, earlier, from) in [(-p.slope, input, inputs[j]), (1.0, output, outputs[j])] {
                        let Some(from) = from else { continue };
                        for s in 0..earlier.order() {
                            form.generators[s * width + to] +=
                                factor * earlier.generators[s * earlier.live.len() + from];
                        }
                    }
                }
            }
            let exact =
                !p.as_change && p.offset == 0.0 && p.radius == 0.0 && (p.slope == 0.0 || p.slope == 1.0);
            form.centre[j] = centre + p.offset;
            form.remainder[j] = remainder;
            if !exact {
                let owed = 16.0 * f64::EPSILON * (size + p.offset.abs()) + TINY;
                form.remainder[j] = up(up(remainder) + owed);
                if p.radius > 0.0 {
                    let vague = if p.named { std::mem::take(&mut form.remainder[j]) } else { 0.0 };
                    fresh.push((j, up(p.radius + vague)));
                }
            }
        }
        form.push_units(&fresh, symbols);
        form.bounds = image;
        form.settle();
        form
    }
}
