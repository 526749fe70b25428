//! Controlled against continuous adaptive solvers: what they reach, what they cost, how exact they are (paper,
//! section 4 and appendix).

use gains_core::description::{ControlledSpec, ControllerSpec, RungeKutta, SolverSpec};
use gains_core::{Network, Precision, Step};
use gains_ode::system::NeuralDynamics;
use gains_ode::{Action, ActionSet, Grid, Moment, Tableau, controller, solve_within};

use super::chart::Look;
use super::{
    Axis, Case, Chart, Curve, Done, Entry, Figures, Given, Networks, Panel, Report, Study, Table, Takes,
    deviation, mean, shown,
};
use crate::campaign::watch;
use crate::failure::Failure;

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "cas-vs-as",
    about: "controlled against continuous adaptive solvers: reach, steps and errors",
    paper: "figures of section 4 and of appendix B",
    takes: Takes::Classifiers,
    open: |given| Ok(Box::new(CasVsAs::new(given)?)),
};

/// The paper's tolerances on the scalar equation.
const TOLERANCES: [f64; 11] = [1e-6, 4.7e-6, 2.2e-5, 1e-4, 5e-4, 2.3e-3, 0.01, 0.05, 0.24, 1.0, 2.42];
/// End time of the scalar equation.
const END: f64 = 5.0;
/// First step of both solvers on the scalar equation.
const FIRST_STEP: f64 = 0.1;
/// Tolerance on networks, and parts of it for the continuous solver; the last is taken for the truth.
const NETWORK_TOLERANCE: f64 = 0.005;
const PARTS: [f64; 3] = [1.0, 0.5, 0.01];

struct CasVsAs {
    starts: usize,
    networks: Networks,
    grid: Vec<Work>,
}

/// A case.
#[derive(Clone, Copy)]
enum Work {
    /// The scalar equation at a tolerance.
    Scalar(f64),
    /// One image of a network.
    Image { network: usize, sample: usize },
}

impl CasVsAs {
    fn new(given: &Given) -> Result<Self, Failure> {
        let networks = Networks::open(given, "fashion-mnist", given.size(50, 1000))?;
        let scalar = TOLERANCES.into_iter().map(Work::Scalar);
        let images = networks.pairs().into_iter().map(|(network, sample)| Work::Image { network, sample });
        let grid = scalar.chain(images).collect();
        Ok(Self { starts: given.size(200, 2000), networks, grid })
    }

    /// `z' = z cos(0.8 cos² t + t)` from many starts: mean steps and errors of both solvers.
    fn scalar(&self, tolerance: f64) -> Result<Figures, String> {
        let right = |t: f64, z: &[f64]| vec![z[0] * (0.8 * t.cos().powi(2) + t).cos()];
        let mut random = fastrand::Rng::with_seed(7);
        let mut sums = [0.0; 4];
        for _ in 0..self.starts {
            let start = [2.5 * (2.0 * random.f64() - 1.0)];
            let run = |spec: &SolverSpec| {
                solve_within(&right, spec, &start, &watch()).map_err(|error| error.to_string())
            };
            let truth = run(&continuous(RungeKutta::Dopri8, 1e-7, END))?.state[0];
            for (index, spec) in
                [controlled(tolerance), continuous(RungeKutta::Dopri5, tolerance, END)].iter().enumerate()
            {
                let found = run(spec)?;
                sums[2 * index] += found.trajectory.len() as f64;
                sums[2 * index + 1] += (found.state[0] - truth).abs();
            }
        }
        let [cas_steps, cas_error, as_steps, as_error] = sums.map(|sum| sum / self.starts as f64);
        Ok(Figures::default()
            .with("CAS steps", cas_steps)
            .with("CAS error", cas_error)
            .with("AS steps", as_steps)
            .with("AS error", as_error))
    }

    /// The state at the end of the first ODE block by all solvers, against the most exact of them.
    fn image(&self, network: usize, sample: usize) -> Result<Figures, String> {
        let subject = self.networks.subject(network).map_err(|failure| failure.message)?;
        let run = subject.question(sample, 0.0).states(&watch())?;
        let model = self.networks.model(network).network();
        let (ode, start, end, steps) = (first_ode(model)?, run.start, run.end, run.steps);
        let system = NeuralDynamics { circuit: &ode.block.dynamics, precision: Precision::Float64 };
        let method = ode.block.solver.method;
        let solved = PARTS
            .map(|part| continuous(method, NETWORK_TOLERANCE * part, ode.end_time))
            .map(|spec| solve_within(&system, &spec, &start, &watch()));
        let mut states = Vec::new();
        for solution in solved {
            let solution = solution.map_err(|error| error.to_string())?;
            states.push((solution.trajectory.len() as f64, solution.state));
        }
        let Some((_, truth)) = states.pop() else { return Err("no truth".into()) };
        let error = |state: &[f64]| state.iter().zip(&truth).map(|(a, b)| (a - b).abs()).sum::<f64>();
        Ok(Figures::default()
            .with("CAS steps", steps as f64)
            .with("CAS error", error(&end))
            .with("AS steps", states[0].0)
            .with("AS error", error(&states[0].1))
            .with("AS/2 steps", states[1].0)
            .with("AS/2 error", error(&states[1].1)))
    }

    fn scalar_panel(&self, done: &Done<'_>) -> (Table, Panel) {
        let mut rows = Vec::new();
        let mut curves = [Vec::new(), Vec::new()];
        for (index, tolerance) in TOLERANCES.iter().enumerate() {
            let Some(figures) = &done.figures[index] else { continue };
            let [cas_steps, cas_error, as_steps, as_error] =
                ["CAS steps", "CAS error", "AS steps", "AS error"].map(|name| figures.get(name));
            curves[0].extend(cas_steps.zip(cas_error));
            curves[1].extend(as_steps.zip(as_error));
            let small = |value: Option<f64>| value.map_or("–".into(), |v| format!("{v:.2e}"));
            rows.push(vec![
                format!("{tolerance:e}"),
                shown(cas_steps, 1),
                small(cas_error),
                shown(as_steps, 1),
                small(as_error),
            ]);
        }
        let title = format!("ż = z cos(0.8 cos² t + t) until {END}, {} starts, dopri5", self.starts);
        let header = vec!["tolerance", "CAS steps", "CAS error", "AS steps", "AS error"];
        let [cas, plain] = curves;
        let panel = Panel {
            title: "a scalar equation".into(),
            x: Axis::log("mean trial steps"),
            y: Axis::log("mean absolute error"),
            curves: vec![Curve::line("CAS", cas), Curve::line("AS", plain)],
        };
        (Table::of(title, header, rows), panel)
    }

    fn network_panel(&self, done: &Done<'_>, network: usize, rows: &mut Vec<Vec<String>>) -> Panel {
        let mine = |case: usize| matches!(self.grid[case], Work::Image { network: n, .. } if n == network);
        let mut curves = Vec::new();
        for (name, label) in [("CAS", "CAS"), ("AS", "AS"), ("AS/2", "AS, half the tolerance")] {
            let (steps, errors) =
                (done.values(&format!("{name} steps"), mine), done.values(&format!("{name} error"), mine));
            rows.push(vec![
                self.networks.name(network).into(),
                label.into(),
                errors.len().to_string(),
                shown(mean(&steps), 2),
                format!("{} ± {}", shown(mean(&errors), 5), shown(deviation(&errors), 5)),
            ]);
            curves.push(Curve::line(label, by_steps(&steps, &errors)));
        }
        Panel {
            title: self.networks.name(network).into(),
            x: Axis::linear("trial steps"),
            y: Axis::log("mean absolute error (L1)"),
            curves,
        }
    }
}

/// The mean error for every number of steps that at least one image in a hundred takes.
fn by_steps(steps: &[f64], errors: &[f64]) -> Vec<(f64, f64)> {
    let mut counts: Vec<f64> = steps.to_vec();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    let of = |count: f64| {
        let mine: Vec<f64> =
            steps.iter().zip(errors).filter(|(s, _)| **s == count).map(|(_, e)| *e).collect();
        (100 * mine.len() >= steps.len()).then_some((count, mean(&mine)?))
    };
    counts.into_iter().filter_map(of).collect()
}

fn first_ode(network: &Network) -> Result<&gains_core::Ode, String> {
    network
        .body
        .nodes()
        .find_map(|(_, node)| match &node.operator {
            Step::Ode(ode) => Some(ode),
            Step::Plain(_) => None,
        })
        .ok_or_else(|| "the network has no ODE block".to_string())
}

/// The continuous solver with its usual safety factors.
fn continuous(method: RungeKutta, tolerance: f64, end_time: f64) -> SolverSpec {
    let controller = ControllerSpec::Adaptive {
        tolerance,
        initial_step: FIRST_STEP,
        safety: 0.9,
        shrink: 0.2,
        grow: 10.0,
    };
    SolverSpec { method, controller, end_time }
}

/// The controlled solver with factor 2.
fn controlled(tolerance: f64) -> SolverSpec {
    let spec = ControlledSpec {
        factor: 2,
        tolerance,
        initial_step: FIRST_STEP,
        minimum_step: 1e-6,
        rejections_after_clipping: 20,
    };
    SolverSpec {
        method: RungeKutta::Dopri5,
        controller: ControllerSpec::ControlledAdaptive(spec),
        end_time: END,
    }
}

/// Times and step sizes reachable after exactly one and exactly two trial steps, error estimates anywhere in
/// `[2⁻⁶, 2²]`: a few points for the controlled solver, ranges (drawn densely) for the continuous one.
fn reachable() -> Panel {
    let grid = Grid::new(&controlled(1.0));
    let mut points = Vec::new();
    if let Ok(grid) = grid {
        let all: ActionSet = Action::ALL.into_iter().collect();
        let mut places = vec![grid.line.start()];
        for _ in 0..2 {
            let next: Vec<_> = places
                .iter()
                .flat_map(|place| grid.branches(place, all).collect::<Vec<_>>())
                .filter_map(|(_, moment)| match moment {
                    Moment::At(place) => Some(place),
                    Moment::End => None,
                })
                .collect();
            points.push(
                next.iter().map(|place| (grid.line.time(place), grid.line.step(place))).collect::<Vec<_>>(),
            );
            places = next;
        }
    }
    let order = Tableau::of(RungeKutta::Dopri5).order;
    let errors: Vec<f64> = (0..=60).map(|i| 2.0_f64.powf(-6.0 + 8.0 * f64::from(i) / 60.0)).collect();
    let next = |(time, step): (f64, f64)| -> Vec<(f64, f64)> {
        errors
            .iter()
            .map(|&error| {
                let (accepted, factor) = controller::adaptive(error, order, 0.9, 0.2, 10.0);
                (if accepted { time + step } else { time }, step * factor)
            })
            .collect()
    };
    let once = next((0.0, FIRST_STEP));
    let twice: Vec<(f64, f64)> = once.iter().flat_map(|at| next(*at)).collect();
    let mut curves = vec![Curve::dots("AS, two steps", twice), Curve::dots("AS, one step", once)];
    for (name, reached) in ["CAS, one step", "CAS, two steps"].into_iter().zip(points) {
        curves.push(Curve { name: name.into(), look: Look::Dots, points: reached });
    }
    Panel { title: "reachable".into(), x: Axis::linear("time"), y: Axis::linear("step size"), curves }
}

impl Study for CasVsAs {
    fn setting(&self) -> String {
        format!("{} starts; {}", self.starts, self.networks.setting())
    }

    fn cases(&self) -> Vec<Case> {
        let case = |work: &Work| match work {
            Work::Scalar(tolerance) => ("scalar".to_string(), format!("{tolerance:e}")),
            Work::Image { network, sample } => (self.networks.name(*network).into(), sample.to_string()),
        };
        self.grid
            .iter()
            .map(case)
            .map(|(what, which)| Case(vec![("problem", what), ("which", which)]))
            .collect()
    }

    fn work(&self, case: usize) -> Result<Figures, String> {
        match self.grid[case] {
            Work::Scalar(tolerance) => self.scalar(tolerance),
            Work::Image { network, sample } => self.image(network, sample),
        }
    }

    fn report(&self, done: &Done<'_>) -> Report {
        let (scalar, panel) = self.scalar_panel(done);
        let mut rows = Vec::new();
        let mut panels = vec![panel];
        panels.extend((0..self.networks.len()).map(|network| self.network_panel(done, network, &mut rows)));
        let header = vec!["network", "solver", "images", "mean trial steps", "L1 error"];
        let title = format!("Networks, tolerance {NETWORK_TOLERANCE}; truth: AS with a hundredth of it");
        let reach =
            Chart { title: "Where a solver can be after two steps".into(), panels: vec![reachable()] };
        let errors = Chart { title: "Errors against steps".into(), panels };
        Report {
            tables: vec![scalar, Table::of(title, header, rows)],
            charts: vec![("reachable", reach), ("errors", errors)],
            remarks: vec![
                "Paper: CAS makes no larger errors than AS at the same number of steps, and takes somewhat more of them at \
                 the same tolerance."
                    .into(),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_one_step_three_places_after_two_nine_at_most() {
        let panel = reachable();
        let count = |name: &str| {
            let curve = panel.curves.iter().find(|curve| curve.name == name).unwrap();
            let mut points = curve.points.clone();
            points.sort_by(|a, b| a.partial_cmp(b).unwrap());
            points.dedup();
            points.len()
        };
        assert_eq!(count("CAS, one step"), 3);
        assert!((6..=9).contains(&count("CAS, two steps")));
    }

    #[test]
    fn a_smaller_tolerance_makes_smaller_errors() {
        let given = Given::for_tests();
        let study = CasVsAs { starts: 5, ..CasVsAs::new(&given).unwrap() };
        let [fine, coarse] = [1e-6, 0.01].map(|tolerance| study.scalar(tolerance).unwrap());
        for solver in ["CAS", "AS"] {
            let error = |figures: &Figures| figures.get(&format!("{solver} error")).unwrap();
            assert!(error(&fine) < 1e-5 && error(&fine) < error(&coarse), "{solver}");
        }
    }
}
