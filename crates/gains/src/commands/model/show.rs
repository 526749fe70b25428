//! What a person wants to know about a model, in lines of at most a hundred columns.

use std::fmt::Write as _;

use gains_core::affine::{GroupPart, Purpose, ScaleKind};
use gains_core::dag::Dag;
use gains_core::description::{ControllerSpec, SolverSpec, Task};
use gains_core::{AffineMap, Circuit, Network, Operator, Shape, Step};
use serde_json::Value;

use crate::output::plain;
use crate::table::layout;

/// Columns of a line.
const WIDTH: usize = 100;
/// Where the values of the first lines begin.
const VALUES: usize = 12;
/// Deeper parts of a training record are indented no further.
const DEEPEST: usize = 40;

/// The whole text.
pub fn describe(network: &Network) -> String {
    let d = &network.description;
    let mut text = String::new();
    let mut fact = |name: &str, value: &str| {
        put(&mut text, &format!("{name:VALUES$}"), VALUES, &plain(value));
    };
    fact("name", &d.name);
    fact("hash", &network.hash);
    fact("task", &task(&d.task));
    fact("data set", d.dataset.as_deref().unwrap_or("not said"));
    fact("input", &d.input.to_string());
    fact("parameters", &network.parameters().to_string());
    text.push('\n');
    text.push_str(&layout(&["layer", "output", "parameters"], &layers(network)));
    if let Some(training) = training(network) {
        text.push_str("\ntraining record\n");
        text.push_str(&training);
    }
    text
}

/// How the network was trained, if its file says so.
pub fn training(network: &Network) -> Option<String> {
    let mut text = String::new();
    record(&mut text, &network.description.training, 2);
    (!network.description.training.is_null()).then_some(text)
}

/// Adds `text` after `start`, broken where a line would be too long; further lines begin at column `indent`.
fn put(to: &mut String, start: &str, indent: usize, text: &str) {
    let room = WIDTH.saturating_sub(indent).max(1);
    let mut line = String::new();
    let mut length = 0;
    let mut lines = Vec::new();
    for word in text.split_inclusive(' ') {
        if length > 0 && length + word.trim_end().chars().count() > room {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        for c in word.chars() {
            // A word longer than a line is cut; a space at the end does not count.
            if length == room && c != ' ' {
                lines.push(std::mem::take(&mut line));
                length = 0;
            }
            line.push(c);
            length += 1;
        }
    }
    lines.push(line);
    for (index, line) in lines.iter().enumerate() {
        let margin = if index == 0 { start.into() } else { " ".repeat(indent) };
        let _ = writeln!(to, "{}", format!("{margin}{line}").trim_end());
    }
}

/// Entries of a record below each other, texts of several lines as they are.
fn record(to: &mut String, value: &Value, indent: usize) {
    let indent = indent.min(DEEPEST);
    let margin = " ".repeat(indent);
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                entry(to, &plain(key), value, indent);
            }
        }
        Value::Array(values) if values.iter().all(is_single) => {
            let values: Vec<String> = values.iter().map(single).collect();
            put(to, &margin, indent, &values.join(", "));
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                entry(to, &index.to_string(), value, indent);
            }
        }
        Value::String(text) if text.contains('\n') => {
            for line in text.trim_end().lines() {
                put(to, &margin, indent, &plain(line));
            }
        }
        other => put(to, &margin, indent, &single(other)),
    }
}

fn entry(to: &mut String, key: &str, value: &Value, indent: usize) {
    let margin = " ".repeat(indent);
    if is_single(value) {
        put(to, &margin, indent + 2, &format!("{key}: {}", single(value)));
    } else {
        put(to, &margin, indent + 2, &format!("{key}:"));
        record(to, value, indent + 2);
    }
}

/// Whether a value stands beside its name.
fn is_single(value: &Value) -> bool {
    match value {
        Value::Object(_) | Value::Array(_) => false,
        Value::String(text) => !text.contains('\n'),
        _ => true,
    }
}

fn single(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text).into_owned(),
        other => other.to_string(),
    }
}

/// The layers in the order in which a sample passes them: name, shape of what comes out, parameters. What is inside
/// another is indented.
pub fn layers(network: &Network) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    if let Some(encoder) = &network.encoder {
        for (name, circuit) in encoder.parts() {
            let parameters = circuit.parameters().to_string();
            rows.push(vec![format!("encoder {name}"), circuit.output_shape().to_string(), parameters]);
            circuit_rows(circuit, "  ", &mut rows);
        }
    }
    let chain = is_chain(&network.body);
    for (value, node) in network.body.nodes() {
        match &node.operator {
            Step::Plain(operator) => {
                rows.push(operator_row(operator, (value, &node.from), node.shape, "", chain))
            }
            Step::Ode(ode) => {
                let dynamics = &ode.block.dynamics;
                rows.push(vec!["ode".into(), node.shape.to_string(), dynamics.parameters().to_string()]);
                circuit_rows(dynamics, "  ", &mut rows);
                for line in solver(&ode.solver()) {
                    rows.push(vec![line, String::new(), String::new()]);
                }
            }
        }
    }
    rows
}

/// What the network is for, in words.
pub fn task(task: &Task) -> String {
    match task {
        Task::Classification { classes } => {
            format!("classification, {} classes: {}", classes.len(), classes.join(", "))
        }
        Task::Regression { outputs, .. } if outputs.is_empty() => "regression".into(),
        Task::Regression { outputs, units } => {
            let name = |name: &String| match units.get(name) {
                Some(unit) => format!("{name} ({unit})"),
                None => name.clone(),
            };
            let named: Vec<String> = outputs.iter().map(name).collect();
            format!("regression, {} outputs: {}", outputs.len(), named.join(", "))
        }
        Task::Forecasting { features, statics, horizon, ranges, perturbed } => {
            let mut text = format!(
                "forecasting, {} features: {}; {} statics: {}",
                features.len(),
                features.join(", "),
                statics.len(),
                statics.join(", ")
            );
            if let Some(horizon) = horizon {
                text += &format!("; {horizon} ahead");
            }
            for (name, [low, high]) in ranges {
                text += &format!("; {name} stays inside [{low}, {high}]");
            }
            if let Some(moving) = perturbed {
                let also: Vec<&str> =
                    moving.iter().filter(|n| statics.contains(n)).map(String::as_str).collect();
                let fixed: Vec<&str> =
                    features.iter().filter(|n| !moving.contains(n)).map(String::as_str).collect();
                if !also.is_empty() {
                    text += &format!("; perturbed besides the features: {}", also.join(", "));
                }
                if !fixed.is_empty() {
                    text += &format!("; not perturbed: {}", fixed.join(", "));
                }
            }
            text
        }
    }
}

/// Whether every node takes the one before it and nothing else.
fn is_chain<O>(graph: &Dag<O>) -> bool {
    graph.inputs().len() == 1 && graph.nodes().all(|(value, node)| node.from == [value - 1])
}

fn circuit_rows(circuit: &Circuit, indent: &str, rows: &mut Vec<Vec<String>>) {
    let chain = is_chain(circuit);
    for (value, node) in circuit.nodes() {
        rows.push(operator_row(&node.operator, (value, &node.from), node.shape, indent, chain));
    }
}

/// A node with its number and what it takes, unless that is always the one before.
fn operator_row(
    operator: &Operator,
    (value, from): (usize, &[usize]),
    shape: Shape,
    indent: &str,
    chain: bool,
) -> Vec<String> {
    let (name, parameters) = match operator {
        Operator::Affine(map) => (affine(map), map.parameters()),
        Operator::Curve(activation) => (activation.to_string(), 0),
        Operator::Sum(_) => ("add".into(), 0),
        Operator::Product => ("product".into(), 0),
        Operator::Maximum => ("maximum".into(), 0),
        Operator::Blend(_) => ("blend".into(), 0),
        Operator::Concat(_) => ("concatenate".into(), 0),
        Operator::Slice(slice) => {
            (format!("entries {} to {}", slice.first, slice.first + slice.length - 1), 0)
        }
    };
    let parameters = if parameters == 0 { String::new() } else { parameters.to_string() };
    let wiring = match chain {
        true => String::new(),
        false => {
            let from: Vec<String> = from.iter().map(|v| format!("#{v}")).collect();
            format!("#{value} = ({}) ", from.join(", "))
        }
    };
    vec![format!("{indent}{wiring}{name}"), shape.to_string(), parameters]
}

fn affine(map: &AffineMap) -> String {
    match map {
        AffineMap::Conv(conv) => {
            let g = conv.geometry();
            let time = if map.uses_time() { " + time" } else { "" };
            if conv.input().positions() == 1 && g.kernel == (1, 1) {
                format!("linear {} → {}{time}", conv.input().channels, conv.output().channels)
            } else {
                format!(
                    "conv {} → {}, kernel {}x{}, stride {}, padding {}, dilation {}{time}",
                    conv.input().channels,
                    conv.output().channels,
                    g.kernel.0,
                    g.kernel.1,
                    sides(g.stride),
                    sides(g.padding),
                    sides(g.dilation)
                )
            }
        }
        AffineMap::Pool(_) => "average pooling".into(),
        AffineMap::Scale(scale) => match scale.kind() {
            ScaleKind::Normalise => "normalise".into(),
            ScaleKind::BatchNorm { .. } => "batch norm".into(),
            ScaleKind::Affine => "scale and shift".into(),
        },
        AffineMap::Select(selection) => match selection.purpose() {
            Purpose::Flatten => "flatten".into(),
            Purpose::Reshape => "reshape".into(),
            Purpose::Channels => "channels of the image".into(),
            Purpose::Pad => "pad with zeros".into(),
            Purpose::Interleave => "channels side by side".into(),
            Purpose::Tap => "one tap of max pooling".into(),
        },
        AffineMap::Group(group) => match group.part() {
            GroupPart::Mean => "mean of each group".into(),
            GroupPart::Rest => "less the mean of its group".into(),
        },
    }
}

/// One number where both sides agree.
fn sides((vertical, horizontal): (usize, usize)) -> String {
    if vertical == horizontal { vertical.to_string() } else { format!("{vertical}x{horizontal}") }
}

fn solver(spec: &SolverSpec) -> Vec<String> {
    let method = gains_ode::Tableau::of(spec.method).name;
    let mut lines = vec![format!("  solver {method}, end time {}", spec.end_time)];
    match &spec.controller {
        ControllerSpec::Fixed { steps } => lines.push(format!("    {steps} equal steps")),
        ControllerSpec::Adaptive { tolerance, initial_step, .. } => {
            lines.push(format!("    adaptive, tolerance {tolerance}, first step {initial_step}"));
        }
        ControllerSpec::ControlledAdaptive(c) => lines.extend([
            format!("    controlled adaptive, factor {}, tolerance {}", c.factor, c.tolerance),
            format!("    h0 {}, minimum step {}", c.initial_step, c.minimum_step),
            format!("    {} rejection(s) after clipping", c.rejections_after_clipping),
        ]),
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(indent: usize, text: &str) -> Vec<String> {
        let mut to = String::new();
        put(&mut to, &" ".repeat(indent), indent, text);
        to.lines().map(String::from).collect()
    }

    #[test]
    fn lines_are_broken_between_words_or_within_long_ones() {
        assert_eq!(lines(2, "a b"), ["  a b"]);
        assert_eq!(lines(0, ""), [""]);
        let words = "1234 ".repeat(25);
        assert_eq!(
            lines(90, words.trim_end())[..2],
            [" ".repeat(90) + "1234 1234", " ".repeat(90) + "1234 1234"]
        );
        let cut = lines(60, &"x".repeat(90));
        assert_eq!(
            cut,
            [
                " ".repeat(60) + &"x".repeat(40),
                " ".repeat(60) + &"x".repeat(40),
                " ".repeat(60) + &"x".repeat(10)
            ]
        );
    }

    #[test]
    fn records_are_read_like_text() {
        let value = serde_json::json!({
            "config": "a = 1\n[b]\n", "eps": [0.1, 0.2], "last": {"loss": 1.5, "rows": [{"n": 1}]}, "x\n": "\u{1b}"
        });
        let mut text = String::new();
        record(&mut text, &value, 2);
        assert_eq!(
            text,
            "  config:\n    a = 1\n    [b]\n  eps:\n    0.1, 0.2\n  last:\n    loss: 1.5\n    rows:\n      \
             0:\n        n: 1\n  x\\n: \\u001b\n"
        );
    }
}
