//! Training latent ODEs to forecast irregularly sampled series, on the CPU.
//!
//! A batch is walked through by observation, not by time: the n-th stop of every sample is computed together, each with
//! its own step, and samples that have no more observations drop out. So nothing depends on batch mates but rounding,
//! and the step sizes of the decoder, which a batch shares in training ([`decode`]).
//!
//! Data flow one way: [`Sample`] → [`part`] (matrices) → [`tape`] (encoder, then [`decode`]) → [`loss`] → gradients.

mod check;
pub mod checkpoint;
pub mod config;
pub mod decode;
pub mod evaluate;
pub mod loss;
pub mod metrics;
pub mod network;
mod ops;
pub mod part;
pub mod pass;
pub mod presets;
pub mod sample;
pub mod tape;
#[cfg(test)]
mod tests;
pub mod trainer;

pub use checkpoint::{ForecastCheckpoint, ForecastState};
pub use config::{ForecastConfig, ForecastMethod, PerturbationConfig};
pub use metrics::{ForecastBatch, ForecastEpoch, ForecastMeans};
pub use network::{Network, Weights};
pub use presets::ForecastPreset;
pub use sample::{Region, Sample};
pub use trainer::{ForecastAdvance, ForecastTrainer, Names, continues};
