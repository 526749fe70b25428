//! What can be wrong with inputs of one's own.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{LARGEST, MOST_ENTRIES};

/// Why inputs were not read.
#[derive(Debug, Error)]
pub enum OwnError {
    /// The system refused.
    #[error("cannot read '{}': {source}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The content is not what it should be.
    #[error("'{}': {fault}", path.display())]
    Content {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        fault: Fault,
    },
}

/// What is wrong with a file.
#[derive(Debug, Error)]
pub enum Fault {
    /// None of the formats.
    #[error("it is neither an array (.npy, .npz, IDX) nor a table (.csv) nor lines of JSON")]
    Unknown,
    /// A picture by itself.
    #[error("it is one picture; pictures are read from a folder with a folder per class")]
    OnePicture,
    /// Damaged compression.
    #[error("it cannot be decompressed: {0}")]
    Gzip(#[source] io::Error),
    /// Not a byte, or white space alone.
    #[error("it is empty")]
    Nothing,
    /// There is nothing in it.
    #[error("it holds no sample")]
    Empty,
    /// More than is read.
    #[error("it holds more than {MOST_ENTRIES} numbers")]
    TooMany,
    /// More than is unpacked.
    #[error("it unpacks to more than {LARGEST} bytes")]
    TooLong,
    /// NaN or infinite.
    #[error("sample {sample}, {} is {value}", column.as_ref().map_or(format!("entry {entry}"), |name| format!("column '{name}'")))]
    NotFinite {
        /// Which sample, from 0.
        sample: usize,
        /// Which of its numbers, from 0.
        entry: usize,
        /// The name of the column.
        column: Option<String>,
        /// The number.
        value: f64,
    },
    /// An array without axes.
    #[error("it is a single number, not an array of samples")]
    NoAxis,
    /// A header that no array has.
    #[error("its header is damaged: {0}")]
    Header(String),
    /// Numbers of another type.
    #[error("its numbers are of type {0}")]
    Type(String),
    /// Header and content differ.
    #[error("its header claims {claimed} bytes of numbers, {found} are there")]
    Length {
        /// What the header says.
        claimed: String,
        /// What is there.
        found: usize,
    },
    /// An integer that float64 cannot hold.
    #[error("number {at} is {value}, which float64 cannot hold exactly")]
    Inexact {
        /// Its place in the file.
        at: usize,
        /// It.
        value: String,
    },
    /// A damaged archive.
    #[error("it cannot be unpacked: {0}")]
    Archive(String),
    /// An archive without the array.
    #[error("it has no array '{wanted}'; there are: {there}")]
    Key {
        /// What was looked for.
        wanted: String,
        /// What there is.
        there: String,
    },
    /// Something in an archive.
    #[error("its array '{key}': {fault}")]
    Within {
        /// Which.
        key: String,
        /// What is wrong with it.
        fault: Box<Fault>,
    },
    /// A damaged table.
    #[error("it is not a table: {0}")]
    Table(String),
    /// A table whose first line holds numbers.
    #[error("its first line is '{0}', not the names of the columns")]
    NoHeader(String),
    /// Two columns of one name.
    #[error("it has two columns '{0}'")]
    TwoColumns(String),
    /// A column of labels that is named twice.
    #[error("--label-column names '{0}' twice")]
    LabelTwice(String),
    /// No such column.
    #[error("it has no column '{wanted}'; there are: {there}")]
    Column {
        /// What was looked for.
        wanted: String,
        /// What there is.
        there: String,
    },
    /// A cell that is no number.
    #[error("line {line}, column '{column}' is '{text}', not a number")]
    NotNumber {
        /// Line of the file, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What is there.
        text: String,
    },
    /// A label that is missing.
    #[error("line {line} has no label in column '{column}'")]
    NoLabel {
        /// Line of the file, from 1.
        line: u64,
        /// The column.
        column: String,
    },
    /// Only tables have columns with names.
    #[error("it has no columns with names")]
    NoColumns,
    /// A line of JSON.
    #[error("line {line}: {problem}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// More than one number per sample where labels are wanted.
    #[error("it has {shape:?} numbers per sample, a label is one")]
    NoLabels {
        /// The axes of a sample.
        shape: Vec<usize>,
    },
    /// Lines of JSON that only say what samples are.
    #[error("its lines have no y")]
    NoKnown,
    /// Names of classes where numbers are wanted.
    #[error("its labels are names, the model predicts numbers")]
    NoTruth,
    /// A folder without pictures.
    #[error("it has no folders with PNG pictures in them")]
    NoPictures,
    /// A picture that cannot be read.
    #[error("picture '{}': {problem}", path.display())]
    Picture {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl OwnError {
    pub(super) fn new(path: &Path, fault: Fault) -> Self {
        Self::Content { path: path.to_owned(), fault }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "check the path; an array of an archive goes by FILE.npz:NAME".into()
            }
            Self::Read { .. } => "check the path and its permissions".into(),
            Self::Content { fault, .. } => fault.hint().into(),
        }
    }
}

impl Fault {
    fn hint(&self) -> &'static str {
        match self {
            Self::Within { fault, .. } => fault.hint(),
            Self::Unknown | Self::Nothing | Self::Empty | Self::NoAxis => {
                "`gains data formats` shows what each format looks like"
            }
            Self::OnePicture | Self::NoPictures => "make it FOLDER/CLASS/NAME.png and give FOLDER",
            Self::Gzip(_) | Self::Length { .. } | Self::Archive(_) | Self::Header(_) => {
                "is the file complete? try writing or copying it again"
            }
            Self::TooMany | Self::TooLong => "divide it into several files",
            Self::NotFinite { .. } => "leave the sample out, or replace the value",
            Self::Type(_) => "save it as float32, float64, an integer type or bool, e.g. x.astype('float32')",
            Self::Inexact { .. } => "save it as float64 if the rounding does not matter",
            Self::Key { .. } => "name one of them: FILE.npz:NAME",
            Self::Table(_) | Self::NoHeader(_) | Self::TwoColumns(_) => {
                "the first line names the columns, every other holds one sample"
            }
            Self::Column { .. } | Self::LabelTwice(_) => "names are taken as they stand in the first line",
            Self::NotNumber { .. } => "all columns but that of --label-column hold numbers",
            Self::NoLabel { .. } => "give every sample a label, or leave --label-column out",
            Self::NoColumns => "--label-column is for .csv; others take --labels FILE",
            Self::Line { .. } => "every line is one sample: {\"x\": [0.5, 1.25], \"y\": 0}",
            Self::NoLabels { .. } => "give an array with one number per sample, or a table with one column",
            Self::NoKnown => "every line says what is known of one sample: {\"x\": [0.5, 1.25], \"y\": 0}",
            Self::NoTruth => "give one number for each output of each sample",
            Self::Picture { .. } => {
                "all pictures have one size, are grey or RGB, and opaque; convert or remove it"
            }
        }
    }
}
