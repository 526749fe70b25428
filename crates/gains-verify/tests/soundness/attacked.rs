//! Sampled, cornered and attacked points of random networks must respect every bound.

use gains_core::{Arithmetic, Precision};
use gains_ode::Inference;
use gains_testkit::{Kinds, Model, random_model};

use crate::direct;
use crate::exact::Exact;
use crate::machines::ExactMachine;
use crate::region::{
    ARITHMETICS, MODES, analyse, descend, is_path, point, property, random_region, to_float32, value,
};

const WIDTHS: [f64; 6] = [0.3, 0.05, 1.0, 1e-3, 1e-12, 0.0];

/// Points of the region: random, corners, and where the gradient leads.
fn points(
    random: &mut fastrand::Rng,
    network: &gains_core::Network,
    rows: &[Vec<f64>],
    region: &gains_core::BoxVec,
) -> Vec<Vec<f64>> {
    let mut points: Vec<Vec<f64>> = (0..10).map(|_| point(random, region)).collect();
    for row in rows {
        let start = point(random, region);
        points.push(descend(network, row, start, region));
    }
    points
}

/// The concrete solver's points. In float32 mode nothing is forgiven: the program is what the bound is
/// about. In real mode the bound is about exact numbers and the run is in float64, so the run's own
/// rounding is forgiven: networks this small and tame lose less than 1e-12 of their largest output.
#[test]
fn no_point_of_any_random_network_escapes_its_bounds() {
    let mut random = fastrand::Rng::with_seed(101);
    let (mut checked, mut skipped) = (0, 0);
    for round in 0..260 {
        let model = random_model(&mut random, Kinds::All);
        let network = model.network();
        let region = random_region(&mut random, model.inputs(), WIDTHS[round % WIDTHS.len()]);
        let property = property(&mut random, network.outputs());
        let points = points(&mut random, &network, &property.rows, &region);
        for arithmetic in ARITHMETICS {
            let precision = match arithmetic {
                Arithmetic::Real => Precision::Float64,
                Arithmetic::Float32 => Precision::Float32,
            };
            for mode in MODES {
                let Ok((analysis, lower)) = analyse(&network, &region, &property, mode, arithmetic) else {
                    skipped += 1;
                    continue;
                };
                for point in &points {
                    let point = match precision {
                        Precision::Float64 => point.clone(),
                        Precision::Float32 => match to_float32(point, &region) {
                            Some(point) => point,
                            None => continue,
                        },
                    };
                    let run = Inference::run(&network, &point, precision).unwrap();
                    let what = format!("round {round} {mode:?} {arithmetic}");
                    for (row, bound) in property.rows.iter().zip(&lower) {
                        let forgiven = match precision {
                            Precision::Float64 => {
                                1e-12 * run.output.iter().fold(1.0, |m: f64, y| m.max(y.abs()))
                            }
                            Precision::Float32 => 1e-15,
                        };
                        let reached = value(row, &run.output);
                        assert!(reached >= bound - forgiven, "{what}: {reached} below {bound}");
                    }
                    let inside =
                        analysis.output().lower.iter().zip(&run.output).zip(&analysis.output().upper);
                    for ((l, y), u) in inside {
                        assert!(l - 1e-11 <= *y && *y <= u + 1e-11, "{what}: output box");
                    }
                    for (graph, solution) in analysis.graphs().zip(run.solutions()) {
                        // At 1e-12 of a threshold, float64 and exact numbers may decide differently.
                        let close = |e: f64, t: f64| (e - t).abs() <= 1e-11 * t;
                        let tie = solution.trajectory.iter().any(|v| close(v.error, 1.0));
                        assert!(tie || graph.admits(&solution.trajectory), "{what}: path");
                    }
                    checked += 1;
                }
            }
        }
    }
    println!("{checked} runs checked, {skipped} analyses gave up");
    assert!(checked > 10_000 && skipped < 300, "{checked} {skipped}");
}

fn exact_values(model: &Model, rows: &[Vec<f64>], point: &[f64]) -> (Vec<Exact>, Vec<Vec<direct::Trial>>) {
    let run = direct::run(&mut ExactMachine, &model.description, &model.tensors, point);
    let values = rows.iter().map(|row| {
        row.iter().zip(&run.output).fold(Exact::zero(), |sum, (a, y)| &sum + &(&Exact::from(*a) * y))
    });
    (values.collect(), run.trajectories)
}

/// Piecewise linear networks evaluated without any rounding: nothing is forgiven here.
#[test]
fn no_exactly_evaluated_point_escapes_its_bounds() {
    let mut random = fastrand::Rng::with_seed(102);
    let mut checked = 0;
    for round in 0..120 {
        let model = random_model(&mut random, Kinds::Piecewise);
        let network = model.network();
        let region = random_region(&mut random, model.inputs(), WIDTHS[round % WIDTHS.len()]);
        let property = property(&mut random, network.outputs());
        let mut points = points(&mut random, &network, &property.rows, &region);
        points.drain(..8);
        let exact: Vec<_> = points.iter().map(|p| exact_values(&model, &property.rows, p)).collect();
        // The independent evaluation and the concrete solver describe the same network.
        for (point, (values, trajectories)) in points.iter().zip(&exact) {
            let run = Inference::run(&network, point, Precision::Float64).unwrap();
            let same = run.solutions().zip(trajectories).all(|(s, t)| s.trajectory.len() == t.len());
            for (row, exact) in property.rows.iter().zip(values).filter(|_| same) {
                let (ours, exact) = (value(row, &run.output), exact.to_f64());
                assert!((ours - exact).abs() <= 1e-11 * (1.0 + exact.abs()), "round {round}: {ours} {exact}");
            }
        }
        for mode in MODES {
            let found = analyse(&network, &region, &property, mode, Arithmetic::Real);
            let Ok((analysis, lower)) = found else { continue };
            for (values, trajectories) in &exact {
                for (value, bound) in values.iter().zip(&lower) {
                    let below = (value - &Exact::from(bound.max(f64::MIN))).to_f64();
                    assert!(below >= 0.0, "round {round} {mode:?}: {below:e} below {bound}");
                }
                for (graph, trials) in analysis.graphs().zip(trajectories) {
                    assert!(is_path(graph, trials), "round {round} {mode:?}: path");
                }
                checked += 1;
            }
        }
    }
    println!("{checked} exact runs checked");
    assert!(checked > 1000, "{checked}");
}
