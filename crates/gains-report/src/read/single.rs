//! Files of one JSON object: a trajectory graph, a forecast.

use serde_json::{Map, Value};

use super::bounds::bounds;
use super::{Keys, ReadError, numbers, objects};
use crate::document::{Edge, Feature, Forecast, Graph, Trajectory, Vertex, Visit};

/// Reads what `gains trajectory --json` writes.
pub fn trajectory(name: &str, object: &Map<String, Value>) -> Result<Trajectory, ReadError> {
    parse_trajectory(name, &Keys(object)).map_err(|what| ReadError::Foreign { name: name.into(), what })
}

/// Reads what `gains forecast --json` writes.
pub fn forecast(name: &str, object: &Map<String, Value>) -> Result<Forecast, ReadError> {
    parse_forecast(name, &Keys(object)).map_err(|what| ReadError::Foreign { name: name.into(), what })
}

fn parse_trajectory(name: &str, keys: &Keys<'_>) -> Result<Trajectory, String> {
    let concrete = objects(keys.list("trajectory")?, "step", |step| {
        Ok(Visit {
            time: step.number("time")?,
            step: step.number("step")?,
            error: step.maybe_number("error")?,
            action: step.text("action")?,
        })
    })?;
    let graphs = match keys.get("graphs") {
        Value::Array(list) => objects(list, "graph", |keys| graph(&keys))?,
        // Earlier versions wrote one graph and did not name its method.
        _ => vec![graph(keys)?],
    };
    let about = match (keys.get("label"), keys.get("record")) {
        (Value::Null, Value::Null) => String::new(),
        (Value::Null, record) => format!("record {}", record.as_str().unwrap_or_default()),
        (label, _) => format!("label {label}"),
    };
    Ok(Trajectory {
        name: name.into(),
        model: keys.text("model")?,
        sample: keys.whole("sample")?,
        about,
        label: keys.get("label").as_u64().and_then(|label| usize::try_from(label).ok()),
        end: keys.number("end_time")?,
        increase_below: keys.maybe_number("increase_below")?,
        concrete,
        graphs,
    })
}

fn graph(keys: &Keys<'_>) -> Result<Graph, String> {
    let method = keys.maybe_text("method")?.unwrap_or_else(|| "not named".into());
    let eps = keys.number("eps")?;
    if let Some(failure) = keys.maybe_text("failure")? {
        let (vertices, edges) = (Vec::new(), Vec::new());
        let failure = Some(failure);
        let (margin, bounds) = (None, None);
        return Ok(Graph { method, eps, margin, bounds, end_width: 0.0, vertices, edges, failure });
    }
    let vertices = objects(keys.list("vertices")?, "vertex", |keys| vertex(&keys))?;
    let edges = objects(keys.list("edges")?, "edge", |edge| {
        let (from, to) = (edge.whole("from")?, edge.maybe_whole("to")?);
        if from >= vertices.len() || to.is_some_and(|to| to >= vertices.len()) {
            return Err(format!("there are only {} vertices", vertices.len()));
        }
        let action = edge.text("action")?;
        match action.as_str() {
            "keep" | "increase" | "reject" => Ok(Edge { from, to, action }),
            _ => Err(format!("there is no action '{action}'")),
        }
    })?;
    let end_width = keys.get("end").get("mean_width").and_then(Value::as_f64).unwrap_or(f64::NAN);
    let (margin, bounds) = (keys.maybe_number("margin")?, bounds(keys.get("bounds"), &Value::Null)?);
    Ok(Graph { method, eps, margin, bounds, end_width, vertices, edges, failure: None })
}

fn vertex(keys: &Keys<'_>) -> Result<Vertex, String> {
    let flag = |key: &str| keys.get(key).as_bool().unwrap_or(false);
    let (time, step) = (keys.number("time")?, keys.number("step")?);
    if step <= 0.0 {
        return Err("'step' is not above 0".into());
    }
    let error = match keys.get("error") {
        Value::Null => None,
        list => match numbers(list).as_deref() {
            Some([low, high]) => Some([*low, *high]),
            _ => return Err("'error' is no pair of numbers".into()),
        },
    };
    let width = keys.maybe_number("mean_width")?.unwrap_or(f64::NAN);
    Ok(Vertex { time, step, clipped: flag("clipped"), settled: flag("settled"), error, width })
}

fn parse_forecast(name: &str, keys: &Keys<'_>) -> Result<Forecast, String> {
    Ok(Forecast {
        name: name.into(),
        model: keys.text("model")?,
        record: keys.text("record")?,
        eps: keys.number("eps")?,
        question: keys.maybe_text("question")?.unwrap_or_default(),
        time: keys.number("time")?,
        verdict: keys.text("verdict")?,
        mae: keys.number("mae")?,
        limit: keys.maybe_number("limit")?,
        margin: keys.maybe_number("margin")?,
        certified: keys.maybe_number("certified_mae")?,
        attacked: keys.maybe_number("attacked_mae")?,
        features: objects(keys.list("features")?, "feature", |keys| feature(&keys))?,
    })
}

fn feature(keys: &Keys<'_>) -> Result<Feature, String> {
    let points = match keys.get("points") {
        Value::Null => Vec::new(),
        Value::Array(list) => {
            let point = |value: &Value| match numbers(value).as_deref() {
                Some([time, value]) => Ok([*time, *value]),
                _ => Err("a point is no pair of numbers".to_string()),
            };
            list.iter().map(point).collect::<Result<_, _>>()?
        }
        _ => return Err("'points' is not a list".into()),
    };
    let scaled =
        |key: &str| keys.get("normalised").get(key).and_then(Value::as_f64).filter(|v| v.is_finite());
    let truth = scaled("truth");
    let from_truth = |value: Option<f64>| Some((value? - truth?).abs());
    let worst = from_truth(scaled("low")).zip(from_truth(scaled("high"))).map(|(low, high)| low.max(high));
    Ok(Feature {
        name: keys.text("name")?,
        observed: keys.whole("observed")?,
        points,
        prediction: keys.number("prediction")?,
        band: keys.maybe_number("low")?.zip(keys.maybe_number("high")?).map(|(low, high)| [low, high]),
        attacked: keys.maybe_number("attacked")?,
        truth: keys.maybe_number("truth")?,
        error: from_truth(scaled("prediction")),
        worst,
    })
}
