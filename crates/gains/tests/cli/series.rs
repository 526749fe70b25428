//! Forecasting models in the commands that began with images: challenge, trajectory, bench.

use serde_json::Value;

use crate::forecast::{Scene, number};
use crate::support::{fails, ok, text};

#[test]
fn verified_records_are_challenged() {
    let scene = Scene::new();
    let out = scene.path("results.jsonl");
    let flags = ["--part", "train", "--records", "0..6", "--eps", "0.001", "--feature-eps", "pulse=0.002"];
    scene.ok("certify", &[&flags[..], &["--nu", "0.2", "--out", text(&out)]].concat());
    let challenge = |results: &str| {
        ["challenge", results, "--model", &scene.model, "--series", &scene.series, "--points", "50"]
            .map(String::from)
    };
    let words = challenge(text(&out));
    let table = ok(&words.each_ref().map(String::as_str));
    assert!(table.contains("at the limit") && table.contains("above the bound"), "{table}");

    // A bound that was tampered with does not hold.
    let tampered: Vec<String> = std::fs::read_to_string(&out)
        .unwrap()
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line["certified_mae"] = (0.5 * number(&line, "mae")).into();
            line.to_string()
        })
        .collect();
    let bad = scene.path("bad.jsonl");
    std::fs::write(&bad, tampered.join("\n")).unwrap();
    let words = challenge(text(&bad));
    fails(&words.each_ref().map(String::as_str), 1, "does not keep its verdict");

    // Earlier versions only described the question.
    let old: Vec<String> = std::fs::read_to_string(&out)
        .unwrap()
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            for key in ["nu", "delta", "horizon", "features", "feature_eps", "check"] {
                line.as_object_mut().unwrap().remove(key);
            }
            line["stages"] = "box 0.001".into();
            line.to_string()
        })
        .collect();
    std::fs::write(&bad, old.join("\n")).unwrap();
    fails(&words.each_ref().map(String::as_str), 1, "written by an earlier version");
}

#[test]
fn the_decoders_trajectories_are_shown() {
    let scene = Scene::new();
    let (svg, json) = (scene.path("t.svg"), scene.path("t.json"));
    let flags = ["--part", "train", "--sample", "1", "--eps", "0.05"];
    let files = ["--svg", text(&svg), "--json", text(&json)];
    let printed = scene.ok("trajectory", &[&flags[..], &files[..]].concat());
    assert!(printed.contains("the concrete trajectory is one of them"), "{printed}");
    assert!(printed.contains("mean absolute error"), "{printed}");
    let value: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert!(value["record"].as_str().unwrap().starts_with('r') && number(&value, "margin").is_finite());
    assert!(!value["vertices"].as_array().unwrap().is_empty());
    assert!(std::fs::read_to_string(&svg).unwrap().contains("<circle"));
    scene.fails("trajectory", &["--sample", "99"], 2, "asks for record 99");
}

#[test]
fn series_are_measured() {
    let scene = Scene::new();
    let printed = scene.ok("bench", &["--records", "0..2", "--eps", "0.05", "--rounds", "1", "--quiet"]);
    for word in ["box", "gains", "tight", "ms median"] {
        assert!(printed.contains(word), "{word}\n{printed}");
    }
}
