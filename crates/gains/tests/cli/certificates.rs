//! `gains certify --certificates`: files that `gains-check` accepts, and a word about those that are not written.

use std::path::Path;

use gains_check::{Holds, Model, check};

use crate::support::{fails, ok, records, text};

const FASHION: &[u8] = include_bytes!("../../assets/fashion-mnist.safetensors");

/// The files of a folder.
fn files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_verdict_gets_a_certificate_that_holds() {
    let folder = tempfile::tempdir().unwrap();
    let (out, proofs) = (folder.path().join("r.jsonl"), folder.path().join("a/proofs"));
    let summary = ok(&[
        "certify",
        "--samples",
        "0..6",
        "--eps",
        "0.05,0.1",
        "--certificates",
        text(&proofs),
        "--check",
        "--out",
        text(&out),
    ]);
    let model = Model::read(FASHION).unwrap();
    let mut written = Vec::new();
    for record in records(&out) {
        if record["verdict"] != "verified" && record["verdict"] != "falsified" {
            assert!(record["certificate"].is_null() && record["checked"].is_null(), "{record}");
            continue;
        }
        let name = record["certificate"].as_str().unwrap().to_string();
        assert_eq!(record["checked"], true, "{record}");
        let found = check(&model, &std::fs::read(proofs.join(&name)).unwrap());
        assert_eq!(record["verdict"] == "verified", matches!(found, Ok(Holds::Verified(_))), "{found:?}");
        assert!(found.is_ok());
        written.push(name);
    }
    written.sort();
    assert!(written.len() > 4);
    assert_eq!(files(&proofs), written, "nothing else, nothing half-written");
    let line =
        format!("certificates: {0} in {1}, {0} of {0} accepted by the checker", written.len(), text(&proofs));
    assert!(summary.contains(&line), "{summary}");
}

#[test]
fn forecasts_have_certificates_too() {
    let folder = tempfile::tempdir().unwrap();
    let (out, proofs) = (folder.path().join("r.jsonl"), folder.path().join("proofs"));
    ok(&[
        "certify",
        "--model",
        "pond",
        "--records",
        "0..8",
        "--eps",
        "0.005,0.05",
        "--method",
        "gains",
        "--certificates",
        text(&proofs),
        "--check",
        "--out",
        text(&out),
    ]);
    let decided = records(&out);
    let decided =
        decided.iter().filter(|record| ["verified", "falsified"].iter().any(|v| record["verdict"] == *v));
    let mut kinds = Vec::new();
    for record in decided {
        assert_eq!(record["checked"], true, "{record}");
        kinds.push(record["verdict"].as_str().unwrap().to_string());
    }
    assert_eq!(files(&proofs).len(), kinds.len());
    assert!(
        kinds.iter().any(|kind| kind == "verified") && kinds.iter().any(|kind| kind == "falsified"),
        "{kinds:?}"
    );
}

#[test]
fn another_network_does_not_have_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let proofs = folder.path().join("proofs");
    ok(&[
        "certify",
        "--samples",
        "1..2",
        "--method",
        "box",
        "--step-form",
        "difference",
        "--certificates",
        text(&proofs),
    ]);
    let bytes = std::fs::read(proofs.join(&files(&proofs)[0])).unwrap();
    let mut other = FASHION.to_vec();
    let last = other.len() - 2;
    other[last] ^= 1;
    assert!(check(&Model::read(FASHION).unwrap(), &bytes).is_ok());
    assert!(check(&Model::read(&other).unwrap(), &bytes).is_err());
}

#[test]
fn what_cannot_be_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (out, proofs) = (folder.path().join("r.jsonl"), folder.path().join("proofs"));
    let arguments = [
        "certify",
        "--samples",
        "1..3",
        "--method",
        "box",
        "--step-form",
        "difference",
        "--arithmetic",
        "float32",
    ];
    let summary = ok(&[&arguments[..], &["--certificates", text(&proofs), "--out", text(&out)]].concat());
    let why = "not written: certificates of float32 programs cannot be written yet";
    for record in records(&out) {
        assert_eq!(record["certificate"], why);
        assert!(record["checked"].is_null());
    }
    assert!(files(&proofs).is_empty());
    assert!(summary.contains("certificate: not written: 2 × certificates of float32 programs"), "{summary}");
}

#[test]
fn folders_that_cannot_be_made_are_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "there").unwrap();
    fails(
        &["certify", "--samples", "1..2", "--certificates", text(&file)],
        1,
        "--certificates takes a folder",
    );
    fails(&["certify", "--samples", "1..2", "--check"], 2, "--certificates");
    assert_eq!(std::fs::read(&file).unwrap(), b"there");
}
