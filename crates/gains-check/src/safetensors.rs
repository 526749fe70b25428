//! Reading safetensors files: eight bytes with the length of a header, the header (JSON), then the numbers.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};

use crate::cbor::Kind;

/// Largest header that is read.
const MAX_HEADER: usize = 16 << 20;

/// The tensors of a file.
pub struct Tensors {
    /// Shape and numbers, by name.
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
    /// The description: what stands in the metadata under `gains`.
    pub description: String,
    /// SHA-256 of the whole file.
    pub hash: [u8; 32],
}

/// Reads a whole file.
pub fn read(bytes: &[u8]) -> Result<Tensors, String> {
    let length = bytes.first_chunk::<8>().ok_or("the file is too short to be a safetensors file")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_HEADER || length > bytes.len() - 8 {
        return Err(format!("the header claims {length} bytes"));
    }
    let (header, data) = bytes[8..].split_at(length);
    let header: Header = serde_json::from_slice(header).map_err(|error| format!("the header: {error}"))?;
    let mut tensors = BTreeMap::new();
    let mut used: Vec<(usize, usize)> = Vec::new();
    for (name, entry) in header.tensors {
        let (shape, numbers) = tensor(&entry, data).map_err(|error| format!("tensor {name:?}: {error}"))?;
        used.push(entry.data_offsets);
        tensors.insert(name, (shape, numbers));
    }
    used.sort_unstable();
    if used.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err("tensors overlap".into());
    }
    let description = header.metadata.and_then(|metadata| metadata.gains);
    let description = description.ok_or("no description (metadata key `gains`)")?;
    Ok(Tensors { tensors, description, hash: Sha256::digest(bytes).into() })
}

/// The header. Every name is there once: of two that are alike, one reader could take the first and another the last.
#[derive(Default)]
struct Header {
    tensors: BTreeMap<String, Entry>,
    metadata: Option<Metadata>,
}

/// What else is there to say.
#[derive(Deserialize)]
struct Metadata {
    gains: Option<String>,
}

/// Where the numbers of a tensor are.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Header, M::Error> {
                let mut header = Header::default();
                while let Some(name) = map.next_key::<String>()? {
                    let is_new = match name.as_str() {
                        "__metadata__" => header.metadata.replace(map.next_value()?).is_none(),
                        _ => header.tensors.insert(name.clone(), map.next_value()?).is_none(),
                    };
                    if !is_new {
                        return Err(M::Error::custom(format!("{name:?} is there twice")));
                    }
                }
                Ok(header)
            }
        }

        deserializer.deserialize_map(Names)
    }
}

fn tensor(entry: &Entry, data: &[u8]) -> Result<(Vec<usize>, Vec<f64>), String> {
    let (kind, width) = match entry.dtype.as_str() {
        "F32" => (Kind::F32, 4),
        "F64" => (Kind::F64, 8),
        other => return Err(format!("numbers of type {other}")),
    };
    let count = entry.shape.iter().try_fold(1usize, |count, &side| count.checked_mul(side));
    let count = count.ok_or("a shape too large")?;
    let bytes =
        data.get(entry.data_offsets.0..entry.data_offsets.1).ok_or("data beyond the end of the file")?;
    if count.checked_mul(width) != Some(bytes.len()) {
        return Err(format!("{} bytes for {count} numbers", bytes.len()));
    }
    let numbers = kind.numbers(bytes);
    if numbers.iter().any(|x| !x.is_finite()) {
        return Err("a number that is not finite".into());
    }
    Ok((entry.shape.clone(), numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str) -> Result<Tensors, String> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[0; 16]);
        read(&bytes)
    }

    /// Two readers must not see two networks in one file.
    #[test]
    fn names_that_are_there_twice_are_refused() {
        let tensor = |name: &str, from: usize| {
            format!(r#""{name}": {{"dtype": "F64", "shape": [1], "data_offsets": [{from}, {}]}}"#, from + 8)
        };
        let about = r#""__metadata__": {"gains": "{}"}"#;
        let of = |parts: &[&str]| file(&format!("{{{}}}", parts.join(", ")));
        assert!(of(&[about, &tensor("a", 0), &tensor("b", 8)]).is_ok());
        for twice in [
            of(&[about, &tensor("a", 0), &tensor("a", 8)]),
            of(&[about, about, &tensor("a", 0)]),
            of(&[r#""__metadata__": {"gains": "{}", "gains": "[]"}"#]),
            of(&[about, r#""a": {"dtype": "F64", "dtype": "F32", "shape": [1], "data_offsets": [0, 8]}"#]),
        ] {
            let said = twice.err().unwrap_or_default();
            assert!(said.contains("twice") || said.contains("duplicate"), "{said}");
        }
    }
}
