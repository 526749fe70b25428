use serde::{Deserialize, Serialize};

use super::{Kind, Measure};

/// `ln Σ exp(m)` of margins of which one, the label's, is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossEntropy {}

impl Measure for CrossEntropy {
    fn kind(&self) -> Kind {
        Kind::Classes
    }

    /// Exact to a few roundings also where the loss is tiny; NaN stays NaN.
    fn of(&self, margins: &[f64], _label: usize) -> (f64, Vec<f64>) {
        let top = margins.iter().copied().fold(0.0, f64::max);
        let powers: Vec<f64> = margins.iter().map(|margin| (margin - top).exp()).collect();
        // The largest power is 1: the logarithm is that of 1 plus the others.
        let largest = margins.iter().position(|margin| *margin == top);
        let others = powers.iter().enumerate().filter(|(at, _)| Some(*at) != largest);
        let others: f64 = others.map(|(_, power)| power).sum();
        let total = 1.0 + others;
        (top + others.ln_1p(), powers.into_iter().map(|power| power / total).collect())
    }
}
