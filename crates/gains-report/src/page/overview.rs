//! What was asked, what came out, and what it took.

use maud::{Markup, html};
use serde_json::Value;

use super::{attacks, command, figures, radii, verdicts};
use crate::Report;
use crate::document::{Attacks, Seal, Verdict, Verdicts};
use crate::number::{Rounding, duration, percent, short};
use crate::plot::{Curve, Scale, curves, histogram};

use figures::{Radius, by_radius, by_reason, by_stage, mean_losses};

/// The section, if there are verdicts or attacks.
pub fn draw(report: &Report) -> Option<Markup> {
    let (verdicts, attacks) = (verdicts(report), attacks(report));
    if verdicts.is_empty() && attacks.is_empty() {
        return None;
    }
    Some(html! {
        @for results in &verdicts { (card(report, results, &attacks)) }
        @for attacks in &attacks { (attack_card(attacks)) }
    })
}

fn card(report: &Report, results: &Verdicts, attacks: &[&Attacks]) -> Markup {
    let by_eps = by_radius(results);
    let about_series = results.is_about_series();
    let same = |attacks: &&&Attacks| {
        ["model", "data", "split"].iter().all(|key| attacks.setting.get(*key) == results.setting.get(*key))
    };
    let attacks: Vec<&Attacks> = attacks.iter().filter(same).copied().collect();
    html! {
        article class="card" {
            h3 { bdi { (results.name) } " " span class="quiet" { (kind(results)) } }
            (warnings(results))
            @if results.has_radii() { (radii::table(results)) } @else { (radius_table(&by_eps, about_series)) }
            (seals(results))
            div class="charts" {
                @if results.has_radii() { (radii::draw(results)) } @else { (accuracy(&by_eps, &attacks, about_series)) }
                (times(results))
                (sizes(results))
                (stages(results))
                (loose(results))
                (reasons(results))
            }
            (asked(report, results))
        }
    }
}

fn kind(results: &Verdicts) -> String {
    let word = |key: &str| results.text(key).map(String::from);
    let parts = [word("data"), word("method"), word("arithmetic").map(|a| format!("{a} arithmetic"))];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Whatever makes the file less than it seems.
fn warnings(results: &Verdicts) -> Markup {
    let faults: Vec<_> = results.lines.iter().filter(|line| line.fault.is_some()).collect();
    html! {
        (left(results))
        @if results.cut { p class="note" { "Partial: the file ends in the middle of a line, which is left out. The run may still be going on." } }
        @if results.missing() > 0 {
            p class="note" {
                "Partial: " (results.lines.len()) " of " (results.samples().len() * results.radii().len())
                " pairs of a sample and a radius are there."
            }
        }
        @if !faults.is_empty() {
            p class="note alarm" {
                (faults.len()) " of " (results.lines.len()) " lines are not trusted and count as unknown; the first is about sample "
                (faults[0].index) " at ε " (short(faults[0].eps)) ": " (faults[0].fault.as_deref().unwrap_or_default())
            }
        }
        @if results.unchecked > 0 {
            p class="note" { (results.unchecked) " lines carry no check against edits: an earlier version or another program wrote them." }
        }
    }
}

/// How far a run is, and how long the rest takes at its pace.
fn left(results: &Verdicts) -> Markup {
    let (done, radii) = (results.lines.len(), results.radii().len());
    let asked = results.progress.map_or(0, |progress| progress.samples.saturating_mul(radii));
    let pace = results.progress.map_or(0.0, |progress| progress.seconds / done.max(1) as f64);
    html! { @if asked > done && pace > 0.0 {
        p class="note" { (done) " of " (asked) " are there; about " (duration(pace * (asked - done) as f64)) " left at this pace." }
    } }
}

/// How many proofs were written down, and what the checker says of them.
fn seals(results: &Verdicts) -> Markup {
    let count = |seal: Seal| results.lines.iter().filter(|line| line.seal() == Some(seal)).count();
    let (checked, written, refused) = (count(Seal::Checked), count(Seal::Written), count(Seal::Refused));
    let decided = |line: &&crate::Line| matches!(line.verdict, Verdict::Verified | Verdict::Falsified);
    let decided = results.lines.iter().filter(decided).count();
    html! {
        @if checked + written + refused > 0 {
            p { span class="seal" { "✓ " (checked) " proofs checked" } " of " (decided) " verdicts; "
                (checked + written + refused) " have a certificate, " (written) " of these were not checked." }
        }
        @if refused > 0 {
            p class="note alarm" { (refused) " certificates were refused by the checker: what they are to prove is not proved by them." }
        }
    }
}

fn radius_table(radii: &[Radius], about_series: bool) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Results by radius" {
            table {
                thead { tr {
                    th scope="col" { "ε" } th scope="col" { "samples" }
                    @if !about_series { th scope="col" { "standard %" } }
                    th scope="col" { "not broken %" } th scope="col" { "certified %" }
                    @for verdict in Verdict::ALL {
                        @if !(about_series && verdict == Verdict::Misclassified) { th scope="col" { (verdict.word()) } }
                    }
                    th scope="col" { "time, median" } th scope="col" { "nine tenths below" }
                } }
                tbody {
                    @for radius in radii { (radius_row(radius, about_series)) }
                }
            }
        }
    }
}

fn radius_row(radius: &Radius, about_series: bool) -> Markup {
    let n = radius.samples;
    let time = |seconds: Option<f64>| seconds.map_or("–".into(), duration);
    html! { tr {
        th scope="row" { (short(radius.eps)) }
        td { (n) }
        @if !about_series { td { (percent(radius.correct, n, Rounding::Nearest)) } }
        td { (percent(radius.unbroken(), n, Rounding::Nearest)) }
        td { strong { (percent(radius.count(Verdict::Verified), n, Rounding::Down)) } }
        @for verdict in Verdict::ALL {
            @if !(about_series && verdict == Verdict::Misclassified) { td { (radius.count(verdict)) } }
        }
        td { (time(radius.seconds.map(|s| s.0))) }
        td { (time(radius.seconds.map(|s| s.1))) }
    } }
}

/// Standard, not broken and certified over the radius, with what is open between the last two.
fn accuracy(radii: &[Radius], attacks: &[&Attacks], about_series: bool) -> Markup {
    let curve = |name, class, count: &dyn Fn(&Radius) -> usize| {
        let share = |r: &Radius| (r.eps, (r.samples > 0).then(|| 100.0 * count(r) as f64 / r.samples as f64));
        Curve { name, class, points: radii.iter().map(share).collect() }
    };
    let mut lines = vec![
        curve("certified", "verified", &|r| r.count(Verdict::Verified)),
        curve("not broken", "falsified", &Radius::unbroken),
    ];
    if !about_series {
        lines.push(curve("standard", "plain", &|r| r.correct));
    }
    for attacks in attacks {
        lines.push(Curve { name: "attacked (own file)", class: "attack", points: attacked(attacks) });
    }
    html! {
        div { h4 { "Accuracy against ε" }
            (curves("Share of samples certified and not broken, by radius; the table above has the numbers", ("radius ε", "%"), &lines, Some((0, 1, "undecided")), Some(Scale::linear(0.0, 100.0)))) }
    }
}

fn attacked(attacks: &Attacks) -> Vec<(f64, Option<f64>)> {
    let at = |eps: f64| {
        let lines: Vec<_> = attacks.lines.iter().filter(|line| line.eps == eps).collect();
        let kept = lines.iter().filter(|line| line.correct && !line.found).count();
        (eps, (!lines.is_empty()).then(|| 100.0 * kept as f64 / lines.len() as f64))
    };
    crate::document::radii(attacks.lines.iter().map(|line| line.eps)).into_iter().map(at).collect()
}

fn times(results: &Verdicts) -> Markup {
    let values: Vec<_> =
        results.lines.iter().filter(|l| l.seconds > 0.0).map(|l| (l.seconds, l.verdict)).collect();
    html! { div { h4 { "Time for a verdict" } (histogram("Samples by the time their verdict took", "seconds", &values)) } }
}

fn sizes(results: &Verdicts) -> Markup {
    let values: Vec<_> = results.lines.iter().filter_map(|l| Some((l.graph?.0 as f64, l.verdict))).collect();
    html! {
        @if !values.is_empty() {
            div { h4 { "Size of the trajectory graph" } (histogram("Samples by the vertices of their trajectory graph", "vertices", &values)) }
        }
    }
}

fn stages(results: &Verdicts) -> Markup {
    let shares = by_stage(results);
    let total: f64 = shares.iter().map(|(_, share)| share.seconds).sum();
    html! {
        @if !shares.is_empty() {
            div { h4 { "Where the time went" }
                table class="bars" {
                    thead { tr { th scope="col" { "stage" } th scope="col" { "share" } th scope="col" { "time" } th scope="col" { "tried" } th scope="col" { "decided" } } }
                    tbody { @for (name, share) in &shares { tr {
                        th scope="row" { bdi { (name) } }
                        td { (meter(share.seconds / total, "plain")) }
                        td { (duration(share.seconds)) } td { (share.tried) } td { (share.decided) }
                    } } }
                }
            }
        }
    }
}

fn loose(results: &Verdicts) -> Markup {
    let (losses, lines) = mean_losses(results);
    let most = losses.iter().fold(0.0_f64, |most, loss| most.max(loss.1));
    html! {
        @if lines > 0 {
            div { h4 { "Where bounds lose, by layer and solver step" }
                p class="quiet" { "Mean over what was looked into (" (lines) "), in units of the margin." }
                table class="bars" {
                    thead { tr { th scope="col" { "part" } th scope="col" { "loss" } th scope="col" { "margin" } } }
                    tbody { @for (name, loss) in &losses { tr {
                        th scope="row" { (name) } td { (meter(loss / most, "unknown")) } td { (short(*loss)) }
                    } } }
                }
            }
        }
    }
}

fn reasons(results: &Verdicts) -> Markup {
    let reasons = by_reason(results);
    let most = reasons.first().map_or(1, |reason| reason.1);
    html! {
        @if !reasons.is_empty() {
            div { h4 { "Why samples are unknown" }
                table class="bars" {
                    thead { tr { th scope="col" { "reason" } th scope="col" { "share" } th scope="col" { "samples" } } }
                    tbody { @for (reason, count) in &reasons { tr {
                        th scope="row" { bdi { (reason) } } td { (meter(*count as f64 / most as f64, "unknown")) } td { (count) }
                    } } }
                }
            }
        }
    }
}

/// A bar; its number stands beside it.
pub fn meter(share: f64, class: &str) -> Markup {
    let width = if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    html! { svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
        rect class={ "bar " (class) } width=(format!("{width:.1}")) height="8" {}
    } }
}

fn asked(report: &Report, results: &Verdicts) -> Markup {
    let hash = results.text("model").unwrap_or_default();
    let card = report.models.iter().find(|card| card.hash == hash);
    html! {
        details {
            summary { "What was asked, and how to repeat it" }
            pre class="command" tabindex="0" { (command::repeat(results, card.map(|card| card.file.as_str()))) }
            @if card.is_none() {
                p class="quiet" { "MODEL stands for the file with the content hash " code { (hash) } "; --model adds its card to this page." }
            }
            dl { @for (key, value) in &results.setting {
                dt { (key) } dd { bdi { (setting(value)) } }
            } }
        }
    }
}

fn setting(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.is_empty() => "–".into(),
        Value::Object(map) if map.is_empty() => "–".into(),
        other => other.to_string(),
    }
}

fn attack_card(attacks: &Attacks) -> Markup {
    let radii = crate::document::radii(attacks.lines.iter().map(|line| line.eps));
    html! {
        article class="card" {
            h3 { bdi { (attacks.name) } " " span class="quiet" { "attacks" } }
            @if attacks.cut { p class="note" { "Partial: the file ends in the middle of a line, which is left out." } }
            div class="scroll" tabindex="0" role="group" aria-label="Attacks by radius" { table {
                thead { tr { th scope="col" { "ε" } th scope="col" { "samples" } th scope="col" { "standard %" } th scope="col" { "broken" } th scope="col" { "not broken %" } } }
                tbody { @for eps in radii {
                    @let lines: Vec<_> = attacks.lines.iter().filter(|line| line.eps == eps).collect();
                    @let correct = lines.iter().filter(|line| line.correct).count();
                    @let broken = lines.iter().filter(|line| line.found).count();
                    tr {
                        th scope="row" { (short(eps)) } td { (lines.len()) }
                        td { (percent(correct, lines.len(), Rounding::Nearest)) } td { (broken) }
                        td { (percent(correct.saturating_sub(broken), lines.len(), Rounding::Nearest)) }
                    }
                } }
            } }
            dl { @for (key, value) in attacks.setting.iter().filter(|(_, value)| !value.is_null()) {
                dt { (key) } dd { bdi { (listed(value)) } }
            } }
        }
    }
}

/// A setting that may have parts, in words.
fn listed(value: &Value) -> String {
    match value {
        Value::Object(parts) if !parts.is_empty() => {
            parts.iter().map(|(key, part)| format!("{key} {}", setting(part))).collect::<Vec<_>>().join(", ")
        }
        other => setting(other),
    }
}
