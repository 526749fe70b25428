//! `gains trajectory`: the concrete trajectory and all that a region can cause.

mod picture;

use gains_core::Precision;
use gains_ode::integrate::Visit;
use gains_ode::{Action, Graph, Inference};
use gains_verify::box_step::{Reach, StepTrace};
use gains_verify::limits::Clock;
use gains_verify::verifier::Settings;
use gains_verify::{Budget, Verifier};
use serde_json::json;

use crate::cli::{Global, TrajectoryArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{note, plain, print, say};
use crate::samples::Selection;
use crate::table::layout;
use crate::{files, interrupt, samples};

/// Runs the command.
pub fn run(args: &TrajectoryArgs, global: &Global) -> Outcome {
    args.bounds.check_for_images()?;
    let verifier = Verifier::new(files::load_classifier(args.model.as_deref())?);
    let mut data = args.data.clone();
    data.samples = Some(args.sample.to_string().parse::<Selection>().map_err(Failure::usage)?);
    let (images, _) = samples::load(&data, verifier.network())?;
    let image = images.image(args.sample);
    let label = images.label(args.sample);
    let concrete = Inference::run(verifier.network(), &image, Precision::Float64)
        .map_err(|e| Failure::new(format!("sample {}: {e}", args.sample)))?;
    let Some(solution) = concrete.solutions().next() else {
        return Err(Failure::usage("the model has no ODE block, so there is no trajectory")
            .hint("`gains model show` lists its layers"));
    };
    let settings = Settings {
        step_form: args.bounds.step_form(),
        arithmetic: args.bounds.arithmetic.into(),
        ..Settings::default()
    };
    let clock = Clock::start(Budget {
        vertices: args.max_vertices,
        interrupted: &interrupt::requested,
        ..Budget::default()
    });
    let (bounds, analysis) = verifier
        .bounds(&image, label, args.eps, args.bounds.method(), &settings, clock)
        .map_err(|reason| {
            Failure::new(format!("no graph for sample {} at eps {}: {reason}", args.sample, args.eps))
                .hint("try a smaller --eps or a larger --max-vertices")
        })?;
    let Some(graph) = analysis.graphs().next() else {
        return Err(Failure::new("the analysis has no trajectory graph"));
    };
    let view = View {
        title: format!(
            "{}, sample {}, eps {}, method {}",
            verifier.network().description.name,
            args.sample,
            args.eps,
            args.bounds.name()
        ),
        trajectory: &solution.trajectory,
        graph,
        end: solution.trajectory.last().map_or(1.0, |v| v.time + v.step),
    };
    say!("{}\n", plain(&view.title))?;
    print(&view.summary())?;
    say!(
        "\nlabel {label}, prediction {}, smallest certified margin {:.6}",
        concrete.prediction(),
        bounds.margin()
    )?;
    if let Some(path) = &args.json {
        let value = view.json(&verifier.network().hash, args, label, bounds.margin());
        files::write_atomically(path, (value.to_string() + "\n").as_bytes())?;
    }
    if let Some(path) = &args.svg {
        files::write_atomically(path, picture::draw(&view)?.as_bytes())?;
    }
    if !global.quiet {
        for path in args.json.iter().chain(&args.svg) {
            note!("wrote {}", path.display());
        }
    }
    Ok(())
}

/// What is shown.
struct View<'a> {
    title: String,
    trajectory: &'a [Visit],
    graph: &'a Graph<Reach, StepTrace>,
    /// End time.
    end: f64,
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Reject => "reject",
        Action::Keep => "keep",
        Action::Increase => "increase",
    }
}

impl View<'_> {
    fn summary(&self) -> String {
        let concrete: Vec<Vec<String>> = self
            .trajectory
            .iter()
            .enumerate()
            .map(|(i, v)| {
                vec![
                    (i + 1).to_string(),
                    format!("{:.5}", v.time),
                    format!("{:.5}", v.step),
                    format!("{:.5}", v.error),
                    word(v.action).into(),
                ]
            })
            .collect();
        let mut text = layout(&["step", "time", "size", "error estimate", "action"], &concrete);
        let count = |action| self.graph.edges.iter().filter(|e| e.action == action).count();
        let settled = self.graph.vertices.iter().filter(|v| v.place.settled).count();
        let split = self.graph.vertices.iter().filter(|v| v.outgoing.len() > 1).count();
        text.push_str(&format!(
            "\nall trajectories of the region: {} vertices, {} edges ({} keep, {} increase, {} reject), \
             {split} places where they part, {settled} past the minimum step\n",
            self.graph.vertex_count(),
            self.graph.edges.len(),
            count(Action::Keep),
            count(Action::Increase),
            count(Action::Reject),
        ));
        if let Some(error) = self.graph.vertices.first().and_then(|v| v.error) {
            text.push_str(&format!(
                "error estimate of the first step in [{:.5}, {:.5}]\n",
                error.lower, error.upper
            ));
        }
        text.push_str(&format!("mean width of the state at the end: {:.5}\n", self.graph.end.mean_width()));
        let path = if self.graph.admits(self.trajectory) { "is" } else { "IS NOT" };
        text.push_str(&format!("the concrete trajectory {path} one of them\n"));
        text
    }

    fn json(&self, model: &str, args: &TrajectoryArgs, label: usize, margin: f64) -> serde_json::Value {
        let vertices: Vec<_> = self
            .graph
            .vertices
            .iter()
            .map(|v| {
                json!({
                    "time": v.time, "step": v.step, "clipped": v.place.is_clipped(), "settled": v.place.settled,
                    "error": v.error.map(|e| [e.lower, e.upper]), "mean_width": v.state.mean_width(),
                })
            })
            .collect();
        let edges: Vec<_> = self
            .graph
            .edges
            .iter()
            .map(|e| json!({"from": e.from, "to": e.to, "action": word(e.action)}))
            .collect();
        let trajectory: Vec<_> = self
            .trajectory
            .iter()
            .map(|v| json!({"time": v.time, "step": v.step, "error": v.error, "action": word(v.action)}))
            .collect();
        json!({
            "model": model, "sample": args.sample, "label": label, "eps": args.eps, "margin": margin,
            "end_time": self.end, "trajectory": trajectory, "vertices": vertices, "edges": edges,
            "end": {"mean_width": self.graph.end.mean_width()},
        })
    }
}
