//! Descriptions that a parser takes although they are not in the words of the format.
//!
//! Derived parsers take a number for the name of a type (its place in the list of types) and a list for an object (its
//! values in the order of the fields). What such a file means would depend on the order in which a program lists things,
//! and another program, `gains-check` say, could read another network.

use serde_json::Value;

/// The place of the first entry that was read as something of another kind than it is written as.
pub(super) fn misread(written: &Value, read: &Value, place: &str) -> Option<String> {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => written.iter().find_map(|(key, value)| {
            let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
            // What is left out when it is written again, such as an option that is not used, has no meaning of its own.
            misread(value, read.get(key)?, &place)
        }),
        (Value::Array(written), Value::Array(read)) => written
            .iter()
            .zip(read)
            .enumerate()
            .find_map(|(at, (value, read))| misread(value, read, &format!("{place}[{at}]"))),
        _ if std::mem::discriminant(written) == std::mem::discriminant(read) => None,
        _ => Some(place.to_string()),
    }
}
