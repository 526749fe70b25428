//! The flags of `gains bench` and its studies.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::values::{positive, radius, size};
use super::{DataArgs, PropertyArgs, SeriesArgs, StepFormArg};

/// `gains bench`
#[derive(Args)]
pub struct BenchArgs {
    /// A study instead of the plain measurement
    #[command(subcommand)]
    pub study: Option<BenchStudy>,
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Radii
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size, allow_negative_numbers = true, default_value = "0.1,0.15", conflicts_with = "boxes")]
    pub eps: Vec<f64>,
    /// How solver steps are bounded: stages on their own, or each as the one before plus a difference
    #[arg(long, value_enum, default_value_t = StepFormArg::Independent)]
    pub step_form: StepFormArg,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seconds per sample and method; beyond them it is left out
    #[arg(long, value_name = "SECONDS", value_parser = positive, allow_negative_numbers = true, default_value = "60")]
    pub timeout: f64,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub series: SeriesArgs,
    #[command(flatten)]
    pub property: PropertyArgs,
}

/// Studies of `gains bench`.
#[derive(Subcommand)]
pub enum BenchStudy {
    /// Time against eps, the ODE's end time and the size of its state, for `gains` and `tight`
    ///
    /// One thing grows at a time: eps; the end time of the same network; the state, each of whose channels is
    /// repeated without changing what the network computes. Only samples the network classifies correctly
    /// are measured, on one thread. Ctrl-C shows what has been measured so far.
    #[command(after_help = GROWTH_EXAMPLES, mut_arg("samples", |arg| arg.help(GROWTH_SAMPLES)))]
    Growth(GrowthArgs),
}

const GROWTH_SAMPLES: &str = "Images to take, e.g. 0..20 or 3,7,20..30 (ends not included) [default: 0..10]";
const GROWTH_EXAMPLES: &str = "\
Examples:
  gains bench growth
  gains bench growth --svg growth.svg        # and the measured numbers in growth.csv
  gains bench growth --model net.safetensors --samples 0..20 --timeout 30 --end-times 1,2,3";

/// `gains bench growth`
#[derive(Args)]
pub struct GrowthArgs {
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Radii of the first axis
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = radius, allow_negative_numbers = true, default_value = "0.01,0.02,0.05,0.1,0.15,0.2")]
    pub eps: Vec<f64>,
    /// End times of the second axis
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive, allow_negative_numbers = true, default_value = "1,2,4")]
    pub end_times: Vec<f64>,
    /// Third axis: how often each channel of the state is there
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=64), default_value = "1,2,4")]
    pub copies: Vec<u8>,
    /// Radius while something else grows
    #[arg(long, value_name = "EPS", value_parser = radius, allow_negative_numbers = true, default_value = "0.1")]
    pub base_eps: f64,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seconds per sample; beyond them it counts as unfinished
    #[arg(long, value_name = "SECONDS", value_parser = positive, allow_negative_numbers = true, default_value = "60")]
    pub timeout: f64,
    /// Draw the study here, and write the measured numbers beside it as FILE.csv
    #[arg(long, value_name = "FILE.svg")]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
}
