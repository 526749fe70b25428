//! Training latent ODEs to forecast irregularly sampled series, on the CPU: an engine of the trainer.
//!
//! A batch is walked through by observation, not by time: the n-th stop of every sample is computed together, each with
//! its own step, and samples that have no more observations drop out. So nothing depends on batch mates but rounding,
//! and the step sizes of the decoder, which a batch shares in training (`decode`).
//!
//! Data flow one way: [`Sample`] → `part` (matrices) → `tape` (encoder, then `decode`) → `loss` → gradients. What runs
//! on series are configured by is in `config`, how files spell it in `file`.

mod cohort;
pub mod config;
mod decode;
mod engine;
mod evaluate;
pub mod file;
mod loss;
mod network;
mod ops;
mod pass;
mod sample;
mod tape;
#[cfg(test)]
mod tests;

pub use config::{ForecastConfig, Names, PHYSIONET, PerturbationConfig};
pub use engine::{SeriesEngine, network};
pub use network::Network;
pub use sample::Sample;
