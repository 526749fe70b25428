//! A forecast as a picture: for a few features the observations over time, and at the target time the prediction
//! with its certified band, the attack and the truth; these once more from close by.

use std::error::Error;

use gains_data::series::Kind;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::View;
use crate::failure::Failure;
use crate::picture::{Area, BAND, Mark, label, legend, svg};

const OBSERVED: RGBColor = RGBColor(90, 100, 115);
const BOUND: RGBColor = RGBColor(70, 110, 170);
const PREDICTED: RGBColor = RGBColor(20, 60, 130);
const ATTACKED: RGBColor = RGBColor(200, 70, 40);
const TRUTH: RGBColor = RGBColor(30, 140, 80);

/// So many features are drawn if none are named.
const MOST: usize = 4;
const WIDTH: u32 = 1000;
const HEAD: u32 = 84;
const PANEL: u32 = 210;
/// Width of the series; the rest is for what happens at the target, from close by.
const SERIES: i32 = 780;

/// Draws the picture.
pub fn draw(view: &View<'_>, asked: &[usize]) -> Result<String, Failure> {
    let chosen = if asked.is_empty() { most_observed(view) } else { asked.to_vec() };
    let height = HEAD + PANEL * chosen.len() as u32 + 14;
    svg((WIDTH, height), |root| paint(view, &chosen, root))
}

/// The features observed most often, those with a truth first.
fn most_observed(view: &View<'_>) -> Vec<usize> {
    let mut features: Vec<usize> = (0..view.forecast.prediction.len()).collect();
    let rank =
        |i: usize| (view.observed(i) > 1 && view.forecast.item.series.target_mask[i], view.observed(i));
    features.sort_by_key(|&i| std::cmp::Reverse(rank(i)));
    features.truncate(MOST);
    features
}

fn paint(view: &View<'_>, chosen: &[usize], root: &Area<'_>) -> Result<(), Box<dyn Error>> {
    root.draw(&Text::new(view.forecast.title.clone(), (20, 22), label(19)))?;
    let summary = match view.forecast.certified.zip(view.forecast.limit) {
        Some((certified, limit)) => format!(
            "mean absolute error {:.3}, certified to stay below {:.3}, limit {:.3}: {}",
            view.forecast.mae,
            (certified * 1e3).ceil() / 1e3,
            limit,
            view.verdict()
        ),
        None => format!("mean absolute error {:.3}: {}", view.forecast.mae, view.verdict()),
    };
    root.draw(&Text::new(summary, (20, 46), label(14)))?;
    let entries = [
        ("observations, and how far they move", Mark::Dot(OBSERVED)),
        ("prediction", Mark::Dot(PREDICTED)),
        ("certified band", Mark::Band(BOUND)),
        ("attack", Mark::Dot(ATTACKED)),
        ("truth", Mark::Dot(TRUTH)),
    ];
    legend(root, (20, 70), &entries)?;
    let (_, body) = root.split_vertically(HEAD as i32);
    for (area, &feature) in body.split_evenly((chosen.len(), 1)).iter().zip(chosen) {
        let (left, right) = area.split_horizontally(SERIES);
        let values = Values::of(view, feature);
        series(view, feature, &values, &left, chosen.last() == Some(&feature))?;
        close_up(&values, &right)?;
    }
    Ok(())
}

/// What is known and predicted of one feature, in the units of the data.
struct Values {
    /// Times, and values with how far they reach down and up.
    points: Vec<(f64, [f64; 3])>,
    target: f64,
    prediction: f64,
    band: Option<(f64, f64)>,
    attacked: Option<f64>,
    truth: Option<f64>,
}

impl Values {
    fn of(view: &View<'_>, feature: usize) -> Self {
        let (set, series) = (view.subject.set(), &view.forecast.item.series);
        let raw = |value: f64| set.raw(feature, value);
        let width = set.names.features.len();
        let radius = view.forecast.radii[feature].min(1e6);
        let observed =
            series.times.iter().enumerate().filter(|(point, _)| series.mask[point * width + feature]);
        let points = observed.map(|(point, time)| {
            let value = series.values[point * width + feature];
            (set.raw_time(*time), [raw(value - radius), raw(value), raw(value + radius)])
        });
        let band = view.forecast.band.as_ref().ok();
        Self {
            points: points.collect(),
            target: set.raw_time(series.target_time),
            prediction: raw(view.forecast.prediction[feature]),
            band: band.map(|b| (raw(b.lower[feature]), raw(b.upper[feature]))),
            attacked: view.forecast.attacked.as_ref().map(|output| raw(output[feature])),
            truth: series.target_mask[feature].then(|| raw(series.target[feature])),
        }
    }

    /// What the network says, without what was observed.
    fn predicted(&self) -> Vec<f64> {
        let band = self.band.into_iter().flat_map(|(low, high)| [low, high]);
        band.chain([self.prediction]).chain(self.attacked).collect()
    }

    /// Band, prediction, attack and truth around a place, `step` apart.
    fn draw(&self, chart: &mut Chart<'_, '_>, x: f64, step: f64, size: i32) -> Result<(), Box<dyn Error>> {
        if let Some((low, high)) = self.band {
            let (left, right) = (x - 0.9 * step, x + 0.9 * step);
            chart
                .plotting_area()
                .draw(&Rectangle::new([(left, low), (right, high)], BOUND.mix(BAND).filled()))?;
            for end in [low, high] {
                let line = PathElement::new(vec![(left, end), (right, end)], BOUND.stroke_width(2));
                chart.plotting_area().draw(&line)?;
            }
        }
        // Side by side, so that nothing hides anything.
        let dots = [
            (x, Some(self.prediction), PREDICTED),
            (x - 1.7 * step, self.attacked, ATTACKED),
            (x + 1.7 * step, self.truth, TRUTH),
        ];
        for (x, value, colour) in dots {
            if let Some(value) = value {
                chart.plotting_area().draw(&Circle::new((x, value), size, colour.filled()))?;
            }
        }
        Ok(())
    }
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// A range that holds all values, with a part of it to spare on either side.
fn around(values: &[f64], spare: f64) -> std::ops::Range<f64> {
    let ends = |(low, high): (f64, f64), value: &f64| (low.min(*value), high.max(*value));
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), ends);
    let margin = if high > low { spare * (high - low) } else { 0.01 * high.abs().max(1e-6) };
    low - margin..high + margin
}

/// The series with everything at the target, on one scale.
fn series(
    view: &View<'_>,
    feature: usize,
    values: &Values,
    area: &Area<'_>,
    last: bool,
) -> Result<(), Box<dyn Error>> {
    let set = view.subject.set();
    let mut all: Vec<f64> = values.points.iter().flat_map(|(_, reach)| *reach).collect();
    all.extend(values.predicted().into_iter().chain(values.truth));
    let range = around(&all, 0.08);
    let target = values.target;
    let mut chart = ChartBuilder::on(area)
        .margin_left(14)
        .margin_top(10)
        .x_label_area_size(if last { 44 } else { 22 })
        .y_label_area_size(74)
        .build_cartesian_2d(-0.01 * target..1.04 * target, range.clone())?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.08))
        .y_labels(6)
        .x_labels(13)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_desc(&set.names.features[feature])
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 13));
    if last {
        mesh.x_desc(match set.kind() {
            Kind::PhysioNet2012 => "hours",
            Kind::Csv => "time",
        });
    }
    mesh.draw()?;
    // What is known ends here.
    let known = view.forecast.item.series.times.last().map_or(0.0, |time| set.raw_time(*time));
    let line = PathElement::new(vec![(known, range.start), (known, range.end)], BLACK.mix(0.25));
    chart.plotting_area().draw(&line)?;
    for (time, [low, value, high]) in &values.points {
        let reach = PathElement::new(vec![(*time, *low), (*time, *high)], OBSERVED.mix(0.45).stroke_width(2));
        chart.plotting_area().draw(&reach)?;
        chart.plotting_area().draw(&Circle::new((*time, *value), 3, OBSERVED.filled()))?;
    }
    values.draw(&mut chart, target, 0.01 * target, 3)
}

/// The target from close by. A truth that is far off is named at the edge.
fn close_up(values: &Values, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
    let range = around(&values.predicted(), 0.5);
    let mut chart = ChartBuilder::on(area)
        .margin_right(14)
        .margin_top(10)
        .x_label_area_size(22)
        .y_label_area_size(62)
        .build_cartesian_2d(-1.0..1.0, range.clone())?;
    let digits = (1.5 - (range.end - range.start).log10()).clamp(0.0, 6.0) as usize;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.08))
        .y_labels(5)
        .y_label_formatter(&|y| format!("{y:.digits$}"))
        .label_style(("sans-serif", 13))
        .draw()?;
    let near = values.truth.filter(|truth| range.contains(truth));
    Values { truth: near, points: Vec::new(), ..*values }.draw(&mut chart, 0.0, 0.35, 5)?;
    if let (Some(truth), None) = (values.truth, near) {
        let inset = 0.06 * (range.end - range.start);
        let (arrow, y) =
            if truth > range.end { ("↑", range.end - inset) } else { ("↓", range.start + inset) };
        let text = format!("truth {truth:.digits$} {arrow}", digits = digits.min(2));
        let style = label(13).color(&TRUTH).pos(Pos::new(HPos::Right, VPos::Center));
        chart.plotting_area().draw(&Text::new(text, (1.0, y), style))?;
    }
    Ok(())
}
