//! Forecasts: for every feature the observations, the prediction with its certified band, the worst attack, the truth.

use maud::{Markup, html};

use super::badge;
use super::overview::meter;
use crate::Report;
use crate::document::{Document, Feature, Forecast, Verdict};
use crate::number::{Rounding, rounded, short};
use crate::plot::{Frame, Scale, coordinate, path};

/// The section, if there are forecasts.
pub fn draw(report: &Report) -> Option<Markup> {
    let all: Vec<&Forecast> = report.documents.iter().filter_map(Document::forecast).collect();
    (!all.is_empty()).then(|| html! { @for forecast in all { (one(forecast)) } })
}

fn one(forecast: &Forecast) -> Markup {
    let word = forecast.verdict.split([':', ' ']).next().unwrap_or_default();
    let (mut features, rest) = split(forecast);
    features.sort_by(|a, b| b.worst.unwrap_or(0.0).total_cmp(&a.worst.unwrap_or(0.0)));
    html! {
        article class="card" {
            h3 { "Record " bdi { (forecast.record) } " at ε " (short(forecast.eps)) " "
                @if Verdict::of(word).is_some() { (badge(word)) } @else { bdi { (forecast.verdict) } } }
            p class="quiet" { bdi { (forecast.question) } " · network " code { (forecast.model) } " · " bdi { (forecast.name) } }
            p {
                "Predicted for time " (short(forecast.time)) ": mean absolute error " strong { (short(forecast.mae)) }
                @if let Some(attacked) = forecast.attacked { ", attacked " strong { (short(attacked)) } }
                @if let Some(certified) = forecast.certified { ", certified to stay at or below " strong { (rounded(certified, Rounding::Up)) } }
                @if let Some(limit) = forecast.limit { ", limit " strong { (rounded(limit, Rounding::Down)) } }
                @if let Some(margin) = forecast.margin { ", certified margin of the property " strong { (rounded(margin, Rounding::Down)) } }
                "."
            }
            @if let Some(limit) = forecast.limit { (budget(&features, limit)) }
            h4 { "Over time" }
            (legend())
            div class="panels" { @for feature in &features { (panel(feature, forecast.time)) } }
            @if !rest.is_empty() {
                details { summary { (rest.len()) " features that were not observed at the target" }
                    div class="panels" { @for feature in &rest { (panel(feature, forecast.time)) } } }
            }
        }
    }
}

/// Features that were observed at the target, and the others.
fn split(forecast: &Forecast) -> (Vec<&Feature>, Vec<&Feature>) {
    forecast.features.iter().partition(|feature| feature.truth.is_some())
}

fn budget(features: &[&Feature], limit: f64) -> Markup {
    let all = limit * features.len() as f64;
    html! { @if !features.is_empty() {
        h4 { "How much of the error budget each feature uses" }
        p class="quiet" {
            "The budget is the limit times the observed features. A feature alone can use so much of it at worst; all at once they cannot, so the shares may add up to more than is proved."
        }
        div class="scroll" tabindex="0" role="group" aria-label="Error budget" { table class="bars" {
            thead { tr { @for title in ["feature", "at worst", "share %", "error now", "prediction", "band", "attacked", "truth"] { th scope="col" { (title) } } } }
            tbody { @for feature in features {
                @let share = feature.worst.map(|worst| worst / all);
                tr {
                    th scope="row" { bdi { (feature.name) } }
                    td { (meter(share.unwrap_or(0.0), "unknown")) }
                    td { (share.map_or("–".into(), |s| rounded((s * 1000.0).ceil() / 10.0, Rounding::Up))) }
                    td { (feature.error.map_or("–".into(), short)) }
                    td { (short(feature.prediction)) }
                    td { (feature.band.map_or("–".into(), |[low, high]| format!("{} to {}", rounded(low, Rounding::Down), rounded(high, Rounding::Up)))) }
                    td { (feature.attacked.map_or("–".into(), short)) }
                    td { (feature.truth.map_or("–".into(), short)) }
                }
            } }
        } }
    } }
}

fn legend() -> Markup {
    html! { p class="legend" {
        span { i class="swatch plain" {} "observed" } span { i class="swatch area verified" {} "certified band" }
        span { i class="swatch s0" {} "prediction" } span { i class="swatch falsified" {} "worst attack" }
        span { i class="swatch s4" {} "truth" }
    } }
}

fn panel(feature: &Feature, time: f64) -> Markup {
    let band = feature.band.into_iter().flatten();
    let values = feature.points.iter().map(|p| p[1]).chain(band).chain(feature.attacked).chain(feature.truth);
    let y = Scale::around(values.chain([feature.prediction]));
    let first = feature.points.first().map_or(0.0, |p| p[0]).min(0.0);
    let x = Scale::linear(first, time + 0.06 * (time - first).abs().max(1e-9));
    let label = format!(
        "{}: predicted {}, {}{}",
        feature.name,
        short(feature.prediction),
        feature.band.map_or("no band".into(), |[l, h]| format!(
            "certified between {} and {}",
            rounded(l, Rounding::Down),
            rounded(h, Rounding::Up)
        )),
        feature.truth.map_or(String::new(), |t| format!(", truth {}", short(t)))
    );
    let frame = Frame { label: &label, size: (320.0, 170.0), x_title: "time", y_title: &feature.name, x, y };
    let dots = |class: &str, at: Option<f64>, shift: f64| {
        html! {
            @if let Some(value) = at { circle class={ "dot " (class) } cx=(coordinate(frame.x(time) + shift)) cy=(coordinate(frame.y(value))) r="4" { title { (short(value)) } } }
        }
    };
    frame.draw(&html! {
        path class="curve plain" d=(path(feature.points.iter().map(|p| (frame.x(p[0]), frame.y(p[1]))))) {}
        @for point in feature.points.iter().take(200) {
            circle class="dot plain" cx=(coordinate(frame.x(point[0]))) cy=(coordinate(frame.y(point[1]))) r="1.8" {}
        }
        @if let Some([low, high]) = feature.band {
            rect class="bar verified soft" x=(coordinate(frame.x(time) - 8.0)) width="16" y=(coordinate(frame.y(high)))
                height=(coordinate((frame.y(low) - frame.y(high)).max(1.0))) {}
        }
        (dots("s0", Some(feature.prediction), -4.0))
        (dots("falsified", feature.attacked, 0.0))
        (dots("s4", feature.truth, 4.0))
    })
}
