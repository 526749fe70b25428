//! Gradients of a layer's parameters, summed part by part in a fixed order.

use super::kernel::{CENTRE, Kernel, RADIUS, for_time_taps, weight_order};
use super::real::Real;

/// What one part of a batch contributes to the gradient of one layer's parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerGradient<F> {
    /// Of the weights, and of their magnitudes, laid out as the kernel's.
    weights: [Vec<F>; 2],
    /// Of `b + t·u`, entry by entry of the output.
    plane: Vec<F>,
    /// The same weighted with the times.
    timed: Vec<F>,
    /// Nothing is wanted.
    idle: bool,
}

impl<F: Real> LayerGradient<F> {
    /// Nothing so far.
    pub fn reset(&mut self, kernel: &Kernel<F>, boxes: bool, idle: bool) {
        self.idle = idle;
        let (weights, plane) = (kernel.weights[0].len(), kernel.plan.output.len());
        let [signed, magnitudes] = &mut self.weights;
        let lengths =
            [weights, if boxes { weights } else { 0 }, plane, if kernel.plan.time { plane } else { 0 }];
        for (sums, length) in [signed, magnitudes, &mut self.plane, &mut self.timed].into_iter().zip(lengths)
        {
            sums.clear();
            sums.resize(length, F::ZERO);
        }
    }

    /// Adds what a tile contributes: `gradient` is that of `W x + bias·b + time·u`, in both lanes for boxes.
    pub fn add(
        &mut self,
        kernel: &Kernel<F>,
        samples: usize,
        x: &[Vec<F>],
        gradient: &[Vec<F>],
        bias: bool,
        time: F,
        columns: &mut Vec<F>,
    ) {
        if self.idle {
            return;
        }
        for lane in 0..gradient.len() {
            kernel.weight_gradient(samples, &x[lane], &gradient[lane], &mut self.weights[lane], columns);
        }
        if !bias && time == F::ZERO {
            return;
        }
        let run = kernel.plan.output.width * kernel.plan.output.channels;
        let mut sum = vec![F::ZERO; run];
        for (row, rows) in gradient[CENTRE].chunks_exact(samples * run).enumerate() {
            sum.fill(F::ZERO);
            for values in rows.chunks_exact(run) {
                for (s, g) in sum.iter_mut().zip(values) {
                    *s += *g;
                }
            }
            for (i, s) in sum.iter().enumerate() {
                if bias {
                    self.plane[row * run + i] += *s;
                }
                if kernel.plan.time {
                    self.timed[row * run + i] += time * *s;
                }
            }
        }
    }

    /// Adds the sum of all parts to the gradient of the parameters.
    pub fn settle(kernel: &Kernel<F>, parts: &[&Self], gradients: &mut [F]) {
        if parts.iter().all(|part| part.idle) {
            return;
        }
        let plan = &kernel.plan;
        let outputs = plan.output.channels;
        let total = |pick: &dyn Fn(&Self) -> &[F], length: usize| {
            let mut sum = vec![F::ZERO; length];
            for part in parts {
                for (s, v) in sum.iter_mut().zip(pick(part)) {
                    *s += *v;
                }
            }
            sum
        };
        let signed = total(&|part| &part.weights[CENTRE], kernel.weights[0].len());
        let magnitudes = total(&|part| &part.weights[RADIUS], kernel.weights[0].len());
        for (index, row, output) in weight_order(plan) {
            let at = row * outputs + output;
            gradients[plan.weights.start + index] +=
                signed[at] + kernel.weights[0][at].sign() * magnitudes[at];
        }
        let plane = total(&|part| &part.plane, plan.output.len());
        for (entry, value) in plane.iter().enumerate() {
            gradients[plan.biases.start + entry % outputs] += *value;
        }
        if plan.time {
            let timed = total(&|part| &part.timed, plan.output.len());
            for_time_taps(plan, |index, entry| gradients[plan.weights.start + index] += timed[entry]);
        }
    }
}
