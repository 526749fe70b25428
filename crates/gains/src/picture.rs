//! What all pictures share: an SVG canvas on white and a row of legend entries.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::failure::Failure;

/// What is painted on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Paints a picture of the given width and height in pixels on white. Texts may hold names out of files.
pub fn svg(
    size: (u32, u32),
    paint: impl FnOnce(&Area<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<String, Failure> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let painted = root
            .fill(&WHITE)
            .map_err(Into::into)
            .and_then(|()| paint(&root))
            .and_then(|()| root.present().map_err(Into::into));
        painted.map_err(|e| Failure::new(format!("cannot draw the picture: {e}")))?;
    }
    Ok(readable(text))
}

/// The painter writes `<` and its like as XML wants it, but passes characters that XML 1.0 has no way to write.
/// They can only come out of names, so they are shown as elsewhere.
fn readable(svg: String) -> String {
    let forbidden =
        |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{fffe}' | '\u{ffff}');
    if !svg.contains(forbidden) {
        return svg;
    }
    let mut text = String::with_capacity(svg.len());
    for c in svg.chars() {
        match c {
            c if forbidden(c) => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

/// Text that starts at its point, centred vertically.
pub fn label(size: u32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).pos(Pos::new(HPos::Left, VPos::Center))
}

/// The sign beside the name of a legend entry.
#[derive(Clone, Copy)]
pub enum Mark {
    /// A line.
    Line(RGBColor),
    /// A disc.
    Dot(RGBColor),
    /// A light area.
    Band(RGBColor),
    /// The name explains itself.
    None,
}

/// How strong the colour of a band is.
pub const BAND: f64 = 0.18;

/// A row of legend entries from `(x, y)` to the right.
pub fn legend(root: &Area<'_>, (x, y): (i32, i32), entries: &[(&str, Mark)]) -> Result<(), Box<dyn Error>> {
    let mut x = x;
    for (name, mark) in entries {
        match mark {
            Mark::Line(colour) => {
                root.draw(&PathElement::new(vec![(x, y), (x + 22, y)], colour.stroke_width(4)))?;
            }
            Mark::Dot(colour) => root.draw(&Circle::new((x + 11, y), 5, colour.filled()))?,
            Mark::Band(colour) => {
                root.draw(&Rectangle::new([(x, y - 6), (x + 22, y + 6)], colour.mix(BAND).filled()))?;
            }
            Mark::None => x -= 28,
        }
        root.draw(&Text::new(*name, (x + 28, y), label(14)))?;
        x += 50 + 7 * name.len() as i32;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_breaks_the_picture() {
        let name = "\x1b[31m0<script>&\"'\u{8}\u{ffff}\r\u{9b}]]>";
        let text = svg((200, 50), |root| {
            root.draw(&Text::new(name, (10, 10), label(14)))?;
            legend(root, (10, 30), &[(name, Mark::None)])
        });
        let text = text.unwrap();
        assert_eq!(text.matches("\\u001b[31m0&lt;script&gt;&amp;").count(), 2, "{text}");
        assert!(!text.contains("<script"));
        let allowed =
            |c: char| matches!(c, '\n' | '\t' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
        assert!(text.chars().all(allowed), "{text:?}");
    }
}
