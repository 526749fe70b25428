//! What a run writes down of its epochs: lines of `metrics.csv`, and the same as lines of JSON, which tools that watch runs
//! read.

use std::path::Path;

use gains_train::{BatchReport, Config, EpochReport};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::several::Figures;
use crate::failure::Failure;

/// Bytes of a file of metrics; a line has some three hundred.
const LARGEST: u64 = 1 << 28;

/// An epoch in numbers, in words and as part of a picture. What there is to tell depends on what is predicted: classes and
/// numbers ([`super::metrics`]), or forecasts of series ([`super::forecast`]).
pub trait Record: Clone + Serialize + DeserializeOwned {
    /// An epoch of the whole run, from 1, whose last batch is given.
    fn new(config: &Config, epoch: u32, last: &BatchReport, report: &EpochReport, seconds: f64) -> Self;

    /// Which epoch, from 1.
    fn epoch(&self) -> u32;

    /// How long it took.
    fn seconds(&self) -> f64;

    /// Notes that the network was looked at: whether it is the best so far, and what was proved of it.
    fn judged(&mut self, best: bool, certified: Option<f64>);

    /// Whether the network after it was the best so far.
    fn is_best(&self) -> bool;

    /// What runs are compared by.
    fn figures(&self) -> Figures;

    /// What an epoch came to, in a line.
    fn summary(&self, config: &Config) -> String;

    /// What a run ended with, behind its name.
    fn outcome(&self, config: &Config) -> String;

    /// What a batch came to, in two lines at most.
    fn of_batch(config: &Config, report: &BatchReport) -> String;

    /// The run as a picture.
    fn picture(config: &Config, title: &str, rows: &[Self]) -> Result<String, Failure>;
}

/// The rows as a file.
pub fn to_csv<R: Serialize>(rows: &[R]) -> Result<Vec<u8>, Failure> {
    let fail = |e: csv::Error| Failure::new(format!("cannot write metrics: {e}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).map_err(fail)?;
    }
    writer.into_inner().map_err(|e| fail(e.into_error().into()))
}

/// The rows as lines of JSON.
pub fn to_lines<R: Serialize>(rows: &[R]) -> Result<Vec<u8>, Failure> {
    let mut lines = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut lines, row)
            .map_err(|e| Failure::new(format!("cannot write metrics: {e}")))?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// The rows of the first epochs; whatever was written after the checkpoint will be written again.
pub fn read<R: Record>(path: &Path, epochs: u32) -> Vec<R> {
    let Ok(bytes) = gains_data::read_file(path, LARGEST) else { return Vec::new() };
    let reader = csv::Reader::from_reader(bytes.as_slice());
    reader.into_deserialize().map_while(Result::ok).filter(|row: &R| row.epoch() <= epochs).collect()
}
