//! `gains trajectory`: the concrete trajectory and all that a region can cause.

mod picture;

use gains_core::{Network, Precision, Step};
use gains_ode::Action;
use gains_ode::grid::Grid;
use gains_ode::integrate::Visit;
use serde_json::{Value, json};

use crate::cli::{BoundArgs, Global, TrajectoryArgs};
use crate::failure::{Failure, Outcome};
use crate::output::plain;
use crate::question::{Bounded, Budget, Model, Plan, Purpose, Question, Ran, Reason, Task, TrajectoryGraph};
use crate::runner::Stop;
use crate::subject::{Selection, Source, Subject};
use crate::table::layout;
use crate::{files, interrupt, panics, tell};

/// Runs the command.
pub fn run(args: &TrajectoryArgs, global: &Global) -> Outcome {
    if args.data.samples.is_some() {
        return Err(Failure::usage("one sample is shown at a time").hint("name it with --sample"));
    }
    let model = Model::asking(files::load_model(args.model.as_deref())?, &args.property)?;
    let plan = |method| {
        let bounds = BoundArgs { method, ..args.bounds.clone() };
        Plan::new(model.task(), &bounds, None, Purpose::Certify)
    };
    let methods = [args.bounds.method].into_iter().chain(args.against.iter().copied());
    let plans: Vec<Plan> = methods.map(plan).collect::<Result<_, _>>()?;
    let mut data = args.data.clone();
    data.samples = Some(Selection::of([args.sample]));
    let source = Source::open(&model, &data, &args.series, &args.region)?;
    let subject = source.subject(&model, &data, &args.series, &args.region)?;
    // Where boxes are given, radii mean nothing.
    let radii = subject.radii(&args.eps);
    radii.iter().try_for_each(|eps| subject.check_radius(*eps))?;
    let shown = panics::contain(|| show(args, &radii, &plans, &*subject)).map_err(|caught| {
        Failure::new(format!("{}: gains panicked: {caught}", subject.name(args.sample)))
            .hint("please report it with the model")
    })?;
    // What Ctrl-C cut short has not failed.
    if shown.is_err() && interrupt::requested() {
        tell::note("interrupted; nothing was written");
        return Ok(());
    }
    shown?;
    tell::written(args.json.iter().chain(&args.svg), global.quiet);
    Ok(())
}

/// Shows the first method at the first radius; the file has all of them.
fn show(args: &TrajectoryArgs, radii: &[f64], plans: &[Plan], subject: &dyn Subject) -> Outcome {
    panics::provoke(args.sample);
    let name = subject.name(args.sample);
    let (plan, eps) = (&plans[0], radii[0]);
    let question = subject.question(args.sample, eps);
    let concrete = concrete(&question, &name, &crate::campaign::watch())?;
    let network = plain(&subject.network().description.name);
    let title = format!("{network}, {name}, eps {eps}, method {}", plan.name());
    let mut file = None;
    let shown = question.bound(plan.way(), budget(args.max_vertices, &interrupt::requested), |bounded| {
        let Some(graph) = bounded.graph else {
            return Err(Failure::new("the analysis has no trajectory graph"));
        };
        let trajectory = concrete.trajectory();
        let end = trajectory.last().map_or(1.0, |v| v.time + v.step);
        let view = View { title, trajectory, graph, end };
        let key = subject.key(args.sample);
        let words = words(&question, &key, &concrete, bounded.margin);
        let text = format!("{}\n\n{}\n{words}", view.title, view.summary());
        tell::summary(&text, files::is_stdout(args.json.as_deref()))?;
        if args.json.is_some() {
            let graph = graph_json(plan, eps, graph, &bounded, &concrete.output);
            file = Some(view.json(subject.network(), args.sample, key, graph));
        }
        match &args.svg {
            Some(path) => files::write_atomically(path, picture::draw(&view)?.as_bytes()),
            None => Ok(()),
        }
    });
    shown.map_err(|reason| no_graph(&name, eps, &reason))??;
    match (&args.json, file) {
        (Some(path), Some(mut file)) => {
            file["graphs"] = all_graphs(args, radii, plans, subject, &file, &concrete.output);
            files::deliver(Some(path), (file.to_string() + "\n").as_bytes()).map(drop)
        }
        _ => Ok(()),
    }
}

/// What the file of `--json` says, of one method at one radius.
pub fn explore(
    subject: &dyn Subject,
    (sample, eps): (usize, f64),
    plan: &Plan,
    max_vertices: usize,
    stop: Stop<'_>,
) -> Result<Value, Failure> {
    let name = subject.name(sample);
    let question = subject.question(sample, eps);
    let watch = gains_ode::Watch { interrupted: &|| stop(), ..gains_ode::Watch::default() };
    let concrete = concrete(&question, &name, &watch)?;
    let shown = question.bound(plan.way(), budget(max_vertices, stop), |bounded| {
        let Some(graph) = bounded.graph else {
            return Err(Failure::new("the analysis has no trajectory graph"));
        };
        let trajectory = concrete.trajectory();
        let end = trajectory.last().map_or(1.0, |v| v.time + v.step);
        let view = View { title: String::new(), trajectory, graph, end };
        let drawn = graph_json(plan, eps, graph, &bounded, &concrete.output);
        let mut value = view.json(subject.network(), sample, subject.key(sample), drawn);
        value["svg"] = picture::draw(&View { title: name.clone(), ..view })?.into();
        Ok(value)
    });
    shown.map_err(|reason| no_graph(&name, eps, &reason))?
}

/// The run of the concrete solver, which must have something to show.
fn concrete(question: &Question<'_>, name: &str, watch: &gains_ode::Watch<'_>) -> Result<Ran, Failure> {
    let ran = question.run(Precision::Float64, watch).map_err(|e| {
        Failure::new(format!("{name}: {e}")).hint("`gains model show` tells how the network is solved")
    })?;
    if ran.trajectory().is_empty() {
        return Err(Failure::usage("the model has no ODE block, so there is no trajectory")
            .hint("`gains model show` lists its layers"));
    }
    Ok(ran)
}

fn no_graph(name: &str, eps: f64, reason: &Reason) -> Failure {
    let hint = match reason {
        Reason::NotControlled => "`gains model adapt` makes a network of it whose solver can be followed",
        Reason::TooManyVertices { .. } => "try a smaller --eps or a larger --max-vertices",
        _ => "try a smaller --eps or another --method",
    };
    Failure::new(format!("no graph for {name} at eps {eps}: {reason}")).hint(hint)
}

fn budget(vertices: usize, interrupted: Stop<'_>) -> Budget<'_> {
    Budget { vertices, interrupted, ..Budget::default() }
}

/// The graphs of all methods at all radii, the first of which is known; where there is none, why.
fn all_graphs(
    args: &TrajectoryArgs,
    radii: &[f64],
    plans: &[Plan],
    subject: &dyn Subject,
    known: &Value,
    output: &[f64],
) -> Value {
    let first = ["method", "eps", "margin", "bounds", "vertices", "edges", "end"]
        .map(|key| (key.to_owned(), known[key].clone()));
    let mut graphs = vec![Value::Object(first.into_iter().collect())];
    let asked = plans.iter().flat_map(|plan| radii.iter().map(move |eps| (plan, *eps)));
    for (plan, eps) in asked.skip(1) {
        let budget = budget(args.max_vertices, &interrupt::requested);
        let drawn = subject.question(args.sample, eps).bound(plan.way(), budget, |bounded| {
            bounded.graph.map(|graph| graph_json(plan, eps, graph, &bounded, output))
        });
        let failure = |why: String| json!({"method": plan.name(), "eps": eps, "failure": why});
        graphs.push(match drawn {
            Ok(Some(graph)) => graph,
            Ok(None) => failure("the analysis has no trajectory graph".into()),
            Err(reason) => failure(reason.to_string()),
        });
    }
    graphs.into()
}

fn graph_json(
    plan: &Plan,
    eps: f64,
    graph: &TrajectoryGraph,
    bounded: &Bounded<'_>,
    output: &[f64],
) -> Value {
    let vertices: Vec<_> = graph
        .vertices
        .iter()
        .map(|v| {
            json!({
                "time": v.time, "step": v.step, "clipped": v.place.is_clipped(), "settled": v.place.settled,
                "error": v.error.map(|e| [e.lower, e.upper]), "mean_width": v.state.mean_width(),
            })
        })
        .collect();
    let edges: Vec<_> =
        graph.edges.iter().map(|e| json!({"from": e.from, "to": e.to, "action": word(e.action)})).collect();
    json!({
        "method": plan.name(), "eps": eps, "margin": bounded.margin, "bounds": bounded.outputs(output),
        "vertices": vertices, "edges": edges,
        "end": {"mean_width": graph.end.mean_width()},
    })
}

/// Errors at or below this make the solver of the first ODE block increase its step, if it is a controlled one.
fn increase_below(network: &Network) -> Option<f64> {
    let solver = network.body.nodes().find_map(|(_, node)| match &node.operator {
        Step::Ode(ode) => Some(ode.solver()),
        Step::Plain(_) => None,
    });
    Grid::new(&solver?).ok()?.increase_below
}

/// What is said about the sample besides its trajectories.
fn words(question: &Question<'_>, (key, value): &(&str, Value), ran: &Ran, margin: f64) -> String {
    match question.task() {
        Task::Forecasts => {
            let mae = question.error(&ran.output);
            match question.is_usual() {
                true => {
                    format!("mean absolute error {mae:.6}, certified to stay {margin:.6} below its limit\n")
                }
                false => {
                    format!("mean absolute error {mae:.6}, certified margin of the property {margin:.6}\n")
                }
            }
        }
        Task::Regression => {
            format!("{key} {value}, output {:?}, smallest certified margin {margin:.6}\n", ran.output)
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

    /// What the file says of the first graph, as earlier versions did, and of the concrete run.
    fn json(&self, network: &Network, sample: usize, (key, named): (&str, Value), mut graph: Value) -> Value {
        let trajectory: Vec<_> = self
            .trajectory
            .iter()
            .map(|v| json!({"time": v.time, "step": v.step, "error": v.error, "action": word(v.action)}))
            .collect();
        graph["model"] = network.hash.as_str().into();
        graph["sample"] = sample.into();
        graph[key] = named;
        graph["end_time"] = self.end.into();
        graph["increase_below"] = increase_below(network).into();
        graph["trajectory"] = trajectory.into();
        graph
    }
}
