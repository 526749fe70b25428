//! Weighted sums: residuals, Euler steps.

use crate::affine_form::AffineForm;
use crate::arithmetic::{Arithmetic, Precision, analysis_error};
use crate::interval::{BoxVec, combine};
use crate::rows::Rows;

use super::{Changing, Image};

/// `Σ coefficient·argument`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum {
    /// One per argument.
    pub coefficients: Vec<f64>,
}

impl Sum {
    /// A plain sum of so many arguments.
    pub fn plain(arguments: usize) -> Self {
        Self { coefficients: vec![1.0; arguments] }
    }

    pub(super) fn evaluate(&self, arguments: &[&[f64]], precision: Precision) -> Vec<f64> {
        let mut sum = vec![0.0; arguments.first().map_or(0, |x| x.len())];
        for (c, x) in self.coefficients.iter().zip(arguments) {
            let c = precision.rounded(*c);
            sum.iter_mut().zip(*x).for_each(|(s, x)| *s += c * x);
        }
        sum
    }

    pub(super) fn gradient(&self, cotangent: &[f64]) -> Vec<Vec<f64>> {
        self.coefficients.iter().map(|c| cotangent.iter().map(|g| c * g).collect()).collect()
    }

    /// The first argument counts without a product where its coefficient is one.
    fn enclose(&self, boxes: &[&BoxVec], arithmetic: Arithmetic) -> (BoxVec, Vec<f64>) {
        let length = boxes.first().map_or(0, |b| b.len());
        let all = self.coefficients.iter().copied().zip(boxes.iter().copied());
        match self.coefficients.first() {
            Some(&1.0) => combine(Some(boxes[0]), &all.skip(1).collect::<Vec<_>>(), length, arithmetic),
            _ => combine(None, &all.collect::<Vec<_>>(), length, arithmetic),
        }
    }

    pub(super) fn image(&self, arguments: &[&BoxVec], arithmetic: Arithmetic) -> Image {
        let (value, magnitude) = self.enclose(arguments, arithmetic);
        Image { value, magnitude }
    }

    /// A sum of changes; a program rounds in both evaluations.
    pub(super) fn change(&self, c: &Changing<'_>) -> Image {
        let (mut value, magnitude) = self.enclose(c.apart, Arithmetic::Real);
        let rounding = c.arithmetic.program_short_sum(self.coefficients.len() + 1);
        let tiny = c.arithmetic.program_underflow();
        value.widen(|i| {
            let both = c.magnitudes.0[i] + c.magnitudes.1[i];
            if both > 0.0 { rounding * both + 2.0 * tiny } else { 0.0 }
        });
        Image { value, magnitude }
    }

    /// What rounding costs rows, for a coefficient of one: of their products here, and of the program's sum.
    pub(super) fn owed(&self, magnitude: &[f64], arithmetic: Arithmetic) -> Vec<f64> {
        let terms = self.coefficients.len();
        let error = analysis_error(terms + 2) + arithmetic.program_short_sum(terms);
        let tiny = arithmetic.program_underflow();
        magnitude.iter().map(|m| error * m + tiny).collect()
    }

    pub(super) fn owed_by_change(&self, c: &Changing<'_>, size: &[f64]) -> Vec<f64> {
        let error = analysis_error(self.coefficients.len() + 2);
        let rounding = c.arithmetic.program_short_sum(self.coefficients.len() + 1);
        let tiny = c.arithmetic.program_underflow();
        let both = c.magnitudes.0.iter().zip(c.magnitudes.1);
        size.iter().zip(both).map(|(m, (a, b))| error * m + rounding * (a + b) + 2.0 * tiny).collect()
    }

    /// Coefficients go to every argument, times its own; the constants go with the first.
    pub(super) fn pull(&self, owed: &[f64], mut rows: Rows) -> Vec<Rows> {
        rows.charge(owed);
        let scaled = |c: f64| rows.coefficients.iter().map(|a| c * a).collect();
        let others = self.coefficients.iter().skip(1);
        let others: Vec<Rows> =
            others.map(|&c| Rows::of_count(rows.count, rows.on().clone(), scaled(c))).collect();
        match self.coefficients.first() {
            None | Some(1.0) => {}
            Some(&c) => rows.coefficients.iter_mut().for_each(|a| *a *= c),
        }
        std::iter::once(rows).chain(others).collect()
    }

    pub(super) fn form(&self, arguments: &[&AffineForm], arithmetic: Arithmetic) -> AffineForm {
        let terms: Vec<(f64, &AffineForm)> =
            self.coefficients.iter().copied().zip(arguments.iter().copied()).collect();
        AffineForm::combination(None, &terms, arithmetic)
    }
}
