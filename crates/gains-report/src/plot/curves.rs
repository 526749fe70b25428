//! Lines over an axis, some with a band between them.

use maud::{Markup, html};

use super::{Frame, Scale, coordinate, path};
use crate::number::short;

/// One line.
pub struct Curve<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// Its class in the style sheet.
    pub class: &'a str,
    /// Its points; a gap where there is no value.
    pub points: Vec<(f64, Option<f64>)>,
}

/// Draws curves; the area between the two of `band` is shaded.
pub fn curves(
    label: &str,
    (x_title, y_title): (&str, &str),
    curves: &[Curve<'_>],
    band: Option<(usize, usize, &str)>,
    y: Option<Scale>,
) -> Markup {
    let points = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let x = Scale::around(points().map(|p| p.0));
    let y = y.unwrap_or_else(|| Scale::fitting(points().filter_map(|p| p.1)));
    let frame = Frame { label, size: (460.0, 270.0), x_title, y_title, x, y };
    let dots = points().count() <= 60 * curves.len();
    let marks = html! {
        @if let Some((low, high, class)) = band {
            path class={ "band " (class) } d=(area(&frame, &curves[low].points, &curves[high].points)) {}
        }
        @for curve in curves {
            @for part in parts(&curve.points) {
                path class={ "curve " (curve.class) } d=(path(part.iter().map(|p| (frame.x(p.0), frame.y(p.1))))) {}
                @if dots {
                    @for (x, y) in part {
                        circle class={ "dot " (curve.class) } cx=(coordinate(frame.x(x))) cy=(coordinate(frame.y(y))) r="3.5" {
                            title { (curve.name) ": " (short(y)) " at " (short(x)) }
                        }
                    }
                }
            }
        }
    };
    html! {
        figure {
            (frame.draw(&marks))
            figcaption class="legend" {
                @for curve in curves { span { i class={ "swatch " (curve.class) } {} (curve.name) } }
                @if let Some((_, _, class)) = band { span { i class={ "swatch area " (class) } {} (class) } }
            }
        }
    }
}

/// Runs of points without a gap.
fn parts(points: &[(f64, Option<f64>)]) -> Vec<Vec<(f64, f64)>> {
    let runs = points.split(|point| point.1.is_none());
    let full = runs.map(|run| run.iter().filter_map(|(x, y)| Some((*x, (*y)?))).collect::<Vec<_>>());
    full.filter(|run| !run.is_empty()).collect()
}

fn area(frame: &Frame<'_>, low: &[(f64, Option<f64>)], high: &[(f64, Option<f64>)]) -> String {
    let there = |points: &[(f64, Option<f64>)]| -> Vec<(f64, f64)> {
        points.iter().filter_map(|(x, y)| Some((frame.x(*x), frame.y((*y)?)))).collect()
    };
    let back = there(high);
    path(there(low).into_iter().chain(back.into_iter().rev())) + "Z"
}
