//! Linear constraints on outputs.

use gains_core::arithmetic::{TINY, analysis_error};

/// What a constraint asks of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// To be above zero: zero breaks it.
    Above,
    /// Not to be below zero. It is proved like the other, but zero does not break it.
    NotBelow,
    /// The same of the difference of two outputs, of which neither is ahead where they are equal: zero does not break what
    /// is said where this does not hold, either.
    Ahead,
}

/// `coefficients · outputs + constant`, which is to be positive.
///
/// Coefficients may be a few roundings off: what bounds take off for the rounding of sums leaves room for that.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearRow {
    /// One per output.
    pub coefficients: Vec<f64>,
    /// The constant.
    pub constant: f64,
    /// How far the constant may be from the number that is meant.
    pub slack: f64,
    /// What is asked of zero.
    pub relation: Relation,
}

impl LinearRow {
    /// `coefficients · outputs + constant > 0`.
    pub fn new(coefficients: Vec<f64>, constant: f64) -> Self {
        Self { coefficients, constant, slack: 0.0, relation: Relation::Above }
    }

    /// The same with the sum of some products as its constant. Rounding costs `γ Σ |p q|`, which is its slack.
    pub fn with_products(coefficients: Vec<f64>, products: &[(f64, f64)], relation: Relation) -> Self {
        let constant = products.iter().map(|(p, q)| p * q).sum();
        let size: f64 = products.iter().map(|(p, q)| (p * q).abs()).sum();
        // A product of ±1 alone is exact; anything else is charged for.
        let exact = matches!(products, [] | [(1.0 | -1.0, _)]);
        let slack = if exact { 0.0 } else { analysis_error(products.len()) * size + TINY };
        Self { coefficients, constant, slack, relation }
    }

    /// One output is not below another.
    pub fn lead(outputs: usize, larger: usize, smaller: usize) -> Self {
        let mut coefficients = vec![0.0; outputs];
        coefficients[larger] += 1.0;
        coefficients[smaller] -= 1.0;
        Self { relation: Relation::Ahead, ..Self::new(coefficients, 0.0) }
    }

    /// What holds where this does not.
    #[must_use]
    pub fn negated(mut self) -> Self {
        self.coefficients.iter_mut().for_each(|a| *a = -*a);
        let relation = match self.relation {
            Relation::Above => Relation::NotBelow,
            Relation::NotBelow => Relation::Above,
            Relation::Ahead => Relation::Ahead,
        };
        Self { constant: -self.constant, relation, ..self }
    }

    /// The value at some outputs.
    pub fn at(&self, outputs: &[f64]) -> f64 {
        self.coefficients.iter().zip(outputs).map(|(a, y)| a * y).sum::<f64>() + self.constant
    }

    /// Whether some outputs certainly break it, whatever was rounded; NaN breaks nothing.
    pub fn is_broken_at(&self, outputs: &[f64]) -> bool {
        let highest = self.at(outputs) + self.rounding(outputs);
        match self.relation {
            Relation::Above => highest <= 0.0,
            Relation::NotBelow | Relation::Ahead => highest < 0.0,
        }
    }

    /// By how much [`Self::at`] may be below the exact value: by nothing where two numbers are added or subtracted, as the
    /// rounded sum has the sign of the exact one.
    fn rounding(&self, outputs: &[f64]) -> f64 {
        let terms =
            self.coefficients.iter().filter(|a| **a != 0.0).count() + usize::from(self.constant != 0.0);
        let plain = self.coefficients.iter().all(|a| matches!(a, 0.0 | 1.0 | -1.0));
        if plain && terms <= 2 && self.slack == 0.0 {
            return 0.0;
        }
        let sum: f64 = self.coefficients.iter().zip(outputs).map(|(a, y)| (a * y).abs()).sum();
        self.slack + analysis_error(outputs.len() + 1) * (sum + self.constant.abs()) + TINY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_breaks_what_must_be_above_it() {
        let row = LinearRow::new(vec![1.0, 0.0], -0.5);
        assert!(row.is_broken_at(&[0.5, 9.0]) && !row.is_broken_at(&[0.5_f64.next_up(), 9.0]));
        let row = LinearRow { relation: Relation::NotBelow, ..row };
        assert!(!row.is_broken_at(&[0.5, 9.0]) && row.is_broken_at(&[0.5_f64.next_down(), 9.0]));
        assert!(!row.is_broken_at(&[f64::NAN, 0.0]) && !row.negated().is_broken_at(&[f64::NAN, 0.0]));
    }

    #[test]
    fn what_rounding_may_have_done_breaks_nothing() {
        // 0.1 + 0.2 − 0.3 is 5.6e-17 in float64, and 2.8e-17 if computed exactly.
        let row = LinearRow::new(vec![-1.0, -1.0, 1.0], 0.0);
        assert!(row.at(&[0.1, 0.2, 0.3]) < 0.0);
        assert!(!row.is_broken_at(&[0.1, 0.2, 0.3]) && row.is_broken_at(&[0.1, 0.2, 0.3 - 1e-14]));
    }

    #[test]
    fn constants_made_of_products_know_how_far_they_are_off() {
        let relation = Relation::NotBelow;
        let row = LinearRow::with_products(vec![0.0], &[(0.1, 3.0), (-0.3, 1.0)], relation);
        // Of the float64 numbers nearest to 0.1 and 0.3, the exact sum is 2.8e-17.
        assert!((row.constant - 2.775_557_561_562_891e-17).abs() <= row.slack);
        assert!(
            row.slack > 1e-16 && !row.is_broken_at(&[0.0]) && !row.clone().negated().is_broken_at(&[0.0])
        );
        let plain = LinearRow::with_products(vec![1.0], &[(-1.0, 0.1)], relation);
        assert_eq!((plain.constant, plain.slack), (-0.1, 0.0));
    }
}
