//! Inputs of one's own: arrays, tables, folders of pictures and lines of JSON.
//!
//! | source | what |
//! |---|---|
//! | `.npy` | one array, the first axis counts the samples |
//! | `.npz` | the array `x` or `inputs`, with its labels in `y` or `labels`; others by name |
//! | `.csv` | a header, one line per sample, one column per entry; one column may hold the labels |
//! | IDX | one array, like those of MNIST |
//! | a folder | a folder per class, with PNG pictures of one size in each |
//! | JSON lines | `{"x": [...], "y": 3}`, one sample a line |
//!
//! All but folders may be compressed by gzip. [`read_inputs`] gives [`OwnInputs`]: numbers as they are, whatever
//! their type was; what they mean to a network, how they are scaled and in which order a picture is laid out is the
//! caller's business.
//!
//! # Trust
//!
//! Nothing is allocated because a header asks for it: what is claimed is compared with what is there first. At most
//! [`MOST_ENTRIES`] numbers are read. NaN and infinities are refused with their place.

mod array;
mod error;
mod idx;
mod lines;
mod pictures;
mod rows;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::bounded::{read_bounded, read_file};

pub use error::{Fault, OwnError};

/// Numbers that are read at most: 2 GiB of them.
pub const MOST_ENTRIES: usize = 1 << 28;

/// Bytes of a file, compressed or not.
const LARGEST: u64 = 2 << 30;

/// What numbers were in their file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Bytes from 0 to 255, in an array.
    Bytes,
    /// Intensities from 0 to 255, of a picture.
    Pixels,
    /// Anything else.
    Plain,
}

/// The class or the value of a sample, as its file says.
#[derive(Clone, Debug, PartialEq)]
pub enum Label {
    /// A number.
    Number(f64),
    /// The name of a class.
    Name(String),
    /// A number as a table writes it, which may be the name of a class as well.
    Written(String, f64),
    /// Several numbers, which are no class.
    Numbers(Vec<f64>),
}

impl Label {
    /// The number it is, or may be.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) | Self::Written(_, number) => Some(*number),
            Self::Name(_) | Self::Numbers(_) => None,
        }
    }

    /// The numbers it is, or may be: one or several.
    pub fn numbers(&self) -> Option<&[f64]> {
        match self {
            Self::Number(number) | Self::Written(_, number) => Some(std::slice::from_ref(number)),
            Self::Numbers(numbers) => Some(numbers),
            Self::Name(_) => None,
        }
    }

    /// The name it is, or may be.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) | Self::Written(name, _) => Some(name),
            Self::Number(_) | Self::Numbers(_) => None,
        }
    }
}

/// The classes that labels stand for, of so many with these names; else the first label that stands for none. What a table
/// writes is taken for names where all labels are names of classes, and for numbers otherwise.
///
/// # Errors
///
/// The place of a label that is no class.
pub fn classes_of(labels: &[Label], count: usize, names: &[String]) -> Result<Vec<usize>, usize> {
    let named = |label: &Label| names.iter().position(|known| Some(known.as_str()) == label.name());
    let all_named = labels.iter().all(|label| named(label).is_some());
    let class = |(index, label): (usize, &Label)| {
        let found = match label.number() {
            Some(number) if !all_named => {
                let whole = number.fract() == 0.0 && (0.0..count as f64).contains(&number);
                whole.then_some(number as usize)
            }
            _ => named(label),
        };
        found.ok_or(index)
    };
    labels.iter().enumerate().map(class).collect()
}

/// Why a folder of pictures is no class of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strange {
    /// Other folders are called like classes.
    OthersFit,
    /// There is not one folder for each class.
    Count,
    /// There is no picture in it, so that it may be no class at all.
    Empty,
    /// There are numbers in the names, of which 10 is behind 9, but not in the order of text.
    Order,
}

/// A part of a name: numbers are ordered as numbers.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Piece<'n> {
    /// How many digits without zeros in front, and these.
    Number(usize, &'n str),
    Text(&'n str),
}

fn pieces(name: &str) -> Vec<Piece<'_>> {
    let runs = name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    let mut start = 0;
    let piece = |run: &[u8]| {
        let text = &name[start..start + run.len()];
        start += run.len();
        let digits = text.trim_start_matches('0');
        if run[0].is_ascii_digit() { Piece::Number(digits.len(), digits) } else { Piece::Text(text) }
    };
    runs.map(piece).collect()
}

/// Samples that were read.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnInputs {
    /// How many.
    pub samples: usize,
    /// The axes of one sample; none where it is a single number.
    pub shape: Vec<usize>,
    /// All numbers, sample by sample, the last axis fastest. All are finite.
    pub values: Vec<f64>,
    /// What they were in the file.
    pub numbers: Numbers,
    /// Names of the entries of a sample, where there are some.
    pub columns: Option<Vec<String>>,
    /// One for each sample, where there are some.
    pub labels: Option<Vec<Label>>,
    /// Names of the classes, where a folder has them: label 0 is the first.
    pub classes: Option<Vec<String>>,
}

impl OwnInputs {
    /// Numbers in one sample.
    pub fn entries(&self) -> usize {
        self.shape.iter().product()
    }

    /// The numbers of one sample.
    ///
    /// # Panics
    ///
    /// If there are not that many samples, as indexing a slice does.
    pub fn sample(&self, index: usize) -> &[f64] {
        let length = self.entries();
        &self.values[index * length..][..length]
    }

    /// The labels; those of folders by the names of these.
    pub fn named_labels(&self) -> Option<Vec<Label>> {
        let folder = |label: &Label| {
            let at = label.number().map(|number| number as usize);
            self.classes.as_ref().zip(at).and_then(|(names, at)| names.get(at)).cloned().map(Label::Name)
        };
        let labels = self.labels.as_ref()?.iter();
        Some(labels.map(|label| folder(label).unwrap_or_else(|| label.clone())).collect())
    }

    /// What the classes of a network with so many are called for the pictures of folders: as the network calls them where
    /// it knows all folders, and like the folders, in their order, where it knows none and there is one for each class.
    /// Anything in between would take pictures of one class for those of another. Without folders nothing is changed.
    ///
    /// # Errors
    ///
    /// A folder that is no class, and why.
    pub fn classes_in(&self, count: usize, names: &[String]) -> Result<Vec<String>, (String, Strange)> {
        let folders = self.classes.as_deref().unwrap_or_default();
        let Some(strange) = folders.iter().find(|folder| !names.contains(folder)) else {
            return Ok(names.to_vec());
        };
        let refused = |folder: &String, why| Err((folder.clone(), why));
        if folders.iter().any(|folder| names.contains(folder)) {
            return refused(strange, Strange::OthersFit);
        }
        if folders.len() != count {
            return refused(strange, Strange::Count);
        }
        let holds = |class: usize| self.labels.iter().flatten().any(|l| l.number() == Some(class as f64));
        if let Some(empty) = (0..count).find(|class| !holds(*class)) {
            return refused(&folders[empty], Strange::Empty);
        }
        match folders.windows(2).position(|two| pieces(&two[0]) >= pieces(&two[1])) {
            Some(at) => refused(&folders[at + 1], Strange::Order),
            None => Ok(folders.to_vec()),
        }
    }

    /// The one label of every sample, of a file that says which it is, or in which each sample is a single number.
    fn into_labels(self) -> Result<Vec<Label>, Fault> {
        let entries = self.entries();
        match (self.labels, entries) {
            (Some(labels), _) => Ok(labels),
            (None, 1) => Ok(self.values.into_iter().map(Label::Number).collect()),
            (None, _) => Err(Fault::NoLabels { shape: self.shape }),
        }
    }

    /// The numbers that are true of every sample: of a file that says which they are, or all there are.
    fn into_truth(self) -> Result<Self, Fault> {
        let Some(labels) = &self.labels else { return Ok(self) };
        let rows: Option<Vec<&[f64]>> = labels.iter().map(Label::numbers).collect();
        let rows = rows.ok_or(Fault::NoTruth)?;
        let shape = vec![rows.first().map_or(1, |row| row.len())];
        let (samples, values) = (rows.len(), rows.concat());
        let inputs = Self {
            samples,
            shape,
            values,
            numbers: Numbers::Plain,
            columns: None,
            labels: None,
            classes: None,
        };
        inputs.check()?;
        Ok(inputs)
    }
}

/// Which columns of a table are not inputs.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted<'a> {
    /// The array of an archive.
    key: Option<&'a str>,
    /// The column with the labels.
    label_column: Option<&'a str>,
    /// What is looked for.
    purpose: Purpose,
}

/// What is looked for in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Purpose {
    /// Samples, perhaps with labels.
    #[default]
    Samples,
    /// Classes alone, which may be names.
    Classes,
    /// Numbers that are true of samples.
    Truth,
}

/// Reads inputs. `FILE.npz:KEY` names an array of an archive; `label_column` one of a table.
///
/// # Errors
///
/// If there is no such file, if it is none of the known formats, damaged, too large, or holds a number that is not
/// finite.
pub fn read_inputs(path: &Path, label_column: Option<&str>) -> Result<OwnInputs, OwnError> {
    let (path, key) = split_key(path);
    let wanted = Wanted { key: key.as_deref(), label_column, purpose: Purpose::Samples };
    if path.is_dir() {
        if label_column.is_some() {
            return Err(OwnError::new(&path, Fault::NoColumns));
        }
        return pictures::read(&path);
    }
    parse(&read(&path)?, &path, wanted).map_err(|fault| OwnError::new(&path, fault))
}

/// Reads inputs from bytes; `path` is for error messages and, by its ending, tells the format where it can.
///
/// # Errors
///
/// As [`read_inputs`].
pub fn parse_inputs(bytes: &[u8], path: &Path, label_column: Option<&str>) -> Result<OwnInputs, OwnError> {
    let wanted = Wanted { label_column, ..Wanted::default() };
    parse(bytes, path, wanted).map_err(|fault| OwnError::new(path, fault))
}

/// Reads labels: an array with one number per sample, a table with one column, or what a file with samples says of them.
///
/// # Errors
///
/// As [`read_inputs`], and if there is more than one number per sample.
pub fn read_labels(path: &Path) -> Result<Vec<Label>, OwnError> {
    read_known(path, Purpose::Classes, OwnInputs::into_labels)
}

/// Reads what is true of samples: an array or a table with the numbers of each, or what a file with samples says of them.
///
/// # Errors
///
/// As [`read_inputs`], and if the file has names of classes instead of numbers.
pub fn read_truth(path: &Path) -> Result<OwnInputs, OwnError> {
    read_known(path, Purpose::Truth, OwnInputs::into_truth)
}

fn read_known<T>(
    path: &Path,
    purpose: Purpose,
    take: impl FnOnce(OwnInputs) -> Result<T, Fault>,
) -> Result<T, OwnError> {
    let (path, key) = split_key(path);
    let wanted = Wanted { key: key.as_deref(), label_column: None, purpose };
    let bytes = read(&path)?;
    parse(&bytes, &path, wanted).and_then(take).map_err(|fault| OwnError::new(&path, fault))
}

fn read(path: &Path) -> Result<Vec<u8>, OwnError> {
    read_file(path, LARGEST).map_err(|source| OwnError::Read { path: path.to_owned(), source })
}

/// `FILE.npz:KEY`, unless there is a file of that whole name.
fn split_key(path: &Path) -> (PathBuf, Option<String>) {
    let whole = (path.to_owned(), None);
    if path.exists() {
        return whole;
    }
    match path.to_str().and_then(|text| text.rsplit_once(':')) {
        Some((file, key)) if has_ending(Path::new(file), "npz") => (file.into(), Some(key.into())),
        _ => whole,
    }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// The formats of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Npy,
    Npz,
    Csv,
    Idx,
    Lines,
}

/// By the ending of the name, else by the first bytes.
fn format_of(bytes: &[u8], path: &Path) -> Result<Format, Fault> {
    let mut text = bytes.iter().filter(|byte| !byte.is_ascii_whitespace());
    let Some(first) = text.next() else { return Err(Fault::Nothing) };
    let endings = [
        ("npy", Format::Npy),
        ("npz", Format::Npz),
        ("csv", Format::Csv),
        ("jsonl", Format::Lines),
        ("ndjson", Format::Lines),
    ];
    if let Some((_, format)) = endings.into_iter().find(|(ending, _)| has_ending(path, ending)) {
        return Ok(format);
    }
    match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Ok(Format::Npy),
        [b'P', b'K', 3 | 5, 4 | 6, ..] => Ok(Format::Npz),
        [0, 0, 8 | 9 | 11..=14, 1..=255, ..] => Ok(Format::Idx),
        [0x89, b'P', b'N', b'G', ..] => Err(Fault::OnePicture),
        _ if *first == b'{' => Ok(Format::Lines),
        // A list is JSON, though none that is read; what is wrong is better said of JSON than of a table.
        _ if *first == b'[' && text.next().is_some_and(|next| b"0123456789-[{]".contains(next)) => {
            Ok(Format::Lines)
        }
        _ if std::str::from_utf8(bytes).is_ok() => Ok(Format::Csv),
        _ => Err(Fault::Unknown),
    }
}

fn parse(raw: &[u8], path: &Path, wanted: Wanted<'_>) -> Result<OwnInputs, Fault> {
    let unpacked;
    let (bytes, inner) = if raw.starts_with(&[0x1f, 0x8b]) {
        unpacked = read_bounded(MultiGzDecoder::new(raw), LARGEST).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => Fault::TooLong,
            _ => Fault::Gzip(error),
        })?;
        (&unpacked[..], path.with_extension(""))
    } else {
        (raw, path.to_owned())
    };
    let format = format_of(bytes, &inner)?;
    match (format, wanted.label_column) {
        (Format::Csv, _) | (_, None) => {}
        _ => return Err(Fault::NoColumns),
    }
    let inputs = match format {
        Format::Npy => array::npy(bytes)?.into_inputs()?,
        Format::Npz => array::npz(bytes, wanted)?,
        Format::Csv => rows::parse(bytes, wanted)?,
        Format::Idx => idx::parse(bytes)?.into_inputs()?,
        Format::Lines => lines::parse(bytes)?,
    };
    if format == Format::Lines && wanted.purpose != Purpose::Samples && inputs.labels.is_none() {
        return Err(Fault::NoKnown);
    }
    inputs.check()?;
    Ok(inputs)
}

impl OwnInputs {
    /// Refuses what no network can take.
    fn check(&self) -> Result<(), Fault> {
        if self.samples == 0 {
            return Err(Fault::Empty);
        }
        let Some(at) = self.values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
        let length = self.entries().max(1);
        let (sample, entry) = (at / length, at % length);
        let column = self.columns.as_ref().and_then(|names| names.get(entry)).cloned();
        Err(Fault::NotFinite { sample, entry, column, value: self.values[at] })
    }
}

/// A file that could not be read, as the system says.
fn unreadable(path: &Path, source: io::Error) -> OwnError {
    OwnError::Read { path: path.to_owned(), source }
}
