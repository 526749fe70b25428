//! What can go wrong with series, with the numbers, and what to do about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a set of series could not be found, read or divided.
///
/// [`SeriesError::hint`] gives the remedy as a separate line. A record that is malformed is no such error: it
/// is skipped and reported as [`super::Skipped`].
#[derive(Debug, Error)]
pub enum SeriesError {
    /// There is no folder with raw records.
    #[error("physionet2012 is not there: neither `{}` nor `set-b` beside it exists", path.display())]
    MissingFolder {
        /// Where the first of its folders belongs.
        path: PathBuf,
    },
    /// The folders are there and hold nothing.
    #[error("`{}` holds no records (files NUMBER.txt)", path.display())]
    NoRecords {
        /// The folder.
        path: PathBuf,
    },
    /// Not one record could be read.
    #[error("all {count} records are malformed; the first, {name}: {reason}")]
    AllSkipped {
        /// How many there are.
        count: usize,
        /// The first of them.
        name: String,
        /// What is wrong with it.
        reason: Malformed,
    },
    /// A file or folder could not be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A table of series is not in the documented format.
    #[error("`{}` is not a table of series: {fault}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: TableFault,
    },
    /// A prepared file is not what it should be.
    #[error("`{}` is damaged at byte {offset}: {fault}", path.display())]
    Prepared {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: usize,
        /// What is wrong there.
        fault: PreparedFault,
    },
    /// Too few records are long enough to be divided into three parts.
    #[error("{kept} of {records} records reach {horizon} into the future, and three parts need at least 3")]
    TooFew {
        /// Records in the set.
        records: usize,
        /// Records with a target that far away.
        kept: usize,
        /// How far, as the user gave it.
        horizon: super::Horizon,
    },
    /// Not a time to predict ahead.
    #[error("`{text}` is no time to predict ahead")]
    Horizon {
        /// What was given.
        text: String,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

/// Why a record is skipped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The system does not let us read it.
    #[error("unreadable ({0})")]
    Unreadable(io::ErrorKind),
    /// There is nothing in it, or nothing after the header.
    #[error("empty")]
    Empty,
    /// It holds bytes that are no text.
    #[error("not a text file")]
    NotText,
    /// The first line is not `Time,Parameter,Value`.
    #[error("no header `Time,Parameter,Value`")]
    NoHeader,
    /// The last line has no end, so what it says may be half of what it said.
    #[error("line {line} is cut off")]
    CutOff {
        /// Counted from 1.
        line: usize,
    },
    /// A line has not the right number of fields.
    #[error("line {line} has {found} fields instead of {expected}")]
    Fields {
        /// Counted from 1.
        line: usize,
        /// Fields there should be.
        expected: usize,
        /// Fields there are.
        found: usize,
    },
    /// A time is none, or out of range.
    #[error("line {line} has `{text}` for a time")]
    Time {
        /// Counted from 1.
        line: usize,
        /// What is there.
        text: String,
    },
    /// A value is no number, or one beyond everything that is measured.
    #[error("line {line} has `{text}` for a value")]
    Value {
        /// Counted from 1.
        line: usize,
        /// What is there.
        text: String,
    },
    /// The record says that it is another one than its file name says.
    #[error("line {line} says that it is record `{found}`")]
    OtherRecord {
        /// Counted from 1.
        line: usize,
        /// The number inside.
        found: String,
    },
    /// A record of that name has been read already.
    #[error("a second record of that name")]
    Duplicate,
}

impl Malformed {
    /// The rule that was broken, without the particulars: what a summary counts by.
    pub fn rule(&self) -> &'static str {
        match self {
            Malformed::Unreadable(_) => "unreadable",
            Malformed::Empty => "empty",
            Malformed::NotText => "not text",
            Malformed::NoHeader => "no header",
            Malformed::CutOff { .. } => "cut off",
            Malformed::Fields { .. } => "wrong number of fields",
            Malformed::Time { .. } => "bad time",
            Malformed::Value { .. } => "bad value",
            Malformed::OtherRecord { .. } => "other record number",
            Malformed::Duplicate => "second of its name",
        }
    }
}

/// In what way a table is not one of series.
#[derive(Debug, Error)]
pub enum TableFault {
    /// The header names other columns.
    #[error("its header is `{found}` instead of `record,time,feature,value`")]
    Header {
        /// What is there.
        found: String,
    },
    /// There are no lines after the header.
    #[error("it has no lines after the header")]
    NoLines,
    /// A line has no name where one is needed.
    #[error("line {line} has no {what}")]
    Unnamed {
        /// Counted from 1.
        line: u64,
        /// `record` or `feature`.
        what: &'static str,
    },
    /// A line has not four fields, so nobody can say which record it belongs to.
    #[error("line {line} has {found} fields instead of 4")]
    Fields {
        /// Counted from 1.
        line: u64,
        /// Fields there are.
        found: usize,
    },
    /// A name is longer than a name should be.
    #[error("line {line} has a name of {length} bytes, at most {most}")]
    LongName {
        /// Counted from 1.
        line: u64,
        /// Its length.
        length: usize,
        /// The longest that is allowed.
        most: usize,
    },
    /// A feature has values with a time and values without.
    #[error("feature `{feature}` has a time in some lines and none in others, among them line {line}")]
    Mixed {
        /// The feature.
        feature: String,
        /// Counted from 1.
        line: u64,
    },
    /// More features than make sense.
    #[error("it has more than {most} features")]
    TooManyFeatures {
        /// The most there may be.
        most: usize,
    },
    /// No feature has values at times.
    #[error("no line has a time")]
    NoSeries,
    /// The text is not UTF-8 or not CSV.
    #[error("{0}")]
    Csv(String),
}

/// In what way a prepared file is damaged.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum PreparedFault {
    /// The first bytes are those of another format.
    #[error("it is no file of prepared series")]
    Magic,
    /// It was written by another version of the program.
    #[error("its format has version {found}, and this program reads version {expected}")]
    Version {
        /// The version this program reads.
        expected: u32,
        /// The version of the file.
        found: u32,
    },
    /// The file ends too early.
    #[error("it ends where {missing} more bytes should be")]
    Truncated {
        /// Bytes that are not there.
        missing: u64,
    },
    /// The file goes on too long.
    #[error("it goes on for {extra} bytes after its end")]
    TrailingBytes {
        /// Bytes too many.
        extra: u64,
    },
    /// The content is not what was written.
    #[error("its checksum is {found} instead of {expected}")]
    Checksum {
        /// The checksum in the file.
        expected: String,
        /// The checksum of its content.
        found: String,
    },
    /// Something in it contradicts the format.
    #[error("{0}")]
    Content(&'static str),
    /// Something in a record contradicts the format.
    #[error("record `{record}`: {what}")]
    Record {
        /// The record.
        record: String,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl SeriesError {
    /// What to do about it: a line for the user, without a final full stop.
    pub fn hint(&self) -> &'static str {
        match self {
            SeriesError::MissingFolder { .. } => {
                "unpack set-a and set-b of https://physionet.org/content/challenge-2012/ there, or point \
                 --data-dir at the directory with `physionet2012/`"
            }
            SeriesError::NoRecords { .. } => {
                "unpack set-a.tar.gz and set-b.tar.gz of https://physionet.org/content/challenge-2012/ there"
            }
            SeriesError::AllSkipped { .. } => "see docs/data-formats.md for what a record looks like",
            SeriesError::Read { .. } => "check that it is there and that you may read it",
            SeriesError::Table { .. } => "docs/data-formats.md describes the table, with an example",
            SeriesError::Prepared { .. } => "prepare it again with `gains data prepare`",
            SeriesError::TooFew { .. } => "predict less far ahead, or give more records",
            SeriesError::Horizon { .. } => {
                "give 6h, 12h or 24h, or a positive number in the table's unit of time"
            }
            SeriesError::Stopped => "run it again",
        }
    }
}
