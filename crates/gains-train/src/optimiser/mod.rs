//! How parameters follow their gradients on the CPU: one file for each rule. Adding one is a file here and its line in
//! [`UpdateRule`].

mod adam;
mod adam_w;
mod sgd;

use serde::{Deserialize, Serialize};

use crate::cpu::Real;
use crate::device::AdamStep;

/// The rules there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpdateRule {
    /// Adam, decay added to the gradient.
    #[default]
    Adam,
    /// Adam, weights decaying beside it (Loshchilov & Hutter 2019).
    AdamW,
    /// Gradient descent with momentum; `beta1` is the momentum.
    Sgd,
}

/// A number and its two moments.
#[derive(Clone, Copy, Debug)]
struct Place {
    parameter: f64,
    first: f64,
    second: f64,
}

/// One step of a rule, for one number.
trait Rule {
    /// Where a number goes, given its clipped gradient.
    fn follow(&self, at: Place, gradient: f64) -> Place;
}

/// One step; returns the norm of the gradient before clipping. Every number is computed in float64 and rounded once;
/// those that are not `learned` stay, and their gradients do not count.
pub(crate) fn update<F: Real>(
    method: UpdateRule,
    step: &AdamStep,
    learned: Option<&[bool]>,
    parameters: &mut [F],
    gradients: &[F],
    moments: (&mut [F], &mut [F]),
) -> f64 {
    let rule: &dyn Rule = match method {
        UpdateRule::Adam => &adam::Adam::new(step),
        UpdateRule::AdamW => &adam_w::AdamW::new(step),
        UpdateRule::Sgd => &sgd::Sgd::new(step),
    };
    let counts = |i: usize| learned.is_none_or(|learned| learned[i]);
    let squares = gradients.iter().enumerate().filter(|(i, _)| counts(*i)).map(|(_, g)| g.wide() * g.wide());
    let norm = squares.sum::<f64>().sqrt();
    // Written so that a NaN norm reaches the parameters.
    let scale = step.clip / (norm + 1e-6);
    let scale = if scale > 1.0 { 1.0 } else { scale };
    let (first, second) = moments;
    for i in (0..parameters.len()).filter(|i| counts(*i)) {
        let at = Place { parameter: parameters[i].wide(), first: first[i].wide(), second: second[i].wide() };
        let next = rule.follow(at, gradients[i].wide() * scale);
        parameters[i] = F::of(next.parameter);
        first[i] = F::of(next.first);
        second[i] = F::of(next.second);
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(decay: f64, count: u64) -> AdamStep {
        AdamStep { rate: 0.1, decay, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, clip: 1e9, count }
    }

    fn run(method: UpdateRule, decay: f64, gradients: &[f64]) -> f64 {
        let (mut parameter, mut first, mut second) = ([2.0], [0.0], [0.0]);
        for (index, gradient) in gradients.iter().enumerate() {
            let step = step(decay, index as u64 + 1);
            update(method, &step, None, &mut parameter, &[*gradient], (&mut first, &mut second));
        }
        parameter[0]
    }

    /// Worked out by hand from the formulas of the papers.
    #[test]
    fn rules_follow_their_formulas() {
        // The first step of Adam is the rate, whatever the gradient.
        assert!((run(UpdateRule::Adam, 0.0, &[7.0]) - 1.9).abs() < 1e-7);
        assert!((run(UpdateRule::Adam, 0.5, &[7.0]) - 1.9).abs() < 1e-7, "decay is part of the gradient");
        assert!((run(UpdateRule::AdamW, 0.5, &[7.0]) - (2.0 * (1.0 - 0.05) - 0.1)).abs() < 1e-7);
        // v₁ = g, v₂ = 0.9 v₁ + g'.
        assert!((run(UpdateRule::Sgd, 0.0, &[1.0, 0.5]) - (2.0 - 0.1 * (1.0 + 1.4))).abs() < 1e-12);
        assert!((run(UpdateRule::Sgd, 0.5, &[1.0]) - (2.0 - 0.1 * 2.0)).abs() < 1e-12);
    }

    #[test]
    fn what_is_frozen_stays_and_long_gradients_are_cut() {
        let (mut parameters, mut first, mut second) = ([1.0_f64, 1.0], [0.0; 2], [0.0; 2]);
        let step = AdamStep { clip: 0.5, ..step(0.3, 1) };
        let moments = (&mut first[..], &mut second[..]);
        let norm =
            update(UpdateRule::Sgd, &step, Some(&[false, true]), &mut parameters, &[30.0, 4.0], moments);
        assert_eq!((norm, parameters[0], first[0]), (4.0, 1.0, 0.0));
        assert!((parameters[1] - (1.0 - 0.1 * (0.5 + 0.3))).abs() < 1e-6, "{parameters:?}");
    }
}
