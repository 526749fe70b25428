//! Certificates as bytes: CBOR, arrays of numbers as typed byte strings. Compressing it is left to whoever writes the file.

use ciborium::Value;
use gains_core::arithmetic::{down, up};
use gains_core::{BoxVec, Interval, LowerSlope};
use gains_ode::{Action, Place};

use super::claim::{
    BoxClaim, CutClaim, GraphClaim, LinesChoice, Node, OdeWay, PiecedLines, RowClaim, SeriesClaim,
    SplitClaim, SplitPlace, VertexClaim, Way,
};
use super::{Certificate, Evidence};
use crate::ball::Norm;
use crate::forms::{FormGraph, FormVertex};
use crate::graph_pull::RowForm;
use crate::property::{Condition, LinearRow, Property, Relation};
use crate::steps::StepForm;

/// The version of the format.
const VERSION: u64 = 1;

/// Tags of typed arrays, little endian (RFC 8746).
mod tag {
    pub const UINT8: u64 = 64;
    pub const UINT16: u64 = 69;
    pub const FLOAT32: u64 = 85;
    pub const FLOAT64: u64 = 86;
}

/// A certificate of a network as CBOR. `model` is the SHA-256 of its file, `about` whatever people may want to know.
pub fn to_cbor(certificate: &Certificate, model: &[u8; 32], about: &[(&str, Value)]) -> Vec<u8> {
    let (claim, key, evidence) = match &certificate.evidence {
        Evidence::Proof(node) => ("verified", "proof", proof(node)),
        Evidence::Witness { inputs, actions, outputs } => {
            let actions = list(actions, |list_of| list(list_of, |action| code(*action)));
            let inputs = list(inputs, |values| floats(values));
            let witness = map([("inputs", inputs), ("actions", actions), ("outputs", floats(outputs))]);
            ("falsified", "witness", witness)
        }
    };
    let whole = [
        ("format", text("gains-certificate")),
        ("version", VERSION.into()),
        ("model", Value::Bytes(model.to_vec())),
        ("arithmetic", text("real")),
        ("region", region(certificate)),
        ("property", property(certificate)),
        ("claim", text(claim)),
        (key, evidence),
        ("about", map(about.iter().cloned())),
    ];
    let series = certificate.series.iter().map(|claim| ("series", series(claim)));
    let whole = map(whole.into_iter().chain(series));
    let mut bytes = Vec::new();
    // Writing to memory does not fail, and nothing in here is anything CBOR could not hold.
    let written = ciborium::into_writer(&whole, &mut bytes);
    debug_assert!(written.is_ok(), "{written:?}");
    bytes
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn map<'k>(entries: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    Value::Map(entries.into_iter().map(|(key, value)| (text(key), value)).collect())
}

fn list<T>(items: impl IntoIterator<Item = T>, encode: impl Fn(T) -> Value) -> Value {
    Value::Array(items.into_iter().map(encode).collect())
}

fn index(index: usize) -> Value {
    (index as u64).into()
}

/// Numbers, in float32 if that has all of them.
fn floats(values: &[f64]) -> Value {
    if values.iter().all(|x| f64::from(*x as f32) == *x) {
        let short: Vec<f32> = values.iter().map(|x| *x as f32).collect();
        return short_floats(&short);
    }
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Value::Tag(tag::FLOAT64, Box::new(Value::Bytes(bytes)))
}

fn short_floats(values: &[f32]) -> Value {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Value::Tag(tag::FLOAT32, Box::new(Value::Bytes(bytes)))
}

fn shorts(values: &[u16]) -> Value {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Value::Tag(tag::UINT16, Box::new(Value::Bytes(bytes)))
}

fn flags(values: &[bool]) -> Value {
    let bytes = values.iter().map(|flag| u8::from(*flag)).collect();
    Value::Tag(tag::UINT8, Box::new(Value::Bytes(bytes)))
}

fn ends(values: &BoxVec) -> Value {
    Value::Array(vec![floats(&values.lower), floats(&values.upper)])
}

fn region(certificate: &Certificate) -> Value {
    let boxes = ("boxes", list(&certificate.boxes, ends));
    let ball = certificate.ball.as_ref().map(|ball| {
        let norm: u64 = if ball.norm() == Norm::One { 1 } else { 2 };
        let parts =
            [("norm", norm.into()), ("centre", floats(ball.centre())), ("scales", floats(ball.scales()))];
        ("ball", map(parts))
    });
    map([boxes].into_iter().chain(ball))
}

fn series(claim: &SeriesClaim) -> Value {
    let SeriesClaim { times, observed, target } = claim;
    map([("times", floats(times)), ("observed", flags(observed)), ("target", Value::Float(*target))])
}

fn property(certificate: &Certificate) -> Value {
    if let Property::Errors(errors) = &certificate.property {
        let observed = errors.marked();
        let errors = [
            ("truth", floats(&errors.shown_truth())),
            ("observed", flags(&observed)),
            ("limit", Value::Float(errors.limit)),
        ];
        return map([("errors", map(errors))]);
    }
    let (rows, condition) = certificate.property.written_out();
    let row = |row: &LinearRow| {
        let c = vec![Value::Float(lowest(row)), Value::Float(highest(row))];
        let zero = Value::Bool(row.relation == Relation::Above);
        map([("a", floats(&row.coefficients)), ("c", Value::Array(c)), ("zero", zero)])
    };
    map([("rows", list(&rows, row)), ("condition", self::condition(&condition, &mut 0))])
}

fn lowest(row: &LinearRow) -> f64 {
    if row.slack == 0.0 { row.constant } else { down(row.constant - row.slack) }
}

fn highest(row: &LinearRow) -> f64 {
    if row.slack == 0.0 { row.constant } else { up(row.constant + row.slack) }
}

/// A condition; its rows are numbered depth first.
fn condition(asked: &Condition, next: &mut usize) -> Value {
    let mut all =
        |parts: &[Condition]| Value::Array(parts.iter().map(|part| condition(part, next)).collect());
    match asked {
        Condition::All(parts) => map([("all", all(parts))]),
        Condition::Any(parts) => map([("any", all(parts))]),
        Condition::AtLeast { needed, of } => map([("least", index(*needed)), ("of", all(of))]),
        Condition::Row(_) => {
            *next += 1;
            index(*next - 1)
        }
    }
}

/// A node; what is empty is left out.
fn proof(node: &Node) -> Value {
    let Node { boxes, graphs, lines, cuts, rows, forms, split } = node;
    let listed = [
        ("boxes", list(boxes, box_claim), boxes.is_empty()),
        ("graphs", list(graphs, graph), graphs.is_empty()),
        ("lines", list(lines, |lines| Value::Array(pieced(lines))), lines.is_empty()),
        ("cuts", list(cuts, cut), cuts.is_empty()),
        ("rows", list(rows, row), rows.is_empty()),
    ];
    let listed = listed.into_iter().filter(|(_, _, empty)| !empty).map(|(key, value, _)| (key, value));
    let forms = forms.iter().map(|graphs| ("forms", list(graphs, form_graph)));
    map(listed.chain(forms).chain(split.iter().map(|claim| ("split", self::split(claim)))))
}

fn form_graph(claim: &FormGraph) -> Value {
    map([("ode", index(claim.ode)), ("vertices", list(&claim.vertices, form_vertex))])
}

/// A vertex of affine forms; what goes without saying is left out.
fn form_vertex(claim: &FormVertex) -> Value {
    let FormVertex { at, error, out, notes, joins } = claim;
    let changes = |(stage, value, changes): &(usize, usize, Vec<bool>)| {
        Value::Array(vec![index(*stage), index(*value), flags(changes)])
    };
    let weights = |weights: &Option<Vec<f64>>| weights.as_deref().map_or(Value::Null, floats);
    let pair = |&(first, second): &(usize, usize)| Value::Array(vec![index(first), index(second)]);
    let listed = [
        ("changes", list(&notes.changes, changes), notes.changes.is_empty()),
        ("weights", list(&notes.weights, weights), notes.weights == [None, None]),
        ("joins", list(joins, pair), joins.is_empty()),
    ];
    let listed = listed.into_iter().filter(|(_, _, empty)| !empty).map(|(key, value, _)| (key, value));
    map([("at", place(at)), ("error", self::error(*error)), ("out", edges(out))].into_iter().chain(listed))
}

fn box_claim(claim: &BoxClaim) -> Value {
    map([
        ("value", index(claim.value)),
        ("lower", floats(&claim.values.lower)),
        ("upper", floats(&claim.values.upper)),
        ("lower_by", shorts(&claim.lower_by)),
        ("upper_by", shorts(&claim.upper_by)),
        ("ways", list(&claim.ways, way)),
    ])
}

fn graph(claim: &GraphClaim) -> Value {
    let form: u64 = if claim.form == StepForm::Difference { 1 } else { 0 };
    map([
        ("ode", index(claim.ode)),
        ("form", form.into()),
        ("vertices", list(&claim.vertices, vertex)),
        ("end", ends(&claim.end)),
    ])
}

fn vertex(claim: &VertexClaim) -> Value {
    let of_stage = |(stage, lines): &(usize, PiecedLines)| {
        Value::Array([index(*stage)].into_iter().chain(pieced(lines)).collect())
    };
    let lines = ("lines", list(&claim.lines, of_stage));
    let usual = [
        ("at", place(&claim.at)),
        ("state", ends(&claim.state)),
        ("error", error(claim.error)),
        ("out", edges(&claim.out)),
    ];
    map(usual.into_iter().chain([lines].into_iter().filter(|_| !claim.lines.is_empty())))
}

fn error(error: Option<Interval>) -> Value {
    let ends = |error: Interval| Value::Array(vec![Value::Float(error.lower), Value::Float(error.upper)]);
    error.map_or(Value::Null, ends)
}

fn edges(out: &[(Action, Option<usize>)]) -> Value {
    let target = |to: &Option<usize>| to.map_or(Value::from(-1), index);
    list(out, |(action, to)| Value::Array(vec![code(*action), target(to)]))
}

fn pieced(lines: &PiecedLines) -> Vec<Value> {
    vec![index(lines.value), floats(&lines.below), floats(&lines.above)]
}

fn place(at: &Place) -> Value {
    let Place { ticks, step, progress, fraction, rejections, settled } = *at;
    list([ticks, step, progress, fraction, rejections.into(), settled.into()], Value::from)
}

fn code(action: Action) -> Value {
    u64::from(action.code()).into()
}

fn cut(claim: &CutClaim) -> Value {
    map([("constraint", index(claim.constraint)), ("way", way(&claim.way))])
}

fn row(claim: &RowClaim) -> Value {
    map([("row", index(claim.row)), ("way", way(&claim.way)), ("bound", Value::Float(claim.bound))])
}

fn split(claim: &SplitClaim) -> Value {
    let (kind, keys) = match claim.place {
        SplitPlace::Input(input) => ("input", vec![("input", index(input))]),
        SplitPlace::Neuron(value) => ("neuron", vec![("value", index(value))]),
        SplitPlace::Start { ode, value } => ("start", vec![("ode", index(ode)), ("value", index(value))]),
    };
    let common = [
        ("kind", text(kind)),
        ("entry", index(claim.entry)),
        ("at", Value::Float(claim.at)),
        ("parts", list(&claim.parts, proof)),
    ];
    map(common.into_iter().chain(keys))
}

/// A way; what is as usual is left out.
fn way(way: &Way) -> Value {
    let Way { lines, odes, stops, multipliers, cuts } = way;
    let times = |list_of: &[(usize, f64)]| {
        list(list_of, |&(which, by)| Value::Array(vec![index(which), Value::Float(by)]))
    };
    let listed = [
        ("odes", list(odes, ode_way), odes.is_empty()),
        ("stops", list(stops, |v| index(*v)), stops.is_empty()),
        ("multipliers", times(multipliers), multipliers.is_empty()),
        ("cuts", times(cuts), cuts.is_empty()),
    ];
    let listed = listed.into_iter().filter(|(_, _, empty)| !empty).map(|(key, value, _)| (key, value));
    map([("lines", self::lines(lines))].into_iter().chain(listed))
}

fn lines(choice: &LinesChoice) -> Value {
    let policy: u64 = match choice.policy {
        LowerSlope::MinArea => 0,
        LowerSlope::Zero => 1,
        LowerSlope::One => 2,
    };
    let slopes =
        list(&choice.slopes, |(value, slopes)| Value::Array(vec![index(*value), short_floats(slopes)]));
    map([("policy", policy.into()), ("slopes", slopes)])
}

fn ode_way(way: &OdeWay) -> Value {
    let form: u64 = if way.form == RowForm::Chain { 1 } else { 0 };
    let edge = |(edge, by): &(usize, Vec<f64>)| Value::Array(vec![index(*edge), floats(by)]);
    map([
        ("ode", index(way.ode)),
        ("form", form.into()),
        ("lines", lines(&way.lines)),
        ("start", floats(&way.start)),
        ("shares", list(&way.shares, edge)),
    ])
}
