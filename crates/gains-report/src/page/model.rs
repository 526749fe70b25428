//! The card of a network, with its parts drawn in the order in which a sample passes them.

use maud::{Markup, html};

use crate::model::{Block, ModelCard};

const WIDTH: usize = 176;
const GAP: usize = 22;
const LINE: usize = 15;
/// Boxes side by side before the diagram goes on below.
const ACROSS: usize = 6;
/// Characters that fit into a box.
const FIT: usize = 24;
/// Layers inside an ODE block that are drawn.
const INSIDE: usize = 8;

/// The section, if there are networks.
pub fn draw(models: &[ModelCard]) -> Option<Markup> {
    if models.is_empty() {
        return None;
    }
    Some(html! { @for model in models { article class="card" {
        h3 { bdi { (model.name) } " " code { (model.hash) } }
        dl { @for (key, value) in &model.facts { dt { (key) } dd { bdi { (value) } } } }
        div class="scroll" tabindex="0" role="group" aria-label="Architecture" { (diagram(&model.blocks)) }
        details {
            summary { "Layers as a table" }
            div class="scroll" tabindex="0" role="group" aria-label="Layers" { table {
                thead { tr { th scope="col" { "part" } th scope="col" { "output" } th scope="col" { "parameters" } } }
                tbody { @for block in &model.blocks {
                    tr { th scope="row" { bdi { (block.title) } } td { (block.shape) } td { (block.parameters) } }
                    @for line in &block.inside { tr { td colspan="3" class="inside" { bdi { (line) } } } }
                } }
            } }
        }
        @if let Some(training) = &model.training {
            details { summary { "Training record" } pre tabindex="0" { (training) } }
        }
    } } })
}

fn diagram(blocks: &[Block]) -> Markup {
    let heights: Vec<usize> =
        blocks.iter().map(|block| 48 + LINE * block.inside.len().min(INSIDE + 1)).collect();
    let rows: Vec<usize> =
        heights.chunks(ACROSS).map(|row| row.iter().max().copied().unwrap_or(0) + GAP).collect();
    let top = |row: usize| 8 + rows[..row].iter().sum::<usize>();
    let width = 24 + blocks.len().min(ACROSS) * (WIDTH + GAP);
    let height = top(rows.len());
    let place = |i: usize| (16 + (i % ACROSS) * (WIDTH + GAP), top(i / ACROSS));
    let words: Vec<&str> = blocks.iter().map(|block| block.title.as_str()).collect();
    html! {
        svg class="diagram" viewBox=(format!("0 0 {width} {height}")) width=(width) role="img"
            aria-label={ "Architecture: " (words.join(", then ")) } {
            @for (i, block) in blocks.iter().enumerate() {
                @let (x, y) = place(i);
                @if i > 0 { path class="arrow" d=(arrow(place(i - 1), (x, y))) {} }
                rect class={ "box" @if !block.inside.is_empty() { " ode" } } x=(x) y=(y) width=(WIDTH) height=(heights[i]) rx="5" { title { (block.title) } }
                text class="name" x=(x + 8) y=(y + 18) { (cut(&block.title, FIT)) }
                text class="shape" x=(x + 8) y=(y + 36) {
                    (block.shape) @if block.parameters > 0 { " · " (block.parameters) }
                }
                @for (line, text) in inside(block).iter().enumerate() {
                    text class="inside" x=(x + 14) y=(y + 54 + LINE * line) { (cut(text, FIT - 3)) }
                }
            }
        }
    }
}

fn inside(block: &Block) -> Vec<String> {
    let mut lines: Vec<String> = block.inside.iter().take(INSIDE).cloned().collect();
    if block.inside.len() > INSIDE {
        lines.push(format!("… {} more", block.inside.len() - INSIDE));
    }
    lines
}

/// From the right side of a box to the left side of the next, around the corner where a row ends.
fn arrow((x, y): (usize, usize), (to_x, to_y): (usize, usize)) -> String {
    let (start, middle, end) = (x + WIDTH, y + 24, to_y + 24);
    if to_y == y {
        return format!("M{start} {middle}H{to_x}m-5 -4l5 4l-5 4");
    }
    let between = to_y - GAP / 2;
    format!("M{start} {middle}h8V{between}H6V{end}H{to_x}m-5 -4l5 4l-5 4")
}

fn cut(text: &str, fit: usize) -> String {
    let text = text.trim();
    if text.chars().count() <= fit {
        return text.into();
    }
    text.chars().take(fit - 1).chain(['…']).collect()
}
