//! Does it matter for accuracy which solver runs a network? Standard accuracy and accuracy under attack with the
//! controlled and with the continuous adaptive solver (paper, appendix "Comparison CAS and AS").
//!
//! The paper trains a network with each solver (`as-training`). Here the *same* network is run with both, which is the
//! stricter question: the network was made for one of them. A network that was trained with a continuous solver can be
//! given as well; its own solver is then the continuous one.

use gains_core::Network;
use gains_core::description::{ControllerSpec, SolverSpec};

use super::{
    Axis, Case, Chart, Curve, Done, Entry, Figures, Given, Networks, Panel, Report, Study, Table, Takes,
    mean, shown,
};
use crate::campaign::unlimited;
use crate::failure::Failure;

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "as-accuracy",
    about: "standard and attacked accuracy with controlled and with continuous adaptive solvers",
    paper: "table of CAS and AS, appendix",
    takes: Takes::Classifiers,
    open: |given| Ok(Box::new(AsAccuracy::new(given)?)),
};

const RADII: [f64; 3] = [0.1, 0.15, 0.2];
/// Tolerance and first step where a network does not say.
const TOLERANCE: f64 = 0.005;
const FIRST_STEP: f64 = 0.1;
/// What solvers are called.
const SOLVERS: [&str; 2] = ["CAS", "AS"];

/// What the paper has: data set, training, solver, standard accuracy and one for each radius; none at 0.2 on
/// Fashion-MNIST.
const PAPER: [(&str, &str, &str, [&str; 4]); 8] = [
    ("mnist", "standard", "AS", ["99.2 ± 0.1", "24.5 ± 2.0", "1.9 ± 0.7", "0.0 ± 0.2"]),
    ("mnist", "standard", "CAS", ["98.8 ± 0.4", "23.2 ± 3.5", "2.5 ± 1.6", "0.3 ± 0.2"]),
    ("mnist", "adversarial", "AS", ["99.2 ± 0.2", "95.9 ± 0.2", "88.5 ± 0.6", "54.6 ± 2.4"]),
    ("mnist", "adversarial", "CAS", ["99.2 ± 0.1", "95.4 ± 0.4", "88.3 ± 0.6", "59.4 ± 3.2"]),
    ("fashion-mnist", "standard", "AS", ["90.3 ± 0.4", "1.3 ± 1.6", "0.5 ± 0.7", ""]),
    ("fashion-mnist", "standard", "CAS", ["88.6 ± 1.2", "0.1 ± 0.1", "0.0 ± 0.0", ""]),
    ("fashion-mnist", "adversarial", "AS", ["80.8 ± 0.5", "70.3 ± 0.3", "53.6 ± 3.1", ""]),
    ("fashion-mnist", "adversarial", "CAS", ["80.9 ± 0.7", "70.2 ± 0.5", "47.1 ± 3.7", ""]),
];

struct AsAccuracy {
    networks: Networks,
    /// Each network with a continuous solver.
    continuous: Vec<Network>,
    grid: Vec<(usize, usize)>,
}

/// The continuous solver of the same tableau, tolerance and first step, with the usual safety factors.
fn continuous(solver: &SolverSpec) -> SolverSpec {
    let (tolerance, initial_step) = match &solver.controller {
        ControllerSpec::ControlledAdaptive(spec) => (spec.tolerance, spec.initial_step),
        ControllerSpec::Adaptive { tolerance, initial_step, .. } => (*tolerance, *initial_step),
        ControllerSpec::Fixed { .. } => (TOLERANCE, FIRST_STEP),
    };
    let controller =
        ControllerSpec::Adaptive { tolerance, initial_step, safety: 0.9, shrink: 0.2, grow: 10.0 };
    SolverSpec { method: solver.method, controller, end_time: solver.end_time }
}

impl AsAccuracy {
    fn new(given: &Given) -> Result<Self, Failure> {
        let networks = Networks::open(given, "fashion-mnist", given.size(20, 1000))?;
        let change = |network: usize| {
            let shipped = networks.model(network).network();
            let body = shipped.body.with_solvers(|ode| continuous(&ode.block.solver));
            Network { body, ..shipped.clone() }
        };
        let continuous = (0..networks.len()).map(change).collect();
        let grid = networks.pairs();
        Ok(Self { networks, continuous, grid })
    }
}

impl Study for AsAccuracy {
    fn setting(&self) -> String {
        format!("PGD of 200 steps of 0.0025; {}", self.networks.setting())
    }

    fn cases(&self) -> Vec<Case> {
        let case = |(network, sample): &(usize, usize)| {
            Case(vec![("network", self.networks.name(*network).into()), ("sample", sample.to_string())])
        };
        self.grid.iter().map(case).collect()
    }

    /// What breaks within a radius breaks within every larger one.
    fn work(&self, case: usize) -> Result<Figures, String> {
        let (network, sample) = self.grid[case];
        let subject = self.networks.subject(network).map_err(|failure| failure.message)?;
        let word = |is: bool| if is { 1.0 } else { 0.0 };
        let mut figures = Figures::default();
        for solver in SOLVERS {
            let ask = |eps: f64| {
                let question = subject.question(sample, eps);
                if solver == "AS" { question.asked_of(&self.continuous[network]) } else { question }
            };
            let mut right = ask(0.0).is_answered(unlimited());
            figures = figures.with(&format!("{solver} standard"), word(right));
            for eps in RADII {
                right = right && ask(eps).withstands(sample, unlimited());
                figures = figures.with(&format!("{solver} {eps}"), word(right));
            }
        }
        Ok(figures)
    }

    fn report(&self, done: &Done<'_>) -> Report {
        let (mut rows, mut panels) = (Vec::new(), Vec::new());
        for network in 0..self.networks.len() {
            let (name, data_set) = (self.networks.name(network), self.networks.data_set(network));
            let mut curves = Vec::new();
            for solver in SOLVERS {
                let paper = PAPER.iter().find(|(set, training, with, _)| {
                    *set == data_set && name.to_lowercase().contains(training) && *with == solver
                });
                let share = |figure: &str| {
                    let found = done.values(figure, |case| self.grid[case].0 == network);
                    mean(&found).map(|share| 100.0 * share)
                };
                let images = done.values(&format!("{solver} standard"), |c| self.grid[c].0 == network).len();
                let mut row = vec![name.to_string(), solver.into(), images.to_string()];
                let mut points = Vec::new();
                let columns = std::iter::once((0.0, format!("{solver} standard")))
                    .chain(RADII.map(|eps| (eps, format!("{solver} {eps}"))));
                for (place, (eps, figure)) in columns.enumerate() {
                    let theirs = paper.map_or("", |(.., figures)| figures[place]);
                    let beside = if theirs.is_empty() { String::new() } else { format!(" ({theirs})") };
                    row.push(shown(share(&figure), 1) + &beside);
                    points.extend(share(&figure).map(|share| (eps, share)));
                }
                rows.push(row);
                curves.push(Curve::line(solver, points));
            }
            panels.push(Panel {
                title: name.into(),
                x: Axis::linear("ε"),
                y: Axis::percent("percent of images"),
                curves,
            });
        }
        let header = vec![
            "network",
            "solver",
            "images",
            "standard % (paper)",
            "attacked, eps 0.1 (paper)",
            "eps 0.15 (paper)",
            "eps 0.2 (paper)",
        ];
        let title = "Accuracy with controlled (CAS) and continuous (AS) solvers".to_string();
        Report {
            tables: vec![Table::of(title.clone(), header, rows)],
            charts: vec![("as-accuracy", Chart { title, panels })],
            remarks: vec![
                "Here one network is run with both solvers; the paper trains one with each (three seeds)."
                    .into(),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_with_a_continuous_solver_is_its_own_comparison() {
        let study = AsAccuracy::new(&Given::for_tests()).unwrap();
        let again = continuous(&continuous(&study.continuous[0].body.odes().next().unwrap().1.block.solver));
        assert_eq!(again, study.continuous[0].body.odes().next().unwrap().1.block.solver);
        let figures = study.work(1).unwrap();
        assert_eq!((figures.get("CAS standard"), figures.get("AS standard")), (Some(1.0), Some(1.0)));
        for solver in SOLVERS {
            let at = |eps: f64| figures.get(&format!("{solver} {eps}")).unwrap();
            assert!(at(0.1) >= at(0.15) && at(0.15) >= at(0.2));
        }
    }
}
