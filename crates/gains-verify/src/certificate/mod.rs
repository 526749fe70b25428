//! Certificates: proofs that another program checks (`docs/certificates.md`).
//!
//! A certificate is written after the verdict, by proving it once more with room around everything that is claimed and
//! with every choice noted ([`crate::analysis`], with [`crate::steps::Room`]). So nothing here can make a verdict
//! wrong, and nothing costs time where no certificate is wanted.
//!
//! * [`claim`]: what certificates are made of;
//! * [`prove`]: from a decided problem to its proof, or to why there is none;
//! * [`encode`]: the bytes.

mod branch;
pub mod claim;
pub mod encode;
pub mod prove;

use gains_core::BoxVec;

use crate::ball::Ball;
use crate::property::Property;
use claim::{Node, SeriesClaim};

/// A proof, or a counterexample, with everything it speaks about but the network.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// What a network for series was laid out for.
    pub series: Option<SeriesClaim>,
    /// One box for each input.
    pub boxes: Vec<BoxVec>,
    /// Only inputs of this ball are considered, where there is one.
    pub ball: Option<Ball>,
    /// What is asked of the outputs.
    pub property: Property,
    /// What is claimed, and why.
    pub evidence: Evidence,
}

/// What is claimed, and why.
#[derive(Clone, Debug)]
pub enum Evidence {
    /// The property holds for every input considered.
    Proof(Node),
    /// It does not hold here.
    Witness {
        /// One value for each input.
        inputs: Vec<Vec<f64>>,
        /// For every ODE block, what its solver does.
        actions: Vec<Vec<gains_ode::Action>>,
        /// About what comes out.
        outputs: Vec<f64>,
    },
}

/// Why there is no certificate of a verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWritten {
    /// The verdict is none that could have one.
    #[error("there is nothing to certify")]
    NoVerdict,
    /// Something that certificates cannot speak about yet.
    #[error("certificates of {0} cannot be written yet")]
    Unspoken(String),
    /// The proof could not be made again in a form that others can check.
    #[error("the proof could not be made again with room for the rounding of others: {0}")]
    Lost(String),
}
