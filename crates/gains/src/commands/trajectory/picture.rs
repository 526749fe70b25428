//! The trajectory graph as a picture: time to the right, step size (logarithmic) upwards.

use gains_ode::Action;
use plotters::prelude::*;

use super::View;
use crate::failure::Failure;
use crate::picture::{Area, Mark, label, legend, svg};

const KEEP: RGBColor = RGBColor(70, 110, 170);
const INCREASE: RGBColor = RGBColor(60, 150, 90);
const REJECT: RGBColor = RGBColor(200, 110, 60);
const CONCRETE: RGBColor = RGBColor(20, 20, 20);
const UNCHECKED: RGBColor = RGBColor(170, 170, 170);

fn colour(action: Action) -> RGBColor {
    match action {
        Action::Keep => KEEP,
        Action::Increase => INCREASE,
        Action::Reject => REJECT,
    }
}

/// Draws the picture.
pub fn draw(view: &View<'_>) -> Result<String, Failure> {
    svg((1100, 640), |root| paint(view, root))
}

fn paint(view: &View<'_>, root: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let steps = view
        .graph
        .vertices
        .iter()
        .map(|v| v.step.log2())
        .chain(view.trajectory.iter().map(|v| v.step.log2()));
    let (low, high) = steps.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), s| (l.min(s), h.max(s)));
    let mut chart = ChartBuilder::on(root)
        .caption(&view.title, ("sans-serif", 19))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(72)
        .build_cartesian_2d(-0.02 * view.end..1.08 * view.end, low - 0.6..high + 1.1)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("time")
        .y_desc("step size")
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 14))
        .y_label_formatter(&|y| format!("{:.3}", y.exp2()))
        .draw()?;
    let place = |vertex: usize| {
        let v = &view.graph.vertices[vertex];
        // Places where the solver has stopped checking sit a little lower than their twins.
        (v.time, v.step.log2() - if v.place.settled { 0.22 } else { 0.0 })
    };
    // Each edge is drawn towards its target, the far half fainter, so that its direction shows.
    let many = (view.graph.edges.len() as f64 / 60.0).clamp(0.0, 1.0);
    for edge in &view.graph.edges {
        let from = place(edge.from);
        // At the end no further step has a size: trajectories run out at the size of their last one.
        let to = edge.to.map_or((view.end, from.1), place);
        let middle = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
        let strong = colour(edge.action).mix(0.85 - 0.45 * many).stroke_width(2);
        let faint = colour(edge.action).mix(0.40 - 0.20 * many).stroke_width(2);
        chart.draw_series([
            PathElement::new(vec![from, middle], strong),
            PathElement::new(vec![middle, to], faint),
        ])?;
    }
    let mut path: Vec<(f64, f64)> = view.trajectory.iter().map(|v| (v.time, v.step.log2())).collect();
    path.extend(view.trajectory.last().map(|last| (view.end, last.step.log2())));
    chart.draw_series([PathElement::new(path, CONCRETE.stroke_width(4))])?;
    for (index, vertex) in view.graph.vertices.iter().enumerate() {
        let fill = if vertex.outgoing.len() > 1 { REJECT } else { KEEP };
        let style = if vertex.place.settled { UNCHECKED.filled() } else { fill.filled() };
        chart.draw_series([Circle::new(place(index), 5, style)])?;
    }
    let finish = vec![(view.end, low - 0.6), (view.end, high + 0.6)];
    chart.draw_series([PathElement::new(finish, CONCRETE.stroke_width(2))])?;
    chart.draw_series([Text::new("end", (1.015 * view.end, high + 0.6), label(15))])?;
    legend(
        root,
        (96, 56),
        &[
            ("solver's own trajectory", Mark::Line(CONCRETE)),
            ("keep", Mark::Line(KEEP)),
            ("increase", Mark::Line(INCREASE)),
            ("reject", Mark::Line(REJECT)),
            ("one decision", Mark::Dot(KEEP)),
            ("several decisions possible", Mark::Dot(REJECT)),
            ("no longer checked", Mark::Dot(UNCHECKED)),
        ],
    )?;
    let size = format!("{} vertices, {} edges", view.graph.vertex_count(), view.graph.edges.len());
    root.draw(&Text::new(size, (96, 76), label(14)))?;
    Ok(())
}
