//! The folders `set-a` and `set-b` of raw PhysioNet records, read by all cores.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use md5::{Digest, Md5};

use super::error::{Malformed, SeriesError};
use super::feature::{Kind, physionet_features};
use super::physionet::{Parsed, parse};
use super::recordings::{Counts, Recordings, Skipped, sort};
use super::split::Order;
use crate::bounded::read_file;

/// Called with the number of records done and the number there are; the answer says whether to go on.
pub type OnRecord<'a> = &'a (dyn Fn(usize, usize) -> ControlFlow<()> + Sync);

const SETS: [&str; 2] = ["set-a", "set-b"];
const FOLDER: &str = "physionet2012";
/// Bytes of a record; the official files have at most 30 kB, and a thousand times that is no record.
const LARGEST: u64 = 30 << 20;

/// Where `gains data prepare physionet2012` puts its file below the data directory, unless told otherwise.
pub fn physionet_file(data_dir: &Path) -> PathBuf {
    physionet_folder(data_dir).join("physionet2012.series")
}

/// The folder with `set-a` and `set-b`: `physionet2012` below the data directory, or that directory itself if
/// only there they are.
fn physionet_folder(data_dir: &Path) -> PathBuf {
    let below = data_dir.join(FOLDER);
    let has_sets = |dir: &Path| SETS.iter().any(|set| dir.join(set).is_dir());
    if !has_sets(&below) && has_sets(data_dir) { data_dir.to_owned() } else { below }
}

/// Reads all records `set-a/NUMBER.txt` and `set-b/NUMBER.txt`. One of the sets is enough.
///
/// Malformed records are left out; the second part of the answer names them, in the order of the files.
///
/// # Errors
///
/// If there is no folder, no record, or no record that is well formed; and [`SeriesError::Stopped`] when
/// `on_record` said so.
pub fn read_physionet(
    data_dir: &Path,
    on_record: OnRecord<'_>,
) -> Result<(Recordings, Vec<Skipped>), SeriesError> {
    let folder = physionet_folder(data_dir);
    let files = list(&folder)?;
    let outcomes = parse_all(&files, on_record).ok_or(SeriesError::Stopped)?;
    let mut digest = Md5::new();
    let mut seen = HashSet::new();
    let (mut records, mut skipped, mut counts) = (Vec::new(), Vec::new(), Counts::default());
    counts.found = files.len();
    for (file, (outcome, content)) in files.iter().zip(outcomes) {
        digest.update(file.name.as_bytes());
        digest.update([0]);
        digest.update(content);
        let outcome = match outcome {
            Ok(parsed) if !seen.insert(parsed.record.id().to_owned()) => Err(Malformed::Duplicate),
            outcome => outcome,
        };
        match outcome {
            Ok(parsed) => {
                counts.ignored_lines += parsed.ignored;
                counts.unordered += usize::from(parsed.unordered);
                records.push(parsed.record);
            }
            Err(reason) => skipped.push(Skipped { name: file.name.clone(), reason }),
        }
    }
    counts.skipped = skipped.len();
    if let ([], Some(first)) = (records.as_slice(), skipped.first()) {
        let (name, reason) = (first.name.clone(), first.reason.clone());
        return Err(SeriesError::AllSkipped { count: skipped.len(), name, reason });
    }
    sort(&mut records);
    let recordings = Recordings {
        kind: Kind::PhysioNet2012,
        features: physionet_features(),
        records,
        order: Order::default(),
        source: digest.finalize().into(),
        counts,
    };
    Ok((recordings, skipped))
}

/// One file of raw data.
struct RawFile {
    path: PathBuf,
    /// Set and file name.
    name: String,
    id: String,
}

/// The records of both sets, sorted by name.
fn list(folder: &Path) -> Result<Vec<RawFile>, SeriesError> {
    let mut files = Vec::new();
    let present: Vec<&str> = SETS.into_iter().filter(|set| folder.join(set).is_dir()).collect();
    if present.is_empty() {
        return Err(SeriesError::MissingFolder { path: folder.join(SETS[0]) });
    }
    for set in present {
        let dir = folder.join(set);
        let unreadable = |source| SeriesError::Read { path: dir.clone(), source };
        for entry in std::fs::read_dir(&dir).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            if path.extension().is_some_and(|extension| extension == "txt") && id.len() <= super::LONGEST_NAME
            {
                files.push(RawFile { name: format!("{set}/{id}.txt"), id, path });
            }
        }
    }
    if files.is_empty() {
        return Err(SeriesError::NoRecords { path: folder.to_owned() });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

type FileOutcome = (Result<Parsed, Malformed>, [u8; 16]);

/// What became of each file and the MD5 of its content, or nothing if the caller said stop.
fn parse_all(files: &[RawFile], on_record: OnRecord<'_>) -> Option<Vec<FileOutcome>> {
    let (next, done, stopped) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut mine = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(index) else { break };
            mine.push((index, parse_file(file)));
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            if on_record(count, files.len()).is_break() {
                stopped.store(true, Ordering::Relaxed);
            }
        }
        mine
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
    let mut outcomes: Vec<(usize, FileOutcome)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        let others = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        own.into_iter().chain(others).collect()
    });
    outcomes.sort_by_key(|(index, _)| *index);
    let all = outcomes.len() == files.len();
    all.then(|| outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

fn parse_file(file: &RawFile) -> FileOutcome {
    match read_file(&file.path, LARGEST) {
        Ok(bytes) => (parse(&file.id, &bytes), Md5::digest(&bytes).into()),
        Err(error) => (Err(Malformed::Unreadable(error.kind())), [0; 16]),
    }
}
