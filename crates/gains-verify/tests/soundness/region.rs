//! What the tests share: bounds over a region, points inside it, paths through its graphs.

use std::time::Duration;

use gains_core::{Arithmetic, BoxVec, Interval, Network, OdeBlock, Precision};
use gains_ode::{Action, Graph, Inference};
use gains_verify::limits::Clock;
use gains_verify::property::LinearRow;
use gains_verify::steps::{Reach, StepTrace};
use gains_verify::{
    Analysis, Budget, Method, Problem, Property, Reason, Report, Settings, StepForm, Verifier,
};

use crate::direct::Trial;

pub const METHODS: [Method; 5] =
    [Method::Box, Method::Linear, Method::Gains, Method::Tight, Method::Symbolic];
/// Methods with the ways they may bound a solver step.
pub const MODES: [(Method, StepForm); 8] = [
    (Method::Box, StepForm::Independent),
    (Method::Box, StepForm::Difference),
    (Method::Linear, StepForm::Independent),
    (Method::Linear, StepForm::Difference),
    (Method::Gains, StepForm::Independent),
    (Method::Gains, StepForm::Difference),
    (Method::Tight, StepForm::Difference),
    (Method::Symbolic, StepForm::Independent),
];
pub const ARITHMETICS: [Arithmetic; 2] = [Arithmetic::Real, Arithmetic::Float32];

/// Enough for every small network, and an end to those whose graphs explode.
pub fn budget() -> Budget<'static> {
    Budget { timeout: Some(Duration::from_secs(20)), vertices: 150, ..Budget::default() }
}

/// Rows over the outputs without constants.
pub struct RowsOf {
    pub rows: Vec<Vec<f64>>,
}

impl RowsOf {
    pub fn new(rows: &[&[f64]]) -> Self {
        Self { rows: rows.iter().map(|row| row.to_vec()).collect() }
    }

    /// What one output is ahead of each other.
    pub fn classification(outputs: usize, label: usize) -> Self {
        let lead = |other: usize| {
            let mut row = vec![0.0; outputs];
            (row[label], row[other]) = (1.0, -1.0);
            row
        };
        Self { rows: (0..outputs).filter(|other| *other != label).map(lead).collect() }
    }

    /// As the verifier takes it.
    pub fn property(&self) -> Property {
        let linear = |row: &Vec<f64>| LinearRow::new(row.clone(), 0.0);
        Property::all(self.rows.first().map_or(0, Vec::len), self.rows.iter().map(linear).collect())
    }
}

/// The first ODE block of a network.
pub fn ode_of(network: &Network) -> &OdeBlock {
    let (_, ode) = network.body.odes().next().expect("the network has an ODE");
    &ode.block
}

/// Decides about all images within a radius of one, pixels kept inside a range.
pub fn certify(
    network: &Network,
    (image, label, eps): (&[f64], usize, f64),
    pixels: Interval,
    settings: &Settings,
    budget: Budget<'_>,
) -> Report {
    let problem = Problem::classification(network, image, label, eps, pixels);
    Verifier::new(settings.clone()).decide(&problem, budget)
}

/// The enclosures of a region and the lower bounds of a property.
pub fn analyse<'a>(
    network: &'a Network,
    region: &BoxVec,
    property: &RowsOf,
    (method, form): (Method, StepForm),
    arithmetic: Arithmetic,
) -> Result<(Analysis<'a>, Vec<f64>), Reason> {
    let clock = Clock::start(budget());
    let analysis = Analysis::new(&network.body, vec![region.clone()], method, form, arithmetic, clock)?;
    let bounds = analysis.bound(&property.property().rows(network.body.output_shape()))?;
    assert!(bounds.lower.iter().all(|b| !b.is_nan()), "a bound is not a number");
    for (_, variant) in &bounds.variants {
        assert!(variant.iter().zip(&bounds.lower).all(|(v, best)| v <= best), "the best bound is the best");
    }
    Ok((analysis, bounds.lower))
}

/// Random rows over the outputs, and the classification of one class.
pub fn property(random: &mut fastrand::Rng, outputs: usize) -> RowsOf {
    let mut property = RowsOf::classification(outputs, random.usize(0..outputs));
    property.rows.push((0..outputs).map(|_| 2.0 * random.f64() - 1.0).collect());
    property
}

/// A box around a random point; sides differ, some are missing altogether.
pub fn random_region(random: &mut fastrand::Rng, inputs: usize, width: f64) -> BoxVec {
    let lower: Vec<f64> = (0..inputs).map(|_| random.f64() * 2.0 - 0.7).collect();
    let upper = lower.iter().map(|l| l + width * random.f64() * f64::from(random.u8(..) > 30)).collect();
    BoxVec::new(lower, upper)
}

/// A random point, or a random corner, of a region.
pub fn point(random: &mut fastrand::Rng, region: &BoxVec) -> Vec<f64> {
    let corner = random.bool();
    (0..region.len())
        .map(|i| {
            let (l, u) = (region.lower[i], region.upper[i]);
            let t = if corner { f64::from(random.bool()) } else { random.f64() };
            if t == 1.0 { u } else { (l + t * (u - l)).clamp(l, u) }
        })
        .collect()
}

/// Rounds a point to float32 inside the region; `None` where a side holds no such number.
pub fn to_float32(point: &[f64], region: &BoxVec) -> Option<Vec<f64>> {
    let mut rounded = Vec::with_capacity(point.len());
    for (i, &x) in point.iter().enumerate() {
        let near = x as f32;
        let fits = [near, near.next_up(), near.next_down()]
            .into_iter()
            .map(f64::from)
            .find(|y| region.lower[i] <= *y && *y <= region.upper[i]);
        rounded.push(fits?);
    }
    Some(rounded)
}

/// Walks down the gradient of one row of the property, staying in the region.
pub fn descend(network: &Network, row: &[f64], start: Vec<f64>, region: &BoxVec) -> Vec<f64> {
    let mut at = start;
    for step in 0..8 {
        let Ok(run) = Inference::run(network, &at, Precision::Float64) else { break };
        let gradient = run.pull_back(row);
        for i in 0..at.len() {
            let side = region.upper[i] - region.lower[i];
            let size = side * if step < 3 { 1.0 } else { 0.2 };
            if gradient[i] != 0.0 {
                at[i] = (at[i] - size * gradient[i].signum()).clamp(region.lower[i], region.upper[i]);
            }
        }
    }
    at
}

/// Whether a trajectory is a path of the graph, compared by times, step sizes and actions. A decision to
/// increase may stand in the graph as keeping, where both lead to the same place.
pub fn is_path(graph: &Graph<Reach, StepTrace>, trials: &[Trial]) -> bool {
    let mut at = Some(0);
    for trial in trials {
        let Some(vertex) = at.map(|i: usize| &graph.vertices[i]) else { return false };
        if (vertex.time - trial.time).abs() > 1e-9 || (vertex.step - trial.step).abs() > 1e-9 {
            return false;
        }
        let find = |action: Action| {
            vertex.outgoing.iter().map(|&e| &graph.edges[e]).find(|edge| edge.action == action)
        };
        let edge = find(trial.action)
            .or_else(|| (trial.action == Action::Increase).then(|| find(Action::Keep)).flatten());
        let Some(edge) = edge else { return false };
        at = edge.to;
    }
    at.is_none()
}

/// `row · output` in float64.
pub fn value(row: &[f64], output: &[f64]) -> f64 {
    row.iter().zip(output).map(|(a, y)| a * y).sum()
}
