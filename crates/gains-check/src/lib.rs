//! Decides whether a certificate of `gains` holds.
//!
//! A certificate says that a network has a property for all inputs of a region, or names an input for which it has
//! not. This crate reads the model file and the certificate and checks every claim by itself: boxes hold what their
//! predecessors give, graphs have an edge for everything a solver may do, rows taken back end above zero, cases cover
//! the region. It shares no code with the program that writes certificates, finds nothing and optimises nothing; all
//! arithmetic is rounded outwards. `docs/certificates.md` is its specification.
//!
//! Read it in this order: `interval`, `functions`, `curve`, `affine` (numbers), `network`, `builder`, `layers`, `series` (what is
//! computed), `tableau`, `automaton`, `steps` (how ODEs are solved), `rules`, `rows` (what is known of it), `form`, `form_steps` (the same
//! by affine forms), `station`, `graph`, `form_proof`, `proof`, `witness` (what is claimed). `value`, `model` and `certificate` read files.

pub mod affine;
pub mod automaton;
pub mod builder;
pub mod certificate;
pub mod curve;
pub mod fault;
pub mod form;
pub mod form_proof;
pub mod form_steps;
pub mod functions;
pub mod graph;
pub mod interval;
mod layers;
pub mod model;
pub mod network;
pub mod proof;
pub mod rows;
pub mod rules;
pub mod series;
pub mod station;
pub mod steps;
pub mod tableau;
pub mod value;
pub mod witness;

use std::borrow::Cow;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use certificate::{Ball, Property, region};
use fault::{Deadline, Fault};
use interval::Interval;
pub use model::Model;
use proof::{Count, Question};
use series::Laid;
use value::{Fields, Value, bad, fits, shown};

/// Largest certificate, unpacked.
pub const MAX_UNPACKED: usize = 256 << 20;
/// Stack of the thread that checks: trees of case distinctions are gone through by recursion.
const STACK: usize = 256 << 20;

/// What a certificate that holds says.
#[derive(Debug, Clone, PartialEq)]
pub enum Holds {
    /// The property holds for all inputs of the region.
    Verified(Count),
    /// It does not hold at a witness, whose outputs are in these intervals.
    Falsified(Vec<Interval>),
}

/// Checks a certificate, given as the bytes of its file.
pub fn check(model: &Model, bytes: &[u8]) -> Result<Holds, Fault> {
    check_within(model, bytes, None).map(|(holds, _)| holds)
}

/// Checks a certificate within so much time, and tells in words what it is about: a certificate that holds says no more than
/// that, whatever it is called.
pub fn check_within(model: &Model, bytes: &[u8], limit: Option<Duration>) -> Result<(Holds, String), Fault> {
    let deadline = Deadline::after(limit);
    let work = || {
        let unpacked = unpack(bytes).map_err(Fault::Malformed)?;
        let value = value::read(&unpacked).map_err(bad)?;
        check_value(model, &value, deadline)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| Fault::Malformed(format!("no thread: {error}")))?;
        thread
            .join()
            .unwrap_or_else(|_| Err(Fault::Malformed("the checker itself failed: please report it".into())))
    })
}

/// Unpacks zstd if that is what it is.
pub fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let (mut rest, mut unpacked) = (bytes, Cow::Borrowed(bytes));
    if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let wrong = |error: &dyn std::fmt::Display| format!("zstd: {error}");
        let decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest).map_err(|error| wrong(&error))?;
        let mut all = Vec::new();
        decoder.take(MAX_UNPACKED as u64 + 1).read_to_end(&mut all).map_err(|error| wrong(&error))?;
        if !rest.is_empty() && all.len() <= MAX_UNPACKED {
            return Err("bytes after the end of the zstd frame".into());
        }
        unpacked = Cow::Owned(all);
    }
    if unpacked.len() > MAX_UNPACKED { Err("larger than 256 MiB unpacked".into()) } else { Ok(unpacked) }
}

/// What a certificate asks, whatever it claims: about which network (laid out for a series, if it is one for series), inputs
/// and outputs.
pub fn question(model: &Model, fields: Fields, deadline: Deadline) -> Result<Question, Fault> {
    let within = |place: &'static str| move |fault: Fault| fault.within(place);
    let mut laid = match (model.is_for_series, fields.find("series")) {
        (false, None) => None,
        (true, Some(series)) => Some(Laid::out(model, series)?),
        _ => return Err(bad("a series goes with a network for series")),
    };
    let network = laid.as_ref().map_or(&*model.network, |laid| &laid.network);
    let place = fields.get("region")?.fields("boxes ball").map_err(within("region"))?;
    let boxes = place.get("boxes")?.list()?;
    fits(boxes, network.inputs(), "region: boxes of inputs")?;
    let boxes = boxes.iter().enumerate().map(|(input, given)| region(given, network.length(input)));
    let inputs: Vec<_> = boxes.collect::<Result<_, _>>().map_err(within("region"))?;
    let ball = place.find("ball").map(|ball| Ball::read(ball, &inputs[0])).transpose()?;
    let outputs = network.length(network.output);
    let property = Property::read(fields.get("property")?, outputs).map_err(within("property"))?;
    if let Some(laid) = &mut laid {
        laid.fits(&inputs).map_err(within("region"))?;
        property.errors.iter().try_for_each(|(truth, _)| laid.measure(truth))?;
    } else if property.errors.is_some() {
        return Err(bad("errors of something else than a forecast"));
    }
    let network = laid.map_or_else(|| model.network.clone(), |laid| Arc::new(laid.network));
    Ok(Question { network, inputs, ball, property, deadline })
}

/// The top of a certificate.
pub fn top<'v, 'a>(value: &'v Value<'a>) -> Result<Fields<'v, 'a>, Fault> {
    value.fields("format version model arithmetic series region property claim proof witness about")
}

fn check_value(model: &Model, value: &Value, deadline: Deadline) -> Result<(Holds, String), Fault> {
    let fields = top(value)?;
    if fields.text("format")? != "gains-certificate" {
        return Err(bad("not a certificate"));
    }
    if fields.get("version")? != &Value::Integer(1) {
        return Err(bad("a version that is not known"));
    }
    if fields.get("model")? != &Value::Bytes(&model.hash) {
        return Err(Fault::wrong("the certificate is about another model file"));
    }
    let arithmetic = fields.text("arithmetic")?;
    if arithmetic != "real" {
        return Err(bad(format!("the arithmetic `{}` cannot be checked", shown(arithmetic))));
    }
    let question = question(model, fields, deadline)?;
    let about = question.about();
    let holds = match (fields.text("claim")?, fields.find("proof"), fields.find("witness")) {
        ("verified", Some(proof), None) => {
            proof::check(&question, proof).map(Holds::Verified).map_err(|fault| fault.within("proof"))
        }
        ("falsified", None, Some(witness)) => {
            witness::check(&question, witness).map(Holds::Falsified).map_err(|fault| fault.within("witness"))
        }
        _ => Err(bad("neither a proof nor a witness, as claimed")),
    };
    // What is not bounded in time is no falsehood.
    let holds = holds.map_err(|fault| if deadline.is_past() { Fault::Late } else { fault });
    holds.map(|holds| (holds, about))
}
