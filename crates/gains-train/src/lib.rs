//! Training neural ODEs that can be certified: standard, adversarial and provable, on CPU and CUDA.
//!
//! The trainer is a tape of coarse operations over points and boxes ([`device::Device`]): a layer, a pooling, a whole
//! solver step, the loss. What a network is made of stands in a [`plan::Plan`].

// Tests that also run on a device know the crate by its name.
#[cfg(test)]
extern crate self as gains_train;

pub mod checkpoint;
mod companions;
pub mod config;
mod course;
pub mod cpu;
pub mod cuda;
pub mod device;
pub mod engine;
pub mod explore;
pub mod fused;
mod gradients;
pub mod loss;
pub mod matrix;
pub mod metrics;
pub mod optimiser;
mod pass;
pub mod plan;
pub mod presets;
pub mod program;
mod random;
pub mod schedule;
pub mod series;
pub mod solve;
pub mod split;
pub mod tape;
mod threads;
pub mod trainer;

pub use checkpoint::{Checkpoint, CheckpointError};
pub use config::{Config, ConfigError};
pub use device::{Batch, Device, DeviceError, StepForm};
pub use metrics::{BatchReport, EpochReport, Evaluation, Position};
pub use plan::Plan;
pub use presets::{PRESETS, Preset};
pub use trainer::{Advance, Images, Outcome, TrainError, Trainer};
