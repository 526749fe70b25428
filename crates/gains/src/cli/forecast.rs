//! The flags of `gains forecast`.

use std::path::PathBuf;

use clap::Args;

use super::values::size;
use super::{ArithmeticArg, MethodArg, PropertyArgs, RegionArgs, SeriesArgs, WorkArgs};

/// Examples below the help text.
pub const EXAMPLES: &str = "\
Examples:
  gains forecast                                             the bundled network on its first test record
  gains forecast --model net.safetensors --record 132539 --eps 0.1
  gains forecast --model net.safetensors --record 132539 --features HR,MAP --svg forecast.svg --plot HR,MAP,Temp

The band is certified: no series within eps is predicted outside of it. Values are in the units of the data.";

/// `gains forecast`
#[derive(Args)]
pub struct ForecastArgs {
    /// Model file, or the name of a bundled network that forecasts
    #[arg(long, value_name = "FILE", default_value = crate::bundled::FORECASTING)]
    pub model: PathBuf,
    /// Name of the record, of any part [default: the first of --part]
    #[arg(long, value_name = "ID")]
    pub record: Option<String>,
    /// Radius, in deviations of each feature
    #[arg(long, value_parser = size, allow_negative_numbers = true, default_value = "0.1")]
    pub eps: f64,
    /// Folder with the data sets [default: $GAINS_DATA, else the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// How to bound: auto, box, linear, gains, tight, symbolic or stepwise
    #[arg(long, value_enum, default_value_t = MethodArg::Auto, hide_possible_values = true)]
    pub method: MethodArg,
    /// The arithmetic the proof is about: exact reals, or the network run in float32
    #[arg(long, value_enum, default_value_t = ArithmeticArg::Real)]
    pub arithmetic: ArithmeticArg,
    /// Gradient steps of the attack
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub steps: usize,
    /// Features to draw, e.g. HR,MAP,Temp [default: the four observed most often, with those observed at the target first]
    #[arg(long, value_name = "NAME,NAME", requires = "svg")]
    pub plot: Vec<String>,
    /// Draw observations, prediction, certified band and attack as an SVG picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write everything as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub work: WorkArgs,
    #[command(flatten)]
    pub series: SeriesArgs,
    #[command(flatten)]
    pub region: RegionArgs,
    #[command(flatten)]
    pub property: PropertyArgs,
}
