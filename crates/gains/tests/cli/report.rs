//! `gains report`: what goes in, what comes out, what is refused.

use std::path::Path;

use crate::support::{fails, gains, ok, text};

fn results(folder: &Path, name: &str, more: &[&str]) -> String {
    let path = folder.join(name);
    let path = text(&path);
    let mut args =
        vec!["certify", "-q", "--samples", "0..3", "--eps", "0.02,0.05", "--method", "box", "--out", path];
    args.extend(more);
    ok(&args);
    path.to_owned()
}

fn page(folder: &Path, args: &[&str]) -> String {
    let out = folder.join("report.html");
    let mut all = vec!["report", "-q"];
    all.extend(args);
    all.extend(["--out", text(&out)]);
    ok(&all);
    std::fs::read_to_string(out).unwrap()
}

#[test]
fn a_page_has_verdicts_pictures_and_the_network() {
    let folder = tempfile::tempdir().unwrap();
    let file = results(folder.path(), "r.jsonl", &[]);
    let page = page(folder.path(), &[&file]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    for word in ["fashion-mnist-provable-0.16-difference", "eaff062e9170c8e8", "dopri5", "9 ankle boot"] {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(page.matches("background-image:url(data:image/png").count(), 3);
    assert!(
        page.contains("gains certify --model fashion-mnist --data fashion-mnist --split test --samples 0..3")
    );
    assert!(!page.contains("not trusted") && !page.contains("Partial"));
}

#[test]
fn csv_and_json_lines_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let lines = results(folder.path(), "r.jsonl", &["--threads", "1"]);
    let csv = results(folder.path(), "r.csv", &["--threads", "1", "--format", "csv"]);
    let verdicts = |file: &str| {
        let page = page(folder.path(), &[file]);
        assert!(!page.contains("not trusted"), "checks hold in both formats");
        ["verified", "unknown", "falsified", "misclassified"]
            .map(|w| page.matches(&format!("badge {w}")).count())
    };
    assert_eq!(verdicts(&lines), verdicts(&csv));
    let whole = std::fs::read_to_string(&csv).unwrap();
    std::fs::write(&csv, whole.replacen(",box,", ",gains,", 1)).unwrap();
    fails(&["report", &csv, "--out", "/dev/null"], 1, "'method' differs from that of line");
}

#[test]
fn a_line_that_was_edited_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let file = results(folder.path(), "r.jsonl", &[]);
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = text.replacen("\"index\":1,", "\"index\":11,", 1);
    assert_ne!(changed, text);
    std::fs::write(&file, changed).unwrap();
    let page = page(folder.path(), &[&file]);
    assert!(page.contains("1 of 6 lines are not trusted") && page.contains("its 'check' does not fit"));
}

#[test]
fn what_cannot_be_shown_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report.html");
    let out = text(&out);
    let file = results(folder.path(), "r.jsonl", &[]);
    let write = |content: &[u8]| std::fs::write(folder.path().join("bad"), content).unwrap();
    let bad = folder.path().join("bad");
    let bad = text(&bad);
    let whole = std::fs::read(&file).unwrap();
    let cases: [(&[u8], &str); 6] = [
        (b"", "is empty"),
        (&whole[..50], "is no result file"),
        (b"hello\n", "is no result file"),
        (b"\xff\xfe\x00", "not text in UTF-8"),
        (b"{\"index\":0,\"verdict\":\"verified\"}\n", "'eps' is missing"),
        (b"epoch,loss\n1\n2,3\n", "line 2: it has 1 columns"),
    ];
    for (content, message) in cases {
        write(content);
        fails(&["report", bad, "--out", out], 1, message);
    }
    fails(&["report", "/nonexistent.jsonl", "--out", out], 1, "cannot read");
    fails(&["report", text(folder.path()), "--out", out], 1, "holds neither metrics.csv nor results.jsonl");
    fails(&["report", &file, "--model", "mnist", "--out", out], 2, "has the content hash");
    fails(&["report", &file, "--out", &file], 2, "which is read");
    fails(&["report", &file], 2, "--out");
    assert!(!Path::new(out).exists());
}

#[test]
fn a_page_without_its_data_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = results(folder.path(), "r.jsonl", &[]);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("eaff062e9170c8e8", "0000000000000000")).unwrap();
    let page = page(folder.path(), &[&file]);
    assert!(page.contains("No pictures of the samples") && page.contains("--model"));
}

#[test]
fn trajectories_are_written_for_every_method_and_radius() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("graph.json");
    let graph = text(&graph);
    let printed =
        ok(&["trajectory", "--sample", "1", "--eps", "0.03,0.01", "--against", "gains", "--json", graph]);
    assert!(printed.contains("eps 0.03, method auto"));
    let value: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(graph).unwrap()).unwrap();
    let asked: Vec<(&str, f64)> = value["graphs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| (g["method"].as_str().unwrap(), g["eps"].as_f64().unwrap()))
        .collect();
    assert_eq!(asked, [("auto", 0.03), ("auto", 0.01), ("gains", 0.03), ("gains", 0.01)]);
    assert_eq!(value["vertices"], value["graphs"][0]["vertices"]);
    assert_eq!((value["eps"].as_f64(), value["increase_below"].as_f64()), (Some(0.03), Some(1.0 / 32.0)));
    let sizes: Vec<usize> =
        value["graphs"].as_array().unwrap().iter().map(|g| g["vertices"].as_array().unwrap().len()).collect();
    assert!(sizes[1] <= sizes[0] && sizes[0] <= sizes[2], "{sizes:?}");
    let page = page(folder.path(), &[graph]);
    assert!(page.contains("explorer-0-data"));
}

#[test]
fn a_served_page_stops_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = results(folder.path(), "r.jsonl", &[]);
    let mut child =
        gains(&["report", "-q", &file, "--serve"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut address)
        .unwrap();
    assert!(address.starts_with("http://127.0.0.1:"), "{address}");
    let stopped =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
