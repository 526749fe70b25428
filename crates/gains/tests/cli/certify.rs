//! `gains certify`: results, resuming, interrupting.

use std::collections::HashSet;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::{fails, gains, ok, records, run, stderr, stdout, text};

const KEYS: [&str; 28] = [
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
    "check",
];

#[test]
fn results_have_exactly_the_promised_keys() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.jsonl");
    let summary =
        ok(&["certify", "--samples", "0..12", "--eps", "0.01,0.1", "--method", "box", "--out", text(&out)]);
    assert!(summary.contains("certified %") && summary.contains("standard %"), "{summary}");
    let records = records(&out);
    assert_eq!(records.len(), 24);
    let mut verdicts = HashSet::new();
    for record in &records {
        let keys: Vec<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>(), KEYS.iter().collect::<HashSet<_>>());
        let verdict = record["verdict"].as_str().unwrap();
        assert!(["verified", "falsified", "unknown", "misclassified"].contains(&verdict));
        verdicts.insert(verdict.to_string());
        match verdict {
            "verified" => assert!(record["margin"].as_f64().unwrap() > 0.0 && record["reason"].is_null()),
            "unknown" => assert!(record["reason"].is_string() && record["reason_code"].is_string()),
            "falsified" => assert_eq!(record["witness"].as_array().unwrap().len(), 784),
            "misclassified" => assert_ne!(record["label"], record["prediction"]),
            _ => {}
        }
        assert_eq!(record["arithmetic"], "real");
        assert_eq!((&record["data"], &record["split"]), (&"fashion-mnist".into(), &"test".into()));
        assert_eq!(record["attack"]["steps"], 100);
        assert!(
            record["stages"]
                .as_array()
                .unwrap()
                .iter()
                .all(|s| s["name"].is_string() && s["seconds"].is_f64())
        );
        assert_eq!(record["model"].as_str().unwrap().len(), 16);
    }
    assert!(verdicts.contains("verified") && verdicts.contains("misclassified"), "{verdicts:?}");
}

#[test]
fn methods_are_ordered_and_float32_costs_little() {
    let folder = tempfile::tempdir().unwrap();
    let margin = |method: &str, arithmetic: &str| -> Vec<f64> {
        let out = folder.path().join(format!("{method}-{arithmetic}"));
        let flags = ["--samples", "1..4", "--attack-steps", "0", "--threads", "1", "--quiet"];
        let mut args = vec!["certify", "--method", method, "--arithmetic", arithmetic, "--out", text(&out)];
        args.extend(flags);
        ok(&args);
        let mut records = records(&out);
        records.sort_by_key(|r| r["index"].as_u64());
        records.iter().map(|r| r["margin"].as_f64().unwrap()).collect()
    };
    let (boxes, linear, gains) = (margin("box", "real"), margin("linear", "real"), margin("gains", "real"));
    let single = margin("gains", "float32");
    for i in 0..3 {
        assert!(gains[i] >= boxes[i] && gains[i] >= linear[i] - 1e-9, "sample {i}");
        assert!(
            single[i] <= gains[i] && single[i] > gains[i] - 0.5,
            "sample {i}: {} {}",
            single[i],
            gains[i]
        );
    }
}

#[test]
fn difference_form_is_tighter_on_smaller_graphs() {
    let folder = tempfile::tempdir().unwrap();
    let results = |name: &str, flags: &[&str]| {
        let out = folder.path().join(name);
        let mut args =
            vec!["certify", "--samples", "1..6", "--attack-steps", "0", "--quiet", "--out", text(&out)];
        args.extend(flags);
        ok(&args);
        let mut records = records(&out);
        records.sort_by_key(|r| r["index"].as_u64());
        records.retain(|r| r["verdict"] != "misclassified");
        let margins: Vec<f64> = records.iter().map(|r| r["margin"].as_f64().unwrap()).collect();
        let vertices: Vec<u64> = records.iter().map(|r| r["vertices"].as_u64().unwrap()).collect();
        assert!(margins.len() > 2);
        (margins, vertices, records[0]["method"].as_str().unwrap().to_string())
    };
    let gains = results("gains", &["--method", "gains"]);
    let difference = results("difference", &["--method", "gains", "--step-form", "difference"]);
    let tight = results("tight", &["--method", "tight"]);
    assert_eq!((difference.2.as_str(), tight.2.as_str()), ("gains-difference", "tight"));
    for i in 0..gains.0.len() {
        assert!(difference.0[i] >= gains.0[i] - 1e-9 && tight.0[i] >= difference.0[i] - 1e-9, "sample {i}");
        assert!(4 * tight.1[i] < gains.1[i], "sample {i}: {} and {} vertices", tight.1[i], gains.1[i]);
    }
}

#[test]
fn csv_has_a_header_and_the_same_columns() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.csv");
    let args = [
        "certify",
        "--samples",
        "0..4",
        "--method",
        "box",
        "--format",
        "csv",
        "--out",
        text(&out),
        "--quiet",
    ];
    ok(&args);
    let content = std::fs::read_to_string(&out).unwrap();
    assert_eq!(content.lines().next().unwrap(), KEYS.join(","));
    assert_eq!(content.lines().count(), 5);
    let mut again = args.to_vec();
    again.extend(["--resume", "--eps", "0.1,0.05"]);
    ok(&again);
    let content = std::fs::read_to_string(&out).unwrap();
    assert_eq!(content.lines().count(), 9, "four more for the new radius, none repeated");
}

#[test]
fn results_to_standard_output_keep_the_summary_apart() {
    let output =
        run(&["certify", "--samples", "0..3", "--method", "box", "--attack-steps", "0", "--out", "-"]);
    assert!(output.status.success());
    for line in stdout(&output).lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    assert!(stderr(&output).contains("certified %"));
}

#[test]
fn limits_give_unknown_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, word) in [
        (["--max-vertices", "5"], "more than 5 reachable"),
        (["--timeout", "0.000001"], "time limit"),
        (["--max-memory", "0"], "memory limit"),
    ] {
        let out = folder.path().join(flags[0]);
        let mut args =
            vec!["certify", "--samples", "1", "--attack-steps", "0", "--quiet", "--out", text(&out)];
        args.extend(["--method", "gains"]);
        args.extend(flags);
        ok(&args);
        let record = &records(&out)[0];
        assert_eq!(record["verdict"], "unknown");
        assert!(record["reason"].as_str().unwrap().contains(word), "{record}");
    }
}

/// kill -9 at some moment, a line cut in half, then resume: every pair exactly once.
#[test]
fn resume_after_a_kill_repeats_nothing_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.jsonl");
    let args = [
        "certify",
        "--samples",
        "0..60",
        "--eps",
        "0.02,0.1",
        "--attack-steps",
        "0",
        "--quiet",
        "--out",
        text(&out),
    ];
    let mut killed = 0;
    for round in 0..3 {
        let mut all = args.to_vec();
        if round > 0 {
            all.push("--resume");
        }
        let mut child = gains(&all).stdout(std::process::Stdio::null()).spawn().unwrap();
        let before = if out.exists() { std::fs::read_to_string(&out).unwrap().lines().count() } else { 0 };
        let started = Instant::now();
        let lines = || std::fs::read_to_string(&out).map_or(0, |t| t.lines().count());
        while lines() < before + 10 && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < Duration::from_secs(120));
            std::thread::sleep(Duration::from_millis(2));
        }
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            killed += 1;
        }
        child.wait().unwrap();
        // What a kill in the middle of a write would leave.
        let mut file = std::fs::OpenOptions::new().append(true).open(&out).unwrap();
        file.write_all(b"{\"index\":59,\"label\":3,\"predic").unwrap();
    }
    assert!(killed > 0, "the run was too fast to be killed");
    let kept: Vec<String> = std::fs::read_to_string(&out).unwrap().lines().map(String::from).collect();
    let mut last = args.to_vec();
    last.push("--resume");
    ok(&last);
    let content = std::fs::read_to_string(&out).unwrap();
    assert!(content.starts_with(&kept[..kept.len() - 1].join("\n")), "earlier lines are untouched");
    let pairs: Vec<(u64, u64)> = records(&out)
        .iter()
        .map(|r| (r["index"].as_u64().unwrap(), r["eps"].as_f64().unwrap().to_bits()))
        .collect();
    assert_eq!(pairs.len(), 120);
    assert_eq!(pairs.iter().collect::<HashSet<_>>().len(), 120);
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.jsonl");
    let args = ["certify", "--eps", "0.02,0.1,0.12", "--attack-steps", "0", "--out", text(&out)];
    let child = gains(&args)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while std::fs::read_to_string(&out).map_or(0, |t| t.lines().count()) < 5 {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(2));
    }
    let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted after") && stderr(&output).contains("--resume"));
    assert!(stdout(&output).contains("certified %"), "the summary of what was done is shown");
    let done = records(&out).len();
    assert!((5..300).contains(&done));
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("precious");
    std::fs::write(&out, "precious\n").unwrap();
    let text = fails(&["certify", "--samples", "0", "--out", text(&out)], 2, "exists already");
    assert!(text.contains("hint:") && text.contains("--resume"));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "precious\n");
}

#[test]
fn resuming_with_other_settings_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.jsonl");
    ok(&["certify", "--samples", "0", "--method", "box", "--quiet", "--out", text(&out)]);
    let before = std::fs::read(&out).unwrap();
    fails(
        &["certify", "--samples", "0", "--method", "linear", "--out", text(&out), "--resume"],
        2,
        "holds results of",
    );
    fails(
        &["certify", "--samples", "0", "--method", "box", "--format", "csv", "--out", text(&out), "--resume"],
        1,
        "CSV",
    );
    assert_eq!(std::fs::read(&out).unwrap(), before);
}

/// The cascade names every stage with its time, the deciding one last, and says of an unknown where it loses.
/// What a line says of single outputs goes together with the rest of it.
#[test]
fn lines_tell_what_was_proved_of_each_output() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.jsonl");
    ok(&[
        "certify",
        "--samples",
        "0..8",
        "--eps",
        "0.05",
        "--method",
        "gains",
        "--quiet",
        "--out",
        text(&out),
    ]);
    let mut proved = 0;
    for record in records(&out).iter().filter(|record| record["verdict"] == "verified") {
        let list = |key: &str| -> Vec<Option<f64>> {
            record["bounds"][key].as_array().unwrap().iter().map(serde_json::Value::as_f64).collect()
        };
        let (output, low, high, margins) = (list("output"), list("low"), list("high"), list("margins"));
        assert!((0..10).all(|i| low[i] <= output[i] && output[i] <= high[i]), "{record}");
        let label = usize::try_from(record["label"].as_u64().unwrap()).unwrap();
        assert_eq!((margins.len(), margins[label]), (10, None), "{record}");
        let least = margins.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        assert_eq!(Some(least), record["margin"].as_f64(), "{record}");
        let seen = |i: usize| output[label].unwrap() - output[i].unwrap();
        assert!((0..10).all(|i| margins[i].is_none_or(|margin| margin <= seen(i))), "{record}");
        proved += 1;
    }
    assert!(proved > 2);
}

#[test]
fn auto_tells_its_stages() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.jsonl");
    ok(&[
        "certify",
        "--samples",
        "0..100",
        "--eps",
        "0.1,0.14",
        "--timeout",
        "3",
        "--quiet",
        "--out",
        text(&out),
    ]);
    let mut decided = HashSet::new();
    for record in records(&out) {
        let stages = record["stages"].as_array().unwrap();
        let names: Vec<&str> = stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect();
        match record["verdict"].as_str().unwrap() {
            "misclassified" => assert!(stages.is_empty(), "{record}"),
            // Without time for the whole region nothing is known about where it loses.
            "unknown" => {
                let in_time = record["reason_code"] != "time" && names.last() != Some(&"slopes");
                assert!(!record["looseness"].is_null() || !in_time, "{record}");
            }
            _ => {
                assert_eq!(names[0], "attack", "{record}");
                decided.insert(names.last().copied().unwrap().to_string());
            }
        }
        let times: f64 = stages.iter().map(|stage| stage["seconds"].as_f64().unwrap()).sum();
        assert!(times <= record["seconds"].as_f64().unwrap() + 0.01, "{record}");
    }
    for stage in ["attack", "box", "tight"] {
        assert!(decided.contains(stage), "{stage} decided nothing: {decided:?}");
    }
}

/// Verdicts survive a challenge; a margin that was tampered with does not.
#[test]
fn challenge_confirms_and_exposes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.jsonl");
    ok(&["certify", "--samples", "0..8", "--eps", "0.05", "--quiet", "--out", text(&out)]);
    let table = ok(&["challenge", text(&out), "--points", "40", "--quiet"]);
    assert!(table.contains("misclassified") && table.contains("below the margin"), "{table}");
    let honest = std::fs::read_to_string(&out).unwrap();
    let tampered: Vec<String> = honest
        .lines()
        .map(|line| {
            let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["margin"] = serde_json::json!(1000.0);
            record.to_string()
        })
        .collect();
    let bad = folder.path().join("bad.jsonl");
    std::fs::write(&bad, tampered.join("\n")).unwrap();
    fails(&["challenge", text(&bad), "--points", "4", "--quiet"], 1, "does not keep its verdict");
    std::fs::write(&bad, "not a result\n").unwrap();
    fails(&["challenge", text(&bad)], 1, "line 1 is not a result");
    fails(&["challenge", "missing.jsonl"], 1, "missing.jsonl");
}
