//! Adam with L2 decay and clipping, as PyTorch does them.

use super::real::Real;
use crate::device::AdamStep;

/// One step; returns the norm of the gradient before clipping. Every entry is computed in float64 and rounded once.
pub(crate) fn update<F: Real>(
    step: &AdamStep,
    parameters: &mut [F],
    gradients: &[F],
    (first, second): (&mut [F], &mut [F]),
) -> f64 {
    let norm = gradients.iter().map(|g| g.wide() * g.wide()).sum::<f64>().sqrt();
    // Written so that a NaN norm reaches the parameters.
    let scale = step.clip / (norm + 1e-6);
    let scale = if scale > 1.0 { 1.0 } else { scale };
    let count = step.count as f64;
    let (correction1, correction2) = (1.0 - step.beta1.powf(count), 1.0 - step.beta2.powf(count));
    let (rate, root) = (step.rate / correction1, correction2.sqrt());
    for i in 0..parameters.len() {
        let parameter = parameters[i].wide();
        let gradient = gradients[i].wide() * scale + step.decay * parameter;
        let m = step.beta1 * first[i].wide() + (1.0 - step.beta1) * gradient;
        let v = step.beta2 * second[i].wide() + (1.0 - step.beta2) * gradient * gradient;
        first[i] = F::of(m);
        second[i] = F::of(v);
        parameters[i] = F::of(parameter - rate * m / (v.sqrt() / root + step.epsilon));
    }
    norm
}
