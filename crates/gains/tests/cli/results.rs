//! Result files: what a line carries, and which lines a run goes on from.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gains_core::Precision;
use gains_core::model_file::read_model;
use gains_ode::Inference;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::forecast::Scene;
use crate::support::{MODEL, fails, gains, ok, records, run, stderr, text};

/// A run of three images, and the flags to go on with it.
struct Run {
    folder: tempfile::TempDir,
    out: PathBuf,
}

const FLAGS: [&str; 8] =
    ["certify", "--samples", "0..3", "--method", "box", "--attack-steps", "5", "--quiet"];

impl Run {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("r.jsonl");
        ok(&[&FLAGS[..], &["--out", text(&out)]].concat());
        Self { folder, out }
    }

    fn resume<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&FLAGS[..], &["--out", text(&self.out), "--resume"], more].concat()
    }

    /// Changes the text of the file and demands that going on with it is refused and leaves it alone.
    fn refuses(&self, change: impl Fn(&str) -> String, message: &str) {
        let honest = std::fs::read_to_string(&self.out).unwrap();
        let changed = change(&honest);
        assert_ne!(honest, changed);
        std::fs::write(&self.out, &changed).unwrap();
        let printed = fails(&self.resume(&[]), 1, message);
        assert!(printed.contains("hint:") && printed.contains("line"), "{printed}");
        assert_eq!(std::fs::read_to_string(&self.out).unwrap(), changed);
        std::fs::write(&self.out, honest).unwrap();
    }
}

/// Changes one key of the first line.
fn edit(content: &str, key: &str, value: &Value) -> String {
    let mut lines: Vec<String> = content.lines().map(String::from).collect();
    let mut line: Value = serde_json::from_str(&lines[0]).unwrap();
    line[key] = value.clone();
    lines[0] = line.to_string();
    lines.join("\n") + "\n"
}

#[test]
fn an_honest_file_is_gone_on_with() {
    let run_of_three = Run::new();
    let before = std::fs::read(&run_of_three.out).unwrap();
    let output = run(&[&run_of_three.resume(&[])[..7], &run_of_three.resume(&[])[8..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("3 of 3 results are there already"), "{}", stderr(&output));
    assert_eq!(std::fs::read(&run_of_three.out).unwrap(), before);
}

#[test]
fn other_questions_are_refused() {
    let run_of_three = Run::new();
    let before = std::fs::read(&run_of_three.out).unwrap();
    for (flags, difference) in [
        (["--timeout", "77"], "timeout 10.0 there, 77.0 here"),
        (["--max-vertices", "5"], "max_vertices 20000 there, 5 here"),
        (["--max-memory", "99"], "max_memory 4096 there, 99 here"),
        (["--step-form", "difference"], "step_form independent there, difference here"),
        (["--arithmetic", "float32"], "arithmetic real there, float32 here"),
        (["--model", "mnist"], "model "),
    ] {
        let mut flags = flags.to_vec();
        if flags[0] == "--model" {
            flags.extend(["--data", "fashion-mnist"]);
        }
        let printed = fails(&run_of_three.resume(&flags), 2, "holds results of another run");
        assert!(printed.contains(difference), "{difference}\n{printed}");
    }
    let mut other: Vec<&str> = run_of_three.resume(&[]);
    other[6] = "6";
    assert!(fails(&other, 2, "another run").contains("attack {"));
    assert_eq!(std::fs::read(&run_of_three.out).unwrap(), before);
}

/// The first hundred Fashion-MNIST images under another name.
fn as_mnist(folder: &Path) {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gains-data/assets");
    let target = folder.join("mnist");
    std::fs::create_dir(&target).unwrap();
    for kind in ["images-idx3", "labels-idx1"] {
        let asset = assets.join(format!("fashion-mnist-100-{kind}-ubyte.gz"));
        for part in ["t10k", "train"] {
            std::fs::copy(&asset, target.join(format!("{part}-{kind}-ubyte.gz"))).unwrap();
        }
    }
}

#[test]
fn other_data_and_splits_are_refused() {
    let run_of_three = Run::new();
    as_mnist(run_of_three.folder.path());
    let dir = text(run_of_three.folder.path()).to_owned();
    let flags = ["--data", "mnist", "--data-dir", &dir];
    let printed = fails(&run_of_three.resume(&flags), 2, "data fashion-mnist there, mnist here");
    assert!(printed.contains("hint:"), "{printed}");
    let out = run_of_three.folder.path().join("mnist.jsonl");
    let on = |split: &str, resume: &[&str]| -> Vec<String> {
        let more = ["--out", text(&out), "--split", split];
        [&FLAGS[..], &flags[..], &more[..], resume].concat().into_iter().map(String::from).collect()
    };
    let words = on("test", &[]);
    ok(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let words = on("train", &["--resume"]);
    fails(&words.iter().map(String::as_str).collect::<Vec<_>>(), 2, "split test there, train here");
    // A challenge needs not be told: the lines name their data.
    let challenge = ["challenge", text(&out), "--data-dir", &dir, "--points", "2", "--quiet"];
    if records(&out).iter().any(|line| line["verdict"] == "verified") {
        ok(&challenge);
    }
}

#[test]
fn lines_that_were_tampered_with_are_refused() {
    let run_of_three = Run::new();
    run_of_three.refuses(|t| edit(t, "verdict", &"verified".into()), "line 1");
    run_of_three.refuses(|t| edit(t, "seconds", &0.5.into()), "was changed after it was written");
    run_of_three.refuses(|t| edit(t, "verdict", &"certified".into()), "certified");
    run_of_three.refuses(|t| edit(t, "mood", &"good".into()), "'mood' is not known");
    run_of_three.refuses(|t| edit(t, "prediction", &12.into()), "line 1");
    run_of_three.refuses(|t| t.replacen("\"check\"", "\"cheque\"", 1), "no 'check'");
    run_of_three.refuses(|t| format!("{t}{}\n", t.lines().next().unwrap()), "repeats line 1");
    run_of_three.refuses(|t| format!("{t}not a result\n"), "line 4 is not a result");
}

/// The check as docs/results-format.md describes it.
fn check_of(line: &Value) -> String {
    let object = line.as_object().unwrap();
    let sorted: BTreeMap<&String, &Value> = object.iter().filter(|(key, _)| *key != "check").collect();
    let digest = Sha256::digest(serde_json::to_string(&sorted).unwrap());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Even a line with a fitting check must be about this data and support its verdict.
#[test]
fn lines_that_cannot_be_are_refused() {
    let run_of_three = Run::new();
    assert!(records(&run_of_three.out).iter().all(|line| line["check"] == check_of(line)));
    let forged = |key: &str, value: Value| {
        let key = key.to_owned();
        move |content: &str| {
            let mut line: Value = serde_json::from_str(content.lines().next().unwrap()).unwrap();
            line[&key] = value.clone();
            let check = check_of(&line);
            edit(&edit(content, &key, &value), "check", &check.into())
        }
    };
    run_of_three.refuses(forged("prediction", 12.into()), "prediction is 12, there are 10 classes");
    run_of_three.refuses(forged("label", 12.into()), "label is 12");
    run_of_three.refuses(forged("index", 100_000.into()), "there are 100 images");
    run_of_three.refuses(forged("verdict", "falsified".into()), "does not support that it is falsified");
    run_of_three.refuses(forged("eps", (-1).into()), "line 1");
}

#[test]
fn a_line_cut_in_half_is_done_again() {
    let run_of_three = Run::new();
    let honest = std::fs::read_to_string(&run_of_three.out).unwrap();
    std::fs::write(&run_of_three.out, &honest[..honest.len() - 30]).unwrap();
    ok(&run_of_three.resume(&[]));
    assert_eq!(records(&run_of_three.out).len(), 3);
}

#[cfg(target_os = "linux")]
#[test]
fn two_processes_do_not_write_to_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.jsonl");
    let args = ["certify", "--samples", "0..100", "--eps", "0.1,0.12,0.14", "--quiet", "--out", text(&out)];
    let mut child = gains(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while std::fs::read_to_string(&out).map_or(0, |t| t.lines().count()) < 2 {
        assert!(started.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(5));
    }
    let printed = fails(&[&args[..], &["--resume"]].concat(), 2, "is being written to by another run");
    assert!(printed.contains(&format!("process {}", child.id())), "{printed}");
    assert!(printed.contains("hint:"), "{printed}");
    let attack = ["attack", "--samples", "0", "--steps", "1", "--out", text(&out)];
    fails(&attack, 2, "is being written to by another run");
    child.kill().unwrap();
    child.wait().unwrap();
    // What is left behind is not locked any more.
    let mut file = std::fs::OpenOptions::new().append(true).open(&out).unwrap();
    file.write_all(b"{\"index\":5").unwrap();
    let index = records_before_the_cut(&out)[0]["index"].to_string();
    ok(&["certify", "--samples", &index, "--eps", "0.1", "--quiet", "--out", text(&out), "--resume"]);
}

fn records_before_the_cut(path: &Path) -> Vec<Value> {
    let content = std::fs::read_to_string(path).unwrap();
    let whole = &content[..=content.rfind('\n').unwrap()];
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A falsified line can be checked by anybody who can run the network.
#[test]
fn witnesses_break_what_they_are_said_to() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.jsonl");
    ok(&["certify", "--samples", "0..20", "--eps", "0.3", "--method", "box", "--quiet", "--out", text(&out)]);
    let network = read_model(MODEL).unwrap();
    let images = gains_data::Images::bundled();
    let mut found = 0;
    for line in records(&out).iter().filter(|line| line["verdict"] == "falsified") {
        found += 1;
        let index = line["index"].as_u64().unwrap() as usize;
        let witness: Vec<f64> =
            line["witness"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        let near = |(x, w): (&f64, &f64)| (x - w).abs() <= 0.3 && (0.0..=1.0).contains(w);
        assert!(images.image(index).iter().zip(&witness).all(near));
        let prediction = Inference::run(&network, &witness, Precision::Float64).unwrap().prediction();
        assert_ne!(prediction as u64, line["label"].as_u64().unwrap());
    }
    assert!(found > 0, "nothing breaks at eps 0.3");
}

/// Files of earlier versions had stages as text, no data set and no check: they can be challenged, not gone on with.
#[test]
fn files_of_earlier_versions_can_be_challenged() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r.jsonl");
    let args = ["certify", "--samples", "1..3", "--eps", "0.01", "--method", "tight", "--quiet"];
    let args = [&args[..], &["--out", text(&out)]].concat();
    ok(&args);
    let old: Vec<String> = records(&out)
        .into_iter()
        .map(|mut line| {
            let new = ["reason_code", "witness", "data", "split", "step_form", "attack", "timeout"];
            for key in new.iter().chain(&["max_vertices", "max_memory", "check"]) {
                line.as_object_mut().unwrap().remove(*key);
            }
            line["stages"] = "tight 0.024".into();
            line.to_string()
        })
        .collect();
    std::fs::write(&out, old.join("\n") + "\n").unwrap();
    ok(&["challenge", text(&out), "--points", "5", "--quiet"]);
    fails(&[&args[..], &["--resume"]].concat(), 1, "an earlier version");
}

#[test]
fn series_are_as_strict() {
    let scene = Scene::new();
    let out = scene.path("r.jsonl");
    let flags = ["--part", "train", "--records", "0..2", "--method", "box", "--out", text(&out)];
    scene.ok("certify", &flags);
    let resume = |more: &[&str], message: &str| {
        scene.fails("certify", &[&flags[..], &["--resume"], more].concat(), 2, message);
    };
    resume(&["--delta", "0.5"], "delta 0.01 there, 0.5 here");
    resume(&["--horizon", "3"], "horizon 6.0 there, 3.0 here");
    resume(&["--features", "pulse"], "features [] there, [\"pulse\"] here");
    resume(&["--feature-eps", "pulse=0.5"], "feature_eps {} there, {\"pulse\":0.5} here");
    resume(&["--grid", "authors"], "grid own there, authors here");
    let content = std::fs::read_to_string(&out).unwrap();
    std::fs::write(&out, edit(&content, "record", &"r39".into())).unwrap();
    scene.fails("certify", &[&flags[..], &["--resume"]].concat(), 1, "line 1");
}

#[test]
fn a_line_without_an_end_is_not_read_to_it() {
    let run_of_three = Run::new();
    let length = std::fs::metadata(&run_of_three.out).unwrap().len();
    // Zeros that take no room on the disk.
    let file = std::fs::OpenOptions::new().write(true).open(&run_of_three.out).unwrap();
    file.set_len(1 << 35).unwrap();
    let printed = fails(&run_of_three.resume(&[]), 1, "line 4 is longer than 64 MB");
    assert!(printed.contains("hint:"), "{printed}");
    assert_eq!(file.metadata().unwrap().len(), 1 << 35, "it is left alone");
    file.set_len(length).unwrap();
    ok(&run_of_three.resume(&[]));
}
