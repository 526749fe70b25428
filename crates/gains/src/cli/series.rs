//! Flags for forecasting models: which series.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gains_data::series::{Horizon, Subset};

/// Which series a forecasting model is run on.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Forecasting models")]
pub struct SeriesArgs {
    /// Prepared file with the series [default: the prepared PhysioNet records in the data folder]
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// Which part of the records [default: test]
    #[arg(long, value_enum)]
    pub part: Option<PartArg>,
    /// How far ahead to predict at least, e.g. 6h, 12h or 24h [default: what the model was made for, else 24h]
    #[arg(long, value_name = "TIME", value_parser = horizon)]
    pub horizon: Option<Horizon>,
    /// Divide the records in the order of their names, whatever the prepared file says
    #[arg(long)]
    pub sorted: bool,
    /// Points the encoder walks through [default: authors for networks that stop at all points, else own]
    #[arg(long, value_enum)]
    pub grid: Option<GridArg>,
}

impl SeriesArgs {
    /// The first of these flags that was given.
    pub fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--series", self.series.is_some()),
            ("--part", self.part.is_some()),
            ("--horizon", self.horizon.is_some()),
            ("--sorted", self.sorted),
            ("--grid", self.grid.is_some()),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

/// `--part`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartArg {
    /// Used once, for the results
    Test,
    /// Used to choose among networks
    Validation,
    /// Trained on
    Train,
}

impl From<PartArg> for Subset {
    fn from(part: PartArg) -> Self {
        match part {
            PartArg::Test => Self::Test,
            PartArg::Validation => Self::Validation,
            PartArg::Train => Self::Train,
        }
    }
}

/// `--grid`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GridArg {
    /// Only the series' own points before the target
    Own,
    /// Also the target's time, later times and time 1, with nothing observed, as the authors of GAINS do
    Authors,
}

fn horizon(text: &str) -> Result<Horizon, String> {
    text.trim().parse::<Horizon>().map_err(|e| e.to_string())
}
