//! From the text of a file to what it says.
//!
//! A file shows what it is by its first line. Whatever does not fit is an error with its place; only the last line of a
//! file may be cut off, since a run that is still going on, or was killed, leaves such.

mod bounds;
mod lines;
mod metrics;
mod single;

use serde_json::{Map, Value};

use crate::document::Document;

/// Tells whether a line is as it was written: nothing, or what is wrong with it.
pub type Check<'a> = dyn Fn(&Map<String, Value>) -> Result<(), String> + 'a;

/// Why a file cannot be shown.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ReadError {
    /// There is nothing in it.
    #[error("'{name}' is empty")]
    Empty {
        /// Name of the file.
        name: String,
    },
    /// Nothing that this program writes.
    #[error("'{name}' is no result file: {what}")]
    Foreign {
        /// Name of the file.
        name: String,
        /// What was found instead.
        what: String,
    },
    /// A line does not fit.
    #[error("'{name}' line {line}: {what}")]
    Line {
        /// Name of the file.
        name: String,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

impl ReadError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty { .. } => "nothing has been finished yet; try again later",
            Self::Foreign { .. } => {
                "give what certify, eval, radius, attack (--out), forecast, trajectory (--json), study or train (metrics.csv) write"
            }
            Self::Line { .. } => {
                "is the file complete and unedited? docs/results-format.md says what it holds"
            }
        }
    }
}

/// Reads a file by its text; `check` judges lines of verdicts.
pub fn read(name: &str, text: &str, check: &Check<'_>) -> Result<Document, ReadError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(first) = text.lines().find(|line| !line.trim().is_empty()) else {
        return Err(ReadError::Empty { name: name.into() });
    };
    let foreign = |what: &str| Err(ReadError::Foreign { name: name.into(), what: what.into() });
    if !first.trim_start().starts_with('{') {
        return match metrics::is_header(first) {
            true => metrics::read(name, text),
            false => foreign("it begins neither with a JSON object nor with the columns of a training run"),
        };
    }
    let object = match serde_json::from_str(first) {
        Ok(Value::Object(object)) => object,
        // One object over several lines is fine for what is one object.
        _ => match serde_json::from_str(text) {
            Ok(Value::Object(object)) => object,
            _ => return foreign("its first line is no complete JSON object"),
        },
    };
    let is_list = |key: &str| object.get(key).is_some_and(Value::is_array);
    if is_list("trajectory") && is_list("vertices") {
        single::trajectory(name, &object).map(Document::Trajectory)
    } else if is_list("features") && object.contains_key("time") {
        single::forecast(name, &object).map(Document::Forecast)
    } else if object.contains_key("verdict") && object.contains_key("index") {
        lines::verdicts(name, text, check).map(Document::Verdicts)
    } else if object.contains_key("found") && object.contains_key("index") {
        lines::attacks(name, text).map(Document::Attacks)
    } else if object.contains_key("study") && object.contains_key("case") {
        lines::study(name, text).map(Document::Study)
    } else {
        foreign("its keys are none that certify, eval, attack, radius, forecast, trajectory or study write")
    }
}

/// Reads values out of an object, with the name of what is missing.
struct Keys<'a>(&'a Map<String, Value>);

impl Keys<'_> {
    fn get(&self, key: &str) -> &Value {
        self.0.get(key).unwrap_or(&Value::Null)
    }

    fn number(&self, key: &str) -> Result<f64, String> {
        self.get(key).as_f64().filter(|v| v.is_finite()).ok_or_else(|| self.wrong(key, "a number"))
    }

    fn whole(&self, key: &str) -> Result<usize, String> {
        let value = self.get(key).as_u64().and_then(|v| usize::try_from(v).ok());
        value.ok_or_else(|| self.wrong(key, "a whole number"))
    }

    fn maybe_number(&self, key: &str) -> Result<Option<f64>, String> {
        if self.get(key).is_null() { Ok(None) } else { self.number(key).map(Some) }
    }

    fn maybe_whole(&self, key: &str) -> Result<Option<usize>, String> {
        if self.get(key).is_null() { Ok(None) } else { self.whole(key).map(Some) }
    }

    fn text(&self, key: &str) -> Result<String, String> {
        self.get(key).as_str().map(String::from).ok_or_else(|| self.wrong(key, "text"))
    }

    fn maybe_text(&self, key: &str) -> Result<Option<String>, String> {
        if self.get(key).is_null() { Ok(None) } else { self.text(key).map(Some) }
    }

    fn list(&self, key: &str) -> Result<&Vec<Value>, String> {
        self.get(key).as_array().ok_or_else(|| self.wrong(key, "a list"))
    }

    fn wrong(&self, key: &str, what: &str) -> String {
        match self.0.get(key) {
            None => format!("'{key}' is missing"),
            Some(_) => format!("'{key}' is not {what}"),
        }
    }
}

/// The entries of a list, each an object.
fn objects<'a, T>(
    list: &'a [Value],
    what: &str,
    read: impl Fn(Keys<'a>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let entry = |(i, value): (usize, &'a Value)| {
        let object = value.as_object().ok_or_else(|| format!("{what} {i} is no object"))?;
        read(Keys(object)).map_err(|e| format!("{what} {i}: {e}"))
    };
    list.iter().enumerate().map(entry).collect()
}

/// A list of finite numbers.
fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(|v| v.as_f64().filter(|v| v.is_finite())).collect()
}

#[cfg(test)]
mod tests;
