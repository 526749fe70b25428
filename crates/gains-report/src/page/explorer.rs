//! The trajectory explorer: a table of the graphs that works alone, and the data from which the script draws them.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{data, samples};
use crate::Report;
use crate::document::{Document, Graph, Trajectory};
use crate::number::{Rounding, rounded, short};

/// Larger graphs are counted, not drawn: nobody could see anything, and the page would be slow.
const MOST: usize = 3000;

/// The section, if there are trajectories.
pub fn draw(report: &Report) -> Option<Markup> {
    let all: Vec<&Trajectory> = report.documents.iter().filter_map(Document::trajectory).collect();
    if all.is_empty() {
        return None;
    }
    Some(html! { @for (number, trajectory) in all.iter().enumerate() { (one(report, number, trajectory)) } })
}

fn one(report: &Report, number: usize, trajectory: &Trajectory) -> Markup {
    let id = format!("explorer-{number}");
    let dropped = trajectory.graphs.iter().filter(|graph| graph.vertices.len() > MOST).count();
    html! {
        article class="card explorer" id=(id) {
            h3 { bdi { (trajectory.name) } " " span class="quiet" { "sample " (trajectory.sample) ", " bdi { (trajectory.about) } ", network " code { (trajectory.model) } } }
            p class="quiet" {
                "All that the adaptive solver may do for inputs of the region: a vertex is a time and a step size, an edge a decision. The thick line is what it does for the sample itself."
            }
            div class="stage" {}
            @if dropped > 0 { p class="note" { (dropped) " graphs have more than " (MOST) " vertices and are not drawn." } }
            (table(trajectory))
            noscript { p class="note" { "The drawing needs JavaScript; the table does not." } }
            (data(&format!("{id}-data"), &value(report, trajectory)))
        }
    }
}

fn table(trajectory: &Trajectory) -> Markup {
    let count = |graph: &Graph, action: &str| graph.edges.iter().filter(|edge| edge.action == action).count();
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Graphs" { table {
            thead { tr {
                @for title in ["method", "ε", "vertices", "edges", "keep", "increase", "reject", "open decisions", "width at the end", "margin"] {
                    th scope="col" { (title) }
                }
            } }
            tbody { @for graph in &trajectory.graphs { tr {
                th scope="row" { bdi { (graph.method) } } td { (short(graph.eps)) }
                @if let Some(failure) = &graph.failure {
                    td colspan="8" { "no graph: " bdi { (failure) } }
                } @else {
                    td { (graph.vertices.len()) } td { (graph.edges.len()) }
                    @for action in ["keep", "increase", "reject"] { td { (count(graph, action)) } }
                    td { (open(graph)) } td { (rounded(graph.end_width, Rounding::Up)) }
                    td { (graph.margin.map_or("–".into(), |m| rounded(m, Rounding::Down))) }
                }
            } } }
        } }
    }
}

/// Vertices from which more than one decision leads on.
fn open(graph: &Graph) -> usize {
    let mut leaving = vec![0_usize; graph.vertices.len()];
    graph.edges.iter().for_each(|edge| leaving[edge.from] += 1);
    leaving.into_iter().filter(|count| *count > 1).count()
}

fn value(report: &Report, trajectory: &Trajectory) -> Value {
    let drawn = |graph: &&Graph| graph.failure.is_none() && graph.vertices.len() <= MOST;
    let graphs: Vec<Value> = trajectory.graphs.iter().filter(drawn).map(graph).collect();
    let concrete: Vec<Value> =
        trajectory.concrete.iter().map(|v| json!([v.time, v.step, v.error, v.action])).collect();
    let classes = samples::classes(report, Some(&trajectory.model));
    json!({
        "end": trajectory.end, "threshold": trajectory.increase_below, "concrete": concrete, "graphs": graphs,
        "label": trajectory.label, "classes": classes,
    })
}

fn graph(graph: &Graph) -> Value {
    let vertices: Vec<Value> = graph
        .vertices
        .iter()
        .map(|v| json!([v.time, v.step, v.error, v.width, u8::from(v.clipped) + 2 * u8::from(v.settled)]))
        .collect();
    let edges: Vec<Value> = graph.edges.iter().map(|e| json!([e.from, e.to, e.action])).collect();
    let bounds = graph.bounds.as_ref().map(samples::outputs);
    json!({
        "method": graph.method, "eps": graph.eps, "margin": graph.margin, "width": graph.end_width, "vertices": vertices,
        "edges": edges, "bounds": bounds,
    })
}
