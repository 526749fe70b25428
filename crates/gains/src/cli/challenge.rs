//! The flags of `gains challenge`.

use std::path::PathBuf;

use clap::Args;

use super::DataArgs;

/// `gains challenge`
#[derive(Args)]
pub struct ChallengeArgs {
    /// Results of `gains certify --out` (JSON lines)
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Prepared file with the series [default: the prepared PhysioNet records in the data folder]
    #[arg(long, value_name = "FILE", help_heading = "Forecasting models")]
    pub series: Option<PathBuf>,
    /// Points per verified sample
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub points: u32,
    /// Worker threads [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub data: DataArgs,
}
