use serde::{Deserialize, Serialize};

use super::{Boxes, Combination, Loss, Points};

/// `(1 − α) CE(attacked) + α CE(box)` (De Palma et al., *Expressive Losses for Verified Robustness via Convex
/// Combinations*, 2024).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MtlIbp {
    /// α.
    pub alpha: f64,
}

impl Default for MtlIbp {
    fn default() -> Self {
        Self { alpha: 0.1 }
    }
}

impl Loss for MtlIbp {
    fn points(&self) -> Points {
        Points::Attacked
    }

    fn boxes(&self) -> Boxes {
        Boxes::ALL
    }

    fn combination(&self, _robust: f64) -> Combination<'_> {
        Combination::Sum { points: 1.0 - self.alpha, boxes: self.alpha }
    }

    fn setting(&self) -> Option<(&'static str, f64, f64)> {
        Some(("alpha", self.alpha, 0.0))
    }
}
