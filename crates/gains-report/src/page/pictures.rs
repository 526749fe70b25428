//! Pictures of samples: each is stored once in the page, however many lines are about it.

use std::collections::HashMap;
use std::fmt::Write as _;

use maud::{Markup, html};
use serde_json::{Value, json};

use super::verdicts;
use crate::Report;
use crate::document::{Line, Verdicts, Witness};
use crate::input::{Input, difference_address, image_address};
use crate::plot::{coordinate, path};

/// Bytes that lines, pictures, witnesses and bounds may take together, so that a page stays below 5 MB.
const BUDGET: usize = 4_500_000;
/// What a line takes by itself.
const LINE: usize = 620;
/// Features of a series that are drawn.
const MOST: usize = 4;

/// All pictures.
pub struct Pictures<'a> {
    /// Bytes that are left for them, for witnesses and for bounds; what comes later is left out.
    room: usize,
    inputs: HashMap<(&'a str, &'a str, usize), &'a Input>,
    style: String,
    /// Numbers of the images that are in the style sheet.
    drawn: HashMap<(&'a str, &'a str, usize), usize>,
}

impl<'a> Pictures<'a> {
    /// Pictures of the samples that lines are about.
    pub fn new(report: &'a Report) -> Self {
        let inputs: HashMap<_, _> = report.inputs.iter().map(|input| (input.key(), input)).collect();
        let lines: usize = verdicts(report).iter().map(|results| results.lines.len()).sum();
        let room = BUDGET.saturating_sub(LINE * lines);
        let mut pictures = Self { room, inputs, style: String::new(), drawn: HashMap::new() };
        for results in verdicts(report) {
            for line in &results.lines {
                pictures.draw(results, line);
            }
        }
        pictures
    }

    fn draw(&mut self, results: &Verdicts, line: &Line) {
        let Some(Input::Image { height, width, channels, values, .. }) = self.input(results, line) else {
            return;
        };
        let Some(key) = self.input(results, line).map(Input::key) else { return };
        if self.drawn.contains_key(&key) || self.style.len() > self.room * 5 / 12 {
            return;
        }
        if let Some(address) = image_address(*height, *width, *channels, values) {
            let number = self.drawn.len();
            let _ = write!(self.style, ".p{number}{{background-image:url({address})}}");
            self.drawn.insert(key, number);
        }
    }

    fn input(&self, results: &Verdicts, line: &Line) -> Option<&'a Input> {
        self.inputs.get(&(results.text("data")?, results.text("split")?, line.index)).copied()
    }

    /// Room for inputs that are drawn by the script, for witnesses, and for bounds of single outputs.
    pub fn rooms(&self) -> (Room, Room, Room) {
        (Room(self.room * 5 / 12), Room(self.room / 4), Room(self.room / 3))
    }

    /// Whether any line has a picture.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// The rules that hold images.
    pub fn style(&self) -> &str {
        &self.style
    }

    /// A small picture of a line's sample.
    pub fn thumbnail(&self, results: &Verdicts, line: &Line) -> Markup {
        let name = format!("sample {}", line.index);
        match self.input(results, line) {
            Some(input @ Input::Image { .. }) => html! {
                @if let Some(number) = self.drawn.get(&input.key()) {
                    span class={ "thumb p" (number) } role="img" aria-label={ "image of " (name) } {}
                }
            },
            Some(Input::Series { times, values, features, .. }) => {
                sparkline(&name, times, values, features.len())
            }
            Some(Input::Features { values, .. }) => feature_bars(&name, values),
            None => html! {},
        }
    }

    /// What the view of one sample draws.
    pub fn detail(&self, results: &Verdicts, line: &Line, room: &mut Room) -> Value {
        match self.input(results, line) {
            Some(input @ Input::Image { .. }) => match self.drawn.get(&input.key()) {
                Some(number) => json!({"image": format!("p{number}")}),
                None => Value::Null,
            },
            Some(Input::Series { features, times, values, .. }) => {
                let chosen = most_observed(values, features.len());
                let detail: Vec<Value> = chosen
                    .iter()
                    .map(|&feature| json!({"name": features[feature], "points": points(times, values, features.len(), feature)}))
                    .collect();
                room.take(json!({"series": detail}))
            }
            Some(Input::Features { names, values, .. }) => {
                room.take(json!({"names": names, "values": values}))
            }
            None => Value::Null,
        }
    }

    /// The witness of a line, as far as it can be drawn beside its sample.
    pub fn witness(&self, results: &Verdicts, line: &Line, room: &mut Room) -> Value {
        let Some(witness) = &line.witness else { return Value::Null };
        match (self.input(results, line), witness) {
            (Some(Input::Image { height, width, channels, values, .. }), Witness::Values(to)) => {
                let image = image_address(*height, *width, *channels, to);
                let difference = difference_address(*height, *width, *channels, values, to);
                let Some((image, difference)) = image.zip(difference) else { return Value::Null };
                let change = values.iter().zip(to).fold(0.0_f64, |most, (a, b)| most.max((a - b).abs()));
                room.take(json!({"image": image, "difference": difference, "change": change}))
            }
            (
                Some(Input::Series { features, times, values, .. }),
                Witness::Series { times: other, values: to },
            ) => {
                let width = features.len();
                let place = |time: &f64| other.iter().position(|t| (t - time).abs() < 1e-9);
                let places: Vec<Option<usize>> = times.iter().map(place).collect();
                let moved = |feature: usize| -> Vec<[f64; 2]> {
                    let entry = |(row, place): (usize, &Option<usize>)| {
                        values.get(row * width + feature).copied().flatten()?;
                        Some([short(times[row]), short(*to.get((*place)? * width + feature)?)])
                    };
                    places.iter().enumerate().filter_map(entry).collect()
                };
                let chosen = most_observed(values, width);
                let detail: Vec<Value> =
                    chosen.iter().map(|&f| json!({"name": features[f], "points": moved(f)})).collect();
                room.take(json!({"series": detail}))
            }
            (Some(Input::Features { .. }), Witness::Values(to)) => room.take(json!({"values": to})),
            _ => json!({}),
        }
    }
}

/// How much more a page may hold.
pub struct Room(usize);

impl Room {
    /// The value, as long as there is room for it.
    pub fn take(&mut self, value: Value) -> Value {
        match self.0.checked_sub(value.to_string().len()) {
            Some(left) => {
                self.0 = left;
                value
            }
            None => json!({"omitted": true}),
        }
    }
}

/// The features with most observations.
fn most_observed(values: &[Option<f64>], width: usize) -> Vec<usize> {
    let count = |feature: usize| values.iter().skip(feature).step_by(width.max(1)).flatten().count();
    let mut features: Vec<(usize, usize)> = (0..width).map(|f| (count(f), f)).collect();
    features.sort_by_key(|&(count, feature)| (std::cmp::Reverse(count), feature));
    features.iter().filter(|(count, _)| *count > 0).take(MOST).map(|(_, feature)| *feature).collect()
}

fn points(times: &[f64], values: &[Option<f64>], width: usize, feature: usize) -> Vec<[f64; 2]> {
    let at = |(row, time): (usize, &f64)| Some([short(*time), short((*values.get(row * width + feature)?)?)]);
    times.iter().enumerate().filter_map(at).collect()
}

/// Four digits are enough for a picture.
fn short(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

fn sparkline(name: &str, times: &[f64], values: &[Option<f64>], width: usize) -> Markup {
    let series: Vec<Vec<[f64; 2]>> =
        most_observed(values, width).into_iter().take(3).map(|f| points(times, values, width, f)).collect();
    let last = series.iter().flatten().fold(f64::MIN_POSITIVE, |last, point| last.max(point[0]));
    let line = |points: &[[f64; 2]]| {
        let (low, high) = points.iter().fold((f64::MAX, f64::MIN), |(l, h), p| (l.min(p[1]), h.max(p[1])));
        let spread = if high > low { high - low } else { 1.0 };
        path(points.iter().map(|p| (2.0 + 76.0 * p[0] / last, 26.0 - 22.0 * (p[1] - low) / spread)))
    };
    html! {
        svg class="spark" viewBox="0 0 80 28" role="img" aria-label={ "course of " (name) } {
            @for (i, points) in series.iter().enumerate() { path class={ "curve s" (i) } d=(line(points)) {} }
        }
    }
}

fn feature_bars(name: &str, values: &[f64]) -> Markup {
    let most = values.iter().fold(0.0_f64, |most, v| if v.is_finite() { most.max(v.abs()) } else { most });
    let bar = 80.0 / values.len().clamp(1, 40) as f64;
    html! {
        svg class="spark" viewBox="0 0 80 28" role="img" aria-label={ "features of " (name) } {
            @for (i, value) in values.iter().take(40).enumerate() {
                @let height = if most > 0.0 { 13.0 * (value / most).clamp(-1.0, 1.0) } else { 0.0 };
                rect class="bar plain" x=(coordinate(i as f64 * bar)) width=(coordinate(bar * 0.8))
                    y=(coordinate(14.0 - height.max(0.0))) height=(coordinate(height.abs())) {}
            }
        }
    }
}
