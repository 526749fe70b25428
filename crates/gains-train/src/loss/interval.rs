use serde::{Deserialize, Serialize};

use super::{Boxes, Combination, Loss, Points};

/// `(1 − ω₁r) CE(image) + ω₁r CE(box)`: the paper's loss, interval bound propagation by Gowal et al. (2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {}

impl Loss for Interval {
    fn points(&self) -> Points {
        Points::Images
    }

    fn boxes(&self) -> Boxes {
        Boxes::ALL
    }

    fn combination(&self, robust: f64) -> Combination<'_> {
        Combination::Sum { points: 1.0 - robust, boxes: robust }
    }

    fn setting(&self) -> Option<(&'static str, f64, f64)> {
        None
    }
}
