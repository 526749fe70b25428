//! Lines as text: JSON or CSV, with a check against accidents.
//!
//! `check` is the beginning of a SHA-256 over all other keys. It shows that a line was cut, edited or mixed up; it does
//! not keep anybody from writing another one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::line::Line;
use crate::cli::Format;
use crate::failure::Failure;
use crate::question::{StageTime, Task};

const CHECK: &str = "check";

/// The keys of lines about images, in order; those that earlier versions had come first.
const IMAGE_KEYS: [&str; 26] = [
    "index",
    "label",
    "prediction",
    "eps",
    "verdict",
    "reason",
    "margin",
    "vertices",
    "edges",
    "seconds",
    "stages",
    "looseness",
    "method",
    "arithmetic",
    "model",
    "version",
    "reason_code",
    "witness",
    "data",
    "split",
    "step_form",
    "attack",
    "timeout",
    "max_vertices",
    "max_memory",
    CHECK,
];

/// The keys of lines about series.
const SERIES_KEYS: [&str; 36] = [
    "index",
    "record",
    "eps",
    "verdict",
    "reason",
    "mae",
    "limit",
    "certified_mae",
    "attacked_mae",
    "vertices",
    "edges",
    "seconds",
    "stages",
    "method",
    "arithmetic",
    "question",
    "model",
    "version",
    "reason_code",
    "witness",
    "data",
    "split",
    "data_hash",
    "order",
    "horizon",
    "grid",
    "nu",
    "delta",
    "features",
    "feature_eps",
    "step_form",
    "attack",
    "timeout",
    "max_vertices",
    "max_memory",
    CHECK,
];

/// Keys that hold text, which CSV does not tell from numbers.
const TEXT: [&str; 17] = [
    "record",
    "verdict",
    "reason",
    "reason_code",
    "looseness",
    "method",
    "arithmetic",
    "question",
    "model",
    "version",
    "data",
    "split",
    "data_hash",
    "order",
    "grid",
    "step_form",
    CHECK,
];

fn keys(task: Task) -> &'static [&'static str] {
    match task {
        Task::Classes => &IMAGE_KEYS,
        Task::Forecasts => &SERIES_KEYS,
    }
}

/// The first line of a file, if it has one.
pub fn header(task: Task, format: Format) -> Option<String> {
    (format == Format::Csv).then(|| keys(task).join(",") + "\n")
}

/// The first 16 hexadecimal digits of the SHA-256 of a line without its check: keys sorted, no spaces, numbers as
/// short as they can be.
fn check_of(object: &Map<String, Value>) -> String {
    let sorted: BTreeMap<&String, &Value> = object.iter().filter(|(key, _)| *key != CHECK).collect();
    let text = serde_json::to_string(&sorted).unwrap_or_default();
    Sha256::digest(text.as_bytes()).iter().take(8).fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

fn object_of(line: &Line) -> Result<Map<String, Value>, String> {
    match serde_json::to_value(line).map_err(|e| e.to_string())? {
        Value::Object(object) => Ok(object),
        other => Err(format!("{other} is no object")),
    }
}

/// A line as text, with its end.
pub fn encode(line: &Line, format: Format) -> Result<String, Failure> {
    let broken = |e: String| Failure::new(format!("cannot encode a result: {e}"));
    let mut object = object_of(line).map_err(broken)?;
    object.insert(CHECK.into(), check_of(&object).into());
    let values = keys(line.task()).iter().map(|key| (*key, object.get(*key).unwrap_or(&Value::Null)));
    match format {
        Format::Jsonl => {
            let entries: Vec<String> = values.map(|(key, value)| format!("\"{key}\":{value}")).collect();
            Ok(format!("{{{}}}\n", entries.join(",")))
        }
        Format::Csv => {
            let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
            writer
                .write_record(values.map(|(key, value)| cell(key, value)))
                .map_err(|e| broken(e.to_string()))?;
            let bytes = writer.into_inner().map_err(|e| broken(e.to_string()))?;
            String::from_utf8(bytes).map_err(|e| broken(e.to_string()))
        }
    }
}

/// A value as a cell of a table: nothing for null, stages as `name seconds, name seconds`, other lists as JSON.
fn cell(key: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(stages) if key == "stages" => {
            let stage = |stage: &Value| {
                let name = stage["name"].as_str().unwrap_or_default();
                format!("{name} {}", stage["seconds"])
            };
            stages.iter().map(stage).collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}

/// What a cell says.
fn value_of(key: &str, cell: &str) -> Result<Value, String> {
    let fail = |_| format!("{key} is '{cell}'");
    match key {
        "stages" if cell.is_empty() => Ok(Value::Array(Vec::new())),
        "stages" => {
            let stage = |text: &str| -> Result<Value, String> {
                let (name, seconds) = text.rsplit_once(' ').ok_or_else(|| format!("stages are '{cell}'"))?;
                let seconds = seconds.parse::<f64>().map_err(|_| format!("stages are '{cell}'"))?;
                serde_json::to_value(StageTime { name: name.into(), seconds }).map_err(|e| e.to_string())
            };
            Ok(Value::Array(cell.split(", ").map(stage).collect::<Result<_, _>>()?))
        }
        _ if cell.is_empty() => Ok(Value::Null),
        _ if TEXT.contains(&key) => Ok(Value::String(cell.into())),
        _ => serde_json::from_str(cell).map_err(fail),
    }
}

/// Reads a line strictly: it must be exactly what this program writes, and unchanged.
pub fn parse(text: &str, format: Format, task: Task) -> Result<Line, String> {
    let object = match format {
        Format::Jsonl => match serde_json::from_str(text).map_err(|e| e.to_string())? {
            Value::Object(object) => object,
            _ => return Err("it is no JSON object".into()),
        },
        Format::Csv => {
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
            let cells = reader.records().next().ok_or("it is empty")?.map_err(|e| e.to_string())?;
            let keys = keys(task);
            if cells.len() != keys.len() {
                return Err(format!("it has {} columns, not {}", cells.len(), keys.len()));
            }
            let pairs = keys.iter().zip(&cells).map(|(key, cell)| Ok(((*key).into(), value_of(key, cell)?)));
            pairs.collect::<Result<_, String>>()?
        }
    };
    let Some(Value::String(check)) = object.get(CHECK) else {
        return Err("it has no 'check': an earlier version or another program wrote it".into());
    };
    let line: Line = serde_json::from_value(Value::Object(object.clone())).map_err(|e| e.to_string())?;
    let again = object_of(&line)?;
    let differs = |key: &&String| key.as_str() != CHECK && again.get(*key) != object.get(*key);
    if let Some(key) = object.keys().chain(again.keys()).find(differs) {
        let what = match (object.get(key), again.get(key)) {
            (_, None) => "is not known",
            (None, _) => "is missing",
            _ => "holds what this program would not write",
        };
        return Err(format!("its key '{key}' {what}"));
    }
    if *check != check_of(&object) {
        return Err("it was changed after it was written (its 'check' does not fit)".into());
    }
    Ok(line)
}

/// Where two settings differ, in words; empty where they do not.
pub fn differences(theirs: &impl serde::Serialize, ours: &impl serde::Serialize) -> Vec<String> {
    let (Ok(Value::Object(theirs)), Ok(Value::Object(ours))) =
        (serde_json::to_value(theirs), serde_json::to_value(ours))
    else {
        return vec!["settings cannot be compared".into()];
    };
    let mut keys: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
    keys.sort();
    keys.dedup();
    let shown = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "nothing".to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    keys.into_iter()
        .filter(|key| theirs.get(*key) != ours.get(*key))
        .map(|key| format!("{key} {} there, {} here", shown(theirs.get(key)), shown(ours.get(key))))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gains_core::Arithmetic;

    use super::*;
    use crate::question::{AttackPlan, Witness};
    use crate::results::{ForecastSetting, SamplePart, Setting, SubjectSetting, VerdictWord};

    fn setting(forecast: Option<ForecastSetting>) -> Setting {
        Setting {
            method: "auto".into(),
            step_form: "difference".into(),
            arithmetic: Arithmetic::Float32,
            attack: Some(AttackPlan::PAPER),
            timeout: 10.0,
            max_vertices: 20_000,
            max_memory: 4096,
            subject: SubjectSetting { data: "mnist".into(), split: "test".into(), forecast },
            model: "00112233445566ff".into(),
            version: "0.1.0".into(),
        }
    }

    fn image(verdict: VerdictWord) -> Line {
        Line {
            index: 7,
            sample: SamplePart::Image {
                label: 3,
                prediction: Some(3),
                margin: Some(0.1 + 0.2),
                looseness: None,
            },
            eps: 0.0,
            verdict,
            reason: Some("so, \"quoted\"".into()),
            reason_code: Some("loose".into()),
            vertices: None,
            edges: Some(5),
            seconds: 1e-6,
            stages: vec![
                StageTime { name: "attack".into(), seconds: 0.012_345 },
                StageTime { name: "tight".into(), seconds: 1e-6 },
            ],
            witness: Some(Witness::Image(vec![0.5, 1.0 / 3.0, 0.0])),
            setting: setting(None),
        }
    }

    fn series() -> Line {
        let forecast = ForecastSetting {
            data_hash: "abcd1234".into(),
            order: "sorted".into(),
            horizon: 6.0,
            grid: "own".into(),
            nu: 0.1,
            delta: 0.01,
            features: vec!["pulse, mean".into()],
            feature_eps: BTreeMap::from([("pulse, mean".into(), 0.5)]),
            question: "csv abcd1234".into(),
        };
        let (mae, limit) = (Some(0.4), Some(0.45));
        Line {
            sample: SamplePart::Record {
                record: "r,1".into(),
                mae,
                limit,
                certified_mae: None,
                attacked_mae: Some(2.0),
            },
            stages: Vec::new(),
            witness: Some(Witness::Series { statics: vec![1.0], times: vec![0.0], values: vec![0.25, -0.5] }),
            setting: setting(Some(forecast)),
            ..image(VerdictWord::Falsified)
        }
    }

    #[test]
    fn lines_come_back_from_both_formats() {
        for line in [image(VerdictWord::Unknown), image(VerdictWord::Verified), series()] {
            for format in [Format::Jsonl, Format::Csv] {
                let text = encode(&line, format).unwrap();
                assert_eq!(parse(&text, format, line.task()).as_ref(), Ok(&line), "{text}");
            }
            let object: Map<String, Value> =
                serde_json::from_str(&encode(&line, Format::Jsonl).unwrap()).unwrap();
            let mut found: Vec<&str> = object.keys().map(String::as_str).collect();
            let mut promised = keys(line.task()).to_vec();
            found.sort_unstable();
            promised.sort_unstable();
            assert_eq!(found, promised, "every key of the type is written, and no other");
        }
    }

    /// The check depends on what a line says, not on how it is laid out.
    #[test]
    fn another_layout_is_no_change() {
        let text = encode(&series(), Format::Jsonl).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(parse(&pretty, Format::Jsonl, Task::Forecasts), Ok(series()));
    }

    #[test]
    fn whatever_was_changed_is_noticed() {
        let text = encode(&image(VerdictWord::Unknown), Format::Jsonl).unwrap();
        let refused = |from: &str, to: &str, message: &str| {
            assert!(text.contains(from), "{from}\n{text}");
            let error = parse(&text.replace(from, to), Format::Jsonl, Task::Classes).unwrap_err();
            assert!(error.contains(message), "{from} → {to}: {error}");
        };
        refused("\"unknown\"", "\"verified\"", "was changed");
        refused("\"unknown\"", "\"probably\"", "probably");
        refused("\"index\":7", "\"index\":8", "was changed");
        refused("\"index\":7", "\"index\":7,\"mood\":1", "'mood' is not known");
        refused("\"edges\":5,", "", "'edges' is missing");
        refused("\"data\":\"mnist\"", "\"data\":\"fashion-mnist\"", "was changed");
        refused("\"check\":", "\"cheque\":", "no 'check'");
        assert!(parse("[]", Format::Jsonl, Task::Classes).is_err());
        assert!(parse("{\"index\":5", Format::Jsonl, Task::Classes).is_err());
        let csv = encode(&image(VerdictWord::Unknown), Format::Csv).unwrap();
        let error = parse(&csv.replace("unknown", "verified"), Format::Csv, Task::Classes).unwrap_err();
        assert!(error.contains("was changed"), "{error}");
        assert!(parse("1,2,3\n", Format::Csv, Task::Classes).is_err());
    }
}
