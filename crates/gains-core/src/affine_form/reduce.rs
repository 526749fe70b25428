//! Joining forms, and keeping the number of their symbols within limits.

use crate::affine::multiply;
use crate::arithmetic::{TINY, analysis_error, up};
use crate::kernels;

use super::{AffineForm, Symbol, Symbols, union};

/// Most products of a compression: about a quarter of a second.
const MOST_PRODUCTS: usize = 1 << 30;

impl AffineForm {
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

    /// A form that holds both, for forms that are nearly the same: `side` is a symbol newer than all of theirs and stands for
    /// which of the two a vector belongs to. Several pairs of forms may be joined over the same `side`. `apart` are symbols
    /// (increasing) that everything on one of the two sides knows nothing of.
    ///
    /// A vector `A(e)` of the first is `(A+B)/2 (e) + (A−B)/2 (e)`, one `B(e)` of the second the same with a minus. Of the
    /// half difference the centre is kept exactly, `side` times it with `side = ±1`; what the symbols add to it is at most
    /// the sum of their magnitudes, entry by entry, and goes into the remainder. So every symbol keeps its meaning for
    /// the vectors of both, which is what lets other forms over the same symbols be joined beside these. A symbol of `apart` keeps its
    /// generator: where it is not known it may as well be 0.
    pub fn join_beside(&self, other: &Self, side: Symbol, apart: &[Symbol]) -> Self {
        let n = self.len();
        let mut symbols = Self::all_symbols([self, other].into_iter());
        let centres: Vec<f64> =
            self.centre.iter().zip(&other.centre).map(|(a, b)| 0.5 * a - 0.5 * b).collect();
        let differing = (0..n).filter(|&j| centres[j] != 0.0).map(|j| j as u32);
        let live = union(&union(&self.live, other.live.iter().copied()), differing);
        let width = live.len();
        let spread_out = |form: &Self| {
            let mut all = form.aligned(&symbols).spread_out(&live);
            all.resize(symbols.len() * width, 0.0);
            all
        };
        let (mut generators, theirs) = (spread_out(self), spread_out(other));
        let mut open = vec![0.0; width];
        let rows = generators.chunks_exact_mut(width.max(1)).zip(theirs.chunks_exact(width.max(1)));
        for ((mine, theirs), symbol) in rows.zip(&symbols) {
            if apart.binary_search(symbol).is_ok() {
                // One of the two is zero.
                mine.iter_mut().zip(theirs).for_each(|(g, h)| *g += h);
                continue;
            }
            for ((g, h), open) in mine.iter_mut().zip(theirs).zip(&mut open) {
                *open += (0.5 * *g - 0.5 * h).abs();
                *g = 0.5 * *g + 0.5 * h;
            }
        }
        generators.extend(live.iter().map(|&j| centres[j as usize]));
        let gamma = analysis_error(symbols.len() + 4);
        symbols.push(side);
        let mut remainder: Vec<f64> =
            self.remainder.iter().zip(&other.remainder).map(|(a, b)| a.max(*b)).collect();
        for (&j, open) in live.iter().zip(&open) {
            remainder[j as usize] += open * (1.0 + gamma);
        }
        for ((r, m), k) in remainder.iter_mut().zip(self.sizes()).zip(other.sizes()) {
            *r = if m + k > 0.0 { up(*r + 8.0 * f64::EPSILON * (m + k)) + TINY } else { *r };
        }
        let centre = self.centre.iter().zip(&other.centre).map(|(a, b)| 0.5 * a + 0.5 * b).collect();
        let mut bounds = self.bounds.clone();
        bounds.join(&other.bounds);
        let mut form = Self { symbols, centre, live, generators, remainder, bounds, spread: Vec::new() };
        form.settle();
        form
    }

    /// How much wider a form is than another, all entries together, as a share of the other's width.
    pub fn excess(&self, over: &Self) -> f64 {
        let width =
            |form: &Self| -> f64 { form.spread.iter().zip(&form.remainder).map(|(s, r)| s + r).sum() };
        width(self) / width(over) - 1.0
    }

    /// Drops all symbols but the given (increasing) ones; what they stood for goes into the remainder.
    pub fn retain(&mut self, kept: &[Symbol]) {
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
    ///
    /// Where that would take more than a moment, what is replaced goes into the remainder instead.
    pub fn compress(&mut self, kept: &[Symbol], symbols: &mut Symbols) {
        let n = self.len();
        let unnamed = (0..n).filter(|&j| self.remainder[j] != 0.0).map(|j| j as u32);
        let live = union(&self.live, unnamed);
        let width = live.len();
        let replaced = self.order().saturating_sub(kept.len()) + width;
        if replaced.saturating_mul(width).saturating_mul(width) > MOST_PRODUCTS {
            self.retain(kept);
            return;
        }
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
        drop(all);
        let basis = basis(&mut rows, width);
        let count = rows.len();
        let flat = rows.concat();
        drop(rows);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::BoxVec;

    const ENTRIES: usize = 3;

    /// A form over the given symbols, with numbers of few bits, so that its vectors are exact.
    fn form(random: &mut fastrand::Rng, symbols: &[Symbol]) -> AffineForm {
        let mut short = || f64::from(random.i32(-64..=64)) / 64.0;
        let mut form = AffineForm {
            symbols: symbols.to_vec(),
            centre: (0..ENTRIES).map(|_| short()).collect(),
            live: (0..ENTRIES as u32).collect(),
            generators: (0..symbols.len() * ENTRIES).map(|_| short()).collect(),
            remainder: (0..ENTRIES).map(|_| short().max(0.0)).collect(),
            bounds: BoxVec::new(vec![-1e3; ENTRIES], vec![1e3; ENTRIES]),
            spread: Vec::new(),
        };
        form.settle();
        form
    }

    /// The vector of a form for given values of its symbols and of what is not named.
    fn vector(form: &AffineForm, value: impl Fn(Symbol) -> f64, unnamed: &[f64]) -> Vec<f64> {
        let mut x: Vec<f64> = (0..ENTRIES).map(|j| form.centre[j] + form.remainder[j] * unnamed[j]).collect();
        for (symbol, row) in form.rows() {
            for (&j, g) in form.live.iter().zip(row) {
                x[j as usize] += g * value(symbol);
            }
        }
        x
    }

    /// Forms over symbols they share and symbols of their own: whatever values these have, where `side` says which of the
    /// two it is, the joined form holds its vector, and so it does where nothing is said.
    #[test]
    fn a_form_joined_beside_others_holds_the_vectors_of_both_for_the_same_symbols() {
        let mut random = fastrand::Rng::with_seed(36);
        for round in 0..2_000 {
            let a = form(&mut random, &[1, 2, 3, 5]);
            let b = match round % 3 {
                0 => form(&mut random, &[1, 2, 4, 6]),
                1 => form(&mut random, &[2]),
                _ => form(&mut random, &[1, 2, 3, 5]),
            };
            let apart: &[Symbol] = if round % 2 == 0 && round % 3 == 0 { &[3, 4, 5, 6] } else { &[] };
            let joined = a.join_beside(&b, 9, apart);
            assert_eq!(joined.symbols().last(), Some(&9));
            for _ in 0..20 {
                let values: Vec<f64> = (0..8).map(|_| if random.bool() { 1.0 } else { -1.0 }).collect();
                let unnamed: Vec<f64> =
                    (0..ENTRIES).map(|_| if random.bool() { 1.0 } else { -1.0 }).collect();
                let value = |symbol: Symbol| values[symbol as usize];
                for (source, side) in [(&a, 1.0), (&b, -1.0)] {
                    let x = vector(source, value, &unnamed);
                    // What the other side alone knows of says nothing about this one.
                    let value = |s: Symbol| {
                        if apart.contains(&s) && !source.symbols().contains(&s) { 0.0 } else { value(s) }
                    };
                    let known = |s: Symbol| Some(if s == 9 { side } else { value(s) });
                    for slice in [joined.slice(known), joined.slice(|s| (s != 9).then(|| value(s)))] {
                        assert!(slice.contains(&x), "round {round}: {x:?} in {slice:?}, side {side}");
                    }
                    assert!(joined.bounds.contains(&x), "round {round}: {x:?} in {:?}", joined.bounds);
                }
            }
        }
    }

    #[test]
    fn forms_that_are_the_same_do_not_widen() {
        let mut random = fastrand::Rng::with_seed(37);
        let a = form(&mut random, &[1, 2, 3]);
        let joined = a.join_beside(&a.clone(), 9, &[]);
        assert!(joined.excess(&a).abs() < 1e-12, "{}", joined.excess(&a));
        let b = form(&mut random, &[4, 5, 6]);
        assert!(a.join_beside(&b, 9, &[]).excess(&a) > 0.1);
    }
}
