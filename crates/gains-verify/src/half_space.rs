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
        let mut row = row.to_vec();
        let (mut constant, mut slack) = (constant, slack);
        let mut best = self.over_box(&row, constant, slack);
        for _ in 0..MOST_CUTS.min(2 * cuts.len()) {
            let violated = cuts
                .iter()
                .map(|cut| (self.at_minimiser(&row, cut), *cut))
                .filter(|(violation, _)| *violation > 0.0)
                .max_by(|a, b| a.0.total_cmp(&b.0));
            let Some((violation, cut)) = violated else { break };
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
        }
        best
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
        let mut value = cut.constant;
        for (i, c) in cut.coefficients.iter().enumerate() {
            let radius = self.centred.radius[i];
            value += c * (self.centred.centre[i] + if row[i] < 0.0 { radius } else { -radius });
        }
        value
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
