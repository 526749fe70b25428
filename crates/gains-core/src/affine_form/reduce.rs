//! Joining forms, and keeping the number of their symbols within limits.

use crate::arithmetic::{TINY, analysis_error, up};
use crate::kernels;
use crate::operator::affine::multiply;

use super::{AffineForm, Symbols, union};

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
    ///
    /// Where that would take more than a moment, what is replaced goes into the remainder instead.
    pub fn compress(&mut self, kept: &[u32], symbols: &mut Symbols) {
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
