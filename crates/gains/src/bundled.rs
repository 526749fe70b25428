//! The networks that come with the program, and the records for the one that forecasts.

use std::path::Path;

use gains_core::Network;
use gains_core::model_file::{content_hash, read_model};

use crate::failure::Failure;

/// A bundled network.
pub struct Entry {
    /// Name.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The model file.
    pub bytes: &'static [u8],
    /// The prepared series it is shown on, if it forecasts.
    pub series: Option<&'static [u8]>,
}

/// All bundled networks; the first is the default.
pub static MODELS: [Entry; 5] = [
    Entry {
        name: "fashion-mnist",
        about: "Fashion-MNIST, made by `gains train --preset fashion-mnist-provable-0.16-difference`",
        bytes: include_bytes!("../assets/fashion-mnist.safetensors"),
        series: None,
    },
    Entry {
        name: "mnist",
        about: "MNIST, made by `gains train --preset mnist-provable-0.11-difference`",
        bytes: include_bytes!("../assets/mnist.safetensors"),
        series: None,
    },
    Entry {
        name: FORECASTING,
        about: "forecasts of made-up ponds, made by `gains train --config scripts/tutorial/pond.toml`",
        bytes: include_bytes!("../assets/pond.safetensors"),
        series: Some(include_bytes!("../assets/pond.series")),
    },
    Entry {
        name: "fashion-mnist-best",
        about: "Fashion-MNIST, made by `gains train --preset fashion-mnist-provable-0.16-best --device cuda`",
        bytes: include_bytes!("../assets/fashion-mnist-best.safetensors"),
        series: None,
    },
    Entry {
        name: "mnist-best",
        about: "MNIST, made by `gains train --preset mnist-provable-0.22-best --device cuda`",
        bytes: include_bytes!("../assets/mnist-best.safetensors"),
        series: None,
    },
];

/// The bundled network that forecasts.
pub const FORECASTING: &str = "pond";

/// The bundled series of a network, if it is a bundled one that forecasts.
pub fn series_of(network: &Network) -> Option<&'static [u8]> {
    let is_this = |entry: &&Entry| entry.series.is_some() && content_hash(entry.bytes) == network.hash;
    MODELS.iter().find(is_this).and_then(|entry| entry.series)
}

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
