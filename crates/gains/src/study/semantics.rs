//! What "verified" is about: how far the shipped solver is from the exact flow on the certified region.
//!
//! A verdict is about the network *with its solver*. Here points of the region are solved again with half the tolerance
//! and with dopri8 at 1e-10, and the outputs and decisions compared.

use gains_core::description::{ControllerSpec, RungeKutta};
use gains_core::{Network, Precision, Program};
use gains_ode::Inference;

use super::{
    Axis, Case, Chart, Curve, Done, Entry, Figures, Given, Networks, Panel, Report, Study, Table, Takes,
    mean, shown,
};
use crate::campaign::watch;
use crate::failure::Failure;
use crate::question::Drawn;

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "semantics",
    about: "how far the shipped solver is from the exact flow on the region",
    paper: "–",
    takes: Takes::Classifiers,
    open: |given| Ok(Box::new(Semantics::new(given)?)),
};

const EPS: f64 = 0.1;

struct Semantics {
    networks: Networks,
    finer: Vec<[Program; 2]>,
    grid: Vec<(usize, usize)>,
    points: usize,
}

impl Semantics {
    fn new(given: &Given) -> Result<Self, Failure> {
        let networks = Networks::open(given, "fashion-mnist", given.size(20, 100))?;
        let grid = networks.pairs();
        let finer = (0..networks.len()).map(|n| finer(networks.model(n).network())).collect();
        Ok(Self { finer, grid, points: given.size(8, 32), networks })
    }
}

/// The network with half the tolerance, and with a solver that is as good as exact.
fn finer(network: &Network) -> [Program; 2] {
    let halved = network.body.with_solvers(|ode| {
        let mut solver = ode.block.solver.clone();
        match &mut solver.controller {
            ControllerSpec::ControlledAdaptive(spec) => spec.tolerance *= 0.5,
            ControllerSpec::Adaptive { tolerance, .. } => *tolerance *= 0.5,
            ControllerSpec::Fixed { steps } => *steps *= 2,
        }
        solver
    });
    let exact = network.body.with_solvers(|ode| {
        let mut solver = ode.block.solver.clone();
        solver.method = RungeKutta::Dopri8;
        solver.controller = ControllerSpec::Adaptive {
            tolerance: 1e-10,
            initial_step: 0.05,
            safety: 0.9,
            shrink: 0.2,
            grow: 10.0,
        };
        solver
    });
    [halved, exact]
}

impl Study for Semantics {
    fn setting(&self) -> String {
        format!("eps {EPS}, {} points an image; {}", self.points, self.networks.setting())
    }

    fn cases(&self) -> Vec<Case> {
        let case = |(network, sample): &(usize, usize)| {
            Case(vec![("network", self.networks.name(*network).into()), ("sample", sample.to_string())])
        };
        self.grid.iter().map(case).collect()
    }

    fn work(&self, case: usize) -> Result<Figures, String> {
        let (network, sample) = self.grid[case];
        let subject = self.networks.subject(network).map_err(|failure| failure.message)?;
        let points = subject.question(sample, EPS).draw(self.points, sample as u64)?;
        let shipped = &self.networks.model(network).network().body;
        let run = |program: &Program, Drawn(point): &Drawn| {
            let inputs: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
            let run = Inference::run_within(program, &inputs, Precision::Float64, &watch());
            run.map(|run| (run.prediction(), run.output)).map_err(|error| error.to_string())
        };
        let (mut drift, mut turned, mut lead) = ([0.0_f64; 2], [0.0_f64; 2], f64::INFINITY);
        for point in &points {
            let (class, output) = run(shipped, point)?;
            let second = output
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != class)
                .map(|(_, y)| *y)
                .fold(f64::MIN, f64::max);
            lead = lead.min(output[class] - second);
            for (index, program) in self.finer[network].iter().enumerate() {
                let (other, finer) = run(program, point)?;
                let apart = output.iter().zip(&finer).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                drift[index] = drift[index].max(apart);
                turned[index] += if other == class { 0.0 } else { 1.0 };
            }
        }
        Ok(Figures::default()
            .with("drift halved", drift[0])
            .with("drift exact", drift[1])
            .with("turned halved", turned[0])
            .with("turned exact", turned[1])
            .with("points", points.len() as f64)
            .with("smallest lead", lead))
    }

    fn report(&self, done: &Done<'_>) -> Report {
        let mut rows = Vec::new();
        let mut panels = Vec::new();
        for network in 0..self.networks.len() {
            let mine = |case: usize| self.grid[case].0 == network;
            let points: f64 = done.values("points", mine).iter().sum();
            let mut curves = Vec::new();
            for (name, label) in [("halved", "half the tolerance"), ("exact", "dopri8 at 1e-10")] {
                let drift = done.values(&format!("drift {name}"), mine);
                let turned: f64 = done.values(&format!("turned {name}"), mine).iter().sum();
                let largest = drift.iter().copied().fold(0.0, f64::max);
                rows.push(vec![
                    self.networks.name(network).into(),
                    label.into(),
                    drift.len().to_string(),
                    mean(&drift).map_or("–".into(), |drift| format!("{drift:.1e}")),
                    format!("{largest:.1e}"),
                    shown(Some(turned), 0),
                    shown(Some(points), 0),
                ]);
                let leads = done.values("smallest lead", mine);
                curves.push(Curve::dots(label, leads.into_iter().zip(drift).collect()));
            }
            panels.push(Panel {
                title: self.networks.name(network).into(),
                x: Axis::linear("smallest lead of the class among the points"),
                y: Axis::log("largest change of a logit"),
                curves,
            });
        }
        let header = vec![
            "network",
            "compared with",
            "images",
            "mean drift",
            "largest drift",
            "answers turned",
            "points",
        ];
        let title = format!("The shipped solver against finer ones, points within {EPS}");
        Report {
            tables: vec![Table::of(title.clone(), header, rows)],
            charts: vec![("semantics", Chart { title, panels })],
            remarks: vec![
                "A verdict speaks of the network with its solver. Where the drift is below the certified margin, the sampled points of \
                 the exact flow agree with it; that is an observation at points, not a proof."
                    .into(),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use gains_ode::Watch;

    use super::*;

    #[test]
    fn a_finer_solver_is_near_and_the_same_one_is_the_same() {
        let given = Given::for_tests();
        let study = Semantics::new(&given).unwrap();
        let figures = study.work(0).unwrap();
        let drift = figures.get("drift exact").unwrap();
        assert!(drift > 0.0 && drift < 0.1, "{drift}");
        let network = study.networks.model(0).network();
        let same = network.body.with_solvers(|ode| ode.block.solver.clone());
        let input = vec![0.5; network.input().len()];
        let run = |program: &Program| {
            Inference::run_within(program, &[&input], Precision::Float64, &Watch::default()).unwrap().output
        };
        assert_eq!(run(&same), run(&network.body));
    }
}
