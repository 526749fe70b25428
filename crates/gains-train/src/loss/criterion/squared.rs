use serde::{Deserialize, Serialize};

use super::{Kind, Measure};

/// Mean of the squared errors of a sample's outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Squared {}

impl Measure for Squared {
    fn kind(&self) -> Kind {
        Kind::Numbers
    }

    fn of(&self, errors: &[f64], _label: usize) -> (f64, Vec<f64>) {
        let each = 1.0 / errors.len().max(1) as f64;
        let sum: f64 = errors.iter().map(|error| error * error).sum();
        (each * sum, errors.iter().map(|error| 2.0 * each * error).collect())
    }
}
