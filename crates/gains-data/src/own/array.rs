//! Arrays of NumPy: one in an `.npy` file, several in an `.npz` archive.

use std::borrow::Cow;
use std::io::Cursor;

use ndarray::ArrayD;
use ndarray_npy::npy::header::Header;
use ndarray_npy::{ReadNpyExt, ReadableElement};
use zip::ZipArchive;

use super::{Fault, LARGEST, Label, MOST_ENTRIES, Numbers, OwnInputs, Purpose, Wanted};
use crate::bounded::read_bounded;

/// An array, its last axis fastest.
#[derive(Debug, PartialEq)]
pub(super) struct Array {
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
    pub numbers: Numbers,
}

impl Array {
    /// The first axis counts samples.
    pub fn into_inputs(self) -> Result<OwnInputs, Fault> {
        let Self { shape, values, numbers } = self;
        let (&samples, rest) = shape.split_first().ok_or(Fault::NoAxis)?;
        let shape = rest.to_vec();
        Ok(OwnInputs { samples, shape, values, numbers, columns: None, labels: None, classes: None })
    }
}

/// NumPy refuses longer headers, too.
const LONGEST_HEADER: usize = 10_000;
/// A header is a dictionary with a tuple in it.
const DEEPEST_HEADER: usize = 8;

/// Reads an `.npy` file.
pub(super) fn npy(bytes: &[u8]) -> Result<Array, Fault> {
    check_header(bytes)?;
    let mut rest = bytes;
    let header = Header::from_reader(&mut rest).map_err(|e| Fault::Header(first_line(&e.to_string())))?;
    let Some(kind) = header.type_descriptor.as_string() else {
        return Err(Fault::Type("a structure".into()));
    };
    let read = reader_of(kind).ok_or_else(|| Fault::Type(shorten(kind)))?;
    let count = header.shape.iter().try_fold(1_usize, |n, axis| n.checked_mul(*axis));
    let claimed = count.and_then(|n| n.checked_mul(read.size));
    if claimed != Some(rest.len()) {
        let claimed = claimed.map_or_else(|| "more".into(), |n| n.to_string());
        return Err(Fault::Length { claimed, found: rest.len() });
    }
    if count.is_none_or(|n| n > MOST_ENTRIES) {
        return Err(Fault::TooMany);
    }
    let values = (read.read)(bytes)?;
    let numbers = if kind.ends_with("u1") { Numbers::Bytes } else { Numbers::Plain };
    Ok(Array { shape: header.shape, values, numbers })
}

/// Guards the parser of headers, which allocates what a header claims to have and calls itself for every bracket.
fn check_header(bytes: &[u8]) -> Result<(), Fault> {
    let damaged = |what: &str| Err(Fault::Header(what.into()));
    let length = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, rest @ ..] => {
            (usize::from(u16::from_le_bytes([*a, *b])), rest)
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', _, _, a, b, c, d, rest @ ..] => {
            (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest)
        }
        _ => return damaged("it does not begin like an .npy file"),
    };
    let (length, rest) = length;
    if length > LONGEST_HEADER {
        return damaged(&format!("it is said to have {length} bytes"));
    }
    let Some(text) = rest.get(..length) else { return damaged("it is cut off") };
    let opening = text.iter().filter(|byte| b"([{".contains(byte)).count();
    if opening > DEEPEST_HEADER { damaged("it is no dictionary") } else { Ok(()) }
}

/// How numbers of a type are read.
struct Reader {
    size: usize,
    read: fn(&[u8]) -> Result<Vec<f64>, Fault>,
}

fn reader_of(kind: &str) -> Option<Reader> {
    fn reader<T: ReadableElement + Copy>(read: fn(&[u8]) -> Result<Vec<f64>, Fault>) -> Option<Reader> {
        Some(Reader { size: size_of::<T>(), read })
    }
    match kind.trim_start_matches(['<', '>', '|', '=']) {
        "f8" => reader::<f64>(|b| exactly(b, |v: f64| Some(v))),
        "f4" => reader::<f32>(|b| exactly(b, |v: f32| Some(f64::from(v)))),
        "u1" => reader::<u8>(|b| exactly(b, |v: u8| Some(f64::from(v)))),
        "i1" => reader::<i8>(|b| exactly(b, |v: i8| Some(f64::from(v)))),
        "u2" => reader::<u16>(|b| exactly(b, |v: u16| Some(f64::from(v)))),
        "i2" => reader::<i16>(|b| exactly(b, |v: i16| Some(f64::from(v)))),
        "u4" => reader::<u32>(|b| exactly(b, |v: u32| Some(f64::from(v)))),
        "i4" => reader::<i32>(|b| exactly(b, |v: i32| Some(f64::from(v)))),
        "u8" => reader::<u64>(|b| exactly(b, |v: u64| (v <= EXACT).then_some(v as f64))),
        "i8" => reader::<i64>(|b| exactly(b, |v: i64| (v.unsigned_abs() <= EXACT).then_some(v as f64))),
        "b1" => reader::<bool>(|b| exactly(b, |v: bool| Some(f64::from(u8::from(v))))),
        _ => None,
    }
}

/// The largest integer below which float64 has all.
const EXACT: u64 = 1 << 53;

/// All numbers, the last axis fastest.
fn exactly<T: ReadableElement + Copy + std::fmt::Display>(
    bytes: &[u8],
    widen: fn(T) -> Option<f64>,
) -> Result<Vec<f64>, Fault> {
    let array = ArrayD::<T>::read_npy(bytes).map_err(|e| Fault::Header(first_line(&e.to_string())))?;
    let widen = |(at, value): (usize, &T)| {
        widen(*value).ok_or_else(|| Fault::Inexact { at, value: value.to_string() })
    };
    array.iter().enumerate().map(widen).collect()
}

/// Names an array of inputs may have, and one of labels.
const INPUTS: [&str; 2] = ["x", "inputs"];
const LABELS: [&str; 2] = ["y", "labels"];

/// Reads an `.npz` archive.
pub(super) fn npz(bytes: &[u8], wanted: Wanted<'_>) -> Result<OwnInputs, Fault> {
    let broken = |e: zip::result::ZipError| Fault::Archive(first_line(&e.to_string()));
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
    let plain = |name: Cow<'_, str>| name.strip_suffix(".npy").unwrap_or(&name).to_owned();
    let names = archive.file_names().map(|name| name.map(plain)).collect::<Result<Vec<String>, _>>();
    let names = names.map_err(broken)?;
    let mut take = |key: &str| -> Result<Array, Fault> {
        let within = |fault| Fault::Within { key: shorten(key), fault: Box::new(fault) };
        let name = if archive.index_for_name(key).is_some() { key.into() } else { format!("{key}.npy") };
        let member = archive.by_name(&name).map_err(broken)?;
        let bytes = read_bounded(member, LARGEST).map_err(|e| within(Fault::Archive(e.to_string())))?;
        npy(&bytes).map_err(within)
    };
    let named = |list: [&'static str; 2]| {
        list.into_iter().find_map(|key| names.iter().find(|name| name.eq_ignore_ascii_case(key)))
    };
    let only_known = wanted.purpose != Purpose::Samples;
    let usual = if only_known { named(LABELS) } else { named(INPUTS) };
    let only = if names.len() == 1 { names.first() } else { None };
    let key = match wanted.key {
        Some(key) => names.iter().find(|name| *name == key),
        None => usual.or(only),
    };
    let Some(key) = key else {
        let usual = if only_known { LABELS } else { INPUTS };
        let wanted = wanted.key.map_or_else(|| usual.join("' or '"), shorten);
        let there = names.iter().take(20).map(|name| shorten(name)).collect::<Vec<_>>().join(", ");
        return Err(Fault::Key { wanted, there });
    };
    let mut inputs = take(key)?.into_inputs()?;
    // Labels belong to the usual array; another one that was named may hold other samples.
    let has_labels =
        !only_known && wanted.key.is_none_or(|key| named(INPUTS).is_some_and(|usual| usual == key));
    if let Some(key) = named(LABELS).filter(|other| has_labels && *other != key) {
        let labels = take(key)?.into_inputs()?;
        labels.check()?;
        let count = labels.samples;
        let within = |fault| Fault::Within { key: shorten(key), fault: Box::new(fault) };
        let labels: Vec<Label> = match labels.entries() {
            0 | 1 => labels.into_labels().map_err(within)?,
            each => labels.values.chunks(each).map(|row| Label::Numbers(row.to_vec())).collect(),
        };
        if count != inputs.samples {
            return Err(Fault::Archive(format!("{count} labels for {} samples", inputs.samples)));
        }
        inputs.labels = Some(labels);
    }
    Ok(inputs)
}

/// Text from a file that stands in a message of one line.
pub(super) fn shorten(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > 40 { text.chars().take(37).chain("...".chars()).collect() } else { text }
}

/// The first line of an error message.
pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    line.chars().filter(|c| !c.is_control()).take(160).collect()
}
