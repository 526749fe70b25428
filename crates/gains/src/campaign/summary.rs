//! The table below a campaign: one row per radius, one column per number.

use crate::question::{Plan, Task};
use crate::results::{Line, SamplePart, VerdictWord};
use crate::table::{layout, median, percent};

/// A number of the table.
#[derive(Clone, Copy)]
enum Column {
    Eps,
    Count,
    /// Correct without perturbation.
    Standard,
    /// Mean error without perturbation.
    Error,
    /// Mean of the errors attacks reached.
    AttackedError,
    /// Mean of the errors that were proved.
    CertifiedError,
    /// Right, or good enough, and not falsified.
    Adversarial,
    Certified,
    Unknown,
    Falsified,
    MeanTime,
    MedianTime,
    LongestTime,
    MedianGraph,
    LargestGraph,
}

use Column::{
    Adversarial, AttackedError, Certified, CertifiedError, Count, Eps, Error, Falsified, LargestGraph,
    LongestTime, MeanTime, MedianGraph, MedianTime, Standard, Unknown,
};

const OF_CLASSES: [Column; 12] = [
    Eps,
    Count,
    Standard,
    Adversarial,
    Certified,
    Unknown,
    Falsified,
    MeanTime,
    MedianTime,
    LongestTime,
    MedianGraph,
    LargestGraph,
];
const OF_FORECASTS: [Column; 12] = [
    Eps,
    Count,
    Error,
    AttackedError,
    CertifiedError,
    Adversarial,
    Certified,
    Unknown,
    Falsified,
    MedianTime,
    LongestTime,
    MedianGraph,
];

/// The table of a campaign.
pub fn table(task: Task, plan: &Plan, radii: &[f64], lines: &[Line]) -> String {
    let columns: Vec<Column> = match task {
        Task::Classes => OF_CLASSES.to_vec(),
        Task::Forecasts => {
            let shown = |column: &Column| !matches!(column, AttackedError) || plan.always_attacks();
            OF_FORECASTS.into_iter().filter(shown).collect()
        }
    };
    let header: Vec<&str> = columns.iter().map(|column| column.title(task, plan)).collect();
    let row = |eps: &f64| {
        let mine: Vec<&Line> = lines.iter().filter(|line| line.eps == *eps).collect();
        columns.iter().map(|column| column.cell(*eps, &mine)).collect()
    };
    let rows: Vec<Vec<String>> = radii.iter().map(row).collect();
    layout(&header, &rows)
}

impl Column {
    fn title(self, task: Task, plan: &Plan) -> &'static str {
        match (self, task, plan.attacks()) {
            (Eps, ..) => "eps",
            (Count, Task::Classes, _) => "samples",
            (Count, Task::Forecasts, _) => "records",
            (Standard, ..) => "standard %",
            (Error, ..) => "mae",
            (AttackedError, ..) => "attacked mae",
            (CertifiedError, ..) => "certified mae",
            (Adversarial, Task::Classes, true) => "attacked %",
            (Adversarial, Task::Classes, false) => "attacked % (no attack)",
            (Adversarial, Task::Forecasts, true) => "adversarial %",
            (Adversarial, Task::Forecasts, false) => "adversarial % (no attack)",
            (Certified, ..) => "certified %",
            (Unknown, ..) => "unknown",
            (Falsified, ..) => "falsified",
            (MeanTime, ..) => "s mean",
            (MedianTime, ..) => "s median",
            (LongestTime, ..) => "s max",
            (MedianGraph, ..) => "graph V/E median",
            (LargestGraph, ..) => "max",
        }
    }

    fn cell(self, eps: f64, lines: &[&Line]) -> String {
        let count = |verdict: VerdictWord| lines.iter().filter(|line| line.verdict == verdict).count();
        let total = lines.len();
        match self {
            Eps => eps.to_string(),
            Count => total.to_string(),
            Standard => percent(right(lines), total),
            Error => mean_error(lines, |sample| sample[0]),
            AttackedError => mean_error(lines, |sample| sample[1]),
            CertifiedError => mean_error(lines, |sample| sample[2]),
            Adversarial => percent(right(lines).saturating_sub(count(VerdictWord::Falsified)), total),
            Certified => percent(count(VerdictWord::Verified), total),
            Unknown => count(VerdictWord::Unknown).to_string(),
            Falsified => count(VerdictWord::Falsified).to_string(),
            MeanTime => time(mean(&times(lines))),
            MedianTime => time(median(times(lines))),
            LongestTime => time(times(lines).into_iter().reduce(f64::max)),
            MedianGraph => graph(lines, median),
            LargestGraph => graph(lines, |sizes| sizes.into_iter().reduce(f64::max)),
        }
    }
}

/// Samples that are right without perturbation; of forecasts, all.
fn right(lines: &[&Line]) -> usize {
    lines.iter().filter(|line| line.task() == Task::Forecasts || line.is_correct()).count()
}

/// Times of the samples that were analysed.
fn times(lines: &[&Line]) -> Vec<f64> {
    let analysed = lines.iter().filter(|line| line.verdict != VerdictWord::Misclassified);
    analysed.map(|line| line.seconds).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn time(value: Option<f64>) -> String {
    value.map_or("–".into(), |v| format!("{v:.3}"))
}

/// A mean over all records, on the scale of the network; a dash if one of them has no such error.
fn mean_error(lines: &[&Line], get: fn([Option<f64>; 3]) -> Option<f64>) -> String {
    let errors = |line: &&Line| match &line.sample {
        SamplePart::Record { mae, attacked_mae, certified_mae, .. } => {
            get([*mae, *attacked_mae, *certified_mae])
        }
        SamplePart::Image { .. } => None,
    };
    let values: Option<Vec<f64>> = lines.iter().map(errors).collect();
    values.and_then(|values| mean(&values)).map_or("–".into(), |v| format!("{v:.4}"))
}

fn graph(lines: &[&Line], pick: fn(Vec<f64>) -> Option<f64>) -> String {
    let sizes = |get: fn(&Line) -> Option<usize>| {
        pick(lines.iter().filter_map(|line| get(line)).map(|n| n as f64).collect())
    };
    match (sizes(|line| line.vertices), sizes(|line| line.edges)) {
        (Some(vertices), Some(edges)) => format!("{vertices}/{edges}"),
        _ => "–".into(),
    }
}
