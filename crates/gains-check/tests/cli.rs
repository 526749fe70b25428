//! The program: exit codes and what it prints.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/small").join(name)
}

/// Exit code, standard output and standard error.
fn run(arguments: &[&Path]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gains-check")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn exit_codes_tell_the_worst() {
    let (model, good) = (data("8025.safetensors"), data("8025-0-holds.cert"));
    let (refused, missing) = (data("8025-1-refused.cert"), data("missing.cert"));
    let (code, out, _) = run(&[&model, &good]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("8025-0-holds.cert: holds: verified"), "{out}");
    let (code, out, _) = run(&[&model, &good, &refused]);
    assert_eq!((code, out.lines().count()), (1, 2));
    assert!(out.contains("refused: proof: value 3: vertex 0: the action Keep leads elsewhere"), "{out}");
    let (code, out, _) = run(&[&model, &missing, &good]);
    assert_eq!(
        (code, out.lines().count()),
        (2, 2),
        "one that cannot be read does not keep others from being checked"
    );
    assert!(out.contains("missing.cert: unreadable"), "{out}");
}

#[test]
fn models_that_cannot_be_read_are_one_line() {
    for model in [data("missing.safetensors"), data("8025-0-holds.cert")] {
        let (code, out, error) = run(&[&model, &data("8025-0-holds.cert")]);
        assert_eq!((code, out.as_str(), error.lines().count()), (2, "", 1), "{error}");
        assert!(error.starts_with("error: "), "{error}");
    }
}

#[test]
fn what_is_claimed_is_said_and_time_is_limited() {
    let (model, good) = (data("8025.safetensors"), data("8025-0-holds.cert"));
    let (_, out, _) = run(&[&model, &good]);
    assert!(out.contains("inputs vary by "), "{out}");
    let (code, out, _) = run(&[Path::new("--timeout"), Path::new("0"), &model, &good]);
    assert_eq!(code, 2);
    assert!(out.contains("unfinished: the time was up"), "{out}");
    let (code, ..) = run(&[Path::new("--timeout"), Path::new("600"), &model, &good]);
    assert_eq!(code, 0);
    let (code, _, error) = run(&[Path::new("--timeout"), Path::new("soon"), &model, &good]);
    assert!(code == 2 && error.contains("number of seconds"), "{error}");
}

#[test]
fn a_reader_that_is_gone_is_no_panic() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gains-check"));
    command.args([data("8025.safetensors"), data("8025-0-holds.cert")]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let running = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(2), &b""[..]));
}

#[test]
fn json_has_a_line_for_each() {
    let flag = PathBuf::from("--json");
    let (_, out, _) =
        run(&[&flag, &data("8025.safetensors"), &data("8025-0-holds.cert"), &data("8025-1-refused.cert")]);
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["outcome"], "holds");
    assert_eq!(lines[1]["outcome"], "refused");
    assert_eq!(lines[1]["place"][1], "value 3");
}
