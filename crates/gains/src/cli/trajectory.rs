//! The flags of `gains trajectory`.

use std::path::PathBuf;

use clap::Args;

use super::values::size;
use super::{BoundArgs, DataArgs, RegionArgs, SeriesArgs};

/// `gains trajectory`
#[derive(Args)]
pub struct TrajectoryArgs {
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
    /// The sample
    #[arg(long, value_name = "INDEX", default_value_t = 0, conflicts_with = "samples")]
    pub sample: usize,
    /// Radius of the region
    #[arg(long, value_parser = size, allow_negative_numbers = true, default_value = "0.1")]
    pub eps: f64,
    #[command(flatten)]
    pub bounds: BoundArgs,
    /// Write the trajectory and the graph as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw them as an SVG picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Most solver states to explore
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub max_vertices: usize,
    #[command(flatten)]
    pub series: SeriesArgs,
    #[command(flatten)]
    pub region: RegionArgs,
}
