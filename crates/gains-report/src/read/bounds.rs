//! What was proved of each output, and where a bound loses.

use serde_json::Value;

use super::{Keys, numbers};
use crate::document::{Bounds, Losses};

/// Reads the key `bounds`; where there is none, losses are taken from the words that earlier versions wrote.
pub fn bounds(value: &Value, words: &Value) -> Result<Option<Bounds>, String> {
    let Value::Object(object) = value else {
        if !value.is_null() {
            return Err("'bounds' is no object".into());
        }
        let losses = words.as_str().and_then(of_words);
        let none = Vec::new;
        return Ok(losses.map(|losses| Bounds {
            output: Vec::new(),
            low: none(),
            high: none(),
            margins: none(),
            losses: Some(losses),
        }));
    };
    let keys = Keys(object);
    let output = numbers(keys.get("output")).ok_or_else(|| keys.wrong("output", "a list of numbers"))?;
    let ends = |key: &str| some_numbers(keys.get(key)).ok_or_else(|| keys.wrong(key, "a list of numbers"));
    let (low, high, margins) = (ends("low")?, ends("high")?, ends("margins")?);
    let fit = |list: &[Option<f64>]| list.len() == output.len();
    if !fit(&low) || !fit(&high) || !(margins.is_empty() || fit(&margins)) {
        return Err("the lists of 'bounds' are not of one length".into());
    }
    let crossed = |(low, high): (&Option<f64>, &Option<f64>)| low.zip(*high).is_some_and(|(l, h)| l > h);
    if low.iter().zip(&high).any(crossed) {
        return Err("'bounds' has an interval whose lower end is above its upper one".into());
    }
    let losses = match keys.get("losses") {
        Value::Null => None,
        Value::Object(losses) => Some(typed(&Keys(losses))?),
        _ => return Err("'losses' is no object".into()),
    };
    Ok(Some(Bounds { output, low, high, margins, losses }))
}

fn typed(keys: &Keys<'_>) -> Result<Losses, String> {
    let layers = numbers(keys.get("layers")).ok_or_else(|| keys.wrong("layers", "a list of numbers"))?;
    let step = |value: &Value| match numbers(value).as_deref() {
        Some([time, loss]) => Ok([*time, *loss]),
        _ => Err("a step of 'losses' is no pair of numbers".to_string()),
    };
    let steps = keys.list("steps")?.iter().map(step).collect::<Result<_, _>>()?;
    Ok(Losses { truth: Some(keys.number("truth")?), layers, steps, rest: keys.number("rest")? })
}

/// Numbers, some of which may be null.
fn some_numbers(value: &Value) -> Option<Vec<Option<f64>>> {
    let entry = |value: &Value| match value {
        Value::Null => Some(None),
        value => value.as_f64().filter(|v| v.is_finite()).map(Some),
    };
    value.as_array()?.iter().map(entry).collect()
}

/// `encoder 0.08 (by layer 0.01, 0.07), steps 0.07 (most at time 0.000: 0.07), rest 0.73`; of the steps these words name
/// only the worst, so that all of them count as one at its time.
fn of_words(words: &str) -> Option<Losses> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    let layers = words.split_once("(by layer ")?.1.split_once(')')?.0;
    let layers = layers.split(", ").filter(|text| !text.is_empty()).map(number).collect::<Option<_>>()?;
    let (_, steps) = words.split_once("steps ")?;
    let loss = number(steps.split([' ', ',']).next()?)?;
    let time = steps.split_once("at time ").and_then(|(_, time)| number(time.split(':').next()?));
    let rest = number(words.rsplit_once("rest ")?.1)?;
    Some(Losses { truth: None, layers, steps: vec![[time.unwrap_or(0.0), loss]], rest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn losses_are_read_from_their_words() {
        let words =
            "encoder 0.080 (by layer 0.009, 0.072), steps 0.073 (most at time 0.125: 0.069), rest 0.730";
        let found = bounds(&Value::Null, &words.into()).unwrap().unwrap();
        let expected =
            Losses { truth: None, layers: vec![0.009, 0.072], steps: vec![[0.125, 0.073]], rest: 0.73 };
        assert_eq!((found.losses, found.output), (Some(expected), Vec::new()));
        for other in ["", "encoder", "encoder 1 (by layer ), steps x, rest 2", "rest 1", "by layer 1)"] {
            assert_eq!(bounds(&Value::Null, &other.into()), Ok(None), "{other}");
        }
    }

    #[test]
    fn bounds_fit_their_outputs() {
        let fine = json!({"output": [1.0, 2.0], "low": [0.5, null], "high": [1.5, 2.5], "margins": [], "losses": null});
        assert_eq!(bounds(&fine, &Value::Null).unwrap().unwrap().low, [Some(0.5), None]);
        for (key, value, message) in [
            ("low", json!([0.5]), "not of one length"),
            ("margins", json!([0.5]), "not of one length"),
            ("high", json!([0.0, 2.5]), "above its upper one"),
            ("output", json!([1.0, "x"]), "'output' is not a list"),
            ("losses", json!(3), "'losses' is no object"),
            ("losses", json!({"truth": 1, "layers": [], "steps": [[1]], "rest": 0}), "no pair"),
        ] {
            let mut other = fine.clone();
            other[key] = value;
            let error = bounds(&other, &Value::Null).unwrap_err();
            assert!(error.contains(message), "{key}: {error}");
        }
    }
}
