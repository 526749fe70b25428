//! `gains bench growth`: the table, the picture and the numbers.

use std::path::Path;

use crate::support::{fails, gains, model_file, ok, stderr, stdout, text};

/// The lines of a CSV file as cells, without the header.
fn numbers(path: &Path) -> Vec<Vec<String>> {
    let content = std::fs::read_to_string(path).unwrap();
    let mut lines = content.lines();
    assert_eq!(lines.next(), Some("method,eps,end_time,state,sample,outcome,ms,vertices,edges"));
    lines.map(|line| line.split(',').map(String::from).collect()).collect()
}

/// Every element that is opened is closed, in order.
fn well_formed(svg: &str) -> bool {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let Some((inside, _)) = tag.split_once('>') else { return false };
        let name: String =
            inside.trim_start_matches('/').chars().take_while(|c| c.is_alphanumeric()).collect();
        if inside.starts_with('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !inside.ends_with('/') {
            open.push(name);
        }
    }
    open.is_empty() && svg.starts_with("<svg")
}

#[test]
fn the_study_is_printed_drawn_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let (svg, csv) = (folder.path().join("g.svg"), folder.path().join("g.csv"));
    let model = model_file(folder.path());
    let flags =
        "bench growth --samples 1 --eps 0.01,0.002 --end-times 1,1.5 --copies 1,2 --base-eps 0.01 --rounds 2";
    let mut args: Vec<&str> = flags.split(' ').collect();
    args.extend(["--model", text(&model), "--svg", text(&svg)]);
    let table = ok(&args);
    for word in ["ms median", "median V/E", "verified %", "end time", "1.5", "1024", "1/1", "100.0"] {
        assert!(table.contains(word), "{word}\n{table}");
    }
    assert_eq!(table.lines().filter(|l| l.starts_with("gains ")).count(), 6, "{table}");
    assert_eq!(table.lines().filter(|l| l.starts_with("tight ")).count(), 6, "{table}");
    let drawing = std::fs::read_to_string(&svg).unwrap();
    assert!(well_formed(&drawing));
    for word in ["ms per sample", "entries of the ODE state", "end time T", "eps (T = 1, state 512)"] {
        assert!(drawing.contains(word), "{word}");
    }
    assert_eq!(drawing.matches("<circle").count(), 12, "one per method and point");
    // The point all three axes have in common is measured once.
    let numbers = numbers(&csv);
    assert_eq!(numbers.len(), 2 * 4);
    assert!(numbers.iter().all(|line| line[5] == "verified" && line[6].parse::<f64>().unwrap() > 0.0));
    for method in ["gains", "tight"] {
        let graph = |state: &str| {
            let at = |line: &&Vec<String>| {
                [&line[0], &line[1], &line[2], &line[3]] == [method, "0.01", "1", state]
            };
            numbers.iter().find(at).unwrap()[7..].to_vec()
        };
        assert_eq!(graph("512"), graph("1024"), "the same function has the same graph");
    }
}

#[test]
fn what_takes_too_long_is_unfinished_and_has_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let (svg, csv) = (folder.path().join("g.svg"), folder.path().join("g.csv"));
    let flags = "bench growth --samples 1 --eps 0.1 --end-times 1 --copies 1 --timeout 0.000001 --quiet";
    let mut args: Vec<&str> = flags.split(' ').collect();
    args.extend(["--svg", text(&svg)]);
    let table = ok(&args);
    assert!(table.contains("0/1") && table.contains("1 time"), "{table}");
    let drawing = std::fs::read_to_string(&svg).unwrap();
    assert!(well_formed(&drawing) && drawing.contains("0/1") && !drawing.contains("<circle"));
    for line in numbers(&csv) {
        assert_eq!(line[5..], ["time", "", "", ""]);
    }
}

#[test]
fn senseless_studies_are_refused_before_anything_is_measured() {
    let refuse = |flags: &str, message: &str| {
        let args: Vec<&str> = "bench growth --samples 1".split(' ').chain(flags.split(' ')).collect();
        fails(&args, 2, message)
    };
    for (flags, message) in [
        ("--svg picture.png", "does not end in .svg"),
        ("--svg no/such/folder/g.svg", "no folder"),
        ("--end-times 100000000", "times the smallest step"),
        ("--copies 0", "not in 1..=64"),
        ("--eps 2", "between 0 and 1"),
        ("--timeout 0", "not above 0"),
    ] {
        refuse(flags, message);
    }
    let hint = fails(&["bench", "growth", "--samples", "25"], 2, "none of the chosen samples");
    assert!(hint.contains("hint:"), "{hint}");
    fails(&["bench", "--rounds", "1", "growth"], 2, "cannot be used with");
}

#[cfg(unix)]
#[test]
fn an_interrupted_study_shows_what_was_measured() {
    use std::process::Stdio;

    let folder = tempfile::tempdir().unwrap();
    let (svg, csv) = (folder.path().join("g.svg"), folder.path().join("g.csv"));
    // Long enough to be interrupted on any machine.
    let mut child = gains(&["bench", "growth", "--samples", "0..100", "--rounds", "3", "--svg", text(&svg)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success() && child.try_wait().unwrap().is_none());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted after"), "{}", stderr(&output));
    let done = stdout(&output).lines().filter(|l| l.starts_with("gains ")).count();
    assert_eq!(svg.exists(), done > 0);
    assert_eq!(csv.exists(), done > 0);
    if done > 0 {
        assert!(numbers(&csv).iter().all(|line| line[5] != "interrupted"));
    }
}
