use serde::{Deserialize, Serialize};

use super::{Boxes, Combination, Joint, Loss, Measured, Points, Together};

/// `CE(attacked)^(1 − α) · CE(box)^α` (De Palma et al. 2024).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpIbp {
    /// α.
    pub alpha: f64,
}

/// Cross-entropies below it count as this much: a power of 0 has no slope.
const LEAST: f64 = 1e-30;

impl Default for ExpIbp {
    fn default() -> Self {
        Self { alpha: 0.1 }
    }
}

impl Loss for ExpIbp {
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

impl Joint for ExpIbp {
    /// With `L = P^(1 − α) B^α`, `∂L = (1 − α)(L / P) ∂P + α (L / B) ∂B`.
    fn of(&self, measure: Measured<'_>, points: &[f64], boxes: &[f64]) -> Together {
        let ((p, of_point), (b, of_box)) = (measure.of(points), measure.of(boxes));
        // `max` would turn NaN into a number.
        let least = |value: f64| if value < LEAST { LEAST } else { value };
        let (p, b) = (least(p), least(b));
        let value = p.powf(1.0 - self.alpha) * b.powf(self.alpha);
        let times = |factor: f64, slopes: Vec<f64>| slopes.into_iter().map(|slope| factor * slope).collect();
        Together {
            value,
            points: times((1.0 - self.alpha) * value / p, of_point),
            boxes: times(self.alpha * value / b, of_box),
        }
    }
}
