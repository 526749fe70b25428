use serde::{Deserialize, Serialize};

use super::{Boxes, Combination, Joint, Loss, Measured, Points, Together};

/// The cross-entropy of `(1 − α) margins(attacked) + α margins(box)` (De Palma et al. 2024).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CcIbp {
    /// α.
    pub alpha: f64,
}

impl Default for CcIbp {
    fn default() -> Self {
        Self { alpha: 0.1 }
    }
}

impl Loss for CcIbp {
    fn points(&self) -> Points {
        Points::Attacked
    }

    fn boxes(&self) -> Boxes {
        Boxes::ALL
    }

    fn combination(&self, _robust: f64) -> Combination<'_> {
        Combination::Joint(self)
    }

    fn setting(&self) -> Option<(&'static str, f64, f64)> {
        Some(("alpha", self.alpha, 0.0))
    }
}

impl Joint for CcIbp {
    fn of(&self, measure: Measured<'_>, points: &[f64], boxes: &[f64]) -> Together {
        let (point, bound) = (1.0 - self.alpha, self.alpha);
        let mixed: Vec<f64> = points.iter().zip(boxes).map(|(p, b)| point * p + bound * b).collect();
        let (value, slopes) = measure.of(&mixed);
        let times = |factor: f64| slopes.iter().map(|slope| factor * slope).collect();
        Together { value, points: times(point), boxes: times(bound) }
    }
}
