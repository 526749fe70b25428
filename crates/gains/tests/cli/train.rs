//! `gains train`: settings, whole runs, and runs that are killed, interrupted or run into a full disk.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{fails, gains, ok, run, stderr, stdout, text};

/// A data set of 64 training and 32 test images, and a configuration small enough for it.
struct Scene {
    folder: tempfile::TempDir,
}

const TINY: &str = "\
name = 'tiny'
dataset = 'mnist'
seed = 7
batch = 16
method = 'provable'

[network.encoder]
channels = [2, 2]

[network.dynamics]
channels = [3, 2]

[rhythm]
test_images = 20

[[phases]]
name = 'warm-up'
epochs = 2
solver = { type = 'euler', steps = 2 }
eps = { target = 0.004, length = 2 }

[[phases]]
name = 'main'
epochs = 2
step_form = 'difference'
eps = { target = 0.02, length = 2 }
kappa = [{ from = 0, count = 2 }]
";

/// An IDX file: magic number and dimensions, then bytes.
fn idx(words: &[u32], bytes: impl Iterator<Item = u8>) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).chain(bytes).collect()
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data/mnist");
        std::fs::create_dir_all(&data).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        for (split, count) in [("train", 64_u32), ("t10k", 32)] {
            // A bright band whose height is the label, in noise: something can be learnt.
            let pixels = (0..count).flat_map(|image| (0..28 * 28).map(move |i| (image % 10, i / 28)));
            let pixels: Vec<u8> =
                pixels.map(|(label, row)| if row / 3 == label { 255 } else { random.u8(0..60) }).collect();
            let images = idx(&[0x803, count, 28, 28], pixels.into_iter());
            let labels = idx(&[0x801, count], (0..count).map(|image| (image % 10) as u8));
            std::fs::write(data.join(format!("{split}-images-idx3-ubyte")), images).unwrap();
            std::fs::write(data.join(format!("{split}-labels-idx1-ubyte")), labels).unwrap();
        }
        std::fs::write(folder.path().join("tiny.toml"), TINY).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `gains train` in the scene's folder; paths are relative to it.
    fn command(&self, flags: &str) -> Command {
        let mut command = gains(&["train", "--data-dir", "data"]);
        command.args(flags.split(' ')).current_dir(self.folder.path());
        if !flags.contains("--threads") {
            command.args(["--threads", "1"]);
        }
        command
    }

    fn train(&self, flags: &str) -> Output {
        self.command(flags).output().unwrap()
    }

    /// Trains and demands success; returns standard error.
    fn trained(&self, flags: &str) -> String {
        let output = self.train(flags);
        assert!(output.status.success(), "{flags}\n{}", stderr(&output));
        stderr(&output)
    }

    fn refused(&self, flags: &str, code: i32, message: &str) -> String {
        let output = self.train(flags);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{flags}\n{text}");
        let error = text.lines().find(|line| line.starts_with("error:")).unwrap_or_default();
        assert!(error.contains(message), "{flags} should say '{message}'\n{text}");
        assert!(text.contains("\nhint:"), "{flags}\n{text}");
        text
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// A long run that has finished at least so many epochs.
    fn running(&self, out: &str, epochs: usize) -> Child {
        let flags = format!("--config tiny.toml --out {out} --set phases[1].epochs=1000000");
        let child = self.command(&flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        while self.epochs(out) < epochs {
            assert!(Instant::now() < limit, "the run does not get on");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// Epochs in a run's metrics.
    fn epochs(&self, out: &str) -> usize {
        std::fs::read_to_string(self.path(out).join("metrics.csv")).map_or(0, |t| t.lines().count() - 1)
    }

    /// Lets a long run finish soon, and demands that its network is that of a run nothing happened to.
    fn ends_like_a_smooth_run(&self, out: &str) {
        let epochs = self.epochs(out);
        let last = format!("--set phases[1].epochs={}", epochs.max(2) - 2 + 2);
        self.trained(&format!("--resume {out} {last}"));
        self.trained(&format!("--config tiny.toml --out smooth-{out} {last}"));
        assert!(self.epochs(out) > epochs);
        let model = self.read(&format!("{out}/model.safetensors"));
        assert!(model == self.read(&format!("smooth-{out}/model.safetensors")), "after {epochs} epochs");
        // All but the times.
        let numbers = |name: &str| {
            let text = String::from_utf8(self.read(&format!("{name}/metrics.csv"))).unwrap();
            text.lines().map(|line| line.rsplit_once(',').unwrap().0.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(out), numbers(&format!("smooth-{out}")));
    }
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const ALL: [&str; 6] = [
    "checkpoint.previous.safetensors",
    "checkpoint.safetensors",
    "config.toml",
    "curves.svg",
    "metrics.csv",
    "model.safetensors",
];

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
                  concrete_steps,abstract_steps,h0,gradient_norm,rate,test_accuracy,seconds";
    assert_eq!(metrics.lines().next(), Some(header));
    let lines: Vec<Vec<&str>> = metrics.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.iter().map(|line| line[1]).collect::<Vec<_>>(), ["1", "2", "3", "4"]);
    assert_eq!((lines[0][0], lines[3][0], lines[3][2]), ("warm-up", "main", "0.02"));
    for line in &lines {
        assert!(line[1..].iter().all(|cell| cell.parse::<f64>().is_ok_and(f64::is_finite)), "{line:?}");
    }
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
fn a_folder_with_a_run_is_not_overwritten() {
    let scene = Scene::new();
    scene.trained("--config tiny.toml --out run");
    let before = scene.read("run/model.safetensors");
    let said = scene.refused("--config tiny.toml --out run --seed 8", 2, "holds a finished run");
    assert!(said.contains("--resume run") && said.contains("--force"), "{said}");
    assert!(scene.read("run/model.safetensors") == before);
    let output = scene.train("--resume run");
    assert!(output.status.success() && stdout(&output).contains("finished"), "{}", stderr(&output));
    std::fs::remove_file(scene.path("run/model.safetensors")).unwrap();
    scene.refused("--config tiny.toml --out run --seed 8", 2, "holds an unfinished run");
    scene.trained("--config tiny.toml --out run --seed 8 --force");
    assert!(scene.read("run/model.safetensors") != before);
    scene.refused("--resume data", 2, "holds no run");
    scene.refused("--resume run --set batch=8", 2, "batch cannot change");
    fails(&["train", "--resume", "run", "--out", "x"], 2, "cannot be used with");
    std::fs::write(scene.path("file"), "").unwrap();
    scene.refused("--config tiny.toml --out file", 1, "cannot create the folder");
}

#[test]
fn a_damaged_checkpoint_gives_way_to_the_one_before() {
    let scene = Scene::new();
    scene.trained("--config tiny.toml --out run");
    let (model, newest) = (scene.read("run/model.safetensors"), scene.read("run/checkpoint.safetensors"));
    let lose = |length: usize| {
        std::fs::remove_file(scene.path("run/model.safetensors")).unwrap();
        std::fs::write(scene.path("run/checkpoint.safetensors"), &newest[..length]).unwrap();
    };
    for length in [0, 7, 100, newest.len() - 1] {
        lose(length);
        let said = scene.trained("--resume run");
        assert!(said.contains("warning: checkpoint.safetensors is damaged"), "{said}");
        assert!(said.contains("checkpoint.previous.safetensors"), "{said}");
        assert!(scene.read("run/model.safetensors") == model, "{length}");
        assert_eq!(scene.epochs("run"), 4);
    }
    // Nothing left to train, only the network to write.
    lose(newest.len());
    let said = scene.trained("--resume run");
    assert!(!said.contains("warning") && !said.contains("main"), "{said}");
    assert!(scene.read("run/model.safetensors") == model);
    lose(50);
    std::fs::write(scene.path("run/checkpoint.previous.safetensors"), "").unwrap();
    let said = scene.refused("--resume run", 1, "checkpoint.previous.safetensors is damaged");
    assert!(said.contains("--force"), "{said}");
    // Killed before the first checkpoint: everything is still to be done.
    std::fs::remove_file(scene.path("run/checkpoint.previous.safetensors")).unwrap();
    std::fs::remove_file(scene.path("run/checkpoint.safetensors")).unwrap();
    scene.trained("--resume run");
    assert!(scene.read("run/model.safetensors") == model);
    // The damaged one was kept aside, and goes with the run.
    assert!(scene.path("run/checkpoint.damaged.safetensors").exists());
    scene.trained("--config tiny.toml --out run --force");
    assert_eq!(names(&scene.path("run")), ALL);
}

#[cfg(unix)]
#[test]
fn a_run_that_is_killed_again_and_again_ends_the_same() {
    let scene = Scene::new();
    let mut random = fastrand::Rng::new();
    let mut child = scene.running("run", 1);
    for round in 0..6 {
        std::thread::sleep(Duration::from_millis(random.u64(0..150)));
        signal(&child, "-KILL");
        child.wait().unwrap();
        if round < 5 {
            child = scene.command("--resume run").stderr(Stdio::null()).spawn().unwrap();
        }
    }
    scene.ends_like_a_smooth_run("run");
    assert_eq!(names(&scene.path("run")), ALL, "nothing half-written stays");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_saves_itself_and_goes_on() {
    let scene = Scene::new();
    let child = scene.running("run", 3);
    let said = scene.refused("--resume run", 1, "another process");
    assert!(said.contains("Ctrl-C"), "{said}");
    let before = scene.read("run/checkpoint.safetensors");
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("gains train --resume run"), "{text}");
    assert!(!text.contains("error:"), "{text}");
    assert!(scene.read("run/checkpoint.safetensors") != before);
    assert!(!scene.path("run/model.safetensors").exists());
    scene.ends_like_a_smooth_run("run");
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_last_checkpoint() {
    let scene = Scene::new();
    scene.trained("--config tiny.toml --out run");
    std::fs::remove_file(scene.path("run/model.safetensors")).unwrap();
    scene.trained("--resume run --set phases[1].epochs=3");
    std::fs::remove_file(scene.path("run/model.safetensors")).unwrap();
    let config = String::from_utf8(scene.read("run/config.toml")).unwrap();
    std::fs::write(scene.path("run/config.toml"), config.replace("epochs = 3", "epochs = 4")).unwrap();
    let before = scene.read("run/checkpoint.safetensors");
    // Files end at 2 or 4 kB, as the shell counts; the signal that would come with that is switched off.
    let script = format!(
        "trap '' XFSZ; ulimit -f 4; exec {} train --resume run --data-dir data --threads 1",
        env!("CARGO_BIN_EXE_gains")
    );
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", &script]).current_dir(scene.folder.path()).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("error: cannot write 'run/checkpoint.safetensors'"), "{text}");
    assert!(text.contains("intact") && text.contains("gains train --resume run"), "{text}");
    assert!(scene.read("run/checkpoint.safetensors") == before);
    scene.ends_like_a_smooth_run("run");
}

#[test]
fn a_run_that_diverges_says_where_and_what_to_do() {
    let scene = Scene::new();
    let flags = "--config tiny.toml --out run --set phases[1].epochs=400 --set optimiser.rate=10 --set optimiser.beta2=0.0";
    let said = scene.refused(flags, 1, "diverged");
    assert!(said.contains("epoch") && said.contains("batch"), "{said}");
    assert!(said.contains("gains train --resume run"), "{said}");
    assert!(said.contains("--set optimiser.rate=2.5"), "{said}");
    assert!(!scene.path("run/model.safetensors").exists());
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
