//! The table of samples, and the data that the view of one sample is made of.

use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::pictures::Pictures;
use super::{data, verdicts};
use crate::Report;
use crate::document::{Bounds, Line, Losses, Seal, Verdicts};
use crate::number::{Rounding, duration, rounded, short};

/// Lines in the table; figures and charts are of all.
const MOST: usize = 6000;
/// Lines that are laid out when the page opens, which is what takes a browser time; a button shows the others. On paper,
/// and without JavaScript, all are there.
const AT_FIRST: usize = 400;

/// The section, if there are verdicts.
pub fn draw(report: &Report, pictures: &Pictures<'_>) -> Option<Markup> {
    let files = verdicts(report);
    let all: usize = files.iter().map(|file| file.lines.len()).sum();
    if all == 0 {
        return None;
    }
    let lines: Vec<(usize, &Verdicts, &Line)> = files
        .iter()
        .enumerate()
        .flat_map(|(number, file)| file.lines.iter().map(move |line| (number, *file, line)))
        .take(MOST)
        .collect();
    let shape = Shape {
        files: files.len() > 1,
        pictures: !pictures.is_empty(),
        series: lines.iter().any(|(_, _, line)| line.record.is_some()),
        classes: lines.iter().any(|(_, _, line)| line.label.or(line.prediction).is_some()),
        radii: files.iter().any(|file| file.has_radii()),
        seals: lines.iter().any(|(_, _, line)| line.seal().is_some()),
    };
    Some(html! {
        @if all > MOST { p class="note" { "The first " (MOST) " of " (all) " lines; figures and charts are of all." } }
        (filter(&files, shape.seals))
        div class="scroll tall" tabindex="0" role="group" aria-label="Table of samples" {
            table id="lines" class="lines" style={ "min-width:" (shape.columns().len() * 11 / 2) "rem" } {
                (shape.header())
                tbody { @for (place, (_, file, line)) in lines.iter().enumerate() {
                    (row(report, file, line, &shape, pictures, place >= AT_FIRST))
                } }
            }
        }
        button id="all" type="button" hidden { "Show all" }
        noscript { style { ".later { display: table-row; }" } }
        (data("lines-data", &details(report, &files, &lines, pictures)))
    })
}

/// Which columns there are.
struct Shape {
    files: bool,
    pictures: bool,
    series: bool,
    classes: bool,
    radii: bool,
    seals: bool,
}

impl Shape {
    /// Titles and keys of the columns.
    fn columns(&self) -> Vec<(&'static str, &'static str)> {
        let columns: [(bool, &'static str, &'static str); 17] = [
            (true, "sample", "index"),
            (self.pictures, "picture", ""),
            (self.files, "file", "file"),
            (true, "ε", "eps"),
            (self.classes, "label", "label"),
            (self.classes, "prediction", "prediction"),
            (self.series, "error", "mae"),
            (self.series, "limit", "limit"),
            (true, "verdict", "verdict"),
            (self.seals, "proof", "seal"),
            (self.radii, "certified radius", "certifiedRadius"),
            (self.radii, "attacked radius", "attackedRadius"),
            (true, "margin", "margin"),
            (true, "time", "seconds"),
            (true, "graph", "vertices"),
            (true, "by", "by"),
            (true, "reason", "reason"),
        ];
        columns.into_iter().filter(|column| column.0).map(|(_, title, key)| (title, key)).collect()
    }

    fn header(&self) -> Markup {
        html! { thead { tr {
            @for (title, key) in self.columns() {
                th scope="col" data-key=[(!key.is_empty()).then_some(key)] { (title) }
            }
        } } }
    }
}

fn filter(files: &[&Verdicts], seals: bool) -> Markup {
    let radii = crate::document::radii(files.iter().flat_map(|file| file.radii()));
    html! {
        form id="filter" class="filter" hidden {
            label for="query" { "Filter" }
            input id="query" type="search" autocomplete="off" spellcheck="false" placeholder="unknown, margin > -0.1" aria-describedby="query-help";
            span class="chips" {
                @for word in ["verified", "unknown", "falsified", "misclassified"] {
                    button type="button" data-term=(word) aria-pressed="false" { (word) }
                }
                @if seals { button type="button" data-term="checked" aria-pressed="false" { "proof checked" } }
                @if radii.len() > 1 && radii.len() <= 8 {
                    @for eps in &radii { button type="button" data-term={ "eps = " (eps) } aria-pressed="false" { "ε " (short(*eps)) } }
                }
            }
            span id="count" role="status" {}
            p id="query-help" class="quiet" {
                "Terms between commas must all hold: words, or comparisons of sample, eps, margin, seconds, vertices, edges, label, prediction, error, limit, certified, attacked. Click a sample, or press Enter on it, for all that is known of it."
            }
        }
    }
}

/// One row. There may be thousands, so there is nothing in it that need not be: a cell keeps the direction of its text to
/// itself without further elements.
fn row(
    report: &Report,
    file: &Verdicts,
    line: &Line,
    shape: &Shape,
    pictures: &Pictures<'_>,
    later: bool,
) -> Markup {
    let dash = || "–".to_string();
    let class = |class: Option<usize>| class.map_or_else(dash, |class| class_name(report, file, class));
    let name = line.record.clone().unwrap_or_else(|| line.index.to_string());
    html! { tr class=[later.then_some("later")] {
        th scope="row" { (name) }
        @if shape.pictures { td { (pictures.thumbnail(file, line)) } }
        @if shape.files { td { (file.name) } }
        td { (short(line.eps)) }
        @if shape.classes { td { (class(line.label)) } td { (class(line.prediction)) } }
        @if shape.series { td { (line.mae.map_or_else(dash, short)) } td { (line.limit.map_or_else(dash, |l| rounded(l, Rounding::Down))) } }
        td class={ "badge " (line.verdict.word()) } { (line.verdict.word()) }
        @if shape.seals { (seal(line)) }
        @if shape.radii {
            td { (line.radius.map_or_else(dash, |r| rounded(r.certified, Rounding::Down))) }
            td { (line.radius.and_then(|r| r.attacked).map_or_else(dash, |a| rounded(a, Rounding::Up))) }
        }
        td { (line.margin.map_or_else(dash, |m| rounded(m, Rounding::Down))) }
        td { (duration(line.seconds)) }
        td { (line.graph.map_or_else(dash, |(v, e)| format!("{v}/{e}"))) }
        td { (line.stages.last().map_or("–", |stage| &stage.name)) }
        td { (line.fault.as_deref().or(line.reason_code.as_deref()).unwrap_or("")) }
    } }
}

/// Whether there is a proof on file, and whether it was checked.
fn seal(line: &Line) -> Markup {
    html! { @match line.seal() {
        Some(Seal::Checked) => td class="seal" { "✓ checked" },
        Some(Seal::Written) => td { "certificate" },
        Some(Seal::Refused) => td class="badge falsified" { "refused" },
        None => td { "–" },
    } }
}

/// The number of a class, and its name where the network says it.
fn class_name(report: &Report, file: &Verdicts, class: usize) -> String {
    let card = report.models.iter().find(|card| Some(card.hash.as_str()) == file.text("model"));
    match card.and_then(|card| card.classes.get(class)) {
        Some(name) if *name != class.to_string() => format!("{class} {name}"),
        _ => class.to_string(),
    }
}

/// All lines in the order of the table.
fn details(
    report: &Report,
    files: &[&Verdicts],
    lines: &[(usize, &Verdicts, &Line)],
    pictures: &Pictures<'_>,
) -> Value {
    let (mut inputs, mut witnesses, mut bounds) = pictures.rooms();
    let mut seen = std::collections::HashMap::new();
    let mut drawn: Vec<Value> = Vec::new();
    let mut entries = Vec::with_capacity(lines.len());
    for (number, file, line) in lines {
        let key = (file.text("data"), file.text("split"), line.index);
        let input = *seen.entry(key).or_insert_with(|| {
            drawn.push(pictures.detail(file, line, &mut inputs));
            drawn.len() - 1
        });
        let mut entry = entry(report, *number, file, line);
        entry.insert("input".into(), json!(input));
        put(&mut entry, "witness", pictures.witness(file, line, &mut witnesses));
        put(&mut entry, "bounds", bounded(line).map_or(Value::Null, |found| bounds.take(found)));
        entries.push(Value::Object(entry));
    }
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let classes: Vec<_> = files.iter().map(|file| classes(report, file.text("model"))).collect();
    json!({"files": names, "classes": classes, "inputs": drawn, "lines": entries})
}

/// Names of the classes of a network, where its card is there.
pub fn classes<'a>(report: &'a Report, model: Option<&str>) -> &'a [String] {
    let card = report.models.iter().find(|card| Some(card.hash.as_str()) == model);
    card.map_or(&[], |card| &card.classes)
}

fn put(entry: &mut Map<String, Value>, key: &str, value: Value) {
    if !value.is_null() {
        entry.insert(key.into(), value);
    }
}

/// What was proved of the outputs of a line.
fn bounded(line: &Line) -> Option<Value> {
    line.bounds.as_ref().filter(|bounds| !bounds.output.is_empty()).map(outputs)
}

/// Bounds of outputs with a few digits, rounded to the safe side.
pub fn outputs(bounds: &Bounds) -> Value {
    let digits = |value: f64, rounding| rounded(value, rounding).parse::<f64>().ok();
    let ends = |ends: &[Option<f64>], rounding| -> Vec<Option<f64>> {
        ends.iter().map(|end| end.and_then(|end| digits(end, rounding))).collect()
    };
    json!({
        "output": bounds.output.iter().map(|value| digits(*value, Rounding::Nearest)).collect::<Vec<_>>(),
        "low": ends(&bounds.low, Rounding::Down), "high": ends(&bounds.high, Rounding::Up),
        "margins": ends(&bounds.margins, Rounding::Down),
    })
}

/// Where the bound of a line loses. Earlier versions did not write where it begins, which follows from where it ends.
fn lost(line: &Line) -> Option<Value> {
    let Losses { truth, layers, steps, rest } = line.losses()?;
    let all = layers.iter().sum::<f64>() + steps.iter().map(|step| step[1]).sum::<f64>() + rest;
    let truth = truth.or_else(|| line.margin.map(|margin| margin + all))?;
    Some(json!({"truth": truth, "layers": layers, "steps": steps, "rest": rest}))
}

fn entry(report: &Report, number: usize, file: &Verdicts, line: &Line) -> Map<String, Value> {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| put(&mut entry, key, value);
    // The number says it where there is no name.
    let class = |class: Option<usize>| {
        class.map(|class| (class, class_name(report, file, class))).filter(|(n, name)| *name != n.to_string())
    };
    put("file", json!(number));
    put("index", json!(line.index));
    put("record", json!(line.record));
    put("eps", json!(line.eps));
    put("verdict", json!(line.verdict.word()));
    put("label", json!(line.label));
    put("prediction", json!(line.prediction));
    put("labelName", json!(class(line.label).map(|c| c.1)));
    put("predictionName", json!(class(line.prediction).map(|c| c.1)));
    put("margin", json!(line.margin));
    put("mae", json!(line.mae));
    put("limit", json!(line.limit));
    put("certified", json!(line.certified_mae));
    put("attacked", json!(line.attacked_mae));
    put("certifiedRadius", json!(line.radius.map(|radius| radius.certified)));
    put("attackedRadius", json!(line.radius.and_then(|radius| radius.attacked)));
    put("numbers", json!(line.numbers));
    put("seconds", json!(line.seconds));
    put("vertices", json!(line.graph.map(|g| g.0)));
    put("edges", json!(line.graph.map(|g| g.1)));
    put("by", json!(line.stages.last().map(|stage| &stage.name)));
    put("stages", json!(line.stages.iter().map(|s| json!([s.name, s.seconds])).collect::<Vec<_>>()));
    put("reason", json!(line.fault.as_ref().or(line.reason.as_ref())));
    put("code", json!(line.reason_code));
    put("losses", json!(lost(line)));
    put("looseness", json!(line.looseness));
    put("seal", json!(line.seal().map(Seal::word)));
    put("certificate", json!(line.certificate));
    entry
}
