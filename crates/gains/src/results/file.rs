//! Writing a result file, and going on with one.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::format::{Keys, differences, encode, header, parse};
use super::line::{Line, Setting};
use super::samples::Samples;
use crate::cli::{Format, OutputArgs};
use crate::failure::Failure;
use crate::interrupt;
use crate::lock;
use crate::tell;

/// The longest line that is read: a witness of a million numbers is shorter.
const LONGEST: u64 = 64 << 20;

enum Sink {
    Nowhere,
    Stdout,
    File(PathBuf, File),
}

/// Where lines go, and those that were there already.
pub struct Results {
    sink: Sink,
    format: Format,
    keys: Keys,
    /// Lines found on resuming.
    pub earlier: Vec<Line>,
    /// Sample and radius of those, with the number of the line.
    done: HashMap<(usize, u64), usize>,
}

impl Results {
    /// Opens the output a command was given. A file is locked while it is written to, so that no other process does.
    pub fn open(
        args: &OutputArgs,
        setting: &Setting,
        subject: &(impl Samples + ?Sized),
    ) -> Result<Self, Failure> {
        let mut results = Self {
            sink: Sink::Nowhere,
            format: args.format,
            keys: Keys::of(subject.task(), setting),
            earlier: Vec::new(),
            done: HashMap::new(),
        };
        let Some(path) = &args.out else { return Ok(results) };
        if path == Path::new("-") {
            if args.resume {
                return Err(Failure::usage("--resume needs a file, --out is standard output")
                    .hint("name a file with --out"));
            }
            results.sink = Sink::Stdout;
            results.emit_header()?;
            return Ok(results);
        }
        // A device or pipe is simply written to; it can be neither overwritten nor gone on with.
        let special = std::fs::metadata(path).is_ok_and(|m| !m.is_file());
        if special && args.resume {
            return Err(Failure::usage(format!("--resume needs a plain file, '{}' is none", path.display()))
                .hint("name a file with --out"));
        }
        if args.resume && path.exists() {
            results.resume(path, setting, subject)?;
        } else if special {
            // Opening a FIFO waits for whoever reads from it.
            let opened = interrupt::at_once(|| OpenOptions::new().write(true).open(path));
            results.sink = Sink::File(path.clone(), opened.map_err(|e| Failure::writing(path, &e))?);
            results.emit_header()?;
        } else {
            let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|e| {
                if e.kind() == std::io::ErrorKind::AlreadyExists {
                    Failure::usage(format!("'{}' exists already", path.display()))
                        .hint("go on with it by --resume, or choose another name")
                } else {
                    Failure::writing(path, &e)
                }
            })?;
            lock(&file, path)?;
            results.sink = Sink::File(path.clone(), file);
            results.emit_header()?;
        }
        Ok(results)
    }

    /// Reads what is there, cuts off a line that a kill left unfinished, and positions at the end. Nothing is changed
    /// before every line was found to be of this very run.
    fn resume(
        &mut self,
        path: &Path,
        setting: &Setting,
        subject: &(impl Samples + ?Sized),
    ) -> Result<(), Failure> {
        let mut file =
            OpenOptions::new().read(true).write(true).open(path).map_err(|e| Failure::writing(path, &e))?;
        lock(&file, path)?;
        let mut reader = BufReader::new(&file);
        let mut good = 0_u64;
        let mut expected = header(self.keys, self.format);
        for number in 1_usize.. {
            let mut line = Vec::new();
            let read = (&mut reader).take(LONGEST).read_until(b'\n', &mut line);
            let read = read.map_err(|e| Failure::reading(path, &e))?;
            if read as u64 == LONGEST && line.last() != Some(&b'\n') {
                let place = format!("'{}' line {number}", path.display());
                return Err(Failure::new(format!("{place} is longer than {} MB", LONGEST >> 20))
                    .hint("no result is: write to another file"));
            }
            if read == 0 || line.last() != Some(&b'\n') {
                break;
            }
            let line = String::from_utf8_lossy(&line);
            match expected.take() {
                Some(header) if line != header => {
                    return Err(Failure::new(format!(
                        "'{}' does not start with our CSV header",
                        path.display()
                    ))
                    .hint("was it written with another --format, or by an earlier version?"));
                }
                Some(_) => {}
                None => self.admit(&line, number, path, setting, subject)?,
            }
            good += read as u64;
        }
        let fail = |e: std::io::Error| Failure::writing(path, &e);
        file.set_len(good).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        self.sink = Sink::File(path.to_path_buf(), file);
        if good == 0 { self.emit_header() } else { Ok(()) }
    }

    /// Takes a line that is there already, if it belongs to this run.
    fn admit(
        &mut self,
        text: &str,
        number: usize,
        path: &Path,
        setting: &Setting,
        subject: &(impl Samples + ?Sized),
    ) -> Result<(), Failure> {
        let place = format!("'{}' line {number}", path.display());
        let line = parse(text, self.format, self.keys).map_err(|e| {
            Failure::new(format!("{place} is not a result of this program: {e}"))
                .hint("write to another file; was this one written with another --format, or edited?")
        })?;
        let differences = differences(&line.setting, setting);
        if !differences.is_empty() {
            return Err(Failure::usage(format!(
                "{place} holds results of another run: {}",
                differences.join("; ")
            ))
            .hint("resume with the same model, data and flags, or write to another file"));
        }
        if let Some(fault) = subject.fault(&line) {
            return Err(Failure::new(format!("{place} cannot be: {fault}"))
                .hint("write to another file; this one was edited or belongs to other data"));
        }
        if let Some(first) = self.done.insert((line.index, line.eps.to_bits()), number) {
            return Err(Failure::new(format!(
                "{place} repeats line {first}: {} at eps {}",
                subject.name(line.index),
                line.eps
            ))
            .hint("write to another file, or delete one of the two lines"));
        }
        self.earlier.push(line);
        Ok(())
    }

    /// Whether a sample at a radius is there already.
    pub fn has(&self, index: usize, eps: f64) -> bool {
        self.done.contains_key(&(index, eps.to_bits()))
    }

    /// Writes one line.
    pub fn push(&mut self, line: &Line) -> Result<(), Failure> {
        self.emit(&encode(line, self.format)?)
    }

    fn emit_header(&mut self) -> Result<(), Failure> {
        header(self.keys, self.format).map_or(Ok(()), |header| self.emit(&header))
    }

    /// One write per line, so that a kill leaves at most one unfinished line, at the end.
    fn emit(&mut self, line: &str) -> Result<(), Failure> {
        match &mut self.sink {
            Sink::Nowhere => Ok(()),
            Sink::Stdout => tell::print(line),
            Sink::File(path, file) => file.write_all(line.as_bytes()).map_err(|e| Failure::writing(path, &e)),
        }
    }

    /// Whether lines go to standard output, so that summaries must not.
    pub fn to_stdout(&self) -> bool {
        matches!(self.sink, Sink::Stdout)
    }
}

/// Refuses to replace what a run writes to, or verdicts of another command: they may have taken hours.
pub fn refuse_other_results(path: &Path) -> Result<(), Failure> {
    let Ok(file) = File::open(path) else { return Ok(()) };
    if file.metadata().is_ok_and(|found| !found.is_file()) {
        return Ok(());
    }
    lock(&file, path)?;
    let mut first = Vec::new();
    // What cannot be read holds no results.
    let _ = BufReader::new(&file).take(LONGEST).read_until(b'\n', &mut first);
    let holds = |word: &str| first.windows(word.len()).any(|part| part == word.as_bytes());
    match holds("verdict") {
        true => Err(Failure::usage(format!("'{}' holds results of another command", path.display()))
            .hint("choose another name")),
        false => Ok(()),
    }
}

/// Makes a file ours.
fn lock(file: &File, path: &Path) -> Result<(), Failure> {
    lock::take(file).map_err(|taken| {
        Failure::usage(format!("'{}' is being written to by {taken}", path.display()))
            .hint("wait for that run to end, or write to another file")
    })
}
