//! Certificates as trees that can be changed and written again.

#![allow(dead_code, clippy::unwrap_used, reason = "every test uses a part of it")]

use gains_check::value::{self, Kind, Value};

/// An item that owns what it holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Integer(i64),
    Float(f64),
    Bool(bool),
    Null,
    Bytes(Vec<u8>),
    /// Width (1, 2, 4 or 8 bytes) and numbers.
    Numbers(usize, Vec<f64>),
    Text(String),
    Array(Vec<Item>),
    Map(Vec<(String, Item)>),
}

impl Item {
    pub fn read(bytes: &[u8]) -> Self {
        let unpacked = gains_check::unpack(bytes).unwrap();
        Self::from(&value::read(&unpacked).unwrap())
    }

    fn from(value: &Value) -> Self {
        match value {
            Value::Integer(n) => Self::Integer(*n),
            Value::Float(x) => Self::Float(*x),
            Value::Bool(b) => Self::Bool(*b),
            Value::Null => Self::Null,
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::Numbers(kind, bytes) => {
                let width = match kind {
                    Kind::U8 => 1,
                    Kind::U16 => 2,
                    Kind::F32 => 4,
                    Kind::F64 => 8,
                };
                Self::Numbers(width, kind.numbers(bytes))
            }
            Value::Text(text) => Self::Text(text.to_string()),
            Value::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            Value::Map(entries) => {
                Self::Map(entries.iter().map(|(k, v)| (k.to_string(), Self::from(v))).collect())
            }
        }
    }

    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes);
        bytes
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Integer(n) if *n >= 0 => head(out, 0, *n as u64),
            Self::Integer(n) => head(out, 1, (-1 - *n) as u64),
            Self::Float(x) => {
                out.push(0xfb);
                out.extend(x.to_bits().to_be_bytes());
            }
            Self::Bool(b) => out.push(0xf4 + u8::from(*b)),
            Self::Null => out.push(0xf6),
            Self::Bytes(bytes) => {
                head(out, 2, bytes.len() as u64);
                out.extend(bytes);
            }
            Self::Numbers(width, numbers) => {
                head(
                    out,
                    6,
                    match width {
                        1 => 64,
                        2 => 69,
                        4 => 85,
                        _ => 86,
                    },
                );
                head(out, 2, (numbers.len() * width) as u64);
                for x in numbers {
                    match width {
                        1 => out.push(*x as u8),
                        2 => out.extend((*x as u16).to_le_bytes()),
                        4 => out.extend((*x as f32).to_le_bytes()),
                        _ => out.extend(x.to_le_bytes()),
                    }
                }
            }
            Self::Text(text) => {
                head(out, 3, text.len() as u64);
                out.extend(text.bytes());
            }
            Self::Array(items) => {
                head(out, 4, items.len() as u64);
                items.iter().for_each(|item| item.write_to(out));
            }
            Self::Map(entries) => {
                head(out, 5, entries.len() as u64);
                for (key, value) in entries {
                    Self::Text(key.clone()).write_to(out);
                    value.write_to(out);
                }
            }
        }
    }

    /// What stands under a key.
    pub fn find(&mut self, key: &str) -> Option<&mut Item> {
        let Self::Map(entries) = self else { return None };
        entries.iter_mut().find(|(other, _)| other == key).map(|(_, value)| value)
    }

    pub fn at(&mut self, key: &str) -> &mut Item {
        self.find(key).unwrap_or_else(|| panic!("no {key}"))
    }

    pub fn list(&mut self) -> &mut Vec<Item> {
        let Self::Array(items) = self else { panic!("not a list") };
        items
    }

    pub fn numbers(&mut self) -> &mut Vec<f64> {
        let Self::Numbers(_, numbers) = self else { panic!("not numbers") };
        numbers
    }

    /// Calls `with` for this item and all below it, with their paths.
    pub fn walk(&self, path: &mut Vec<Step>, with: &mut dyn FnMut(&[Step], &Item)) {
        with(path, self);
        match self {
            Self::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    path.push(Step::Index(i));
                    item.walk(path, with);
                    path.pop();
                }
            }
            Self::Map(entries) => {
                for (key, value) in entries {
                    path.push(Step::Key(key.clone()));
                    value.walk(path, with);
                    path.pop();
                }
            }
            _ => {}
        }
    }

    /// The item at a path.
    pub fn follow(&mut self, path: &[Step]) -> &mut Item {
        path.iter().fold(self, |item, step| match step {
            Step::Index(i) => &mut item.list()[*i],
            Step::Key(key) => item.at(key),
        })
    }
}

/// One step of a path into an item.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Index(usize),
    Key(String),
}

fn head(out: &mut Vec<u8>, kind: u8, number: u64) {
    match number {
        0..=23 => out.push(kind << 5 | number as u8),
        24..=0xff => out.extend([kind << 5 | 24, number as u8]),
        0x100..=0xffff => {
            out.push(kind << 5 | 25);
            out.extend((number as u16).to_be_bytes());
        }
        _ => {
            out.push(kind << 5 | 27);
            out.extend(number.to_be_bytes());
        }
    }
}

/// A model, one of its certificates, and whether the exact checker says that it holds.
pub struct Case {
    pub name: String,
    pub model: Vec<u8>,
    pub certificate: Vec<u8>,
    pub holds: bool,
}

/// The small proofs under `tests/data/small`, which `python/agree.py --write` wrote.
pub fn small_cases() -> Vec<Case> {
    cases("small")
}

/// Proofs of networks with layers of every kind under `tests/data/kinds`, which `gains-verify` wrote
/// (`GAINS_CERTIFICATE_KEEP` of its test `certificates`). All of them hold.
pub fn kinds_cases() -> Vec<Case> {
    cases("kinds")
}

/// Proofs by affine forms under `tests/data/forms`, which `gains-verify` wrote likewise. All of them hold.
pub fn forms_cases() -> Vec<Case> {
    cases("forms")
}

fn cases(folder: &str) -> Vec<Case> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let names = names.iter().map(|name| name.to_str().unwrap().to_string());
    names
        .filter(|name| name.ends_with(".cert"))
        .map(|name| {
            let (seed, _) = name.split_once('-').unwrap();
            Case {
                model: std::fs::read(folder.join(format!("{seed}.safetensors"))).unwrap(),
                certificate: std::fs::read(folder.join(&name)).unwrap(),
                holds: name.ends_with("-holds.cert"),
                name,
            }
        })
        .collect()
}
