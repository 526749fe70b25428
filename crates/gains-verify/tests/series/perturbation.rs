//! How far the entries of the test series may move.

use gains_core::Interval;
use gains_verify::series::{Allowance, Perturbation};

/// Different radii, one feature exact, one clipped, one static free.
pub fn perturbation(eps: f64) -> Perturbation {
    Perturbation {
        features: vec![
            Allowance::within(eps),
            Allowance { radius: 2.0 * eps, range: Interval::new(0.0, 1.0) },
            Allowance::EXACT,
            Allowance::within(0.5 * eps),
        ],
        statics: vec![Allowance::within(eps), Allowance::EXACT, Allowance::within(2.0 * eps)],
    }
}
