//! Lines of JSON: one sample each.

use serde_json::Value;

use super::array::{first_line, shorten};
use super::{Fault, Label, MOST_ENTRIES, Numbers, OwnInputs};

/// Reads lines `{"x": [...], "y": 3}`; `x` may be nested lists, `y` a number or the name of a class.
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

fn sample(line: &str) -> Result<(Value, Option<Label>), String> {
    let object = match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err("it is no JSON object".into()),
        Err(error) => return Err(first_line(&error.to_string())),
    };
    let (mut x, mut y) = (None, None);
    for (key, value) in object {
        let place = match key.as_str() {
            "x" | "inputs" => &mut x,
            "y" | "label" => &mut y,
            other => return Err(format!("its key '{}' is not known", shorten(other))),
        };
        if place.replace(value).is_some() {
            return Err(format!("it says '{key}' twice, in two words"));
        }
    }
    let x = x.ok_or("it has no 'x'")?;
    let y = match y {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(Label::Name(name)),
        Some(value) => {
            let number = value.as_f64().filter(|number| number.is_finite());
            Some(Label::Number(number.ok_or_else(|| format!("its y is {}", shorten(&value.to_string())))?))
        }
    };
    Ok((x, y))
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
