//! `gains report`: result files in, one offline page out; with `--serve`, a page that follows them.

mod cards;
mod inputs;

use std::path::{Path, PathBuf};

use gains_report::serve::{Server, Site};
use gains_report::{Document, Progress, Report};
use serde_json::Value;

use crate::cli::{Global, ReportArgs};
use crate::failure::{Failure, Outcome};
use crate::output::say;
use crate::{files, interrupt, results, tell};

use cards::Models;

/// Larger result files are refused before they are read.
const LARGEST: u64 = 1 << 30;
/// So are larger configurations.
const LARGEST_CONFIGURATION: u64 = 1 << 20;

/// Runs the command.
pub fn run(args: &ReportArgs, global: &Global) -> Outcome {
    let models = Models::open(&args.model, &args.results)?;
    check_paths(args)?;
    if let Some(out) = &args.out {
        let report = interrupt::at_once(|| make(args, &models))?;
        if !global.quiet {
            report.notes.iter().for_each(|note| tell::note(note));
        }
        files::deliver(Some(out), gains_report::render(&report).as_bytes())?;
        tell::written(&args.out, global.quiet);
    }
    if args.serve { serve(args, &models) } else { Ok(()) }
}

/// The files are there.
fn check_paths(args: &ReportArgs) -> Outcome {
    for path in &args.results {
        if !path.exists() {
            return Err(Failure::reading(path, &std::io::ErrorKind::NotFound.into()));
        }
    }
    Ok(())
}

/// Reads everything a page is made of.
fn make(args: &ReportArgs, models: &Models) -> Result<Report, Failure> {
    let documents = args.results.iter().map(|path| read(path, args.expect)).collect::<Result<Vec<_>, _>>()?;
    models.check(&documents)?;
    let mut report = Report::new(documents);
    report.models = models.cards(&report.documents);
    let (inputs, notes) = inputs::read(args, models, &report.documents);
    report.inputs = inputs;
    report.notes = notes;
    Ok(report)
}

/// The file that stands for a folder: the figures of a training run, or the cases of a study.
fn file_of(path: &Path) -> PathBuf {
    match path.is_dir() {
        true if path.join("results.jsonl").exists() => path.join("results.jsonl"),
        true => path.join("metrics.csv"),
        false => path.to_owned(),
    }
}

/// Reads a result file, or that of a folder. `expect` is how many samples a run was asked for.
fn read(path: &Path, expect: Option<usize>) -> Result<Document, Failure> {
    let file = file_of(path);
    if path.is_dir() && !file.exists() {
        return Err(Failure::new(format!(
            "'{}' holds neither metrics.csv nor results.jsonl, so it is no training run and no study",
            path.display()
        ))
        .hint("give result files, or the folder that `gains train` or `gains study` wrote to"));
    }
    let text = files::read_text(&file, LARGEST, "a result file")?;
    let name = path.display().to_string();
    let text = match results::json_lines(&text) {
        Some(Ok(lines)) => lines,
        Some(Err(what)) => {
            return Err(Failure::new(format!("'{name}' {what}"))
                .hint("is the file complete and unedited? docs/results-format.md says what it holds"));
        }
        None => text,
    };
    let mut document = gains_report::read(&name, &text, &results::fits_check)
        .map_err(|error| Failure::new(error.to_string()).hint(error.hint()))?;
    match &mut document {
        Document::Run(run) => run.planned = file.parent().and_then(planned_epochs),
        Document::Verdicts(verdicts) => {
            verdicts.progress = expect.and_then(|samples| progress(&file, samples))
        }
        _ => {}
    }
    Ok(document)
}

/// How long a file has been written to, as far as the system tells.
fn progress(file: &Path, samples: usize) -> Option<Progress> {
    let known = std::fs::metadata(file).ok()?;
    let seconds = known.modified().ok()?.duration_since(known.created().ok()?).ok()?.as_secs_f64();
    Some(Progress { samples, seconds })
}

/// How many epochs the configuration beside a run's figures asks for.
fn planned_epochs(folder: &Path) -> Option<usize> {
    let text =
        files::read_text(&folder.join("config.toml"), LARGEST_CONFIGURATION, "a configuration").ok()?;
    let config: toml::Table = text.parse().ok()?;
    let epochs = |table: &toml::Table| usize::try_from(table.get("epochs")?.as_integer()?).ok();
    match config.get("phases").and_then(toml::Value::as_array) {
        Some(phases) => phases.iter().map(|phase| epochs(phase.as_table()?)).sum(),
        None => epochs(&config),
    }
}

/// A text all lines of a document share, by its key.
fn shared<'a>(document: &'a Document, key: &str) -> Option<&'a str> {
    let setting = match document {
        Document::Verdicts(verdicts) => &verdicts.setting,
        Document::Attacks(attacks) => &attacks.setting,
        Document::Trajectory(trajectory) => return (key == "model").then_some(&trajectory.model),
        Document::Forecast(forecast) => return (key == "model").then_some(&forecast.model),
        Document::Run(_) | Document::Study(_) => return None,
    };
    setting.get(key).and_then(Value::as_str)
}

fn serve(args: &ReportArgs, models: &Models) -> Outcome {
    let server = Server::bind(args.port).map_err(|error| {
        Failure::new(format!("cannot wait at 127.0.0.1:{}: {error}", args.port))
            .hint("leave --port out to take one that is free")
    })?;
    say!("{}", server.url())?;
    tell::note("open this address in a browser on this machine; Ctrl-C ends it");
    let site = Live { args, models };
    server
        .run(&site, &interrupt::requested)
        .map_err(|error| Failure::new(format!("the server stopped: {error}")))
}

/// A page made anew from its files whenever it is asked for.
struct Live<'a> {
    args: &'a ReportArgs,
    models: &'a Models,
}

impl Site for Live<'_> {
    /// Sizes and times of the files.
    fn state(&self) -> String {
        let figures = |path: &PathBuf| {
            let known = std::fs::metadata(file_of(path)).ok()?;
            let time = known.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
            Some(format!("{}-{}", known.len(), time.as_nanos()))
        };
        let words: Vec<String> =
            self.args.results.iter().map(|path| figures(path).unwrap_or_else(|| "none".into())).collect();
        words.join(".")
    }

    fn page(&self) -> String {
        // Before the files are read: what changes meanwhile is seen next time.
        let state = self.state();
        let mut report = make(self.args, self.models).unwrap_or_else(|failure| {
            let mut report = Report::default();
            report.notes.push(format!("Nothing to show at the moment: {}", failure.message));
            report
        });
        report.live = Some(state);
        gains_report::render(&report)
    }
}
