//! Property files: JSON as it is written, checked but not yet bound to a network.
//!
//! docs/properties.md describes the format.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Value of `format`, where it is given.
const FORMAT: &str = "gains-property";

/// A property file.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Which scale its numbers are on.
    pub scale: Scale,
    /// What is required.
    pub require: Clause,
    /// The file, short: what result lines hold.
    text: String,
}

/// Which scale numbers are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// That of the data: of series, the units of the records.
    #[default]
    Data,
    /// That of the network's outputs.
    Network,
}

/// What is required of the outputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Clause {
    /// All of these.
    All(Vec<Clause>),
    /// One of these.
    Any(Vec<Clause>),
    /// So many of these.
    Count(usize, Vec<Clause>),
    /// Not this.
    Not(Box<Clause>),
    /// Each of these values is within limits.
    Linear(Quantities, Limits),
    /// The predicted class is one of these.
    Predicted(Vec<Reference>),
    /// None of these classes is predicted.
    Never(Vec<Reference>),
    /// The label stays among so many largest outputs.
    Top(usize),
    /// The label's output is ahead of every other by so much.
    Lead(f64),
}

/// An output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// By its number.
    Number(usize),
    /// By its name.
    Name(String),
    /// That of the sample's label.
    Label,
}

/// Values that limits are for.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantities {
    /// These outputs, one by one.
    Outputs(Vec<Reference>),
    /// All outputs, one by one.
    Each,
    /// A sum of multiples of outputs.
    Sum(Vec<(Reference, f64)>),
}

/// What a value must keep to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Above this, not at it.
    pub above: Option<f64>,
    /// At this or above.
    pub at_least: Option<f64>,
    /// Below this, not at it.
    pub below: Option<f64>,
    /// At this or below.
    pub at_most: Option<f64>,
    /// Not further than this from something.
    pub within: Option<(f64, Origin)>,
}

/// What a distance is measured from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// What the network says of the sample itself.
    Nominal,
    /// What is known to be true.
    Target,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    format: Option<String>,
    version: Option<u32>,
    #[serde(default)]
    #[expect(dead_code, reason = "for people")]
    name: Option<String>,
    #[serde(default)]
    scale: Scale,
    require: RawClause,
}

/// A clause with whatever keys it has.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawClause {
    all: Option<Vec<RawClause>>,
    any: Option<Vec<RawClause>>,
    not: Option<Box<RawClause>>,
    count: Option<usize>,
    of: Option<Vec<RawClause>>,
    output: Option<Value>,
    each: Option<Value>,
    sum: Option<Terms>,
    above: Option<f64>,
    at_least: Option<f64>,
    below: Option<f64>,
    at_most: Option<f64>,
    between: Option<[f64; 2]>,
    within: Option<f64>,
    from: Option<Origin>,
    predicted: Option<Value>,
    never: Option<Value>,
    top: Option<usize>,
    lead: Option<f64>,
}

/// The terms of a sum. A plain map would take the last of two with the same name, and prove something else.
struct Terms(BTreeMap<String, f64>);

impl<'de> Deserialize<'de> for Terms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ReadTerms)
    }
}

struct ReadTerms;

impl<'de> Visitor<'de> for ReadTerms {
    type Value = Terms;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("outputs and their factors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Terms, A::Error> {
        let mut terms = BTreeMap::new();
        while let Some((name, factor)) = map.next_entry::<String, f64>()? {
            if terms.contains_key(&name) {
                return Err(A::Error::custom(format!("a sum names output '{name}' twice")));
            }
            terms.insert(name, factor);
        }
        Ok(Terms(terms))
    }
}

impl Spec {
    /// Reads a property file; says what is wrong, and where in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let written: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        are_objects(&written, "")?;
        let raw: RawFile = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if let Some(format) = raw.format.filter(|format| format != FORMAT) {
            return Err(format!("its format is '{format}', not '{FORMAT}'"));
        }
        if let Some(version) = raw.version.filter(|version| *version != 1) {
            return Err(format!("its version is {version}, this program reads version 1"));
        }
        let require = clause(raw.require, "require")?;
        Ok(Self { scale: raw.scale, require, text: written.to_string() })
    }

    /// The file in one line.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Refuses lists where the format has objects: derived parsers take what is in them in the order in which they list keys.
fn are_objects(value: &Value, at: &str) -> Result<(), String> {
    let Value::Object(entries) = value else {
        return Err(format!("{} is not an object", if at.is_empty() { "it" } else { at }));
    };
    entries.iter().try_for_each(|(key, inside)| {
        let place = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        match (key.as_str(), inside) {
            ("all" | "any" | "of", Value::Array(list)) => {
                let mut clauses = list.iter().enumerate();
                clauses.try_for_each(|(i, clause)| are_objects(clause, &format!("{place}[{i}]")))
            }
            ("require" | "not", clause) => are_objects(clause, &place),
            _ => Ok(()),
        }
    })
}

fn clause(raw: RawClause, at: &str) -> Result<Clause, String> {
    let wrong = |what: String| Err(format!("{at}: {what}"));
    let kinds = [
        ("all", raw.all.is_some()),
        ("any", raw.any.is_some()),
        ("not", raw.not.is_some()),
        ("count", raw.count.is_some()),
        ("output", raw.output.is_some()),
        ("each", raw.each.is_some()),
        ("sum", raw.sum.is_some()),
        ("predicted", raw.predicted.is_some()),
        ("never", raw.never.is_some()),
        ("top", raw.top.is_some()),
        ("lead", raw.lead.is_some()),
    ];
    let given: Vec<&str> = kinds.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    let [kind] = given[..] else {
        let known = kinds.map(|(name, _)| name).join(", ");
        return match given.len() {
            0 => wrong(format!("it has none of {known}")),
            _ => wrong(format!("{} exclude each other", given.join(" and "))),
        };
    };
    let linear = matches!(kind, "output" | "each" | "sum");
    if let Some(limit) = raw.first_limit().filter(|_| !linear) {
        return wrong(format!("'{limit}' needs an output, each or sum beside it, not {kind}"));
    }
    if raw.of.is_some() != (kind == "count") {
        return wrong("count and of belong together".into());
    }
    match kind {
        "all" => Ok(Clause::All(clauses(raw.all, &format!("{at}.all"))?)),
        "any" => Ok(Clause::Any(clauses(raw.any, &format!("{at}.any"))?)),
        "count" => {
            let (count, of) = (raw.count.unwrap_or(0), clauses(raw.of, &format!("{at}.of"))?);
            if !(1..=of.len()).contains(&count) {
                return wrong(format!("count is {count} of {}", of.len()));
            }
            Ok(Clause::Count(count, of))
        }
        "not" => Ok(Clause::Not(Box::new(clause(*raw.not.unwrap_or_default(), &format!("{at}.not"))?))),
        "predicted" => Ok(Clause::Predicted(references(raw.predicted, at)?)),
        "never" => Ok(Clause::Never(references(raw.never, at)?)),
        "top" => match raw.top.unwrap_or(0) {
            0 => wrong("top is 0, must be at least 1".into()),
            kept => Ok(Clause::Top(kept)),
        },
        "lead" => Ok(Clause::Lead(raw.lead.unwrap_or(0.0))),
        _ => Ok(Clause::Linear(raw.quantities(at)?, raw.limits(at)?)),
    }
}

fn clauses(raw: Option<Vec<RawClause>>, at: &str) -> Result<Vec<Clause>, String> {
    let raw = raw.unwrap_or_default();
    if raw.is_empty() {
        return Err(format!("{at}: the list is empty"));
    }
    raw.into_iter().enumerate().map(|(i, raw)| clause(raw, &format!("{at}[{i}]"))).collect()
}

/// One output, or a list of them.
fn references(value: Option<Value>, at: &str) -> Result<Vec<Reference>, String> {
    match value {
        Some(Value::Array(list)) if list.is_empty() => Err(format!("{at}: the list is empty")),
        Some(Value::Array(list)) => list.iter().map(|value| reference(value, at)).collect(),
        Some(value) => Ok(vec![reference(&value, at)?]),
        None => Err(format!("{at}: there is no output")),
    }
}

fn reference(value: &Value, at: &str) -> Result<Reference, String> {
    match value {
        Value::String(name) => Ok(Reference::of(name)),
        Value::Number(number) => match number.as_u64().and_then(|n| usize::try_from(n).ok()) {
            Some(number) => Ok(Reference::Number(number)),
            None => Err(format!("{at}: {number} is no number of an output")),
        },
        other => Err(format!("{at}: {other} is no output; give a name, a number or \"@label\"")),
    }
}

impl Reference {
    /// An output by its name, by its number behind a `#`, or that of the label. What is meant is known where names are.
    pub fn of(name: &str) -> Self {
        match name {
            "@label" => Self::Label,
            _ => Self::Name(name.to_owned()),
        }
    }
}

impl RawClause {
    /// The first key given that is a limit.
    fn first_limit(&self) -> Option<&'static str> {
        let limits = [
            ("above", self.above.is_some()),
            ("at_least", self.at_least.is_some()),
            ("below", self.below.is_some()),
            ("at_most", self.at_most.is_some()),
            ("between", self.between.is_some()),
            ("within", self.within.is_some()),
            ("from", self.from.is_some()),
        ];
        limits.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    fn quantities(&self, at: &str) -> Result<Quantities, String> {
        match (&self.sum, &self.each) {
            (Some(Terms(sum)), _) if sum.is_empty() => Err(format!("{at}: the sum is empty")),
            (Some(Terms(sum)), _) => {
                Ok(Quantities::Sum(sum.iter().map(|(name, factor)| (Reference::of(name), *factor)).collect()))
            }
            (None, Some(Value::String(all))) if all == "all" => Ok(Quantities::Each),
            (None, Some(each)) => Ok(Quantities::Outputs(references(Some(each.clone()), at)?)),
            (None, None) => Ok(Quantities::Outputs(references(self.output.clone(), at)?)),
        }
    }

    fn limits(&self, at: &str) -> Result<Limits, String> {
        let wrong = |what: String| Err(format!("{at}: {what}"));
        let mut limits = Limits {
            above: self.above,
            at_least: self.at_least,
            below: self.below,
            at_most: self.at_most,
            within: None,
        };
        if let Some([low, high]) = self.between {
            if self.at_least.is_some() || self.at_most.is_some() {
                return wrong("between stands for at_least and at_most; give one or the other".into());
            }
            if low > high {
                return wrong(format!("between {low} and {high} there is nothing"));
            }
            (limits.at_least, limits.at_most) = (Some(low), Some(high));
        }
        match (self.within, self.from) {
            (Some(distance), _) if distance < 0.0 => return wrong(format!("within is {distance}, below 0")),
            (Some(distance), from) => limits.within = Some((distance, from.unwrap_or(Origin::Nominal))),
            (None, Some(_)) => return wrong("from needs within beside it".into()),
            (None, None) => {}
        }
        if limits == Limits::default() {
            return wrong("it has none of above, at_least, below, at_most, between, within".into());
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let text = r##"{"format": "gains-property", "version": 1, "name": "both", "require": {"all": [
            {"output": "Lactate", "below": 4}, {"any": [{"sum": {"a": 1, "#3": -2.5}, "between": [-1, 1]},
            {"not": {"predicted": ["@label", 2]}}]}, {"each": "all", "within": 0.5, "from": "target"},
            {"count": 1, "of": [{"top": 3}, {"lead": 0.25}, {"never": "cat"}]}]}}"##;
        let spec = Spec::parse(text).unwrap();
        let Clause::All(parts) = &spec.require else { panic!() };
        let lactate = Quantities::Outputs(vec![Reference::Name("Lactate".into())]);
        assert_eq!(parts[0], Clause::Linear(lactate, Limits { below: Some(4.0), ..Limits::default() }));
        let Clause::Any(either) = &parts[1] else { panic!() };
        let sum = vec![(Reference::Name("#3".into()), -2.5), (Reference::Name("a".into()), 1.0)];
        let limits = Limits { at_least: Some(-1.0), at_most: Some(1.0), ..Limits::default() };
        assert_eq!(either[0], Clause::Linear(Quantities::Sum(sum), limits));
        let classes = vec![Reference::Label, Reference::Number(2)];
        assert_eq!(either[1], Clause::Not(Box::new(Clause::Predicted(classes))));
        let within = Limits { within: Some((0.5, Origin::Target)), ..Limits::default() };
        assert_eq!(parts[2], Clause::Linear(Quantities::Each, within));
        assert_eq!(Spec::parse(spec.text()).unwrap(), spec);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let refused = |text: &str, message: &str| {
            let error = Spec::parse(&format!("{{\"require\": {text}}}")).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        };
        refused("{}", "require: it has none of all, any");
        refused(r#"{"all": []}"#, "require.all: the list is empty");
        refused(r#"{"all": [{"top": 1}, {"top": 0}]}"#, "require.all[1]: top is 0");
        refused(r#"{"any": [{"output": 1}]}"#, "require.any[0]: it has none of above");
        refused(r#"{"output": 1, "sum": {"a": 1}, "above": 0}"#, "output and sum exclude each other");
        refused(r#"{"output": -1, "above": 0}"#, "-1 is no number");
        refused(r#"{"output": [[1]], "above": 0}"#, "[1] is no output");
        refused(r#"{"output": 1, "between": [2, 1]}"#, "there is nothing");
        refused(r#"{"output": 1, "within": -1}"#, "below 0");
        refused(r#"{"output": 1, "above": 1, "from": "target"}"#, "needs within");
        refused(r#"{"count": 2, "of": [{"top": 1}]}"#, "count is 2 of 1");
        refused(r#"{"count": 2}"#, "belong together");
        refused(r#"{"top": 1, "below": 3}"#, "'below' needs an output");
        refused(r#"{"output": 1, "above": "high"}"#, "invalid type");
        refused(r#"{"sum": {"a": 1, "b": 2, "a": 3}, "above": 0}"#, "names output 'a' twice");
        refused(r#"{"sum": 3, "above": 0}"#, "expected outputs and their factors");
        refused(r#"{"output": 1, "above": 0, "above": 1}"#, "duplicate field `above`");
        refused(r#"{"output": 1, "abvoe": 3}"#, "unknown field `abvoe`");
        refused(r#"{"output": 1, "above": 1e999}"#, "number out of range");
        assert!(Spec::parse("{}").unwrap_err().contains("require"));
        assert!(Spec::parse(r#"{"version": 2, "require": {"top": 1}}"#).unwrap_err().contains("version 1"));
        let deep =
            format!("{{\"require\": {}{}{}}}", "{\"not\": ".repeat(500), "{\"top\": 1}", "}".repeat(500));
        assert!(Spec::parse(&deep).unwrap_err().contains("recursion"));
    }

    /// Files that are cut, changed and mixed up are read or refused; nothing else happens.
    #[test]
    fn mangled_files_are_read_or_refused() {
        const WHOLE: &str = r##"{"scale": "network", "require": {"all": [{"output": "a", "below": 4e3, "above": -1},
            {"any": [{"sum": {"a": 1, "#3": -2.5}, "between": [-1, 1]}, {"not": {"never": ["@label", 2]}}]},
            {"each": ["a", 0], "within": 0.5, "from": "target"}, {"count": 1, "of": [{"top": 3}, {"lead": 0.25}]}]}}"##;
        const PIECES: [&str; 16] = [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "null",
            "-",
            "1e999",
            "\"",
            "\"all\":[",
            "\"not\":{",
            "18446744073709551616",
            "\u{0}",
            "\"@label\"",
            "true",
        ];
        let mut random = fastrand::Rng::with_seed(11);
        let (mut read, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut text: Vec<char> = WHOLE.chars().collect();
            for _ in 0..random.usize(0..4) {
                let at = random.usize(0..text.len());
                match random.u8(0..4) {
                    0 => text.truncate(at + 1),
                    1 => drop(text.remove(at)),
                    2 => text.splice(at..at, PIECES[random.usize(0..PIECES.len())].chars()).for_each(drop),
                    _ => {
                        let end = (at + random.usize(1..40)).min(text.len());
                        let part: Vec<char> = text.drain(at..end).collect();
                        let to = random.usize(0..=text.len());
                        text.splice(to..to, part).for_each(drop);
                        if text.is_empty() {
                            text.push(' ');
                        }
                    }
                }
            }
            let text: String = text.into_iter().collect();
            match Spec::parse(&text) {
                Ok(spec) => {
                    assert_eq!(Spec::parse(spec.text()).as_ref(), Ok(&spec), "{text}");
                    read += 1;
                }
                Err(error) => {
                    assert!(!error.is_empty() && !error.contains('\n'), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(read > 2000 && refused > 8000, "{read} read, {refused} refused");
    }
}
