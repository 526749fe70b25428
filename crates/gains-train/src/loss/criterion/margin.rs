use serde::{Deserialize, Serialize};

use super::{Kind, Measure};

/// `max(0, gap + largest margin of another class)`: nothing once the label leads by the gap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Margin {
    /// By how much the label should lead.
    pub gap: f64,
}

impl Default for Margin {
    fn default() -> Self {
        Self { gap: 1.0 }
    }
}

impl Measure for Margin {
    fn kind(&self) -> Kind {
        Kind::Classes
    }

    fn of(&self, margins: &[f64], label: usize) -> (f64, Vec<f64>) {
        let mut slopes = vec![0.0; margins.len()];
        let others = margins.iter().enumerate().filter(|(class, _)| *class != label);
        // Compared so that NaN wins.
        let worst = others.reduce(|a, b| if b.1.is_nan() || b.1 > a.1 { b } else { a });
        let Some((class, margin)) = worst else { return (0.0, slopes) };
        let value = self.gap + margin;
        if value <= 0.0 {
            return (0.0, slopes);
        }
        slopes[class] = 1.0;
        (value, slopes)
    }
}
