//! Lines as text: JSON or CSV, with a check against accidents.
//!
//! `check` is the beginning of a SHA-256 over all other keys. It shows that a line was cut, edited or mixed up; it does
//! not keep anybody from writing another one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::line::{Line, Setting};
use crate::cli::Format;
use crate::failure::Failure;
use crate::question::{StageTime, Task};

const CHECK: &str = "check";

/// The keys of lines about images, in order; those that earlier versions had come first.
const IMAGE_KEYS: [&str; 28] = [
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
    "property",
    "bounds",
    CHECK,
];

/// The keys of lines about networks that predict numbers.
const NUMBER_KEYS: [&str; 28] = [
    "index",
    "output",
    "truth",
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
    "property",
    "bounds",
    CHECK,
];

/// The keys that lines about inputs of one's own have besides, before the check.
const INPUT_KEYS: [&str; 7] =
    ["inputs_hash", "box_hash", "norm", "range", "features", "feature_eps", "question"];

/// The keys of lines about series.
const SERIES_KEYS: [&str; 39] = [
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
    "margin",
    "property",
    "bounds",
    CHECK,
];

/// Keys that hold text, which CSV does not tell from numbers.
const TEXT: [&str; 23] = [
    "certificate",
    "bisect",
    "inputs_hash",
    "box_hash",
    "norm",
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
    "property",
    CHECK,
];

/// Keys that lines of earlier versions lack.
const LATER: [&str; 1] = ["bounds"];

/// The keys that lines of `gains radius` have besides, before the check.
const RADIUS_KEYS: [&str; 5] = ["certified_radius", "attacked_radius", "probes", "gap", "bisect"];

/// The keys that tell of certificates, where these are wanted, before the check.
const CERTIFICATE_KEYS: [&str; 2] = ["certificate", "checked"];

/// Which keys the lines of a file have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    kind: Kind,
    radius: bool,
    certificates: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Those about images of a known set.
    Images,
    /// The same, and those about inputs of one's own.
    Inputs,
    /// Those about networks that predict numbers, and about inputs of one's own.
    Numbers,
    /// Those about series.
    Series,
}

impl Keys {
    /// The keys of lines about a collection.
    pub fn of(task: Task, setting: &Setting) -> Self {
        let kind = match (task, &setting.subject.inputs) {
            (Task::Forecasts, _) => Kind::Series,
            (Task::Regression, _) => Kind::Numbers,
            (Task::Classes, Some(_)) => Kind::Inputs,
            (Task::Classes, None) => Kind::Images,
        };
        Self { kind, radius: setting.radius.is_some(), certificates: setting.certificates }
    }

    fn list(self) -> Vec<&'static str> {
        let (own, inputs): (&[&str], &[&str]) = match self.kind {
            Kind::Images => (&IMAGE_KEYS, &[]),
            Kind::Series => (&SERIES_KEYS, &[]),
            Kind::Inputs => (&IMAGE_KEYS, &INPUT_KEYS),
            Kind::Numbers => (&NUMBER_KEYS, &INPUT_KEYS),
        };
        let radius: &[&str] = if self.radius { &RADIUS_KEYS } else { &[] };
        let certificates: &[&str] = if self.certificates { &CERTIFICATE_KEYS } else { &[] };
        let all = own[..own.len() - 1].iter().chain(inputs).chain(radius).chain(certificates);
        all.copied().chain([CHECK]).collect()
    }
}

/// The first line of a file, if it has one.
pub fn header(keys: Keys, format: Format) -> Option<String> {
    (format == Format::Csv).then(|| keys.list().join(",") + "\n")
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

/// Whether a line is as it was written.
pub fn fits_check(object: &Map<String, Value>) -> Result<(), String> {
    match object.get(CHECK) {
        Some(Value::String(check)) if *check == check_of(object) => Ok(()),
        Some(_) => Err("it was changed after it was written (its 'check' does not fit)".into()),
        None => Err("it has no 'check': an earlier version or another program wrote it".into()),
    }
}

/// A result file in CSV as JSON lines; nothing if its header is of another table. A last row without an end is cut off.
pub fn json_lines(text: &str) -> Option<Result<String, String>> {
    let (header, rows) = text.split_once('\n')?;
    let columns: Vec<&str> = header.trim_end().split(',').collect();
    if !columns.contains(&"verdict") || !columns.contains(&"index") {
        return None;
    }
    let rows =
        if rows.ends_with('\n') { rows } else { rows.rsplit_once('\n').map_or("", |(whole, _)| whole) };
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(rows.as_bytes());
    let row = |(number, record): (usize, csv::Result<csv::StringRecord>)| {
        let at = |what: String| format!("line {}: {what}", number + 2);
        let cells = record.map_err(|e| at(e.to_string()))?;
        if cells.len() != columns.len() {
            return Err(at(format!("it has {} columns, not {}", cells.len(), columns.len())));
        }
        let pairs = columns.iter().zip(&cells).map(|(key, cell)| Ok(((*key).into(), value_of(key, cell)?)));
        let object = pairs.collect::<Result<Map<_, _>, String>>().map_err(at)?;
        Ok(Value::Object(object).to_string() + "\n")
    };
    Some(reader.records().enumerate().map(row).collect())
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
    let keys = Keys::of(line.task(), &line.setting).list();
    let values = keys.iter().map(|key| (*key, object.get(*key).unwrap_or(&Value::Null)));
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
pub fn parse(text: &str, format: Format, keys: Keys) -> Result<Line, String> {
    let object = match format {
        Format::Jsonl => match serde_json::from_str(text).map_err(|e| e.to_string())? {
            Value::Object(object) => object,
            _ => return Err("it is no JSON object".into()),
        },
        Format::Csv => {
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
            let cells = reader.records().next().ok_or("it is empty")?.map_err(|e| e.to_string())?;
            let keys = keys.list();
            if cells.len() != keys.len() {
                return Err(format!("it has {} columns, not {}", cells.len(), keys.len()));
            }
            let pairs = keys.iter().zip(&cells).map(|(key, cell)| Ok(((*key).into(), value_of(key, cell)?)));
            pairs.collect::<Result<_, String>>()?
        }
    };
    if !object.contains_key(CHECK) {
        return Err("it has no 'check': an earlier version or another program wrote it".into());
    }
    let line: Line = serde_json::from_value(Value::Object(object.clone())).map_err(|e| e.to_string())?;
    let again = object_of(&line)?;
    // What came later may be missing.
    let as_before = |key: &str| LATER.contains(&key) && !object.contains_key(key);
    let differs =
        |key: &&String| key.as_str() != CHECK && again.get(*key) != object.get(*key) && !as_before(key);
    if let Some(key) = object.keys().chain(again.keys()).find(differs) {
        let what = match (object.get(key), again.get(key)) {
            (_, None) => "is not known",
            (None, _) => "is missing",
            _ => "holds what this program would not write",
        };
        return Err(format!("its key '{key}' {what}"));
    }
    fits_check(&object)?;
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
        .map(|key| (key, shown(theirs.get(key)), shown(ours.get(key))))
        // A key that is empty and one that is missing say the same.
        .filter(|(_, there, here)| there != here)
        .map(|(key, there, here)| format!("{key} {there} there, {here} here"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gains_core::Arithmetic;
    use gains_verify::Norm;

    use super::super::line::SubjectSetting;
    use super::*;
    use crate::question::{AttackPlan, Witness};
    use crate::results::{
        ForecastSetting, InputSetting, RadiusPart, RadiusSetting, RangeSetting, SamplePart, VerdictWord,
    };

    #[test]
    fn what_is_empty_and_what_is_missing_do_not_differ() {
        use serde_json::json;
        assert!(differences(&json!({"box": null, "eps": 1}), &json!({"eps": 1})).is_empty());
        let said = differences(&json!({"eps": 1, "box": null}), &json!({"eps": 2, "box": "ab"}));
        assert_eq!(said, ["box nothing there, ab here", "eps 1 there, 2 here"]);
    }

    fn setting(forecast: Option<ForecastSetting>) -> Setting {
        Setting {
            method: "auto".into(),
            step_form: "difference".into(),
            arithmetic: Arithmetic::Float32,
            attack: Some(AttackPlan::PAPER),
            timeout: 10.0,
            max_vertices: 20_000,
            max_memory: 4096,
            property: None,
            radius: None,
            subject: SubjectSetting { data: "mnist".into(), split: "test".into(), forecast, inputs: None },
            model: "00112233445566ff".into(),
            version: "0.1.0".into(),
            certificates: false,
        }
    }

    fn image(verdict: VerdictWord) -> Line {
        Line {
            index: 7,
            sample: SamplePart::Image {
                label: Some(3),
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
            witness: Some(Witness::Values(vec![0.5, 1.0 / 3.0, 0.0])),
            bounds: None,
            radius: None,
            certificate: None,
            setting: setting(None),
        }
    }

    fn bounded() -> Line {
        let bounds = serde_json::json!({
            "output": [0.1, 2.0], "low": [-0.1, null], "high": [0.2, 2.5], "margins": [0.25, null],
            "losses": {"truth": 0.5, "layers": [0.1], "steps": [[0.0, 1.0 / 3.0]], "rest": 0.0},
        });
        Line { bounds: serde_json::from_value(bounds).unwrap(), ..image(VerdictWord::Unknown) }
    }

    fn of_images() -> Keys {
        Keys { kind: Kind::Images, radius: false, certificates: false }
    }

    fn of_series() -> Keys {
        Keys { kind: Kind::Series, radius: false, certificates: false }
    }

    /// A line of `gains radius`.
    fn radius() -> Line {
        let radius = RadiusPart { certified_radius: 0.125, attacked_radius: Some(1.0 / 3.0), probes: 7 };
        let mut line = Line { radius: Some(radius), ..image(VerdictWord::Falsified) };
        line.setting.radius = Some(RadiusSetting { gap: 0.05, bisect: "log".into() });
        line
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
                margin: None,
            },
            stages: Vec::new(),
            witness: Some(Witness::Series { statics: vec![1.0], times: vec![0.0], values: vec![0.25, -0.5] }),
            setting: setting(Some(forecast)),
            ..image(VerdictWord::Falsified)
        }
    }

    /// A line about inputs of one's own, with more and more said about them.
    fn own(much: usize) -> Line {
        let mut line = image(VerdictWord::Unknown);
        let ranges = [
            None,
            Some(RangeSetting::All([-1.0, 0.1])),
            Some(RangeSetting::Each(BTreeMap::from([("a,b".into(), [0.0, 1e-3])]))),
        ];
        line.setting.subject.inputs = Some(InputSetting {
            inputs_hash: (much > 1).then(|| "0123".into()),
            box_hash: (much > 2).then(|| "4567".into()),
            norm: [Norm::Infinity, Norm::Two, Norm::One][much - 1],
            range: ranges[much - 1].clone(),
            features: if much > 1 { vec!["a,b".into()] } else { Vec::new() },
            feature_eps: BTreeMap::from([("3".into(), 0.0)]),
            question: "norm 2, range none".into(),
        });
        if let SamplePart::Image { label, .. } = &mut line.sample {
            *label = None;
        }
        line
    }

    fn numbers() -> Line {
        let mut line = Line {
            sample: SamplePart::Numbers {
                output: vec![0.5, -1.0 / 3.0],
                truth: None,
                margin: Some(0.1),
                looseness: None,
            },
            ..own(2)
        };
        line.setting.property = Some(r#"{"require":{"each":"all","within":0.1}}"#.into());
        line
    }

    #[test]
    fn lines_come_back_from_both_formats() {
        let lines = [
            image(VerdictWord::Unknown),
            image(VerdictWord::Verified),
            series(),
            numbers(),
            radius(),
            bounded(),
        ];
        for line in lines.into_iter().chain([own(1), own(2), own(3)]) {
            for format in [Format::Jsonl, Format::Csv] {
                let text = encode(&line, format).unwrap();
                assert_eq!(
                    parse(&text, format, Keys::of(line.task(), &line.setting)).as_ref(),
                    Ok(&line),
                    "{text}"
                );
            }
            let object: Map<String, Value> =
                serde_json::from_str(&encode(&line, Format::Jsonl).unwrap()).unwrap();
            let mut found: Vec<&str> = object.keys().map(String::as_str).collect();
            let mut promised = Keys::of(line.task(), &line.setting).list();
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
        assert_eq!(parse(&pretty, Format::Jsonl, of_series()), Ok(series()));
    }

    /// Lines of earlier versions say nothing of single outputs.
    #[test]
    fn what_came_later_may_be_missing() {
        let line = image(VerdictWord::Unknown);
        let mut object = object_of(&line).unwrap();
        object.remove("bounds");
        object.insert(CHECK.into(), check_of(&object).into());
        assert_eq!(parse(&Value::Object(object).to_string(), Format::Jsonl, of_images()), Ok(line));
    }

    #[test]
    fn whatever_was_changed_is_noticed() {
        let text = encode(&image(VerdictWord::Unknown), Format::Jsonl).unwrap();
        let refused = |from: &str, to: &str, message: &str| {
            assert!(text.contains(from), "{from}\n{text}");
            let error = parse(&text.replace(from, to), Format::Jsonl, of_images()).unwrap_err();
            assert!(error.contains(message), "{from} → {to}: {error}");
        };
        refused("\"unknown\"", "\"verified\"", "was changed");
        refused("\"unknown\"", "\"probably\"", "probably");
        refused("\"index\":7", "\"index\":8", "was changed");
        refused("\"index\":7", "\"index\":7,\"mood\":1", "'mood' is not known");
        refused("\"edges\":5,", "", "'edges' is missing");
        refused("\"data\":\"mnist\"", "\"data\":\"fashion-mnist\"", "was changed");
        refused("\"check\":", "\"cheque\":", "no 'check'");
        assert!(parse("[]", Format::Jsonl, of_images()).is_err());
        assert!(parse("{\"index\":5", Format::Jsonl, of_images()).is_err());
        let csv = encode(&image(VerdictWord::Unknown), Format::Csv).unwrap();
        let error = parse(&csv.replace("unknown", "verified"), Format::Csv, of_images()).unwrap_err();
        assert!(error.contains("was changed"), "{error}");
        assert!(parse("1,2,3\n", Format::Csv, of_images()).is_err());
    }
}
