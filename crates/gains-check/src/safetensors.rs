//! Reading safetensors files: eight bytes with the length of a header, the header (JSON), then the numbers.

use std::collections::BTreeMap;

use serde_json::Value;
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
    let header: Value = serde_json::from_slice(header).map_err(|error| format!("the header: {error}"))?;
    let header = header.as_object().ok_or("the header is not an object")?;
    let mut tensors = BTreeMap::new();
    let mut used: Vec<(usize, usize)> = Vec::new();
    for (name, entry) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        let (shape, numbers, place) =
            tensor(entry, data).map_err(|error| format!("tensor {name:?}: {error}"))?;
        used.push(place);
        tensors.insert(name.clone(), (shape, numbers));
    }
    used.sort_unstable();
    if used.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err("tensors overlap".into());
    }
    let description =
        header.get("__metadata__").and_then(|metadata| metadata.get("gains")).and_then(Value::as_str);
    let description = description.ok_or("no description (metadata key `gains`)")?.to_string();
    Ok(Tensors { tensors, description, hash: Sha256::digest(bytes).into() })
}

type Tensor = (Vec<usize>, Vec<f64>, (usize, usize));

fn tensor(entry: &Value, data: &[u8]) -> Result<Tensor, String> {
    let whole =
        |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or("not a whole number");
    let list = |key: &str| -> Result<Vec<usize>, String> {
        let list = entry.get(key).and_then(Value::as_array).ok_or_else(|| format!("no {key}"))?;
        Ok(list.iter().map(whole).collect::<Result<_, _>>()?)
    };
    let shape = list("shape")?;
    let (kind, width) = match entry.get("dtype").and_then(Value::as_str) {
        Some("F32") => (Kind::F32, 4),
        Some("F64") => (Kind::F64, 8),
        other => return Err(format!("numbers of type {}", other.unwrap_or("that is not given"))),
    };
    let [from, to] = list("data_offsets")?[..] else { return Err("data_offsets are not two numbers".into()) };
    let count =
        shape.iter().try_fold(1usize, |count, &side| count.checked_mul(side)).ok_or("a shape too large")?;
    let bytes = data.get(from..to).ok_or("data beyond the end of the file")?;
    if count.checked_mul(width) != Some(bytes.len()) {
        return Err(format!("{} bytes for {count} numbers", bytes.len()));
    }
    let numbers = kind.numbers(bytes);
    if numbers.iter().any(|x| !x.is_finite()) {
        return Err("a number that is not finite".into());
    }
    Ok((shape, numbers, (from, to)))
}
