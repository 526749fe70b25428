//! Parameters on a device, their gradients, and what goes with them.

use std::ops::Range;

use super::launcher::Launcher;
use super::{Kernels, launch, spread};
use crate::cpu::Real;
use crate::device::{AdamStep, DeviceError, Moments};
use crate::optimiser::UpdateRule;
use crate::solve::Failure;

/// Blocks that add up the squares of a gradient.
const BLOCKS: usize = 128;

/// Parameters, and their magnitudes.
pub struct DeviceWeights<M> {
    pub(super) values: M,
    pub(super) magnitudes: M,
    count: usize,
}

/// Gradients of parameters, and of their magnitudes where boxes go through.
pub struct DeviceGradients<M> {
    pub(super) signed: M,
    pub(super) magnitudes: Option<M>,
    count: usize,
}

/// Moments and averages of the parameters, and which of them are learned.
pub struct DeviceCompanions<M> {
    first: M,
    second: M,
    averages: M,
    learned: M,
    count: usize,
}

impl<L: Launcher, F: Real> Kernels<L, F> {
    pub(super) fn blank_weights(&self, count: usize) -> DeviceWeights<L::Memory> {
        DeviceWeights { values: self.zeros(count), magnitudes: self.zeros(count), count }
    }

    pub(super) fn read_weights(&self, weights: &DeviceWeights<L::Memory>) -> Vec<f64> {
        self.read_floats(&weights.values, weights.count)
    }

    /// Replaces numbers, if there are as many.
    fn replace(&self, what: &str, memory: &L::Memory, count: usize, values: &[f64]) -> Result<(), Failure> {
        if values.len() != count {
            let message = format!("{} {what} for a network of {count}", values.len());
            return Err(DeviceError::Failed(message).into());
        }
        self.attempt(|| self.launcher.write(memory, &super::encode::<F>(values.iter().copied())));
        Ok(())
    }

    pub(super) fn write_weights(
        &self,
        weights: &DeviceWeights<L::Memory>,
        parameters: &[f64],
    ) -> Result<(), Failure> {
        self.replace("parameters", &weights.values, weights.count, parameters)?;
        self.refreshed(weights);
        Ok(())
    }

    pub(super) fn refreshed(&self, weights: &DeviceWeights<L::Memory>) {
        let (values, magnitudes, n) = (self.at(&weights.values), self.at(&weights.magnitudes), weights.count);
        launch!(self, "magnitudes", spread(n), values, magnitudes, n);
    }

    pub(super) fn blank_gradients(&self, count: usize, boxes: bool) -> DeviceGradients<L::Memory> {
        let magnitudes = boxes.then(|| self.zeros(count));
        DeviceGradients { signed: self.zeros(count), magnitudes, count }
    }

    pub(super) fn forget(&self, gradients: &DeviceGradients<L::Memory>) {
        let bytes = gradients.count * size_of::<F>();
        for memory in std::iter::once(&gradients.signed).chain(&gradients.magnitudes) {
            self.attempt(|| self.launcher.clear(memory, bytes));
        }
    }

    fn total(&self, gradients: &DeviceGradients<L::Memory>, weights: &DeviceWeights<L::Memory>) -> L::Memory {
        let (out, n) = (self.floats(weights.count), weights.count);
        let magnitudes = gradients.magnitudes.as_ref().map_or(0, |memory| self.at(memory));
        let (signed, values) = (self.at(&gradients.signed), self.at(&weights.values));
        launch!(self, "settle", spread(n), signed, magnitudes, values, self.at(&out), n);
        out
    }

    pub(super) fn read_gradients(
        &self,
        gradients: &DeviceGradients<L::Memory>,
        weights: &DeviceWeights<L::Memory>,
    ) -> Vec<f64> {
        self.read_floats(&self.total(gradients, weights), weights.count)
    }

    pub(super) fn blank_companions(&self, learned: &[bool]) -> DeviceCompanions<L::Memory> {
        let count = learned.len();
        let mask = learned.iter().map(|learned| f64::from(u8::from(*learned)));
        DeviceCompanions {
            first: self.zeros(count),
            second: self.zeros(count),
            averages: self.zeros(count),
            learned: self.put_floats(mask),
            count,
        }
    }

    /// One step of the optimiser; the norm of the gradient before clipping.
    pub(super) fn updated(
        &self,
        rule: UpdateRule,
        step: &AdamStep,
        weights: &DeviceWeights<L::Memory>,
        gradients: &DeviceGradients<L::Memory>,
        with: &DeviceCompanions<L::Memory>,
    ) -> f64 {
        let (total, n) = (self.total(gradients, weights), weights.count);
        let (blocks, learned) = (n.div_ceil(super::THREADS).min(BLOCKS), self.at(&with.learned));
        let squares = self.doubles(blocks);
        let g = self.at(&total);
        launch!(self, "squares", [blocks, 1, 1], g, learned, self.at(&squares), n);
        let norm = self.read_doubles(&squares, blocks).iter().sum::<f64>().sqrt();
        // Written so that a NaN norm reaches the parameters.
        let scale = step.clip / (norm + 1e-6);
        let scale = if scale > 1.0 { 1.0 } else { scale };
        let number = match rule {
            UpdateRule::Adam => 0_usize,
            UpdateRule::AdamW => 1,
            UpdateRule::Sgd => 2,
        };
        let [first, second] = [1, 2].map(|which| {
            let beta = if which == 1 { step.beta1 } else { step.beta2 };
            1.0 - beta.powf(step.count as f64)
        });
        launch!(
            self,
            "follow",
            spread(n),
            number,
            self.at(&weights.values),
            self.at(&with.first),
            self.at(&with.second),
            g,
            learned,
            scale,
            step.rate,
            step.decay,
            step.beta1,
            step.beta2,
            step.epsilon,
            first,
            second.sqrt(),
            n
        );
        norm
    }

    pub(super) fn tracked(
        &self,
        decay: f64,
        weights: &DeviceWeights<L::Memory>,
        with: &DeviceCompanions<L::Memory>,
        set: &[Range<usize>],
    ) {
        let whole = std::iter::once((0..weights.count, decay));
        for (range, keep) in whole.chain(set.iter().map(|range| (range.clone(), 0.0))) {
            let (averages, values) =
                (self.after(&with.averages, range.start), self.after(&weights.values, range.start));
            let n = range.len();
            launch!(self, "track", spread(n), averages, values, keep, 1.0 - keep, n);
        }
    }

    pub(super) fn read_averages(&self, with: &DeviceCompanions<L::Memory>) -> Vec<f64> {
        self.read_floats(&with.averages, with.count)
    }

    pub(super) fn write_averages(
        &self,
        with: &DeviceCompanions<L::Memory>,
        averages: &[f64],
    ) -> Result<(), Failure> {
        self.replace("averages", &with.averages, with.count, averages)
    }

    pub(super) fn read_moments(&self, with: &DeviceCompanions<L::Memory>) -> Moments {
        let [first, second] = [&with.first, &with.second].map(|memory| self.read_floats(memory, with.count));
        Moments { first, second }
    }

    pub(super) fn write_moments(
        &self,
        with: &DeviceCompanions<L::Memory>,
        moments: &Moments,
    ) -> Result<(), Failure> {
        self.replace("moments", &with.first, with.count, &moments.first)?;
        self.replace("moments", &with.second, with.count, &moments.second)
    }
}
