//! Boxes cut by half-spaces, and how low a row can be there.

use gains_core::arithmetic::{TINY, analysis_error, down};
use gains_core::interval::Centred;
use gains_core::{BoxVec, kernels};

/// All `x` with `coefficients·x + constant ≤ 0`.
#[derive(Clone, Debug)]
pub(crate) struct HalfSpace {
    /// One per entry of `x`.
    pub coefficients: Vec<f64>,
    /// The constant.
    pub constant: f64,
}

/// A box to be cut, with what every cut of it needs.
pub(crate) struct Domain {
    centred: Centred,
    magnitude: Vec<f64>,
}

/// Most half-spaces one row is combined with.
const MOST_CUTS: usize = 6;

impl Domain {
    /// The box.
    pub fn new(b: &BoxVec) -> Self {
        Self { centred: b.centres(), magnitude: b.magnitudes() }
    }

    /// A number that `coefficients·x + constant − slack` is nowhere below in the part of the box that lies in
    /// all half-spaces.
    ///
    /// For `β ≥ 0` a row plus `β` times the left side of a half-space is nowhere above the row there, and over
    /// the box alone it is bounded as usual. The best `β` for one half-space is found exactly (the bound is
    /// concave and piecewise linear in it), for several one after the other, the most violated first.
    pub fn lower_bound(&self, row: &[f64], constant: f64, slack: f64, cuts: &[&HalfSpace]) -> f64 {
        self.lower_bound_by(row, constant, slack, cuts).0
    }

    /// The same, with the half-spaces it relies on and their `β`.
    pub fn lower_bound_by(
        &self,
        row: &[f64],
        constant: f64,
        slack: f64,
        cuts: &[&HalfSpace],
    ) -> (f64, Vec<(usize, f64)>) {
        let mut row = row.to_vec();
        let (mut constant, mut slack) = (constant, slack);
        let mut best = self.over_box(&row, constant, slack);
        let mut used: Vec<(usize, f64)> = Vec::new();
        for _ in 0..MOST_CUTS.min(2 * cuts.len()) {
            let violated = cuts
                .iter()
                .enumerate()
                .map(|(which, cut)| (self.at_minimiser(&row, cut), which, *cut))
                .filter(|(violation, ..)| *violation > 0.0)
                .max_by(|a, b| a.0.total_cmp(&b.0));
            let Some((violation, which, cut)) = violated else { break };
            let beta = self.best_multiplier(&row, cut, violation);
            if !(beta > 0.0 && beta.is_finite()) {
                break;
            }
            kernels::add_scaled(&mut row, beta, &cut.coefficients);
            // Each entry carries the rounding of one product and one sum.
            let rounding = 2.0 * f64::EPSILON;
            let moved = beta * kernels::size(&cut.coefficients, &self.magnitude);
            slack += 2.0 * rounding * (moved + kernels::size(&row, &self.magnitude))
                + TINY * (1.0 + self.magnitude.iter().sum::<f64>());
            let added = beta * cut.constant;
            constant = down(constant + down(added) - TINY);
            let bound = self.over_box(&row, constant, slack);
            if bound <= best + 1e-9 * best.abs() {
                best = best.max(bound);
                break;
            }
            best = bound;
            used.push((which, beta));
        }
        (best, used)
    }

    fn over_box(&self, row: &[f64], constant: f64, slack: f64) -> f64 {
        let (value, spread, size) = kernels::row_over_box(row, &self.centred.centre, &self.centred.radius);
        let gamma = analysis_error(row.len() + 2);
        let owed = slack + gamma * (size + spread + constant.abs());
        let bound = down(value - spread + constant - owed * (1.0 + gamma)) - TINY;
        if bound.is_nan() { f64::NEG_INFINITY } else { bound }
    }

    /// The left side of a half-space where the row is smallest over the box.
    fn at_minimiser(&self, row: &[f64], cut: &HalfSpace) -> f64 {
        let Centred { centre, radius } = &self.centred;
        cut.constant + kernels::at_lowest_corner(row, &cut.coefficients, centre, radius)
    }

    /// The multiplier at which the bound of `row + β·cut` over the box stops rising.
    fn best_multiplier(&self, row: &[f64], cut: &HalfSpace, violation: f64) -> f64 {
        // Where an entry of the sum changes sign, the minimiser changes its side there.
        let mut kinks: Vec<(f64, f64)> = row
            .iter()
            .zip(&cut.coefficients)
            .zip(&self.centred.radius)
            .filter(|((r, c), _)| if **r < 0.0 { **c > 0.0 } else { **c < 0.0 })
            .map(|((r, c), radius)| (-r / c, 2.0 * c.abs() * radius))
            .collect();
        kinks.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut slope = violation;
        let mut multiplier = 0.0;
        for (at, falls) in kinks {
            multiplier = at;
            slope -= falls;
            if slope <= 0.0 {
                break;
            }
        }
        multiplier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of few bits, so that rows have exact values at points of few bits.
    fn short(random: &mut fastrand::Rng, scale: f64) -> f64 {
        f64::from(random.i32(-64..=64)) / 64.0 * scale
    }

    fn value(row: &[f64], x: &[f64]) -> f64 {
        row.iter().zip(x).map(|(a, x)| a * x).sum()
    }

    /// Random rows, boxes and half-spaces: where all half-spaces hold, no point is below the bound, exactly.
    #[test]
    fn no_point_inside_all_half_spaces_is_below_the_bound() {
        let mut random = fastrand::Rng::with_seed(31);
        let (mut checked, mut raised) = (0, 0);
        for round in 0..20_000 {
            let n = random.usize(1..5);
            let scale = [1.0, 1024.0, 1.0 / 1024.0][round % 3];
            let mut numbers =
                |scale: f64| -> Vec<f64> { (0..n).map(|_| short(&mut random, scale)).collect() };
            let (row, a, b) = (numbers(scale), numbers(1.0), numbers(1.0));
            let domain = BoxVec::new(
                a.iter().zip(&b).map(|(a, b)| a.min(*b)).collect(),
                a.iter().zip(&b).map(|(a, b)| a.max(*b)).collect(),
            );
            let directions: Vec<Vec<f64>> = (0..1 + round % 4).map(|_| numbers(1.0)).collect();
            let cuts: Vec<HalfSpace> = directions
                .into_iter()
                .map(|coefficients| HalfSpace { coefficients, constant: short(&mut random, 1.0) })
                .collect();
            let cuts: Vec<&HalfSpace> = cuts.iter().collect();
            let (constant, slack) = (short(&mut random, scale), short(&mut random, scale).max(0.0));
            let whole = Domain::new(&domain);
            let bound = whole.lower_bound(&row, constant, slack, &cuts);
            raised += usize::from(bound > whole.lower_bound(&row, constant, slack, &[]));
            for _ in 0..40 {
                let x: Vec<f64> = (0..n)
                    .map(|i| {
                        let t = f64::from(random.u32(0..=16)) / 16.0;
                        domain.lower[i] + t * (domain.upper[i] - domain.lower[i])
                    })
                    .collect();
                if cuts.iter().all(|cut| value(&cut.coefficients, &x) + cut.constant <= 0.0) {
                    let exact = value(&row, &x) + constant - slack;
                    assert!(bound <= exact, "round {round}: {exact} below {bound}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 50_000 && raised > 5_000, "{checked} {raised}");
    }

    /// Half-spaces that touch a row's minimiser exactly: the bound is tight there but for rounding, on its side.
    #[test]
    fn tight_cuts_leave_room_for_their_rounding() {
        let mut random = fastrand::Rng::with_seed(32);
        for _ in 0..5_000 {
            // `x ≥ t` and `x ≤ t` as half-spaces: the row is `a·t` there.
            let small = 10.0_f64.powi(-random.i32(0..20));
            let (a, t) = (2.0 * random.f64() - 1.0, small * (2.0 * random.f64() - 1.0));
            let factor = 1.0 + 1e6 * random.f64();
            let above = HalfSpace { coefficients: vec![-factor], constant: down(factor * t) };
            let below = HalfSpace { coefficients: vec![factor], constant: down(-factor * t) };
            let domain = Domain::new(&BoxVec::new(vec![-1.0], vec![1.0]));
            let bound = domain.lower_bound(&[a], 0.0, 0.0, &[&above, &below]);
            // The sign of the rounding of `a·t`, exactly.
            let rounding = a.mul_add(t, -bound);
            assert!(rounding >= 0.0, "{a} {t}: {rounding:e}");
            assert!(rounding <= 1e-12, "{a} {t}: {rounding:e}");
        }
    }

    /// `Σ a·x` as a sum of two numbers, to about twice the usual precision.
    fn precise(a: &[f64], x: &[f64]) -> (f64, f64) {
        let (mut high, mut low) = (0.0, 0.0);
        for (a, x) in a.iter().zip(x) {
            let product = a * x;
            let sum: f64 = high + product;
            let part = sum - high;
            low += a.mul_add(*x, -product) + ((high - (sum - part)) + (product - part));
            high = sum;
        }
        (high + low, low - ((high + low) - high))
    }

    /// A half-space that cancels the whole row, at corners where the row is almost zero: what is left of the
    /// coefficients is rounding, and the bound must leave room for it.
    #[test]
    fn cancelling_coefficients_leave_room_for_their_rounding() {
        let mut random = fastrand::Rng::with_seed(34);
        let domain = Domain::new(&BoxVec::new(vec![-1.0; 3], vec![1.0; 3]));
        let mut close = 0;
        for _ in 0..20_000 {
            let x: Vec<f64> = (0..3).map(|_| if random.bool() { 1.0 } else { -1.0 }).collect();
            let (a, b) = (0.5 + random.f64(), 0.5 + random.f64());
            let row = [a, b, -(a * x[0] + b * x[1]) * x[2]];
            let factor = 0.5 + random.f64();
            let coefficients: Vec<f64> = row.iter().map(|r| -r / factor).collect();
            // The point is on the boundary, or inside by less than any rounding that matters.
            let (high, low) = precise(&coefficients, &x);
            let cut = HalfSpace { coefficients, constant: -high - low.abs() - high.abs() * 1e-15 };
            let bound = domain.lower_bound(&row, 0.0, 0.0, &[&cut]);
            let (high, low) = precise(&row, &x);
            assert!(bound - high <= low, "{row:?} at {x:?}: {bound:e} above {high:e}");
            close += usize::from(bound > -1e-12);
        }
        assert!(close > 10_000, "{close} bounds were raised to their point");
    }

    #[test]
    fn numbers_that_are_none_bound_nothing() {
        let domain = Domain::new(&BoxVec::new(vec![-1.0, 0.0], vec![1.0, 2.0]));
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let cut = HalfSpace { coefficients: vec![1.0, 1.0], constant: 0.5 };
            assert_eq!(domain.lower_bound(&[odd, 1.0], 0.0, 0.0, &[&cut]), f64::NEG_INFINITY);
            for cut in [
                HalfSpace { coefficients: vec![odd, 1.0], constant: 0.5 },
                HalfSpace { coefficients: vec![1.0, 1.0], constant: odd },
            ] {
                // Whatever is cut, the box alone is what remains certain.
                let bound = domain.lower_bound(&[1.0, 1.0], 0.0, 0.0, &[&cut]);
                let certain = cut.constant == f64::INFINITY || bound <= -1.0;
                assert!(certain, "{cut:?}: {bound}");
            }
        }
    }
}
