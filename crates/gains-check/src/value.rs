//! What files say: items of CBOR (certificates) or JSON (model files), and strict access to them.
//!
//! Certificates use a part of CBOR (RFC 8949): definite lengths only, maps with text keys, each once; lists of numbers are byte
//! strings with the tags of RFC 8746, which stay where they are in the file until they are asked for. Whatever a file is, reading
//! it takes bounded memory and depth.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use ciborium_ll::{Decoder, Header, simple};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::fault::Fault;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 1000;
/// Most items (of lists and maps) in one file: they take some forty bytes each.
const MAX_ITEMS: usize = 4_000_000;
/// Most keys of a map in a certificate, and in a model file (a tensor is one).
const MAX_KEYS: [usize; 2] = [64, 100_000];
/// Most numbers of one list: more than any value has entries.
const MAX_NUMBERS: usize = 1 << 23;

/// One item.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A whole number.
    Integer(i64),
    /// A finite number.
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
    Text(Cow<'a, str>),
    /// Items in order.
    Array(Vec<Value<'a>>),
    /// Items by name.
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
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
        [1, 2, 4, 8][self as usize]
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

/// Reads one item of CBOR, which must be all there is.
pub fn read(bytes: &[u8]) -> Result<Value<'_>, String> {
    let mut reader = Reader { bytes, at: 0, items: 0 };
    let told = |(what, at)| format!("{what} at byte {at}");
    let value = reader.value(0).map_err(|what| told((what, reader.at)))?;
    if reader.at < bytes.len() { Err(told(("bytes after the end", reader.at))) } else { Ok(value) }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    items: usize,
}

impl<'a> Reader<'a> {
    /// What an item is, and how long.
    fn head(&mut self) -> Result<Header, &'static str> {
        let mut decoder = Decoder::from(&self.bytes[self.at..]);
        let header = decoder.pull().map_err(|_| "no item")?;
        self.at += decoder.offset();
        Ok(header)
    }

    fn take(&mut self, length: Option<usize>) -> Result<&'a [u8], &'static str> {
        let length = length.ok_or("a length that is not given")?;
        let rest = &self.bytes[self.at..];
        self.at += length.min(rest.len());
        rest.get(..length).ok_or("a length beyond the end")
    }

    fn text(&mut self, length: Option<usize>) -> Result<Cow<'a, str>, &'static str> {
        std::str::from_utf8(self.take(length)?).map(Cow::Borrowed).map_err(|_| "text that is not UTF-8")
    }

    /// A count of items, each of which takes a byte at least: so nothing is allocated that the file has no room for.
    fn count(&self, count: Option<usize>) -> Result<usize, &'static str> {
        let count = count.ok_or("a length that is not given")?;
        if count <= self.bytes.len() - self.at { Ok(count) } else { Err("a length beyond the end") }
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, &'static str> {
        self.items += 1;
        if depth > MAX_DEPTH || self.items > MAX_ITEMS {
            return Err("nested too deeply, or too many items");
        }
        let whole = |number: u64| i64::try_from(number).map_err(|_| "a whole number beyond 63 bits");
        Ok(match self.head()? {
            Header::Positive(number) => Value::Integer(whole(number)?),
            Header::Negative(number) => Value::Integer(-1 - whole(number)?),
            Header::Float(number) if number.is_finite() => Value::Float(number),
            Header::Simple(known @ (simple::TRUE | simple::FALSE)) => Value::Bool(known == simple::TRUE),
            Header::Simple(simple::NULL) => Value::Null,
            Header::Bytes(length) => Value::Bytes(self.take(length)?),
            Header::Text(length) => Value::Text(self.text(length)?),
            Header::Array(count) => {
                let mut items = Vec::new();
                for _ in 0..self.count(count)? {
                    items.push(self.value(depth + 1)?);
                }
                Value::Array(items)
            }
            Header::Map(count) => {
                let count = self.count(count)?;
                let mut entries = Vec::new();
                for _ in 0..count {
                    let Header::Text(length) = self.head()? else { return Err("a key that is not text") };
                    let key = self.text(length)?;
                    if entries.iter().any(|(other, _)| *other == key) || count > MAX_KEYS[0] {
                        return Err("a key that is there twice, or too many keys");
                    }
                    entries.push((key, self.value(depth + 1)?));
                }
                Value::Map(entries)
            }
            Header::Tag(tag) => {
                let kinds = [(64, Kind::U8), (69, Kind::U16), (85, Kind::F32), (86, Kind::F64)];
                let kind = kinds.iter().find(|(known, _)| *known == tag).ok_or("an unknown tag")?.1;
                let Header::Bytes(length) = self.head()? else { return Err("numbers that are not bytes") };
                match self.take(length)? {
                    bytes if bytes.len() % kind.width() == 0 => Value::Numbers(kind, bytes),
                    _ => return Err("numbers that are cut off"),
                }
            }
            _ => return Err("an unknown kind of item, or a number that is not finite"),
        })
    }
}

/// Reads one item of JSON, which must be all there is.
pub fn read_json(text: &str) -> Result<Value<'_>, String> {
    let (items, mut reader) = (Cell::new(0), serde_json::Deserializer::from_str(text));
    let value = Json(&items).deserialize(&mut reader);
    value.and_then(|value| reader.end().map(|()| value)).map_err(|error| error.to_string())
}

/// Reads an item, counting.
struct Json<'c>(&'c Cell<usize>);

impl<'de> DeserializeSeed<'de> for Json<'_> {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value<'de>, D::Error> {
        self.0.set(self.0.get() + 1);
        match self.0.get() > MAX_ITEMS {
            true => Err(D::Error::custom("too many items")),
            false => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Json<'_> {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an item")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value<'de>, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value<'de>, E> {
        Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value<'de>, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(value.into())))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Json(self.0))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    /// Of two keys that are alike, one reader could take the first and another the last.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value<'de>, A::Error> {
        let (mut entries, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if !seen.insert(key.clone()) || entries.len() >= MAX_KEYS[1] {
                return Err(A::Error::custom(format!("{key:?} is there twice, or there are too many keys")));
            }
            entries.push((key, map.next_value_seed(Json(self.0))?));
        }
        Ok(Value::Map(entries))
    }
}

/// A file that says something it cannot.
pub fn bad(what: impl Into<String>) -> Fault {
    Fault::Malformed(what.into())
}

/// The beginning of a text out of a file: it may be as long as that.
pub fn shown(text: &str) -> String {
    let mut characters = text.chars();
    let first: String = characters.by_ref().take(60).collect();
    if characters.next().is_some() { first + "…" } else { first }
}

/// Refused unless the number of entries is right.
pub fn fits<T>(numbers: &[T], expected: usize, what: &str) -> Result<(), Fault> {
    match numbers.len() == expected {
        true => Ok(()),
        false => Err(bad(format!("{what}: {} numbers instead of {expected}", numbers.len()))),
    }
}

impl<'a> Value<'a> {
    /// A map that has no other keys than these, which spaces divide.
    pub fn fields(&self, known: &str) -> Result<Fields<'_, 'a>, Fault> {
        let fields = self.open()?;
        match fields.0.iter().find(|(key, _)| !known.split_whitespace().any(|other| other == key)) {
            Some((key, _)) => Err(bad(format!("unknown key {:?}", shown(key)))),
            None => Ok(fields),
        }
    }

    /// A map that may have other keys than those that are asked for.
    pub fn open(&self) -> Result<Fields<'_, 'a>, Fault> {
        let Value::Map(entries) = self else { return Err(bad("something else than a map")) };
        Ok(Fields(entries))
    }

    /// A list.
    pub fn list(&self) -> Result<&[Value<'a>], Fault> {
        let Value::Array(items) = self else { return Err(bad("something else than a list")) };
        Ok(items)
    }

    /// Exactly so many items.
    pub fn items<const N: usize>(&self) -> Result<&[Value<'a>; N], Fault> {
        self.list()?.try_into().map_err(|_| bad(format!("not {N} items")))
    }

    /// A text.
    pub fn text(&self) -> Result<&str, Fault> {
        let Value::Text(text) = self else { return Err(bad("not a text")) };
        Ok(text)
    }

    /// Yes or no.
    pub fn bool(&self) -> Result<bool, Fault> {
        let Value::Bool(value) = self else { return Err(bad("neither true nor false")) };
        Ok(*value)
    }

    /// A whole number.
    pub fn integer(&self) -> Result<i64, Fault> {
        let Value::Integer(number) = self else { return Err(bad("not a whole number")) };
        Ok(*number)
    }

    /// A whole number below `limit`.
    pub fn index(&self, limit: usize) -> Result<usize, Fault> {
        let number = self.integer()?;
        let index = usize::try_from(number).ok().filter(|index| *index < limit);
        index.ok_or_else(|| bad(format!("{number} is not one of {limit}")))
    }

    /// A finite number.
    pub fn number(&self) -> Result<f64, Fault> {
        let Value::Float(number) = self else { return Err(bad("not a number")) };
        Ok(*number)
    }

    /// A finite number that may be written without a point, as in JSON.
    pub fn decimal(&self) -> Result<f64, Fault> {
        self.integer().map(|number| number as f64).or_else(|_| self.number())
    }

    /// Numbers of one of these kinds.
    fn typed(&self, kinds: &[Kind]) -> Result<Vec<f64>, Fault> {
        let Value::Numbers(kind, bytes) = self else { return Err(bad("something else than numbers")) };
        if !kinds.contains(kind) || bytes.len() / kind.width() > MAX_NUMBERS {
            return Err(bad(format!("{} numbers of the kind {kind:?}", bytes.len() / kind.width())));
        }
        let numbers = kind.numbers(bytes);
        if numbers.iter().any(|x| x.is_nan()) { Err(bad("a number that is none")) } else { Ok(numbers) }
    }

    /// Numbers, perhaps infinite.
    pub fn ends(&self) -> Result<Vec<f64>, Fault> {
        self.typed(&[Kind::F32, Kind::F64])
    }

    /// Finite numbers.
    pub fn floats(&self) -> Result<Vec<f64>, Fault> {
        let numbers = self.ends()?;
        if numbers.iter().all(|x| x.is_finite()) {
            Ok(numbers)
        } else {
            Err(bad("a number that is not finite"))
        }
    }

    /// So many finite numbers.
    pub fn numbers(&self, count: usize, what: &str) -> Result<Vec<f64>, Fault> {
        let numbers = self.floats()?;
        fits(&numbers, count, what).map(|()| numbers)
    }

    /// Numbers of ways.
    pub fn ways(&self) -> Result<Vec<f64>, Fault> {
        self.typed(&[Kind::U16])
    }

    /// Zeros and ones.
    pub fn flags(&self, count: usize, what: &str) -> Result<Vec<bool>, Fault> {
        let numbers = self.typed(&[Kind::U8])?;
        fits(&numbers, count, what)?;
        match numbers.iter().all(|x| *x == 0.0 || *x == 1.0) {
            true => Ok(numbers.iter().map(|x| *x == 1.0).collect()),
            false => Err(bad("something else than 0 and 1")),
        }
    }
}

/// A map whose keys are looked up.
#[derive(Clone, Copy)]
pub struct Fields<'v, 'a>(&'v [(Cow<'a, str>, Value<'a>)]);

impl<'v, 'a> Fields<'v, 'a> {
    /// All keys, with what stands under them.
    pub fn all(&self) -> &'v [(Cow<'a, str>, Value<'a>)] {
        self.0
    }

    /// What stands under a key.
    pub fn find(&self, key: &str) -> Option<&'v Value<'a>> {
        self.0.iter().find(|(other, _)| other == key).map(|(_, value)| value)
    }

    /// What has to stand under a key.
    pub fn get(&self, key: &str) -> Result<&'v Value<'a>, Fault> {
        self.find(key).ok_or_else(|| bad(format!("no `{key}`")))
    }

    /// What stands under a key, read, with its name if it cannot be.
    pub fn read<T>(&self, key: &str, of: impl FnOnce(&'v Value<'a>) -> Result<T, Fault>) -> Result<T, Fault> {
        of(self.get(key)?).map_err(|fault| fault.within(key))
    }

    /// The same of what may be missing.
    pub fn or<T>(
        &self,
        key: &str,
        missing: T,
        of: impl FnOnce(&'v Value<'a>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if self.find(key).is_some() { self.read(key, of) } else { Ok(missing) }
    }

    /// Every item of a list, read; none if the list is missing.
    pub fn each<T>(
        &self,
        key: &str,
        of: impl FnMut(&'v Value<'a>) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        self.or(key, vec![], |list| list.list()?.iter().map(of).collect())
    }

    /// Text.
    pub fn text(&self, key: &str) -> Result<&'v str, Fault> {
        self.read(key, Value::text)
    }

    /// A whole number below `limit`.
    pub fn index(&self, key: &str, limit: usize) -> Result<usize, Fault> {
        self.read(key, |value| value.index(limit))
    }
}
