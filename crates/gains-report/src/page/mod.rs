//! The page: one HTML file that needs nothing but itself.

mod command;
mod comparison;
mod explorer;
mod figures;
mod forecast;
mod model;
mod overview;
mod pictures;
mod radii;
mod samples;
mod studies;
mod training;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Report;
use crate::document::{Attacks, Document, Verdicts};

use pictures::Pictures;

const STYLE: &str = concat!(
    include_str!("../../assets/base.css"),
    include_str!("../../assets/parts.css"),
    include_str!("../../assets/media.css"),
);
const SCRIPT: &str = concat!(
    include_str!("../../assets/dom.js"),
    include_str!("../../assets/table.js"),
    include_str!("../../assets/outputs.js"),
    include_str!("../../assets/sample.js"),
    include_str!("../../assets/explorer.js"),
    include_str!("../../assets/live.js"),
);

/// Draws the page.
pub fn render(report: &Report) -> String {
    let pictures = Pictures::new(report);
    let sections = sections(report, &pictures);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(report.live.is_some()));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { "gains report: " (names(report)) }
                style { (PreEscaped(STYLE)) (PreEscaped(pictures.style())) }
            }
            body data-live=[report.live.as_deref()] {
                a class="skip" href="#content" { "Skip to the content" }
                header {
                    p class="brand" { "gains report" }
                    nav aria-label="Sections" {
                        @for section in &sections { a href={ "#" (section.id) } { (section.title) } }
                    }
                    p id="live" role="status" { }
                    button id="theme" type="button" hidden { "Dark" }
                }
                main id="content" {
                    h1 { (names(report)) }
                    @for note in &report.notes { p class="note" { (note) } }
                    @for section in &sections {
                        section id=(section.id) aria-labelledby={ (section.id) "-title" } {
                            h2 id={ (section.id) "-title" } { (section.title) }
                            (section.content)
                        }
                    }
                }
                footer { p { "Made by gains " (env!("CARGO_PKG_VERSION")) ". Bounds are rounded outwards: the files hold every digit." } }
                dialog id="sample" aria-labelledby="sample-title" { }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// A part of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    content: Markup,
}

fn sections(report: &Report, pictures: &Pictures) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut add = |id, title, content: Option<Markup>| {
        if let Some(content) = content {
            sections.push(Section { id, title, content });
        }
    };
    add("overview", "Overview", overview::draw(report));
    add("models", "Networks", model::draw(&report.models));
    add("samples", "Samples", samples::draw(report, pictures));
    add("comparison", "Comparison", comparison::draw(&comparable(report)));
    add("trajectories", "Trajectories", explorer::draw(report));
    add("forecasts", "Forecasts", forecast::draw(report));
    add("training", "Training", training::draw(report));
    add("studies", "Studies", studies::draw(report));
    sections
}

/// The files of verdicts.
fn verdicts(report: &Report) -> Vec<&Verdicts> {
    report.documents.iter().filter_map(Document::verdicts).collect()
}

/// The files of verdicts at given radii; radii that were looked for are not beside each other in pairs.
fn comparable(report: &Report) -> Vec<&Verdicts> {
    verdicts(report).into_iter().filter(|results| !results.has_radii()).collect()
}

/// The files of attacks.
fn attacks(report: &Report) -> Vec<&Attacks> {
    report.documents.iter().filter_map(Document::attacks).collect()
}

fn names(report: &Report) -> String {
    let name = |document: &Document| match document {
        Document::Verdicts(v) => v.name.clone(),
        Document::Attacks(a) => a.name.clone(),
        Document::Trajectory(t) => t.name.clone(),
        Document::Forecast(f) => f.name.clone(),
        Document::Run(r) => r.name.clone(),
        Document::Study(s) => s.name.clone(),
    };
    let names: Vec<String> = report.documents.iter().map(name).collect();
    if names.len() > 4 {
        format!("{} and {} more", names[..3].join(", "), names.len() - 3)
    } else {
        names.join(", ")
    }
}

/// No script but ours, no address but pictures inside the page; only a live page asks its server.
fn policy(live: bool) -> String {
    let digest = STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    let server = if live { "'self'" } else { "'none'" };
    format!(
        "default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; \
         connect-src {server}; base-uri 'none'; form-action 'none'"
    )
}

/// Data for the script. JSON may hold anything, so what could end the element is written as its number.
fn data(id: &str, value: &Value) -> Markup {
    let text = value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    html! { script type="application/json" id=(id) { (PreEscaped(text)) } }
}

/// A verdict as a coloured word.
fn badge(word: &str) -> Markup {
    html! { span class={ "badge " (word) } { (word) } }
}

#[cfg(test)]
mod tests;
