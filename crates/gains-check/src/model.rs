//! Model files: safetensors, with a description of the network in the metadata.
//!
//! Eight bytes with the length of a header, the header (JSON), then the numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::builder::{Builder, Places};
use crate::fault::Fault;
use crate::network::{MAX_ENTRIES, Network, Shape};
use crate::value::{Kind, Value, bad, read_json};

/// Largest header that is read.
const MAX_HEADER: usize = 16 << 20;

/// Shape and numbers.
type Tensor = (Vec<usize>, Vec<f64>);
/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// A model file, read.
pub struct Model {
    /// The network; one for series has no values before it is laid out for one.
    pub network: Arc<Network>,
    /// Whether it is one for series.
    pub is_for_series: bool,
    /// All weights.
    pub(crate) tensors: Tensors,
    /// What the network is, in JSON.
    pub(crate) description: String,
    /// SHA-256 of the file.
    pub hash: [u8; 32],
}

impl Model {
    /// Reads a file's bytes.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let (tensors, description) = safetensors(bytes)?;
        let hash = Sha256::digest(bytes).into();
        let mut model = Self { network: Arc::default(), is_for_series: false, tensors, description, hash };
        let description = read_json(&model.description).map_err(bad).and_then(|value| {
            let fields = value.open()?;
            if fields.text("format")? != "gains-model"
                || !(1..=2).contains(&fields.read("version", Value::integer)?)
            {
                return Err(bad("not a gains-model of version 1 or 2"));
            }
            // One for series is laid out when there is a series.
            if fields.find("encoder").is_some_and(|encoder| *encoder != Value::Null) {
                return Ok(None);
            }
            let mut builder = Builder::new(&model.tensors, Places::Network);
            builder.input(fields.read("input", Shape::read)?)?;
            builder.network.output = builder.layers(fields.get("layers")?, 0, 0)?;
            Ok(Some(Arc::new(builder.network)))
        });
        match description.map_err(|fault| format!("the description: {fault}"))? {
            Some(network) => model.network = network,
            None => model.is_for_series = true,
        }
        Ok(model)
    }
}

/// All tensors of a file, and the description: what stands in the metadata under `gains`.
fn safetensors(bytes: &[u8]) -> Result<(Tensors, String), String> {
    let length = bytes.first_chunk::<8>().ok_or("the file is too short to be a safetensors file")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_HEADER || length > bytes.len() - 8 {
        return Err(format!("the header claims {length} bytes"));
    }
    let (header, data) = bytes[8..].split_at(length);
    let header = std::str::from_utf8(header).map_err(|_| "the header is not text")?;
    let header = read_json(header).map_err(|error| format!("the header: {error}"))?;
    let header = header.open().map_err(|fault| format!("the header: {fault}"))?;
    let description =
        header.get("__metadata__").and_then(Value::open).and_then(|metadata| metadata.text("gains"));
    let description = description.map_err(|_| "no description (metadata key `gains`)")?.to_string();
    let (mut tensors, mut used) = (Tensors::new(), Vec::new());
    for (name, entry) in header.all().iter().filter(|(name, _)| name != "__metadata__") {
        let read = tensor(entry, data).map_err(|fault| format!("tensor {name:?}: {fault}"))?;
        used.push(read.1);
        tensors.insert(name.to_string(), read.0);
    }
    used.sort_unstable();
    match used.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        true => Err("tensors overlap".into()),
        false => Ok((tensors, description)),
    }
}

/// A tensor, and where its numbers are.
fn tensor(entry: &Value, data: &[u8]) -> Result<(Tensor, (usize, usize)), Fault> {
    let fields = entry.open()?;
    let kind = match fields.text("dtype")? {
        "F32" => Kind::F32,
        "F64" => Kind::F64,
        other => return Err(bad(format!("numbers of type {other}"))),
    };
    let side = |value: &Value| value.index(usize::MAX);
    let shape = fields.each("shape", side)?;
    let place =
        fields.read("data_offsets", |offsets| offsets.items::<2>().map(|[a, b]| (side(a), side(b))))?;
    let place = (place.0?, place.1?);
    let bytes = data.get(place.0..place.1).ok_or_else(|| bad("data beyond the end of the file"))?;
    let count = shape.iter().try_fold(1usize, |count, &side| count.checked_mul(side));
    let size = count.and_then(|count| count.checked_mul(kind.width()));
    if size != Some(bytes.len()) || fields.find("shape").is_none() || shape.len() > MAX_ENTRIES {
        return Err(bad(format!("{} bytes for {count:?} numbers", bytes.len())));
    }
    let numbers = kind.numbers(bytes);
    match numbers.iter().all(|x| x.is_finite()) {
        true => Ok(((shape, numbers), place)),
        false => Err(bad("a number that is not finite")),
    }
}

#[cfg(test)]
mod tests;
