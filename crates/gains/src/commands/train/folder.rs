//! The folder of a run: which files there are, and how they survive crashes and full disks.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::quoted;
use crate::failure::Failure;
use crate::output::plain;
use crate::{files, lock};

const CONFIG: &str = "config.toml";
const METRICS: &str = "metrics.csv";
const CHECKPOINT: &str = "checkpoint.safetensors";
const PREVIOUS: &str = "checkpoint.previous.safetensors";
const MODEL: &str = "model.safetensors";
const CURVES: &str = "curves.svg";
/// The last checkpoint before a run warned of itself.
const GOOD: &str = "checkpoint.good.safetensors";
/// A checkpoint that could not be read, set aside.
const DAMAGED: &str = "checkpoint.damaged.safetensors";
/// The metrics again, a line of JSON per epoch.
const STREAM: &str = "metrics.jsonl";
/// Which samples of one's own are for what.
pub const SPLIT: &str = "split.json";
/// Those of the test.
pub const TEST: &str = "test.csv";
/// How far each feature was perturbed.
pub const RADII: &str = "feature-eps.csv";
const OURS: [&str; 12] =
    [CONFIG, METRICS, STREAM, CHECKPOINT, PREVIOUS, GOOD, DAMAGED, MODEL, CURVES, SPLIT, TEST, RADII];

/// The folder of a run, held by this process alone.
pub struct Folder {
    path: PathBuf,
    /// What to type to go on with the run.
    resume: String,
    /// The open folder, locked as long as we live.
    _lock: Option<File>,
}

/// A checkpoint that could be read.
pub struct Found<T> {
    /// What it holds.
    pub state: T,
    /// Why it is not the newest one, if so.
    pub warning: Option<String>,
}

/// Bytes of a run's name; file systems take 255 for a folder.
const LONGEST_NAME: usize = 200;

/// Where a run goes: where it was told to, or a folder below `runs` with its name. The name may come from anywhere, so
/// it must be one that stays there.
pub fn of_run(out: Option<&Path>, name: &str, seed: u64) -> Result<PathBuf, Failure> {
    if let Some(out) = out {
        return Ok(out.to_owned());
    }
    let problem = match name {
        "" => "is empty",
        _ if name.len() > LONGEST_NAME => "is too long",
        _ if name.contains(['/', '\\', ':']) => "is a path",
        _ if name.starts_with(['.', '-', ' ']) || plain(name) != name => "does not suit a folder",
        _ => return Ok(Path::new("runs").join(format!("{name}-seed{seed}"))),
    };
    Err(Failure::usage(format!("name: '{name}' {problem}"))
        .hint("change it with --set name=NAME, or choose a folder with --out"))
}

impl Folder {
    /// Refuses a folder that holds a run, unless `force` allows it to be cleared away.
    pub fn vacant(path: &Path, force: bool) -> Result<(), Failure> {
        let taken = OURS.iter().any(|name| path.join(name).exists());
        if taken && !force {
            let state = if path.join(MODEL).exists() { "a finished run" } else { "an unfinished run" };
            return Err(Failure::usage(format!("'{}' holds {state}", path.display())).hint(format!(
                "go on with `gains train --resume {}`, choose another folder with --out, or start over with --force",
                path.display()
            )));
        }
        Ok(())
    }

    /// A folder for a new run, with the command that goes on with it. A run that is there already is in the way
    /// unless `force` clears it away.
    pub fn create(path: &Path, force: bool, resume: String) -> Result<Self, Failure> {
        Self::vacant(path, force)?;
        fs::create_dir_all(path).map_err(|e| {
            Failure::new(format!("cannot create the folder '{}': {e}", path.display()))
                .hint("choose another with --out")
        })?;
        let folder = Self::lock(path, resume)?;
        folder.clear_leftovers();
        for name in OURS {
            let file = path.join(name);
            match fs::remove_file(&file) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::new(format!("cannot remove '{}': {e}", file.display()))
                        .hint("choose another folder with --out"));
                }
                _ => {}
            }
        }
        Ok(folder)
    }

    /// The configuration of a run that is there.
    pub fn config_of(path: &Path) -> Result<PathBuf, Failure> {
        let config = path.join(CONFIG);
        if config.is_file() {
            return Ok(config);
        }
        Err(Failure::usage(format!("'{}' holds no run: there is no {CONFIG}", path.display()))
            .hint("--resume takes the folder that --out named"))
    }

    /// The folder of a run that is there, with the command that goes on with it.
    pub fn open(path: &Path, resume: String) -> Result<Self, Failure> {
        Self::config_of(path)?;
        let folder = Self::lock(path, resume)?;
        folder.clear_leftovers();
        Ok(folder)
    }

    /// Two processes in one folder would destroy each other's checkpoints.
    fn lock(path: &Path, resume: String) -> Result<Self, Failure> {
        // Not every system can open or lock a folder; then care is the user's.
        let folder = File::open(path).ok();
        if folder.as_ref().is_some_and(|folder| lock::take(folder).is_err()) {
            return Err(Failure::new(format!("another process is training in '{}'", path.display()))
                .hint("wait for it or stop it with Ctrl-C; other runs need another --out"));
        }
        Ok(Self { path: path.to_path_buf(), resume, _lock: folder })
    }

    /// Removes what a killed process had begun to write.
    fn clear_leftovers(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(".partial") && OURS.iter().any(|ours| name.starts_with(ours)) {
                // Worst case it stays, which harms nothing.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What to type to go on with the run.
    pub fn resume(&self) -> &str {
        &self.resume
    }

    /// What to type to begin anew in the same place.
    pub fn anew(&self) -> String {
        let (config, place) = (quoted(&self.config()), quoted(&self.path));
        let anew = format!("--config {config} --out {place} --force");
        self.resume.replacen(&format!("--resume {place}"), &anew, 1)
    }

    /// The configuration.
    pub fn config(&self) -> PathBuf {
        self.path.join(CONFIG)
    }

    /// One line per epoch.
    pub fn metrics(&self) -> PathBuf {
        self.path.join(METRICS)
    }

    /// The same, a line of JSON per epoch.
    pub fn stream(&self) -> PathBuf {
        self.path.join(STREAM)
    }

    /// Another file of the run.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The newest checkpoint.
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join(CHECKPOINT)
    }

    /// The trained network.
    pub fn model(&self) -> PathBuf {
        self.path.join(MODEL)
    }

    /// The picture.
    pub fn curves(&self) -> PathBuf {
        self.path.join(CURVES)
    }

    /// Writes a file of the folder as a whole or not at all.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        files::write_atomically(path, bytes).map_err(|failure| self.with_remedy(failure))
    }

    /// Replaces the checkpoint. At every moment one complete checkpoint is there, and the one before stays as
    /// `checkpoint.previous.safetensors`.
    pub fn save(&self, bytes: &[u8]) -> Result<(), Failure> {
        let (newest, previous) = (self.checkpoint(), self.path.join(PREVIOUS));
        // The name must differ from that of any finished file: a full disk shows here, before anything is moved.
        let fresh = self.path.join(format!("{CHECKPOINT}.new.partial"));
        files::write_atomically(&fresh, bytes).map_err(|mut failure| {
            let place = newest.display().to_string();
            failure.message = failure.message.replace(&fresh.display().to_string(), &place);
            self.with_remedy(failure)
        })?;
        let moved = match fs::rename(&newest, &previous) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => fs::rename(&fresh, &newest),
        };
        moved.map_err(|e| self.with_remedy(Failure::writing(&newest, &e)))?;
        // Makes the new names last through a power cut, where the system lets folders be synchronised.
        if let Ok(folder) = File::open(&self.path) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Remembers the newest checkpoint, if there is one, as the last good one.
    pub fn remember(&self) -> Result<(), Failure> {
        match fs::read(self.checkpoint()) {
            Ok(bytes) => self.write(&self.path.join(GOOD), &bytes),
            Err(_) => Ok(()),
        }
    }

    /// Whether there is a good checkpoint from before a warning.
    pub fn has_good(&self) -> bool {
        self.path.join(GOOD).exists()
    }

    /// Makes the last good checkpoint the newest, and the run one that is not finished.
    pub fn go_back(&self) -> Result<(), Failure> {
        let good = self.path.join(GOOD);
        if !good.exists() {
            return Err(Failure::usage(format!(
                "the run in '{}' has no epoch from before a warning",
                self.path.display()
            ))
            .hint(format!(
                "`{}` goes on from its last checkpoint; `{}` begins anew",
                self.resume,
                self.anew()
            )));
        }
        self.save(&files::read_model_file(&good)?)?;
        match fs::remove_file(self.model()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Failure::writing(&self.model(), &e)),
            _ => Ok(()),
        }
    }

    /// Moves a damaged checkpoint out of the way, lest it take the place of the good one before it.
    fn set_aside(&self) -> Result<(), Failure> {
        let newest = self.checkpoint();
        fs::rename(&newest, self.path.join(DAMAGED)).map_err(|e| Failure::writing(&newest, &e))
    }

    fn with_remedy(&self, failure: Failure) -> Failure {
        let hint = if self.checkpoint().exists() {
            "the last checkpoint is intact: make room on the disk, then"
        } else {
            "make room on the disk, then"
        };
        failure.hint(format!("{hint} `{}`", self.resume))
    }

    /// The newest checkpoint that `parse` accepts, or says what it is; none if the run never came so far as to write one.
    pub fn load<T>(&self, parse: impl Fn(&[u8]) -> Result<T, String>) -> Result<Option<Found<T>>, Failure> {
        let mut troubles: Vec<String> = Vec::new();
        for name in [CHECKPOINT, PREVIOUS] {
            let path = self.path.join(name);
            if !path.exists() {
                continue;
            }
            let parsed = files::read_model_file(&path)
                .map_err(|failure| failure.message)
                .and_then(|bytes| parse(&bytes).map_err(|problem| format!("{name} {problem}")));
            match parsed {
                Ok(state) => {
                    let warning = troubles.pop().map(|trouble| format!("{trouble}; going on from {name}"));
                    if warning.is_some() {
                        self.set_aside()?;
                    }
                    return Ok(Some(Found { state, warning }));
                }
                Err(trouble) => troubles.push(trouble),
            }
        }
        if troubles.is_empty() {
            return Ok(None);
        }
        Err(Failure::new(format!("'{}': {}", self.path.display(), troubles.join("; "))).hint(format!(
            "start over with `gains train --config {} --out {} --force`, or copy a checkpoint back there",
            self.config().display(),
            self.path.display()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<String, String> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        if text.starts_with("good") { Ok(text) } else { Err(format!("is damaged: '{text}'")) }
    }

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_checkpoint_before_stays() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(&place.path().join("a/b"), false, String::new()).unwrap();
        assert!(folder.load(parse).unwrap().is_none());
        for text in ["good 1", "good 2", "good 3"] {
            folder.save(text.as_bytes()).unwrap();
            let found = folder.load(parse).unwrap().unwrap();
            assert_eq!((found.state.as_str(), found.warning), (text, None));
        }
        assert_eq!(names(folder.path()), [PREVIOUS, CHECKPOINT]);
        fs::write(folder.checkpoint(), "bad").unwrap();
        let found = folder.load(parse).unwrap().unwrap();
        assert_eq!(found.state, "good 2");
        assert!(found.warning.unwrap().contains("checkpoint.safetensors is damaged"));
        assert_eq!(names(folder.path()), [DAMAGED, PREVIOUS]);
        // As it is between the two renames, too.
        assert_eq!(folder.load(parse).unwrap().unwrap().warning, None);
        folder.save(b"good 3").unwrap();
        let previous = folder.path().join(PREVIOUS);
        assert_eq!(
            fs::read(&previous).unwrap(),
            b"good 2",
            "the good one is never replaced by the damaged one"
        );
        fs::write(folder.path().join(PREVIOUS), "bad").unwrap();
        fs::write(folder.checkpoint(), "worse").unwrap();
        let failure = folder.load(parse).err().unwrap();
        assert!(failure.message.contains("'worse'") && failure.message.contains("'bad'"));
        assert!(failure.hint.unwrap().contains("--force"));
    }

    #[test]
    fn the_last_good_checkpoint_can_be_gone_back_to() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(place.path(), false, String::new()).unwrap();
        // Nothing to remember yet.
        folder.remember().unwrap();
        assert!(folder.go_back().unwrap_err().message.contains("before a warning"));
        folder.save(b"good 1").unwrap();
        folder.remember().unwrap();
        for text in ["good 2", "good 3"] {
            folder.save(text.as_bytes()).unwrap();
        }
        fs::write(folder.model(), "network").unwrap();
        folder.go_back().unwrap();
        assert_eq!(folder.load(parse).unwrap().unwrap().state, "good 1");
        assert!(!folder.model().exists());
    }

    #[test]
    fn a_name_does_not_lead_out_of_the_runs() {
        let path = of_run(None, "mnist-0.1, größer", 7).unwrap();
        assert_eq!(path, Path::new("runs/mnist-0.1, größer-seed7"));
        let long = "x".repeat(201);
        for name in
            ["", ".", "..", "../../x", "/tmp/x", "a/b", "a\\b", "c:x", ".x", "-x", "a\nb", "\x1b[2J", &long]
        {
            let failure = of_run(None, name, 7).unwrap_err();
            assert!(failure.hint.unwrap().contains("--out"), "{name}");
            assert_eq!(of_run(Some(Path::new("/tmp/y")), name, 7).unwrap(), Path::new("/tmp/y"));
        }
    }

    #[test]
    fn a_run_is_in_the_way_of_the_next() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("notes.txt"), "mine").unwrap();
        let folder = Folder::create(place.path(), false, String::new()).unwrap();
        folder.save(b"good").unwrap();
        let failure = Folder::create(place.path(), true, String::new()).err().unwrap();
        assert!(failure.message.contains("another process"), "{}", failure.message);
        drop(folder);
        let failure = Folder::create(place.path(), false, String::new()).err().unwrap();
        assert!(failure.message.contains("an unfinished run"), "{}", failure.message);
        fs::write(place.path().join("checkpoint.safetensors.7.partial"), "x").unwrap();
        drop(Folder::create(place.path(), true, String::new()).unwrap());
        assert_eq!(names(place.path()), ["notes.txt"], "other people's files stay");
        assert!(Folder::open(place.path(), String::new()).err().unwrap().message.contains("holds no run"));
    }
}
