//! Inputs that never end, are too large or lead elsewhere, and Ctrl-C while the other side is silent.
#![cfg(target_os = "linux")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{MODEL, fails, gains, ok, records, stderr, stdout, text};

/// What the program says, if it ends soon.
fn soon(args: &[&str]) -> Output {
    let child = gains(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    ends_within(child, Duration::from_secs(10), &format!("{args:?}"))
}

fn ends_within(mut child: Child, limit: Duration, what: &str) -> Output {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > limit {
            child.kill().unwrap();
            panic!("{what}: did not end within {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

fn fifo(folder: &Path) -> PathBuf {
    let fifo = folder.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fifo
}

#[test]
fn what_never_ends_is_refused_wherever_a_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (fifo, out) = (fifo(folder.path()), folder.path().join("out"));
    let (fifo, out) = (text(&fifo), text(&out));
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/mnist.safetensors");
    for (path, what) in [(fifo, "a FIFO"), ("/dev/zero", "a device"), (text(folder.path()), "a folder")] {
        let uses: [&[&str]; 6] = [
            &["model", "show", path],
            &["certify", "--model", path, "--samples", "0"],
            &["model", "import", path, "--sidecar", model, "--out", out],
            &["model", "import", model, "--sidecar", path, "--out", out],
            &["train", "--config", path],
            &["data", "prepare", "csv", path, "--out", out],
        ];
        for args in uses {
            let output = soon(args);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{args:?}\n{said}");
            assert!(said.contains("cannot read") && said.contains(what), "{args:?}\n{said}");
            assert!(said.contains("hint: "), "{args:?}\n{said}");
        }
    }
}

#[test]
fn files_of_a_data_set_that_are_no_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mnist = folder.path().join("mnist");
    std::fs::create_dir(&mnist).unwrap();
    for name in ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"] {
        assert!(Command::new("mkfifo").arg(mnist.join(name)).status().unwrap().success());
    }
    let output = soon(&["certify", "--data", "mnist", "--data-dir", text(folder.path()), "--samples", "0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("it is a FIFO, not a file"), "{}", stderr(&output));
    assert!(stdout(&soon(&["data", "list", "--data-dir", text(folder.path())])).contains("damaged"));
}

#[test]
fn a_model_can_come_through_a_pipe() {
    let mut child = gains(&["model", "show", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut pipe, MODEL).unwrap();
    drop(pipe);
    let output = ends_within(child, Duration::from_secs(10), "a piped model");
    assert_eq!(stdout(&output), ok(&["model", "show"]), "{}", stderr(&output));
}

/// Forty layers, each with a table of 67 MB, in 15 KB.
#[test]
fn a_small_file_does_not_ask_for_gigabytes() {
    let bomb = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/bomb40.safetensors");
    let command = format!("ulimit -v 500000; exec '{}' model show '{bomb}'", env!("CARGO_BIN_EXE_gains"));
    let start = Instant::now();
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("'b' belong to layer 1 (conv2d)"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("model show"), "a hint that cannot help: {}", stderr(&output));
}

#[test]
fn a_run_stays_below_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    std::fs::create_dir_all(&inner).unwrap();
    for name in ["../../x", "/tmp/gains-test-x", "..", ""] {
        let output = gains(&["train", "--preset", "quick", "--set", &format!("name={name}")])
            .current_dir(&inner)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains("error: name:"), "{}", stderr(&output));
    }
    assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 0);
    fails(&["train", "--preset", "quick", "--set", "name=a/b"], 2, "--out");
}

/// How long a program takes to end after Ctrl-C.
fn interrupted(child: Child) -> (Duration, Output) {
    let asked = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = ends_within(child, Duration::from_secs(10), "after Ctrl-C");
    (asked.elapsed(), output)
}

#[test]
fn a_challenge_and_an_attack_that_are_cut_short_claim_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [results, attacks] = ["r.jsonl", "a.jsonl"].map(|name| folder.path().join(name));
    let certify = ["certify", "--samples", "1..4", "--eps", "0.001", "--attack-steps", "0", "--quiet"];
    ok(&[&certify[..], &["--method", "box", "--out", text(&results)]].concat());
    let challenge = ["challenge", text(&results), "--model", "fashion-mnist", "--points", "100000000"];
    let attack = ["attack", "--samples", "1..4", "--steps", "100000000", "--out", text(&attacks)];
    for args in [&challenge[..], &attack] {
        let child = gains(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        let (_, output) = interrupted(child);
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        assert!(!stderr(&output).contains("fault of gains"), "{}", stderr(&output));
    }
    assert!(records(&attacks).is_empty(), "attacks that were cut short");
    let few = ["challenge", text(&results), "--model", "fashion-mnist", "--points", "5", "--samples"];
    let printed = ok(&[&few[..], &["2"]].concat());
    assert!(printed.lines().last().is_some_and(|line| line.trim().starts_with('1')), "{printed}");
    fails(&[&few[..], &["77"]].concat(), 2, "verifies none of these samples");
    fails(&["trajectory", "--samples", "2"], 2, "--sample");
    // Verdicts are not replaced by attacks.
    let attack = ["attack", "--samples", "1", "--steps", "1", "--out", text(&results)];
    fails(&attack, 2, "holds results of another command");
    assert_eq!(records(&results).len(), 3);
}

#[test]
fn ctrl_c_is_answered_while_a_server_is_silent() {
    // Connections are taken by the system; nothing ever answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mirror = format!("http://{}/", silent.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let args = ["data", "fetch", "mnist", "--mirror", &mirror, "--data-dir", text(folder.path())];
    let child = gains(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _connection = silent.accept().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let (taken, output) = interrupted(child);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("fetch again to go on"), "{}", stderr(&output));
    assert!(taken < Duration::from_secs(1), "{taken:?}");
}

#[test]
fn ctrl_c_is_answered_while_a_pipe_is_silent() {
    let (reader, writer) = std::io::pipe().unwrap();
    let child = gains(&["model", "show", "/dev/stdin"])
        .stdin(reader)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let (taken, output) = interrupted(child);
    drop(writer);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(taken < Duration::from_secs(1), "{taken:?}");
}
