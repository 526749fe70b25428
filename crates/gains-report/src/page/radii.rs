//! What `gains radius` found: how far each sample can be certified, and where it was broken.

use maud::{Markup, html};

use crate::document::{Line, Radius, Verdict, Verdicts};
use crate::number::{Rounding, quantile, rounded};
use crate::plot::{Curve, Dot, Scale, curves, histogram, scatter};

/// The charts of a file of radii.
pub fn draw(results: &Verdicts) -> Markup {
    html! { (shares(results)) (each(results)) (distribution(results)) }
}

/// Lines whose radii are known. Where the network is wrong without any change there are none.
fn found(results: &Verdicts) -> impl Iterator<Item = (&Line, Radius)> {
    let right = |line: &&Line| line.verdict != Verdict::Misclassified;
    results.lines.iter().filter(right).filter_map(|line| Some((line, line.radius?)))
}

/// The shares of samples for which the table has a radius.
const QUANTILES: [(&str, f64); 7] = [
    ("least", 0.0),
    ("10 %", 0.1),
    ("25 %", 0.25),
    ("median", 0.5),
    ("75 %", 0.75),
    ("90 %", 0.9),
    ("largest", 1.0),
];

/// How radii are distributed, in numbers.
pub fn table(results: &Verdicts) -> Markup {
    let certified: Vec<f64> = found(results).map(|(_, radius)| radius.certified).collect();
    let attacked: Vec<f64> = found(results).filter_map(|(_, radius)| radius.attacked).collect();
    let wrong = results.lines.iter().filter(|line| line.verdict == Verdict::Misclassified).count();
    let row = |name: &str, values: &[f64], rounding: Rounding| {
        html! { tr {
            th scope="row" { (name) } td { (values.len()) }
            @for (_, share) in QUANTILES { td { (quantile(values, share).map_or("–".into(), |r| rounded(r, rounding))) } }
        } }
    };
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Radii" { table {
            thead { tr { th scope="col" { "radius" } th scope="col" { "samples" } @for (name, _) in QUANTILES { th scope="col" { (name) } } } }
            tbody { (row("certified", &certified, Rounding::Down)) (row("attacked", &attacked, Rounding::Up)) }
        } }
        p class="quiet" { (results.lines.len()) " samples, " (wrong) " of them wrong without any change." }
    }
}

/// How many samples are certified, and how many not broken, at every radius: each sample has its own two.
fn shares(results: &Verdicts) -> Markup {
    let all = results.lines.len() as f64;
    let certified: Vec<f64> = found(results).map(|(_, radius)| radius.certified).collect();
    let sound = |line: &&Line| line.verdict != Verdict::Misclassified;
    let reached = |line: &Line| line.radius.and_then(|radius| radius.attacked).unwrap_or(f64::INFINITY);
    let attacked: Vec<f64> = results.lines.iter().filter(sound).map(reached).collect();
    let marks = || certified.iter().chain(&attacked).copied().filter(|r| r.is_finite());
    let steps = crate::document::radii(marks().chain([0.0]));
    // Shares change at radii of samples and nowhere else, so the curves are stairs.
    let stairs = |keeps: &dyn Fn(f64) -> usize, falls: &dyn Fn(f64) -> usize| {
        let share = |count: usize| Some(100.0 * count as f64 / all);
        steps.iter().flat_map(|r| [(*r, share(keeps(*r))), (*r, share(falls(*r)))]).collect()
    };
    let count = |values: &[f64], keeps: &dyn Fn(f64) -> bool| values.iter().filter(|v| keeps(**v)).count();
    let lines = [
        Curve {
            name: "certified",
            class: "verified",
            points: stairs(&|r| count(&certified, &|c| c >= r && c > 0.0), &|r| {
                count(&certified, &|c| c > r && c > 0.0)
            }),
        },
        Curve {
            name: "not broken",
            class: "falsified",
            points: stairs(&|r| count(&attacked, &|a| a >= r), &|r| count(&attacked, &|a| a > r)),
        },
    ];
    html! {
        div { h4 { "Share of samples certified at each radius" }
            (curves("Share of samples certified and not broken, by radius", ("radius", "%"), &lines, Some((0, 1, "undecided")), Some(Scale::linear(0.0, 100.0)))) }
    }
}

/// The certified against the attacked radius of every sample; the closer to the diagonal, the less is open.
fn each(results: &Verdicts) -> Markup {
    let largest = found(results).flat_map(|(line, r)| [r.certified, r.attacked.unwrap_or(0.0), line.eps]);
    let largest = largest.fold(0.0, f64::max);
    let dot = |(line, radius): (&Line, Radius)| {
        let name = line.record.clone().unwrap_or_else(|| line.index.to_string());
        let certified = rounded(radius.certified, Rounding::Down);
        let (at, class, end) = match radius.attacked {
            Some(attacked) => {
                (attacked, "falsified", format!("broken at {}", rounded(attacked, Rounding::Up)))
            }
            None => (largest, "verified", "not broken".into()),
        };
        Dot {
            at: (radius.certified, at),
            class,
            title: format!("sample {name}: certified up to {certified}, {end}"),
        }
    };
    let dots: Vec<Dot> = found(results).map(dot).collect();
    let values = || dots.iter().flat_map(|dot| [dot.at.0, dot.at.1]).filter(|r| *r > 0.0);
    // Powers of ten where radii lie far apart. They have no zero, which is said below the picture.
    let smallest = values().fold(f64::INFINITY, f64::min);
    let far = values().any(|r| r / smallest > 1e3);
    let top = values().fold(0.0, f64::max);
    let scale = if far { Scale::decades(values()) } else { Scale::linear(0.0, 1.05 * top) };
    let none = dots.iter().filter(|dot| dot.at.0 <= 0.0).count();
    html! { @if !dots.is_empty() {
        div { h4 { "Certified and attacked radius of each sample" }
            (scatter("Certified against attacked radius of each sample", ("certified radius", "attacked radius"), &dots, scale))
            p class="legend" {
                span { i class="swatch area falsified" {} "broken at the attacked radius" }
                span { i class="swatch area verified" {} "not broken: drawn at the largest radius" }
            }
            @if far && none > 0 { p class="quiet" { (none) " samples are certified at no radius: they are drawn at the left edge." } }
        }
    } }
}

fn distribution(results: &Verdicts) -> Markup {
    let values: Vec<(f64, Verdict)> = found(results)
        .filter(|(_, radius)| radius.certified > 0.0)
        .map(|(line, radius)| (radius.certified, line.verdict))
        .collect();
    let none = found(results).filter(|(_, radius)| radius.certified <= 0.0).count();
    html! { @if !values.is_empty() {
        div { h4 { "Certified radii" } (histogram("Samples by their certified radius", "certified radius", &values))
            @if none > 0 { p class="quiet" { (none) " samples are certified at no radius and not in the picture." } } }
    } }
}
