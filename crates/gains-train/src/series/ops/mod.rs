//! What a tape records, each operation beside its gradient.
//!
//! Gradients of boxes are those of centre and radius. Where an operation works on the ends `l = c − r`, `u = c + r`,
//! `∂/∂l = (∂/∂c − ∂/∂r)/2` and `∂/∂u = (∂/∂c + ∂/∂r)/2`, and back `∂/∂c = ∂/∂l + ∂/∂u`, `∂/∂r = ∂/∂u − ∂/∂l`.

pub(super) mod affine;
pub(super) mod combine;
pub(super) mod gates;
#[cfg(test)]
mod tests;
