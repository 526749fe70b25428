//! Reading safetensors files: eight bytes with the length of a header, the header (JSON), then the numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
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
    let wrong = |error: serde_json::Error| format!("the header: {error}");
    let Once(mut header) = serde_json::from_slice::<Once<Box<RawValue>>>(header).map_err(wrong)?;
    let description = match header.remove("__metadata__") {
        Some(metadata) => {
            serde_json::from_str::<Once<String>>(metadata.get()).map_err(wrong)?.0.remove("gains")
        }
        None => None,
    };
    let description = description.ok_or("no description (metadata key `gains`)")?;
    let mut tensors = BTreeMap::new();
    let mut used: Vec<(usize, usize)> = Vec::new();
    for (name, entry) in header {
        // A list is no entry, though one could be made of it.
        let entry = if entry.get().starts_with('{') { entry.get() } else { "{}" };
        let entry: Entry =
            serde_json::from_str(entry).map_err(|error| format!("tensor {name:?}: {error}"))?;
        let (shape, numbers) = tensor(&entry, data).map_err(|error| format!("tensor {name:?}: {error}"))?;
        used.push(entry.data_offsets);
        tensors.insert(name, (shape, numbers));
    }
    used.sort_unstable();
    if used.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err("tensors overlap".into());
    }
    Ok(Tensors { tensors, description, hash: Sha256::digest(bytes).into() })
}

/// Where the numbers of a tensor are.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// An object in which every name is there once: of two that are alike, one reader could take the first and another the last.
struct Once<T>(BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Once<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Names<T> {
            type Value = Once<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Once<T>, M::Error> {
                let mut all = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    let told = format!("{name:?} is there twice");
                    if all.insert(name, value).is_some() {
                        return Err(M::Error::custom(told));
                    }
                }
                Ok(Once(all))
            }
        }

        deserializer.deserialize_map(Names(PhantomData))
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
