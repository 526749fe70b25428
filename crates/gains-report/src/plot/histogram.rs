//! How values are distributed, stacked by verdict.

use maud::{Markup, html};

use super::{Frame, Scale, coordinate};
use crate::document::Verdict;
use crate::number::short;

const BINS: usize = 24;

/// Draws a histogram over powers of ten.
pub fn histogram(label: &str, x_title: &str, values: &[(f64, Verdict)]) -> Markup {
    let x = Scale::decades(values.iter().map(|v| v.0));
    let mut counts = [[0_usize; Verdict::ALL.len()]; BINS];
    for (value, verdict) in values {
        let bin = ((x.place(*value) * BINS as f64) as usize).min(BINS - 1);
        counts[bin][*verdict as usize] += 1;
    }
    let most = counts.iter().map(|bin| bin.iter().sum::<usize>()).max().unwrap_or(0);
    let y = Scale::counts(most);
    let frame = Frame { label, size: (460.0, 220.0), x_title, y_title: "samples", x, y };
    let (low, high) = x.ends();
    let edge = |bin: usize| low * (high / low).powf(bin as f64 / BINS as f64);
    let marks = html! {
        @for (bin, counts) in counts.iter().enumerate() {
            @let (left, right) = (frame.x(edge(bin)), frame.x(edge(bin + 1)));
            @for (verdict, from, to) in stack(counts) {
                rect class={ "bar " (verdict.word()) } x=(coordinate(left)) width=(coordinate(right - left - 0.8))
                    y=(coordinate(frame.y(to as f64))) height=(coordinate(frame.y(from as f64) - frame.y(to as f64))) {
                    title { (to - from) " " (verdict.word()) ", " (short(edge(bin))) " to " (short(edge(bin + 1))) }
                }
            }
        }
    };
    html! {
        figure {
            (frame.draw(&marks))
            figcaption class="legend" {
                @for verdict in Verdict::ALL {
                    @if values.iter().any(|v| v.1 == verdict) {
                        span { i class={ "swatch area " (verdict.word()) } {} (verdict.word()) }
                    }
                }
            }
        }
    }
}

/// The parts of a bar that are not empty: verdict, from, to.
fn stack(counts: &[usize]) -> Vec<(Verdict, usize, usize)> {
    let mut below = 0;
    let mut parts = Vec::new();
    for (verdict, count) in Verdict::ALL.into_iter().zip(counts) {
        if *count > 0 {
            parts.push((verdict, below, below + count));
        }
        below += count;
    }
    parts
}
