//! The networks that come with the program.

use std::path::Path;

use gains_core::Network;
use gains_core::model_file::read_model;

use crate::failure::Failure;

/// A bundled network.
pub struct Entry {
    /// Name.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The model file.
    pub bytes: &'static [u8],
}

/// All bundled networks; the first is the default.
pub static MODELS: [Entry; 2] = [
    Entry {
        name: "fashion-mnist",
        about: "Fashion-MNIST, made by `gains train --preset fashion-mnist-provable-0.16-difference`",
        bytes: include_bytes!("../assets/fashion-mnist.safetensors"),
    },
    Entry {
        name: "mnist",
        about: "MNIST, made by `gains train --preset mnist-provable-0.11-difference`",
        bytes: include_bytes!("../assets/mnist.safetensors"),
    },
];

/// The bundled network of that name, if there is no such file.
pub fn find(path: &Path) -> Option<&'static Entry> {
    let entry = MODELS.iter().find(|entry| path.as_os_str() == entry.name)?;
    (!path.is_file()).then_some(entry)
}

impl Entry {
    /// Parses the network.
    pub fn network(&self) -> Result<Network, Failure> {
        read_model(self.bytes).map_err(|e| Failure::new(format!("bundled model '{}': {e}", self.name)))
    }
}
