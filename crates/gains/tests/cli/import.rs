//! `gains model import` of networks of one's own, and what is said when it cannot be.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{fails, gains, ok, stderr, text};

fn data(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/tutorial").join(file)
}

#[test]
fn a_pickle_is_refused_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let pickle = folder.path().join("net.pt");
    std::fs::write(&pickle, b"PK\x03\x04\x00\x00\x08\x08\x00\x00net/data.pkl").unwrap();
    let pickle = text(&pickle);
    let description = data("moons.json");
    let commands: [&[&str]; 3] = [
        &["model", "show", pickle],
        &["model", "import", pickle, "--describe"],
        &["model", "import", pickle, "--description", text(&description), "--out", "/nonexistent/x"],
    ];
    for args in commands {
        let printed = fails(args, 1, "torch.save");
        assert!(printed.contains("weights_only=True") && printed.contains("net.safetensors"), "{printed}");
    }
}

#[test]
fn what_was_never_a_model_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net");
    let archive = [b"PK\x03\x04".as_slice(), &[0; 22], &[5, 0, 0, 0], b"x.npy", &[0; 9]].concat();
    let files: [(&[u8], &str); 3] = [
        (&archive, "an archive of arrays of NumPy (.npz)"),
        (b"\x93NUMPY\x01\x00\x76\x00{'descr'", "an array of NumPy (.npy)"),
        (b"a,b,c\n0.5,0.25,1\n", "it is text"),
    ];
    for (bytes, what) in files {
        std::fs::write(&file, bytes).unwrap();
        fails(&["model", "show", text(&file)], 1, what);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let weights = data("moons.safetensors");
    let import = |description: &str, message: &str| {
        let file = folder.path().join("net.json");
        std::fs::write(&file, description).unwrap();
        let args = ["model", "import", text(&weights), "--description", text(&file), "--out", text(&out)];
        let printed = fails(&args, 1, message);
        assert!(printed.contains("\nhint:"), "{printed}");
        assert!(!out.exists());
    };
    let good = std::fs::read_to_string(data("moons.json")).unwrap();
    import(&good.replace("dopri5", "euler"), "estimates no error");
    import(&good.replace("tanh", "tang"), "net.json': the network description is malformed: layers[");
    import(&good.replace("tanh", "tang"), "tang");
    import(&good.replace("\"out_features\": 24", "\"out_features\": 23"), "shape");
    import(&good[..good.len() / 2], "malformed");
    import(&ok(&["model", "import", text(&weights), "--describe"]), "a blank is left");
    fails(&["model", "import", text(&weights)], 2, "--description");
    fails(&["model", "import", text(&weights), "--description", "x.json"], 2, "--out");
}

#[test]
fn adapting_needs_a_continuous_solver() {
    let folder = tempfile::tempdir().unwrap();
    let (model, free) = (folder.path().join("moons"), folder.path().join("free"));
    let (weights, description, x) = (data("moons.safetensors"), data("moons.json"), data("moons.x.npy"));
    let import = |description: &PathBuf, out: &PathBuf| {
        ok(&["model", "import", text(&weights), "--description", text(description), "--out", text(out)]);
    };
    import(&description, &model);
    fails(&["model", "adapt", text(&model), "--inputs", text(&x)], 2, "no ODE with an adaptive controller");
    let mut network: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&description).unwrap()).unwrap();
    network["layers"][0]["solver"]["controller"] =
        serde_json::json!({"type": "adaptive", "tolerance": 0.002, "initial_step": 0.1});
    let changed = folder.path().join("free.json");
    std::fs::write(&changed, network.to_string()).unwrap();
    import(&changed, &free);
    let certify =
        ["certify", "--model", text(&free), "--inputs", text(&x), "--eps", "0.01", "--timeout", "1"];
    let table = ok(&certify);
    assert!(table.contains("40 whose solver cannot be followed (see `gains model adapt`)"), "{table}");
    let printed = fails(
        &["trajectory", "--model", text(&free), "--inputs", text(&x), "--eps", "0.01"],
        1,
        "continuous adaptive solver",
    );
    assert!(printed.contains("gains model adapt"), "{printed}");
    let bench = ["bench", "--model", text(&free), "--inputs", text(&x), "--eps", "0.01", "--rounds", "1"];
    let printed =
        fails(&bench, 1, "nothing could be measured: the network uses a continuous adaptive solver");
    assert!(printed.contains("gains model adapt"), "{printed}");
    let radius =
        ["radius", "--model", text(&free), "--inputs", text(&x), "--samples", "0..3", "--timeout", "1"];
    let table = ok(&radius);
    assert!(table.contains("3 whose solver cannot be followed (see `gains model adapt`)"), "{table}");
    // Where the result cannot go is told before the work.
    let adapt = ["model", "adapt", text(&free), "--inputs", text(&x), "--out"];
    fails(&[&adapt[..], &[text(folder.path())]].concat(), 2, "is a folder");
    fails(&[&adapt[..], &["/nonexistent/adapted"]].concat(), 1, "cannot write '/nonexistent/adapted'");
    let adapted = folder.path().join("adapted");
    let flags = ["--inputs", text(&x), "--certify", "2", "--timeout", "1", "--out", text(&adapted)];
    let table = ok(&[&["model", "adapt", text(&free)], &flags[..]].concat());
    let row = |name: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().map(String::from).collect()
    };
    let chosen = row("chosen");
    assert_eq!(chosen[0..2], ["2", "0.002"], "{table}");
    assert_eq!(chosen[4], "0", "a tight tolerance changes no decision\n{table}");
    let drift = |name: &str| row(name)[5].parse::<f64>().unwrap();
    assert!(drift("tolerance / 10") < drift("tolerance x 10"), "{table}");
    assert!(ok(&["model", "show", text(&adapted)]).contains("controlled adaptive"));
}

/// A run of very many steps ends soon after Ctrl-C, wherever it is, and is not called a failure.
#[test]
#[cfg(unix)]
fn ctrl_c_ends_long_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (slow, description) = (folder.path().join("slow"), folder.path().join("slow.json"));
    let (weights, x) = (data("moons.safetensors"), data("moons.x.npy"));
    let mut network: serde_json::Value =
        serde_json::from_slice(&std::fs::read(data("moons.json")).unwrap()).unwrap();
    network["layers"][0]["solver"]["controller"] = serde_json::json!({"type": "fixed", "steps": 100_000});
    std::fs::write(&description, network.to_string()).unwrap();
    ok(&["model", "import", text(&weights), "--description", text(&description), "--out", text(&slow)]);
    for command in ["bench", "trajectory"] {
        let args = [command, "--model", text(&slow), "--inputs", text(&x), "--eps", "0.01"];
        let child = gains(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let asked = Instant::now();
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{command}: {}", stderr(&output));
        assert!(!stderr(&output).contains("error:"), "{command}: {}", stderr(&output));
        // Far less on a machine that does nothing else.
        assert!(asked.elapsed() < Duration::from_secs(5), "{command}: {:?}", asked.elapsed());
    }
}
