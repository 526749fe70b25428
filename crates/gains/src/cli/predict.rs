//! The flags of `gains predict`.

use std::path::PathBuf;

use clap::Args;

use super::{DataArgs, PrecisionArg, SeriesArgs};

/// `gains predict`
#[derive(Args)]
pub struct PredictArgs {
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Format the network is run in
    #[arg(long, value_enum, default_value_t = PrecisionArg::Float64)]
    pub precision: PrecisionArg,
    /// Print one JSON line per sample instead of a table
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub series: SeriesArgs,
}
