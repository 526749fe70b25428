//! Trying to break the bounds of forecasts: sampled, cornered and attacked series, edges, extremes, float32 programs.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod attacked;
mod edges;
mod exact;
mod perturbation;
mod scene;
mod single;
