//! The commands of `gains model`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::values::{positive, size};
use super::{DataArgs, RegionArgs, SeriesArgs};

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
    /// Write a bundled network to a model file, for other programs: `gains-check` among them
    Export {
        /// Name of a bundled network (`gains model list`)
        #[arg(value_name = "NAME")]
        name: String,
        /// Where to write it [default: NAME.safetensors]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Turn weights that another program saved into a model file
    Import(ImportArgs),
    /// Make a network with a continuous adaptive solver certifiable, and show what the settings cost
    ///
    /// Chooses first step, tolerance and smallest step from what the solver does on samples, reports how far outputs and
    /// decisions drift, and what certification costs as each setting changes.
    Adapt(AdaptArgs),
}

/// `gains model adapt`
#[derive(Args)]
pub struct AdaptArgs {
    /// Model file with an `adaptive` controller
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Where to write the adapted model [default: only look]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// α: factor between neighbouring step sizes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub factor: u32,
    /// τ: tolerance [default: that of the continuous solver]
    #[arg(long, value_name = "ERROR", value_parser = positive, allow_negative_numbers = true)]
    pub tolerance: Option<f64>,
    /// h₀: first step [default: the continuous solver's usual one]
    #[arg(long, value_name = "STEP", value_parser = positive, allow_negative_numbers = true)]
    pub initial_step: Option<f64>,
    /// Smallest step [default: the smallest the continuous solver took, on the grid, divided once more]
    #[arg(long, value_name = "STEP", value_parser = positive, allow_negative_numbers = true)]
    pub minimum_step: Option<f64>,
    /// Radius of the certificates
    #[arg(long, value_parser = size, allow_negative_numbers = true, default_value = "0.01", conflicts_with = "boxes")]
    pub eps: f64,
    /// How many samples to certify with each variant, from the first
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub certify: usize,
    /// Seconds per certificate
    #[arg(long, value_name = "SECONDS", value_parser = positive, allow_negative_numbers = true, default_value = "2")]
    pub timeout: f64,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub series: SeriesArgs,
    #[command(flatten)]
    pub region: RegionArgs,
}

/// `gains model import`
#[derive(Args)]
#[command(after_help = "\
Examples:
  gains model import net.safetensors --describe > net.json     begin a description, then fill it in
  gains model import net.safetensors --description net.json --out net.gains
  gains model import W.safetensors --sidecar W.json --out published.gains

docs/bring-your-own.md leads from a PyTorch module to a certificate.")]
#[command(group = ArgGroup::new("made of").required(true))]
pub struct ImportArgs {
    /// Weights: a safetensors file, such as a state dict saved as one
    #[arg(value_name = "WEIGHTS")]
    pub weights: PathBuf,
    /// Print the beginning of a description, from the names and shapes of the weights
    #[arg(long, group = "made of", conflicts_with = "out")]
    pub describe: bool,
    /// The network in the words of docs/model-format.md, in JSON
    #[arg(long, value_name = "FILE", group = "made of", requires = "out")]
    pub description: Option<PathBuf>,
    /// For published GAINS checkpoints: JSON file with h0 and the normalisation constants
    #[arg(long, value_name = "FILE", group = "made of", requires = "out")]
    pub sidecar: Option<PathBuf>,
    /// Model file to write
    #[arg(long, value_name = "MODEL")]
    pub out: Option<PathBuf>,
}
