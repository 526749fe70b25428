//! IDX files of any type and number of axes: two zero bytes, a type, the number of axes, their lengths as big-endian
//! 32-bit numbers, and the numbers, big-endian.

use super::array::Array;
use super::{Fault, MOST_ENTRIES, Numbers};

/// Reads an array.
pub(super) fn parse(bytes: &[u8]) -> Result<Array, Fault> {
    let damaged = |what: &str| Fault::Header(what.into());
    let (start, rest) = bytes.split_at_checked(4).ok_or_else(|| damaged("it is cut off"))?;
    let (kind, axes) = (start[2], usize::from(start[3]));
    let (lengths, rest) = rest.split_at_checked(4 * axes).ok_or_else(|| damaged("it is cut off"))?;
    let length = |four: &[u8]| four.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    let shape: Vec<usize> = lengths.chunks_exact(4).map(length).collect();
    let (size, number): (usize, fn(&[u8]) -> f64) = match kind {
        8 => (1, |b| f64::from(b[0])),
        9 => (1, |b| f64::from(b[0] as i8)),
        11 => (2, |b| f64::from(i16::from_be_bytes([b[0], b[1]]))),
        12 => (4, |b| f64::from(i32::from_be_bytes([b[0], b[1], b[2], b[3]]))),
        13 => (4, |b| f64::from(f32::from_be_bytes([b[0], b[1], b[2], b[3]]))),
        14 => (8, |b| f64::from_be_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])),
        other => return Err(Fault::Type(format!("{other:#04x}"))),
    };
    let count = shape.iter().try_fold(1_usize, |n, axis| n.checked_mul(*axis));
    let claimed = count.and_then(|n| n.checked_mul(size));
    if claimed != Some(rest.len()) {
        let claimed = claimed.map_or_else(|| "more".into(), |n| n.to_string());
        return Err(Fault::Length { claimed, found: rest.len() });
    }
    if count.is_none_or(|n| n > MOST_ENTRIES) {
        return Err(Fault::TooMany);
    }
    let values = rest.chunks_exact(size).map(number).collect();
    let numbers = if kind == 8 { Numbers::Bytes } else { Numbers::Plain };
    Ok(Array { shape, values, numbers })
}
