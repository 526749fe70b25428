//! A run between two batches, as bytes.

use serde::{Deserialize, Serialize};

use super::config::ForecastConfig;
use super::metrics::{ForecastEpoch, ForecastSums};
use crate::checkpoint::{CheckpointError, Packed, pack};
use crate::device::Moments;
use crate::metrics::Position;

const KEY: &str = "gains-forecast-checkpoint";
const VERSION: u32 = 1;

/// The best network so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Best {
    /// The epoch after which it was, from 0.
    pub epoch: u32,
    /// Its error on the validation series.
    pub validation: f64,
    /// Its running average of first steps.
    pub average_step: f64,
    /// Its parameters.
    pub parameters: Vec<f64>,
}

/// Everything that changes during a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForecastState {
    /// The batch that comes next.
    pub at: Position,
    /// Whether the run ended early.
    pub stopped: bool,
    /// Steps the optimiser has taken.
    pub updates: u64,
    /// η: running average of first steps.
    pub average_step: f64,
    /// The parameters, in the order of the network.
    pub parameters: Vec<f64>,
    /// The optimiser's moments.
    pub moments: Moments,
    /// The epoch so far.
    pub sums: ForecastSums,
    /// The epoch before.
    pub last_epoch: Option<ForecastEpoch>,
    /// The best network so far.
    pub best: Option<Best>,
}

/// A run that can be taken up again.
#[derive(Clone, Debug, PartialEq)]
pub struct ForecastCheckpoint {
    /// What is trained, and how.
    pub config: ForecastConfig,
    /// How far it is.
    pub state: ForecastState,
}

#[derive(Serialize, Deserialize)]
struct Note {
    version: u32,
    config: String,
    at: Position,
    stopped: bool,
    updates: u64,
    sums: ForecastSums,
    last_epoch: Option<ForecastEpoch>,
    best_epoch: Option<u32>,
}

impl ForecastCheckpoint {
    /// The checkpoint as a file. Numbers are stored as float64, which holds float32 exactly.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CheckpointError> {
        let state = &self.state;
        let note = Note {
            version: VERSION,
            config: self.config.to_toml(),
            at: state.at,
            stopped: state.stopped,
            updates: state.updates,
            sums: state.sums,
            last_epoch: state.last_epoch,
            best_epoch: state.best.as_ref().map(|best| best.epoch),
        };
        let note = serde_json::to_string(&note).map_err(|e| CheckpointError::Damaged(e.to_string()))?;
        let best = state.best.clone().unwrap_or_default();
        pack(
            KEY,
            note,
            &[
                ("average_step", &[state.average_step]),
                ("best_numbers", &[best.validation, best.average_step]),
                ("best_parameters", &best.parameters),
                ("first_moment", &state.moments.first),
                ("parameters", &state.parameters),
                ("second_moment", &state.moments.second),
            ],
        )
    }

    /// Reads a checkpoint.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let damaged = |e: String| CheckpointError::Damaged(e);
        let packed = Packed::new(bytes, KEY, VERSION)?;
        let note: Note = serde_json::from_str(&packed.note).map_err(|e| damaged(e.to_string()))?;
        let config = ForecastConfig::from_toml(&note.config).map_err(|e| damaged(e.to_string()))?;
        let parameters = packed.numbers("parameters")?;
        let moments =
            Moments { first: packed.numbers("first_moment")?, second: packed.numbers("second_moment")? };
        let best_parameters = packed.numbers("best_parameters")?;
        let count = parameters.len();
        let fits = |list: &[f64]| list.len() == count;
        let best_fits = fits(&best_parameters) || note.best_epoch.is_none();
        if !fits(&moments.first) || !fits(&moments.second) || !best_fits {
            return Err(damaged("parameters and moments differ in number".into()));
        }
        let ([average_step], [validation, best_step]) =
            (&packed.numbers("average_step")?[..], &packed.numbers("best_numbers")?[..])
        else {
            return Err(damaged("single numbers are not single".into()));
        };
        let best = note.best_epoch.map(|epoch| Best {
            epoch,
            validation: *validation,
            average_step: *best_step,
            parameters: best_parameters,
        });
        let state = ForecastState {
            at: note.at,
            stopped: note.stopped,
            updates: note.updates,
            average_step: *average_step,
            parameters,
            moments,
            sums: note.sums,
            last_epoch: note.last_epoch,
            best,
        };
        Ok(Self { config, state })
    }
}
