//! The flags of `gains report`.

use std::path::PathBuf;

use clap::Args;

/// Examples below the help text.
pub const EXAMPLES: &str = "\
Examples:
  gains certify --eps 0.05,0.1,0.15 --out results.jsonl
  gains report results.jsonl --out report.html
  gains report gains.jsonl tight.jsonl --out comparison.html          # who certifies what
  gains trajectory --eps 0.02,0.05,0.1 --against gains --json graph.json
  gains report results.jsonl graph.json runs/mine --model runs/mine/model.safetensors --out report.html
  gains report results.jsonl --serve                                  # follows a run that is going on

The page needs nothing but itself: no network, no other file. docs/report.md describes it.";

/// `gains report`
#[derive(Args)]
pub struct ReportArgs {
    /// Result files: of certify, eval, radius and attack (--out), trajectory and forecast (--json), metrics.csv of train
    /// or the folder of a run, results.jsonl of a study or its folder
    #[arg(value_name = "RESULTS", required = true)]
    pub results: Vec<PathBuf>,
    /// Networks the results are about, for their cards and for pictures of the samples; bundled ones are found by
    /// themselves
    #[arg(long, value_name = "FILE")]
    pub model: Vec<PathBuf>,
    /// Write the page to this file (- for standard output)
    #[arg(long, value_name = "FILE", required_unless_present = "serve")]
    pub out: Option<PathBuf>,
    /// Show the page at an address of this machine only, and keep it up to date while the files grow
    #[arg(long)]
    pub serve: bool,
    /// Port of --serve; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0, requires = "serve")]
    pub port: u16,
    /// Samples that a run which is going on was asked for: the page then says how long the rest will take
    #[arg(long, value_name = "SAMPLES")]
    pub expect: Option<usize>,
    /// Folder with the data sets, for pictures [default: $GAINS_DATA, else the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Inputs of your own that results are about, for pictures
    #[arg(long, value_name = "FILE")]
    pub inputs: Option<PathBuf>,
    /// Their classes
    #[arg(long, value_name = "FILE", requires = "inputs")]
    pub labels: Option<PathBuf>,
    /// The column of a .csv that holds the classes
    #[arg(long, value_name = "NAME", requires = "inputs", conflicts_with = "labels")]
    pub label_column: Option<String>,
    /// Prepared file with the series, for pictures [default: the prepared PhysioNet records in the data folder]
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
}
