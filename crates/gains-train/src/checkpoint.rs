//! A run between two batches, as bytes: one safetensors file with the numbers, and a note in its metadata.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::device::Moments;
use crate::metrics::{EpochReport, EpochSums, Position};

/// Key of the note in the metadata.
const KEY: &str = "gains-checkpoint";
/// Version of the note this program writes, and the newest it reads.
const VERSION: u32 = 2;
/// Key of the note in runs on series that an earlier program, which had a trainer of its own for them, left unfinished.
const EARLIER: &str = "gains-forecast-checkpoint";

/// Why bytes are no checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Not a safetensors file, or cut short.
    #[error("not a readable safetensors file: {0}")]
    Container(String),
    /// A safetensors file of something else.
    #[error("the file holds no training checkpoint")]
    NotACheckpoint,
    /// A run on series, from when these had a trainer of their own.
    #[error("is of an earlier version of the program, which wrote runs on series in another form")]
    Earlier,
    /// Written by a newer program.
    #[error("the checkpoint has version {found}, this program reads up to {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// The note cannot be read.
    #[error("the checkpoint is damaged: {0}")]
    Damaged(String),
}

/// Everything that changes during a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The batch that comes next.
    pub at: Position,
    /// Steps the optimiser has taken.
    pub updates: u64,
    /// η: running averages of first steps, one for each ODE.
    pub average_steps: Vec<f64>,
    /// The parameters, in the order of the plan.
    pub parameters: Vec<f64>,
    /// The optimiser's moments.
    pub moments: Moments,
    /// The epoch so far.
    pub sums: EpochSums,
    /// The epoch before.
    pub last_epoch: Option<EpochReport>,
    /// Averages of the parameters; empty if none are kept.
    pub averages: Vec<f64>,
    /// The best network so far, if networks are chosen.
    pub best: Option<Best>,
    /// Whether no better network was found for too long.
    pub stopped: bool,
}

/// A network that was the best of its run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Best {
    /// Epoch of the whole run, from 1.
    pub epoch: u32,
    /// How good it is; larger is better.
    pub score: f64,
    /// Running averages of first steps.
    pub average_steps: Vec<f64>,
    /// The parameters it ships with.
    pub parameters: Vec<f64>,
}

/// A run that can be taken up again.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// What is trained, and how.
    pub config: Config,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// How far it is.
    pub state: State,
}

#[derive(Serialize, Deserialize)]
struct Note {
    version: u32,
    config: String,
    classes: Vec<String>,
    at: Position,
    updates: u64,
    sums: EpochSums,
    last_epoch: Option<EpochReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best_epoch: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    stopped: bool,
}

impl Checkpoint {
    /// The checkpoint as a file. Numbers are stored as float64, which holds those of every device exactly.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CheckpointError> {
        let state = &self.state;
        let note = Note {
            version: VERSION,
            config: self.config.to_toml(),
            classes: self.classes.clone(),
            at: state.at,
            updates: state.updates,
            sums: state.sums,
            last_epoch: state.last_epoch.clone(),
            best_epoch: state.best.as_ref().map(|best| best.epoch),
            stopped: state.stopped,
        };
        let note = serde_json::to_string(&note).map_err(|e| CheckpointError::Damaged(e.to_string()))?;
        // JSON does not promise every bit of a number, so the averages are a tensor as well.
        let mut numbers: Vec<(&str, &[f64])> = vec![
            ("average_step", &state.average_steps),
            ("first_moment", &state.moments.first),
            ("parameters", &state.parameters),
            ("second_moment", &state.moments.second),
        ];
        if !state.averages.is_empty() {
            numbers.push(("averages", &state.averages));
        }
        let score;
        if let Some(best) = &state.best {
            score = [best.score];
            numbers.push(("best_score", &score));
            numbers.push(("best_average_step", &best.average_steps));
            numbers.push(("best_parameters", &best.parameters));
        }
        pack(note, &numbers)
    }

    /// Reads a checkpoint.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let packed = Packed::new(bytes)?;
        let damaged = |e: String| CheckpointError::Damaged(e);
        let note: Note = serde_json::from_str(&packed.note).map_err(|e| damaged(e.to_string()))?;
        let config = Config::from_toml(&note.config).map_err(|e| damaged(e.to_string()))?;
        let numbers = |name: &str| packed.numbers(name);
        let parameters = numbers("parameters")?;
        let moments = Moments { first: numbers("first_moment")?, second: numbers("second_moment")? };
        let averages = if packed.has("averages") { numbers("averages")? } else { Vec::new() };
        let counts = [moments.first.len(), moments.second.len()];
        if counts.iter().any(|count| *count != parameters.len())
            || !(averages.is_empty() || averages.len() == parameters.len())
        {
            return Err(damaged("parameters, moments and averages differ in number".into()));
        }
        let average_steps = numbers("average_step")?;
        let best = note.best_epoch.map(|epoch| best(&packed, epoch, parameters.len())).transpose()?;
        let phases = config.phases.len();
        if note.at.phase > phases || (note.at.phase == phases && (note.at.epoch, note.at.batch) != (0, 0)) {
            return Err(damaged(format!("it stands at {}, and there are {phases} phases", note.at)));
        }
        let state = State {
            at: note.at,
            updates: note.updates,
            average_steps,
            parameters,
            moments,
            sums: if note.version < 2 { note.sums.over_samples() } else { note.sums },
            last_epoch: note.last_epoch,
            averages,
            best,
            stopped: note.stopped,
        };
        Ok(Self { config, classes: note.classes, state })
    }
}

/// The best network of a run.
fn best(packed: &Packed<'_>, epoch: u32, parameters: usize) -> Result<Best, CheckpointError> {
    let [score] = packed.numbers("best_score")?[..] else {
        return Err(CheckpointError::Damaged("best_score is not one number".into()));
    };
    let (average_steps, kept) = (packed.numbers("best_average_step")?, packed.numbers("best_parameters")?);
    if kept.len() != parameters {
        return Err(CheckpointError::Damaged("the best network has another number of parameters".into()));
    }
    Ok(Best { epoch, score, average_steps, parameters: kept })
}

/// Numbers and a note as one safetensors file.
fn pack(note: String, data: &[(&str, &[f64])]) -> Result<Vec<u8>, CheckpointError> {
    let container = |e: safetensors::SafeTensorError| CheckpointError::Container(e.to_string());
    let data: Vec<(&str, usize, Vec<u8>)> = data
        .iter()
        .map(|(name, values)| (*name, values.len(), values.iter().flat_map(|v| v.to_le_bytes()).collect()))
        .collect();
    let mut views = Vec::new();
    for (name, length, bytes) in &data {
        views.push((*name, TensorView::new(Dtype::F64, vec![*length], bytes).map_err(container)?));
    }
    safetensors::serialize(views, Some(HashMap::from([(KEY.to_string(), note)]))).map_err(container)
}

/// What [`pack`] made.
struct Packed<'a> {
    /// The note.
    note: String,
    tensors: SafeTensors<'a>,
}

impl<'a> Packed<'a> {
    /// A file with a note of the right kind, written by a program that is not newer.
    fn new(bytes: &'a [u8]) -> Result<Self, CheckpointError> {
        let container = |e: safetensors::SafeTensorError| CheckpointError::Container(e.to_string());
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(container)?;
        let note = |key: &str| metadata.metadata().as_ref().and_then(|entries| entries.get(key));
        let text = match (note(KEY), note(EARLIER)) {
            (Some(text), _) => text,
            (None, Some(_)) => return Err(CheckpointError::Earlier),
            (None, None) => return Err(CheckpointError::NotACheckpoint),
        };
        let found = serde_json::from_str::<serde_json::Value>(text)
            .ok()
            .and_then(|note| note.get("version")?.as_u64());
        if let Some(found) = found.filter(|found| *found > u64::from(VERSION)) {
            return Err(CheckpointError::Version { found: found.try_into().unwrap_or(u32::MAX) });
        }
        Ok(Self { note: text.clone(), tensors: SafeTensors::deserialize(bytes).map_err(container)? })
    }

    /// Whether there is a list of that name.
    fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    /// A list of finite numbers.
    fn numbers(&self, name: &str) -> Result<Vec<f64>, CheckpointError> {
        let damaged = |e: String| CheckpointError::Damaged(e);
        let view = self.tensors.tensor(name).map_err(|e| damaged(e.to_string()))?;
        if view.dtype() != Dtype::F64 {
            return Err(damaged(format!("{name} is not float64")));
        }
        let values: Vec<f64> =
            view.data().as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(damaged(format!("{name} holds {} at {index}", values[index]))),
            None => Ok(values),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Checkpoint {
        let config = Config::from_toml("name = 'x'\n[[phases]]\nepochs = 3\n").unwrap();
        let state = State {
            at: Position { phase: 0, epoch: 1, batch: 2 },
            updates: 77,
            average_steps: vec![0.1 + 0.2, 0.7],
            best: Some(Best {
                epoch: 3,
                score: 0.1,
                average_steps: vec![0.3],
                parameters: vec![1.0, 2.0, 3.0],
            }),
            parameters: vec![1.0 / 3.0, -0.0, f64::from(0.1_f32)],
            averages: vec![1.0 / 7.0, 5e-324, 3.0],
            moments: Moments { first: vec![1e-300, 2.0, 3.0], second: vec![5e-324, 0.0, 1.0] },
            ..State::default()
        };
        Checkpoint { config, classes: vec!["a".into(), "ä\"".into()], state }
    }

    #[test]
    fn every_bit_comes_back() {
        let checkpoint = example();
        let again = Checkpoint::from_bytes(&checkpoint.to_bytes().unwrap()).unwrap();
        assert_eq!(again, checkpoint);
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&again.state.parameters), bits(&checkpoint.state.parameters));
    }

    #[test]
    fn damage_is_noticed() {
        let bytes = example().to_bytes().unwrap();
        for length in 0..bytes.len() {
            assert!(Checkpoint::from_bytes(&bytes[..length]).is_err(), "{length}");
        }
        let mut broken = example();
        broken.state.parameters[1] = f64::NAN;
        let read = Checkpoint::from_bytes(&broken.to_bytes().unwrap());
        assert!(matches!(read, Err(CheckpointError::Damaged(_))));
        broken = example();
        broken.state.moments.first.pop();
        assert!(Checkpoint::from_bytes(&broken.to_bytes().unwrap()).is_err());
        let other = safetensors::serialize(Vec::<(&str, TensorView<'_>)>::new(), None).unwrap();
        assert!(matches!(Checkpoint::from_bytes(&other), Err(CheckpointError::NotACheckpoint)));
        let series = HashMap::from([(EARLIER.to_string(), "{\"version\": 1}".to_string())]);
        let other = safetensors::serialize(Vec::<(&str, TensorView<'_>)>::new(), Some(series)).unwrap();
        assert!(matches!(Checkpoint::from_bytes(&other), Err(CheckpointError::Earlier)));
    }
}
