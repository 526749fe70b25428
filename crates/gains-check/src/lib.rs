//! Decides whether a certificate of `gains` holds.
//!
//! A certificate says that a network has a property for all inputs of a region, or names an input for which it has
//! not. This crate reads the model file and the certificate and checks every claim by itself: boxes hold what their
//! predecessors give, graphs have an edge for everything a solver may do, rows taken back end above zero, cases cover
//! the region. It shares no code with the program that writes certificates, finds nothing and optimises nothing; all
//! arithmetic is rounded outwards. `docs/certificates.md` is its specification.
//!
//! Read it in this order: `interval`, `functions`, `curve` (numbers), `matrix`, `network` (what is computed), `tableau`,
//! `automaton`, `steps` (how ODEs are solved), `rules`, `rows` (what is known of it), `graph`, `proof`, `witness` (what
//! is claimed). `cbor`, `safetensors` and `certificate` read files.

pub mod automaton;
pub mod cbor;
pub mod certificate;
pub mod curve;
pub mod fault;
pub mod functions;
pub mod graph;
pub mod interval;
pub mod matrix;
pub mod network;
pub mod proof;
pub mod rows;
pub mod rules;
pub mod safetensors;
pub mod steps;
pub mod tableau;
pub mod witness;

use std::io::Read;
use std::time::Duration;

use cbor::Value;
use certificate::{Ball, Fields, Property, region};
use fault::{Deadline, Fault};
pub use network::Model;
use proof::{Count, Question};

/// Largest certificate, unpacked.
pub const MAX_UNPACKED: usize = 256 << 20;
/// Stack of the thread that checks: trees of case distinctions are gone through by recursion.
const STACK: usize = 256 << 20;

/// What a certificate that holds says.
#[derive(Debug, Clone, PartialEq)]
pub enum Holds {
    /// The property holds for all inputs of the region.
    Verified(Count),
    /// It does not hold at a witness, where about these outputs come out.
    Falsified(Vec<f64>),
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
        let value = cbor::read(&unpacked).map_err(|error| Fault::Malformed(error.to_string()))?;
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
pub fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if !bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return if bytes.len() > MAX_UNPACKED {
            Err("larger than 256 MiB".into())
        } else {
            Ok(bytes.to_vec())
        };
    }
    let mut rest = bytes;
    let mut unpacked = Vec::new();
    let decoder =
        ruzstd::decoding::StreamingDecoder::new(&mut rest).map_err(|error| format!("zstd: {error}"))?;
    let read = decoder.take(MAX_UNPACKED as u64 + 1).read_to_end(&mut unpacked);
    read.map_err(|error| format!("zstd: {error}"))?;
    if unpacked.len() > MAX_UNPACKED {
        return Err("larger than 256 MiB unpacked".into());
    }
    if rest.is_empty() { Ok(unpacked) } else { Err("bytes after the end of the zstd frame".into()) }
}

fn check_value(model: &Model, value: &Value, deadline: Deadline) -> Result<(Holds, String), Fault> {
    let keys = [
        "format",
        "version",
        "model",
        "arithmetic",
        "region",
        "property",
        "claim",
        "proof",
        "witness",
        "about",
    ];
    let fields = Fields::of(value, &keys)?;
    if fields.text("format")? != "gains-certificate" {
        return Err(Fault::Malformed("not a certificate".into()));
    }
    if fields.get("version")? != &Value::Integer(1) {
        return Err(Fault::Malformed("a version that is not known".into()));
    }
    if fields.get("model")? != &Value::Bytes(&model.hash) {
        return Err(Fault::wrong("the certificate is about another model file"));
    }
    let arithmetic = fields.text("arithmetic")?;
    if arithmetic != "real" {
        return Err(Fault::Malformed(format!("the arithmetic `{arithmetic}` cannot be checked")));
    }
    let network = &model.network;
    let entries = network.nodes[0].shape.count();
    let place =
        Fields::of(fields.get("region")?, &["boxes", "ball"]).map_err(|fault| fault.within("region"))?;
    let [inputs] = place.list("boxes")? else { return Err(Fault::Malformed("region: not one box".into())) };
    let inputs = region(inputs, entries).map_err(|fault| fault.within("region"))?;
    let ball = place.find("ball").map(|ball| Ball::read(ball, entries)).transpose()?;
    let outputs = network.nodes[network.output].shape.count();
    let property =
        Property::read(fields.get("property")?, outputs).map_err(|fault| fault.within("property"))?;
    let question = Question { network, inputs, ball, property, deadline };
    let about = question.about();
    let holds = match (fields.text("claim")?, fields.find("proof"), fields.find("witness")) {
        ("verified", Some(proof), None) => {
            proof::check(&question, proof).map(Holds::Verified).map_err(|fault| fault.within("proof"))
        }
        ("falsified", None, Some(witness)) => {
            witness::check(&question, witness).map(Holds::Falsified).map_err(|fault| fault.within("witness"))
        }
        _ => Err(Fault::Malformed("neither a proof nor a witness, as claimed".into())),
    };
    holds.map(|holds| (holds, about))
}
