//! Two values per sample against each other.

use maud::{Markup, html};

use super::{Frame, Scale, coordinate, path};

/// One sample.
pub struct Dot {
    /// Both values.
    pub at: (f64, f64),
    /// Its class in the style sheet.
    pub class: &'static str,
    /// What is said of it.
    pub title: String,
}

/// Draws dots on two axes of one scale, with the diagonal, on which both values agree, and both zeros.
pub fn scatter(label: &str, (x_title, y_title): (&str, &str), dots: &[Dot], scale: Scale) -> Markup {
    let (low, high) = scale.ends();
    let frame = Frame { label, size: (460.0, 400.0), x_title, y_title, x: scale, y: scale };
    let along = |from: (f64, f64), to: (f64, f64)| {
        path([from, to].into_iter().map(|(x, y)| (frame.x(x), frame.y(y))))
    };
    let marks = html! {
        path class="guide" d=(along((low, low), (high, high))) {}
        path class="zero" d=(along((low, 0.0), (high, 0.0))) {}
        path class="zero" d=(along((0.0, low), (0.0, high))) {}
        @for dot in dots {
            circle class={ "dot " (dot.class) } cx=(coordinate(frame.x(dot.at.0))) cy=(coordinate(frame.y(dot.at.1))) r="3.5" {
                title { (dot.title) }
            }
        }
    };
    frame.draw(&marks)
}
