//! The flags of `gains study`.

use std::path::PathBuf;

use clap::Args;

use super::{DataArgs, DeviceArg};
use crate::study::NamedModel;

/// Below the help of `gains study`.
pub const EXAMPLES: &str = "\
Examples:
  gains study --list
  gains study lcap --quick
  gains study trajectory-attack --network standard=std.safetensors --network 'provable 0.22'=p22.safetensors --samples 0..1000
  gains study ablation-kappa --quick       # trains its networks; --trained DIR takes them from elsewhere
  gains study ablation-kappa --set phases[0].epochs=5 --set phases[1].epochs=10 --commands     # shorter, trained elsewhere
  gains study report                       # everything that was studied, on one page: studies/index.html";

/// `gains study`
#[derive(Args)]
pub struct StudyArgs {
    /// Which study, or `report` to gather the results of all on one page
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub name: Option<String>,
    /// List all studies
    #[arg(long)]
    pub list: bool,
    /// Minutes on two cores instead of the full size
    #[arg(long)]
    pub quick: bool,
    /// Networks it is about, as NAME=FILE, FILE or a bundled name; may be given several times [default: fashion-mnist]
    #[arg(long = "network", value_name = "NAME=FILE")]
    pub networks: Vec<NamedModel>,
    #[command(flatten)]
    pub data: DataArgs,
    /// A folder of runs of `gains train`: the networks of a study that compares trainings [default: train them], or further
    /// ones beside --network
    #[arg(long, value_name = "DIR")]
    pub trained: Option<PathBuf>,
    /// Change a key in all trainings of such a study, as in `gains train`; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub changes: Vec<String>,
    /// Only print the commands that train the networks of such a study, to run them elsewhere or side by side
    #[arg(long)]
    pub commands: bool,
    /// Where networks are trained
    #[arg(long, value_enum, default_value_t = DeviceArg::Cpu)]
    pub device: DeviceArg,
    /// Folder of all studies; each has its own in it
    #[arg(long, value_name = "DIR", default_value = "studies")]
    pub out: PathBuf,
    /// Begin anew: earlier results of this study are forgotten
    #[arg(long)]
    pub fresh: bool,
    /// Worker threads; studies that measure times use one [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

impl StudyArgs {
    /// The flags given that only some studies take.
    pub fn particular(&self) -> Vec<&'static str> {
        let flags = [
            ("--network", !self.networks.is_empty()),
            ("--trained", self.trained.is_some()),
            ("--samples", self.data.samples.is_some()),
            ("--data-dir", self.data.data_dir.is_some()),
            ("--set", !self.changes.is_empty()),
            ("--commands", self.commands),
            ("--device", self.device != DeviceArg::Cpu),
        ];
        let given = flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag);
        given.chain(self.data.given()).collect()
    }
}
