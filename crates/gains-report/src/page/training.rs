//! Training runs: curves over the epochs, one picture for figures of the same kind.

use maud::{Markup, html};

use crate::Report;
use crate::document::{Document, Run};
use crate::number::{duration, short};
use crate::plot::{Curve, curves};

/// Figures that share a picture.
struct Group {
    title: &'static str,
    unit: &'static str,
    /// Columns, and their classes in the style sheet.
    columns: &'static [(&'static str, &'static str)],
}

const GROUPS: [Group; 8] = [
    Group { title: "Losses", unit: "loss", columns: &[("loss", "s0"), ("clean", "s1"), ("robust", "s2")] },
    Group {
        title: "Accuracies",
        unit: "share",
        columns: &[
            ("accuracy", "s0"),
            ("robust_accuracy", "s2"),
            ("test_accuracy", "s4"),
            ("certified", "s1"),
            ("without_ode", "s5"),
        ],
    },
    Group {
        title: "Errors",
        unit: "mean absolute error",
        columns: &[
            ("mae", "s0"),
            ("worst_mae", "s2"),
            ("validation_mae", "s4"),
            ("error", "s0"),
            ("robust_error", "s2"),
            ("test_error", "s4"),
        ],
    },
    Group { title: "Radius ε", unit: "ε", columns: &[("eps", "s0")] },
    Group { title: "Widths of boxes", unit: "width", columns: &[("width", "s2")] },
    Group {
        title: "Trial steps",
        unit: "steps a batch",
        columns: &[("concrete_steps", "s0"), ("abstract_steps", "s2")],
    },
    Group { title: "Gradient", unit: "norm", columns: &[("gradient_norm", "s0")] },
    Group { title: "Learning rate", unit: "rate", columns: &[("rate", "s0")] },
];

/// The section, if there are runs.
pub fn draw(report: &Report) -> Option<Markup> {
    let all: Vec<&Run> = report.documents.iter().filter_map(Document::run).collect();
    (!all.is_empty()).then(|| html! { @for run in all { (one(run)) } })
}

fn one(run: &Run) -> Markup {
    html! { article class="card" {
        h3 { bdi { (run.name) } }
        (state(run))
        div class="charts" { @for group in &GROUPS { (picture(run, group)) } }
        (last(run))
    } }
}

/// How far it is, and how long the rest will take at the pace of the last epochs.
fn state(run: &Run) -> Markup {
    let done = run.rows.len();
    let seconds: Vec<f64> = run.column("seconds").unwrap_or_default().into_iter().flatten().collect();
    let total: f64 = seconds.iter().sum();
    let lately = &seconds[seconds.len().saturating_sub(5)..];
    let pace = (!lately.is_empty()).then(|| lately.iter().sum::<f64>() / lately.len() as f64);
    let left = run.planned.map(|planned| planned.saturating_sub(done));
    html! { p {
        (done) @if let Some(planned) = run.planned { " of " (planned) } " epochs"
        @if total > 0.0 { " in " (duration(total)) }
        @if let (Some(pace), Some(left @ 1..)) = (pace, left) { "; about " (duration(pace * left as f64)) " left at the pace of the last epochs" }
        "."
    } }
}

fn picture(run: &Run, group: &Group) -> Markup {
    let Group { title, unit, columns } = group;
    let epochs = run.column("epoch").unwrap_or_default();
    let curve = |(name, class): &'static (&'static str, &'static str)| {
        let values = run.column(name)?;
        let at = |(i, value): (usize, Option<f64>)| {
            (epochs.get(i).copied().flatten().unwrap_or(i as f64 + 1.0), value)
        };
        let points: Vec<_> = values.into_iter().enumerate().map(at).collect();
        points.iter().any(|point| point.1.is_some()).then_some(Curve { name, class, points })
    };
    let shown: Vec<Curve<'_>> = columns.iter().filter_map(curve).collect();
    html! { @if !shown.is_empty() {
        div { h4 { (title) } (curves(&format!("{title} over the epochs"), ("epoch", unit), &shown, None, None)) }
    } }
}

fn last(run: &Run) -> Markup {
    html! { @if let Some(row) = run.rows.last() {
        details { summary { "Figures of the last epoch" }
            dl { @for (name, value) in run.columns.iter().zip(row) {
                @if let Some(value) = value { dt { bdi { (name) } } dd { (short(*value)) } }
            } }
        }
    } }
}
