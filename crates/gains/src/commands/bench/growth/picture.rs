//! The study as a picture: one panel per axis, time (logarithmic) upwards, one line per method.

use std::error::Error;
use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::plan::Axis;
use super::summary::{Cell, Panel};
use crate::failure::Failure;
use crate::picture::{Area, BAND, Mark, label, legend, svg};
use crate::question::Method;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 420;

fn colour(method: Method) -> RGBColor {
    match method {
        Method::Gains => RGBColor(200, 95, 30),
        _ => RGBColor(30, 95, 175),
    }
}

/// Where a value lies on its axis: eps as it is, the others by their logarithm.
fn position(axis: Axis, value: f64) -> f64 {
    match axis {
        Axis::Eps => value,
        Axis::EndTime | Axis::State => value.log2(),
    }
}

/// An axis from `low` to `high` with marks at given places.
#[derive(Clone)]
struct Marked {
    low: f64,
    high: f64,
    marks: Vec<f64>,
}

impl Ranged for Marked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        start + (f64::from(end - start) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }
}

/// Draws the picture.
pub fn draw(title: &str, panels: &[Panel]) -> Result<String, Failure> {
    svg((WIDTH, HEIGHT), |root| {
        root.draw(&Text::new(title.to_string(), (24, 22), label(18)))?;
        let methods: Vec<(String, RGBColor)> = panels
            .first()
            .iter()
            .flat_map(|p| &p.lines)
            .map(|(method, _)| (method.to_string(), colour(*method)))
            .collect();
        let mut entries: Vec<(&str, Mark)> =
            methods.iter().map(|(name, colour)| (name.as_str(), Mark::Line(*colour))).collect();
        entries.push(("middle half of the samples", Mark::Band(BLACK)));
        if cells(panels).any(|c| c.finished < c.samples) {
            entries.push(("n/m: only n of m samples finished", Mark::None));
        }
        legend(root, (24, 48), &entries)?;
        let (_, body) = root.split_vertically(64);
        let times = times(panels);
        for (area, panel) in body.split_evenly((1, panels.len().max(1))).iter().zip(panels) {
            paint(area, panel, &times)?;
        }
        Ok(())
    })
}

fn cells(panels: &[Panel]) -> impl Iterator<Item = &Cell> {
    panels.iter().flat_map(|p| &p.lines).flat_map(|(_, cells)| cells)
}

/// The time axis all panels share: decimal logarithms of milliseconds.
fn times(panels: &[Panel]) -> Marked {
    let known = cells(panels).flat_map(|c| c.ms).filter(|ms| ms.is_finite() && *ms > 0.0).map(f64::log10);
    let (low, high) = known.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), t| (l.min(t), h.max(t)));
    // Nothing finished: any range will do.
    let (low, high) = if low <= high { (low - 0.1, high + 0.3) } else { (0.0, 1.0) };
    let decades = low.floor() as i32..=high.ceil() as i32;
    let steps: &[f64] = if high - low > 3.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let marks = decades.flat_map(|d| steps.iter().map(move |s| s.log10() + f64::from(d)));
    Marked { low, high, marks: marks.filter(|t| (low..=high).contains(t)).collect() }
}

fn paint(area: &Area<'_>, panel: &Panel, times: &Marked) -> Result<(), Box<dyn Error>> {
    let at = |cell: &Cell| position(panel.axis, cell.value);
    let mut places: Vec<(f64, f64)> =
        panel.lines.iter().flat_map(|(_, cells)| cells).map(|c| (at(c), c.value)).collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    places.dedup();
    let (first, last) = (places.first().map_or(0.0, |p| p.0), places.last().map_or(1.0, |p| p.0));
    let margin = if last > first { 0.08 * (last - first) } else { 0.5 };
    // Labels of values that lie close to each other would cover one another.
    let mut labelled: Vec<(f64, f64)> = Vec::new();
    for place in &places {
        if labelled.last().is_none_or(|l| place.0 - l.0 >= 0.12 * (last - first)) {
            labelled.push(*place);
        }
    }
    let (grows, unit) = match panel.axis {
        Axis::Eps => ("eps", "eps (pixels from 0 to 1)"),
        Axis::EndTime => ("end time", "end time T of the ODE"),
        Axis::State => ("state size", "entries of the ODE state"),
    };
    let marks = labelled.iter().map(|p| p.0).collect();
    let values = Marked { low: first - margin, high: last + margin, marks };
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{grows} ({})", panel.held), ("sans-serif", 15))
        .margin(8)
        .margin_right(14)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(values, times.clone())?;
    let value_at = |x: &f64| places.iter().find(|p| p.0 == *x).map_or(String::new(), |p| p.1.to_string());
    chart
        .configure_mesh()
        .bold_line_style(RGBColor(225, 225, 225))
        .light_line_style(TRANSPARENT)
        .x_desc(unit)
        .y_desc("ms per sample (log scale)")
        .axis_desc_style(("sans-serif", 14))
        .label_style(("sans-serif", 13))
        .x_label_formatter(&value_at)
        .y_label_formatter(&|y| format!("{}", (1e3 * 10f64.powf(*y)).round() / 1e3))
        .draw()?;
    for (row, (method, cells)) in panel.lines.iter().enumerate() {
        let colour = colour(*method);
        // A median beyond the limit is no time: the line stops before it and goes on after it.
        for run in cells.split(|c| !c.ms[1].is_finite()) {
            let height = |ms: f64| ms.log10().clamp(times.low, times.high);
            let band = run.iter().map(|c| (at(c), height(c.ms[0])));
            let band = band.chain(run.iter().rev().map(|c| (at(c), height(c.ms[2]))));
            chart.draw_series([Polygon::new(band.collect::<Vec<_>>(), colour.mix(BAND))])?;
            let line: Vec<(f64, f64)> = run.iter().map(|c| (at(c), height(c.ms[1]))).collect();
            chart.draw_series([PathElement::new(line.clone(), colour.stroke_width(3))])?;
            chart.draw_series(line.iter().map(|p| Circle::new(*p, 4, colour.filled())))?;
        }
        let centred = TextStyle::from(("sans-serif", 13).into_font())
            .color(&colour)
            .pos(Pos::new(HPos::Center, VPos::Center));
        for cell in cells.iter().filter(|c| c.finished < c.samples) {
            let top = times.high - (0.04 + 0.06 * row as f64) * (times.high - times.low);
            let text = format!("{}/{}", cell.finished, cell.samples);
            chart.draw_series([Text::new(text, (at(cell), top), centred.clone())])?;
        }
    }
    Ok(())
}
