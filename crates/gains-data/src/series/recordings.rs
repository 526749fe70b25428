//! A set of records as they were measured.

use std::path::Path;

use super::error::{Malformed, PreparedFault, SeriesError};
use super::feature::{Feature, Kind, Role};
use super::record::Record;
use super::split::Order;
use crate::bounded::read_file;

/// Bytes of a prepared file; PhysioNet 2012 takes 25 MB.
const LARGEST: u64 = 1 << 30;

/// All records of a source that could be read, sorted by id, with nothing clipped, scaled or left out.
///
/// [`super::Forecasts::new`] makes inputs and targets of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Recordings {
    pub(super) kind: Kind,
    pub(super) features: Vec<Feature>,
    pub(super) records: Vec<Record>,
    pub(super) order: Order,
    pub(super) source: [u8; 16],
    pub(super) counts: Counts,
}

/// What was seen while reading the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Records in the source, malformed ones included.
    pub found: usize,
    /// Malformed records, which are left out.
    pub skipped: usize,
    /// Lines that were ignored in the records read, mostly of parameters that are none of the features.
    pub ignored_lines: usize,
    /// Records read whose times went backwards; they were put in order.
    pub unordered: usize,
}

/// A record that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its file below the data directory, or its name in the table.
    pub name: String,
    /// What is wrong with it.
    pub reason: Malformed,
}

impl Recordings {
    /// Where they come from.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What is measured, in the order of [`super::Observation::feature`].
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// The records, sorted by id.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// What was seen while reading the source.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The order in which they are divided unless another is asked for.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The same records with another order.
    #[must_use]
    pub fn with_order(self, order: Order) -> Recordings {
        Recordings { order, ..self }
    }

    /// MD5 of the source, in hexadecimal.
    pub fn source_digest(&self) -> String {
        super::hex(&self.source)
    }

    /// Points in time, of all records together.
    pub fn points(&self) -> usize {
        self.records.iter().map(|record| record.times().len()).sum()
    }

    /// Observed values at times, of all records together.
    pub fn observations(&self) -> usize {
        self.records.iter().map(|record| record.observations().len()).sum()
    }

    /// How often each feature is observed, in the order of the features.
    pub fn seen(&self) -> Vec<usize> {
        let mut seen = vec![0; self.features.len()];
        for record in &self.records {
            for value in record.statics().iter().chain(record.observations()) {
                seen[value.feature as usize] += 1;
            }
        }
        seen
    }

    /// Reads a prepared file.
    ///
    /// # Errors
    ///
    /// [`SeriesError::Read`] if the system does not let us, [`SeriesError::Prepared`] if the file is anything
    /// but what [`Recordings::to_bytes`] gave.
    pub fn read(path: &Path) -> Result<Recordings, SeriesError> {
        let bytes =
            read_file(path, LARGEST).map_err(|source| SeriesError::Read { path: path.to_owned(), source })?;
        super::compact::decode(&bytes).map_err(|(offset, fault)| SeriesError::Prepared {
            path: path.to_owned(),
            offset,
            fault,
        })
    }

    /// The content of a prepared file; docs/data-formats.md describes it.
    pub fn to_bytes(&self) -> Vec<u8> {
        super::compact::encode(self)
    }

    /// What [`Recordings::to_bytes`] gave.
    ///
    /// # Errors
    ///
    /// What is wrong with the bytes, and at which of them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Recordings, (usize, PreparedFault)> {
        super::compact::decode(bytes)
    }

    /// The features with this role, by position.
    pub(super) fn with_role(&self, role: Role) -> impl Iterator<Item = usize> {
        self.features.iter().enumerate().filter(move |(_, f)| f.role == role).map(|(index, _)| index)
    }
}

/// Sorts by id. Numbers come in the order of their values, because shorter ids come first.
pub(super) fn sort(records: &mut [Record]) {
    records.sort_by(|a, b| key(a.id()).cmp(&key(b.id())));
}

/// What ids are sorted by.
pub(super) fn key(id: &str) -> (usize, &str) {
    (id.len(), id)
}
