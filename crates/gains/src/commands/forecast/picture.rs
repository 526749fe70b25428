//! A forecast as a picture: for a few features the observations over time, and at the target time the prediction
//! with its certified band, the attack and the truth.

use std::error::Error;

use gains_data::series::Kind;
use plotters::prelude::*;

use super::View;
use crate::failure::Failure;
use crate::picture::{Area, Mark, label, legend, svg};

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

/// Draws the picture.
pub fn draw(view: &View<'_>, asked: &[usize]) -> Result<String, Failure> {
    let chosen = if asked.is_empty() { most_observed(view) } else { asked.to_vec() };
    let height = HEAD + PANEL * chosen.len() as u32 + 14;
    svg((WIDTH, height), |root| paint(view, &chosen, root))
}

/// The features observed most often, those with a truth first.
fn most_observed(view: &View<'_>) -> Vec<usize> {
    let mut features: Vec<usize> = (0..view.prediction.len()).collect();
    let rank = |i: usize| (view.observed(i) > 1 && view.item.series.target_mask[i], view.observed(i));
    features.sort_by_key(|&i| std::cmp::Reverse(rank(i)));
    features.truncate(MOST);
    features
}

fn paint(view: &View<'_>, chosen: &[usize], root: &Area<'_>) -> Result<(), Box<dyn Error>> {
    root.draw(&Text::new(view.title.clone(), (20, 22), label(19)))?;
    let summary = match &view.bounds {
        Ok(bounds) => format!(
            "mean absolute error {:.3}, certified to stay below {:.3}, limit {:.3}: {}",
            view.mae,
            (bounds.worst * 1e3).ceil() / 1e3,
            view.limit,
            view.verdict()
        ),
        Err(_) => format!("mean absolute error {:.3}: {}", view.mae, view.verdict()),
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
        panel(view, feature, area, chosen.last() == Some(&feature))?;
    }
    Ok(())
}

fn panel(view: &View<'_>, feature: usize, area: &Area<'_>, last: bool) -> Result<(), Box<dyn Error>> {
    let (set, series) = (view.set, &view.item.series);
    let raw = |value: f64| set.raw(feature, value);
    let width = set.names.features.len();
    let radius = view.radii[feature].min(1e6);
    let spread = |value: f64| (raw(value - radius), raw(value), raw(value + radius));
    let points: Vec<(f64, (f64, f64, f64))> = series
        .times
        .iter()
        .enumerate()
        .filter(|(point, _)| series.mask[point * width + feature])
        .map(|(point, time)| (set.raw_time(*time), spread(series.values[point * width + feature])))
        .collect();
    let target = set.raw_time(series.target_time);
    let prediction = raw(view.prediction[feature]);
    let band = view.bounds.as_ref().ok().map(|b| (raw(b.band.lower[feature]), raw(b.band.upper[feature])));
    let attacked = view.attacked.as_ref().map(|(output, _)| raw(output[feature]));
    let truth = series.target_mask[feature].then(|| raw(series.target[feature]));
    let mut values: Vec<f64> = points.iter().flat_map(|(_, (low, _, high))| [*low, *high]).collect();
    values.extend([prediction].into_iter().chain(band.map(|b| b.0)).chain(band.map(|b| b.1)));
    values.extend(attacked.into_iter().chain(truth));
    let (low, high) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    let margin = if high > low { 0.08 * (high - low) } else { 1.0 };
    let end = 1.04 * target;
    let mut chart = ChartBuilder::on(area)
        .margin_left(14)
        .margin_right(24)
        .margin_top(10)
        .x_label_area_size(if last { 44 } else { 22 })
        .y_label_area_size(74)
        .build_cartesian_2d(-0.01 * target..end, low - margin..high + margin)?;
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
    let known = series.times.last().map_or(0.0, |time| set.raw_time(*time));
    chart.draw_series(std::iter::once(PathElement::new(
        vec![(known, low - margin), (known, high + margin)],
        BLACK.mix(0.25),
    )))?;
    chart.draw_series(points.iter().map(|(time, (low, _, high))| {
        PathElement::new(vec![(*time, *low), (*time, *high)], OBSERVED.mix(0.45).stroke_width(2))
    }))?;
    chart.draw_series(
        points.iter().map(|(time, (_, value, _))| Circle::new((*time, *value), 3, OBSERVED.filled())),
    )?;
    // Side by side, so that nothing hides anything.
    let beside = 0.01 * target;
    if let Some((low, high)) = band {
        let cap = 0.009 * target;
        let bar = |from: (f64, f64), to: (f64, f64)| PathElement::new(vec![from, to], BOUND.stroke_width(2));
        chart.draw_series(std::iter::once(Rectangle::new(
            [(target - cap, low), (target + cap, high)],
            BOUND.mix(0.25).filled(),
        )))?;
        chart.draw_series([
            bar((target - cap, low), (target + cap, low)),
            bar((target - cap, high), (target + cap, high)),
        ])?;
    }
    chart.draw_series(std::iter::once(Circle::new((target, prediction), 3, PREDICTED.filled())))?;
    if let Some(value) = attacked {
        chart.draw_series(std::iter::once(Circle::new(
            (target - 2.0 * beside, value),
            5,
            ATTACKED.filled(),
        )))?;
    }
    if let Some(value) = truth {
        chart.draw_series(std::iter::once(Circle::new((target + 2.0 * beside, value), 4, TRUTH.filled())))?;
    }
    Ok(())
}
