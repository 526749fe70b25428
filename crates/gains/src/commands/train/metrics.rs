//! What a run measured, a line per epoch: `metrics.csv`, and the same as lines of JSON, which tools that watch runs read.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Bytes of a file of metrics; a line has some three hundred.
const LARGEST: u64 = 1 << 28;

/// One epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the phase.
    pub phase: String,
    /// Counted over the whole run, from 1.
    pub epoch: u32,
    /// ε′.
    pub eps: f64,
    /// κ.
    pub kappa: u32,
    /// q₁ = q₂.
    pub q: f64,
    /// Mean of what was minimised.
    pub loss: f64,
    /// Mean cross-entropy of the images, or of attacked ones.
    pub clean: f64,
    /// Mean bound of the cross-entropy.
    pub robust: Option<f64>,
    /// Mean width term.
    pub width: Option<f64>,
    /// Part of the images classified correctly; nothing where numbers are predicted.
    pub accuracy: Option<f64>,
    /// Part of the images whose boxes are.
    pub robust_accuracy: Option<f64>,
    /// Batches whose trajectory graph had more than one way, as a part.
    pub splits: f64,
    /// Trajectories sampled per batch.
    pub trajectories: f64,
    /// Solver steps of the images themselves per batch, rejected ones counted.
    pub concrete_steps: f64,
    /// Solver steps of boxes per batch.
    pub abstract_steps: f64,
    /// Running average of first steps at the end of the epoch.
    pub h0: f64,
    /// Mean norm of the gradient before clipping.
    pub gradient_norm: f64,
    /// Learning rate.
    pub rate: f64,
    /// Part of the test images classified correctly, where it was looked at.
    pub test_accuracy: Option<f64>,
    /// How far the state moves in the neural ODE, as a part of its size.
    #[serde(default)]
    pub motion: Option<f64>,
    /// Part of the test images classified correctly if the neural ODE is left out, where it was looked at.
    #[serde(default)]
    pub without_ode: Option<f64>,
    /// Mean absolute error, where numbers are predicted.
    #[serde(default)]
    pub error: Option<f64>,
    /// Bound of it over the boxes.
    #[serde(default)]
    pub robust_error: Option<f64>,
    /// Mean absolute error on the samples held back, where it was looked at.
    #[serde(default)]
    pub test_error: Option<f64>,
    /// Part of the samples held back that was proved robust, where it was looked at.
    #[serde(default)]
    pub certified: Option<f64>,
    /// 1 if this is the best network so far, else 0, where networks are chosen.
    #[serde(default)]
    pub best: Option<u8>,
    /// How long the epoch took.
    pub seconds: f64,
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

/// The rows to keep, those of the first epochs; whatever was written after the checkpoint will be written again.
pub fn read<R: DeserializeOwned>(path: &Path, keep: impl Fn(&R) -> bool) -> Vec<R> {
    let Ok(bytes) = gains_data::read_file(path, LARGEST) else { return Vec::new() };
    let reader = csv::Reader::from_reader(bytes.as_slice());
    reader.into_deserialize().map_while(Result::ok).filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were() {
        let row = |epoch| Row { phase: "warm-up, 1".into(), epoch, eps: 0.1 + 0.2, ..Row::default() };
        let rows: Vec<Row> =
            [1, 2, 3].map(|n| Row { test_accuracy: (n == 2).then_some(1.0 / 3.0), ..row(n) }).into();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.csv");
        let bytes = to_csv(&rows).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        let read = |path: &Path, epochs| read(path, |row: &Row| row.epoch <= epochs);
        assert_eq!(read(&path, 9), rows);
        assert_eq!(read(&path, 2), rows[..2]);
        assert!(
            String::from_utf8(bytes.clone())
                .unwrap()
                .starts_with("phase,epoch,eps,kappa,q,loss,clean,robust,width,")
        );
        std::fs::write(&path, &bytes[..bytes.len() - 40]).unwrap();
        assert_eq!(read(&path, 9), rows[..2], "a torn line is dropped");
        assert!(read(&folder.path().join("none"), 9).is_empty());
    }
}
