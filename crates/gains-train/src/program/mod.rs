//! Training of any network that can be loaded and bounded, operator by operator.
//!
//! A [`Blueprint`] is the program that is also verified, its operators with their rules for training ([`ops`]). A batch goes
//! through it on a `tape::Tape`, as points and as boxes; solver steps are in `step`. Where values are and who
//! computes is a [`Machine`]'s business: [`Host`] is the processor, [`Kernels`] a device. [`ProgramEngine`] is what the trainer drives.

pub mod blueprint;
pub mod device;
mod engine;
pub mod host;
mod judge;
pub mod machine;
#[cfg(test)]
#[path = "../../tests/common/machines.rs"]
mod machines;
mod number;
pub mod ops;
mod parameters;
mod pass;
mod samples;
mod step;
mod tape;
#[cfg(test)]
mod tests;

pub use blueprint::Blueprint;
pub use device::Kernels;
pub use engine::ProgramEngine;
pub use host::Host;
pub use machine::Machine;
pub use parameters::Parameters;
pub use pass::ProgramPass;
pub use samples::{Samples, Truth};
