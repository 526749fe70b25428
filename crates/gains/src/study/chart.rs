//! The pictures of studies, all in one style: panels side by side with curves, dots or bars over two axes.

use std::error::Error;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::failure::Failure;
use crate::picture::{self, Area};

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
/// Dashes and gaps in pixels; a curve that lies under another shows through its gaps. Only the first curve is drawn
/// through.
const DASHES: [&[i32]; 6] = [&[9, 5], &[3, 4], &[14, 4, 3, 4], &[6, 3], &[3, 8], &[12, 8]];
/// Shapes of signs.
const SIGNS: usize = 7;
const PANEL: (i32, i32) = (430, 340);
/// More panels than this go into further rows.
const ACROSS: usize = 3;
/// Of more points than this the outlines would be a blot: they are specks.
const CROWD: usize = 60;
const TITLE: i32 = 36;
/// Of a row of the legend.
const ROW: i32 = 22;
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
    /// What it shows at least, so that panels can be compared.
    pub holds: Option<(f64, f64)>,
}

impl Axis {
    /// Equal distances are equal differences.
    pub fn linear(label: &str) -> Self {
        Self { label: label.into(), log: false, holds: None }
    }

    /// Equal distances are equal factors.
    pub fn log(label: &str) -> Self {
        Self { label: label.into(), log: true, holds: None }
    }

    /// From 0 to 100.
    pub fn percent(label: &str) -> Self {
        Self { label: label.into(), log: false, holds: Some((0.0, 100.0)) }
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
    /// Bars down to the axis, beside those of the other curves.
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

/// What tells a curve from the others: no two of the first 49 have the same colour and sign, and curves on top of each
/// other show, since signs are outlines of different shapes and lines have different gaps.
#[derive(Clone, Copy)]
struct Style {
    place: usize,
}

impl Style {
    fn colour(self) -> RGBColor {
        COLOURS[self.place % COLOURS.len()]
    }

    /// Which shape its signs have; one more for every round through the colours.
    fn shape(self) -> usize {
        (self.place + self.place / COLOURS.len()) % SIGNS
    }

    fn dashes(self) -> &'static [i32] {
        self.place.checked_sub(1).map_or(&[], |place| DASHES[place % DASHES.len()])
    }

    /// A line through points, with the gaps of the style.
    fn line(self, root: &Area<'_>, points: &[(i32, i32)]) -> Result<(), Box<dyn Error>> {
        for part in dashed(points, self.dashes()) {
            root.draw(&PathElement::new(part, self.colour().stroke_width(2)))?;
        }
        Ok(())
    }

    /// The sign of a point.
    fn sign(self, root: &Area<'_>, (x, y): (i32, i32)) -> Result<(), Box<dyn Error>> {
        let pen = self.colour().stroke_width(2);
        let outline = |corners: &[(i32, i32)]| {
            let around: Vec<_> =
                corners.iter().chain(corners.first()).map(|(dx, dy)| (x + dx, y + dy)).collect();
            PathElement::new(around, pen)
        };
        let stroke = |from: (i32, i32), to: (i32, i32)| outline(&[from, to]);
        match self.shape() {
            0 => root.draw(&Circle::new((x, y), 4, pen))?,
            1 => root.draw(&outline(&[(-5, -5), (5, -5), (5, 5), (-5, 5)]))?,
            2 => {
                root.draw(&stroke((-4, -4), (4, 4)))?;
                root.draw(&stroke((-4, 4), (4, -4)))?;
            }
            3 => root.draw(&outline(&[(0, -8), (7, 5), (-7, 5)]))?,
            4 => {
                root.draw(&stroke((-7, 0), (7, 0)))?;
                root.draw(&stroke((0, -7), (0, 7)))?;
            }
            5 => root.draw(&outline(&[(0, -7), (7, 0), (0, 7), (-7, 0)]))?,
            _ => root.draw(&outline(&[(0, 8), (7, -5), (-7, -5)]))?,
        }
        Ok(())
    }
}

/// The parts of a line that its dashes leave; the whole line where there are no gaps.
fn dashed(points: &[(i32, i32)], pattern: &[i32]) -> Vec<Vec<(i32, i32)>> {
    if pattern.is_empty() {
        return vec![points.to_vec()];
    }
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    // How much is left of the current dash or gap; those with even numbers are dashes.
    let (mut at, mut left) = (0, f64::from(pattern[0]));
    for pair in points.windows(2) {
        let [(x, y), (to_x, to_y)] = [pair[0], pair[1]].map(|(x, y)| (f64::from(x), f64::from(y)));
        let length = (to_x - x).hypot(to_y - y);
        let place = |along: f64| {
            let share = if length > 0.0 { along / length } else { 0.0 };
            ((x + share * (to_x - x)).round() as i32, (y + share * (to_y - y)).round() as i32)
        };
        let mut along = 0.0;
        loop {
            if at % 2 == 0 {
                part.push(place(along));
            }
            if along + left > length {
                left -= length - along;
                break;
            }
            along += left;
            if at % 2 == 0 {
                part.push(place(along));
                parts.push(std::mem::take(&mut part));
            }
            at = (at + 1) % pattern.len();
            left = f64::from(pattern[at]);
        }
        if at % 2 == 0 {
            part.push(pair[1]);
        }
    }
    parts.push(part);
    parts.retain(|part| part.len() > 1);
    parts
}

/// How panels are laid out: four look better in two rows.
fn across(panels: usize) -> usize {
    if panels == 4 { 2 } else { panels.clamp(1, ACROSS) }
}

/// The room an entry of the legend takes.
fn entry_width(name: &str) -> i32 {
    62 + 8 * name.chars().count() as i32
}

/// Where the entries of the legend stand, in rows no wider than the picture.
fn entries(names: &[&str], width: i32) -> Vec<(i32, i32)> {
    let (mut x, mut row) = (LEFT, 0);
    names
        .iter()
        .map(|name| {
            if x > LEFT && x + entry_width(name) > width {
                (x, row) = (LEFT, row + 1);
            }
            let at = (x, TITLE + ROW * row + ROW / 2);
            x += entry_width(name);
            at
        })
        .collect()
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
        let across = across(self.panels.len());
        let widest = names.iter().map(|name| LEFT + entry_width(name)).max().unwrap_or_default();
        let title = LEFT + 10 * self.title.chars().count() as i32;
        let width = (PANEL.0 * across as i32).max(widest).max(title);
        let places = entries(&names, width);
        let top = places.last().map_or(TITLE, |(_, y)| y + ROW / 2) + 8;
        let rows = self.panels.len().div_ceil(across).max(1);
        let style =
            |name: &str| Style { place: names.iter().position(|other| *other == name).unwrap_or_default() };
        picture::svg((width as u32, (top + PANEL.1 * rows as i32) as u32), |root| {
            root.draw(&Text::new(self.title.clone(), (LEFT, 18), picture::label(17)))?;
            for (name, (x, y)) in names.iter().zip(&places) {
                let bars = self.looks(name).all(|look| look == Look::Bars);
                if bars {
                    let corners = [(*x + 8, y - 6), (x + 20, y + 6)];
                    root.draw(&Rectangle::new(corners, style(name).colour().filled()))?;
                } else {
                    if self.looks(name).any(|look| matches!(look, Look::Line | Look::Plain)) {
                        style(name).line(root, &[(*x, *y), (x + 30, *y)])?;
                    }
                    if self.panels.iter().any(|panel| panel.has_specks(name)) {
                        root.draw(&Circle::new((x + 15, *y), 4, style(name).colour().filled()))?;
                    } else if self.looks(name).any(|look| matches!(look, Look::Line | Look::Dots)) {
                        style(name).sign(root, (x + 15, *y))?;
                    }
                }
                root.draw(&Text::new(*name, (x + 37, *y), picture::label(14)))?;
            }
            for (index, panel) in self.panels.iter().enumerate() {
                let corner = (PANEL.0 * (index % across) as i32, top + PANEL.1 * (index / across) as i32);
                panel.draw(root, corner, &style)?;
            }
            Ok(())
        })
    }

    fn looks<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Look> + 'a {
        let curves = self.panels.iter().flat_map(|panel| &panel.curves);
        curves.filter(move |curve| curve.name == name).map(|curve| curve.look)
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
        let held = axis.holds.into_iter().flat_map(|(low, high)| [low, high]);
        let shown = values.chain(held).filter(|v| v.is_finite() && (!axis.log || *v > 0.0));
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
            if last - first >= 2 {
                let stride = ((last - first) / 6 + 1).max(1) as usize;
                return (first..=last).step_by(stride).map(|power| 10.0_f64.powi(power)).collect();
            }
            if last >= first && self.high - self.low > 0.7 {
                let steps = |power: i32| [1.0, 2.0, 5.0].map(|m| m * 10.0_f64.powi(power));
                let inside = |tick: &f64| (self.low..=self.high).contains(&tick.log10());
                return (first - 1..=last).flat_map(steps).filter(inside).collect();
            }
            return plain_ticks(10.0_f64.powf(self.low), 10.0_f64.powf(self.high));
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
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= 0.75 * rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

/// Numbers short enough for an axis, with as many digits as tell each from the next.
fn labels(ticks: &[f64]) -> Vec<String> {
    let with = |more: usize| ticks.iter().map(|tick| short(*tick, more)).collect::<Vec<_>>();
    let differ = |labels: &Vec<String>| labels.windows(2).all(|pair| pair[0] != pair[1]);
    (0..12).map(with).find(differ).unwrap_or_else(|| with(0))
}

/// A number with a few digits, and some more.
fn short(value: f64, more: usize) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".into()
    } else if !(1e-3..1e5).contains(&size) {
        format!("{value:.more$e}")
    } else {
        let text = format!("{value:.*}", 4 + more);
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
        style: &dyn Fn(&str) -> Style,
    ) -> Result<(), Box<dyn Error>> {
        let (left, right) = (corner.0 + LEFT, corner.0 + PANEL.0 - RIGHT);
        let (top, bottom) = (corner.1 + 26, corner.1 + PANEL.1 - BOTTOM);
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let bars: Vec<&str> =
            self.curves.iter().filter(|c| c.look == Look::Bars).map(|c| c.name.as_str()).collect();
        let x = Scale::new(&self.x, points().map(|p| p.0), left, right);
        let zero = (!bars.is_empty()).then_some(0.0);
        let y = Scale::new(&self.y, points().map(|p| p.1).chain(zero), bottom, top);
        root.draw(&Text::new(self.title.clone(), (left, corner.1 + 12), picture::label(14)))?;
        self.axes(root, &x, &y)?;
        for curve in &self.curves {
            let style = style(&curve.name);
            let placed: Vec<(i32, i32)> =
                curve.points.iter().filter_map(|p| Some((x.at(p.0)?, y.at(p.1)?))).collect();
            match curve.look {
                Look::Line | Look::Plain => style.line(root, &placed)?,
                Look::Bars => {
                    // The curves share the room between two bars, but for a little.
                    let apart =
                        placed.windows(2).map(|pair| pair[1].0 - pair[0].0).min().unwrap_or(right - left);
                    let wide = (f64::from(apart) * 0.85 / bars.len() as f64).max(1.0);
                    let own = bars.iter().position(|name| *name == curve.name).unwrap_or_default() as f64;
                    for (at, height) in &placed {
                        let from = f64::from(*at) + wide * (own - 0.5 * bars.len() as f64);
                        let corners =
                            [(from.round() as i32, *height), ((from + wide).round() as i32 - 1, bottom)];
                        root.draw(&Rectangle::new(corners, style.colour().filled()))?;
                    }
                }
                Look::Dots => {}
            }
            if matches!(curve.look, Look::Line | Look::Dots) {
                for at in &placed {
                    let speck = |size| Circle::new(*at, size, style.colour().filled());
                    match self.has_specks(&curve.name) {
                        false => style.sign(root, *at)?,
                        true if placed.len() <= 8 * CROWD => root.draw(&speck(2))?,
                        true => root.draw(&speck(1))?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the points of a curve are specks: there is a crowd of them, or most curves here are crowds.
    fn has_specks(&self, name: &str) -> bool {
        let signed: Vec<&Curve> =
            self.curves.iter().filter(|curve| matches!(curve.look, Look::Line | Look::Dots)).collect();
        let crowds = signed.iter().filter(|curve| curve.points.len() > CROWD).count();
        let most = 2 * crowds > signed.len();
        signed.iter().any(|curve| curve.name == name && (most || curve.points.len() > CROWD))
    }

    fn axes(&self, root: &Area<'_>, x: &Scale, y: &Scale) -> Result<(), Box<dyn Error>> {
        let (across, upwards) = (x.ticks(), y.ticks());
        for (tick, label) in across.iter().zip(labels(&across)) {
            let Some(at) = x.at(*tick) else { continue };
            root.draw(&PathElement::new(vec![(at, y.from), (at, y.to)], GRID.stroke_width(1)))?;
            root.draw(&Text::new(label, (at, y.from + 9), anchored(12, HPos::Center, VPos::Top)))?;
        }
        for (tick, label) in upwards.iter().zip(labels(&upwards)) {
            let Some(at) = y.at(*tick) else { continue };
            root.draw(&PathElement::new(vec![(x.from, at), (x.to, at)], GRID.stroke_width(1)))?;
            root.draw(&Text::new(label, (x.from - 6, at), anchored(12, HPos::Right, VPos::Center)))?;
        }
        let frame = vec![(x.from, y.to), (x.from, y.from), (x.to, y.from)];
        root.draw(&PathElement::new(frame, BLACK.stroke_width(1)))?;
        let middle = i32::midpoint(x.from, x.to);
        let below = anchored(13, HPos::Center, VPos::Top);
        root.draw(&Text::new(self.x.label.clone(), (middle, y.from + 29), below))?;
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
        assert_eq!(plain_ticks(0.0, 105.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let scale = Scale::new(&Axis::log("x"), [1e-6, 2.0, 0.0, f64::NAN].into_iter(), 0, 100);
        assert!(scale.ticks().contains(&1e-4) && scale.ticks().len() <= 8);
        assert_eq!(labels(&[0.25, 1e-6, 0.0]), ["0.25", "1e-6", "0"]);
    }

    #[test]
    fn neighbouring_ticks_have_labels_of_their_own() {
        assert_eq!(labels(&[3e-5, 3.5e-5, 4e-5]), ["3.0e-5", "3.5e-5", "4.0e-5"]);
        assert_eq!(labels(&[0.123_41, 0.123_43]), ["0.12341", "0.12343"]);
        assert_eq!(labels(&[1e-5, 1e-4]), ["1e-5", "1e-4"]);
        assert_eq!(labels(&[2.0, 2.0]), ["2", "2"]);
    }

    #[test]
    fn many_panels_take_several_rows() {
        let panel = Panel { title: "p".into(), x: Axis::linear("x"), y: Axis::linear("y"), curves: vec![] };
        let size = |count: usize| {
            let chart = Chart { title: "t".into(), panels: vec![panel.clone(); count] };
            let text = chart.svg().unwrap();
            text[..text.find('>').unwrap_or(0)].to_string()
        };
        assert!(size(3).contains("width=\"1290\" height=\"384\""), "{}", size(3));
        assert!(size(4).contains("width=\"860\" height=\"724\""), "{}", size(4));
        assert!(size(5).contains("width=\"1290\" height=\"724\""), "{}", size(5));
    }

    #[test]
    fn dashes_leave_gaps_and_go_round_corners() {
        let corner = [(0, 0), (10, 0), (10, 10)];
        assert_eq!(dashed(&corner, &[]), [corner.to_vec()]);
        let parts = dashed(&corner, &[8, 4]);
        assert_eq!(parts, [vec![(0, 0), (8, 0)], vec![(10, 2), (10, 10)]]);
        assert_eq!(dashed(&corner, &[12, 4])[0], [(0, 0), (10, 0), (10, 0), (10, 2)]);
        assert!(dashed(&[(3, 3)], &[8, 4]).is_empty() && dashed(&[], &[8, 4]).is_empty());
    }

    /// Of two curves with the same points neither hides the other: colours, gaps and signs differ.
    #[test]
    fn a_curve_under_another_shows() {
        let points = vec![(0.0, 0.0), (1.0, 1.0)];
        let curves = vec![Curve::line("below", points.clone()), Curve::line("above", points)];
        let panel = Panel { title: "p".into(), x: Axis::linear("x"), y: Axis::percent("y"), curves };
        let text = Chart { title: "t".into(), panels: vec![panel] }.svg().unwrap();
        let lines = |colour: &str| {
            let of = |line: &&str| line.contains("<polyline") && line.contains(colour);
            text.lines().filter(of).map(str::to_string).collect::<Vec<_>>()
        };
        let (below, above) = (lines("#0072B2"), lines("#D55E00"));
        // A line in the legend and one in the panel, drawn through, under the dashes of the other.
        assert_eq!(below.len(), 2, "{text}");
        assert!(above.len() > 10, "{text}");
        assert!(text.contains("<circle"), "{text}");
    }

    #[test]
    fn curves_have_styles_of_their_own_and_only_the_first_is_drawn_through() {
        let styles: Vec<Style> = (0..49).map(|place| Style { place }).collect();
        for (place, style) in styles.iter().enumerate() {
            assert_eq!(style.dashes().is_empty(), place == 0, "{place}");
            let same = |other: &&Style| (other.colour(), other.shape()) == (style.colour(), style.shape());
            assert_eq!(styles.iter().filter(same).count(), 1, "{place}");
        }
    }

    #[test]
    fn crowds_are_specks_and_so_are_the_few_among_them() {
        let curve = |name: &str, count: usize| Curve::dots(name, vec![(1.0, 1.0); count]);
        let panel = |curves| Panel { title: "p".into(), x: Axis::linear("x"), y: Axis::linear("y"), curves };
        let some = panel(vec![curve("many", 500), curve("few", 9)]);
        assert!(some.has_specks("many") && !some.has_specks("few") && !some.has_specks("none"));
        let most = panel(vec![curve("many", 500), curve("as many", 61), curve("few", 9)]);
        assert!(most.has_specks("few"));
    }

    #[test]
    fn a_long_legend_takes_several_rows_and_names_stay_inside() {
        let names = ["a long name of a network"; 9];
        let places = entries(&names, 860);
        assert!(places.iter().all(|(x, _)| x + entry_width(names[0]) <= 860));
        assert!(places.windows(2).all(|pair| pair[0] != pair[1]) && places[8].1 > places[0].1);
        assert_eq!(entries(&["a", "b"], 10)[1].1, TITLE + ROW + ROW / 2, "one a row where none fits");
    }

    #[test]
    fn a_scale_shows_what_it_has_to_hold() {
        let scale = Scale::new(&Axis::percent("%"), [40.0, 50.0].into_iter(), 100, 0);
        assert!(scale.at(0.0).is_some() && scale.at(100.0).is_some());
        let ticks = Scale::new(&Axis::log("x"), [3e-4, 8e-3].into_iter(), 0, 100).ticks();
        assert!(ticks.len() >= 3 && ticks.iter().all(|tick| (2e-4..1e-2).contains(tick)), "{ticks:?}");
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
