//! The finished cases of a study on disk: one JSON object a line, appended as they come.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Case, Done, Figures};
use crate::failure::{Failure, Outcome};
use crate::files;

/// Larger result files are refused before they are read.
const LARGEST: u64 = 1 << 30;

/// A finished case.
#[derive(Serialize, Deserialize)]
struct Line {
    study: String,
    setting: String,
    case: String,
    figures: BTreeMap<String, f64>,
    seconds: f64,
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
    /// Opens or begins the results of a study; results of another question are refused.
    pub fn open(folder: &Path, study: &'static str, setting: &str, fresh: bool) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(|error| Failure::writing(folder, &error))?;
        let path = folder.join("results.jsonl");
        let setting = format!("{setting}; gains {}", env!("CARGO_PKG_VERSION"));
        let mut earlier = HashMap::new();
        if path.exists() && !fresh {
            let text = files::read_text(&path, LARGEST, "the results of a study")?;
            // A line that was cut short by a crash or a full disk is done again.
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            for (number, line) in whole.lines().enumerate() {
                let line = read(line, study, &setting).map_err(|what| {
                    Failure::usage(format!("'{}', line {}: {what}", path.display(), number + 1)).hint(
                        "begin anew with --fresh, or keep these results and choose another folder with --out",
                    )
                })?;
                earlier.insert(line.case, Figures(line.figures));
            }
            if whole.len() < text.len() {
                files::write_atomically(&path, whole.as_bytes())?;
            }
        }
        let opened = OpenOptions::new().create(true).append(!fresh).write(true).truncate(fresh).open(&path);
        let file = opened.map_err(|error| Failure::writing(&path, &error))?;
        Ok(Self { path, file, study, setting, earlier })
    }

    /// What came out of a case before.
    pub fn earlier(&self, id: &str) -> Option<Figures> {
        self.earlier.get(id).cloned()
    }

    /// Keeps what came out of a case.
    pub fn push(&mut self, case: &Case, figures: &Figures, seconds: f64) -> Outcome {
        let line = Line {
            study: self.study.into(),
            setting: self.setting.clone(),
            case: case.id(),
            figures: figures.0.clone(),
            seconds,
        };
        let text = serde_json::to_string(&line).map_err(|error| Failure::new(error.to_string()))?;
        self.file.write_all(format!("{text}\n").as_bytes()).map_err(|e| Failure::writing(&self.path, &e))
    }
}

fn read(line: &str, study: &str, setting: &str) -> Result<Line, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| format!("this is no result: {error}"))?;
    if line.study != study {
        return Err(format!("these are results of the study '{}'", line.study));
    }
    if line.setting != setting {
        return Err(format!("these results are of another setting: {}", line.setting));
    }
    Ok(line)
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

    #[test]
    fn finished_cases_come_back_and_a_torn_line_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path(), "lcap", "quick", false).unwrap();
        store.push(&case(1), &Figures::default().with("volume", 0.5), 1.0).unwrap();
        store.push(&case(2), &Figures::default().with("volume", 0.25).with("gone", f64::NAN), 1.0).unwrap();
        drop(store);
        let path = folder.path().join("results.jsonl");
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.truncate(text.len() - 7);
        std::fs::write(&path, text).unwrap();
        let store = Store::open(folder.path(), "lcap", "quick", false).unwrap();
        assert_eq!(store.earlier("n=1").unwrap().get("volume"), Some(0.5));
        assert!(store.earlier("n=2").is_none());
        assert!(std::fs::read_to_string(&path).unwrap().ends_with('\n'));
    }

    #[test]
    fn results_of_another_question_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path(), "lcap", "quick", false).unwrap();
        store.push(&case(1), &Figures::default(), 1.0).unwrap();
        drop(store);
        assert!(Store::open(folder.path(), "lcap", "full", false).is_err());
        assert!(Store::open(folder.path(), "solvers", "quick", false).is_err());
        let anew = Store::open(folder.path(), "lcap", "full", true).unwrap();
        assert!(anew.earlier("n=1").is_none());
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
