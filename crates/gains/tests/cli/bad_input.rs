//! Bad files and flags: one line that says what and where, a hint, a non-zero exit, nothing half-written.

use std::path::Path;

use crate::support::{MODEL, fails, gains, model_file, run, stderr, text};

fn certify_with(model: &Path, message: &str) {
    fails(&["certify", "--model", text(model), "--samples", "0"], 1, message);
    fails(&["model", "show", text(model)], 1, message);
}

#[test]
fn damaged_models_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    certify_with(&folder.path().join("missing"), "cannot read");
    certify_with(folder.path(), "cannot read");
    certify_with(&write("empty", b""), "not a readable safetensors file");
    certify_with(&write("noise", &[7; 5000]), "not a readable safetensors file");
    certify_with(&write("truncated", &MODEL[..MODEL.len() - 1000]), "not a readable safetensors file");
    certify_with(&write("header-only", &MODEL[..200]), "not a readable safetensors file");
    // The last four bytes are a float32 weight: make it NaN.
    let mut poisoned = MODEL.to_vec();
    let end = poisoned.len();
    poisoned[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    certify_with(&write("nan", &poisoned), "NaN");
    // Edit the description without changing its length.
    let edited = |from: &str, to: &str| {
        let at = MODEL.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        let mut bytes = MODEL.to_vec();
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    let shape = edited("\\\"out_channels\\\":32", "\\\"out_channels\\\":31");
    certify_with(&write("shape", &shape), "has shape");
    let version = edited("\\\"version\\\":1", "\\\"version\\\":9");
    certify_with(&write("version", &version), "model format 9");
    let format = edited("gains-model", "other-model");
    certify_with(&write("format", &format), "format is 'other-model'");
}

#[test]
fn an_oversized_model_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge");
    std::fs::File::create(&path).unwrap().set_len(8 << 30).unwrap();
    certify_with(&path, "bytes, at most");
}

#[test]
fn import_of_the_wrong_thing_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.safetensors");
    let sidecar = folder.path().join("side.json");
    std::fs::write(&sidecar, "{\"h0\": 0.2, \"dataset\": \"mnist\", \"norm_mean\": 0.1, \"norm_std\": 0.3}")
        .unwrap();
    let weights = folder.path().join("w");
    std::fs::write(&weights, [1, 2, 3]).unwrap();
    let import = |sidecar: &Path, weights: &Path, message: &str| {
        fails(
            &["model", "import", text(weights), "--sidecar", text(sidecar), "--out", text(&out)],
            1,
            message,
        );
        assert!(!out.exists());
    };
    import(&sidecar, &weights, "not a readable safetensors file");
    let model = model_file(folder.path());
    std::fs::write(folder.path().join("bad.json"), "{\"h0\": \"fast\"}").unwrap();
    import(&folder.path().join("bad.json"), &model, "sidecar");
    import(&folder.path().join("none.json"), &model, "cannot read");
}

#[test]
fn flags_that_make_no_sense() {
    let cases: &[(&[&str], &str)] = &[
        (&["certify", "--eps", "-0.1"], "-0.1"),
        (&["certify", "--eps", "nan"], "not finite"),
        (&["certify", "--eps", "2"], "not between 0 and 1"),
        (&["certify", "--eps", "0.1,0.1"], "twice"),
        (&["certify", "--samples", "9..3"], "selects nothing"),
        (&["certify", "--samples", "0..1000000"], "exist"),
        (&["certify", "--threads", "0"], "threads"),
        (&["certify", "--timeout", "-1"], "-1"),
        (&["certify", "--method", "magic"], "magic"),
        (&["certify", "--resume"], "--out"),
        (&["certify", "--out", "-", "--resume"], "--resume needs a file"),
        (&["certify", "--out", "/dev/null", "--resume"], "--resume needs a plain file"),
        (&["trajectory", "--sample", "3", "--samples", "4"], "cannot be used with"),
        (&["attack", "--restarts", "0"], "0"),
        (&["data", "fetch", "imagenet"], "imagenet"),
        (&["nonsense"], "nonsense"),
    ];
    for (args, message) in cases {
        let output = run(args);
        let text = stderr(&output);
        assert!(!output.status.success() && text.starts_with("error:"), "{args:?}\n{text}");
        assert!(text.contains(message), "{args:?} should mention '{message}'\n{text}");
    }
}

#[test]
fn a_model_for_other_images_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cifar = folder.path().join("cifar10");
    std::fs::create_dir(&cifar).unwrap();
    let record: Vec<u8> = std::iter::once(3).chain(std::iter::repeat_n(9, 3072)).collect();
    std::fs::write(cifar.join("test_batch.bin"), record).unwrap();
    let dir = text(folder.path());
    fails(
        &["certify", "--data", "cifar10", "--data-dir", dir, "--samples", "0"],
        2,
        "the model takes 1x28x28 images",
    );
}

#[test]
fn missing_and_damaged_data_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(folder.path());
    let text = fails(&["certify", "--data", "mnist", "--data-dir", dir], 1, "mnist is not there");
    assert!(text.contains("gains data fetch mnist"));
    let mnist = folder.path().join("mnist");
    std::fs::create_dir(&mnist).unwrap();
    std::fs::write(mnist.join("t10k-images-idx3-ubyte.gz"), b"not gzip at all").unwrap();
    std::fs::write(mnist.join("t10k-labels-idx1-ubyte.gz"), b"nor this").unwrap();
    fails(&["certify", "--data", "mnist", "--data-dir", dir], 1, "damaged");
    // Far more images than the bundled hundred, and no data folder at all.
    fails(&["certify", "--samples", "0..1000"], 1, "fashion-mnist is not there");
}

#[test]
fn unwritable_output_is_an_error_before_any_work() {
    fails(&["certify", "--samples", "0", "--out", "/nonexistent/r.jsonl"], 1, "cannot write");
    fails(&["trajectory", "--svg", "/nonexistent/t.svg"], 1, "cannot write");
    fails(&["attack", "--samples", "0", "--steps", "1", "--out", "/nonexistent/a.jsonl"], 1, "cannot write");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_stops_the_run() {
    let output =
        gains(&["certify", "--samples", "0..5", "--method", "box", "--out", "/dev/full"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("No space left"), "{}", stderr(&output));
}

/// A file that is read is not written: it would be lost.
#[test]
fn what_is_read_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let model = model_file(folder.path());
    let table = folder.path().join("table.csv");
    let rows = "a,b\n1,2\n3,4\n";
    std::fs::write(&table, rows).unwrap();
    let (model, table) = (text(&model), text(&table));
    let also = folder.path().join(".").join("table.csv");
    for args in [
        &["attack", "--model", model, "--samples", "0", "--out", model][..],
        &["trajectory", "--model", model, "--svg", model],
        &["data", "prepare", "csv", table, "--out", text(&also)],
        &["model", "import", model, "--description", table, "--out", table],
        &["eval", "--model", model, "--inputs", table, "--out", table],
        &["certify", "--model", model, "--feature-eps", table, "--out", table],
    ] {
        fails(args, 2, "which is read");
    }
    assert_eq!(std::fs::read(model).unwrap(), MODEL);
    assert_eq!(std::fs::read_to_string(table).unwrap(), rows);
}
