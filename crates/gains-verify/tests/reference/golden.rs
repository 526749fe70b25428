//! The golden files: predictions, trajectories, graphs and bounds.

use std::io::Read;

use gains_core::{Arithmetic, Interval, LowerSlope, Network, Precision};
use gains_data::Dataset;
use gains_ode::Inference;
use gains_verify::{Budget, Clock, Method, Problem, Settings, Variant, Verifier};
use serde_json::Value;

use crate::support;

const TOLERANCE: f64 = 1e-6;

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().map(|a| a.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
}

/// Bounds, logits and times: 1e-6 absolute.
fn close(ours: &[f64], theirs: &[f64], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (a, b) in ours.iter().zip(theirs) {
        assert!((a - b).abs() <= TOLERANCE, "{what}: {a} against {b}");
    }
}

/// Error intervals reach 10⁴ where boxes are wide: 1e-6 relative beyond 1.
fn close_relative(ours: &[f64], theirs: &[f64], what: &str) {
    for (a, b) in ours.iter().zip(theirs) {
        assert!((a - b).abs() <= TOLERANCE * b.abs().max(1.0), "{what}: {a} against {b}");
    }
}

fn at_least(ours: &[f64], theirs: &[f64], what: &str) {
    for (a, b) in ours.iter().zip(theirs) {
        assert!(*a >= b - TOLERANCE, "{what}: {a} below {b}");
    }
}

fn check_concrete(network: &Network, image: &[f64], sample: &Value, what: &str) {
    let run = Inference::run(network, image, Precision::Float64).expect("the network runs");
    assert_eq!(run.prediction() as u64, sample["pred"].as_u64().unwrap(), "{what}: prediction");
    close(&run.output, &floats(&sample["logits"]), &format!("{what}: logits"));
    let solution = run.solutions().next().unwrap();
    let theirs = sample["trajectory"].as_array().unwrap();
    assert_eq!(solution.trajectory.len(), theirs.len(), "{what}: trajectory length");
    for (visit, theirs) in solution.trajectory.iter().zip(theirs) {
        close(
            &[visit.time, visit.step],
            &[theirs["t"].as_f64().unwrap(), theirs["h"].as_f64().unwrap()],
            &format!("{what}: trajectory"),
        );
        assert_eq!(u64::from(visit.action.code()), theirs["action"].as_u64().unwrap(), "{what}: action");
    }
    let deltas: Vec<f64> = solution.trajectory.iter().take(2).map(|v| v.error).collect();
    close(&deltas, &floats(&sample["delta_first_two"]), &format!("{what}: error estimates"));
}

/// Compares one method on one sample; returns how many bounds were compared.
fn check_bounds(
    network: &Network,
    image: &[f64],
    label: usize,
    eps: f64,
    method: Method,
    golden: &Value,
    what: &str,
) {
    let settings = Settings { arithmetic: Arithmetic::Real, ..Settings::default() };
    let clock = Clock::start(Budget::default());
    let problem = Problem::classification(network, image, label, eps, Interval::new(0.0, 1.0));
    let (bounds, analysis) = Verifier::new(settings).bounds(&problem, method, clock).expect(what);
    let (vertices, edges) = analysis.graph_size();
    assert_eq!(vertices as u64, golden["n_vertices"].as_u64().unwrap(), "{what}: vertices");
    assert_eq!(edges as u64, golden["n_edges"].as_u64().unwrap(), "{what}: edges");
    let graph = analysis.graphs().next().unwrap();
    let steps = golden["solver_steps"].as_array().unwrap();
    assert_eq!(graph.vertices.len(), steps.len(), "{what}: solver steps");
    for (vertex, theirs) in graph.vertices.iter().zip(steps) {
        close(
            &[vertex.time, vertex.step],
            &[theirs["t"].as_f64().unwrap(), theirs["h"].as_f64().unwrap()],
            &format!("{what}: vertex"),
        );
        assert_eq!(vertex.place.settled, theirs["flag"].as_bool().unwrap(), "{what}: flag");
        if let (Some(error), Some(low), Some(high)) =
            (vertex.error, theirs["delta_lb"].as_f64(), theirs["delta_ub"].as_f64())
        {
            close_relative(&[error.lower, error.upper], &[low, high], &format!("{what}: error interval"));
        }
    }
    if let Some(list) = golden["graph"]["edges"].as_array() {
        // Both ends of every edge, on a grid far finer than any two places are apart.
        let end = |time: f64, step: f64, flag: bool| {
            ((time * 1e9).round() as i64, (step * 1e9).round() as i64, flag)
        };
        let golden_end = |place: &Value| {
            end(place[0].as_f64().unwrap(), place[1].as_f64().unwrap(), place[2].as_bool().unwrap())
        };
        let our_end = |vertex: Option<usize>| {
            vertex.map_or(end(1.0, 0.0, false), |v| {
                let v = &graph.vertices[v];
                end(v.time, v.step, v.place.settled)
            })
        };
        let mut ours: Vec<_> = graph
            .edges
            .iter()
            .map(|e| (our_end(Some(e.from)), our_end(e.to), e.action == gains_ode::Action::Reject))
            .collect();
        let mut theirs: Vec<_> = list
            .iter()
            .flat_map(|e| {
                let edge = (golden_end(&e["from"]), golden_end(&e["to"]), e["rejected"].as_bool().unwrap());
                std::iter::repeat_n(edge, e["mult"].as_u64().unwrap_or(1) as usize)
            })
            .collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{what}: edge list");
    }
    let theirs = floats(&golden["lb"]);
    match method {
        Method::Box => {
            // Theirs are over a box of the outputs; ours are taken back through the last layer besides.
            let plain = problem.property.rows(problem.program.output_shape()).lower_bounds(analysis.output());
            close(&plain, &theirs, &format!("{what}: bounds"));
            at_least(&bounds.lower, &theirs, &format!("{what}: bounds behind the last layer"));
        }
        Method::Linear => close(&bounds.lower, &theirs, &format!("{what}: bounds")),
        Method::Gains | Method::Tight | Method::Stepwise | Method::Symbolic => {
            at_least(&bounds.lower, &theirs, &format!("{what}: combined bounds"));
            let end = bounds.at_end.as_ref().expect("an ODE was passed");
            close(end, &floats(&golden["lb_hyb"]), &format!("{what}: hybrid"));
            for (slope, key) in [
                (LowerSlope::MinArea, "lb_dp_minarea"),
                (LowerSlope::Zero, "lb_dp_lambda0"),
                (LowerSlope::One, "lb_dp_lambda1"),
            ] {
                let variant = Variant::uniform(slope);
                let (_, ours) = bounds.variants.iter().find(|(v, _)| *v == variant).unwrap();
                close(ours, &floats(&golden[key]), &format!("{what}: {key}"));
            }
        }
    }
}

fn check_file(file: &str, weights: (&str, &str), dataset: Dataset) {
    let Some(folder) = support::folder(file) else { return };
    let path = folder.join("golden").join(format!("{file}.json.gz"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let Some(images) = support::images(&folder, dataset, 20) else { return };
    let network = support::network(&folder, weights.0, weights.1);
    let mut compared = 0;
    for sample in golden["samples"].as_array().unwrap() {
        let index = sample["index"].as_u64().unwrap() as usize;
        let label = sample["label"].as_u64().unwrap() as usize;
        assert_eq!(images.label(index), label);
        let image = images.image(index);
        check_concrete(&network, &image, sample, &format!("{file} sample {index}"));
        for (eps, modes) in sample["eps"].as_object().unwrap() {
            for (name, method) in [("box", Method::Box), ("linear", Method::Linear), ("gains", Method::Gains)]
            {
                let Some(golden) = modes.get(name) else { continue };
                let what = format!("{file} sample {index} eps {eps} {name}");
                check_bounds(&network, &image, label, eps.parse().unwrap(), method, golden, &what);
                compared += 1;
            }
        }
    }
    println!("{file}: {compared} (sample, eps, method) triples agree");
    assert!(compared > 50);
}

#[test]
fn fashion_mnist_agrees_with_the_golden_file() {
    check_file("fmnist_target_0.11_seed_12345", ("fmnist", "prov_eps0.11_seed12345"), Dataset::FashionMnist);
}

#[test]
fn mnist_agrees_with_the_golden_file() {
    check_file("mnist_target_0.11_seed_12345", ("mnist", "prov_eps0.11_seed12345"), Dataset::Mnist);
}
