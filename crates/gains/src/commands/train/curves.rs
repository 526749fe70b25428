//! A run as a picture: losses, accuracies and the perturbation over the epochs.

use std::error::Error;

use gains_train::Config;
use gains_train::config::Unit;
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

/// What curves are of.
pub struct Words {
    learned: &'static str,
    looked_at: &'static str,
    eps: &'static str,
}

impl Words {
    /// For a run.
    pub fn of(config: &Config) -> Self {
        let own = config.data.as_ref().filter(|_| config.own_inputs().is_some());
        let (learned, looked_at) = match (own, config.validation) {
            (Some(_), _) => ("training samples", "samples held back"),
            (None, 0) => ("training images", "test images"),
            (None, _) => ("training images", "images held back"),
        };
        let eps = match own.map(|data| data.unit) {
            None => "eps (pixels from 0 to 1)",
            Some(Unit::Value) => "eps (in the units of the network)",
            Some(Unit::Deviation) => "eps (in deviations of each entry)",
        };
        Self { learned, looked_at, eps }
    }
}

fn panels(rows: &[Row], words: &Words) -> Vec<Panel> {
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
                curve(rows, words.learned, BLUE, |row| row.accuracy.map(percent)),
                curve(rows, "their boxes, on sampled trajectories", ORANGE, |row| {
                    row.robust_accuracy.map(percent)
                }),
                curve(rows, words.looked_at, GREEN, |row| row.test_accuracy.map(percent)),
                curve(rows, "held back, certified", MAGENTA, |row| row.certified.map(percent)),
            ],
            least: (0.0, 100.0),
        },
        Panel {
            title: words.eps,
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
pub fn draw(title: &str, words: &Words, rows: &[Row]) -> Result<String, Failure> {
    let last = rows.iter().map(|row| row.epoch).max().unwrap_or(1);
    draw_panels(title, panels(rows, words), &turns(rows), last)
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

/// How values become heights.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Linear,
    /// By their logarithm, nothing below `least`: where one epoch exploded, the others are still to be seen.
    Logarithmic {
        least: f64,
    },
}

impl Scale {
    /// Logarithmic if the largest value dwarfs the usual one and nothing is negative.
    fn of(values: &[f64]) -> Self {
        const DWARFS: f64 = 100.0;
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        let (Some(&least), Some(&largest)) = (sorted.first(), sorted.last()) else { return Self::Linear };
        let usual = sorted[sorted.len() / 2];
        if largest > DWARFS * usual && values.iter().all(|value| *value >= 0.0) {
            Self::Logarithmic { least: least.max(usual / DWARFS) }
        } else {
            Self::Linear
        }
    }

    fn height(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Logarithmic { least } => value.max(least).log10(),
        }
    }

    fn label(self, height: f64) -> String {
        match self {
            Self::Linear => short(height),
            Self::Logarithmic { .. } => short(10_f64.powf(height)),
        }
    }
}

/// A number with three digits, as people write it.
fn short(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    match rounded.abs() {
        0.0 => "0".into(),
        1e-4..1e6 => rounded.to_string(),
        _ => format!("{rounded:e}"),
    }
}

fn paint(area: &Area<'_>, panel: &Panel, turns: &[(f64, String)], last: f64) -> Result<(), Box<dyn Error>> {
    let values: Vec<f64> = panel.curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).collect();
    let scale = Scale::of(&values);
    let least = if scale == Scale::Linear { panel.least } else { (f64::INFINITY, f64::NEG_INFINITY) };
    let heights = values.iter().map(|value| scale.height(*value));
    let (low, high) = heights.fold(least, |(low, high), value| (low.min(value), high.max(value)));
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
        .y_label_formatter(&|y| scale.label(*y))
        .draw()?;
    for (epoch, name) in turns {
        if turns.len() > 1 {
            chart.draw_series([PathElement::new(vec![(*epoch, low), (*epoch, high)], GREY.mix(0.5))])?;
            let place = (*epoch + 0.005 * last, high - 0.06 * (high - low));
            chart.draw_series([Text::new(name.clone(), place, label(13).color(&GREY))])?;
        }
    }
    for curve in &panel.curves {
        let points: Vec<(f64, f64)> = curve.points.iter().map(|(x, y)| (*x, scale.height(*y))).collect();
        chart.draw_series([PathElement::new(points.clone(), curve.colour.stroke_width(2))])?;
        if points.len() <= 30 {
            let dots = points.iter().map(|point| Circle::new(*point, 3, curve.colour.filled()));
            chart.draw_series(dots)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_logarithmic_where_one_value_dwarfs_the_others() {
        assert_eq!(Scale::of(&[1.0, 2.0, 90.0]), Scale::Linear);
        assert_eq!(Scale::of(&[-1.0, 2.0, 1e9]), Scale::Linear);
        assert_eq!(Scale::of(&[]), Scale::Linear);
        let scale = Scale::of(&[0.0, 1.0, 2.0, 1e9]);
        assert_eq!(scale, Scale::Logarithmic { least: 1.0 });
        assert_eq!((scale.height(0.0), scale.height(1e9)), (0.0, 9.0));
    }

    #[test]
    fn numbers_are_short() {
        let told: Vec<String> = [0.0, 0.1 + 0.2, 1234567.0, 99999.6, -2.5e-7, 100.0].map(short).to_vec();
        assert_eq!(told, ["0", "0.3", "1.23e6", "100000", "-2.5e-7", "100"]);
    }

    #[test]
    fn curves_are_of_what_was_looked_at() {
        let config = |text: &str| Config::parse(text).unwrap();
        let shown = |config: &Config| {
            let row = Row { accuracy: Some(0.5), test_accuracy: Some(0.5), eps: 0.1, ..Row::default() };
            draw("run", &Words::of(config), &[row.clone(), Row { epoch: 1, ..row }]).unwrap()
        };
        let known = shown(&config("name = 'x'\n[[phases]]\nepochs = 1"));
        assert!(known.contains("test images") && known.contains("pixels"), "{known}");
        let own = shown(&config(
            "name = 'x'\n[data]\ninputs = 'x.csv'\nunit = 'deviation'\n[[phases]]\nepochs = 1",
        ));
        assert!(own.contains("samples held back") && own.contains("in deviations"), "{own}");
        assert!(!own.contains("images") && !own.contains("pixels"), "{own}");
    }

    #[test]
    fn curves_without_values_are_left_out() {
        let words = Words::of(&Config::parse("name = 'x'\n[[phases]]\nepochs = 1").unwrap());
        let row = |epoch| Row {
            phase: "main".into(),
            epoch,
            clean: 2.0,
            loss: 2.0,
            accuracy: Some(0.5),
            ..Row::default()
        };
        let svg = draw("plain", &words, &[row(1), row(2)]).unwrap();
        assert!(svg.contains("cross-entropy") && !svg.contains("worst-case") && !svg.contains("eps"));
        let rows = [row(1), Row { robust: Some(f64::NAN), eps: 0.1, robust_accuracy: Some(0.5), ..row(2) }];
        let svg = draw("provable", &words, &rows).unwrap();
        let has = |words: &str| svg.contains(words);
        assert_eq!(["eps (pixels", "their boxes", "worst-case"].map(has), [true, true, false], "{svg}");
        // One epoch that exploded leaves the others to be seen.
        let rows: Vec<Row> =
            (1..9).map(|i| Row { clean: if i == 4 { 3.1e12 } else { 2.0 }, ..row(i) }).collect();
        let svg = draw("exploded", &words, &rows).unwrap();
        assert!(!svg.contains("0000000") && svg.contains("1e10"), "{svg}");
        // Nothing to draw is no reason to fail.
        assert!(draw("empty", &words, &[]).unwrap().starts_with("<svg"));
    }
}
