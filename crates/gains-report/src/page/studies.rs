//! Studies: the table of their cases, and a chart for each figure over what was varied.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use crate::Report;
use crate::document::{Document, Study, StudyCase};
use crate::number::{duration, short};
use crate::plot::{Curve, curves};

/// Figures that are drawn; the table has all.
const MOST_CHARTS: usize = 12;
/// Curves in a chart, as many as there are colours.
const CLASSES: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s5"];

/// The section, if there are studies.
pub fn draw(report: &Report) -> Option<Markup> {
    let all: Vec<&Study> = report.documents.iter().filter_map(Document::study).collect();
    (!all.is_empty()).then(|| html! { @for study in all { (one(study)) } })
}

fn one(study: &Study) -> Markup {
    let names: BTreeSet<&str> =
        study.cases.iter().flat_map(|case| case.figures.keys().map(String::as_str)).collect();
    let seconds: f64 = study.cases.iter().map(|case| case.seconds).sum();
    html! { article class="card" {
        h3 { bdi { (study.study) } " " span class="quiet" { bdi { (study.name) } } }
        @if study.cut { p class="note" { "Partial: the file ends in the middle of a line, which is left out. The study may still be going on." } }
        p { (study.cases.len()) " cases in " (duration(seconds)) ". " span class="quiet" { bdi { (study.setting) } } }
        @if let Some(varied) = varied(study) {
            div class="charts" { @for name in names.iter().take(MOST_CHARTS) { (chart(study, &varied, name)) } }
        }
        (table(study, &names))
    } }
}

/// What most cases differ in and can be an axis: a key whose values are numbers.
fn varied(study: &Study) -> Option<String> {
    let first = study.cases.first()?;
    let values = |name: &str| -> Option<BTreeSet<String>> {
        let value =
            |case: &StudyCase| value_of(case, name).filter(|text| number(text).is_some()).map(String::from);
        study.cases.iter().map(value).collect()
    };
    let counts = first.keys.iter().filter_map(|(name, _)| Some((values(name)?.len(), name)));
    counts.filter(|(count, _)| *count > 1).max_by_key(|(count, _)| *count).map(|(_, name)| name.clone())
}

fn value_of<'a>(case: &'a StudyCase, name: &str) -> Option<&'a str> {
    case.keys.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// A curve's places and values, where there are some.
type Points = Vec<(f64, Option<f64>)>;

/// A figure over what was varied, one curve for whatever else the cases differ in.
fn chart(study: &Study, varied: &str, name: &str) -> Markup {
    let mut groups: BTreeMap<String, Points> = BTreeMap::new();
    for case in &study.cases {
        let Some(x) = value_of(case, varied).and_then(number) else { continue };
        let others = case.keys.iter().filter(|(key, _)| key != varied);
        let group = others.map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ");
        groups.entry(group).or_default().push((x, case.figures.get(name).copied()));
    }
    let more = groups.len().saturating_sub(CLASSES.len());
    groups.values_mut().for_each(|points| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let shown: Vec<Curve<'_>> = groups
        .iter()
        .zip(&CLASSES)
        .map(|((group, points), class)| Curve {
            name: if group.is_empty() { name } else { group },
            class,
            points: points.clone(),
        })
        .collect();
    html! { div { h4 { bdi { (name) } }
        (curves(&format!("{name} over {varied}"), (varied, name), &shown, None, None))
        @if more > 0 { p class="quiet" { (more) " more groups are in the table." } }
    } }
}

fn table(study: &Study, names: &BTreeSet<&str>) -> Markup {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in study.cases.iter().flat_map(|case| &case.keys) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    html! { div class="scroll tall" tabindex="0" role="group" aria-label={ "Cases of " (study.study) } { table {
        thead { tr {
            @for key in &keys { th scope="col" { bdi { (key) } } }
            @for name in names { th scope="col" { bdi { (name) } } }
            th scope="col" { "time" }
        } }
        tbody { @for case in &study.cases { tr {
            @for key in &keys { td { bdi { (value_of(case, key).unwrap_or("–")) } } }
            @for name in names { td { (case.figures.get(*name).map_or("–".into(), |value| short(*value))) } }
            td { (duration(case.seconds)) }
        } } }
    } } }
}
