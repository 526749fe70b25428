//! Files of one JSON object per line: verdicts, attacks and studies.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::bounds::bounds;
use super::{Check, Keys, ReadError, numbers};
use crate::document::{Attacked, Attacks, Line, Radius, Stage, Study, StudyCase, Verdict, Verdicts, Witness};

/// Keys that all lines of a file share.
const SHARED: [&str; 28] = [
    "model",
    "version",
    "data",
    "split",
    "method",
    "step_form",
    "arithmetic",
    "attack",
    "timeout",
    "max_vertices",
    "max_memory",
    "precision",
    "data_hash",
    "order",
    "horizon",
    "grid",
    "nu",
    "delta",
    "features",
    "feature_eps",
    "question",
    "property",
    "inputs_hash",
    "box_hash",
    "norm",
    "range",
    "gap",
    "bisect",
];

/// Objects of a file, with the numbers of their lines.
struct Objects {
    objects: Vec<(usize, Map<String, Value>)>,
    /// Whether the last line is cut off.
    cut: bool,
}

fn objects(name: &str, text: &str) -> Result<Objects, ReadError> {
    let mut objects = Vec::new();
    let ends = text.ends_with('\n');
    let lines: Vec<(usize, &str)> = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()).collect();
    for (place, (number, line)) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(Value::Object(object)) => objects.push((number + 1, object)),
            _ if place + 1 == lines.len() && !ends => return Ok(Objects { objects, cut: true }),
            Ok(_) => return Err(at(name, number + 1, "it is no JSON object".into())),
            Err(error) => return Err(at(name, number + 1, format!("it is not JSON: {error}"))),
        }
    }
    Ok(Objects { objects, cut: false })
}

fn at(name: &str, line: usize, what: String) -> ReadError {
    ReadError::Line { name: name.into(), line, what }
}

/// What all lines share; a line that differs answers another question.
fn shared(name: &str, objects: &[(usize, Map<String, Value>)]) -> Result<Map<String, Value>, ReadError> {
    let Some((first, rest)) = objects.split_first() else { return Ok(Map::new()) };
    let known = |key: &&&str| first.1.contains_key(**key);
    let setting: Map<String, Value> =
        SHARED.iter().filter(known).map(|key| ((*key).to_owned(), first.1[*key].clone())).collect();
    for (line, object) in rest {
        if let Some(key) = SHARED.iter().find(|key| object.get(**key) != setting.get(**key)) {
            let what =
                format!("its '{key}' differs from that of line {}: it answers another question", first.0);
            return Err(at(name, *line, what));
        }
    }
    Ok(setting)
}

/// Refuses a second line about the same sample and radius.
fn refuse_repeats(name: &str, seen: impl Iterator<Item = (usize, usize, f64)>) -> Result<(), ReadError> {
    let mut first: HashMap<(usize, u64), usize> = HashMap::new();
    for (line, index, eps) in seen {
        if let Some(before) = first.insert((index, eps.to_bits()), line) {
            let what = format!("sample {index} at eps {eps} was on line {before} already");
            return Err(at(name, line, what));
        }
    }
    Ok(())
}

/// Reads a file of verdicts.
pub fn verdicts(name: &str, text: &str, check: &Check<'_>) -> Result<Verdicts, ReadError> {
    let Objects { objects, cut } = objects(name, text)?;
    let setting = shared(name, &objects)?;
    let mut lines = Vec::with_capacity(objects.len());
    for (number, object) in &objects {
        let mut line = line(&Keys(object)).map_err(|what| at(name, *number, what))?;
        let fault = match object.contains_key("check") {
            true => check(object).err(),
            false => None,
        };
        let usual = setting.get("property").is_none_or(Value::is_null);
        distrust(&mut line, fault, if usual { Asked::Class } else { Asked::Property });
        lines.push(line);
    }
    refuse_repeats(name, objects.iter().zip(&lines).map(|((n, _), line)| (*n, line.index, line.eps)))?;
    lines.sort_by(|a, b| a.index.cmp(&b.index).then(a.eps.total_cmp(&b.eps)));
    let unchecked = objects.iter().filter(|(_, object)| !object.contains_key("check")).count();
    Ok(Verdicts { name: name.into(), lines, setting, cut, unchecked, progress: None })
}

fn line(keys: &Keys<'_>) -> Result<Line, String> {
    let word = keys.text("verdict")?;
    let verdict = Verdict::of(&word).ok_or_else(|| format!("there is no verdict '{word}'"))?;
    let eps = keys.number("eps")?;
    let (limit, certified_mae) = (keys.maybe_number("limit")?, keys.maybe_number("certified_mae")?);
    let distance = limit.zip(certified_mae).map(|(limit, certified)| limit - certified);
    let radius = match keys.maybe_number("certified_radius")? {
        Some(certified) => Some(Radius { certified, attacked: keys.maybe_number("attacked_radius")? }),
        None => None,
    };
    let numbers = numbers(keys.get("output")).map(|output| match numbers(keys.get("truth")) {
        Some(truth) => format!("{output:?}, truth {truth:?}"),
        None => format!("{output:?}"),
    });
    let graph = keys.maybe_whole("vertices")?.zip(keys.maybe_whole("edges")?);
    Ok(Line {
        index: keys.whole("index")?,
        eps,
        verdict,
        reason: keys.maybe_text("reason")?,
        reason_code: keys.maybe_text("reason_code")?,
        fault: None,
        label: keys.maybe_whole("label")?,
        prediction: keys.maybe_whole("prediction")?,
        record: keys.maybe_text("record")?,
        margin: keys.maybe_number("margin")?.or(distance),
        mae: keys.maybe_number("mae")?,
        limit,
        certified_mae,
        attacked_mae: keys.maybe_number("attacked_mae")?,
        graph,
        seconds: keys.number("seconds")?,
        stages: stages(keys.get("stages"))?,
        witness: witness(keys.get("witness"))?,
        bounds: bounds(keys.get("bounds"), keys.get("looseness"))?,
        certificate: keys.maybe_text("certificate")?,
        checked: keys.get("checked").as_bool(),
        looseness: keys.maybe_text("looseness")?,
        radius,
        numbers,
    })
}

/// What is asked of a sample.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// To keep its class, if it has one.
    Class,
    /// Something else, which may hold whatever the class is.
    Property,
}

/// A line that was changed, or that contradicts itself, proves nothing.
fn distrust(line: &mut Line, fault: Option<String>, asked: Asked) {
    let classed = asked == Asked::Class && line.label.is_some();
    let correct = !classed || line.label == line.prediction;
    let radius = line.radius.is_none_or(|radius| radius.certified >= line.eps);
    let supported = match line.verdict {
        Verdict::Verified => correct && radius && line.margin.is_some_and(|margin| margin > 0.0),
        Verdict::Falsified => line.witness.is_some(),
        Verdict::Misclassified => !classed || !correct,
        Verdict::Unknown => true,
    };
    let contradiction =
        || format!("the rest of the line does not support that it is {}", line.verdict.word());
    let crossed = |radius: Radius| radius.attacked.is_some_and(|attacked| attacked <= radius.certified);
    let fault = fault.or_else(|| (!supported).then(contradiction)).or_else(|| {
        line.radius.is_some_and(crossed).then(|| "it was attacked within its certified radius".into())
    });
    if let Some(fault) = fault {
        line.radius = None;
        line.fault = Some(format!("says {}, not trusted: {fault}", line.verdict.word()));
        line.verdict = Verdict::Unknown;
    }
}

/// Stages as they are written, or as the text that earlier versions wrote.
fn stages(value: &Value) -> Result<Vec<Stage>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => {
            let parts = text.split(", ").filter(|part| !part.is_empty());
            Ok(parts
                .map(|part| match part.rsplit_once(' ').map(|(n, s)| (n, s.parse::<f64>())) {
                    Some((name, Ok(seconds))) if seconds.is_finite() => Stage { name: name.into(), seconds },
                    _ => Stage { name: part.into(), seconds: 0.0 },
                })
                .collect())
        }
        Value::Array(list) => super::objects(list, "stage", |keys| {
            Ok(Stage { name: keys.text("name")?, seconds: keys.number("seconds")? })
        }),
        _ => Err("'stages' is not a list".into()),
    }
}

fn witness(value: &Value) -> Result<Option<Witness>, String> {
    let wrong = || "'witness' is no list of numbers and no series".to_string();
    match value {
        Value::Null => Ok(None),
        Value::Object(series) => {
            let part = |key: &str| series.get(key).and_then(numbers).ok_or_else(wrong);
            Ok(Some(Witness::Series { times: part("times")?, values: part("values")? }))
        }
        list => numbers(list).map(|values| Some(Witness::Values(values))).ok_or_else(wrong),
    }
}

/// Reads a file of attacks.
pub fn attacks(name: &str, text: &str) -> Result<Attacks, ReadError> {
    let Objects { objects, cut } = objects(name, text)?;
    let setting = shared(name, &objects)?;
    let attacked = |(number, object): &(usize, Map<String, Value>)| {
        attack(&Keys(object)).map_err(|what| at(name, *number, what))
    };
    let lines: Vec<Attacked> = objects.iter().map(attacked).collect::<Result<_, _>>()?;
    refuse_repeats(name, objects.iter().zip(&lines).map(|((n, _), line)| (*n, line.index, line.eps)))?;
    Ok(Attacks { name: name.into(), lines, setting, cut })
}

fn attack(keys: &Keys<'_>) -> Result<Attacked, String> {
    let (label, prediction) = (keys.maybe_whole("label")?, keys.maybe_whole("prediction")?);
    let found = keys.get("found").as_bool().ok_or_else(|| keys.wrong("found", "true or false"))?;
    let correct = label.is_none() || label == prediction;
    Ok(Attacked { index: keys.whole("index")?, eps: keys.number("eps")?, correct, found })
}

/// Reads the finished cases of a study.
pub fn study(name: &str, text: &str) -> Result<Study, ReadError> {
    let Objects { objects, cut } = objects(name, text)?;
    let mut study =
        Study { name: name.into(), study: String::new(), setting: String::new(), cases: Vec::new(), cut };
    let mut first: HashMap<String, usize> = HashMap::new();
    for (number, object) in &objects {
        let wrong = |what| at(name, *number, what);
        let keys = Keys(object);
        let found = (keys.text("study").map_err(wrong)?, keys.text("setting").map_err(wrong)?);
        if study.cases.is_empty() {
            (study.study, study.setting) = found;
        } else if (&study.study, &study.setting) != (&found.0, &found.1) {
            return Err(wrong("it is of another study, or of one that was set up otherwise".into()));
        }
        let id = keys.text("case").map_err(wrong)?;
        if let Some(before) = first.insert(id.clone(), *number) {
            return Err(wrong(format!("the case {id} was on line {before} already")));
        }
        study.cases.push(case(&keys).map_err(wrong)?);
    }
    Ok(study)
}

fn case(keys: &Keys<'_>) -> Result<StudyCase, String> {
    let figures = keys.get("figures").as_object().ok_or_else(|| keys.wrong("figures", "an object"))?;
    let number =
        |(name, value): (&String, &Value)| Some((name.clone(), value.as_f64().filter(|v| v.is_finite())?));
    let mut named: Vec<(String, String)> = Vec::new();
    // `name=value name=value`; a value may have spaces in it.
    for word in keys.text("case")?.split(' ') {
        match (word.split_once('='), named.last_mut()) {
            (Some((name, value)), _) => named.push((name.into(), value.into())),
            (None, Some((_, value))) => *value = format!("{value} {word}"),
            (None, None) => named.push(("case".into(), word.into())),
        }
    }
    Ok(StudyCase {
        keys: named,
        figures: figures.iter().filter_map(number).collect(),
        seconds: keys.number("seconds")?,
    })
}
