//! Studies: the paper's experiments and a few of our own, each a grid of cases, a worker, tables and pictures.
//!
//! A study is one file with an [`Entry`] in [`ALL`]. Its cases are done in any order on all cores; every finished case is
//! a line of `results.jsonl` in the study's folder, so that an interrupted study goes on where it was.

mod ablation_aggregation;
mod ablation_annealing;
mod ablation_kappa;
mod as_accuracy;
mod as_training;
mod cas_vs_as;
mod chart;
mod classification;
mod float32;
mod forecasting;
mod lcap;
mod losses;
mod networks;
mod page;
mod semantics;
mod solvers;
mod store;
mod takes;
mod tightness;
mod tisode;
mod trained;
mod trajectory_attack;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::cli::{DataArgs, Global};
use crate::failure::{Failure, Outcome};
use crate::question::micro;
use crate::table::layout;
use crate::{files, interrupt, progress, runner, tell};

pub use chart::{Axis, Chart, Curve, Panel};
pub use networks::{NamedModel, Networks};
pub use page::gather;
use store::{Question, Store};
pub use takes::Takes;
pub use trained::{Order, Train};

/// A study as `gains study --list` shows it.
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Where in the paper; a dash for our own.
    pub paper: &'static str,
    /// What it is about, and so which flags it takes.
    pub takes: Takes,
    /// Makes it ready to run.
    pub open: fn(&Given) -> Result<Box<dyn Study>, Failure>,
}

/// All studies. Adding one is adding its file and a line here.
pub const ALL: &[Entry] = &[
    classification::ENTRY,
    forecasting::ENTRY,
    trajectory_attack::ENTRY,
    lcap::ENTRY,
    cas_vs_as::ENTRY,
    as_accuracy::ENTRY,
    as_training::ENTRY,
    tightness::ENTRY,
    ablation_aggregation::ENTRY,
    ablation_annealing::ENTRY,
    ablation_kappa::ENTRY,
    losses::ENTRY,
    tisode::ENTRY,
    solvers::ENTRY,
    float32::ENTRY,
    semantics::ENTRY,
];

/// What the user gave.
#[derive(Clone)]
pub struct Given {
    /// Minutes instead of the full size.
    pub quick: bool,
    /// Networks by name.
    pub networks: Vec<NamedModel>,
    /// Images.
    pub data: DataArgs,
    /// The study's own folder.
    pub folder: PathBuf,
    /// A folder with trained networks, for studies that need many.
    pub trained: Option<PathBuf>,
    /// What is changed in all trainings besides.
    pub changes: Vec<String>,
    /// How they are trained if there is none.
    pub train: Train,
}

impl Given {
    /// A quick study of the bundled network that trains nothing.
    #[cfg(test)]
    pub fn for_tests() -> Self {
        Self {
            quick: true,
            networks: vec![],
            data: DataArgs::default(),
            folder: PathBuf::new(),
            trained: None,
            changes: vec![],
            train: std::sync::Arc::new(|_| Err(Failure::new("nothing is trained here"))),
        }
    }

    /// One number for a quick study, another for a full one.
    pub fn size(&self, quick: usize, full: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// One point of a study's grid: names and values of what it varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Case(pub Vec<(&'static str, String)>);

impl Case {
    /// What tells it from the others.
    pub fn id(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }
}

/// The numbers that came out of a case; what could not be had is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(pub BTreeMap<String, f64>);

impl Figures {
    /// Adds a number, if it is one.
    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Self {
        if value.is_finite() {
            self.0.insert(name.into(), value);
        }
        self
    }

    /// Adds a number that may not be there.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<f64>) -> Self {
        self.with(name, value.unwrap_or(f64::NAN))
    }

    /// A number.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

/// A network that a study trained, as results tell of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The folder of its training.
    pub run: String,
    /// The beginning of its hash, and where its images are from.
    pub network: String,
}

/// A study that is ready to run.
pub trait Study: Sync {
    /// Everything besides the case and its origin that an answer depends on, in words: parts with semicolons between them.
    fn setting(&self) -> String;

    /// The grid.
    fn cases(&self) -> Vec<Case>;

    /// Does one case; why it cannot be done.
    fn work(&self, case: usize) -> Result<Figures, String>;

    /// The networks it trains; a study of given networks has none.
    fn orders(&self) -> Vec<&Order> {
        vec![]
    }

    /// The network of a case, where the study trains it and as soon as it is there: what the setting cannot say.
    fn origin(&self, _case: usize) -> Option<Origin> {
        None
    }

    /// What the finished cases say.
    fn report(&self, done: &Done<'_>) -> Report;

    /// Whether times are measured, so that cases must not share the machine.
    fn is_timed(&self) -> bool {
        false
    }
}

/// The finished cases of a study.
pub struct Done<'a> {
    /// All cases.
    pub cases: &'a [Case],
    /// What came out, where something did.
    pub figures: Vec<Option<Figures>>,
}

impl Done<'_> {
    /// The numbers of a name in all finished cases that a condition chooses.
    pub fn values(&self, name: &str, chosen: impl Fn(usize) -> bool) -> Vec<f64> {
        let finished = self.figures.iter().enumerate().filter(|(case, _)| chosen(*case));
        finished.filter_map(|(_, figures)| figures.as_ref()?.get(name)).collect()
    }

    /// How many are finished.
    pub fn count(&self) -> usize {
        self.figures.iter().flatten().count()
    }
}

/// What a study says in the end.
pub struct Report {
    /// Tables, each with a title.
    pub tables: Vec<Table>,
    /// Pictures, each with a file name without its ending.
    pub charts: Vec<(&'static str, Chart)>,
    /// What there is to say besides.
    pub remarks: Vec<String>,
}

/// A table.
pub struct Table {
    /// Above it.
    pub title: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// With columns whose names are known beforehand.
    fn of(title: String, header: Vec<&str>, rows: Vec<Vec<String>>) -> Self {
        Self { title, header: header.into_iter().map(String::from).collect(), rows }
    }

    fn columns(&self) -> Vec<&str> {
        self.header.iter().map(String::as_str).collect()
    }

    fn text(&self) -> String {
        format!("{}\n\n{}", self.title, layout(&self.columns(), &self.rows))
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("{}\n\n", self.title);
        text.push_str(&line(self.columns()));
        text.push_str(&line(vec!["---"; self.header.len()]));
        for row in &self.rows {
            text.push_str(&line(row.iter().map(String::as_str).collect()));
        }
        text
    }
}

/// A number for a table.
pub fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or("–".into(), |value| format!("{value:.digits$}"))
}

/// The average of some numbers.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation of some numbers.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let middle = mean(values)?;
    mean(&values.iter().map(|v| (v - middle).powi(2)).collect::<Vec<_>>()).map(f64::sqrt)
}

/// A mean with or without its deviation, as a number.
pub fn middle(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The study of a name.
pub fn find(name: &str) -> Result<&'static Entry, Failure> {
    ALL.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
        Failure::usage(format!("there is no study '{name}'"))
            .hint(format!("`gains study --list` shows them: {}", names.join(", ")))
    })
}

/// Prints the commands that train the networks of a study.
pub fn commands(entry: &Entry, given: &Given) -> Outcome {
    let study = (entry.open)(given)?;
    tell::print(&study.orders().iter().map(|order| order.command() + "\n").collect::<String>())
}

/// What the results of a study have to be of.
fn question(entry: &Entry, study: &dyn Study, cases: usize) -> Question {
    let trains = entry.takes == Takes::Trainings;
    let origins = trains.then(|| {
        let mut origins: Vec<Origin> = (0..cases).filter_map(|case| study.origin(case)).collect();
        origins.dedup();
        origins
    });
    Question { study: entry.name, setting: study.setting(), origins }
}

/// Runs a study in its folder: what is missing is done, then everything is told.
pub fn run(
    entry: &Entry,
    given: &Given,
    folder: &Path,
    fresh: bool,
    threads: Option<u16>,
    global: &Global,
) -> Outcome {
    let study = (entry.open)(given)?;
    let cases = study.cases();
    let mut store = Store::open(folder, question(entry, &*study, cases.len()), fresh)?;
    let mut figures: Vec<Option<Figures>> = cases.iter().map(|case| store.earlier(&case.id())).collect();
    let missing: Vec<usize> = (0..cases.len()).filter(|&case| figures[case].is_none()).collect();
    if missing.len() < cases.len() && !global.quiet {
        tell::note(&format!("{} of {} cases are there already", cases.len() - missing.len(), cases.len()));
    }
    let bar = progress::bar(missing.len() as u64, global.quiet, progress::ITEMS);
    bar.set_prefix(entry.name);
    let threads = if study.is_timed() { 1 } else { runner::threads(threads) };
    let mut failed: BTreeMap<String, usize> = BTreeMap::new();
    let work = |&case: &usize| {
        let started = Instant::now();
        (study.work(case), micro(started.elapsed()))
    };
    runner::for_each(&missing, threads, work, |&case, outcome| {
        bar.inc(1);
        let outcome = match outcome {
            Ok((outcome, seconds)) => outcome.map(|figures| (figures, seconds)),
            Err(panicked) => Err(panicked.to_string()),
        };
        match outcome {
            // What Ctrl-C cut short is done again.
            _ if interrupt::requested() => {}
            Ok((found, seconds)) => {
                store.push(&cases[case], study.origin(case), &found, seconds)?;
                figures[case] = Some(found);
            }
            Err(why) => *failed.entry(why).or_default() += 1,
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let done = Done { cases: &cases, figures };
    for (why, count) in &failed {
        tell::note(&format!("{count} cases have no result: {why}"));
    }
    if done.count() == 0 {
        return if interrupt::requested() {
            Ok(())
        } else {
            Err(Failure::new("no case came to a result").hint("the lines above say why"))
        };
    }
    deliver(entry, &*study, &done, folder, global)
}

/// Prints the tables and writes everything into the study's folder.
fn deliver(entry: &Entry, study: &dyn Study, done: &Done<'_>, folder: &Path, global: &Global) -> Outcome {
    let mut report = study.report(done);
    if done.count() < done.cases.len() {
        report.remarks.push(format!(
            "not whole: {} of {} cases; run it again to go on",
            done.count(),
            done.cases.len()
        ));
    }
    let remarks: String = report.remarks.iter().map(|remark| format!("{remark}\n")).collect();
    let tables: Vec<String> = report.tables.iter().map(Table::text).collect();
    tell::print(&format!("\n{}\n{remarks}", tables.join("\n")))?;
    let mut written = vec![folder.join("cases.csv"), folder.join("table.md")];
    files::write_atomically(&written[0], &store::csv(done)?)?;
    let markdown: Vec<String> = report.tables.iter().map(Table::markdown).collect();
    let text = format!(
        "# {}\n\n{} ({}).\n\nSetting: {}.\n\n{}\n{remarks}",
        entry.name,
        entry.about,
        entry.paper,
        study.setting(),
        markdown.join("\n")
    );
    files::write_atomically(&written[1], text.as_bytes())?;
    for (name, chart) in &report.charts {
        let path = folder.join(format!("{name}.svg"));
        files::write_atomically(&path, chart.svg()?.as_bytes())?;
        written.push(path);
    }
    tell::written(&written, global.quiet);
    Ok(())
}
