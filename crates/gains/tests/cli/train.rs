//! `gains train`: settings and whole runs.

mod own;
pub mod scene;
mod trouble;

use self::scene::{ALL, Scene, names};
use crate::support::{fails, ok, run, stderr, stdout, text};

#[test]
fn presets_are_listed_and_printed() {
    let table = ok(&["train", "--list-presets"]);
    for word in
        ["quick", "mnist-provable-0.22-difference", "fashion-mnist", "provable", "0.22", "150", "difference"]
    {
        assert!(table.contains(word), "{word}\n{table}");
    }
    let folder = tempfile::tempdir().unwrap();
    for name in table.lines().skip(2).map(|line| line.split_whitespace().next().unwrap()) {
        let printed = ok(&["train", "--preset", name, "--print-config"]);
        let file = folder.path().join("c.toml");
        std::fs::write(&file, &printed).unwrap();
        assert_eq!(ok(&["train", "--config", text(&file), "--print-config"]), printed, "{name}");
    }
    let changed = ok(&[
        "train",
        "--preset",
        "quick",
        "--seed",
        "3",
        "--set",
        "phases[1].eps.target=0.25",
        "--print-config",
    ]);
    assert!(changed.contains("seed = 3\n") && changed.contains("target = 0.25\n"), "{changed}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let scene = Scene::new();
    let quick = |change: &str, code, message: &str| {
        let hint = fails(&["train", "--preset", "quick", "--set", change, "--print-config"], code, message);
        assert!(hint.contains("\nhint:"), "{hint}");
        assert_eq!(hint.lines().count(), 2, "{hint}");
    };
    quick("bach=3", 2, "unknown field `bach`");
    quick("phases[5].epochs=3", 2, "there is no entry '5'");
    quick("batch", 2, "no value");
    quick("batch=0", 1, "batch: is 0");
    quick("phases[1].eps.target=1.5", 1, "phases[1].eps.target: is 1.5");
    quick("optimiser.rate=nan", 1, "optimiser.rate");
    quick("network.dynamics.channels=[16, 3]", 1, "network.dynamics.channels");
    for (text, message) in [
        ("bach = 3\n[[phases]]\nepochs = 1", "line 1, column 1: unknown field `bach`"),
        ("batch = \n", "line 1"),
        ("batch = 16", "phases"),
        ("\0\u{1}", "line 1"),
    ] {
        std::fs::write(scene.path("bad.toml"), text).unwrap();
        let said = scene.refused("--config bad.toml", 1, message);
        assert_eq!(said.lines().count(), 2, "{said}");
    }
    scene.refused("--config none.toml", 1, "cannot read 'none.toml'");
    scene.refused("--config data", 1, "cannot read 'data'");
    scene.refused("--config tiny.toml --set dataset=emnist", 1, "emnist");
    scene.refused("--config tiny.toml --set validation=64", 1, "validation: is 64");
    scene.refused("--config tiny.toml --set phases[1].objective.type=ibp", 2, "ibp");
    scene.refused("--config tiny.toml --set network.image.height=32", 1, "32");
    let hint = fails(&["train", "--preset", "mnist-provable"], 2, "no preset 'mnist-provable'");
    assert!(hint.contains("mnist-provable-0.11"), "{hint}");
    fails(&["train"], 2, "required");
    fails(&["train", "--preset", "quick", "--config", "x.toml"], 2, "cannot be used with");
    fails(&["train", "--preset", "quick", "--threads", "0"], 2, "not in 1..=1024");
    assert_eq!(names(scene.folder.path()), ["bad.toml", "data", "tiny.toml"], "nothing was begun");
}

#[test]
fn without_data_a_hint_tells_how_to_get_it() {
    let scene = Scene::new();
    let said = scene.refused("--preset quick --out run", 1, "fashion-mnist");
    assert!(said.contains("gains data fetch fashion-mnist"), "{said}");
    assert!(!scene.path("run").exists());
}

#[test]
fn a_whole_run_leaves_a_network_that_other_commands_take() {
    let scene = Scene::new();
    let output = scene.train("--config tiny.toml");
    let chatter = stderr(&output);
    assert!(output.status.success(), "{chatter}");
    // Without a terminal: a line per epoch.
    for place in ["warm-up 1/2", "warm-up 2/2", "main 1/2", "main 2/2"] {
        assert_eq!(chatter.lines().filter(|line| line.starts_with(place)).count(), 1, "{chatter}");
    }
    let folder = scene.path("runs/tiny-seed7");
    assert_eq!(names(&folder), ALL);
    let said = stdout(&output);
    for word in
        ["gains certify --model runs/tiny-seed7/model.safetensors", "gains eval", "--eps 0.02", "test"]
    {
        assert!(said.contains(word), "{word}\n{said}");
    }
    let metrics = String::from_utf8(scene.read("runs/tiny-seed7/metrics.csv")).unwrap();
    let header = "phase,epoch,eps,kappa,q,loss,clean,robust,width,accuracy,robust_accuracy,splits,trajectories,\
                  concrete_steps,abstract_steps,h0,gradient_norm,rate,test_accuracy,motion,without_ode,error,robust_error,\
                  test_error,certified,best,seconds";
    assert_eq!(metrics.lines().next(), Some(header));
    let lines: Vec<Vec<&str>> = metrics.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.iter().map(|line| line[1]).collect::<Vec<_>>(), ["1", "2", "3", "4"]);
    assert_eq!((lines[0][0], lines[3][0], lines[3][2]), ("warm-up", "main", "0.02"));
    for line in &lines {
        // Euler steps do not look at how far the state moves, and no numbers are predicted and no networks chosen.
        let number = |(at, cell): (usize, &&str)| {
            (at == 18 && line[0] == "warm-up")
                || (20..25).contains(&at)
                || cell.parse::<f64>().is_ok_and(f64::is_finite)
        };
        assert!(line[1..].iter().enumerate().all(number), "{line:?}");
    }
    let stream = String::from_utf8(scene.read("runs/tiny-seed7/metrics.jsonl")).unwrap();
    let epochs: Vec<u64> = stream
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["epoch"].as_u64().unwrap())
        .collect();
    assert_eq!(epochs, [1, 2, 3, 4]);
    let svg = String::from_utf8(scene.read("runs/tiny-seed7/curves.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("worst-case cross-entropy") && svg.contains("warm-up"));
    // What was trained is what the folder says, and training again gives the same.
    scene.trained("--config runs/tiny-seed7/config.toml --out again --quiet");
    assert!(scene.read("again/model.safetensors") == scene.read("runs/tiny-seed7/model.safetensors"));
    scene.trained("--config tiny.toml --out threads --threads 2 --quiet");
    assert!(scene.read("threads/model.safetensors") == scene.read("again/model.safetensors"));
    let model = folder.join("model.safetensors");
    let data = scene.path("data");
    let rest = ["--model", text(&model), "--data-dir", text(&data), "--samples", "0..5"];
    let predicted = ok(&[&["predict"], &rest[..]].concat());
    assert!(predicted.contains("of 5 correct"), "{predicted}");
    let certified = ok(&[&["certify", "--eps", "0.01", "--method", "box"], &rest[..]].concat());
    assert!(certified.contains("certified %"), "{certified}");
    let shown = ok(&["model", "show", text(&model)]);
    for word in ["tiny", "training record", "step_form", "mnist"] {
        assert!(shown.contains(word), "{word}\n{shown}");
    }
}

/// Of 64 images 20 are looked at instead of test images, which need not be there; schedules follow the length.
#[test]
fn images_held_back_are_looked_at_in_place_of_test_images() {
    let scene = Scene::new();
    for kind in ["images-idx3", "labels-idx1"] {
        std::fs::remove_file(scene.path(&format!("data/mnist/t10k-{kind}-ubyte"))).unwrap();
    }
    let flags = "--config tiny.toml --out held --set validation=20 --set phases[1].epochs=4 \
                 --set phases[1].objective={type=\"sabr\"} --set optimiser.average=0.9";
    let said = scene.trained(flags);
    assert!(said.contains("main 4/4"), "{said}");
    let metrics = String::from_utf8(scene.read("held/metrics.csv")).unwrap();
    let cells: Vec<Vec<&str>> = metrics.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert!(cells.iter().all(|line| line[18].parse::<f64>().is_ok()), "{metrics}");
    // Half of four epochs is two: the perturbation reaches its target in the fourth, as it did in the second of two.
    assert!(cells[4][2].parse::<f64>().unwrap() < 0.02 && cells[5][2] == "0.02", "{metrics}");
    let config = String::from_utf8(scene.read("held/config.toml")).unwrap();
    assert!(config.contains("length = 4") && config.contains("type = \"sabr\""), "{config}");
}

#[test]
fn standard_and_adversarial_runs_have_no_boxes() {
    let scene = Scene::new();
    for (method, phase) in
        [("standard", ""), ("adversarial", "eps = { target = 0.1 }\nattack = { steps = 2 }\n")]
    {
        let config = format!(
            "name = '{method}'\ndataset = 'mnist'\nbatch = 16\nmethod = '{method}'\nnetwork.encoder.channels = [2, 2]\n\
             network.dynamics.channels = [2, 2]\n[[phases]]\nepochs = 2\n{phase}"
        );
        std::fs::write(scene.path("c.toml"), config).unwrap();
        scene.trained(&format!("--config c.toml --out {method}"));
        assert_eq!(names(&scene.path(method)), ALL);
        let svg = String::from_utf8(scene.read(&format!("{method}/curves.svg"))).unwrap();
        assert!(!svg.contains("worst-case"));
    }
}

#[test]
fn a_gpu_that_is_not_there_is_an_error_with_a_hint() {
    let scene = Scene::new();
    let output = scene.train("--config tiny.toml --out run --device cuda");
    let text = stderr(&output);
    if output.status.success() {
        assert_eq!(names(&scene.path("run")), ALL);
    } else {
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with("error:") && text.contains("\nhint:"), "{text}");
        assert!(!text.contains("panicked") && !scene.path("run").exists(), "{text}");
    }
}

#[test]
fn help_shows_examples() {
    let output = run(&["train", "--help"]);
    assert!(stdout(&output).contains("gains train --preset quick"));
}
