//! A run as a picture: losses, accuracies and the perturbation over the epochs.

use std::error::Error;

use plotters::prelude::*;

use super::metrics::Row;
use crate::failure::Failure;
use crate::picture::{Area, Mark, label, legend, svg};

const WIDTH: u32 = 900;
const PANEL: u32 = 230;
const TOP: u32 = 40;

pub const BLUE: RGBColor = RGBColor(30, 95, 175);
pub const ORANGE: RGBColor = RGBColor(200, 95, 30);
pub const GREEN: RGBColor = RGBColor(40, 130, 70);
pub const GREY: RGBColor = RGBColor(110, 110, 110);

/// One curve: a name, a colour and a value for some of the rows.
pub struct Curve {
    /// Its name in the legend.
    pub name: &'static str,
    /// Its colour.
    pub colour: RGBColor,
    /// Epoch and value.
    pub points: Vec<(f64, f64)>,
}

/// Curves over one axis.
pub struct Panel {
    /// What is shown.
    pub title: &'static str,
    /// The curves; those without points are left out.
    pub curves: Vec<Curve>,
    /// The range that is always shown.
    pub least: (f64, f64),
}

fn curve(rows: &[Row], name: &'static str, colour: RGBColor, value: impl Fn(&Row) -> Option<f64>) -> Curve {
    let point = |row: &Row| value(row).filter(|v| v.is_finite()).map(|v| (f64::from(row.epoch), v));
    Curve { name, colour, points: rows.iter().filter_map(point).collect() }
}

fn panels(rows: &[Row]) -> Vec<Panel> {
    let percent = |part: f64| 100.0 * part;
    let mut panels = vec![
        Panel {
            title: "loss (means over an epoch, before weighting)",
            curves: vec![
                curve(rows, "cross-entropy", BLUE, |row| Some(row.clean)),
                curve(rows, "worst-case cross-entropy", ORANGE, |row| row.robust),
                curve(rows, "width", GREEN, |row| row.width),
                curve(rows, "total, weighted", GREY, |row| Some(row.loss)),
            ],
            least: (0.0, 0.0),
        },
        Panel {
            title: "accuracy in %",
            curves: vec![
                curve(rows, "training images", BLUE, |row| Some(percent(row.accuracy))),
                curve(rows, "their boxes, on sampled trajectories", ORANGE, |row| {
                    row.robust_accuracy.map(percent)
                }),
                curve(rows, "test images", GREEN, |row| row.test_accuracy.map(percent)),
            ],
            least: (0.0, 100.0),
        },
        Panel {
            title: "eps (pixels from 0 to 1)",
            curves: vec![curve(rows, "eps", BLUE, |row| Some(row.eps))],
            least: (0.0, 0.0),
        },
    ];
    if rows.iter().all(|row| row.eps == 0.0) {
        panels.pop();
    }
    panels
}

/// Draws the picture.
pub fn draw(title: &str, rows: &[Row]) -> Result<String, Failure> {
    let last = rows.iter().map(|row| row.epoch).max().unwrap_or(1);
    draw_panels(title, panels(rows), &turns(rows), last)
}

/// Draws panels below each other, with the epochs at which something begins and its name.
pub fn draw_panels(
    title: &str,
    mut panels: Vec<Panel>,
    turns: &[(f64, String)],
    last: u32,
) -> Result<String, Failure> {
    for panel in &mut panels {
        panel.curves.retain(|curve| !curve.points.is_empty());
    }
    let last = last.max(2);
    svg((WIDTH, TOP + PANEL * panels.len() as u32), |root| {
        root.draw(&Text::new(title.to_string(), (24, 22), label(18)))?;
        let (_, body) = root.split_vertically(TOP);
        for (area, panel) in body.split_evenly((panels.len().max(1), 1)).iter().zip(&panels) {
            paint(area, panel, turns, f64::from(last))?;
        }
        Ok(())
    })
}

/// Where phases begin, with their names.
fn turns(rows: &[Row]) -> Vec<(f64, String)> {
    let mut turns: Vec<(f64, String)> = Vec::new();
    for row in rows {
        if turns.last().is_none_or(|(_, name)| *name != row.phase) {
            turns.push((f64::from(row.epoch), row.phase.clone()));
        }
    }
    turns
}

fn paint(area: &Area<'_>, panel: &Panel, turns: &[(f64, String)], last: f64) -> Result<(), Box<dyn Error>> {
    let values = panel.curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
    let (low, high) = values.fold(panel.least, |(low, high), value| (low.min(value), high.max(value)));
    let high = if high > low { high + 0.04 * (high - low) } else { low + 1.0 };
    area.draw(&Text::new(panel.title, (64, 10), label(15)))?;
    let entries: Vec<(&str, Mark)> =
        panel.curves.iter().map(|curve| (curve.name, Mark::Line(curve.colour))).collect();
    if entries.len() > 1 {
        legend(area, (64, 32), &entries)?;
    }
    let mut chart = ChartBuilder::on(area)
        .margin_top(46)
        .margin_right(24)
        .x_label_area_size(38)
        .y_label_area_size(64)
        .build_cartesian_2d(1.0..last, low..high)?;
    chart
        .configure_mesh()
        .bold_line_style(RGBColor(225, 225, 225))
        .light_line_style(TRANSPARENT)
        .x_desc("epoch")
        .axis_desc_style(("sans-serif", 14))
        .label_style(("sans-serif", 13))
        .x_labels(10)
        .y_labels(5)
        .x_label_formatter(&|x| if x.fract() == 0.0 { format!("{x}") } else { String::new() })
        .y_label_formatter(&|y| format!("{}", (y * 1e6).round() / 1e6))
        .draw()?;
    for (epoch, name) in turns {
        if turns.len() > 1 {
            chart.draw_series([PathElement::new(vec![(*epoch, low), (*epoch, high)], GREY.mix(0.5))])?;
            let place = (*epoch + 0.005 * last, high - 0.06 * (high - low));
            chart.draw_series([Text::new(name.clone(), place, label(13).color(&GREY))])?;
        }
    }
    for curve in &panel.curves {
        chart.draw_series([PathElement::new(curve.points.clone(), curve.colour.stroke_width(2))])?;
        if curve.points.len() <= 30 {
            let dots = curve.points.iter().map(|point| Circle::new(*point, 3, curve.colour.filled()));
            chart.draw_series(dots)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_without_values_are_left_out() {
        let row = |epoch| Row { phase: "main".into(), epoch, clean: 2.0, loss: 2.0, ..Row::default() };
        let svg = draw("plain", &[row(1), row(2)]).unwrap();
        assert!(svg.contains("cross-entropy") && !svg.contains("worst-case") && !svg.contains("eps"));
        let rows = [row(1), Row { robust: Some(f64::NAN), eps: 0.1, robust_accuracy: Some(0.5), ..row(2) }];
        let svg = draw("provable", &rows).unwrap();
        assert!(svg.contains("eps (pixels") && svg.contains("their boxes") && !svg.contains("worst-case"));
        // Nothing to draw is no reason to fail.
        assert!(draw("empty", &[]).unwrap().starts_with("<svg"));
    }
}
