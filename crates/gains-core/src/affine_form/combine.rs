//! Affine maps, sums, products and the moving about of entries.

use std::ops::Range;

use crate::affine::{AffineMap, Matrix, multiply};
use crate::arithmetic::{Arithmetic, TINY, up};
use crate::interval::{BoxVec, combine};
use crate::kernels;

use super::{AffineForm, Symbols, union};

impl AffineForm {
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
        self.affine_unless(map, matrix, time, arithmetic, positive_part, &|| false)
    }

    /// The same, unless `stop` says so on the way, which it is asked now and then: then a form that is not sane.
    pub fn affine_unless(
        &self,
        map: &AffineMap,
        matrix: Option<&Matrix>,
        time: f64,
        arithmetic: Arithmetic,
        positive_part: bool,
        stop: &dyn Fn() -> bool,
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
            Some(matrix) => self.times(matrix, &live, stop),
            None => {
                let mut out = Vec::with_capacity(self.order() * live.len());
                let mut full = vec![0.0; self.len()];
                for (_, row) in self.rows() {
                    if stop() {
                        break;
                    }
                    self.live.iter().zip(row).for_each(|(&j, g)| full[j as usize] = *g);
                    let image = map.apply_linear(&full);
                    out.extend(live.iter().map(|&j| image[j as usize]));
                }
                out
            }
        };
        let symbols = self.symbols.clone();
        let finished = generators.len() == symbols.len() * live.len();
        let mut form = Self { symbols, centre, live, generators, remainder, bounds, spread: Vec::new() };
        if !finished {
            return form.broken();
        }
        form.settle();
        form
    }

    /// A form that encloses nothing, and says so.
    fn broken(mut self) -> Self {
        self.generators = vec![0.0; self.order() * self.live.len()];
        self.spread = vec![f64::NAN; self.len()];
        self.bounds.lower.fill(f64::NAN);
        self.bounds.upper.fill(f64::NAN);
        self
    }

    /// `G Wᵀ` in the given columns; less of it if `stop` says so on the way.
    fn times(&self, matrix: &Matrix, wanted: &[u32], stop: &dyn Fn() -> bool) -> Vec<f64> {
        let mut weights = vec![0.0; self.live.len() * wanted.len()];
        for (to, &j) in wanted.iter().enumerate() {
            let line = &matrix.data[j as usize * matrix.columns..][..matrix.columns];
            for (from, &i) in self.live.iter().enumerate() {
                weights[from * wanted.len() + to] = line[i as usize];
            }
        }
        let (inner, width) = (self.live.len(), wanted.len());
        let mut product = vec![0.0; self.order() * width];
        // As many rows at once as take a small part of a second.
        let chunk = ((1 << 28) / (inner * width).max(1)).max(1);
        for first in (0..self.order()).step_by(chunk) {
            if stop() {
                product.truncate(first * width);
                break;
            }
            let count = chunk.min(self.order() - first);
            let rows = &self.generators[first * inner..][..count * inner];
            multiply(count, inner, width, rows, &weights, &mut product[first * width..][..count * width]);
        }
        product
    }

    /// Encloses `base + Σ coefficient·term`, as `arithmetic` may compute it. The coefficients may be rounded
    /// products.
    pub fn combination(base: Option<&Self>, terms: &[(f64, &Self)], arithmetic: Arithmetic) -> Self {
        let n = base.or(terms.first().map(|t| t.1)).map_or(0, Self::len);
        let boxes: Vec<(f64, &BoxVec)> = terms.iter().map(|(c, f)| (*c, &f.bounds)).collect();
        let (bounds, _) = combine(base.map(|b| &b.bounds), &boxes, n, arithmetic);
        let all = terms.iter().copied().filter(|(c, _)| *c != 0.0).chain(base.map(|b| (1.0, b)));
        let parts: Vec<(f64, &Self)> = all.collect();
        let symbols = Self::all_symbols(parts.iter().map(|(_, form)| *form));
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
            let part = &*part.aligned(&form.symbols);
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

    /// Encloses the products of the entries of two forms; `bounds` is a box around them.
    ///
    /// With `x = c + p` and `y = d + q`, `|p| ≤ r` and `|q| ≤ s`: `x·y = c·d + c·q + d·p + p·q`, the last within `r·s`,
    /// which becomes a symbol of its own.
    pub fn times_form(
        x: &Self,
        y: &Self,
        bounds: BoxVec,
        arithmetic: Arithmetic,
        symbols: &mut Symbols,
    ) -> Self {
        let known = Self::all_symbols([x, y].into_iter());
        let (a, b) = (x.aligned(&known), y.aligned(&known));
        let n = x.len();
        let live = union(&a.live, b.live.iter().copied());
        let width = live.len();
        let mut form = Self {
            symbols: known,
            centre: (0..n).map(|j| x.centre[j] * y.centre[j]).collect(),
            generators: Vec::new(),
            live,
            remainder: vec![0.0; n],
            bounds,
            spread: Vec::new(),
        };
        let (mut mine, mut theirs) = (a.spread_out(&form.live), b.spread_out(&form.live));
        mine.resize(form.symbols.len() * width, 0.0);
        theirs.resize(form.symbols.len() * width, 0.0);
        form.generators = mine;
        for (row, other) in
            form.generators.chunks_exact_mut(width.max(1)).zip(theirs.chunks_exact(width.max(1)))
        {
            for ((g, h), &j) in row.iter_mut().zip(other).zip(&form.live) {
                *g = *g * y.centre[j as usize] + h * x.centre[j as usize];
            }
        }
        let (sizes, others) = (x.sizes(), y.sizes());
        let error = 16.0 * f64::EPSILON + arithmetic.program_short_sum(1);
        let mut fresh = Vec::new();
        for j in 0..n {
            let (r, s) = (up(x.spread[j] + x.remainder[j]), up(y.spread[j] + y.remainder[j]));
            let size = sizes[j] * others[j];
            // Not whether their product is: that may have underflown.
            if sizes[j] == 0.0 || others[j] == 0.0 {
                continue;
            }
            let open = x.centre[j].abs() * y.remainder[j] + y.centre[j].abs() * x.remainder[j];
            form.remainder[j] = up(up(open) + error * size) + TINY + arithmetic.program_underflow();
            fresh.extend((r * s > 0.0).then(|| (j, up(r * s) + TINY)));
        }
        form.push_units(&fresh, symbols);
        form.settle();
        form
    }

    /// One form after the other.
    pub fn concat(parts: &[&Self]) -> Self {
        let symbols = Self::all_symbols(parts.iter().copied());
        let n: usize = parts.iter().map(|part| part.len()).sum();
        let mut form = Self { symbols, ..Self::default() };
        let mut first = 0;
        let mut aligned = Vec::new();
        for part in parts {
            form.centre.extend_from_slice(&part.centre);
            form.remainder.extend_from_slice(&part.remainder);
            form.bounds.lower.extend_from_slice(&part.bounds.lower);
            form.bounds.upper.extend_from_slice(&part.bounds.upper);
            form.live.extend(part.live.iter().map(|j| j + first));
            first += part.len() as u32;
            aligned.push(part.aligned(&form.symbols).into_owned());
        }
        debug_assert_eq!(form.centre.len(), n);
        for s in 0..form.symbols.len() {
            for part in &aligned {
                let width = part.live.len();
                match s < part.order() {
                    true => form.generators.extend_from_slice(&part.generators[s * width..][..width]),
                    false => form.generators.resize(form.generators.len() + width, 0.0),
                }
            }
        }
        form.settle();
        form
    }

    /// Consecutive entries.
    pub fn part(&self, range: Range<usize>) -> Self {
        let inside: Vec<usize> =
            (0..self.live.len()).filter(|&c| range.contains(&(self.live[c] as usize))).collect();
        let cut = |all: &[f64]| all[range.clone()].to_vec();
        let mut form = Self {
            symbols: self.symbols.clone(),
            centre: cut(&self.centre),
            live: inside.iter().map(|&c| self.live[c] - range.start as u32).collect(),
            generators: self.rows().flat_map(|(_, row)| inside.iter().map(|&c| row[c])).collect(),
            remainder: cut(&self.remainder),
            bounds: BoxVec::new(cut(&self.bounds.lower), cut(&self.bounds.upper)),
            spread: Vec::new(),
        };
        form.settle();
        form
    }

    /// Cuts the box down to another around the same set.
    pub fn meet(&mut self, bounds: &BoxVec) {
        self.bounds.meet(bounds);
        self.settle();
    }
}
