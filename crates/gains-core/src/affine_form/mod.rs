//! Affine forms (zonotopes): sets of vectors that keep their dependence on common noise symbols.
//!
//! A form stands for all vectors `c + Σₛ Gₛ eₛ + w` with every symbol `eₛ` in `[−1, 1]` and `|wⱼ| ≤ rⱼ`. Two forms
//! that mention the same symbol mean the same unknown, so sums of forms cancel where the things they stand
//! for cancel; the remainder `r` knows nothing and never cancels. Beside it every form carries a box that holds the
//! same vectors, from interval arithmetic and from the form itself, whichever is tighter entry by entry.
//!
//! The symbols of a ball ([`AffineForm::from_ball`]) are not independent: as a vector their norm is at most 1. Only where a form is
//! bounded does that matter: the radius is then the dual norm of their generators (Hölder) and the sum of magnitudes of
//! all others. Everywhere else they are taken as independent, which is more than they can be.
//!
//! Rounding: centres and generators are computed in float64; what that may have lost is bounded by the
//! usual multiple of the sizes involved and added to the remainder, as is whatever a float32 program
//! rounds. So a form encloses the values the program computes, and the difference of two forms the difference
//! of computed values.

mod ball;
mod combine;
mod norm;
mod pass;
mod reduce;

pub use ball::BallNorm;
pub use pass::Passing;

use std::borrow::Cow;

use crate::arithmetic::{LARGEST, TINY, analysis_error, down, up};
use crate::interval::{BoxVec, Interval};
use crate::kernels;

/// Most entries of a form's generators: 128 MB. What would go beyond gets no symbols of its own.
const MOST_GENERATORS: usize = 16 << 20;

/// The number of a noise symbol. Two symbols of one number would be taken for one, so numbers must not run out: a long
/// run hands out thousands a step.
pub type Symbol = u64;

/// Hands out noise symbols nobody has used before.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    next: Symbol,
}

impl Symbols {
    /// A new symbol.
    pub fn fresh(&mut self) -> Symbol {
        self.next += 1;
        self.next
    }
}

/// A set of vectors with `n` entries over noise symbols.
///
/// # Shapes
/// `centre` and `remainder` have `n` entries, the generators are a matrix of one row per symbol and one column
/// per entry that any symbol reaches.
#[derive(Clone, Debug, Default)]
pub struct AffineForm {
    /// The symbols, increasing.
    symbols: Vec<Symbol>,
    /// Centre.
    pub centre: Vec<f64>,
    /// Entries that generators may touch, increasing: the columns of the generators.
    live: Vec<u32>,
    /// Row `s` belongs to `symbols[s]`.
    generators: Vec<f64>,
    /// What is known only up to a distance, entry by entry.
    pub remainder: Vec<f64>,
    /// A box around the same set.
    pub bounds: BoxVec,
    /// `Σₛ |Gₛ|`, rounded up.
    spread: Vec<f64>,
}

impl AffineForm {
    /// A box, with one symbol for every entry that is not a single number.
    pub fn from_box(b: &BoxVec, symbols: &mut Symbols) -> Self {
        let n = b.len();
        let centre: Vec<f64> = (0..n).map(|i| 0.5 * b.lower[i] + 0.5 * b.upper[i]).collect();
        let mut form = Self { centre, remainder: vec![0.0; n], bounds: b.clone(), ..Self::default() };
        let radius = |i: usize| up((b.upper[i] - form.centre[i]).max(form.centre[i] - b.lower[i]));
        let units: Vec<(usize, f64)> = (0..n).map(|i| (i, radius(i))).filter(|(_, r)| *r > 0.0).collect();
        form.push_units(&units, symbols);
        form.settle();
        form
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.centre.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.centre.is_empty()
    }

    /// Number of symbols.
    pub fn order(&self) -> usize {
        self.symbols.len()
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        8 * (self.generators.len() + 5 * self.len())
    }

    /// Memory that a form needs, roughly, whose symbols reach all of its entries.
    pub fn bytes_of(symbols: usize, entries: usize) -> usize {
        8 * (symbols.saturating_mul(entries).min(MOST_GENERATORS) + 5 * entries)
    }

    /// The generators, in the columns of [`Self::live`].
    fn rows(&self) -> impl Iterator<Item = (Symbol, &[f64])> {
        let width = self.live.len();
        self.symbols
            .iter()
            .enumerate()
            .map(move |(s, &symbol)| (symbol, &self.generators[s * width..][..width]))
    }

    /// The column of every entry, where it has one.
    fn columns(&self) -> Vec<Option<usize>> {
        let mut columns = vec![None; self.len()];
        for (column, &j) in self.live.iter().enumerate() {
            columns[j as usize] = Some(column);
        }
        columns
    }

    /// Generators in the given columns, which hold all live ones.
    fn spread_out(&self, live: &[u32]) -> Vec<f64> {
        if live == self.live {
            return self.generators.clone();
        }
        let mut out = vec![0.0; self.order() * live.len()];
        self.add_to(&mut out, live, 1.0);
        out
    }

    /// `out += factor·generators`, where `out` has the given columns, which hold all live ones.
    fn add_to(&self, out: &mut [f64], live: &[u32], factor: f64) {
        if live == self.live {
            kernels::add_scaled(&mut out[..self.generators.len()], factor, &self.generators);
            return;
        }
        let mut places: Vec<usize> = Vec::with_capacity(self.live.len());
        for j in &self.live {
            // Every live column is among the given ones.
            places.push(live.partition_point(|k| k < j));
        }
        for ((_, row), out) in self.rows().zip(out.chunks_exact_mut(live.len().max(1))) {
            for (&at, g) in places.iter().zip(row) {
                out[at] += factor * g;
            }
        }
    }

    /// Adds a fresh symbol for each of the entries, with the given radius. Where the generators would become too
    /// large, the radius goes into the remainder: sound, but it never cancels.
    fn push_units(&mut self, units: &[(usize, f64)], symbols: &mut Symbols) {
        if units.is_empty() {
            return;
        }
        let live = union(&self.live, units.iter().map(|(j, _)| *j as u32));
        if (self.order() + units.len()).saturating_mul(live.len()) > MOST_GENERATORS {
            for &(j, radius) in units {
                self.remainder[j] = up(self.remainder[j] + radius);
            }
            return;
        }
        self.extend_columns(live);
        let columns = self.columns();
        self.generators.reserve_exact(units.len() * self.live.len());
        for &(j, radius) in units {
            let start = self.generators.len();
            self.generators.resize(start + self.live.len(), 0.0);
            self.symbols.push(symbols.fresh());
            if let Some(column) = columns[j] {
                self.generators[start + column] = radius;
            }
        }
    }

    /// Has the given columns, which hold all live ones.
    fn extend_columns(&mut self, live: Vec<u32>) {
        if live != self.live {
            self.generators = self.spread_out(&live);
            self.live = live;
        }
    }

    /// Recomputes the spread and cuts the box down to what the form allows. Entries that the box shows to be
    /// zero become exact zeros.
    fn settle(&mut self) {
        let mut sums = vec![0.0; self.live.len()];
        for (_, row) in self.rows() {
            for (sum, g) in sums.iter_mut().zip(row) {
                *sum += g.abs();
            }
        }
        let gamma = analysis_error(self.order());
        let mut spread = vec![0.0; self.len()];
        for (&j, sum) in self.live.iter().zip(&sums) {
            spread[j as usize] = sum * (1.0 + gamma);
        }
        let within_ball = self.reach();
        for (j, spread) in spread.iter_mut().enumerate() {
            if self.bounds.lower[j] == 0.0 && self.bounds.upper[j] == 0.0 {
                (*spread, self.centre[j], self.remainder[j]) = (0.0, 0.0, 0.0);
                continue;
            }
            let reach = within_ball.as_ref().map_or(*spread, |reach| reach[j]);
            let radius = up(reach + self.remainder[j]);
            let (low, high) = (down(self.centre[j] - radius), up(self.centre[j] + radius));
            // What is not a number must stay visible.
            if low > self.bounds.lower[j] || low.is_nan() {
                self.bounds.lower[j] = low;
            }
            if high < self.bounds.upper[j] || high.is_nan() {
                self.bounds.upper[j] = high;
            }
        }
        self.spread = spread;
        let live: Vec<u32> = self.live.iter().copied().filter(|&j| self.spread[j as usize] != 0.0).collect();
        self.keep_columns(live);
    }

    /// Drops all columns but some of the live ones, in place: a form may be a large part of all memory.
    fn keep_columns(&mut self, live: Vec<u32>) {
        let width = self.live.len();
        if live.len() == width {
            return;
        }
        let columns = self.columns();
        let kept: Vec<usize> = live.iter().filter_map(|&j| columns[j as usize]).collect();
        let mut to = 0;
        for row in 0..self.order() {
            for column in &kept {
                self.generators[to] = self.generators[row * width + column];
                to += 1;
            }
        }
        self.generators.truncate(to);
        self.generators.shrink_to_fit();
        self.live = live;
    }

    /// `|c| + Σ|G| + r`, rounded up: what the rounding of anything done with the form is proportional to.
    fn sizes(&self) -> Vec<f64> {
        let parts = self.centre.iter().zip(&self.spread).zip(&self.remainder);
        parts.map(|((c, s), r)| (c.abs() + s + r) * (1.0 + 4.0 * f64::EPSILON)).collect()
    }

    /// True if everything is a number of at most [`LARGEST`].
    pub fn is_sane(&self) -> bool {
        self.bounds.is_sane() && self.sizes().iter().all(|m| *m <= LARGEST)
    }

    /// Encloses `weights · x`, in exact arithmetic.
    pub fn functional(&self, weights: &[f64]) -> Interval {
        let mut value = 0.0;
        let (mut size, mut rest) = (0.0, 0.0);
        for (j, m) in self.sizes().iter().enumerate() {
            value += weights[j] * self.centre[j];
            rest += weights[j].abs() * self.remainder[j];
            size += weights[j].abs() * m;
        }
        let weights: Vec<f64> = self.live.iter().map(|&j| weights[j as usize]).collect();
        let along: Vec<f64> =
            self.rows().map(|(_, row)| kernels::dot_and_size(row, &weights, &weights).0).collect();
        let spread = self.radius_of(&along);
        let gamma = analysis_error(self.len() + 2 * self.order() + 16);
        let radius = (spread + rest + gamma * size) * (1.0 + gamma) + TINY;
        Interval::new(down(value - radius), up(value + radius))
    }

    /// The vectors that remain where some symbols have a known value.
    pub fn slice(&self, known: impl Fn(Symbol) -> Option<f64>) -> BoxVec {
        let mut centre = self.centre.clone();
        let mut radius = self.remainder.clone();
        for (symbol, row) in self.rows() {
            let value = known(symbol);
            for (&j, g) in self.live.iter().zip(row) {
                match value {
                    Some(e) => centre[j as usize] += g * e,
                    None => radius[j as usize] += g.abs(),
                }
            }
        }
        let gamma = analysis_error(self.order() + 4);
        for (r, m) in radius.iter_mut().zip(self.sizes()) {
            *r = (*r + gamma * m) * (1.0 + gamma);
        }
        let ends = centre.iter().zip(&radius);
        let (lower, upper) = ends.map(|(c, r)| (down(c - r), up(c + r))).unzip();
        let mut slice = BoxVec::new(lower, upper);
        slice.meet(&self.bounds);
        slice
    }

    /// Knows all of `symbols`, which hold its own.
    pub fn extend_to(&mut self, symbols: &[Symbol]) {
        if symbols.len() > self.order() {
            if self.symbols[..] == symbols[..self.order()] {
                self.symbols = symbols.to_vec();
                self.generators.resize(symbols.len() * self.live.len(), 0.0);
                return;
            }
            let width = self.live.len();
            let mut generators = vec![0.0; symbols.len() * width];
            for (symbol, row) in self.rows() {
                // Every own symbol is among the given ones.
                let at = symbols.partition_point(|s| *s < symbol);
                generators[at * width..][..width].copy_from_slice(row);
            }
            self.symbols = symbols.to_vec();
            self.generators = generators;
        }
    }

    /// All symbols of some forms, increasing. Forms of one chain of operators each know what the one before knew, so
    /// that the longest list holds them all.
    pub fn all_symbols<'f>(forms: impl Iterator<Item = &'f Self>) -> Vec<Symbol> {
        forms.fold(Vec::new(), |all, form| {
            let shorter = all.len().min(form.order());
            if all[..shorter] == form.symbols[..shorter] {
                return if form.order() > all.len() { form.symbols.clone() } else { all };
            }
            union(&all, form.symbols.iter().copied())
        })
    }

    /// The form with the symbols in the order of a list that holds its own: as it is where the list starts with
    /// them.
    fn aligned(&self, symbols: &[Symbol]) -> Cow<'_, Self> {
        if self.symbols[..] == symbols[..self.order()] {
            return Cow::Borrowed(self);
        }
        let mut wide = self.clone();
        wide.extend_to(symbols);
        Cow::Owned(wide)
    }

    /// The symbols, increasing.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// `Σⱼ |Gₛⱼ|` for every symbol.
    pub fn weights(&self) -> Vec<f64> {
        self.rows().map(|(_, row)| row.iter().map(|g| g.abs()).sum()).collect()
    }
}

/// All of both, increasing; the second need not be in order.
fn union<T: Copy + Ord>(a: &[T], b: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = a.to_vec();
    all.extend(b);
    all.sort_unstable();
    all.dedup();
    all
}
