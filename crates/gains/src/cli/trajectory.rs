//! The flags of `gains trajectory`.

use std::path::PathBuf;

use clap::Args;

use super::values::size;
use super::{BoundArgs, DataArgs, MethodArg, PropertyArgs, RegionArgs, SeriesArgs};

/// `gains trajectory`
#[derive(Args)]
pub struct TrajectoryArgs {
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// The sample
    #[arg(long, value_name = "INDEX", default_value_t = 0, conflicts_with = "samples")]
    pub sample: usize,
    /// Radii of the region; the first is printed and drawn, --json has them all
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size, allow_negative_numbers = true, default_value = "0.1", conflicts_with = "boxes")]
    pub eps: Vec<f64>,
    /// Further methods whose graphs --json is to have, e.g. gains,tight
    #[arg(long, value_enum, value_name = "METHODS", value_delimiter = ',', requires = "json")]
    pub against: Vec<MethodArg>,
    /// Write the trajectory and the graphs as JSON (docs/report.md describes it, `gains report` shows it); - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw them as an SVG picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Most solver states to explore
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub max_vertices: usize,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub bounds: BoundArgs,
    #[command(flatten)]
    pub series: SeriesArgs,
    #[command(flatten)]
    pub region: RegionArgs,
    #[command(flatten)]
    pub property: PropertyArgs,
}
