//! What a phase minimises.
//!
//! A loss has a term of points and a term of boxes. It says of *which* points and boxes ([`Points`], [`Boxes`]) and how
//! the two become one number ([`Combination`]): a weighted sum, or something that looks at both for each sample
//! ([`Joint`]). Regularisers come on top: of points `alive` and `steady`, of boxes `width`, `tightness`, `balance` and
//! `decisions`.
//!
//! | loss | points | boxes | together |
//! |---|---|---|---|
//! | [`Interval`] | the images | all of the perturbation | weighted sum |
//! | [`Sabr`] | the images | a part of it, around attacked images | weighted sum |
//! | [`MtlIbp`] | attacked images | all of it | weighted sum |
//! | [`CcIbp`] | attacked images | all of it | cross-entropy of mixed margins |
//! | [`ExpIbp`] | attacked images | all of it | product of powers of cross-entropies |
//!
//! A loss works on *margins*: the differences of the logits to the label's, 0 for the label; for boxes their upper
//! bounds. Adding one is a file here and its line in [`Objective`].

pub(crate) mod alive;
pub(crate) mod balance;
mod cc_ibp;
pub mod criterion;
pub(crate) mod decisions;
mod exp_ibp;
mod interval;
mod mtl_ibp;
mod sabr;
pub(crate) mod steady;
pub(crate) mod tightness;
pub(crate) mod width;

use serde::{Deserialize, Serialize};

pub use self::cc_ibp::CcIbp;
pub use self::criterion::Criterion;
pub use self::exp_ibp::ExpIbp;
pub use self::interval::Interval;
pub use self::mtl_ibp::MtlIbp;
pub use self::sabr::Sabr;

/// τ of `tightness` and `balance`: what is at least so even costs nothing.
const LEVEL: f64 = 0.5;

/// Which points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// The images as they are.
    Images,
    /// The images an attack made of them.
    Attacked,
}

/// Which boxes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boxes {
    /// What they lie around.
    pub around: Points,
    /// Their radius as a part of the perturbation. An attack moves their centres by the rest at most, so that they stay
    /// within the perturbation.
    pub part: f64,
}

impl Boxes {
    /// Everything the perturbation allows.
    pub const ALL: Self = Self { around: Points::Images, part: 1.0 };
}

/// How the two terms become one number.
pub enum Combination<'a> {
    /// A weighted sum of the mean cross-entropies.
    Sum {
        /// Weight of the points.
        points: f64,
        /// Weight of the boxes.
        boxes: f64,
    },
    /// The mean of something that looks at both terms of a sample.
    Joint(&'a dyn Joint),
}

/// The loss of one sample, out of the margins of a point and of a box.
pub trait Joint {
    /// The loss and its slopes, out of the rows a criterion looks at.
    fn of(&self, measure: Measured<'_>, points: &[f64], boxes: &[f64]) -> Together;
}

/// A criterion and the right class of a sample.
#[derive(Clone, Copy)]
pub struct Measured<'a> {
    /// The criterion.
    pub criterion: &'a dyn criterion::Measure,
    /// The place of the right class.
    pub label: usize,
}

impl Measured<'_> {
    /// The loss of a row and its slopes.
    fn of(&self, row: &[f64]) -> (f64, Vec<f64>) {
        self.criterion.of(row, self.label)
    }
}

/// A loss of one sample with its slopes, one for each margin.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// The loss.
    pub value: f64,
    /// Slopes in the margins of the point.
    pub points: Vec<f64>,
    /// Slopes in the margins of the box.
    pub boxes: Vec<f64>,
}

/// What is minimised, apart from regularisers.
pub trait Loss {
    /// Which points enter.
    fn points(&self) -> Points;

    /// Which boxes enter.
    fn boxes(&self) -> Boxes;

    /// How both become one. `robust` is what the schedule asks boxes to weigh: `ω₁ r`, with r the part of the target
    /// perturbation that is reached.
    fn combination(&self, robust: f64) -> Combination<'_>;

    /// The one number that makes this loss what it is: its key, its value and the smallest that makes sense. All end
    /// at 1.
    fn setting(&self) -> Option<(&'static str, f64, f64)>;

    /// Whether images have to be attacked.
    fn attacks(&self) -> bool {
        self.points() == Points::Attacked || self.boxes().around == Points::Attacked
    }
}

/// The losses there are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Objective {
    /// The paper's.
    Interval(Interval),
    /// A small box around an attacked image.
    Sabr(Sabr),
    /// Attacked and interval loss, added.
    MtlIbp(MtlIbp),
    /// Attacked and interval margins, mixed.
    CcIbp(CcIbp),
    /// Attacked and interval loss, multiplied.
    ExpIbp(ExpIbp),
}

impl Default for Objective {
    fn default() -> Self {
        Self::Interval(Interval {})
    }
}

impl Objective {
    /// The loss.
    pub fn loss(&self) -> &dyn Loss {
        match self {
            Self::Interval(loss) => loss,
            Self::Sabr(loss) => loss,
            Self::MtlIbp(loss) => loss,
            Self::CcIbp(loss) => loss,
            Self::ExpIbp(loss) => loss,
        }
    }
}

#[cfg(test)]
mod tests;
