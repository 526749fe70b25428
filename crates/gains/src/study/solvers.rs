//! Which solver should a user pick who wants certificates? One setting of the solver is changed at a time.

use std::time::{Duration, Instant};

use gains_core::description::{ControllerSpec, RungeKutta, SolverSpec};
use gains_core::{Arithmetic, Network, Precision};

use super::{
    Axis, Case, Chart, Curve, Done, Entry, Figures, Given, Networks, Panel, Report, Study, Table, Takes,
    mean, shown,
};
use crate::campaign::{unlimited, watch};
use crate::failure::Failure;
use crate::question::{Budget, Method, StepForm, Way};
use crate::table::{median, percent};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "solvers",
    about: "factor, tolerance, smallest step, tableau and fixed steps: accuracy, graph size, certified accuracy, time",
    paper: "–",
    takes: Takes::Classifiers,
    open: |given| Ok(Box::new(Solvers::new(given)?)),
};

const EPS: f64 = 0.1;
/// Seconds a bound may take.
const PATIENCE: u64 = 10;

/// A change of the shipped solver, and what it is called.
type Change = (&'static str, fn(&mut SolverSpec));

/// What is changed, one at a time. A change that the solver has no setting for leaves it as it is and is left out.
const CHANGES: [Change; 16] = [
    ("as shipped", |_| {}),
    ("factor 3", |s| controlled(s, |c| c.factor = 3)),
    ("factor 4", |s| controlled(s, |c| c.factor = 4)),
    ("tolerance ×10", |s| controlled(s, |c| c.tolerance *= 10.0)),
    ("tolerance ×2", |s| controlled(s, |c| c.tolerance *= 2.0)),
    ("tolerance ÷2", |s| controlled(s, |c| c.tolerance *= 0.5)),
    ("tolerance ÷10", |s| controlled(s, |c| c.tolerance *= 0.1)),
    ("smallest step ×2", |s| controlled(s, |c| c.minimum_step *= 2.0)),
    ("smallest step ÷2", |s| controlled(s, |c| c.minimum_step *= 0.5)),
    ("bosh3", |s| scheme(s, RungeKutta::Bosh3)),
    ("fehlberg2", |s| scheme(s, RungeKutta::Fehlberg2)),
    ("dopri8", |s| scheme(s, RungeKutta::Dopri8)),
    ("euler, 2 steps", |s| fixed(s, RungeKutta::Euler, 2)),
    ("midpoint, 2 steps", |s| fixed(s, RungeKutta::Midpoint, 2)),
    ("rk4, 2 steps", |s| fixed(s, RungeKutta::Rk4, 2)),
    ("rk4, 8 steps", |s| fixed(s, RungeKutta::Rk4, 8)),
];

fn controlled(spec: &mut SolverSpec, change: impl Fn(&mut gains_core::description::ControlledSpec)) {
    if let ControllerSpec::ControlledAdaptive(controlled) = &mut spec.controller {
        change(controlled);
    }
}

/// Another tableau, which only a controller that looks at errors needs an estimate of.
fn scheme(spec: &mut SolverSpec, method: RungeKutta) {
    if matches!(spec.controller, ControllerSpec::ControlledAdaptive(_)) {
        spec.method = method;
    }
}

fn fixed(spec: &mut SolverSpec, method: RungeKutta, steps: u32) {
    *spec = SolverSpec { method, controller: ControllerSpec::Fixed { steps }, end_time: spec.end_time };
}

/// A network with a changed solver.
struct Variant {
    network: usize,
    name: &'static str,
    model: Network,
}

struct Solvers {
    networks: Networks,
    variants: Vec<Variant>,
    grid: Vec<(usize, usize)>,
}

impl Solvers {
    fn new(given: &Given) -> Result<Self, Failure> {
        let networks = Networks::open(given, "fashion-mnist", given.size(10, 50))?;
        let mut variants = Vec::new();
        for network in 0..networks.len() {
            let shipped = networks.model(network).network();
            for (name, change) in CHANGES {
                let changed = |ode: &gains_core::Ode| {
                    let mut spec = ode.block.solver.clone();
                    change(&mut spec);
                    spec
                };
                let same = shipped.body.odes().all(|(_, ode)| changed(ode) == ode.block.solver);
                if same && name != CHANGES[0].0 {
                    continue;
                }
                let model = Network { body: shipped.body.with_solvers(changed), ..shipped.clone() };
                variants.push(Variant { network, name, model });
            }
        }
        let of = |(network, sample): (usize, usize)| {
            let mine = |(_, variant): &(usize, &Variant)| variant.network == network;
            let found = variants.iter().enumerate().filter(mine).map(|(variant, _)| (variant, sample));
            found.collect::<Vec<_>>()
        };
        let grid = networks.pairs().into_iter().flat_map(of).collect();
        Ok(Self { networks, variants, grid })
    }
}

impl Study for Solvers {
    fn setting(&self) -> String {
        format!("eps {EPS}, tight, {PATIENCE} s a bound; {}", self.networks.setting())
    }

    fn cases(&self) -> Vec<Case> {
        let case = |(variant, sample): &(usize, usize)| {
            let Variant { network, name, .. } = self.variants[*variant];
            Case(vec![
                ("network", self.networks.name(network).into()),
                ("solver", name.into()),
                ("sample", sample.to_string()),
            ])
        };
        self.grid.iter().map(case).collect()
    }

    fn work(&self, case: usize) -> Result<Figures, String> {
        let (variant, sample) = self.grid[case];
        let Variant { network, model, .. } = &self.variants[variant];
        let subject = self.networks.subject(*network).map_err(|failure| failure.message)?;
        let question = subject.question(sample, EPS).asked_of(model);
        let ran = question.run(Precision::Float64, &watch())?;
        let correct = question.is_answered(unlimited());
        let figures = Figures::default()
            .with("correct", if correct { 1.0 } else { 0.0 })
            .with("steps", (ran.accepted + ran.rejected) as f64)
            .with("evaluations", ran.evaluations as f64);
        if !correct {
            return Ok(figures);
        }
        let way =
            Way { method: Method::Tight, step_form: StepForm::Difference, arithmetic: Arithmetic::Real };
        let budget = Budget { timeout: Some(Duration::from_secs(PATIENCE)), ..unlimited() };
        let started = Instant::now();
        let bounded = question.bound(way, budget, |bounded| (bounded.margin, bounded.size.0));
        let seconds = started.elapsed().as_secs_f64();
        let certified = bounded.as_ref().is_ok_and(|(margin, _)| *margin > 0.0);
        Ok(figures
            .with("certified", if certified { 1.0 } else { 0.0 })
            .with_some("margin", bounded.as_ref().ok().map(|b| b.0))
            .with_some("vertices", bounded.ok().map(|b| b.1 as f64))
            .with("ms", 1e3 * seconds))
    }

    fn report(&self, done: &Done<'_>) -> Report {
        let mut rows = Vec::new();
        let mut curves: Vec<Vec<Curve>> = self.networks_of(|_| Vec::new());
        for (index, Variant { network, name, .. }) in self.variants.iter().enumerate() {
            let mine = |case: usize| self.grid[case].0 == index;
            let finished = done.values("correct", mine).len();
            let count = |figure: &str| done.values(figure, mine).iter().filter(|v| **v > 0.0).count();
            let vertices = median(done.values("vertices", mine));
            rows.push(vec![
                self.networks.name(*network).into(),
                (*name).into(),
                percent(count("correct"), finished),
                percent(count("certified"), finished),
                shown(mean(&done.values("steps", mine)), 1),
                shown(mean(&done.values("evaluations", mine)), 0),
                shown(vertices, 0),
                shown(median(done.values("ms", mine)), 1),
                shown(mean(&done.values("margin", mine)), 3),
            ]);
            let certified = 100.0 * count("certified") as f64 / finished.max(1) as f64;
            curves[*network].push(Curve::dots(name, vertices.map(|v| (v, certified)).into_iter().collect()));
        }
        let header = vec![
            "network",
            "solver",
            "standard %",
            "certified %",
            "steps",
            "evaluations",
            "vertices",
            "ms",
            "mean margin",
        ];
        let title = format!("Solvers, at ε {EPS} with tight");
        let panels = curves.into_iter().enumerate().map(|(network, curves)| {
            let kinds = kinds(curves);
            Panel {
                title: self.networks.name(network).into(),
                x: Axis::log("median vertices of the graph"),
                y: Axis::percent("percent of images certified"),
                curves: kinds,
            }
        });
        let chart = Chart { title: title.clone(), panels: panels.collect() };
        let remarks = vec![
            "The networks were trained with the solver they are shipped with; another one computes another network. Medians of \
             times, on as many threads as were asked for."
                .into(),
        ];
        Report { tables: vec![Table::of(title, header, rows)], charts: vec![("solvers", chart)], remarks }
    }
}

impl Solvers {
    fn networks_of<T>(&self, one: impl Fn(usize) -> T) -> Vec<T> {
        (0..self.networks.len()).map(one).collect()
    }
}

/// Gathers single points into the few kinds of change that a legend has room for.
fn kinds(curves: Vec<Curve>) -> Vec<Curve> {
    let mut gathered: Vec<Curve> = Vec::new();
    for curve in curves {
        let kind = match curve.name.split([' ', ',']).next().unwrap_or_default() {
            "as" => "as shipped",
            "factor" => "factor",
            "tolerance" => "tolerance",
            "smallest" => "smallest step",
            "bosh3" | "fehlberg2" | "dopri8" => "tableau",
            _ => "fixed steps",
        };
        match gathered.iter_mut().find(|other| other.name == kind) {
            Some(other) => other.points.extend(curve.points),
            None => gathered.push(Curve::dots(kind, curve.points)),
        }
    }
    gathered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_solver_is_one_variant_and_changes_change_it() {
        let given = Given::for_tests();
        let study = Solvers::new(&given).unwrap();
        assert_eq!(study.variants.len(), CHANGES.len());
        let first = study.work(0).unwrap();
        assert!(first.get("steps").unwrap() >= 1.0);
        let euler = study.variants.iter().position(|v| v.name == "euler, 2 steps").unwrap();
        let case = study.grid.iter().position(|(variant, _)| *variant == euler).unwrap();
        let figures = study.work(case).unwrap();
        assert_eq!((figures.get("steps"), figures.get("evaluations")), (Some(2.0), Some(2.0)));
    }
}
