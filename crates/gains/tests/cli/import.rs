//! `gains model import` of networks of one's own, and what is said when it cannot be.

use std::path::PathBuf;

use crate::support::{fails, ok, text};

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
