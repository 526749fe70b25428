//! How wrong an output is: one file for each measure. Adding one is a file here and its line in [`Criterion`].
//!
//! A criterion looks at a row of numbers for each sample: the *margins* of a classifier, differences of its logits to
//! the label's, 0 for the label, or the *absolute errors* of a network that predicts numbers. For boxes these are upper bounds, and
//! as every criterion grows with them, what it gives is an upper bound, too.

mod absolute;
mod cross_entropy;
mod margin;
mod squared;

use serde::{Deserialize, Serialize};

pub use self::absolute::Absolute;
pub use self::cross_entropy::CrossEntropy;
pub use self::margin::Margin;
pub use self::squared::Squared;

/// What the outputs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Logits of classes.
    Classes,
    /// Predicted numbers.
    Numbers,
}

/// A measure of how wrong an output is.
pub trait Measure: Sync {
    /// What it measures.
    fn kind(&self) -> Kind;

    /// The loss of a row and its slopes. `label` is the place of the right class, which no slope is asked for.
    fn of(&self, row: &[f64], label: usize) -> (f64, Vec<f64>);
}

/// The measures there are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Criterion {
    /// Of classes.
    CrossEntropy(CrossEntropy),
    /// How far a class is from leading by enough.
    Margin(Margin),
    /// Mean squared error of numbers.
    Squared(Squared),
    /// Mean absolute error of numbers.
    Absolute(Absolute),
}

impl Default for Criterion {
    fn default() -> Self {
        Self::CrossEntropy(CrossEntropy {})
    }
}

impl Criterion {
    /// The measure.
    pub fn measure(&self) -> &dyn Measure {
        match self {
            Self::CrossEntropy(measure) => measure,
            Self::Margin(measure) => measure,
            Self::Squared(measure) => measure,
            Self::Absolute(measure) => measure,
        }
    }

    /// What it measures.
    pub fn kind(&self) -> Kind {
        self.measure().kind()
    }
}
