//! Flags that most commands share: which samples, how much work, where results go.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gains_data::{Dataset, Split};

use super::values::{data_set, positive, size};
use super::{InputArgs, PropertyArgs, RegionArgs, SeriesArgs};
use crate::selection::Selection;

/// Which samples.
#[derive(Args, Clone, Default)]
pub struct DataArgs {
    /// Data set; by default the one the model was made for
    #[arg(long, value_name = "NAME", value_parser = data_set)]
    pub data: Option<Dataset>,
    /// Folder with the data sets [default: $GAINS_DATA, else the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Which part of the data set [default: test]
    #[arg(long)]
    pub split: Option<Split>,
    /// Samples or records to take, e.g. 0..1000 or 3,7,20..30 (ends not included) [default: 0..100, all of your own]
    #[arg(long, visible_alias = "records", value_name = "LIST")]
    pub samples: Option<Selection>,
    #[command(flatten)]
    pub own: InputArgs,
}

impl DataArgs {
    /// The first flag given that series do not have.
    pub fn given(&self) -> Option<&'static str> {
        match (self.data, self.split) {
            (Some(_), _) => Some("--data"),
            (None, Some(_)) => Some("--split"),
            (None, None) => self.own.given(),
        }
    }
}

/// What is verified or attacked: a model, samples, radii.
#[derive(Args, Clone)]
pub struct TargetArgs {
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Radii, e.g. 0.1,8/255: largest change of a value; pixels are on the scale 0 to 1, values of series in deviations of
    /// their feature
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size, allow_negative_numbers = true, default_value = "0.1", conflicts_with = "boxes")]
    pub eps: Vec<f64>,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub series: SeriesArgs,
    #[command(flatten)]
    pub region: RegionArgs,
    #[command(flatten)]
    pub property: PropertyArgs,
}

/// How much work.
#[derive(Args, Clone)]
#[command(next_help_heading = "Limits")]
pub struct WorkArgs {
    /// Worker threads [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Seconds per sample and eps; beyond them the verdict is unknown
    #[arg(long, value_name = "SECONDS", value_parser = positive, allow_negative_numbers = true, default_value = "10")]
    pub timeout: f64,
    /// Most solver states a region may reach; beyond them the verdict is unknown
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub max_vertices: usize,
    /// Megabytes one sample may use; beyond them the verdict is unknown
    #[arg(long, value_name = "MB", default_value_t = 4096)]
    pub max_memory: usize,
}

/// Where results go.
#[derive(Args, Clone)]
#[command(next_help_heading = "Results")]
pub struct OutputArgs {
    /// Write one line per sample and eps to this file as they are done (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Format of the output file
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    pub format: Format,
    /// Go on with an output file: keep its results, do only what is missing
    #[arg(long, requires = "out")]
    pub resume: bool,
}

/// Format of result files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object per line
    Jsonl,
    /// Comma-separated values with a header
    Csv,
}
