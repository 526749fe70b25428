//! The commands of `gains model`.

use std::path::PathBuf;

use clap::Subcommand;

/// `gains model`
#[derive(Subcommand)]
pub enum ModelCommand {
    /// Layers, shapes, parameters, solver and training record of a model
    Show {
        /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// The bundled networks
    List,
    /// Turn the weights of a published GAINS checkpoint into a model file
    Import {
        /// Weights
        #[arg(value_name = "WEIGHTS")]
        weights: PathBuf,
        /// JSON file with h0 and the normalisation constants
        #[arg(long, value_name = "FILE")]
        sidecar: PathBuf,
        /// Model file to write
        #[arg(long, value_name = "MODEL")]
        out: PathBuf,
    },
}
