//! A small data set and a small configuration, and runs with them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{gains, stderr};

/// A data set of 64 training and 32 test images, and a configuration small enough for it.
pub struct Scene {
    pub folder: tempfile::TempDir,
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
    pub fn new() -> Self {
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

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `gains train` in the scene's folder; paths are relative to it.
    pub fn command(&self, flags: &str) -> Command {
        let mut command = gains(&["train", "--data-dir", "data"]);
        command.args(flags.split(' ')).current_dir(self.folder.path());
        if !flags.contains("--threads") {
            command.args(["--threads", "1"]);
        }
        command
    }

    pub fn train(&self, flags: &str) -> Output {
        self.command(flags).output().unwrap()
    }

    /// Trains and demands success; returns standard error.
    pub fn trained(&self, flags: &str) -> String {
        let output = self.train(flags);
        assert!(output.status.success(), "{flags}\n{}", stderr(&output));
        stderr(&output)
    }

    pub fn refused(&self, flags: &str, code: i32, message: &str) -> String {
        let output = self.train(flags);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{flags}\n{text}");
        let error = text.lines().find(|line| line.starts_with("error:")).unwrap_or_default();
        assert!(error.contains(message), "{flags} should say '{message}'\n{text}");
        assert!(text.contains("\nhint:"), "{flags}\n{text}");
        text
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// The checkpoint of a run that is going on: while it is replaced there is none for a moment.
    pub fn checkpoint_of_running(&self, run: &str) -> Vec<u8> {
        let path = self.path(run).join("checkpoint.safetensors");
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            match std::fs::read(&path) {
                Ok(content) => return content,
                Err(error) => assert!(Instant::now() < limit, "{run}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A long run that has finished at least so many epochs.
    pub fn running(&self, out: &str, epochs: usize) -> Child {
        self.write_config("long.toml", 1_000_000);
        let child = self
            .command(&format!("--config long.toml --out {out}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        self.wait_for(out, epochs);
        child
    }

    /// Waits until a run has finished at least so many epochs.
    pub fn wait_for(&self, out: &str, epochs: usize) {
        let limit = Instant::now() + Duration::from_secs(60);
        while self.epochs(out) < epochs {
            assert!(Instant::now() < limit, "the run does not get on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The configuration with so many epochs in its main phase, its schedules as they are.
    fn write_config(&self, name: &str, epochs: usize) {
        let text = TINY.replace("'main'\nepochs = 2", &format!("'main'\nepochs = {epochs}"));
        assert_ne!(text, TINY.replace("'main'", ""));
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Epochs in a run's metrics.
    pub fn epochs(&self, out: &str) -> usize {
        std::fs::read_to_string(self.path(out).join("metrics.csv"))
            .map_or(0, |t| t.lines().count().saturating_sub(1))
    }

    /// Lets a long run finish soon, and demands that its network is that of a run nothing happened to.
    pub fn ends_like_a_smooth_run(&self, out: &str) {
        let epochs = self.epochs(out);
        let last = epochs.max(2) - 2 + 2;
        self.trained(&format!("--resume {out} --set phases[1].epochs={last}"));
        self.write_config("smooth.toml", last);
        self.trained(&format!("--config smooth.toml --out smooth-{out}"));
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

pub fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The files of a finished run.
pub const ALL: [&str; 7] = [
    "checkpoint.previous.safetensors",
    "checkpoint.safetensors",
    "config.toml",
    "curves.svg",
    "metrics.csv",
    "metrics.jsonl",
    "model.safetensors",
];
