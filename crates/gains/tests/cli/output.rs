//! What is written where: closed pipes, full disks, names that try to steer the terminal.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::process::{Command, Output, Stdio};

use crate::support::{gains, ok, stderr, stdout, text};

/// Commands that print to standard output, one of each kind.
const COMMANDS: [&[&str]; 13] = [
    &["--help"],
    &["certify", "--help"],
    &["model", "list"],
    &["model", "show"],
    &["data", "list", "--data-dir", "/nonexistent"],
    &["completions", "bash"],
    &["train", "--list-presets"],
    &["train", "--preset", "quick", "--print-config"],
    &["predict", "--samples", "0..2", "--quiet"],
    &["predict", "--samples", "0..2", "--quiet", "--json"],
    &["certify", "--samples", "0", "--method", "box", "--attack-steps", "0", "--eps", "0.001", "--quiet"],
    &["attack", "--samples", "0", "--steps", "1", "--quiet"],
    &["trajectory", "--sample", "2", "--eps", "0.001", "--quiet"],
];

fn with_stdout(args: &[&str], stdout: impl Into<Stdio>) -> Output {
    gains(args).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap()
}

#[test]
fn a_reader_that_has_gone_away_is_no_error() {
    for args in COMMANDS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = with_stdout(args, writer);
        assert!(output.status.success(), "{args:?}\n{}", stderr(&output));
        assert_eq!(stderr(&output), "", "{args:?}");
    }
}

#[test]
fn a_full_disk_is_told_in_one_line() {
    for args in COMMANDS {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = with_stdout(args, full);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}\n{text}");
        assert!(
            text.starts_with("error: cannot write to standard output: No space left"),
            "{args:?}\n{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn nothing_to_complain_to_is_no_reason_to_panic() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let run = |args: &[&str]| gains(args).stdout(Stdio::null()).stderr(full()).status().unwrap().code();
    assert_eq!(run(&["model", "show", "/nonexistent"]), Some(1));
    assert_eq!(run(&["nonsense"]), Some(2));
    assert_eq!(
        run(&["certify", "--samples", "0", "--method", "box", "--eps", "0.001", "--out", "-"]),
        Some(0)
    );
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t.csv");
    std::fs::write(&table, "record,time,feature,value\na,0,x,1\nb,0,x,one\n").unwrap();
    let out = folder.path().join("t.series");
    assert_eq!(run(&["data", "prepare", "csv", text(&table), "--out", text(&out)]), Some(0));
}

/// Made by hand: escape sequences, ends of lines and `<script>` in the name, the classes and the training record.
fn escape() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/escape.safetensors")
}

fn harmless(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !c.is_control())
}

#[test]
fn names_do_not_steer_the_terminal() {
    let shown = ok(&["model", "show", escape()]);
    assert!(harmless(&shown), "{shown:?}");
    assert!(shown.contains("\\u001b[2J") && shown.contains("<script>"), "{shown}");
    for forged in ["verified: all", "error: x"] {
        assert!(shown.lines().all(|line| !line.starts_with(forged)), "{shown}");
    }
    let choice = ["--model", escape(), "--data", "fashion-mnist", "--samples", "0..2"];
    let predicted = gains(&[&["predict"], &choice[..]].concat()).output().unwrap();
    assert!(harmless(&stdout(&predicted)));
    assert!(harmless(&stderr(&predicted)));
    // Headings of tables.
    for (command, more) in [
        ("certify", ["--method", "box"]),
        ("eval", ["--method", "box"]),
        ("radius", ["--max", "0.001"]),
        ("bench", ["--rounds", "1"]),
    ] {
        let shown = stdout(&gains(&[&[command], &choice[..], &more].concat()).output().unwrap());
        assert!(shown.lines().all(|line| !line.starts_with("verified: all")), "{command}: {shown}");
    }
    let missing = gains(&["model", "show", "\x1b[2J\nerror: x"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(harmless(&stderr(&missing)) && stderr(&missing).lines().count() == 2, "{}", stderr(&missing));
}

#[test]
fn names_of_records_do_not_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let (table, out) = (folder.path().join("t.csv"), folder.path().join("t.series"));
    std::fs::write(&table, "record,time,feature,value\na,0,x,1\n\"b\x1b[2J\nerror: forged\",0,x,one\n")
        .unwrap();
    let output = gains(&["data", "prepare", "csv", text(&table), "--out", text(&out)]).output().unwrap();
    assert!(output.status.success());
    let text = stderr(&output);
    assert!(harmless(&text) && text.contains("skipped b\\u001b[2J\\nerror: forged"), "{text}");
}

#[test]
fn names_do_not_break_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("t.svg");
    let choice = ["--model", escape(), "--data", "fashion-mnist", "--sample", "0", "--eps", "0.001"];
    ok(&[&["trajectory"], &choice[..], &["--svg", text(&svg)]].concat());
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(harmless(&picture.replace('\t', " ")) && !picture.contains("<script"), "{picture}");
}

#[test]
fn models_are_shown_in_a_hundred_columns() {
    for model in ["fashion-mnist", "mnist", escape()] {
        let shown = ok(&["model", "show", model]);
        for line in shown.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
    let shown = ok(&["model", "show", "mnist"]);
    assert!(shown.contains("\n    [network]\n"), "the configuration is read like the file it was\n{shown}");
}

#[test]
fn devices_are_written_to_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt as _;
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::read(fifo).unwrap()
    });
    ok(&["trajectory", "--sample", "2", "--eps", "0.001", "--svg", text(&fifo)]);
    assert!(fifo.metadata().unwrap().file_type().is_fifo(), "a file has taken its place");
    assert!(reader.join().unwrap().starts_with(b"<svg"));

    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::read_to_string(fifo).unwrap()
    });
    let flags = ["certify", "--samples", "2", "--eps", "0.001", "--method", "box", "--quiet"];
    ok(&[&flags[..], &["--format", "csv", "--out", text(&fifo)]].concat());
    let table = reader.join().unwrap();
    assert!(table.starts_with("index,") && table.lines().count() == 2, "{table}");
}
