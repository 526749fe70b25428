//! The questions of the command line about samples in memory, without printing: what the Python package is made of.
//!
//! A [`Model`] is asked about [`Samples`]; [`Options`] say what may move, what must hold and how to decide it, in the
//! words of the command line. Answers are the lines of its result files, bit for bit but for the seconds.
//!
//! ```
//! use gains::library::{Arrays, Model, Options, Quiet, Samples, never};
//!
//! let model = Model::open(None)?;
//! let image = Arrays::new("image", vec![1, 784], vec![0.5; 784])?;
//! let samples = Samples::arrays(&model, image)?;
//! let lines = model.certify(&samples, None, &[0.001], &Options::default(), None, &never, &mut Quiet)?;
//! assert_eq!(lines.len(), 1);
//! # Ok::<(), gains::library::Failure>(())
//! ```

mod certify;
mod options;
mod samples;
mod values;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use gains_core::description::RungeKutta;
use gains_core::import::import_state_dict;
use gains_core::model_file::read_model;
use gains_core::{Network, Precision};
use gains_ode::tableau::Tableau;

use crate::{bundled, files, question};

pub use crate::campaign::Observer;
pub use crate::failure::Failure;
pub use crate::question::{Struck, Witness};
pub use crate::results::{Line, RadiusPart, SamplePart, VerdictWord};
pub use crate::runner::Stop;
pub use certify::{Attacked, Out, Quiet, Search, Way};
pub use options::{Asked, Options, Range};
pub use samples::{Arrays, Samples, Usual};

/// Nobody gives up.
pub fn never() -> bool {
    false
}

/// Names of the networks that come with the program, and a line about each; the first is the default.
pub fn bundled() -> impl Iterator<Item = (&'static str, &'static str)> {
    bundled::MODELS.iter().map(|entry| (entry.name, entry.about))
}

/// Lines as the command line writes them into a result file.
pub fn jsonl(lines: &[Line]) -> Result<String, Failure> {
    lines.iter().map(|line| crate::results::encode(line, crate::cli::Format::Jsonl)).collect()
}

/// The table of a method of Runge and Kutta, by its name in model files.
pub fn tableau(method: &str) -> Result<&'static Tableau, Failure> {
    let found: Result<RungeKutta, _> = serde_json::from_value(method.into());
    found.map(Tableau::of).map_err(|_| {
        Failure::usage(format!("there is no method '{method}'")).hint("docs/model-format.md lists them")
    })
}

/// Reads a table of series of one's own and writes the prepared file that forecasting networks take: how many records it
/// has, and those that were left out, with why.
pub fn prepare_series(table: &Path, out: &Path) -> Result<(usize, Vec<String>), Failure> {
    let (recordings, skipped) = gains_data::series::read_table(table)?;
    files::write_atomically(out, &recordings.to_bytes())?;
    let skipped = skipped.iter().map(|one| format!("{}: {}", one.name, one.reason)).collect();
    Ok((recordings.records().len(), skipped))
}

/// Does some work; a panic in it is a failure.
pub fn contain<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    crate::panics::contain(work).unwrap_or_else(|panicked| {
        Err(Failure::new(format!("gains {} panicked: {panicked}", env!("CARGO_PKG_VERSION")))
            .hint("this is a fault of gains: please report it with the model and the call"))
    })
}

/// A network to ask.
#[derive(Clone)]
pub struct Model {
    asked: question::Model,
    bytes: Arc<[u8]>,
}

impl Model {
    /// Reads a model file, a bundled network by its name, or the default one.
    pub fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let bytes = files::model_bytes(path)?;
        let network = read_model(&bytes).map_err(|error| files::no_model(path, &error))?;
        Ok(Self { asked: question::Model::new(network), bytes: bytes.into_owned().into() })
    }

    /// Takes the content of a model file.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Failure> {
        let name = Some(Path::new("bytes"));
        let network = read_model(&bytes).map_err(|error| files::no_model(name, &error))?;
        Ok(Self { asked: question::Model::new(network), bytes: bytes.into() })
    }

    /// Binds the weights of a safetensors file, under PyTorch's names, to a description in JSON.
    pub fn import(weights: &[u8], description: &str) -> Result<Self, Failure> {
        let imported = import_state_dict(weights, description).map_err(|error| {
            Failure::usage(error.to_string()).hint("docs/model-format.md says what a description holds")
        })?;
        Self::from_bytes(imported.model)
    }

    /// The content of its model file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes its model file; nothing half-written is ever seen.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        files::write_atomically(path, &self.bytes)
    }

    /// The network.
    pub fn network(&self) -> &Network {
        self.asked.network()
    }

    /// What it is for, in the word of its description.
    pub fn task(&self) -> &'static str {
        match self.asked.task() {
            question::Task::Classes => "classification",
            question::Task::Regression => "regression",
            question::Task::Forecasts => "forecasting",
        }
    }

    /// Names of its outputs; numbers where it has none.
    pub fn output_names(&self) -> Vec<String> {
        self.asked.asked().names().to_vec()
    }

    /// How it is run in single or double precision, by their names.
    pub fn precision(word: &str) -> Result<Precision, Failure> {
        options::word::<crate::cli::PrecisionArg>("precision", word).map(Into::into)
    }
}
