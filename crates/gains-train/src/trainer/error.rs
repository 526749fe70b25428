//! Why a run stopped.

use crate::config::Problem;
use crate::device::DeviceError;
use crate::metrics::Position;
use crate::plan::PlanError;
use crate::solve::Failure;

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The device gave up.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The network cannot be trained by this crate.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A setting that makes no sense.
    #[error(transparent)]
    Config(#[from] Problem),
    /// Images and labels that do not fit each other, the network, or a checkpoint.
    #[error("{0}")]
    Data(String),
    /// The numbers ran away. What was saved before is still good.
    #[error("training diverged in {at}: {what}")]
    Diverged {
        /// Where.
        at: Position,
        /// What was no number.
        what: String,
    },
}

impl From<Failure> for TrainError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Device(error) => error.into(),
            Failure::Diverged(what) => Self::Data(what),
        }
    }
}

impl TrainError {
    /// What may help.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Device(DeviceError::Missing { hint, .. }) => Some(hint),
            Self::Device(DeviceError::OutOfMemory { .. }) => {
                Some("a smaller batch or fewer trajectories (kappa) need less memory")
            }
            Self::Config(problem) => Some(&problem.hint).filter(|hint| !hint.is_empty()).map(|hint| &**hint),
            Self::Diverged { .. } => {
                Some("a lower learning rate, a longer warm-up or a slower growth of eps may help")
            }
            _ => None,
        }
    }
}
