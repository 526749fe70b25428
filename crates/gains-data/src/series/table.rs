//! Tables `record,time,feature,value`: one line per value, in any order.
//!
//! A line without a time holds throughout its record and goes into the initial state. Times are numbers from 0
//! on in any unit; they are not rounded. Values of one feature of one record at one time are averaged. A record
//! with a time or a value that is none is left out as a whole, like a malformed PhysioNet record; where it
//! cannot be said which record or which feature a line is about, the whole table is refused.

use std::collections::HashMap;
use std::path::Path;

use csv::StringRecord;
use md5::{Digest, Md5};

use super::error::{Malformed, SeriesError, TableFault};
use super::feature::{Feature, Kind, Role};
use super::physionet::shorten;
use super::record::Builder;
use super::recordings::{Counts, Recordings, Skipped, sort};
use super::split::Order;
use super::{LONGEST_NAME, MOST_FEATURES};
use crate::bounded::read_file;

const HEADER: [&str; 4] = ["record", "time", "feature", "value"];
/// Bytes of a table.
const LARGEST: u64 = 1 << 30;

/// Reads a table. Features are numbered in the order in which they first appear.
///
/// Malformed records are left out; the second part of the answer names them, in the order of the table.
///
/// # Errors
///
/// If the file cannot be read, is not such a table, or has no record that is well formed.
pub fn read_table(path: &Path) -> Result<(Recordings, Vec<Skipped>), SeriesError> {
    let bytes =
        read_file(path, LARGEST).map_err(|source| SeriesError::Read { path: path.to_owned(), source })?;
    let refused = |fault| SeriesError::Table { path: path.to_owned(), fault };
    let table = Table::parse(&bytes).map_err(refused)?;
    let found = table.records.len();
    let (mut records, mut skipped) = (Vec::new(), Vec::new());
    for (id, builder) in table.records {
        match builder {
            Ok(builder) => records.push(builder.finish(id)),
            Err(reason) => skipped.push(Skipped { name: id, reason }),
        }
    }
    if let ([], Some(first)) = (records.as_slice(), skipped.first()) {
        let (name, reason) = (first.name.clone(), first.reason.clone());
        return Err(SeriesError::AllSkipped { count: found, name, reason });
    }
    sort(&mut records);
    let recordings = Recordings {
        kind: Kind::Csv,
        features: table.features,
        records,
        order: Order::default(),
        source: Md5::digest(&bytes).into(),
        counts: Counts { found, skipped: skipped.len(), ..Counts::default() },
    };
    Ok((recordings, skipped))
}

/// What has been read so far.
#[derive(Default)]
struct Table {
    features: Vec<Feature>,
    feature_numbers: HashMap<String, usize>,
    records: Vec<(String, Result<Builder, Malformed>)>,
    record_numbers: HashMap<String, usize>,
}

impl Table {
    fn parse(bytes: &[u8]) -> Result<Table, TableFault> {
        // A byte order mark, as some spreadsheets write it.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .has_headers(false)
            .trim(csv::Trim::All)
            .from_reader(bytes);
        let mut rows = reader.records();
        let header = match rows.next() {
            Some(row) => row.map_err(wrong_csv)?,
            None => return Err(TableFault::Header { found: String::new() }),
        };
        if !header.iter().eq(HEADER) {
            let found = shorten(&header.iter().collect::<Vec<_>>().join(","));
            return Err(TableFault::Header { found });
        }
        let mut table = Table::default();
        for row in rows {
            table.add(&row.map_err(wrong_csv)?)?;
        }
        if table.records.is_empty() {
            return Err(TableFault::NoLines);
        }
        if !table.features.iter().any(|feature| feature.role == Role::Series) {
            return Err(TableFault::NoSeries);
        }
        Ok(table)
    }

    fn add(&mut self, row: &StringRecord) -> Result<(), TableFault> {
        let line = row.position().map_or(0, csv::Position::line);
        let fields: Vec<&str> = row.iter().collect();
        let &[id, time, feature, value] = fields.as_slice() else {
            return Err(TableFault::Fields { line, found: fields.len() });
        };
        for (what, name) in [("record", id), ("feature", feature)] {
            if name.is_empty() {
                return Err(TableFault::Unnamed { line, what });
            }
            if name.len() > LONGEST_NAME {
                return Err(TableFault::LongName { line, length: name.len(), most: LONGEST_NAME });
            }
        }
        let role = if time.is_empty() { Role::Static } else { Role::Series };
        let feature = self.feature(feature, role, line)?;
        let builder = self.record(id);
        let Ok(open) = builder else { return Ok(()) };
        let at = line as usize;
        let number = value.parse().ok().filter(|value: &f32| value.is_finite());
        let moment = time.parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0);
        match (role, moment, number) {
            (_, _, None) => *builder = Err(Malformed::Value { line: at, text: shorten(value) }),
            (Role::Static, _, Some(value)) => open.constant(feature, value),
            (_, None, _) => *builder = Err(Malformed::Time { line: at, text: shorten(time) }),
            // Adding 0 makes one time of 0 and -0.
            (_, Some(time), Some(value)) => open.at(time + 0.0, feature, value),
        }
        Ok(())
    }

    fn feature(&mut self, name: &str, role: Role, line: u64) -> Result<u16, TableFault> {
        let number = match self.feature_numbers.get(name) {
            Some(&number) => number,
            None => {
                if self.features.len() == MOST_FEATURES {
                    return Err(TableFault::TooManyFeatures { most: MOST_FEATURES });
                }
                self.features.push(Feature { name: name.to_owned(), role });
                self.feature_numbers.insert(name.to_owned(), self.features.len() - 1);
                self.features.len() - 1
            }
        };
        if self.features[number].role != role {
            return Err(TableFault::Mixed { feature: shorten(name), line });
        }
        Ok(number as u16)
    }

    fn record(&mut self, id: &str) -> &mut Result<Builder, Malformed> {
        let number = match self.record_numbers.get(id) {
            Some(&number) => number,
            None => {
                self.records.push((id.to_owned(), Ok(Builder::default())));
                self.record_numbers.insert(id.to_owned(), self.records.len() - 1);
                self.records.len() - 1
            }
        };
        &mut self.records[number].1
    }
}

fn wrong_csv(error: csv::Error) -> TableFault {
    TableFault::Csv(error.to_string())
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
