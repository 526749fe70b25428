//! Gradients of parameters on the CPU.

use crate::cpu::Real;

/// Gradients of the parameters: of the weights as such, and of their magnitudes, through which radii go.
#[derive(Clone, Debug)]
pub struct Gradients<F> {
    pub(crate) signed: Vec<F>,
    pub(crate) magnitudes: Vec<F>,
}

impl<F: Real> Gradients<F> {
    /// Zeros.
    pub fn new(parameters: usize, boxes: bool) -> Self {
        let magnitudes = vec![F::ZERO; if boxes { parameters } else { 0 }];
        Self { signed: vec![F::ZERO; parameters], magnitudes }
    }

    /// Adds them to `total`.
    pub fn settle(&self, parameters: &[F], total: &mut [F]) {
        for (sum, value) in total.iter_mut().zip(&self.signed) {
            *sum += *value;
        }
        for ((sum, value), parameter) in total.iter_mut().zip(&self.magnitudes).zip(parameters) {
            *sum += parameter.sign() * *value;
        }
    }
}
