//! The flags of `gains radius`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::values::positive;
use super::{BoundArgs, DataArgs, OutputArgs, PropertyArgs, RegionArgs, SeriesArgs, WorkArgs};

/// What `--timeout` limits here.
pub const TIMEOUT: &str = "Seconds per sample, all its radii together";

/// Examples below the help text.
pub const EXAMPLES: &str = "\
Examples:
  gains radius --samples 0..20
  gains radius --samples 0..100 --timeout 30 --out radii.jsonl
  gains radius ... --out radii.jsonl --resume                  # after an interruption
  gains radius --model net.safetensors --inputs x.csv --label-column y --feature age --max 50

Each line of the output file is a line of `gains certify` at eps = --max, with certified_radius (no
smaller change breaks the property), attacked_radius (a change of this size does, see witness) and
probes (regions that were looked at). docs/results-format.md describes every key.";

/// `gains radius`
#[derive(Args)]
pub struct RadiusArgs {
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Largest radius to look at
    #[arg(long, value_name = "EPS", value_parser = positive, allow_negative_numbers = true, default_value = "1")]
    pub max: f64,
    /// How close radii that hold and radii that do not must come: part of the radius (log), or of --max (plain)
    #[arg(long, value_name = "PART", value_parser = positive, allow_negative_numbers = true, default_value = "0.05")]
    pub gap: f64,
    /// Where an interval of radii is divided
    #[arg(long, value_enum, default_value_t = BisectArg::Log)]
    pub bisect: BisectArg,
    /// Only this feature moves (name, or number of a column): its own radius
    #[arg(long, value_name = "NAME", conflicts_with = "features")]
    pub feature: Option<String>,
    /// Gradient steps of attacks; 0 for none (`auto` still has its short one)
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Attack")]
    pub attack_steps: usize,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub bounds: BoundArgs,
    #[command(flatten)]
    pub work: WorkArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub series: SeriesArgs,
    #[command(flatten)]
    pub region: RegionArgs,
    #[command(flatten)]
    pub property: PropertyArgs,
}

/// `--bisect`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BisectArg {
    /// At the geometric mean: radii of any size
    Log,
    /// In the middle
    Plain,
}

impl BisectArg {
    /// As it is typed and written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Plain => "plain",
        }
    }
}
