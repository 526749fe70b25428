//! Turning weights that other programs saved into model files.
//!
//! * [`import_state_dict`]: the weights of any network, and a description of it; [`template`] begins one.
//! * [`import_checkpoint`]: the published GAINS checkpoints, whose networks are known.

mod checkpoint;
mod physionet;
mod state_dict;
mod template;

pub use checkpoint::import_checkpoint;
pub use state_dict::{Imported, import_state_dict};
pub use template::template;
