//! The other commands.

use crate::support::{fails, gains, model_file, ok, run, stderr, stdout, text};

#[test]
fn help_teaches() {
    let help = ok(&["--help"]);
    for word in [
        "certify",
        "eval",
        "attack",
        "challenge",
        "predict",
        "trajectory",
        "model",
        "data",
        "bench",
        "Exit codes",
    ] {
        assert!(help.contains(word), "{word}");
    }
    let help = ok(&["certify", "--help"]);
    for word in ["Examples:", "--resume", "--arithmetic", "verified", "[default: auto]"] {
        assert!(help.contains(word), "{word}");
    }
    for command in
        ["eval", "attack", "challenge", "predict", "trajectory", "model", "data", "bench", "completions"]
    {
        assert!(ok(&[command, "--help"]).len() > 200, "{command}");
    }
    let nothing = run(&[]);
    assert!(!nothing.status.success() && stderr(&nothing).contains("Usage"));
    assert!(ok(&["--version"]).starts_with("gains "));
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(ok(&["completions", shell]).contains("certify"), "{shell}");
    }
}

#[test]
fn models_are_shown_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let shown = ok(&["model", "show", text(&model_file(folder.path()))]);
    for word in ["parameters  45866", "dopri5", "h0 0.1", "training record", "32x4x4", "conv 32 → 32"] {
        assert!(shown.contains(word), "{word}\n{shown}");
    }
    assert_eq!(shown, ok(&["model", "show"]), "the bundled model is the same file");
}

#[test]
fn bundled_models_go_by_their_names() {
    let listed = ok(&["model", "list"]);
    for name in ["fashion-mnist", "mnist", "pond", "fashion-mnist-best", "mnist-best"] {
        let shown = ok(&["model", "show", name]);
        let hash = shown.lines().find_map(|line| line.strip_prefix("hash")).unwrap().trim();
        let row = listed.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        assert!(row.contains(hash), "{row}\n{shown}");
        assert!(shown.contains("training record"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    }
    assert_eq!(ok(&["model", "show", "fashion-mnist"]), ok(&["model", "show"]), "the default");
    for line in listed.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    // A file of that name comes first.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mnist"), "no model").unwrap();
    let output = gains(&["model", "show", "mnist"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    fails(&["model", "show", "imagenet"], 1, "imagenet");
}

#[test]
fn bundled_models_are_written_to_files() {
    let folder = tempfile::tempdir().unwrap();
    let output = gains(&["model", "export", "pond"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(stdout(&output), "wrote pond.safetensors\n", "{}", stderr(&output));
    let file = folder.path().join("pond.safetensors");
    assert_eq!(ok(&["model", "show", text(&file)]), ok(&["model", "show", "pond"]));
    let elsewhere = folder.path().join("none/pond");
    fails(&["model", "export", "pond", "--out", text(&elsewhere)], 1, "none");
    fails(&["model", "export", "imagenet"], 1, "gains model list");
}

#[test]
fn predictions_agree_in_both_precisions() {
    let answers = |precision: &str| -> Vec<(u64, Vec<f64>)> {
        ok(&["predict", "--json", "--samples", "0..20", "--precision", precision, "--quiet"])
            .lines()
            .map(|line| {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                let logits =
                    value["logits"].as_array().unwrap().iter().map(|l| l.as_f64().unwrap()).collect();
                (value["prediction"].as_u64().unwrap(), logits)
            })
            .collect()
    };
    let (double, single) = (answers("float64"), answers("float32"));
    assert_eq!(double.len(), 20);
    for (d, s) in double.iter().zip(&single) {
        assert_eq!(d.0, s.0);
        assert!(d.1.iter().zip(&s.1).all(|(a, b)| (a - b).abs() < 1e-4));
        assert!(d.1 != s.1, "float32 really rounds");
    }
    assert!(ok(&["predict", "--samples", "0..3"]).contains("of 3 correct"));
}

#[test]
fn attacks_find_witnesses_that_hold() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.jsonl");
    ok(&[
        "attack",
        "--samples",
        "0..10",
        "--eps",
        "0.3",
        "--steps",
        "40",
        "--step-size",
        "0.02",
        "--out",
        text(&out),
    ]);
    let content = std::fs::read_to_string(&out).unwrap();
    let records: Vec<serde_json::Value> = content.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(records.len(), 10);
    let images = gains_data::Images::bundled();
    let mut found = 0;
    for record in records.iter().filter(|r| r["found"] == true) {
        found += 1;
        let image = images.image(record["index"].as_u64().unwrap() as usize);
        let witness: Vec<f64> =
            record["witness"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        for (x, w) in image.iter().zip(&witness) {
            assert!((x - w).abs() <= 0.3 && (0.0..=1.0).contains(w));
        }
        assert_ne!(record["adversarial_prediction"], record["label"]);
    }
    assert!(found > 0, "at eps 0.3 something breaks");
}

#[test]
fn eval_counts_everything_in_one_table() {
    let output = run(&["eval", "--samples", "0..20", "--eps", "0.05,0.1", "--steps", "20"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table = stdout(&output);
    for word in ["standard %", "attacked %", "certified %", "0.05", "0.1"] {
        assert!(table.contains(word), "{table}");
    }
}

#[test]
fn trajectories_are_drawn_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let (svg, json) = (folder.path().join("t.svg"), folder.path().join("t.json"));
    let args = ["trajectory", "--sample", "2", "--eps", "0.01", "--svg", text(&svg), "--json", text(&json)];
    let summary = ok(&args);
    assert!(summary.contains("the concrete trajectory is one of them"), "{summary}");
    let drawing = std::fs::read_to_string(&svg).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.trim_end().ends_with("</svg>"));
    assert!(drawing.matches("<circle").count() > 3);
    let value: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let vertices = value["vertices"].as_array().unwrap().len();
    for edge in value["edges"].as_array().unwrap() {
        assert!((edge["from"].as_u64().unwrap() as usize) < vertices);
        assert!(edge["to"].is_null() || (edge["to"].as_u64().unwrap() as usize) < vertices);
    }
    assert!(value["trajectory"].as_array().unwrap().len() >= 2);
    fails(&["trajectory", "--max-vertices", "3"], 1, "more than 3 reachable");
}

#[test]
fn bench_prints_its_tables() {
    let text = ok(&["bench", "--samples", "1..3", "--eps", "0.02", "--rounds", "1", "--quiet"]);
    for word in ["ms median", "box", "linear", "gains", "tight", "peak memory"] {
        assert!(
            text.contains(word) || (word == "peak memory" && !cfg!(target_os = "linux")),
            "{word}\n{text}"
        );
    }
    let several = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    assert_eq!(text.contains("two threads"), several, "{text}");
}

#[test]
fn data_sets_are_listed_and_fetching_from_nowhere_fails_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(folder.path());
    let listing = ok(&["data", "list", "--data-dir", dir]);
    assert!(listing.contains("mnist") && listing.contains("missing"));
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let mirror = format!("http://127.0.0.1:{port}/");
    fails(&["data", "fetch", "mnist", "--data-dir", dir, "--mirror", &mirror, "--quiet"], 1, "127.0.0.1");
    assert!(!folder.path().join("mnist/t10k-labels-idx1-ubyte.gz").exists());
}
