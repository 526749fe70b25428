//! Lines of JSON: one sample each.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::array::{first_line, shorten};
use super::{Fault, Label, MOST_ENTRIES, Numbers, OwnInputs};

/// Reads lines `{"x": [...], "y": 3}`; `x` may be nested lists, `y` a number, several in a list, or the name of a class.
pub(super) fn parse(bytes: &[u8]) -> Result<OwnInputs, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::Unknown)?;
    let mut shape: Option<Vec<usize>> = None;
    let (mut values, mut labels, mut samples) = (Vec::new(), Vec::new(), 0);
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |problem: String| Fault::Line { line: at + 1, problem };
        let (x, y) = sample(line).map_err(wrong)?;
        let mut axes = Vec::new();
        let first = values.len();
        flatten(&x, 0, &mut axes, first, &mut values).map_err(wrong)?;
        if values.len() > MOST_ENTRIES {
            return Err(Fault::TooMany);
        }
        let first = shape.get_or_insert_with(|| axes.clone());
        if *first != axes {
            return Err(wrong(format!("its x has the axes {axes:?}, those before have {first:?}")));
        }
        if let (Some(before), Some(now)) = (labels.first(), &y)
            && count(before) != count(now)
        {
            return Err(wrong(format!(
                "its y has the axes {:?}, those before have {:?}",
                count(now),
                count(before)
            )));
        }
        labels.extend(y);
        samples += 1;
        if !labels.is_empty() && labels.len() != samples {
            return Err(wrong("either all samples have a y, or none".into()));
        }
    }
    let labels = (!labels.is_empty()).then_some(labels);
    let (shape, numbers) = (shape.unwrap_or_default(), Numbers::Plain);
    Ok(OwnInputs { samples, shape, values, numbers, columns: None, labels, classes: None })
}

/// The keys of an object and their values, as they stand there: a map would keep the last of two that are alike.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

fn sample(line: &str) -> Result<(Value, Option<Label>), String> {
    if !line.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(line).is_ok() {
        return Err("it is no JSON object, which begins with {".into());
    }
    let Pairs(pairs) = serde_json::from_str(line).map_err(|error| first_line(&error.to_string()))?;
    let (mut x, mut y) = (None, None);
    for (key, value) in pairs {
        let place = match key.as_str() {
            "x" | "inputs" => &mut x,
            "y" | "label" => &mut y,
            other => return Err(format!("its key '{}' is not known", shorten(other))),
        };
        if place.replace(value).is_some() {
            return Err(format!("it says '{key}' twice"));
        }
    }
    let x = x.ok_or("it has no 'x'")?;
    let y = match y {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(Label::Name(name)),
        Some(Value::Array(list)) => {
            let numbers: Option<Vec<f64>> = list.iter().map(Value::as_f64).collect();
            let numbers = numbers.filter(|numbers| !numbers.is_empty());
            Some(Label::Numbers(numbers.ok_or_else(|| {
                format!("its y is {}, not a list of numbers", shorten(&Value::Array(list).to_string()))
            })?))
        }
        Some(value) => {
            let number = value.as_f64().filter(|number| number.is_finite());
            Some(Label::Number(number.ok_or_else(|| format!("its y is {}", shorten(&value.to_string())))?))
        }
    };
    Ok((x, y))
}

/// How many numbers a list of them has; nothing for what is no list.
fn count(label: &Label) -> Vec<usize> {
    match label {
        Label::Numbers(numbers) => vec![numbers.len()],
        Label::Number(_) | Label::Name(_) | Label::Written(..) => Vec::new(),
    }
}

/// Appends all numbers of nested lists; all lists of one depth have one length. `first` is where the numbers of the sample
/// begin: after one of them, there is no deeper list.
fn flatten(
    value: &Value,
    depth: usize,
    axes: &mut Vec<usize>,
    first: usize,
    out: &mut Vec<f64>,
) -> Result<(), String> {
    match value {
        Value::Array(list) => {
            match axes.get(depth) {
                None if out.len() > first => return Err("its lists are of different depth".into()),
                None => axes.push(list.len()),
                Some(length) if *length != list.len() => {
                    return Err(format!("its lists are of {length} and of {} entries", list.len()));
                }
                Some(_) => {}
            }
            list.iter().try_for_each(|value| flatten(value, depth + 1, axes, first, out))
        }
        Value::Number(number) if depth == axes.len() => {
            out.push(number.as_f64().ok_or_else(|| format!("{number} is no float64"))?);
            Ok(())
        }
        Value::Number(_) => Err("its lists are of different depth".into()),
        other => Err(format!("its x holds {}, not a number", shorten(&other.to_string()))),
    }
}
