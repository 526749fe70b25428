//! Learned factors and summands, by channel or by entry: what follows a normalisation of groups.

use std::ops::Range;
use std::sync::Arc;

use super::{Clock, Weights};
use crate::cpu::Real;
use crate::gradients::Gradients;
use crate::matrix::Matrix;

/// `w·x + b`.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Where the factors are among the parameters.
    pub factors: Range<usize>,
    /// Where the summands are.
    pub summands: Range<usize>,
    /// Which of them belongs to every entry.
    pub index: Arc<[u32]>,
}

impl Scale {
    /// The value, or of changes without the summands.
    pub fn forward<F: Real>(&self, weights: &Weights<F>, x: &Matrix<F>, clock: Clock) -> Matrix<F> {
        let mut out = x.zeros_like();
        let (factors, summands) =
            (&weights.values[self.factors.clone()], &weights.values[self.summands.clone()]);
        for (at, value) in out.centre.iter_mut().enumerate() {
            let index = self.index[at % x.columns] as usize;
            let shift = F::when(clock.biased, summands[index]);
            *value = factors[index] * x.centre[at] + shift;
        }
        for (at, value) in out.radius.iter_mut().enumerate() {
            *value = factors[self.index[at % x.columns] as usize].abs() * x.radius[at];
        }
        out
    }

    /// Adds the gradients of factors and summands; returns that of the input.
    pub fn backward<F: Real>(
        &self,
        weights: &Weights<F>,
        x: &Matrix<F>,
        clock: Clock,
        gradient: &Matrix<F>,
        into: &mut Gradients<F>,
    ) -> Matrix<F> {
        let mut part = x.zeros_like();
        for (at, on) in gradient.centre.iter().enumerate() {
            let index = self.index[at % x.columns] as usize;
            part.centre[at] = weights.values[self.factors.start + index] * *on;
            into.signed[self.factors.start + index] += x.centre[at] * *on;
            into.signed[self.summands.start + index] += F::when(clock.biased, *on);
        }
        for (at, on) in gradient.radius.iter().enumerate() {
            let index = self.factors.start + self.index[at % x.columns] as usize;
            part.radius[at] = weights.magnitudes[index] * *on;
            into.magnitudes[index] += x.radius[at] * *on;
        }
        part
    }
}
