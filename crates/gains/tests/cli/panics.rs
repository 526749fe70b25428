//! A panic inside one sample: unknown for that sample, never the end of a campaign, never a verdict.

use crate::forecast::Scene;
use crate::support::{gains, records, stderr, stdout, text};

/// Runs with a panic provoked at a sample, which only debug builds do.
fn provoked(args: &[&str], at: &str) -> std::process::Output {
    gains(args).env("GAINS_TEST_PANIC_AT", at).output().unwrap()
}

fn reported(text: &str, sample: &str) {
    let line = text.lines().find(|line| line.contains("panicked")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(sample) && line.contains("please report"), "{line}");
    assert!(line.contains("provoked at sample") && line.contains("panics.rs:"), "what and where: {line}");
    assert!(line.contains(&format!("gains {}", env!("CARGO_PKG_VERSION"))), "{line}");
    assert!(!text.contains("RUST_BACKTRACE"), "nothing but our own line\n{text}");
}

#[test]
fn one_sample_that_panics_is_unknown_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["certify", "eval"] {
        let out = folder.path().join(command);
        let args = [command, "--samples", "0..4", "--method", "box", "--quiet", "--out", text(&out)];
        let output = provoked(&args, "2");
        assert!(output.status.success(), "{}", stderr(&output));
        reported(&stderr(&output), "sample 2 at eps 0.1");
        let lines = records(&out);
        assert_eq!(lines.len(), 4);
        for line in &lines {
            let internal = line["index"] == 2;
            assert_eq!(line["reason_code"] == "internal", internal, "{line}");
            assert!(!internal || (line["verdict"] == "unknown" && line["margin"].is_null()), "{line}");
        }
    }
}

#[test]
fn series_are_no_exception() {
    let scene = Scene::new();
    let out = scene.path("results.jsonl");
    let flags = ["--part", "train", "--records", "0..3", "--method", "box", "--out", text(&out)];
    let output = provoked(&scene.args("certify", &flags), "1");
    assert!(output.status.success(), "{}", stderr(&output));
    reported(&stderr(&output), "record r");
    let codes: Vec<_> = records(&out).iter().filter(|l| l["reason_code"] == "internal").cloned().collect();
    assert_eq!(codes.len(), 1);
    assert_eq!(codes[0]["index"], 1);
    // One record is all there is to forecast.
    let output = provoked(&scene.args("forecast", &["--record", "r0"]), "0");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error: record r0: gains panicked"), "{}", stderr(&output));
}

#[test]
fn attacks_predictions_and_challenges_go_on_too() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--samples", "0..3", "--quiet"];
    let output = provoked(&[&["attack", "--steps", "2", "--out", "-"], &flags[..]].concat(), "1");
    assert!(output.status.success(), "{}", stderr(&output));
    reported(&stderr(&output), "sample 1");
    assert_eq!(stdout(&output).lines().filter(|l| l.contains("\"reason_code\":\"internal\"")).count(), 1);
    assert_eq!(stdout(&output).lines().count(), 3);

    let output = provoked(&[&["predict", "--json"], &flags[..]].concat(), "1");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 2);
    reported(&stderr(&output), "sample 1");

    let out = folder.path().join("r.jsonl");
    let args = ["certify", "--samples", "1..3", "--eps", "0.01", "--method", "tight", "--quiet"];
    assert!(gains(&args).args(["--out", text(&out)]).output().unwrap().status.success());
    let output = provoked(&["challenge", text(&out), "--points", "3", "--quiet"], "1");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    reported(&stderr(&output), "sample 1");
}
