//! The pictures of studies, all in one style: panels side by side with curves, dots or bars over two axes.

use std::error::Error;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::failure::Failure;
use crate::picture::{self, Area, Mark};

/// Colours that are told apart by the colour-blind, too (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
];
const PANEL: (i32, i32) = (430, 340);
/// More panels than this go into further rows.
const ACROSS: usize = 4;
const TOP: i32 = 64;
const LEFT: i32 = 70;
const BOTTOM: i32 = 56;
const RIGHT: i32 = 16;
const GRID: RGBColor = RGBColor(225, 225, 225);

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// Whether equal distances are equal factors.
    pub log: bool,
}

impl Axis {
    /// Equal distances are equal differences.
    pub fn linear(label: &str) -> Self {
        Self { label: label.into(), log: false }
    }

    /// Equal distances are equal factors.
    pub fn log(label: &str) -> Self {
        Self { label: label.into(), log: true }
    }
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Joined, each with a dot.
    Line,
    /// Joined.
    Plain,
    /// Dots.
    Dots,
    /// Steps down to the axis.
    Bars,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Curve {
    /// In the legend; curves of one name share a colour.
    pub name: String,
    /// How they are drawn.
    pub look: Look,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Points joined by lines.
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), look: Look::Line, points }
    }

    /// Points.
    pub fn dots(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), look: Look::Dots, points }
    }
}

/// Two axes and what is on them.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Above it.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is shown.
    pub curves: Vec<Curve>,
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Above everything.
    pub title: String,
    /// Side by side.
    pub panels: Vec<Panel>,
}

impl Chart {
    /// Draws it.
    pub fn svg(&self) -> Result<String, Failure> {
        let mut names: Vec<&str> = Vec::new();
        for curve in self.panels.iter().flat_map(|panel| &panel.curves) {
            if !names.contains(&curve.name.as_str()) {
                names.push(&curve.name);
            }
        }
        // The legend takes as much room as `picture::legend` gives its entries.
        let legend: i32 = LEFT + names.iter().map(|name| 50 + 7 * name.len() as i32).sum::<i32>();
        let width = legend.max(PANEL.0 * self.panels.len().clamp(1, ACROSS) as i32);
        let rows = self.panels.len().div_ceil(ACROSS).max(1);
        picture::svg((width as u32, (TOP + PANEL.1 * rows as i32) as u32), |root| {
            root.draw(&Text::new(self.title.clone(), (LEFT, 18), picture::label(17)))?;
            let colour = |name: &str| {
                let place = names.iter().position(|other| *other == name).unwrap_or(0);
                COLOURS[place % COLOURS.len()]
            };
            let entries: Vec<(&str, Mark)> =
                names.iter().map(|name| (*name, Mark::Line(colour(name)))).collect();
            picture::legend(root, (LEFT, 44), &entries)?;
            for (index, panel) in self.panels.iter().enumerate() {
                let corner = (PANEL.0 * (index % ACROSS) as i32, TOP + PANEL.1 * (index / ACROSS) as i32);
                panel.draw(root, corner, &colour)?;
            }
            Ok(())
        })
    }
}

/// Numbers on an axis and pixels along it.
struct Scale {
    log: bool,
    low: f64,
    high: f64,
    from: i32,
    to: i32,
}

impl Scale {
    /// Fits all values; those that the axis cannot show (not positive on a logarithmic one) are left out.
    fn new(axis: &Axis, values: impl Iterator<Item = f64>, from: i32, to: i32) -> Self {
        let shown = values.filter(|v| v.is_finite() && (!axis.log || *v > 0.0));
        let placed = shown.map(|v| if axis.log { v.log10() } else { v });
        let (mut low, mut high) =
            placed.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let room = if high > low { 0.05 * (high - low) } else { 0.5 * low.abs().max(1.0) };
        // A quantity that cannot be negative starts at zero rather than a little below.
        let floor = if !axis.log && low >= 0.0 && low < room * 4.0 { 0.0 } else { low - room };
        Self { log: axis.log, low: floor, high: high + room, from, to }
    }

    fn at(&self, value: f64) -> Option<i32> {
        let placed = if self.log { value.log10() } else { value };
        let share = (placed - self.low) / (self.high - self.low);
        (share.is_finite() && (-0.01..=1.01).contains(&share))
            .then(|| self.from + (share * f64::from(self.to - self.from)).round() as i32)
    }

    /// Where numbers are written.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let (first, last) = (self.low.ceil() as i32, self.high.floor() as i32);
            let stride = ((last - first) / 6 + 1).max(1) as usize;
            if last > first {
                return (first..=last).step_by(stride).map(|power| 10.0_f64.powi(power)).collect();
            }
            let (low, high) = (10.0_f64.powf(self.low), 10.0_f64.powf(self.high));
            return plain_ticks(low, high);
        }
        plain_ticks(self.low, self.high)
    }
}

/// About five round numbers between two.
fn plain_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    if !(rough > 0.0 && rough.is_finite()) {
        return vec![low];
    }
    let power = 10.0_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

/// A number short enough for an axis.
fn short(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".into()
    } else if !(1e-3..1e5).contains(&size) {
        format!("{value:.0e}")
    } else {
        let text = format!("{value:.4}");
        text.trim_end_matches('0').trim_end_matches('.').into()
    }
}

fn anchored(size: u32, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).pos(Pos::new(horizontal, vertical))
}

impl Panel {
    fn draw(
        &self,
        root: &Area<'_>,
        corner: (i32, i32),
        colour: &dyn Fn(&str) -> RGBColor,
    ) -> Result<(), Box<dyn Error>> {
        let (left, right) = (corner.0 + LEFT, corner.0 + PANEL.0 - RIGHT);
        let (top, bottom) = (corner.1 + 26, corner.1 + PANEL.1 - BOTTOM);
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let bars = self.curves.iter().any(|curve| curve.look == Look::Bars);
        let x = Scale::new(&self.x, points().map(|p| p.0), left, right);
        let y = Scale::new(&self.y, points().map(|p| p.1).chain(bars.then_some(0.0)), bottom, top);
        root.draw(&Text::new(self.title.clone(), (left, corner.1 + 12), picture::label(14)))?;
        self.axes(root, &x, &y)?;
        for curve in &self.curves {
            let style = colour(&curve.name);
            let placed: Vec<(i32, i32)> =
                curve.points.iter().filter_map(|p| Some((x.at(p.0)?, y.at(p.1)?))).collect();
            match curve.look {
                Look::Line | Look::Plain => {
                    root.draw(&PathElement::new(placed.clone(), style.stroke_width(2)))?;
                }
                Look::Bars => {
                    let half = ((right - left) / (2 * placed.len().max(1) as i32)).max(1);
                    for (at, height) in &placed {
                        let corners = [(at - half, *height), (at + half - 1, bottom)];
                        root.draw(&Rectangle::new(corners, style.mix(0.45).filled()))?;
                    }
                }
                Look::Dots => {}
            }
            if matches!(curve.look, Look::Line | Look::Dots) {
                let size = if placed.len() > 200 { 1 } else { 3 };
                for at in placed {
                    root.draw(&Circle::new(at, size, style.filled()))?;
                }
            }
        }
        Ok(())
    }

    fn axes(&self, root: &Area<'_>, x: &Scale, y: &Scale) -> Result<(), Box<dyn Error>> {
        for tick in x.ticks() {
            let Some(at) = x.at(tick) else { continue };
            root.draw(&PathElement::new(vec![(at, y.from), (at, y.to)], GRID.stroke_width(1)))?;
            root.draw(&Text::new(short(tick), (at, y.from + 6), anchored(12, HPos::Center, VPos::Top)))?;
        }
        for tick in y.ticks() {
            let Some(at) = y.at(tick) else { continue };
            root.draw(&PathElement::new(vec![(x.from, at), (x.to, at)], GRID.stroke_width(1)))?;
            root.draw(&Text::new(short(tick), (x.from - 6, at), anchored(12, HPos::Right, VPos::Center)))?;
        }
        let frame = vec![(x.from, y.to), (x.from, y.from), (x.to, y.from)];
        root.draw(&PathElement::new(frame, BLACK.stroke_width(1)))?;
        let middle = i32::midpoint(x.from, x.to);
        let below = anchored(13, HPos::Center, VPos::Top);
        root.draw(&Text::new(self.x.label.clone(), (middle, y.from + 26), below))?;
        let upwards = TextStyle::from(("sans-serif", 13).into_font())
            .transform(FontTransform::Rotate270)
            .pos(Pos::new(HPos::Center, VPos::Top));
        let beside = (x.from - 60, i32::midpoint(y.from, y.to));
        root.draw(&Text::new(self.y.label.clone(), beside, upwards))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(plain_ticks(0.0, 1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(plain_ticks(-3.0, 47.0), [0.0, 10.0, 20.0, 30.0, 40.0]);
        let scale = Scale::new(&Axis::log("x"), [1e-6, 2.0, 0.0, f64::NAN].into_iter(), 0, 100);
        assert!(scale.ticks().contains(&1e-4) && scale.ticks().len() <= 8);
        assert_eq!((short(0.25), short(1e-6), short(0.0)), ("0.25".into(), "1e-6".into(), "0".into()));
    }

    #[test]
    fn many_panels_take_several_rows() {
        let panel = Panel { title: "p".into(), x: Axis::linear("x"), y: Axis::linear("y"), curves: vec![] };
        let size = |count: usize| {
            let chart = Chart { title: "t".into(), panels: vec![panel.clone(); count] };
            let text = chart.svg().unwrap();
            text[..text.find('>').unwrap_or(0)].to_string()
        };
        assert!(size(4).contains("width=\"1720\" height=\"404\""), "{}", size(4));
        assert!(size(5).contains("width=\"1720\" height=\"744\""), "{}", size(5));
    }

    #[test]
    fn nothing_to_show_is_still_a_picture() {
        let panel = |points| Panel {
            title: "<b>".into(),
            x: Axis::log("x"),
            y: Axis::linear("y"),
            curves: vec![Curve::line("a & b", points)],
        };
        let panels = vec![panel(vec![]), panel(vec![(0.0, f64::NAN), (1.0, 1.0)]), panel(vec![(1.0, 3.0)])];
        let text = Chart { title: "t".into(), panels }.svg().unwrap();
        assert!(text.contains("a &amp; b") && !text.contains("NaN") && !text.contains("<b>"));
    }
}
