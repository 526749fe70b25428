//! Affine forms (zonotopes): sets of vectors that keep their dependence on common noise symbols.
//!
//! A form stands for all vectors `c + Σₛ Gₛ eₛ + w` with every symbol `eₛ` in `[−1, 1]` and `|wⱼ| ≤ rⱼ`. Two forms
//! that mention the same symbol mean the same unknown, so sums of forms cancel where the things they stand
//! for cancel; the remainder `r` knows nothing and never cancels. Beside it every form carries a box that holds the
//! same vectors, from interval arithmetic and from the form itself, whichever is tighter entry by entry.
//!
//! Rounding: centres and generators are computed in float64; what that may have lost is bounded by the
//! usual multiple of the sizes involved and added to the remainder, as is whatever a float32 program
//! rounds. So a form encloses the values the program computes, and the difference of two forms the difference
//! of computed values.

use gains_core::affine::{Matrix, multiply};
use gains_core::arithmetic::{LARGEST, TINY, analysis_error, down, up};
use gains_core::interval::combine;
use gains_core::{AffineMap, Arithmetic, BoxVec, Interval, kernels};

/// Hands out noise symbols nobody has used before.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    next: u32,
}

impl Symbols {
    /// A new symbol.
    pub fn fresh(&mut self) -> u32 {
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
    symbols: Vec<u32>,
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

    /// The generators, in the columns of [`Self::live`].
    fn rows(&self) -> impl Iterator<Item = (u32, &[f64])> {
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

    /// Adds a fresh symbol for each of the entries, with the given radius.
    fn push_units(&mut self, units: &[(usize, f64)], symbols: &mut Symbols) {
        if units.is_empty() {
            return;
        }
        let live = union(&self.live, units.iter().map(|(j, _)| *j as u32));
        self.generators = self.spread_out(&live);
        self.live = live;
        let columns = self.columns();
        for &(j, radius) in units {
            let start = self.generators.len();
            self.generators.resize(start + self.live.len(), 0.0);
            self.symbols.push(symbols.fresh());
            if let Some(column) = columns[j] {
                self.generators[start + column] = radius;
            }
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
        for (j, spread) in spread.iter_mut().enumerate() {
            if self.bounds.lower[j] == 0.0 && self.bounds.upper[j] == 0.0 {
                (*spread, self.centre[j], self.remainder[j]) = (0.0, 0.0, 0.0);
                continue;
            }
            let radius = up(*spread + self.remainder[j]);
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
        if live.len() < self.live.len() {
            self.generators = self.gathered(&live);
            self.live = live;
        }
    }

    /// Generators in some of the live columns.
    fn gathered(&self, live: &[u32]) -> Vec<f64> {
        let columns = self.columns();
        let from: Vec<usize> = live.iter().filter_map(|&j| columns[j as usize]).collect();
        let mut out = Vec::with_capacity(self.order() * from.len());
        for (_, row) in self.rows() {
            out.extend(from.iter().map(|&c| row[c]));
        }
        out
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

    /// Encloses `W x + b + t·u`. With `positive_part`, outputs that intervals show to be negative keep only
    /// their interval, since a ReLU follows. `matrix` is `W`, where it pays to have it written out.
    ///
    /// Exact but for rounding: `γ (|W| (|c| + Σ|G| + r) + |b|)` for the analysis and, in float32 mode, for
    /// the program as well.
    pub fn affine(
        &self,
        map: &AffineMap,
        matrix: Option<&Matrix>,
        time: f64,
        arithmetic: Arithmetic,
        positive_part: bool,
    ) -> Self {
        let bounds = map.apply_box(&self.bounds, time, arithmetic);
        let gamma = arithmetic.dot(map.terms());
        let sizes = self.sizes();
        let inflated: Vec<f64> = self.remainder.iter().zip(&sizes).map(|(r, m)| r / gamma + m).collect();
        let mut remainder = map.magnitude(&inflated, time, arithmetic);
        remainder.iter_mut().for_each(|v| *v *= gamma * (1.0 + 4.0 * f64::EPSILON));
        let mut centre = map.apply(&self.centre, time);
        let m = centre.len();
        let dead = |j: usize| positive_part && bounds.upper[j] <= 0.0;
        let live: Vec<u32> = (0..m).filter(|&j| !dead(j)).map(|j| j as u32).collect();
        for j in (0..m).filter(|&j| dead(j)) {
            centre[j] = 0.5 * bounds.lower[j] + 0.5 * bounds.upper[j];
            remainder[j] = up((bounds.upper[j] - centre[j]).max(centre[j] - bounds.lower[j]));
        }
        let generators = match matrix {
            Some(matrix) => self.times(matrix, &live),
            None => {
                let mut out = Vec::with_capacity(self.order() * live.len());
                let mut full = vec![0.0; self.len()];
                for (_, row) in self.rows() {
                    self.live.iter().zip(row).for_each(|(&j, g)| full[j as usize] = *g);
                    let image = map.apply_linear(&full);
                    out.extend(live.iter().map(|&j| image[j as usize]));
                }
                out
            }
        };
        let symbols = self.symbols.clone();
        let mut form = Self { symbols, centre, live, generators, remainder, bounds, spread: Vec::new() };
        form.settle();
        form
    }

    /// `G Wᵀ` in the given columns.
    fn times(&self, matrix: &Matrix, wanted: &[u32]) -> Vec<f64> {
        let mut weights = vec![0.0; self.live.len() * wanted.len()];
        for (to, &j) in wanted.iter().enumerate() {
            let line = &matrix.data[j as usize * matrix.columns..][..matrix.columns];
            for (from, &i) in self.live.iter().enumerate() {
                weights[from * wanted.len() + to] = line[i as usize];
            }
        }
        let mut product = vec![0.0; self.order() * wanted.len()];
        multiply(self.order(), self.live.len(), wanted.len(), &self.generators, &weights, &mut product);
        product
    }

    /// Encloses `base + Σ coefficient·term`, as `arithmetic` may compute it. The coefficients may be rounded
    /// products. The symbols of each form must be the first ones of the longest: all stem from one step.
    pub fn combination(base: Option<&Self>, terms: &[(f64, &Self)], arithmetic: Arithmetic) -> Self {
        let n = base.or(terms.first().map(|t| t.1)).map_or(0, Self::len);
        let boxes: Vec<(f64, &BoxVec)> = terms.iter().map(|(c, f)| (*c, &f.bounds)).collect();
        let (bounds, _) = combine(base.map(|b| &b.bounds), &boxes, n, arithmetic);
        let all = terms.iter().copied().filter(|(c, _)| *c != 0.0).chain(base.map(|b| (1.0, b)));
        let parts: Vec<(f64, &Self)> = all.collect();
        let longest = parts.iter().map(|(_, f)| &f.symbols).max_by_key(|s| s.len());
        let symbols = longest.cloned().unwrap_or_default();
        let live = parts.iter().fold(Vec::new(), |live, (_, f)| union(&live, f.live.iter().copied()));
        let mut form = Self {
            centre: vec![0.0; n],
            generators: vec![0.0; symbols.len() * live.len()],
            live,
            remainder: vec![0.0; n],
            bounds,
            symbols,
            spread: Vec::new(),
        };
        let mut size = vec![0.0; n];
        for &(c, part) in &parts {
            debug_assert_eq!(part.symbols[..], form.symbols[..part.order()], "forms of one step");
            kernels::add_scaled(&mut form.centre, c, &part.centre);
            part.add_to(&mut form.generators, &form.live, c);
            kernels::add_scaled(&mut form.remainder, c.abs(), &part.remainder);
            for (size, m) in size.iter_mut().zip(part.sizes()) {
                // A product may underflow to zero; what is not zero must not look like it.
                *size += c.abs() * m + if m > 0.0 { f64::MIN_POSITIVE } else { 0.0 };
            }
        }
        let error = arithmetic.short_sum(parts.len() + 1);
        let tiny = arithmetic.underflow();
        for (r, m) in form.remainder.iter_mut().zip(&size) {
            if *m > 0.0 {
                *r = (*r + error * m) * (1.0 + error) + tiny;
            }
        }
        form.settle();
        form
    }

    /// Encloses `self − other` in the given entries; both must stem from one step.
    pub fn apart(&self, other: &Self, entries: &[usize]) -> Vec<Interval> {
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
    /// everything computed from it.
    pub fn pass(
        &self,
        passing: &[Passing],
        image: BoxVec,
        earlier: Option<(&Self, &Self)>,
        symbols: &mut Symbols,
    ) -> Self {
        let n = self.len();
        let mut form = self.clone();
        if let Some((_, output)) = earlier {
            form.extend_to(&output.symbols);
        }
        let changing = (0..n).filter(|&j| passing[j].as_change).map(|j| j as u32);
        let live = union(&self.live, changing);
        form.generators = form.spread_out(&live);
        form.live = live;
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
            let mut size = p.slope * sizes[j];
            let mut centre = p.slope * self.centre[j];
            let mut remainder = p.slope * self.remainder[j];
            if let Some((input, output)) = earlier.filter(|_| p.as_change) {
                let at = |f: &Self| f.centre[j].abs() + f.spread[j] + f.remainder[j];
                size += at(output) + p.slope * at(input);
                centre += output.centre[j] - p.slope * input.centre[j];
                remainder += output.remainder[j] + p.slope * input.remainder[j];
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
                fresh.extend((p.radius > 0.0).then_some((j, p.radius)));
            }
        }
        form.push_units(&fresh, symbols);
        form.bounds = image;
        form.settle();
        form
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
        let spread: f64 =
            self.rows().map(|(_, row)| kernels::dot_and_size(row, &weights, &weights).0.abs()).sum();
        let gamma = analysis_error(self.len() + self.order() + 8);
        let radius = (spread + rest + gamma * size) * (1.0 + gamma) + TINY;
        Interval::new(down(value - radius), up(value + radius))
    }

    /// The vectors that remain where some symbols have a known value.
    pub fn slice(&self, known: impl Fn(u32) -> Option<f64>) -> BoxVec {
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

    /// A form that holds both, `mean ± half the difference`.
    ///
    /// A vector `A(e)` of the first is `(A+B)/2 (e) + λ (A−B)/2 (e)` with `λ = 1`, one of the second the same with
    /// `λ = −1`. Written out, `λ` times the difference of the centres needs one symbol and the products `λ eₛ` one
    /// each, all within `[−1, 1]`.
    pub fn join(&self, other: &Self, symbols: &mut Symbols) -> Self {
        let n = self.len();
        let mean =
            |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| 0.5 * a + 0.5 * b).collect() };
        let half =
            |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| 0.5 * a - 0.5 * b).collect() };
        let apart = half(&self.centre, &other.centre);
        let differing = (0..n).filter(|&j| apart[j] != 0.0).map(|j| j as u32);
        let live = union(&union(&self.live, other.live.iter().copied()), differing);
        let width = live.len();
        let zero = vec![0.0; width];
        let (a, b) = (self.spread_out(&live), other.spread_out(&live));
        let rows = |form: &Self| form.symbols.clone().into_iter().enumerate();
        let row = |all: &[f64], s: usize| all[s * width..][..width].to_vec();
        let (mut mine, mut theirs) = (
            rows(self).map(|(s, symbol)| (symbol, row(&a, s))).peekable(),
            rows(other).map(|(s, symbol)| (symbol, row(&b, s))).peekable(),
        );
        let mut extra = vec![live.iter().map(|&j| apart[j as usize]).collect::<Vec<f64>>()];
        let mut form = Self { centre: mean(&self.centre, &other.centre), live, ..Self::default() };
        loop {
            let first = match (mine.peek(), theirs.peek()) {
                (None, None) => break,
                (Some((a, _)), Some((b, _))) => *a.min(b),
                (Some((a, _)), None) | (None, Some((a, _))) => *a,
            };
            let a = mine.next_if(|(s, _)| *s == first).map_or_else(|| zero.clone(), |r| r.1);
            let b = theirs.next_if(|(s, _)| *s == first).map_or_else(|| zero.clone(), |r| r.1);
            form.symbols.push(first);
            form.generators.extend(mean(&a, &b));
            extra.push(half(&a, &b));
        }
        for row in extra.into_iter().filter(|row| row.iter().any(|g| *g != 0.0)) {
            form.symbols.push(symbols.fresh());
            form.generators.extend(row);
        }
        let sizes = self.sizes().into_iter().zip(other.sizes());
        form.remainder = self
            .remainder
            .iter()
            .zip(&other.remainder)
            .zip(sizes)
            .map(|((a, b), (m, k))| {
                a.max(*b) + if m + k > 0.0 { 8.0 * f64::EPSILON * (m + k) + TINY } else { 0.0 }
            })
            .collect();
        form.bounds = self.bounds.clone();
        form.bounds.join(&other.bounds);
        form.settle();
        form
    }

    /// Knows all of `symbols`, which start with its own.
    pub fn extend_to(&mut self, symbols: &[u32]) {
        if symbols.len() > self.order() {
            debug_assert_eq!(self.symbols[..], symbols[..self.order()], "forms of one step");
            self.symbols = symbols.to_vec();
            self.generators.resize(symbols.len() * self.live.len(), 0.0);
        }
    }

    /// The symbols, increasing.
    pub fn symbols(&self) -> &[u32] {
        &self.symbols
    }

    /// `Σⱼ |Gₛⱼ|` for every symbol.
    pub fn weights(&self) -> Vec<f64> {
        self.rows().map(|(_, row)| row.iter().map(|g| g.abs()).sum()).collect()
    }

    /// Drops all symbols but the given (increasing) ones; what they stood for goes into the remainder.
    pub fn retain(&mut self, kept: &[u32]) {
        let gamma = analysis_error(self.order());
        let mut lost = vec![0.0; self.live.len()];
        let (mut symbols, mut generators) = (Vec::new(), Vec::new());
        for (symbol, row) in self.rows() {
            if kept.binary_search(&symbol).is_ok() {
                symbols.push(symbol);
                generators.extend_from_slice(row);
            } else {
                lost.iter_mut().zip(row).for_each(|(l, g)| *l += g.abs());
            }
        }
        for (&j, lost) in self.live.iter().zip(&lost) {
            let r = &mut self.remainder[j as usize];
            *r = up(up(*r + lost * (1.0 + gamma)));
        }
        (self.symbols, self.generators) = (symbols, generators);
        self.settle();
    }

    /// Turns remainders that are more than `share` of the spread into symbols of their own, so that from
    /// here on they cancel like everything else.
    pub fn name_remainders(&mut self, share: f64, symbols: &mut Symbols) {
        let mut units = Vec::new();
        for j in 0..self.len() {
            if self.remainder[j] > share * self.spread[j] {
                let radius = std::mem::take(&mut self.remainder[j]);
                self.spread[j] = up(self.spread[j] + radius);
                units.push((j, radius));
            }
        }
        self.push_units(&units, symbols);
    }

    /// Replaces all symbols but the given (increasing) ones, and the remainder, by as many symbols as there
    /// are entries that need any.
    ///
    /// With the vectors `q` of a basis and `E` the generators to replace (the remainder counts as one for each
    /// entry), `Eₛ = Σᵢ tₛᵢ qᵢ + Rₛ` for any numbers `t`; here `t = E Qᵀ` with `Q` nearly orthonormal, so that the residual `R` is
    /// rounding. `Σₛ tₛᵢ eₛ` is at most `wᵢ = Σₛ |tₛᵢ|`: one symbol with generator `wᵢ qᵢ`. The basis follows the longest
    /// generators, so that the boxes of successive steps do not wrap each other (Lohner's method). The residual
    /// and all rounding go into the new remainder.
    ///
    /// Cost: about `m n²` for `m` generators of `n` entries.
    pub fn compress(&mut self, kept: &[u32], symbols: &mut Symbols) {
        let n = self.len();
        let unnamed = (0..n).filter(|&j| self.remainder[j] != 0.0).map(|j| j as u32);
        let live = union(&self.live, unnamed);
        let width = live.len();
        let all = self.spread_out(&live);
        let mut rows: Vec<Vec<f64>> = Vec::new();
        let (mut names, mut generators) = (Vec::new(), Vec::new());
        for (s, symbol) in self.symbols.iter().enumerate() {
            let row = &all[s * width..][..width];
            if kept.binary_search(symbol).is_ok() {
                names.push(*symbol);
                generators.extend_from_slice(row);
            } else if row.iter().any(|g| *g != 0.0) {
                rows.push(row.to_vec());
            }
        }
        for (at, &j) in live.iter().enumerate().filter(|(_, j)| self.remainder[**j as usize] > 0.0) {
            let mut unit = vec![0.0; width];
            unit[at] = self.remainder[j as usize];
            rows.push(unit);
        }
        let basis = basis(&mut rows, width);
        let count = rows.len();
        let flat = rows.concat();
        let mut transposed = vec![0.0; width * width];
        for (i, q) in basis.chunks_exact(width.max(1)).enumerate() {
            for (j, q) in q.iter().enumerate() {
                transposed[j * width + i] = *q;
            }
        }
        let mut t = vec![0.0; count * width];
        multiply(count, width, width, &flat, &transposed, &mut t);
        let mut fitted = vec![0.0; count * width];
        multiply(count, width, width, &t, &basis, &mut fitted);
        let gamma = analysis_error(count + width + 8);
        let (mut weight, mut size, mut residual) = (vec![0.0; width], vec![0.0; width], vec![0.0; width]);
        for s in 0..count {
            for i in 0..width {
                let at = s * width + i;
                weight[i] += t[at].abs();
                size[i] += flat[at].abs();
                residual[i] += (flat[at] - fitted[at]).abs();
            }
        }
        for (i, q) in basis.chunks_exact(width.max(1)).enumerate() {
            let radius = weight[i] * (1.0 + gamma);
            names.push(symbols.fresh());
            for (size, q) in size.iter_mut().zip(q) {
                generators.push(radius * q);
                *size += 2.0 * radius * q.abs();
            }
        }
        let mut remainder = vec![0.0; n];
        for (at, &j) in live.iter().enumerate() {
            remainder[j as usize] = (residual[at] + gamma * size[at]) * (1.0 + gamma) + TINY;
        }
        (self.symbols, self.live, self.generators, self.remainder) = (names, live, generators, remainder);
        self.settle();
    }
}

/// All of both, increasing; the second need not be in order.
fn union(a: &[u32], b: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut all = a.to_vec();
    all.extend(b);
    all.sort_unstable();
    all.dedup();
    all
}

/// A nearly orthonormal basis of `width` vectors, row by row, that starts along the longest of `rows`; sorts them.
fn basis(rows: &mut [Vec<f64>], width: usize) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| kernels::dot_and_size(a, b, b).0;
    let length = |a: &[f64]| dot(a, a).sqrt();
    rows.sort_by(|a, b| length(b).total_cmp(&length(a)));
    let mut basis: Vec<f64> = Vec::with_capacity(width * width);
    let units = (0..width).map(|at| {
        let mut unit = vec![0.0; width];
        unit[at] = 1.0;
        unit
    });
    for mut candidate in rows.iter().cloned().chain(units) {
        if basis.len() == width * width {
            break;
        }
        let before = length(&candidate);
        for q in basis.chunks_exact(width) {
            let along = dot(&candidate, q);
            kernels::add_scaled(&mut candidate, -along, q);
        }
        let after = length(&candidate);
        // What is nearly dependent would only add noise. Units are taken more readily: the last
        // directions must come from them.
        if after > 1e-3 * before && after > 1e-280 {
            basis.extend(candidate.iter().map(|x| x / after));
        }
    }
    basis.resize(width * width, 0.0);
    basis
}
