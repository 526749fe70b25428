//! Running the program and looking at what it did.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program with nothing of the environment that changes its answers.
pub fn gains(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gains"));
    command.args(args).stdin(Stdio::null());
    for variable in ["GAINS_DATA", "XDG_DATA_HOME", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command.env("HOME", "/nonexistent");
    command
}

pub fn run(args: &[&str]) -> Output {
    gains(args).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs and demands success; returns standard output.
pub fn ok(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}\n{}", stderr(&output));
    stdout(&output)
}

/// Runs and demands the given exit code, an `error:` line with `message` in it, and a `hint:` line.
pub fn fails(args: &[&str], code: i32, message: &str) -> String {
    let output = run(args);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{text}");
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with("error:"), "{args:?}\n{text}");
    assert!(text.contains(message), "{args:?} should say '{message}'\n{text}");
    assert!(!text.contains('\x1b'), "no colour when not on a terminal");
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// The lines of a results file as JSON, sample by sample: threads write them as they come.
pub fn records(path: &Path) -> Vec<serde_json::Value> {
    let mut records: Vec<serde_json::Value> = std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    records.sort_by_key(|record| record["index"].as_u64());
    records
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The bundled model as a file.
pub fn model_file(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("model.safetensors");
    std::fs::write(&path, MODEL).unwrap();
    path
}

pub static MODEL: &[u8] = include_bytes!("../../assets/fashion-mnist.safetensors");
