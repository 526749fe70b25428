//! The sum of the magnitudes of all entries: weights that bound it well.
//!
//! Over a form, `Σ |xⱼ| ≥ s·x` for all weights `s` in `[−1, 1]`, and `Σ |xⱼ| ≤ w·x + β(w)`, where `βⱼ(wⱼ)` is how far `|x|` may
//! be above `wⱼ x` over the entry's interval. Any such weights give a bound, which [`AffineForm::functional`] makes
//! certain; here good ones are looked for, by steps that are alternately taken by the weights and by the symbols, with lengths
//! from the sums of rows and columns (the primal-dual method of Chambolle and Pock, as preconditioned by Pock and Chambolle).
//! Nothing about soundness depends on how well that goes. For lower bounds the best weights give the least sum there is, since the sum is
//! convex in the symbols.

use crate::kernels;

use super::AffineForm;

/// Most rounds of a search for weights.
const ROUNDS: usize = 150;

/// A search for weights that show on which side of a limit the sum of magnitudes is.
struct Search<'f> {
    form: &'f AffineForm,
    /// Lengths of the steps of weights.
    weight_steps: Vec<f64>,
    /// Lengths of the steps of symbols.
    symbol_steps: Vec<f64>,
    /// The part of the sum that no symbol changes.
    fixed: f64,
}

impl<'f> Search<'f> {
    fn new(form: &'f AffineForm) -> Self {
        let inverse = |sum: f64| if sum > 0.0 { 1.0 / sum } else { 0.0 };
        let weight_steps = form.live.iter().map(|&j| inverse(form.spread[j as usize])).collect();
        let symbol_steps = form.weights().into_iter().map(inverse).collect();
        let mut varies = vec![false; form.len()];
        form.live.iter().for_each(|&j| varies[j as usize] = true);
        let constant = (0..form.len()).filter(|&j| !varies[j]).map(|j| form.centre[j].abs());
        Self { form, weight_steps, symbol_steps, fixed: constant.sum() }
    }

    fn centre(&self) -> impl Iterator<Item = f64> {
        self.form.live.iter().map(|&j| self.form.centre[j as usize])
    }

    /// `G w`: what every symbol adds to `w·x`.
    fn of_symbols(&self, weights: &[f64]) -> Vec<f64> {
        self.form.rows().map(|(_, row)| kernels::dot_and_size(row, weights, weights).0).collect()
    }

    /// The entries for given values of the symbols.
    fn entries(&self, symbols: &[f64]) -> Vec<f64> {
        let mut entries: Vec<f64> = self.centre().collect();
        for ((_, row), &e) in self.form.rows().zip(symbols) {
            if e != 0.0 {
                kernels::add_scaled(&mut entries, e, row);
            }
        }
        entries
    }

    /// Weights for all entries.
    fn spread_out(&self, weights: &[f64]) -> Vec<f64> {
        let sign = |c: f64| if c == 0.0 { 0.0 } else { c.signum() };
        let mut all: Vec<f64> = self.form.centre.iter().map(|&c| sign(c)).collect();
        self.form.live.iter().zip(weights).for_each(|(&j, w)| all[j as usize] = *w);
        all
    }

    /// Weights whose lower bound is above `limit`, if the sum is, and if they are found soon.
    fn above(&self, limit: f64) -> Option<Vec<f64>> {
        let mut weights: Vec<f64> = self.centre().map(f64::signum).collect();
        let mut symbols = vec![0.0; self.form.order()];
        for _ in 0..ROUNDS {
            let added = self.of_symbols(&weights);
            let least = self.fixed + self.centre().zip(&weights).map(|(c, w)| c * w).sum::<f64>()
                - added.iter().map(|a| a.abs()).sum::<f64>();
            if least > limit {
                return Some(self.spread_out(&weights));
            }
            let mut ahead = symbols.clone();
            for (s, e) in symbols.iter_mut().enumerate() {
                let next = (*e - self.symbol_steps[s] * added[s]).clamp(-1.0, 1.0);
                ahead[s] = 2.0 * next - *e;
                *e = next;
            }
            let entries = self.entries(&ahead);
            for (i, w) in weights.iter_mut().enumerate() {
                *w = (*w + self.weight_steps[i] * entries[i]).clamp(-1.0, 1.0);
            }
            let inside = ahead.iter().all(|e| e.abs() <= 1.0);
            if inside && self.fixed + entries.iter().map(|x| x.abs()).sum::<f64>() <= limit {
                return None;
            }
        }
        None
    }

    /// Weights whose upper bound is below `limit`, if they are found soon.
    fn below(&self, limit: f64) -> Option<Vec<f64>> {
        let bounds: Vec<(f64, f64)> = self
            .form
            .live
            .iter()
            .map(|&j| (self.form.bounds.lower[j as usize], self.form.bounds.upper[j as usize]))
            .collect();
        let chord = |&(l, u): &(f64, f64)| {
            if l >= 0.0 {
                1.0
            } else if u <= 0.0 {
                -1.0
            } else {
                ((u + l) / (u - l)).clamp(-1.0, 1.0)
            }
        };
        let chords: Vec<f64> = bounds.iter().map(chord).collect();
        let mut weights = chords.clone();
        let mut symbols = vec![0.0; self.form.order()];
        for round in 0..ROUNDS {
            let added = self.of_symbols(&weights);
            let beyond = weights.iter().zip(&bounds).map(|(w, (l, u))| (u - w * u).max(-l - w * l));
            let most = self.fixed
                + self.centre().zip(&weights).map(|(c, w)| c * w).sum::<f64>()
                + added.iter().map(|a| a.abs()).sum::<f64>()
                + beyond.sum::<f64>();
            if most < limit {
                return Some(self.spread_out(&weights));
            }
            if round % 8 == 0 {
                // Some vector of the form has a larger sum.
                let corner: Vec<f64> = added.iter().map(|a| a.signum()).collect();
                if self.fixed + self.entries(&corner).iter().map(|x| x.abs()).sum::<f64>() >= limit {
                    return None;
                }
            }
            let mut ahead = symbols.clone();
            for (s, e) in symbols.iter_mut().enumerate() {
                let next = (*e + self.symbol_steps[s] * added[s]).clamp(-1.0, 1.0);
                ahead[s] = 2.0 * next - *e;
                *e = next;
            }
            let entries = self.entries(&ahead);
            for (i, w) in weights.iter_mut().enumerate() {
                let step = self.weight_steps[i];
                let (l, u) = bounds[i];
                let moved = *w - step * entries[i];
                let (left, right) = (moved + step * u.max(0.0), moved - step * (-l).max(0.0));
                *w = if left < chords[i] {
                    left
                } else if right > chords[i] {
                    right
                } else {
                    chords[i]
                }
                .clamp(-1.0, 1.0);
            }
        }
        None
    }
}

impl AffineForm {
    /// Weights in `[−1, 1]` for which `weights·x` is above `limit` for every vector `x`, up to rounding and remainders: then so is the
    /// sum of all magnitudes. `None` where there are none, or none were found soon.
    pub fn weights_above(&self, limit: f64) -> Option<Vec<f64>> {
        Search::new(self).above(limit)
    }

    /// Weights in `[−1, 1]` for which `weights·x`, and what all magnitudes may be above it entry by entry, is below `limit` for
    /// every vector `x`, up to rounding and remainders. `None` where none were found soon.
    pub fn weights_below(&self, limit: f64) -> Option<Vec<f64>> {
        Search::new(self).below(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Symbols;
    use super::*;
    use crate::affine::Conv2d;
    use crate::interval::BoxVec;
    use crate::{AffineMap, Arithmetic};

    const SYMBOLS: usize = 6;
    const ENTRIES: usize = 5;

    /// The image of a box under a random map.
    fn form(random: &mut fastrand::Rng) -> (AffineForm, AffineMap) {
        let number = |random: &mut fastrand::Rng| 2.0 * random.f64() - 1.0;
        let weights: Vec<f64> = (0..SYMBOLS * ENTRIES).map(|_| number(random)).collect();
        let shift = 4.0 * random.f64();
        let bias: Vec<f64> = (0..ENTRIES).map(|_| shift * number(random)).collect();
        let map = Conv2d::linear_layer(SYMBOLS, &weights, &bias, false).expect("weights fit");
        let map = AffineMap::Conv(map);
        let unit = BoxVec::new(vec![-1.0; SYMBOLS], vec![1.0; SYMBOLS]);
        let input = AffineForm::from_box(&unit, &mut Symbols::default());
        (input.affine(&map, None, 0.0, Arithmetic::Real, false), map)
    }

    fn sum(map: &AffineMap, symbols: &[f64]) -> f64 {
        map.apply(symbols, 0.0).iter().map(|x| x.abs()).sum()
    }

    /// The largest sum, which is at a corner, and the smallest that a descent from many starts finds.
    fn extremes(map: &AffineMap, random: &mut fastrand::Rng) -> (f64, f64) {
        let corner = |bits: usize| -> Vec<f64> {
            (0..SYMBOLS).map(|s| if bits >> s & 1 == 1 { 1.0 } else { -1.0 }).collect()
        };
        let most = (0..1 << SYMBOLS).map(|bits| sum(map, &corner(bits))).fold(0.0, f64::max);
        let mut least = f64::INFINITY;
        for _ in 0..8 {
            let mut at: Vec<f64> = (0..SYMBOLS).map(|_| 2.0 * random.f64() - 1.0).collect();
            let mut reach = 1.0;
            for _ in 0..600 {
                let next: Vec<f64> =
                    at.iter().map(|e| (e + reach * (2.0 * random.f64() - 1.0)).clamp(-1.0, 1.0)).collect();
                if sum(map, &next) < sum(map, &at) { at = next } else { reach *= 0.985 }
            }
            least = least.min(sum(map, &at));
        }
        (least, most)
    }

    #[test]
    fn weights_prove_what_is_true_of_the_sum_and_nothing_else() {
        let mut random = fastrand::Rng::with_seed(61);
        let (mut above, mut below) = (0, 0);
        for round in 0..100 {
            let (form, map) = form(&mut random);
            let (least, most) = extremes(&map, &mut random);
            let fit = |weights: &[f64]| weights.iter().all(|w| w.abs() <= 1.0);
            if let Some(weights) = form.weights_above(0.97 * least - 0.01) {
                above += 1;
                assert!(fit(&weights), "round {round}: {weights:?}");
                let bound = form.functional(&weights).lower;
                assert!(
                    bound > 0.97 * least - 0.011 && bound <= least + 1e-9,
                    "round {round}: {bound} of {least}"
                );
            }
            assert_eq!(form.weights_above(least + 1e-6), None, "round {round}: some sum is smaller");
            assert_eq!(form.weights_below(0.999 * most), None, "round {round}: some sum is larger");
            if let Some(weights) = form.weights_below(1.3 * most) {
                below += 1;
                assert!(fit(&weights), "round {round}: {weights:?}");
            }
        }
        // Nearly all that is true is found, of lower bounds.
        assert!(above > 80 && below > 20, "{above} above, {below} below");
    }
}
