//! The head of a safetensors file, looked at before anything is made of it.
//!
//! It is a length of eight bytes and a JSON object: an entry per tensor, and `__metadata__`. JSON lets a key stand
//! there twice and readers keep the last; two readers that disagree would see two networks in one file.

use std::collections::HashSet;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::ModelError;

/// The longest header; that of a network with a thousand layers takes a fiftieth of it.
const LONGEST: usize = 16 << 20;
/// The entry that holds text instead of a tensor.
const METADATA: &str = "__metadata__";

/// How files of `torch.save` begin: an archive, or in old ones a pickle of protocol 2 to 5. Read as the length of a header
/// that is too long for one, so no file of ours begins like that.
const PICKLES: [&[u8]; 5] = [b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"];

/// Refuses a pickle, and a header that is too long, no JSON object, or has two entries of one name.
pub(super) fn check(bytes: &[u8]) -> Result<(), ModelError> {
    let broken = |problem: String| ModelError::Container(problem);
    let (length, rest) =
        bytes.split_first_chunk().ok_or_else(|| broken("it ends within its length".into()))?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > LONGEST {
        if let Some(what) = other_format(bytes) {
            return Err(broken(format!("it is {what}")));
        }
        if PICKLES.iter().any(|magic| bytes.starts_with(magic)) {
            return Err(ModelError::Pickle);
        }
        return Err(broken(format!("its header would take {length} bytes, at most {LONGEST}")));
    }
    let header = rest.get(..length).ok_or_else(|| broken("it ends within its header".into()))?;
    let mut json = serde_json::Deserializer::from_slice(header);
    Entries { of: Level::Header }.deserialize(&mut json).map_err(|e| broken(format!("header: {e}")))
}

/// What a file is that was never meant to be one of ours.
fn other_format(bytes: &[u8]) -> Option<&'static str> {
    // An entry of an archive begins with 30 bytes, of which two hold the length of its name, which follows.
    let name = bytes.strip_prefix(b"PK\x03\x04").and_then(|rest| {
        let length = u16::from_le_bytes([*rest.get(22)?, *rest.get(23)?]);
        rest.get(26..)?.get(..usize::from(length))
    });
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    match bytes {
        _ if name.is_some_and(|name| name.ends_with(b".npy")) => Some("an archive of arrays of NumPy (.npz)"),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Some("an array of NumPy (.npy)"),
        _ if bytes.iter().take(64).all(is_text) => Some("text"),
        _ => None,
    }
}

/// Whose entries are looked at.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Header,
    Metadata,
}

/// An object of which only the keys matter.
struct Entries {
    of: Level,
}

impl<'de> DeserializeSeed<'de> for Entries {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entries {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if self.of == Level::Header && key == METADATA {
                map.next_value_seed(Entries { of: Level::Metadata })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            if let Some(twice) = seen.replace(key) {
                return Err(M::Error::custom(format!("'{twice}' is there twice")));
            }
        }
        Ok(())
    }
}
