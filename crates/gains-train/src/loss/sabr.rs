use serde::{Deserialize, Serialize};

use super::{Boxes, Combination, Loss, Points};

/// The paper's loss with a box of radius `λε` around an image that was attacked within `(1 − λ)ε`, so that the box stays
/// within the perturbation (Müller et al., *Certified Training: Small Boxes are All You Need*, 2023).
///
/// A box that is not everything bounds nothing; what it leaves out, the verifier has to show.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sabr {
    /// λ.
    pub part: f64,
}

impl Default for Sabr {
    fn default() -> Self {
        Self { part: 0.4 }
    }
}

impl Loss for Sabr {
    fn points(&self) -> Points {
        Points::Images
    }

    fn boxes(&self) -> Boxes {
        Boxes { around: Points::Attacked, part: self.part }
    }

    fn combination(&self, robust: f64) -> Combination<'_> {
        Combination::Sum { points: 1.0 - robust, boxes: robust }
    }

    fn setting(&self) -> Option<(&'static str, f64, f64)> {
        Some(("part", self.part, f64::MIN_POSITIVE))
    }
}
