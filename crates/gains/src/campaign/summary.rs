//! The table below a campaign: one row per radius, one column per number.

use std::collections::BTreeMap;

use crate::output::plain;
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
    /// Mean of squared errors without perturbation.
    SquaredError,
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
    LongestTime, MeanTime, MedianGraph, MedianTime, SquaredError, Standard, Unknown,
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
const OF_REGRESSION: [Column; 12] = [
    Eps,
    Count,
    Error,
    SquaredError,
    Adversarial,
    Certified,
    Unknown,
    Falsified,
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
        Task::Regression => OF_REGRESSION.to_vec(),
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
    let mut text = layout(&header, &rows);
    text.extend(radii.iter().filter_map(|eps| reasons(*eps, radii.len() > 1, lines)));
    if task == Task::Forecasts && certified_error_falls(radii, lines) {
        text.push_str(
            "certified mae: what the method that decided has proved; at a smaller eps a cheaper one may decide, by a \
             looser bound\n",
        );
    }
    text
}

/// Why verdicts at a radius are unknown, in a line.
fn reasons(eps: f64, several: bool, lines: &[Line]) -> Option<String> {
    let mine = lines.iter().filter(|line| line.eps == eps && line.verdict == VerdictWord::Unknown);
    let why = |line: &Line| (line.reason_code.clone().unwrap_or_default(), line.reason.clone());
    let place = if several { format!(" at eps {eps}") } else { String::new() };
    counted(mine.map(why)).map(|told| format!("unknown{place}: {told}\n"))
}

/// Reasons, each a code and its words, counted and with what can be done; the most frequent first.
pub fn counted(reasons: impl Iterator<Item = (String, Option<String>)>) -> Option<String> {
    let mut counts: BTreeMap<String, (usize, Option<String>)> = BTreeMap::new();
    for (code, words) in reasons {
        counts.entry(code).or_insert((0, words)).0 += 1;
    }
    let mut counts: Vec<(usize, String)> =
        counts.into_iter().map(|(code, (count, words))| (count, remedy(&code, words.as_deref()))).collect();
    counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let told: Vec<String> = counts.iter().map(|(count, words)| format!("{count} {words}")).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// What a reason means and what can be done about it.
fn remedy(code: &str, words: Option<&str>) -> String {
    match code {
        "loose" => "by bounds that are too loose".into(),
        "time" => "out of time (--timeout)".into(),
        "memory" => "out of memory (--max-memory)".into(),
        "vertices" => "with too many trajectories (--max-vertices)".into(),
        "not-controlled" => "whose solver cannot be followed (see `gains model adapt`)".into(),
        _ => format!("because {}", plain(words.unwrap_or("of an unknown reason"))),
    }
}

/// Whether a larger radius has a smaller mean of the errors that were proved.
fn certified_error_falls(radii: &[f64], lines: &[Line]) -> bool {
    let mut means: Vec<(f64, f64)> = Vec::new();
    for eps in radii {
        let mine: Vec<&Line> = lines.iter().filter(|line| line.eps == *eps).collect();
        if let Some(mean) = mean_of(&mine, |sample| errors(sample)[2]) {
            means.push((*eps, mean));
        }
    }
    means.sort_by(|a, b| a.0.total_cmp(&b.0));
    means.windows(2).any(|pair| pair[1].1 < pair[0].1)
}

impl Column {
    fn title(self, task: Task, plan: &Plan) -> &'static str {
        match (self, task, plan.attacks()) {
            (Eps, ..) => "eps",
            (Count, Task::Classes | Task::Regression, _) => "samples",
            (Count, Task::Forecasts, _) => "records",
            (Standard, ..) => "standard %",
            (Error, ..) => "mae",
            (AttackedError, ..) => "attacked mae",
            (CertifiedError, ..) => "certified mae",
            (SquaredError, ..) => "mse",
            (Adversarial, Task::Classes, true) => "attacked %",
            (Adversarial, Task::Classes, false) => "attacked % (no attack)",
            (Adversarial, Task::Forecasts | Task::Regression, true) => "adversarial %",
            (Adversarial, Task::Forecasts | Task::Regression, false) => "adversarial % (no attack)",
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
            Standard if lines.iter().any(|line| !line.is_labelled()) => "–".into(),
            Standard => percent(right(lines), total),
            Error => mean_cell(lines, |sample| errors(sample)[0]),
            AttackedError => mean_cell(lines, |sample| errors(sample)[1]),
            CertifiedError => mean_cell(lines, |sample| errors(sample)[2]),
            SquaredError => mean_cell(lines, |sample| away(sample, |d| d * d)),
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

/// Samples that are right without perturbation; of numbers and forecasts, all of which what is asked holds.
fn right(lines: &[&Line]) -> usize {
    lines.iter().filter(|line| line.is_correct()).count()
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

/// Mean absolute errors of a sample: without perturbation, attacked, certified.
fn errors(sample: &SamplePart) -> [Option<f64>; 3] {
    match sample {
        SamplePart::Record { mae, attacked_mae, certified_mae, .. } => [*mae, *attacked_mae, *certified_mae],
        SamplePart::Numbers { .. } => [away(sample, f64::abs), None, None],
        SamplePart::Image { .. } => [None; 3],
    }
}

/// The mean of a function of the distances between what is predicted and what is true.
fn away(sample: &SamplePart, of: fn(f64) -> f64) -> Option<f64> {
    let SamplePart::Numbers { output, truth: Some(truth), .. } = sample else { return None };
    (output.len() == truth.len()).then_some(())?;
    mean(&output.iter().zip(truth).map(|(y, t)| of(y - t)).collect::<Vec<_>>())
}

/// A mean over all samples as a cell; a dash if one of them has no such number.
fn mean_cell(lines: &[&Line], get: impl Fn(&SamplePart) -> Option<f64>) -> String {
    mean_of(lines, get).map_or("–".into(), |v| format!("{v:.4}"))
}

/// A mean over all samples, if all have such a number.
fn mean_of(lines: &[&Line], get: impl Fn(&SamplePart) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = lines.iter().map(|line| get(&line.sample)).collect();
    values.and_then(|values| mean(&values))
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
