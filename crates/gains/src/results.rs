//! Result files: one line per sample and radius, written as they are done, resumable after a kill.
//!
//! docs/results-format.md describes every key.

mod claim;
mod file;
mod format;
mod line;

pub use claim::{Claim, read_claims};
pub use file::Results;
pub use line::{ForecastSetting, Line, SamplePart, Setting, SubjectSetting, VerdictWord};
