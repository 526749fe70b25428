//! Result files: one record per sample and radius, written as they are done, resumable after a kill.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gains_core::Arithmetic;
use gains_verify::{Report, Verdict};
use serde::{Deserialize, Serialize};

use crate::cli::{Format, OutputArgs};
use crate::failure::Failure;
use crate::files;

/// Larger result files are refused before they are read.
const LARGEST: u64 = 1 << 30;

/// One sample at one radius.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Index in the data set.
    pub index: usize,
    /// True class.
    pub label: usize,
    /// Predicted class; nothing if the solver failed.
    pub prediction: Option<usize>,
    /// Radius.
    pub eps: f64,
    /// `verified`, `falsified`, `unknown` or `misclassified`.
    pub verdict: String,
    /// Why, where that is not clear from the verdict.
    pub reason: Option<String>,
    /// Smallest certified lower bound of a logit difference.
    pub margin: Option<f64>,
    /// Vertices of the trajectory graph.
    pub vertices: Option<usize>,
    /// Edges of the trajectory graph.
    pub edges: Option<usize>,
    /// Time for the verdict.
    pub seconds: f64,
    /// What was tried, with seconds; if the sample was decided, the last did it.
    #[serde(default)]
    pub stages: String,
    /// Where the bound loses, if it was not enough and that was looked into.
    #[serde(default)]
    pub looseness: Option<String>,
    /// Method the run was asked for.
    pub method: String,
    /// Arithmetic the verdict is about.
    pub arithmetic: String,
    /// Content hash of the model.
    pub model: String,
    /// Version of this program.
    pub version: String,
}

/// What all records of a run share.
#[derive(Clone, Debug)]
pub struct RunIdentity {
    /// Method, or `eval` for the cascade.
    pub method: String,
    /// Arithmetic.
    pub arithmetic: Arithmetic,
    /// Content hash of the model.
    pub model: String,
    /// What else was asked; empty where index and radius say it all.
    pub question: String,
}

/// What can stand on a line of a result file.
pub trait ResultLine: Clone + Serialize + serde::de::DeserializeOwned {
    /// The first line of CSV files, with its end.
    const CSV_HEADER: &'static str;

    /// Sample and radius.
    fn key(&self) -> (usize, u64);

    /// Method, arithmetic, model and question.
    fn identity(&self) -> [&str; 4];
}

impl ResultLine for Record {
    const CSV_HEADER: &'static str = "index,label,prediction,eps,verdict,reason,margin,vertices,edges,seconds,stages,looseness,method,arithmetic,model,version\n";

    fn key(&self) -> (usize, u64) {
        (self.index, self.eps.to_bits())
    }

    fn identity(&self) -> [&str; 4] {
        [&self.method, &self.arithmetic, &self.model, ""]
    }
}

impl Record {
    /// The record of a report.
    pub fn new(index: usize, label: usize, eps: f64, report: &Report, identity: &RunIdentity) -> Self {
        let reason = match &report.verdict {
            Verdict::Unknown(reason) => Some(reason.to_string()),
            _ => None,
        };
        Self {
            index,
            label,
            prediction: report.prediction,
            eps,
            verdict: report.verdict.word().into(),
            reason,
            margin: report.margin.filter(|m| m.is_finite()),
            vertices: report.graph.map(|g| g.0),
            edges: report.graph.map(|g| g.1),
            seconds: report.elapsed.as_secs_f64(),
            stages: report
                .stages
                .iter()
                .map(|stage| format!("{} {:.3}", stage.name, stage.elapsed.as_secs_f64()))
                .collect::<Vec<_>>()
                .join(", "),
            looseness: report.looseness.as_ref().map(ToString::to_string),
            method: identity.method.clone(),
            arithmetic: identity.arithmetic.to_string(),
            model: identity.model.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

fn encode(record: &impl ResultLine, format: Format) -> Result<String, Failure> {
    let broken = |e: String| Failure::new(format!("cannot encode a result: {e}"));
    match format {
        Format::Jsonl => {
            serde_json::to_string(record).map(|line| line + "\n").map_err(|e| broken(e.to_string()))
        }
        Format::Csv => {
            let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
            writer.serialize(record).map_err(|e| broken(e.to_string()))?;
            let bytes = writer.into_inner().map_err(|e| broken(e.to_string()))?;
            String::from_utf8(bytes).map_err(|e| broken(e.to_string()))
        }
    }
}

fn parse<R: ResultLine>(line: &str, format: Format) -> Result<R, String> {
    match format {
        Format::Jsonl => serde_json::from_str(line).map_err(|e| e.to_string()),
        Format::Csv => {
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
            reader.deserialize().next().ok_or("empty line")?.map_err(|e: csv::Error| e.to_string())
        }
    }
}

/// Reads a file of records, one JSON object per line.
pub fn read(path: &Path) -> Result<Vec<Record>, Failure> {
    let text = files::read_text(path, LARGEST, "a result file")?;
    let parse = |(number, line): (usize, &str)| {
        parse(line, Format::Jsonl).map_err(|e| {
            Failure::new(format!("'{}' line {} is not a result: {e}", path.display(), number + 1))
                .hint("give a file written by `gains certify --out`, in the format jsonl")
        })
    };
    text.lines().enumerate().map(parse).collect()
}

enum Sink {
    Nowhere,
    Stdout,
    File(PathBuf, File),
}

/// Where records go, and those that were there already.
pub struct Results<R> {
    sink: Sink,
    format: Format,
    /// Records found on resuming.
    pub earlier: Vec<R>,
    done: HashSet<(usize, u64)>,
}

impl<R: ResultLine> Results<R> {
    /// Opens the output a command was given.
    pub fn open(args: &OutputArgs, identity: &RunIdentity) -> Result<Self, Failure> {
        let mut results =
            Self { sink: Sink::Nowhere, format: args.format, earlier: Vec::new(), done: HashSet::new() };
        let Some(path) = &args.out else { return Ok(results) };
        if path == Path::new("-") {
            if args.resume {
                return Err(Failure::usage("--resume needs a file, --out is standard output")
                    .hint("name a file with --out"));
            }
            results.sink = Sink::Stdout;
            if args.format == Format::Csv {
                results.emit(R::CSV_HEADER)?;
            }
            return Ok(results);
        }
        // A device or pipe is simply written to; it can be neither overwritten nor gone on with.
        let special = std::fs::metadata(path).is_ok_and(|m| !m.is_file());
        if special && args.resume {
            return Err(Failure::usage(format!("--resume needs a plain file, '{}' is none", path.display()))
                .hint("name a file with --out"));
        }
        if args.resume && path.exists() {
            results.resume(path, identity)?;
        } else if special {
            let file = OpenOptions::new().write(true).open(path).map_err(|e| Failure::writing(path, &e))?;
            results.sink = Sink::File(path.clone(), file);
        } else {
            let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|e| {
                if e.kind() == std::io::ErrorKind::AlreadyExists {
                    Failure::usage(format!("'{}' exists already", path.display()))
                        .hint("go on with it by --resume, or choose another name")
                } else {
                    Failure::writing(path, &e)
                }
            })?;
            results.sink = Sink::File(path.clone(), file);
            if args.format == Format::Csv {
                results.emit(R::CSV_HEADER)?;
            }
        }
        Ok(results)
    }

    /// Reads what is there, cuts off a line that a kill left unfinished, and positions at the end.
    fn resume(&mut self, path: &Path, identity: &RunIdentity) -> Result<(), Failure> {
        let file =
            OpenOptions::new().read(true).write(true).open(path).map_err(|e| Failure::writing(path, &e))?;
        let mut reader = BufReader::new(&file);
        let mut good = 0_u64;
        let mut header_seen = self.format == Format::Jsonl;
        for number in 1_usize.. {
            let mut line = String::new();
            let read = reader.read_line(&mut line).map_err(|e| Failure::reading(path, &e))?;
            if read == 0 || !line.ends_with('\n') {
                break;
            }
            if !header_seen {
                if line != R::CSV_HEADER {
                    return Err(Failure::new(format!(
                        "'{}' does not start with our CSV header",
                        path.display()
                    ))
                    .hint("was it written with another --format?"));
                }
                header_seen = true;
            } else {
                let record = parse(&line, self.format).map_err(|e| {
                    Failure::new(format!("'{}' line {number} is not a result: {e}", path.display()))
                        .hint("was it written with another --format, or by another program?")
                })?;
                self.admit(record, path, identity)?;
            }
            good += read as u64;
        }
        let fail = |e: std::io::Error| Failure::writing(path, &e);
        file.set_len(good).map_err(fail)?;
        let mut file = file;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        self.sink = Sink::File(path.to_path_buf(), file);
        if !header_seen {
            self.emit(R::CSV_HEADER)?;
        }
        Ok(())
    }

    fn admit(&mut self, record: R, path: &Path, identity: &RunIdentity) -> Result<(), Failure> {
        let arithmetic = identity.arithmetic.to_string();
        let ours = [&identity.method[..], &arithmetic, &identity.model, &identity.question];
        let theirs = record.identity();
        if theirs != ours {
            let asked = |question: &str| match question {
                "" => String::new(),
                question => format!(" ({question})"),
            };
            return Err(Failure::usage(format!(
                "'{}' holds results of model {} by {} in {} arithmetic{}, this run is model {} by {} in {}{}",
                path.display(),
                theirs[2],
                theirs[0],
                theirs[1],
                asked(theirs[3]),
                ours[2],
                ours[0],
                ours[1],
                asked(ours[3]),
            ))
            .hint("resume with the same model and flags, or write to another file"));
        }
        self.done.insert(record.key());
        self.earlier.push(record);
        Ok(())
    }

    /// Whether a sample at a radius is there already.
    pub fn has(&self, index: usize, eps: f64) -> bool {
        self.done.contains(&(index, eps.to_bits()))
    }

    /// Writes one record.
    pub fn push(&mut self, record: &R) -> Result<(), Failure> {
        self.emit(&encode(record, self.format)?)
    }

    /// One write per line, so that a kill leaves at most one unfinished line, at the end.
    fn emit(&mut self, line: &str) -> Result<(), Failure> {
        match &mut self.sink {
            Sink::Nowhere => Ok(()),
            Sink::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(|e| Failure::printing(&e))
            }
            Sink::File(path, file) => file.write_all(line.as_bytes()).map_err(|e| Failure::writing(path, &e)),
        }
    }

    /// Whether records go to standard output, so that summaries must not.
    pub fn to_stdout(&self) -> bool {
        matches!(self.sink, Sink::Stdout)
    }
}
