//! Two or more files of verdicts: who certifies what, and which samples changed.

use maud::{Markup, html};

use super::badge;
use super::figures::by_radius;
use crate::compare::{Comparison, Pair, compare};
use crate::document::{Line, Verdict, Verdicts};
use crate::number::{Rounding, duration, percent, rounded, short};
use crate::plot::{Curve, Dot, Scale, curves, scatter};

/// Changed samples that are listed.
const MOST: usize = 300;
/// Curves that can be told apart.
const CURVES: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s5"];

/// The section, if there are two files or more.
pub fn draw(files: &[&Verdicts]) -> Option<Markup> {
    let (first, rest) = files.split_first()?;
    if rest.is_empty() {
        return None;
    }
    Some(html! {
        (side_by_side(files))
        @for second in rest { (pairwise(first, second)) }
    })
}

fn side_by_side(files: &[&Verdicts]) -> Markup {
    let certified = |file: &&Verdicts| {
        by_radius(file)
            .iter()
            .map(|r| (r.eps, Some(100.0 * r.count(Verdict::Verified) as f64 / r.samples as f64)))
            .collect()
    };
    let shown: Vec<Curve<'_>> = files
        .iter()
        .zip(CURVES)
        .map(|(file, class)| Curve { name: &file.name, class, points: certified(file) })
        .collect();
    html! {
        div class="charts beside" {
            div { h3 { "Certified, side by side" }
                (curves("Certified share by radius for each file; the table beside has the numbers", ("radius ε", "certified %"), &shown, None, Some(Scale::linear(0.0, 100.0)))) }
            div class="scroll" tabindex="0" role="group" aria-label="Files side by side" {
                table {
                    thead { tr { th scope="col" { "file" } th scope="col" { "method" } th scope="col" { "ε" } th scope="col" { "samples" } th scope="col" { "certified %" } th scope="col" { "not broken %" } th scope="col" { "median" } } }
                    tbody { @for file in files { @for radius in by_radius(file) { tr {
                        th scope="row" { bdi { (file.name) } }
                        td { bdi { (file.text("method").unwrap_or("–")) } }
                        td { (short(radius.eps)) } td { (radius.samples) }
                        td { (percent(radius.count(Verdict::Verified), radius.samples, Rounding::Down)) }
                        td { (percent(radius.unbroken(), radius.samples, Rounding::Nearest)) }
                        td { (radius.seconds.map_or("–".into(), |s| duration(s.0))) }
                    } } } }
                }
            }
        }
    }
}

fn pairwise(first: &Verdicts, second: &Verdicts) -> Markup {
    html! { article class="card" {
        h3 { bdi { (first.name) } " against " bdi { (second.name) } }
        @match compare(first, second) {
            None => p class="note" { "They are about different data, so their samples cannot be paired." },
            Some(comparison) if comparison.pairs.is_empty() => p class="note" { "They share no sample at the same radius." },
            Some(comparison) => (pairs(first, second, &comparison)),
        }
    } }
}

fn pairs(first: &Verdicts, second: &Verdicts, comparison: &Comparison<'_>) -> Markup {
    let contradictions = comparison.pairs.iter().filter(|pair| pair.contradicts()).count();
    html! {
        p class="quiet" {
            (comparison.pairs.len()) " pairs of the same sample and radius"
            @if !comparison.same_question { "; networks, arithmetic or questions differ" } "."
        }
        @if contradictions > 0 && comparison.same_question {
            p class="note alarm" { (contradictions) " pairs are verified in one file and falsified in the other: one of them is wrong. Please report it." }
        }
        div class="charts" {
            (matrix(first, second, comparison))
            (margins(first, second, comparison))
        }
        (changed(first, second, comparison))
    }
}

fn matrix(first: &Verdicts, second: &Verdicts, comparison: &Comparison<'_>) -> Markup {
    html! { div {
        h4 { "Who decides what" }
        div class="scroll" tabindex="0" role="group" aria-label="Who decides what" { table {
            thead {
                tr { td {} th scope="colgroup" colspan="4" { bdi { (second.name) } } }
                tr { th scope="col" { bdi { (first.name) } } @for verdict in Verdict::ALL { th scope="col" { (verdict.word()) } } }
            }
            tbody { @for row in Verdict::ALL { tr {
                th scope="row" { (row.word()) }
                @for column in Verdict::ALL {
                    @let count = comparison.count(row, column);
                    td class=[(row != column && count > 0).then_some("changed")] { (count) }
                }
            } } }
        } }
    } }
}

fn margins(first: &Verdicts, second: &Verdicts, comparison: &Comparison<'_>) -> Markup {
    let dot = |pair: &Pair<'_>| {
        let at = (pair.first.margin?, pair.second.margin?);
        let class = match (pair.first.verdict, pair.second.verdict) {
            (Verdict::Verified, Verdict::Verified) => "verified",
            (Verdict::Falsified, _) | (_, Verdict::Falsified) => "falsified",
            _ => "unknown",
        };
        let title = format!(
            "{} at ε {}: {} and {}",
            name(pair.first),
            short(pair.first.eps),
            short(at.0),
            short(at.1)
        );
        Some(Dot { at, class, title })
    };
    let dots: Vec<Dot> = comparison.pairs.iter().filter_map(dot).collect();
    let scale = Scale::around(dots.iter().flat_map(|dot| [dot.at.0, dot.at.1]).chain([0.0]));
    html! { @if !dots.is_empty() { div {
        h4 { "Certified margins" }
        p class="quiet" { "Above the diagonal the second file is tighter." }
        (scatter("Certified margins of both files against each other", (&first.name, &second.name), &dots, scale))
    } } }
}

fn changed(first: &Verdicts, second: &Verdicts, comparison: &Comparison<'_>) -> Markup {
    let changed: Vec<&Pair<'_>> = comparison.pairs.iter().filter(|pair| pair.changed()).collect();
    let margin = |line: &Line| line.margin.map_or("–".into(), |m| rounded(m, Rounding::Down));
    html! {
        h4 { (changed.len()) " samples changed" }
        @if changed.len() > MOST { p class="quiet" { "The first " (MOST) " are listed." } }
        @if !changed.is_empty() {
            div class="scroll tall" tabindex="0" role="group" aria-label="Changed samples" {
                table {
                    thead { tr {
                        th scope="col" { "sample" } th scope="col" { "ε" }
                        th scope="col" { bdi { (first.name) } } th scope="col" { "margin" }
                        th scope="col" { bdi { (second.name) } } th scope="col" { "margin" }
                    } }
                    tbody { @for pair in changed.iter().take(MOST) { tr {
                        th scope="row" { bdi { (name(pair.first)) } } td { (short(pair.first.eps)) }
                        td { (badge(pair.first.verdict.word())) } td { (margin(pair.first)) }
                        td { (badge(pair.second.verdict.word())) } td { (margin(pair.second)) }
                    } } }
                }
            }
        }
    }
}

fn name(line: &Line) -> String {
    line.record.clone().unwrap_or_else(|| line.index.to_string())
}
