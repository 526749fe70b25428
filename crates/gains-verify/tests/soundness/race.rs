//! The ways that share a problem's time: what they decide together must be so.

use std::time::Duration;

use gains_core::Shape;
use gains_core::{Interval, Network, Precision};
use gains_ode::Inference;
use gains_testkit::{Gardener, Kinds, Model};
use gains_verify::attack::Siege;
use gains_verify::limits::Clock;
use gains_verify::{Budget, Hunt, Method, Problem, Report, Settings, Stage, StepForm, Verdict, Verifier};

const ANYTHING: Interval = Interval::new(-1e6, 1e6);

/// Two inputs, an ODE block, with or without something in front of it, and two outputs.
fn flow(random: &mut fastrand::Rng, round: usize) -> Model {
    let input = Shape::flat(2);
    let kinds = if round.is_multiple_of(2) { Kinds::All } else { Kinds::Piecewise };
    let mut g = Gardener::new(random, kinds, input);
    let mut layers = Vec::new();
    if round % 3 == 2 {
        layers.extend([g.linear(4, false), g.activation(), g.linear(3, false)]);
    }
    layers.extend([g.ode(), g.linear(2, false)]);
    g.finish(input, layers)
}

fn outputs(network: &Network, x: &[f64]) -> Option<Vec<f64>> {
    Inference::run(network, x, Precision::Float64).ok().map(|run| run.output)
}

fn lead(network: &Network, x: &[f64], label: usize) -> Option<f64> {
    outputs(network, x).map(|y| y[label] - y[1 - label])
}

/// Nothing seen is outside of the intervals of single outputs, or below what is said of their rows.
fn holds(report: &Report, seen: &[f64], label: usize) -> bool {
    let all = report.intervals.as_ref().is_none_or(|all| {
        let slack = |x: f64| 1e-9 * (1.0 + x.abs());
        (0..seen.len())
            .all(|i| seen[i] >= all.lower[i] - slack(seen[i]) && seen[i] <= all.upper[i] + slack(seen[i]))
    });
    let lead = seen[label] - seen[1 - label];
    all && report.rows.iter().all(|row| lead >= row - 1e-9 * (1.0 + lead.abs()))
}

/// Of two inputs everything is decided, and a fine grid agrees: nothing is below a proved margin, and where all of the
/// grid is far from zero the verdict says so.
#[test]
fn networks_of_two_inputs_are_decided() {
    let mut random = fastrand::Rng::with_seed(501);
    let (mut verified, mut falsified, mut unknown) = (0, 0, 0);
    for round in 0..60 {
        let network = flow(&mut random, round).network();
        let centre = [random.f64() - 0.5, random.f64() - 0.5];
        let Ok(run) = Inference::run(&network, &centre, Precision::Float64) else { continue };
        let label = usize::from(run.output[1] > run.output[0]);
        let eps = [0.05, 0.2, 0.6][round % 3];
        let problem = Problem::classification(&network, &centre, label, eps, ANYTHING);
        let stages = vec![Stage::Bound(Method::Tight), Stage::Race];
        let settings = Settings { stages, step_form: StepForm::Difference, ..Settings::default() };
        let budget = Budget { timeout: Some(Duration::from_secs(2)), vertices: 400, ..Budget::default() };
        let report = Verifier::new(settings).decide(&problem, budget);
        let steps = 24;
        let at = |k: usize, c: f64| c + eps * (2.0 * k as f64 / f64::from(steps) - 1.0) * (1.0 - 1e-12);
        let grid = (0..=steps as usize).flat_map(|i| (0..=steps as usize).map(move |j| (i, j)));
        let seen: Vec<Vec<f64>> =
            grid.filter_map(|(i, j)| outputs(&network, &[at(i, centre[0]), at(j, centre[1])])).collect();
        let stages = [Method::Box, Method::Linear, Method::Tight].map(Stage::Bound).to_vec();
        let in_turn = Verifier::new(Settings { stages, ..Settings::default() }).decide(&problem, budget);
        for report in [&report, &in_turn] {
            assert!(
                seen.iter().all(|y| holds(report, y, label)),
                "round {round}: outside of what was proved"
            );
        }
        let least = seen.iter().map(|y| y[label] - y[1 - label]).fold(f64::INFINITY, f64::min);
        let proved = report.margin.unwrap_or(f64::NEG_INFINITY);
        assert!(least >= proved - 1e-9 * (1.0 + least.abs()), "round {round}: {least} below {proved}");
        match &report.verdict {
            Verdict::Verified => {
                assert!(least > 0.0, "round {round}: verified, but {least}");
                verified += 1;
            }
            Verdict::Falsified { witness } => {
                assert!(problem.region.contains(witness), "round {round}: outside");
                assert!(lead(&network, &witness[0], label).unwrap() <= 0.0, "round {round}: no witness");
                falsified += 1;
            }
            Verdict::Unknown(_) => {
                let volume = report.volume.unwrap_or(0.0);
                assert!((0.0..=1.0).contains(&volume), "round {round}: {volume}");
                unknown += 1;
            }
            Verdict::Misclassified => {}
        }
    }
    println!("{verified} verified, {falsified} falsified, {unknown} unknown");
    assert!(verified > 15 && falsified > 5, "{verified} {falsified}");
    assert!(unknown * 10 < verified + falsified, "{unknown} of {} are not decided", verified + falsified);
}

/// The same seed makes the same attack, another another; every worst point is inside and has the margin it is said to have.
#[test]
fn sieges_are_repeatable_and_honest() {
    let mut random = fastrand::Rng::with_seed(502);
    for round in 0..20 {
        let network = flow(&mut random, round).network();
        let problem = Problem::classification(&network, &[0.1, -0.2], 0, 0.3, ANYTHING);
        let clock = Clock::start(Budget::default());
        let hunt = Hunt::new(&problem, Precision::Float64, clock);
        let bouts = |seed: u64| -> Vec<_> {
            let mut siege = Siege::new(&problem, &[-1.0], seed);
            (0..siege.round()).map(|_| siege.bout(&hunt)).collect()
        };
        let first = bouts(round as u64);
        assert_eq!(first, bouts(round as u64), "round {round}");
        assert_eq!(first.len(), 3, "the margin, the open row, the cross-entropy");
        for found in &first {
            let Some(worst) = &found.worst else { continue };
            assert!(problem.region.contains(worst), "round {round}");
            assert_eq!(lead(&network, &worst[0], 0), Some(found.margin), "round {round}");
        }
    }
}
