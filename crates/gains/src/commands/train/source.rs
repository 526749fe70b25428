//! Where the samples of a run come from: what its folder says about them, and how commands name them.

use std::path::Path;

use gains_train::Config;
use gains_train::series::PHYSIONET;

use super::own::Own;
use super::{data_flag, quoted};
use crate::cli::TrainArgs;

/// Where samples come from.
pub enum Source {
    /// A known set of images.
    Known,
    /// Files of one's own.
    Own(Own),
    /// A prepared file of series.
    Series {
        /// What the network's record tells of it.
        record: serde_json::Value,
        /// How many series are held back for the test.
        test: usize,
    },
}

impl Source {
    /// Files that go into the folder of the run: their names and what they hold.
    pub fn files(&self, config: &Config) -> Vec<(&'static str, String)> {
        match self {
            Self::Own(own) => own.files(config.target()),
            Self::Known | Self::Series { .. } => Vec::new(),
        }
    }

    /// What follows `--model` in commands about samples that were not learned from, and what follows that to look at some.
    pub fn command(&self, folder: &Path, config: &Config, args: &TrainArgs) -> (String, String) {
        match (self, &config.data) {
            (Self::Own(own), Some(data)) => (own.command(folder, data, config.target()), String::new()),
            (Self::Series { test, .. }, _) => {
                let series = match config.dataset.as_str() {
                    PHYSIONET => data_flag(args.data_dir.as_ref()),
                    path => format!(" --series {}", quoted(Path::new(path))),
                };
                (format!("{series} --eps 0.05,0.1"), format!(" --records 0..{}", test.min(&400)))
            }
            _ => {
                let eps = config.target().map_or_else(String::new, |eps| format!(" --eps {eps}"));
                (format!("{}{eps}", data_flag(args.data_dir.as_ref())), " --samples 0..1000".into())
            }
        }
    }
}
