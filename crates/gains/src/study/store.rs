//! The finished cases of a study on disk: one JSON object a line, appended as they come.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Case, Done, Figures, Origin};
use crate::failure::{Failure, Outcome};
use crate::{interrupt, lock};

/// Larger result files are refused.
const LARGEST: u64 = 1 << 30;

/// A finished case.
#[derive(Serialize, Deserialize)]
struct Line {
    study: String,
    setting: String,
    case: String,
    /// Where the study trained the network of the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    figures: BTreeMap<String, f64>,
    seconds: f64,
}

/// What results have to be of.
pub struct Question {
    /// The study.
    pub study: &'static str,
    /// Its setting.
    pub setting: String,
    /// The networks it trained, as far as they are there; nothing if it trains none.
    pub origins: Option<Vec<Origin>>,
}

/// The file of a study.
pub struct Store {
    path: PathBuf,
    file: File,
    study: &'static str,
    setting: String,
    earlier: HashMap<String, Figures>,
}

impl Store {
    /// Opens or begins the results of a study, which no other process may write to meanwhile; results of another question
    /// are refused.
    pub fn open(folder: &Path, mut question: Question, fresh: bool) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(|error| Failure::writing(folder, &error))?;
        let path = folder.join("results.jsonl");
        if std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(Failure::usage(format!("'{}' is no plain file", path.display()))
                .hint("choose another folder with --out"));
        }
        let failed = |error: std::io::Error| Failure::writing(&path, &error);
        let opened = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path);
        let mut file = opened.map_err(failed)?;
        lock::take(&file).map_err(|taken| {
            Failure::usage(format!("'{}' is being written to by {taken}", path.display()))
                .hint("wait for that run to end, or choose another folder with --out")
        })?;
        question.setting.push_str(concat!("; gains ", env!("CARGO_PKG_VERSION")));
        let mut earlier = HashMap::new();
        let mut whole = 0;
        if !fresh {
            let bytes = interrupt::at_once(|| gains_data::read_bounded(&file, LARGEST));
            let bytes = bytes.map_err(|error| Failure::reading(&path, &error))?;
            // A line that was cut short by a crash or a full disk is done again.
            whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let text = String::from_utf8_lossy(&bytes[..whole]);
            let mut numbers = HashMap::new();
            for (number, line) in (1..).zip(text.lines()) {
                let place = format!("'{}', line {number}", path.display());
                let line = question.read(line).map_err(|what| {
                    Failure::usage(format!("{place}: {what}")).hint(
                        "keep these results and choose another folder with --out, or begin anew with --fresh",
                    )
                })?;
                if let Some(first) = numbers.insert(line.case.clone(), number) {
                    return Err(Failure::usage(format!("{place} repeats line {first}: {}", line.case))
                        .hint("delete one of the two lines, or choose another folder with --out"));
                }
                earlier.insert(line.case, Figures(line.figures));
            }
        }
        file.set_len(whole as u64).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Self { path, file, study: question.study, setting: question.setting, earlier })
    }

    /// What came out of a case before.
    pub fn earlier(&self, id: &str) -> Option<Figures> {
        self.earlier.get(id).cloned()
    }

    /// Keeps what came out of a case.
    pub fn push(&mut self, case: &Case, origin: Option<Origin>, figures: &Figures, seconds: f64) -> Outcome {
        let line = Line {
            study: self.study.into(),
            setting: self.setting.clone(),
            case: case.id(),
            origin,
            figures: figures.0.clone(),
            seconds,
        };
        let text = serde_json::to_string(&line).map_err(|error| Failure::new(error.to_string()))?;
        self.file.write_all(format!("{text}\n").as_bytes()).map_err(|e| Failure::writing(&self.path, &e))
    }
}

impl Question {
    /// A result, if it is one of this question.
    fn read(&self, line: &str) -> Result<Line, String> {
        let line: Line = serde_json::from_str(line).map_err(|error| format!("this is no result: {error}"))?;
        if line.study != self.study {
            return Err(format!("these are results of the study '{}'", line.study));
        }
        if line.setting != self.setting {
            return Err(format!(
                "these results are of another setting: {}",
                apart(&line.setting, &self.setting)
            ));
        }
        let Some(origins) = &self.origins else { return Ok(line) };
        let Some(Origin { run, network }) = &line.origin else {
            return Err("the result does not say which network it is of".into());
        };
        match origins.iter().find(|origin| origin.run == *run) {
            Some(origin) if origin.network == *network => Ok(line),
            Some(origin) => {
                Err(format!("the result is of the network {network}; in '{run}' is now {}", origin.network))
            }
            None => Err(format!("the result is of the network {network}; in '{run}' is none now")),
        }
    }
}

/// The parts in which two settings differ.
fn apart(theirs: &str, ours: &str) -> String {
    let only = |a: &str, b: &str| {
        let others: Vec<&str> = b.split("; ").collect();
        let parts: Vec<&str> = a.split("; ").filter(|part| !others.contains(part)).collect();
        if parts.is_empty() { "nothing of it".into() } else { format!("'{}'", parts.join("; ")) }
    };
    format!("they say {}, asked is {}", only(theirs, ours), only(ours, theirs))
}

/// All finished cases as a table.
pub fn csv(done: &Done<'_>) -> Result<Vec<u8>, Failure> {
    let failed = |error: csv::Error| Failure::new(error.to_string());
    let keys: Vec<&str> = done.cases.first().map_or(Vec::new(), |case| case.0.iter().map(|k| k.0).collect());
    let mut names: Vec<&str> =
        done.figures.iter().flatten().flat_map(|figures| figures.0.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(keys.iter().chain(&names)).map_err(failed)?;
    for (case, figures) in done.cases.iter().zip(&done.figures) {
        let Some(figures) = figures else { continue };
        let values = names.iter().map(|name| figures.get(name).map_or(String::new(), |v| v.to_string()));
        writer.write_record(case.0.iter().map(|k| k.1.clone()).chain(values)).map_err(failed)?;
    }
    writer.into_inner().map_err(|error| Failure::new(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(n: usize) -> Case {
        Case(vec![("n", n.to_string())])
    }

    fn open(folder: &Path, study: &'static str, setting: &str, fresh: bool) -> Result<Store, Failure> {
        Store::open(folder, Question { study, setting: setting.into(), origins: None }, fresh)
    }

    #[test]
    fn finished_cases_come_back_and_a_torn_line_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), "lcap", "quick", false).unwrap();
        store.push(&case(1), None, &Figures::default().with("volume", 0.5), 1.0).unwrap();
        store
            .push(&case(2), None, &Figures::default().with("volume", 0.25).with("gone", f64::NAN), 1.0)
            .unwrap();
        drop(store);
        let path = folder.path().join("results.jsonl");
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.truncate(text.len() - 7);
        // Cut off inside a letter of two bytes.
        std::fs::write(&path, [text.as_bytes(), &"κ".as_bytes()[..1]].concat()).unwrap();
        let store = open(folder.path(), "lcap", "quick", false).unwrap();
        assert_eq!(store.earlier("n=1").unwrap().get("volume"), Some(0.5));
        assert!(store.earlier("n=2").is_none());
        assert!(std::fs::read_to_string(&path).unwrap().ends_with('\n'));
    }

    #[test]
    fn results_of_another_question_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), "lcap", "quick", false).unwrap();
        store.push(&case(1), None, &Figures::default(), 1.0).unwrap();
        drop(store);
        let refused = open(folder.path(), "lcap", "full", false).err().unwrap();
        assert!(refused.message.contains("they say 'quick', asked is 'full'"), "{}", refused.message);
        assert!(refused.hint.unwrap().contains("--out"));
        assert!(open(folder.path(), "solvers", "quick", false).is_err());
        let anew = open(folder.path(), "lcap", "full", true).unwrap();
        assert!(anew.earlier("n=1").is_none());
    }

    #[test]
    fn results_of_another_trained_network_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let origin = |network: &str| Origin { run: "a-seed1".into(), network: network.into() };
        let open = |origins: Vec<Origin>| {
            let question = Question { study: "tisode", setting: "quick".into(), origins: Some(origins) };
            Store::open(folder.path(), question, false)
        };
        // It is trained on the way.
        let mut store = open(vec![]).unwrap();
        store.push(&case(1), Some(origin("01 on mnist (test)")), &Figures::default(), 1.0).unwrap();
        drop(store);
        assert!(open(vec![origin("01 on mnist (test)")]).unwrap().earlier("n=1").is_some());
        let refused = |origins| open(origins).err().unwrap().message;
        let other = refused(vec![origin("01 on mnist (train)")]);
        assert!(other.contains("in 'a-seed1' is now 01 on mnist (train)"), "{other}");
        assert!(refused(vec![]).contains("in 'a-seed1' is none now"));
        let mut store = open(vec![origin("01 on mnist (test)")]).unwrap();
        store.push(&case(2), None, &Figures::default(), 1.0).unwrap();
        drop(store);
        assert!(refused(vec![origin("01 on mnist (test)")]).contains("does not say which network"));
    }

    #[test]
    fn two_runs_in_one_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), "lcap", "quick", false).unwrap();
        store.push(&case(1), None, &Figures::default(), 1.0).unwrap();
        for fresh in [false, true] {
            let refused = open(folder.path(), "lcap", "quick", fresh).err().unwrap();
            assert!(refused.message.contains("written to by another run"), "{}", refused.message);
        }
        drop(store);
        assert!(open(folder.path(), "lcap", "quick", false).unwrap().earlier("n=1").is_some());
    }

    #[test]
    fn a_case_that_is_there_twice_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), "lcap", "quick", false).unwrap();
        for n in [1, 2, 1] {
            store.push(&case(n), None, &Figures::default(), 1.0).unwrap();
        }
        drop(store);
        let refused = open(folder.path(), "lcap", "quick", false).err().unwrap();
        assert!(refused.message.contains("line 3 repeats line 1: n=1"), "{}", refused.message);
    }

    #[test]
    fn a_table_has_a_column_for_every_figure() {
        let cases = [case(1), case(2), case(3)];
        let figures =
            vec![Some(Figures::default().with("a", 1.0)), None, Some(Figures::default().with("b", 2.5))];
        let text = csv(&Done { cases: &cases, figures }).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "n,a,b\n1,1,\n3,,2.5\n");
    }
}
