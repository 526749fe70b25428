use serde::{Deserialize, Serialize};

use super::{Kind, Measure};

/// Mean of the absolute errors of a sample's outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absolute {}

impl Measure for Absolute {
    fn kind(&self) -> Kind {
        Kind::Numbers
    }

    fn of(&self, errors: &[f64], _label: usize) -> (f64, Vec<f64>) {
        let each = 1.0 / errors.len().max(1) as f64;
        (each * errors.iter().sum::<f64>(), vec![each; errors.len()])
    }
}
