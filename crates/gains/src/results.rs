//! Result files: one line per sample and radius, written as they are done, resumable after a kill.
//!
//! docs/results-format.md describes every key.

mod claim;
mod file;
mod format;
mod line;
mod samples;

pub use claim::{Claim, read_claims};
pub use file::{Results, refuse_other_results};
pub use format::{encode, fits_check, json_lines};
pub use line::{
    CertificatePart, ForecastSetting, InputSetting, Line, RadiusPart, RadiusSetting, RangeSetting,
    SamplePart, Setting, SubjectSetting, VerdictWord,
};
pub use samples::Samples;
