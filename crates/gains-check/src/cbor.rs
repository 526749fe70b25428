//! The part of CBOR (RFC 8949) that certificates use, read with bounded memory and depth.
//!
//! Definite lengths only; maps have text keys, in any order, each once. Vectors of numbers are byte strings with the
//! tags of RFC 8746 and stay where they are in the file until they are asked for.

use std::fmt;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 1000;
/// Most items (of arrays and maps) in one file: they take some forty bytes each.
const MAX_ITEMS: usize = 4_000_000;

/// One item.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A whole number.
    Integer(i64),
    /// A number of 64 (or 32, widened) bits, finite.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Nothing.
    Null,
    /// Bytes as they are.
    Bytes(&'a [u8]),
    /// Numbers of one kind, the lowest byte first.
    Numbers(Kind, &'a [u8]),
    /// Text.
    Text(&'a str),
    /// Items in order.
    Array(Vec<Value<'a>>),
    /// Items by name.
    Map(Vec<(&'a str, Value<'a>)>),
}

/// Kinds of numbers in typed byte strings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Whole, of one byte.
    U8,
    /// Whole, of two bytes.
    U16,
    /// Of 32 bits.
    F32,
    /// Of 64 bits.
    F64,
}

impl Kind {
    /// Bytes of a number.
    pub fn width(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// All numbers, widened.
    pub fn numbers(self, bytes: &[u8]) -> Vec<f64> {
        let number = |chunk: &[u8]| match self {
            Self::U8 => chunk.first().copied().map(f64::from),
            Self::U16 => chunk.first_chunk().map(|bytes| f64::from(u16::from_le_bytes(*bytes))),
            Self::F32 => chunk.first_chunk().map(|bytes| f64::from(f32::from_le_bytes(*bytes))),
            Self::F64 => chunk.first_chunk().map(|bytes| f64::from_le_bytes(*bytes)),
        };
        // As much memory as they need, and no more.
        let mut numbers = Vec::with_capacity(bytes.len() / self.width());
        numbers.extend(bytes.chunks_exact(self.width()).filter_map(number));
        numbers
    }
}

/// Why bytes are no such item.
#[derive(Debug, PartialEq)]
pub struct Malformed {
    /// What is wrong.
    pub what: &'static str,
    /// Position in the unpacked bytes.
    pub at: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

/// Reads one item, which must be all there is.
pub fn read(bytes: &[u8]) -> Result<Value<'_>, Malformed> {
    let mut reader = Reader { bytes, at: 0, items: 0 };
    let value = reader.value(0)?;
    if reader.at < bytes.len() { reader.fail("bytes after the end") } else { Ok(value) }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    items: usize,
}

impl<'a> Reader<'a> {
    fn fail<T>(&self, what: &'static str) -> Result<T, Malformed> {
        Err(Malformed { what, at: self.at })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let rest = &self.bytes[self.at..];
        if length > rest.len() {
            return self.fail("cut off");
        }
        self.at += length;
        Ok(&rest[..length])
    }

    /// The argument of an item's head, of its low five bits `short`.
    fn argument(&mut self, short: u8) -> Result<u64, Malformed> {
        let width = match short {
            0..=23 => return Ok(u64::from(short)),
            24..=27 => 1usize << (short - 24),
            _ => return self.fail("a length that is not given"),
        };
        Ok(self.take(width)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// A count of things that take at least `each` bytes, checked before anything is allocated.
    fn count(&mut self, short: u8, each: usize) -> Result<usize, Malformed> {
        let count = self.argument(short)?;
        let possible = (self.bytes.len() - self.at) / each;
        match usize::try_from(count) {
            Ok(count) if count <= possible => Ok(count),
            _ => self.fail("a length beyond the end"),
        }
    }

    fn text(&mut self, short: u8) -> Result<&'a str, Malformed> {
        let length = self.count(short, 1)?;
        std::str::from_utf8(self.take(length)?).or_else(|_| self.fail("text that is not UTF-8"))
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, Malformed> {
        self.items += 1;
        if depth > MAX_DEPTH {
            return self.fail("nested too deeply");
        }
        if self.items > MAX_ITEMS {
            return self.fail("too many items");
        }
        let head = self.take(1)?[0];
        let (kind, short) = (head >> 5, head & 31);
        match kind {
            0 | 1 => match i64::try_from(self.argument(short)?) {
                Ok(number) => Ok(Value::Integer(if kind == 0 { number } else { -1 - number })),
                Err(_) => self.fail("a whole number beyond 63 bits"),
            },
            2 => {
                let length = self.count(short, 1)?;
                Ok(Value::Bytes(self.take(length)?))
            }
            3 => Ok(Value::Text(self.text(short)?)),
            4 => {
                let count = self.count(short, 1)?;
                (0..count).map(|_| self.value(depth + 1)).collect::<Result<_, _>>().map(Value::Array)
            }
            5 => self.map(short, depth),
            6 => self.numbers(short),
            _ => self.simple(short),
        }
    }

    fn map(&mut self, short: u8, depth: usize) -> Result<Value<'a>, Malformed> {
        let count = self.count(short, 2)?;
        if count > 64 {
            return self.fail("too many keys");
        }
        let mut entries: Vec<(&str, Value)> = Vec::with_capacity(count);
        for _ in 0..count {
            let head = self.take(1)?[0];
            if head >> 5 != 3 {
                return self.fail("a key that is not text");
            }
            let key = self.text(head & 31)?;
            if entries.iter().any(|(other, _)| *other == key) {
                return self.fail("a key that is there twice");
            }
            entries.push((key, self.value(depth + 1)?));
        }
        Ok(Value::Map(entries))
    }

    fn numbers(&mut self, short: u8) -> Result<Value<'a>, Malformed> {
        let kind = match self.argument(short)? {
            64 => Kind::U8,
            69 => Kind::U16,
            85 => Kind::F32,
            86 => Kind::F64,
            _ => return self.fail("an unknown tag"),
        };
        let head = self.take(1)?[0];
        if head >> 5 != 2 {
            return self.fail("numbers that are not bytes");
        }
        let length = self.count(head & 31, 1)?;
        if length % kind.width() != 0 {
            return self.fail("numbers that are cut off");
        }
        Ok(Value::Numbers(kind, self.take(length)?))
    }

    fn simple(&mut self, short: u8) -> Result<Value<'a>, Malformed> {
        let number = match short {
            20 | 21 => return Ok(Value::Bool(short == 21)),
            22 => return Ok(Value::Null),
            25 => half(self.argument(short)?),
            26 => f64::from(f32::from_bits(self.argument(short)? as u32)),
            27 => f64::from_bits(self.argument(short)?),
            _ => return self.fail("an unknown kind of item"),
        };
        if number.is_finite() { Ok(Value::Float(number)) } else { self.fail("a number that is not finite") }
    }
}

/// A number of 16 bits: sign, five bits of exponent, ten of the fraction.
fn half(bits: u64) -> f64 {
    let fraction = (bits & 0x3ff) as f64;
    let size = match (bits >> 10) & 31 {
        0 => fraction * 2f64.powi(-24),
        31 => f64::NAN,
        exponent => (1024.0 + fraction) * 2f64.powi(exponent as i32 - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}
