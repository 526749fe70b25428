//! Irregularly sampled series: records, their preparation, and forecasting tasks made of them.
//!
//! Data flow one way:
//!
//! ```text
//! raw records ─ read_physionet ┐                 prepared file
//! CSV table   ─ read_table     ┴→ Recordings ⇄ (to_bytes, read) ─ Forecasts::new → Series
//! ```
//!
//! [`Recordings`] hold what was measured, with times on their grid and equal times merged. [`Forecasts`] are
//! made for one [`Horizon`] and one [`Order`]: they choose points and targets, divide the records into three
//! [`Subset`]s and normalise with the [`Statistics`] of the training subset. A [`Series`] is one record as the
//! network sees it.
//!
//! The rules for PhysioNet are those of the appendix *PhysioNet Preprocessing* of the GAINS paper and, where it
//! is silent, of its implementation: with [`Order::Sorted`] the inputs are the reference's to the last digits.

mod compact;
mod error;
mod feature;
mod folder;
mod forecast;
mod physionet;
mod record;
mod recordings;
mod split;
mod statistics;
mod table;

pub use error::{Malformed, PreparedFault, SeriesError, TableFault};
pub use feature::{Feature, Kind, Role};
pub use folder::{OnRecord, physionet_file, read_physionet};
pub use forecast::{Dropped, Forecasts, Grid, Horizon, Series};
pub use record::{Observation, Point, Record};
pub use recordings::{Counts, Recordings, Skipped};
pub use split::{Order, Subset};
pub use statistics::Statistics;
pub use table::read_table;

/// Names of records and features have at most so many bytes.
const LONGEST_NAME: usize = 255;
/// A set has at most so many features.
const MOST_FEATURES: usize = 4096;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
