//! docs/bring-your-own.md, line by line, and the six networks it speaks of, end to end.

use std::path::{Path, PathBuf};
use std::process::Command;

use gains_data::own::read_inputs;
use serde_json::Value;

use crate::support::{ok, records, stderr, text};

fn data(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/tutorial").join(file)
}

/// A fenced block: what stands behind the fence, and the lines inside.
struct Block {
    info: String,
    lines: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { info: info.into(), lines: String::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.lines += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// Runs a block of Python where what it imports is there; else looks at its syntax and takes what it made elsewhere.
fn python(block: &str, folder: &Path) {
    let program = std::env::var("GAINS_PYTHON").unwrap_or_else(|_| "python3".into());
    let run = |code: &str| {
        Command::new(&program).args(["-c", code]).current_dir(folder).env("OMP_NUM_THREADS", "1").output()
    };
    let there = |code: &str| run(code).is_ok_and(|output| output.status.success());
    if there("import torch, torchdiffeq, sklearn, safetensors.torch, numpy") {
        let output = run(block).unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        return;
    }
    eprintln!(
        "skipped: the Python block, since there is no PyTorch with torchdiffeq; GAINS_PYTHON names one"
    );
    if there("") {
        let quoted = serde_json::to_string(block).unwrap();
        assert!(there(&format!("import ast; ast.parse({quoted})")), "the Python block does not parse");
    }
    for file in ["net.safetensors", "x.npy", "y.npy"] {
        std::fs::copy(data("page").join(file), folder.join(file)).unwrap();
    }
}

#[test]
fn every_line_of_the_page_runs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bring-your-own.md");
    let page = std::fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_gains")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut commands = 0;
    for block in blocks(&page) {
        match block.info.split_whitespace().collect::<Vec<_>>()[..] {
            ["python"] => python(&block.lines, folder.path()),
            ["json", file] => std::fs::write(folder.path().join(file), &block.lines).unwrap(),
            ["sh"] => {
                for line in block.lines.lines() {
                    let mut shell = Command::new("sh");
                    shell.args(["-c", line]).current_dir(folder.path()).env("PATH", &path);
                    let output = shell.env_remove("GAINS_DATA").output().unwrap();
                    assert!(output.status.success(), "{line}\n{}", stderr(&output));
                    commands += 1;
                }
            }
            _ => {}
        }
    }
    assert!(commands >= 8, "only {commands} commands were found");
    let begun = std::fs::read_to_string(folder.path().join("begun.json")).unwrap();
    assert!(begun.contains("FILL IN") && begun.contains("dynamics.2"), "{begun}");
    assert!(folder.path().join("trajectory.svg").exists());
    let verified = records(&folder.path().join("results.jsonl"));
    let verified = verified.iter().filter(|line| line["verdict"] == "verified").count();
    assert!(verified > 0, "the page promises a certificate");
}

/// A network of the tutorial as a model file, with its inputs and labels.
struct Scene {
    folder: tempfile::TempDir,
    name: &'static str,
}

impl Scene {
    fn new(name: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scene = Self { folder, name };
        let (weights, description) = (data(&format!("{name}.safetensors")), data(&format!("{name}.json")));
        let model = scene.model();
        ok(&["model", "import", text(&weights), "--description", text(&description), "--out", &model]);
        scene
    }

    fn model(&self) -> String {
        text(&self.folder.path().join("model")).into()
    }

    fn part(&self, part: &str) -> String {
        text(&data(&format!("{}.{part}.npy", self.name))).into()
    }

    /// Runs a command on the network and its samples.
    fn run(&self, command: &str, flags: &[&str]) -> String {
        let (model, x, y) = (self.model(), self.part("x"), self.part("y"));
        let mut args = vec![command, "--model", &model, "--inputs", &x, "--labels", &y];
        args.extend(flags);
        ok(&args)
    }

    /// The largest difference of the logits to stored ones, relative to the largest of the sample or 1.
    fn difference(&self, stored: &str) -> f64 {
        let stored = read_inputs(&PathBuf::from(self.part(stored)), None).unwrap().values;
        let printed = self.run("predict", &["--precision", "float32", "--json"]);
        let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let logits: Vec<Vec<f64>> =
            lines.iter().map(|line| serde_json::from_value(line["logits"].clone()).unwrap()).collect();
        assert_eq!(logits.iter().map(Vec::len).sum::<usize>(), stored.len());
        let sample = |(found, wanted): (&Vec<f64>, &[f64])| {
            let size = wanted.iter().fold(1.0, |size: f64, w| size.max(w.abs()));
            found.iter().zip(wanted).map(|(f, w)| (f - w).abs() / size).fold(0.0, f64::max)
        };
        let classes = logits[0].len();
        logits.iter().zip(stored.chunks(classes)).map(sample).fold(0.0, f64::max)
    }

    /// How many samples are verified, falsified and unknown.
    fn verdicts(&self, eps: &str, flags: &[&str]) -> [usize; 3] {
        let results = self.folder.path().join("results.jsonl");
        let _ = std::fs::remove_file(&results);
        let mut all = vec!["--eps", eps, "--out", text(&results)];
        all.extend(flags);
        self.run("certify", &all);
        let lines = records(&results);
        ["verified", "falsified", "unknown"]
            .map(|word| lines.iter().filter(|line| line["verdict"] == word).count())
    }
}

/// What PyTorch computed in float32 with the same solver is computed again.
fn agrees(scene: &Scene) {
    let difference = scene.difference("logits");
    assert!(difference < 1e-5, "{}: {difference:e}", scene.name);
}

/// Of the first ten samples at least so many are verified at a radius.
fn certifies(scene: &Scene, eps: &str, floor: usize) {
    let verdicts = scene.verdicts(eps, &["--method", "symbolic", "--samples", "0..10", "--timeout", "20"]);
    assert!(verdicts[0] >= floor, "{}: {verdicts:?} verified, falsified, unknown", scene.name);
}

#[test]
fn two_moons() {
    let scene = Scene::new("moons");
    agrees(&scene);
    certifies(&scene, "0.02", 9);
}

#[test]
fn breast_cancer() {
    let scene = Scene::new("breast-cancer");
    agrees(&scene);
    certifies(&scene, "0.003", 7);
}

#[test]
fn a_convolutional_network_with_batch_norm() {
    let scene = Scene::new("convolutional");
    agrees(&scene);
    certifies(&scene, "0.004", 9);
}

#[test]
fn torchdiffeqs_rk4() {
    let scene = Scene::new("runge-kutta");
    agrees(&scene);
    certifies(&scene, "0.02", 10);
}

#[test]
fn an_augmented_ode() {
    let scene = Scene::new("augmented");
    agrees(&scene);
    certifies(&scene, "0.02", 9);
}

/// Group normalisation divides by what it measures, through which bounds grow with every step: it is bounded, and attacked
/// points stay inside, but nothing is proved at radii that matter.
#[test]
fn the_ode_net() {
    let scene = Scene::new("ode-net");
    agrees(&scene);
    let verdicts = scene.verdicts("0.0001", &["--samples", "0..2", "--method", "box"]);
    assert_eq!(verdicts.iter().sum::<usize>(), 2, "{verdicts:?}");
}
