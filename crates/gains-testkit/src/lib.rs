//! What the tests of `gains` are made of: small networks built in code, random ones, and whole cases drawn from the
//! grammar of what the loader accepts.
//!
//! Only tests depend on this crate. It knows descriptions, networks and the concrete solver, and nothing of the
//! verifier or the trainer, so that theirs can both use it.

pub mod choices;
pub mod gardener;
pub mod grammar;
pub mod latent;
pub mod model;

pub use choices::{Choices, shrink};
pub use gardener::{Gardener, Kinds, random_model};
pub use model::{Model, controlled, fixed, linear, names, random_tensors};
