//! Prepared files: all records of a source in one small binary file.
//!
//! docs/data-formats.md has the layout. Reading trusts nothing: every size is compared with the bytes there are
//! before anything is allocated, the checksum is looked at, and then every number is still checked, so that
//! what [`decode`] accepts is what [`encode`] writes.

use md5::{Digest, Md5};

use super::error::PreparedFault;
use super::feature::{Feature, Kind, Role, physionet_features};
use super::physionet::is_on_grid;
use super::record::{Builder, Observation, Record};
use super::recordings::{Counts, Recordings, key};
use super::split::Order;
use super::{LONGEST_NAME, MOST_FEATURES, hex};

const MAGIC: &[u8; 8] = b"gains-ts";
const VERSION: u32 = 1;
/// Magic, version, length and checksum of the body.
const HEAD: usize = 8 + 4 + 8 + 16;

const KINDS: [Kind; 2] = [Kind::PhysioNet2012, Kind::Csv];
const ROLES: [Role; 4] = [Role::Series, Role::Static, Role::Mean, Role::Seen];

/// The content of a prepared file.
pub(super) fn encode(recordings: &Recordings) -> Vec<u8> {
    let mut body = Vec::new();
    body.push(KINDS.iter().position(|&kind| kind == recordings.kind).unwrap_or_default() as u8);
    let (shuffled, seed) = match recordings.order {
        Order::Sorted => (0, 0),
        Order::Shuffled(seed) => (1, seed),
    };
    body.push(shuffled);
    body.extend(seed.to_le_bytes());
    body.extend(recordings.source);
    let Counts { found, skipped, ignored_lines, unordered } = recordings.counts;
    for count in [found, skipped, ignored_lines, unordered] {
        body.extend((count as u64).to_le_bytes());
    }
    body.extend((recordings.features.len() as u32).to_le_bytes());
    for feature in &recordings.features {
        body.push(ROLES.iter().position(|&role| role == feature.role).unwrap_or_default() as u8);
        put_name(&mut body, &feature.name);
    }
    body.extend((recordings.records.len() as u32).to_le_bytes());
    body.extend((recordings.points() as u64).to_le_bytes());
    body.extend((recordings.observations() as u64).to_le_bytes());
    for record in &recordings.records {
        put_name(&mut body, record.id());
        put_values(&mut body, record.statics());
        body.extend((record.times().len() as u32).to_le_bytes());
        for point in record.points() {
            body.extend(point.time.to_le_bytes());
            put_values(&mut body, point.observations);
        }
    }
    let mut bytes = Vec::with_capacity(HEAD + body.len());
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(Md5::digest(&body));
    bytes.extend(body);
    bytes
}

fn put_name(body: &mut Vec<u8>, name: &str) {
    body.extend((name.len() as u16).to_le_bytes());
    body.extend(name.as_bytes());
}

fn put_values(body: &mut Vec<u8>, values: &[Observation]) {
    body.extend((values.len() as u16).to_le_bytes());
    for value in values {
        body.extend(value.feature.to_le_bytes());
        body.extend(value.value.to_le_bytes());
    }
}

/// A fault and the byte of the file it was found at.
type Fault = (usize, PreparedFault);

/// The inverse of [`encode`].
pub(super) fn decode(bytes: &[u8]) -> Result<Recordings, Fault> {
    let mut input = Input { bytes, at: 0 };
    if input.take(MAGIC.len()).ok() != Some(MAGIC.as_slice()) {
        return Err((0, PreparedFault::Magic));
    }
    let found = u32::from_le_bytes(input.array()?);
    if found != VERSION {
        return Err((8, PreparedFault::Version { expected: VERSION, found }));
    }
    let length = u64::from_le_bytes(input.array()?);
    let checksum: [u8; 16] = input.array()?;
    let there = (bytes.len() - HEAD) as u64;
    if there < length {
        return Err((bytes.len(), PreparedFault::Truncated { missing: length - there }));
    }
    if there > length {
        return Err((HEAD + length as usize, PreparedFault::TrailingBytes { extra: there - length }));
    }
    let actual: [u8; 16] = Md5::digest(&bytes[HEAD..]).into();
    if actual != checksum {
        let (expected, found) = (hex(&checksum), hex(&actual));
        return Err((HEAD - 16, PreparedFault::Checksum { expected, found }));
    }
    body(&mut input)
}

fn body(input: &mut Input<'_>) -> Result<Recordings, Fault> {
    let kind = *input.choice(&KINDS, "an unknown kind of source")?;
    let shuffled = *input.choice(&[false, true], "an unknown order")?;
    let seed = u64::from_le_bytes(input.array()?);
    let order = if shuffled { Order::Shuffled(seed) } else { Order::Sorted };
    let source = input.array()?;
    let mut counts = [0; 4];
    for count in &mut counts {
        *count = usize::try_from(input.u64()?).map_err(|_| input.fault("a count beyond all counts"))?;
    }
    let [found, skipped, ignored_lines, unordered] = counts;
    let features = read_features(input, kind)?;
    let records = u32::from_le_bytes(input.array()?) as usize;
    let (points, observations) = (input.u64()?, input.u64()?);
    if found.checked_sub(skipped) != Some(records) || records == 0 {
        return Err(input.fault("counts of records that contradict each other"));
    }
    // An empty record takes eight bytes, so a forged count cannot make us allocate more than the file's size.
    if records > input.left() / 8 {
        return Err(input.fault("more records than fit into the file"));
    }
    let mut all: Vec<Record> = Vec::with_capacity(records);
    for _ in 0..records {
        let record = read_record(input, kind, &features)?;
        if all.last().is_some_and(|before| key(before.id()) >= key(record.id())) {
            return Err(input.record_fault(record.id(), "out of order"));
        }
        all.push(record);
    }
    if input.left() > 0 {
        return Err(input.fault("more after the last record"));
    }
    let counts = Counts { found, skipped, ignored_lines, unordered };
    let recordings = Recordings { kind, features, records: all, order, source, counts };
    if (recordings.points() as u64, recordings.observations() as u64) != (points, observations) {
        return Err(input.fault("counts of points or values that are not those of the records"));
    }
    Ok(recordings)
}

fn read_features(input: &mut Input<'_>, kind: Kind) -> Result<Vec<Feature>, Fault> {
    let count = u32::from_le_bytes(input.array()?) as usize;
    if count > MOST_FEATURES {
        return Err(input.fault("more features than allowed"));
    }
    let mut features: Vec<Feature> = Vec::new();
    for _ in 0..count {
        let role = *input.choice(&ROLES, "an unknown role of a feature")?;
        let name = input.name()?;
        if features.iter().any(|feature| feature.name == name) {
            return Err(input.fault("two features of one name"));
        }
        features.push(Feature { name, role });
    }
    match kind {
        Kind::PhysioNet2012 if features != physionet_features() => {
            Err(input.fault("other features than those of physionet2012"))
        }
        Kind::Csv if features.iter().any(|f| matches!(f.role, Role::Mean | Role::Seen)) => {
            Err(input.fault("a role that a table cannot give"))
        }
        _ if !features.iter().any(|f| f.role == Role::Series) => Err(input.fault("no feature of the series")),
        _ => Ok(features),
    }
}

fn read_record(input: &mut Input<'_>, kind: Kind, features: &[Feature]) -> Result<Record, Fault> {
    let id = input.name()?;
    let mut builder = Builder::default();
    for value in input.values(&id, features, true)? {
        builder.constant(value.feature, value.value);
    }
    let points = u32::from_le_bytes(input.array()?);
    let mut before = -1.0;
    for _ in 0..points {
        let time = f64::from_le_bytes(input.array()?);
        let sensible = match kind {
            Kind::PhysioNet2012 => is_on_grid(time),
            Kind::Csv => time.is_finite() && time >= 0.0,
        };
        if !sensible || time <= before {
            return Err(input.record_fault(&id, "a time that cannot be one, or not after the one before"));
        }
        before = time;
        builder.point(time);
        for value in input.values(&id, features, false)? {
            builder.at(time, value.feature, value.value);
        }
    }
    Ok(builder.finish(id))
}

/// What is still to be read.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        if count > self.left() {
            let missing = (count - self.left()) as u64;
            return Err((self.bytes.len(), PreparedFault::Truncated { missing }));
        }
        self.at += count;
        Ok(&self.bytes[self.at - count..self.at])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn choice<'t, T>(&mut self, table: &'t [T], otherwise: &'static str) -> Result<&'t T, Fault> {
        let [code] = self.array()?;
        table.get(code as usize).ok_or_else(|| self.fault(otherwise))
    }

    fn name(&mut self) -> Result<String, Fault> {
        let length = u16::from_le_bytes(self.array()?) as usize;
        if length == 0 || length > LONGEST_NAME {
            return Err(self.fault("a name that is empty or too long"));
        }
        let text = std::str::from_utf8(self.take(length)?);
        text.map(str::to_owned).map_err(|_| self.fault("a name that is no text"))
    }

    /// Values of different features in order, static ones or others.
    fn values(&mut self, id: &str, features: &[Feature], statics: bool) -> Result<Vec<Observation>, Fault> {
        let count = u16::from_le_bytes(self.array()?) as usize;
        let mut values: Vec<Observation> = Vec::with_capacity(count.min(self.left() / 6));
        for _ in 0..count {
            let feature = u16::from_le_bytes(self.array()?);
            let value = f32::from_le_bytes(self.array()?);
            let fitting = features.get(feature as usize).is_some_and(|f| (f.role == Role::Static) == statics);
            if !fitting || values.last().is_some_and(|before| before.feature >= feature) {
                return Err(self.record_fault(id, "a value of a feature that cannot be here"));
            }
            if !value.is_finite() {
                return Err(self.record_fault(id, "a value that is no number"));
            }
            values.push(Observation { feature, value });
        }
        Ok(values)
    }

    fn fault(&self, what: &'static str) -> Fault {
        (self.at, PreparedFault::Content(what))
    }

    fn record_fault(&self, id: &str, what: &'static str) -> Fault {
        (self.at, PreparedFault::Record { record: id.to_owned(), what })
    }
}

#[cfg(test)]
#[path = "compact_tests.rs"]
mod tests;
