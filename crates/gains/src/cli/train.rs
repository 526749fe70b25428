//! The flags of `gains train`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

/// Examples below the help text.
pub const EXAMPLES: &str = "\
Examples:
  gains train --list-presets
  gains train --preset quick                          # minutes on a CPU
  gains train --preset mnist-provable-0.11-difference --device cuda
  gains train --preset quick --set batch=64 --set phases[1].eps.target=0.03 --out runs/mine
  gains train --preset quick --print-config > mine.toml; gains train --config mine.toml
  gains train --resume runs/quick-seed12345           # after Ctrl-C, a crash or a power cut
  gains train --preset quick --seeds 1,2,3            # one after the other, with the mean
  gains train --config mine.toml --inputs table.csv --label-column class   # samples of your own
  gains train --preset quick --inputs images.npy --labels classes.npy     # a preset's network and recipe on them

A run's folder holds config.toml, metrics.csv (a line per epoch), checkpoint.safetensors and, once it is finished,
model.safetensors and curves.svg. Ctrl-C saves a checkpoint first. See docs/training.md.";

/// `gains train`
#[derive(Args)]
#[command(group(ArgGroup::new("source").args(["preset", "config", "resume", "list_presets"]).required(true)))]
pub struct TrainArgs {
    /// Train as one of the presets says
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Train as a TOML file says; given often, one run after the other
    #[arg(long, value_name = "FILE.toml")]
    pub config: Vec<PathBuf>,
    /// Go on with the run in this folder; may be given often, too
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "force", "seed", "seeds"])]
    pub resume: Vec<PathBuf>,
    /// Go on from the last epoch before the run warned that its neural ODE died
    #[arg(long, requires = "resume")]
    pub back: bool,
    /// Show the presets
    #[arg(long)]
    pub list_presets: bool,
    /// Print the whole configuration and do nothing
    #[arg(long, conflicts_with = "list_presets")]
    pub print_config: bool,
    // The text is for the terminal, not a link.
    #[allow(rustdoc::broken_intra_doc_links)]
    /// Change a setting, e.g. optimiser.rate=1e-4 or phases[1].epochs=20; may be given often
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "list_presets")]
    pub changes: Vec<String>,
    /// Seed of everything random [default: the configuration's]
    #[arg(long, value_name = "N", conflicts_with = "list_presets")]
    pub seed: Option<u64>,
    /// Seeds of several runs, one after the other, e.g. 1,2,3
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with_all = ["seed", "list_presets"])]
    pub seeds: Vec<u64>,
    /// Where to compute
    #[arg(long, value_enum, default_value_t = DeviceArg::Cpu)]
    pub device: DeviceArg,
    /// Worker threads of the CPU [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Folder for the run; of several runs, the folder for theirs [default: runs/NAME-seedN]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Start over in a folder that holds a run already
    #[arg(long)]
    pub force: bool,
    /// Samples of your own: .npy, .npz, .csv, IDX or a folder of pictures; the configuration's data.inputs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "list_presets"])]
    pub inputs: Option<PathBuf>,
    /// What is true of them; the configuration's data.labels
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "list_presets", "label_column"])]
    pub labels: Option<PathBuf>,
    /// The column of a .csv that holds what is true; the configuration's data.label_column
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "list_presets"])]
    pub label_column: Option<String>,
    /// Folder with the data sets [default: $GAINS_DATA, else the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// `--device`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceArg {
    /// This machine's processor
    Cpu,
    /// An NVIDIA GPU; driver and run-time compiler are looked for when asked for
    Cuda,
}
