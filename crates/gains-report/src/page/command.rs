//! The command that repeats a run, from what its lines say.

use serde_json::Value;

use crate::document::Verdicts;
use crate::number::ranges;

/// The command; `model` is the file or name, where it is known.
pub fn repeat(results: &Verdicts, model: Option<&str>) -> String {
    let method = results.text("method").unwrap_or("auto");
    let (command, method) = match method.strip_prefix("eval-") {
        _ if results.has_radii() => ("radius", method),
        Some(method) => ("eval", method),
        None => ("certify", method),
    };
    let (method, form) = match method.strip_suffix("-difference").or(method.strip_suffix("-independent")) {
        Some(method) => (method, results.text("step_form")),
        None => (method, None),
    };
    let mut words = vec!["gains".into(), command.into(), "--model".into(), quoted(model.unwrap_or("MODEL"))];
    let mut flag = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.push(name.into());
            words.push(quoted(&value));
        }
    };
    let number = |key: &str| results.setting.get(key).filter(|v| v.is_number()).map(plain);
    let attack = |key: &str| results.setting.get("attack")?.get(key).map(plain);
    if results.is_about_series() {
        flag("--part", results.text("split").map(String::from));
        flag("--horizon", number("horizon"));
        flag("--grid", results.text("grid").map(String::from));
        flag("--nu", number("nu"));
        flag("--delta", number("delta"));
        flag("--features", features(results));
        for (name, value) in
            results.setting.get("feature_eps").and_then(Value::as_object).into_iter().flatten()
        {
            flag("--feature-eps", Some(format!("{name}={value}")));
        }
    } else {
        flag("--data", results.text("data").map(String::from));
        flag("--split", results.text("split").map(String::from));
    }
    flag("--samples", Some(ranges(&results.samples())));
    let radii: Vec<String> = results.radii().iter().map(ToString::to_string).collect();
    if command == "radius" {
        flag("--max", radii.last().cloned());
        flag("--gap", number("gap"));
        flag("--bisect", results.text("bisect").map(String::from));
    } else {
        flag("--eps", Some(radii.join(",")));
    }
    flag("--method", Some(method.into()));
    flag("--step-form", form.map(String::from));
    flag("--arithmetic", results.text("arithmetic").map(String::from));
    if command == "eval" {
        flag("--steps", attack("steps"));
        flag("--step-size", attack("step_size"));
        flag("--restarts", attack("restarts"));
        if !results.is_about_series() {
            flag("--loss", attack("loss"));
        }
        flag("--seed", attack("seed"));
    } else {
        let none = results.setting.get("attack").is_some_and(Value::is_null);
        flag("--attack-steps", attack("steps").or(none.then(|| "0".into())));
    }
    flag("--timeout", number("timeout"));
    flag("--max-vertices", number("max_vertices"));
    flag("--max-memory", number("max_memory"));
    flag("--out", Some(results.name.clone()));
    words.join(" ")
}

fn features(results: &Verdicts) -> Option<String> {
    let names: Vec<&str> =
        results.setting.get("features")?.as_array()?.iter().filter_map(Value::as_str).collect();
    (!names.is_empty()).then(|| names.join(","))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A word that a shell takes as one, whatever is in it.
fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    fn results(more: &str) -> Verdicts {
        let line = |index: usize| {
            format!("{{\"index\":{index},\"eps\":0.1,\"verdict\":\"unknown\",\"seconds\":1{more}}}\n")
        };
        match crate::read("r.jsonl", &(line(0) + &line(1) + &line(5)), &|_| Ok(())).unwrap() {
            Document::Verdicts(verdicts) => verdicts,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_run_is_asked_for_as_it_was() {
        let more = r#","data":"mnist","split":"test","method":"eval-gains-difference","step_form":"difference","timeout":10.0,
            "attack":{"steps":200,"step_size":0.0025,"restarts":2,"loss":"margin","seed":7}"#.replace('\n', " ");
        assert_eq!(
            repeat(&results(&more), Some("net.safetensors")),
            "gains eval --model net.safetensors --data mnist --split test --samples 0..2,5 --eps 0.1 --method gains \
             --step-form difference --steps 200 --step-size 0.0025 --restarts 2 --loss margin --seed 7 \
             --timeout 10.0 --out r.jsonl"
        );
    }

    #[test]
    fn what_a_file_says_cannot_run_anything() {
        let more = r#","data":"x; rm -rf $HOME","method":"a'b","attack":null"#;
        let command = repeat(&results(more), None);
        assert!(command.contains("--data 'x; rm -rf $HOME'") && command.contains(r"--method 'a'\''b'"));
        assert!(command.contains("--attack-steps 0"));
    }
}
