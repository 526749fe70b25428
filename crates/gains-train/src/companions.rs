//! What goes with the parameters of an engine on the CPU: the optimiser's moments, and running averages.

use crate::cpu::Real;
use crate::device::{AdamStep, DeviceError, Moments};
use crate::optimiser::{self, UpdateRule};
use crate::solve::Failure;

/// Moments and averages, one of each for every parameter.
pub(crate) struct Companions<F> {
    first: Vec<F>,
    second: Vec<F>,
    averages: Vec<F>,
}

impl<F: Real> Companions<F> {
    /// Zeros.
    pub(crate) fn new(parameters: usize) -> Self {
        let zeros = vec![F::ZERO; parameters];
        Self { first: zeros.clone(), second: zeros.clone(), averages: zeros }
    }

    /// One step of the optimiser; the norm of the gradient before clipping.
    pub(crate) fn update(
        &mut self,
        method: UpdateRule,
        step: &AdamStep,
        learned: Option<&[bool]>,
        parameters: &mut [F],
        gradients: &[F],
    ) -> f64 {
        let moments = (&mut self.first[..], &mut self.second[..]);
        optimiser::update(method, step, learned, parameters, gradients, moments)
    }

    /// Moves the averages towards the parameters; those of the ranges given are set.
    pub(crate) fn track(
        &mut self,
        decay: f64,
        parameters: &[F],
        set: impl Iterator<Item = std::ops::Range<usize>>,
    ) {
        let (keep, take) = (F::of(decay), F::of(1.0 - decay));
        for (average, value) in self.averages.iter_mut().zip(parameters) {
            *average = keep * *average + take * *value;
        }
        for range in set {
            self.averages[range.clone()].copy_from_slice(&parameters[range]);
        }
    }

    /// The averages.
    pub(crate) fn averages(&self) -> Vec<f64> {
        widen(&self.averages)
    }

    /// Replaces them.
    pub(crate) fn set_averages(&mut self, averages: &[f64]) -> Result<(), Failure> {
        narrow("averages", averages, &mut self.averages)
    }

    /// The moments.
    pub(crate) fn moments(&self) -> Moments {
        Moments { first: widen(&self.first), second: widen(&self.second) }
    }

    /// Replaces them.
    pub(crate) fn set_moments(&mut self, moments: &Moments) -> Result<(), Failure> {
        narrow("moments", &moments.first, &mut self.first)?;
        narrow("moments", &moments.second, &mut self.second)
    }
}

/// Numbers of an engine as the trainer takes them.
pub(crate) fn widen<F: Real>(values: &[F]) -> Vec<f64> {
    values.iter().map(|value| value.wide()).collect()
}

/// And back, if there are as many.
pub(crate) fn narrow<F: Real>(what: &str, values: &[f64], into: &mut [F]) -> Result<(), Failure> {
    if values.len() != into.len() {
        let message = format!("{} {what} for a network of {}", values.len(), into.len());
        return Err(DeviceError::Failed(message).into());
    }
    for (to, value) in into.iter_mut().zip(values) {
        *to = F::of(*value);
    }
    Ok(())
}
