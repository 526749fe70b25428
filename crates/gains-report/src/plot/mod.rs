//! Charts as SVG, coloured by the style sheet so that they follow light and dark.

mod curves;
mod histogram;
mod scale;
mod scatter;

use maud::{Markup, html};

pub use curves::{Curve, curves};
pub use histogram::histogram;
pub use scale::Scale;
pub use scatter::{Dot, scatter};

/// A rectangle with axes.
pub struct Frame<'a> {
    /// What a reader who cannot see the picture is told.
    pub label: &'a str,
    /// Width and height of the whole picture.
    pub size: (f64, f64),
    /// Below the horizontal axis.
    pub x_title: &'a str,
    /// Above the vertical axis.
    pub y_title: &'a str,
    /// Horizontal scale.
    pub x: Scale,
    /// Vertical scale.
    pub y: Scale,
}

const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 40.0;

impl Frame<'_> {
    /// Where a value is, from the left.
    pub fn x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (self.size.0 - LEFT - RIGHT)
    }

    /// Where a value is, from the top.
    pub fn y(&self, value: f64) -> f64 {
        self.size.1 - BOTTOM - self.y.place(value) * (self.size.1 - TOP - BOTTOM)
    }

    /// The lowest place of the picture's inside.
    pub fn floor(&self) -> f64 {
        self.size.1 - BOTTOM
    }

    /// The picture with what is drawn inside.
    pub fn draw(&self, marks: &Markup) -> Markup {
        let (width, height) = self.size;
        let (floor, right) = (self.floor(), width - RIGHT);
        html! {
            svg class="chart" viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(self.label) {
                @for (value, text) in self.y.ticks() {
                    @let y = coordinate(self.y(value));
                    line class="grid" x1=(LEFT) x2=(right) y1=(y) y2=(y) {}
                    text class="tick end" x=(LEFT - 6.0) y=(coordinate(self.y(value) + 4.0)) { (text) }
                }
                @for (value, text) in self.x.ticks() {
                    text class="tick middle" x=(coordinate(self.x(value))) y=(floor + 16.0) { (text) }
                }
                line class="axis" x1=(LEFT) x2=(right) y1=(floor) y2=(floor) {}
                text class="title middle" x=(f64::midpoint(LEFT, right)) y=(height - 6.0) { (self.x_title) }
                text class="title" x="4" y="14" { (self.y_title) }
                (marks)
            }
        }
    }
}

/// A place in a picture, to a tenth of a unit.
pub fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), String::from)
}

/// The `d` of a path through points, in units of the picture.
pub fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    for (x, y) in points {
        text.push(if text.is_empty() { 'M' } else { 'L' });
        text += &format!("{} {}", coordinate(x), coordinate(y));
    }
    text
}
