//! Properties of all kinds: flags and files, networks that predict numbers, series, radii.

use std::path::Path;

use gains_core::description::{LayerSpec, Task};
use gains_core::model_file::{Tensors, write_model};
use gains_core::{Description, Shape};
use serde_json::Value;

use crate::forecast::{Scene, number};
use crate::support::{fails, ok, records, text};

fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    text(&path).to_owned()
}

/// `y = a + 2 b`, `z = a`: a model of numbers, three rows for it, and what is true of them.
fn numbers(folder: &Path) -> (String, String, String) {
    let layer = LayerSpec::Linear { name: "f".into(), in_features: 2, out_features: 2, time: false };
    let task: Task = serde_json::from_value(
        serde_json::json!({"type": "regression", "outputs": ["y", "z"], "units": {"y": "N"}}),
    )
    .unwrap();
    let description = Description::new("sums", task, Shape::flat(2), vec![layer]);
    let tensors: Tensors = [
        ("f.weight".to_string(), (vec![2, 2], vec![1.0, 2.0, 1.0, 0.0])),
        ("f.bias".to_string(), (vec![2], vec![0.0, 0.0])),
    ]
    .into();
    let model = folder.join("sums.safetensors");
    std::fs::write(&model, write_model(&description, &tensors).unwrap()).unwrap();
    let inputs = file(folder, "x.csv", "a,b\n0,0\n1,0.5\n-0.25,2\n");
    let truth = file(folder, "y.csv", "y,z\n0.5,0\n2,1\n3.75,-0.25\n");
    (text(&model).to_owned(), inputs, truth)
}

/// `y = a`, `z = a + 1e-9`: in float32 both are the same, in float64 the second is larger.
#[test]
fn what_is_predicted_without_a_label_is_so_in_the_arithmetic_asked_about() {
    let folder = tempfile::tempdir().unwrap();
    let layer = LayerSpec::Linear { name: "f".into(), in_features: 1, out_features: 2, time: false };
    let task: Task =
        serde_json::from_value(serde_json::json!({"type": "classification", "classes": ["y", "z"]})).unwrap();
    let description = Description::new("near", task, Shape::flat(1), vec![layer]);
    let tensors: Tensors = [
        ("f.weight".to_string(), (vec![2, 1], vec![1.0, 1.0])),
        ("f.bias".to_string(), (vec![2], vec![0.0, 1e-9])),
    ]
    .into();
    let model = folder.path().join("near.safetensors");
    std::fs::write(&model, write_model(&description, &tensors).unwrap()).unwrap();
    let inputs = file(folder.path(), "x.csv", "a\n1\n");
    let out = folder.path().join("r.jsonl");
    let args = ["certify", "--model", text(&model), "--inputs", &inputs, "--eps", "0.01", "--quiet"];
    let args = [&args[..], &["--arithmetic", "float32", "--out", text(&out)]].concat();
    ok(&args);
    assert_eq!(records(&out)[0]["verdict"], "unknown");
    ok(&[&args[..], &["--resume"]].concat());
}

#[test]
fn weaker_properties_hold_wherever_stronger_ones_do() {
    let folder = tempfile::tempdir().unwrap();
    let certify = |name: &str, flags: &[&str]| -> Vec<Value> {
        let out = folder.path().join(name);
        let base =
            ["certify", "--samples", "0..8", "--eps", "0.05", "--method", "gains", "--attack-steps", "0"];
        let patient = ["--timeout", "120", "--quiet", "--out", text(&out)];
        ok(&[&base[..], &patient, flags].concat());
        let mut lines = records(&out);
        lines.sort_by_key(|line| line["index"].as_u64());
        lines
    };
    let label = certify("label.jsonl", &[]);
    let top = certify("top.jsonl", &["--top", "2"]);
    let allowed = certify("allowed.jsonl", &["--allow", "@label,7"]);
    let target = certify("target.jsonl", &["--target", "7"]);
    let all = file(folder.path(), "p.json", r#"{"require": {"predicted": "@label"}}"#);
    let same = certify("same.jsonl", &["--property", &all]);
    let lead = file(folder.path(), "l.json", r#"{"require": {"lead": 0.25}}"#);
    let lead = certify("lead.jsonl", &["--property", &lead]);
    let mut stronger = 0;
    for (i, line) in label.iter().enumerate() {
        assert!(line["property"].is_null());
        assert_eq!(same[i]["margin"], line["margin"], "the same question");
        assert_eq!(top[i]["property"], r#"{"require":{"top":2}}"#);
        for weaker in [&top[i], &allowed[i]] {
            if line["verdict"] == "verified" {
                assert_eq!(weaker["verdict"], "verified", "{weaker}");
                assert!(number(weaker, "margin") >= number(line, "margin"), "{weaker}");
            }
        }
        if line["label"] == 7 && target[i]["prediction"] == 7 {
            assert_eq!(target[i]["verdict"], "misclassified", "it is what it must not be taken for");
        }
        if line["verdict"] == "verified" && line["label"] != 7 {
            assert_eq!(target[i]["verdict"], "verified");
        }
        if let (Some(label), Some(lead)) = (line["margin"].as_f64(), lead[i]["margin"].as_f64()) {
            assert!((label - 0.25 - lead).abs() < 1e-9, "{label} {lead}");
            stronger += 1;
        }
    }
    assert!(stronger > 3);
    let out = folder.path().join("top.jsonl");
    let printed = ok(&["challenge", text(&out), "--points", "20", "--quiet"]);
    assert!(printed.contains("broken"), "{printed}");
    let again = ["certify", "--samples", "0..8", "--eps", "0.05", "--method", "gains", "--attack-steps", "0"];
    let again = [&again[..], &["--timeout", "120", "--out", text(&out), "--resume", "--top", "3"]].concat();
    fails(&again, 2, "property");
}

/// Commands about one sample, and the measurement, ask what they are told to.
#[test]
fn every_command_that_bounds_takes_a_property() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("g.json");
    let margin = |flags: &[&str]| {
        let base =
            ["trajectory", "--sample", "1", "--eps", "0.05", "--method", "gains", "--json", text(&graph)];
        ok(&[&base[..], flags].concat());
        let file: Value = serde_json::from_slice(&std::fs::read(&graph).unwrap()).unwrap();
        assert_eq!(file["bounds"]["output"].as_array().unwrap().len(), 10);
        assert_eq!(file["graphs"][0]["bounds"], file["bounds"]);
        (number(&file, "margin"), file["bounds"]["margins"].as_array().unwrap().len())
    };
    let (label, top) = (margin(&[]), margin(&["--top", "2"]));
    assert!(top.0 > label.0, "{label:?} {top:?}");
    assert_eq!((label.1, top.1), (10, 0), "leads are of classes");
    ok(&["bench", "--samples", "1", "--eps", "0.01", "--rounds", "1", "--top", "2"]);
    fails(&["bench", "--top", "10"], 2, "asks nothing");
    let file = folder.path().join("f.json");
    let printed = ok(&["forecast", "--between", "level=-100,100", "--json", text(&file)]);
    assert!(
        printed.contains("certified margin of the property") && printed.contains("\nverified\n"),
        "{printed}"
    );
    let found: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert!(
        number(&found, "margin") > 0.0 && found["limit"].is_null() && found["mae"].is_number(),
        "{found}"
    );
    // Standard output has nothing but the JSON then.
    let same: Value =
        serde_json::from_str(&ok(&["forecast", "--between", "level=-100,100", "--json", "-"])).unwrap();
    assert_eq!((&same["margin"], &same["record"]), (&found["margin"], &found["record"]));
    let drawn: Value =
        serde_json::from_str(&ok(&["trajectory", "--sample", "2", "--eps", "0.01", "--json", "-"])).unwrap();
    assert!(drawn["graphs"].is_array() && !Path::new("-").exists());
    let page = folder.path().join("p.html");
    ok(&["report", text(&file), text(&graph), "--out", text(&page)]);
    fails(&["forecast", "--between", "algae=0,1"], 2, "there is no output 'algae'");
}

#[test]
fn properties_that_cannot_be_meant_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |content: &str, message: &str| {
        let path = file(folder.path(), "p.json", content);
        let printed = fails(&["certify", "--samples", "0", "--property", &path], 2, message);
        assert!(printed.contains("hint:"), "{printed}");
    };
    refused("", "EOF");
    refused("{", "EOF");
    refused(r#"{"require": {"output": "bicycle", "above": 0}}"#, "there is no output 'bicycle'");
    refused(r#"{"require": {"output": 10, "above": 0}}"#, "there is no output 10");
    refused(r#"{"require": {"top": 10}}"#, "asks nothing");
    refused(r##"{"require": {"sum": {"bag": 1, "#8": 1}, "above": 0}}"##, "twice");
    refused(r#"{"require": {"sum": {"bag": 1, "bag": 2}, "above": 0}}"#, "names output 'bag' twice");
    refused(r#"{"require": {"all": []}}"#, "require.all: the list is empty");
    refused(r#"{"require": {"output": 1, "over": 0}}"#, "unknown field `over`");
    refused(r#"["gains-property", 1, "n", "data", {"top": 2}]"#, "it is not an object");
    refused(r#"{"require": [[{"top": 1}]]}"#, "require is not an object");
    refused(r#"{"require": {"all": [{"top": 1}, [[{"top": 2}]]]}}"#, "require.all[1] is not an object");
    let many = format!(r#"{{"require": {{"all": [{}]}}}}"#, vec![r#"{"lead": 1}"#; 1001].join(","));
    refused(&many, "10010 linear constraints");
    refused(r#"{"require": {"output": 1, "within": 1, "from": "target"}}"#, "the sample has no target");
    let missing = folder.path().join("none.json");
    fails(&["certify", "--property", text(&missing)], 1, "cannot read");
    fails(&["certify", "--target", "bicycle"], 2, "there is no output 'bicycle'");
    fails(&["certify", "--tolerance", "0.1"], 2, "--tolerance is for models that predict numbers");
    fails(&["certify", "--top", "2", "--target", "3"], 2, "cannot be used with");
    fails(&["certify", "--between", "3=2,1"], 2, "there is nothing");
}

#[test]
fn numbers_are_predicted_attacked_and_certified() {
    let folder = tempfile::tempdir().unwrap();
    let (model, inputs, truth) = numbers(folder.path());
    let base = ["--model", &model, "--inputs", &inputs, "--labels", &truth];
    let with = |command: &str, more: &[&str]| ok(&[&[command], &base[..], more].concat());
    let printed = with("predict", &[]);
    assert!(printed.contains("mean absolute error 0.0833 over 3 samples"), "{printed}");
    assert!(ok(&["model", "show", &model]).contains("regression, 2 outputs: y (N), z"));
    // Within eps, y moves by three times as much and z by once.
    let out = folder.path().join("r.jsonl");
    let flags = ["--eps", "0.09,0.11", "--tolerance", "0.3", "--out", text(&out)];
    let printed = with("eval", &flags);
    assert!(printed.contains("mse") && printed.contains("certified %"), "{printed}");
    for line in records(&out) {
        let expected = if number(&line, "eps") < 0.1 { "verified" } else { "falsified" };
        assert_eq!(line["verdict"], expected, "{line}");
        assert_eq!(line["output"].as_array().unwrap().len(), 2);
        if expected == "falsified" {
            let at = |i: usize| line["witness"][i].as_f64().unwrap();
            let moved = at(0) + 2.0 * at(1) - line["output"][0].as_f64().unwrap();
            assert!(moved.abs() > 0.3, "{line}");
        }
    }
    ok(&[&["challenge", text(&out), "--points", "30"], &base[..]].concat());
    let out = folder.path().join("a.jsonl");
    with("attack", &["--eps", "0.2", "--out", text(&out)]);
    assert!(records(&out).iter().all(|line| line["found"] == true), "the usual tolerance is 0.1");
    let out = folder.path().join("b.jsonl");
    with("certify", &["--eps", "0.1", "--between", "z=-2,1.05", "--out", text(&out)]);
    let verdicts: Vec<Value> = records(&out).iter().map(|line| line["verdict"].clone()).collect();
    assert_eq!(verdicts.iter().filter(|v| **v == "verified").count(), 2, "{verdicts:?}");
    assert_eq!(verdicts.iter().filter(|v| **v == "falsified").count(), 1, "{verdicts:?}");
    fails(&["certify", "--model", &model], 2, "for which there is no data set");
    let wrong = file(folder.path(), "w.csv", "y\n1\n2\n3\n");
    fails(
        &["certify", "--model", &model, "--inputs", &inputs, "--labels", &wrong],
        2,
        "3 times 1 known values",
    );
    fails(&[&["certify"], &base[..], &["--top", "1"]].concat(), 2, "--top is for models that classify");
    let top = file(folder.path(), "top.json", r#"{"require": {"top": 1}}"#);
    fails(&[&["certify"], &base[..], &["--property", &top]].concat(), 2, "the sample has no label");
}

#[test]
fn radii_are_found_from_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let (model, inputs, truth) = numbers(folder.path());
    let base = ["--model", &model, "--inputs", &inputs, "--labels", &truth];
    let out = folder.path().join("r.jsonl");
    let flags = ["--tolerance", "0.3", "--gap", "0.02", "--out", text(&out)];
    let printed = ok(&[&["radius"], &base[..], &flags].concat());
    assert!(printed.contains("median") && printed.contains("attacked"), "{printed}");
    let lines = records(&out);
    assert_eq!(lines.len(), 3);
    for line in &lines {
        let (certified, attacked) = (number(line, "certified_radius"), number(line, "attacked_radius"));
        assert!(certified <= 0.1 && attacked >= 0.1 - 1e-12, "{line}");
        assert!(attacked <= certified * 1.03, "{line}");
        assert!(line["verdict"] == "falsified" && line["witness"].is_array());
    }
    ok(&[&["challenge", text(&out), "--points", "30"], &base[..]].concat());
    let again = ok(&[&["radius"], &base[..], &flags, &["--resume"]].concat());
    assert!(again.contains("3 samples"), "{again}");
    assert_eq!(records(&out).len(), 3);
    fails(&[&["radius"], &base[..], &flags[..2], &["--out", text(&out), "--resume"]].concat(), 2, "gap");
    // Only a moves: y and z move as much as it does.
    let out = folder.path().join("a.jsonl");
    let flags =
        ["--feature", "a", "--bisect", "plain", "--gap", "0.01", "--tolerance", "0.3", "--out", text(&out)];
    ok(&[&["radius"], &base[..], &flags].concat());
    for line in records(&out) {
        let (certified, attacked) = (number(&line, "certified_radius"), number(&line, "attacked_radius"));
        assert!(certified <= 0.3 && certified > 0.289 && (0.2999..0.311).contains(&attacked), "{line}");
    }
    fails(&[&["radius"], &base[..], &["--feature", "c"]].concat(), 2, "there is no feature 'c'");
    fails(&[&["radius"], &base[..], &["--max", "0"]].concat(), 2, "--max");
}

#[test]
fn images_have_radii_within_their_time() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.jsonl");
    let started = std::time::Instant::now();
    let flags =
        ["--samples", "0..3", "--timeout", "2", "--threads", "1", "--gap", "0.3", "--out", text(&out)];
    ok(&[&["radius"], &flags[..]].concat());
    assert!(started.elapsed().as_secs_f64() < 30.0, "{:?}", started.elapsed());
    for line in records(&out).iter().filter(|line| line["verdict"] != "misclassified") {
        let certified = number(line, "certified_radius");
        let attacked = line["attacked_radius"].as_f64().unwrap_or(f64::INFINITY);
        assert!(certified < attacked && number(line, "probes") >= 1.0, "{line}");
    }
    fails(&["radius", "--max", "2"], 2, "the range of a pixel");
}

#[test]
fn series_keep_to_limits_in_their_own_units() {
    let scene = Scene::new();
    let certify = |name: &str, flags: &[&str]| -> Vec<Value> {
        let out = scene.path(name);
        let base = ["--part", "train", "--records", "0..3", "--eps", "0.001", "--out", text(&out)];
        scene.ok("certify", &[&base[..], flags].concat());
        records(&out)
    };
    for line in certify("wide.jsonl", &["--between", "pulse=0,200"]) {
        assert_eq!(line["verdict"], "verified", "{line}");
        assert!(
            line["limit"].is_null() && number(&line, "margin") > 10.0,
            "in beats, not deviations: {line}"
        );
    }
    for line in certify("never.jsonl", &["--between", "pulse=,20"]) {
        assert_eq!(line["verdict"], "misclassified", "{line}");
    }
    let band = certify("band.jsonl", &["--tolerance", "5"]);
    assert!(band.iter().all(|line| line["verdict"] == "verified"), "{band:?}");
    for line in certify("narrow.jsonl", &["--tolerance", "1e-9", "--eps", "0.5"]) {
        assert_eq!(line["verdict"], "falsified", "{line}");
    }
    ok(&[
        &["challenge", text(&scene.path("band.jsonl")), "--points", "10"],
        &["--model", &scene.model, "--series", &scene.series][..],
    ]
    .concat());
    scene.fails("certify", &["--tolerance", "5", "--nu", "0.1"], 2, "--nu is about the mean error");
    scene.fails("certify", &["--between", "Lactate=,4"], 2, "there is no output 'Lactate'");
    let out = scene.path("radius.jsonl");
    let flags =
        ["--part", "train", "--records", "0..2", "--tolerance", "1", "--feature", "pulse", "--max", "4"];
    scene.ok("radius", &[&flags[..], &["--timeout", "3", "--gap", "0.3", "--out", text(&out)]].concat());
    for line in records(&out) {
        let attacked = line["attacked_radius"].as_f64().unwrap_or(f64::INFINITY);
        assert!(number(&line, "certified_radius") < attacked, "{line}");
    }
}
