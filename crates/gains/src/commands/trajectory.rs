//! `gains trajectory`: the concrete trajectory and all that a region can cause.

mod picture;

use gains_core::Precision;
use gains_ode::Action;
use gains_ode::integrate::Visit;
use serde_json::{Value, json};

use crate::cli::{Global, TrajectoryArgs};
use crate::failure::{Failure, Outcome};
use crate::question::{Budget, Model, Plan, Purpose, Question, Ran, Task, TrajectoryGraph};
use crate::subject::{Selection, Source, Subject};
use crate::table::layout;
use crate::{files, interrupt, panics, tell};

/// Runs the command.
pub fn run(args: &TrajectoryArgs, global: &Global) -> Outcome {
    let model = Model::new(files::load_model(args.model.as_deref())?);
    let plan = Plan::new(model.task(), &args.bounds, None, Purpose::Certify)?;
    let mut data = args.data.clone();
    data.samples = Some(Selection::of([args.sample]));
    let source = Source::open(&model, &data, &args.series, &args.region)?;
    let subject = source.subject(&model, &data, &args.series, &args.region)?;
    subject.check_radius(args.eps)?;
    panics::contain(|| show(args, &plan, &*subject)).map_err(|caught| {
        Failure::new(format!("{}: gains panicked: {caught}", subject.name(args.sample)))
            .hint("please report it with the model")
    })??;
    tell::written(args.json.iter().chain(&args.svg), global.quiet);
    Ok(())
}

fn show(args: &TrajectoryArgs, plan: &Plan, subject: &dyn Subject) -> Outcome {
    panics::provoke(args.sample);
    let name = subject.name(args.sample);
    let question = subject.question(args.sample, args.eps);
    let concrete = question.run(Precision::Float64, &crate::campaign::watch()).map_err(|e| {
        Failure::new(format!("{name}: {e}")).hint("`gains model show` tells how the network is solved")
    })?;
    if concrete.trajectory.is_empty() {
        return Err(Failure::usage("the model has no ODE block, so there is no trajectory")
            .hint("`gains model show` lists its layers"));
    }
    let budget =
        Budget { vertices: args.max_vertices, interrupted: &interrupt::requested, ..Budget::default() };
    let title =
        format!("{}, {name}, eps {}, method {}", subject.network().description.name, args.eps, plan.name());
    let shown = question.bound(plan.way(), budget, |bounded| {
        let Some(graph) = bounded.graph else {
            return Err(Failure::new("the analysis has no trajectory graph"));
        };
        let trajectory = &concrete.trajectory[..];
        let end = trajectory.last().map_or(1.0, |v| v.time + v.step);
        let view = View { title, trajectory, graph, end };
        let key = subject.key(args.sample);
        let words = words(&question, &key, &concrete, bounded.margin);
        tell::print(&format!("{}\n\n{}\n{words}", view.title, view.summary()))?;
        if let Some(path) = &args.json {
            let value = view.json(&subject.network().hash, args, key, bounded.margin);
            files::write_atomically(path, (value.to_string() + "\n").as_bytes())?;
        }
        match &args.svg {
            Some(path) => files::write_atomically(path, picture::draw(&view)?.as_bytes()),
            None => Ok(()),
        }
    });
    shown.map_err(|reason| {
        Failure::new(format!("no graph for {name} at eps {}: {reason}", args.eps))
            .hint("try a smaller --eps or a larger --max-vertices")
    })?
}

/// What is said about the sample besides its trajectories.
fn words(question: &Question<'_>, (key, value): &(&str, Value), ran: &Ran, margin: f64) -> String {
    match question.task() {
        Task::Forecasts => {
            let mae = question.error(&ran.output);
            format!("mean absolute error {mae:.6}, certified to stay {margin:.6} below its limit\n")
        }
        Task::Classes => {
            let prediction = ran.largest();
            format!("{key} {value}, prediction {prediction}, smallest certified margin {margin:.6}\n")
        }
    }
}

/// What is shown.
struct View<'a> {
    title: String,
    trajectory: &'a [Visit],
    graph: &'a TrajectoryGraph,
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

    fn json(&self, model: &str, args: &TrajectoryArgs, (key, named): (&str, Value), margin: f64) -> Value {
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
            "model": model, "sample": args.sample, key: named, "eps": args.eps, "margin": margin,
            "end_time": self.end, "trajectory": trajectory, "vertices": vertices, "edges": edges,
            "end": {"mean_width": self.graph.end.mean_width()},
        })
    }
}
