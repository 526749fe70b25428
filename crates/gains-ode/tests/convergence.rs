//! Every tableau converges at its declared order, and every embedded error estimate at its own.

use gains_core::description::{ControllerSpec, RungeKutta, SolverSpec};
use gains_ode::system::trial_step;
use gains_ode::tableau::{self, Tableau};

const METHODS: [RungeKutta; 9] = [
    RungeKutta::Euler,
    RungeKutta::Midpoint,
    RungeKutta::Heun,
    RungeKutta::Rk4,
    RungeKutta::Rk38,
    RungeKutta::Bosh3,
    RungeKutta::Fehlberg2,
    RungeKutta::Dopri5,
    RungeKutta::Dopri8,
];

type RightHandSide = fn(f64, &[f64]) -> Vec<f64>;

/// A smooth initial value problem on [0, 3].
struct Problem {
    name: &'static str,
    right_hand_side: RightHandSide,
    initial: Vec<f64>,
    exact: Vec<f64>,
}

const END: f64 = 3.0;

/// Scalar problems are solved for several phases at once: the error of a single one may happen to cross
/// zero where it is measured.
const PHASES: [f64; 8] = [0.0, 0.7, 1.4, 2.1, 2.8, 3.5, 4.2, 4.9];

fn for_each_phase(f: impl Fn(f64) -> f64) -> Vec<f64> {
    PHASES.iter().map(|phase| f(*phase)).collect()
}

fn problems() -> Vec<Problem> {
    let lotka_volterra: RightHandSide = |_, z| vec![z[0] * (1.5 - z[1]), z[1] * (z[0] - 1.0)];
    let populations = vec![1.2, 0.8];
    vec![
        Problem {
            name: "z' = z cos(t + φ)",
            right_hand_side: |t, z| z.iter().zip(PHASES).map(|(z, phase)| z * (t + phase).cos()).collect(),
            initial: vec![0.7; PHASES.len()],
            exact: for_each_phase(|phase| 0.7 * ((END + phase).sin() - phase.sin()).exp()),
        },
        Problem {
            // z = tan(sin(t + φ) / 2) by separation.
            name: "z' = cos(t + φ) (1 + z²) / 2",
            right_hand_side: |t, z| {
                z.iter().zip(PHASES).map(|(z, phase)| (t + phase).cos() * (1.0 + z * z) / 2.0).collect()
            },
            initial: for_each_phase(|phase| (phase.sin() / 2.0).tan()),
            exact: for_each_phase(|phase| ((END + phase).sin() / 2.0).tan()),
        },
        Problem {
            name: "harmonic oscillator",
            right_hand_side: |_, z| vec![z[1], -z[0]],
            initial: vec![1.0, 0.5],
            exact: vec![END.cos() + 0.5 * END.sin(), 0.5 * END.cos() - END.sin()],
        },
        Problem {
            name: "Lotka-Volterra",
            right_hand_side: lotka_volterra,
            exact: fixed(RungeKutta::Dopri8, lotka_volterra, &populations, 1000),
            initial: populations,
        },
    ]
}

fn fixed(method: RungeKutta, right_hand_side: RightHandSide, initial: &[f64], steps: u32) -> Vec<f64> {
    let spec = SolverSpec { method, controller: ControllerSpec::Fixed { steps }, end_time: END };
    gains_ode::solve(&right_hand_side, &spec, initial).expect("a smooth problem is solved").state
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum()
}

#[test]
fn every_table_has_a_method() {
    let of_methods: Vec<_> = METHODS.iter().map(|m| Tableau::of(*m).name).collect();
    let all: Vec<_> = tableau::ALL.iter().map(|t| t.name).collect();
    assert_eq!(of_methods, all);
    for (method, name) in METHODS.iter().zip(all) {
        assert_eq!(serde_json::to_value(method).unwrap(), name, "the name in model files");
    }
}

/// The slope of the line of least squares through the points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(sx, sy), (x, y)| (sx + x / count, sy + y / count));
    let covariance: f64 = points.iter().map(|(a, b)| (a - x) * (b - y)).sum();
    covariance / points.iter().map(|(a, _)| (a - x) * (a - x)).sum::<f64>()
}

/// The order is the slope of −log₂ error over log₂ n, in the finest two octaves of step counts whose error
/// stays above 1e-12, where rounding begins to show. For dopri8 that is as few as eleven steps, where terms
/// of higher order still help; it may look faster there, never slower.
#[test]
fn fixed_steps_converge_at_the_declared_order() {
    for problem in problems() {
        for method in METHODS {
            let tableau = Tableau::of(method);
            let mut points = Vec::new();
            for quarter_octave in 8.. {
                let steps = 2_f64.powf(f64::from(quarter_octave) / 4.0).round() as u32;
                let end = fixed(method, problem.right_hand_side, &problem.initial, steps);
                let error = distance(&end, &problem.exact);
                if error < 1e-12 || steps > 4096 {
                    break;
                }
                points.push((f64::from(steps).log2(), -error.log2()));
            }
            let observed = slope(&points[points.len().saturating_sub(9)..]);
            let excess = observed - f64::from(tableau.order);
            let most = if method == RungeKutta::Dopri8 { 0.9 } else { 0.3 };
            assert!(-0.3 < excess && excess < most, "{}, {}: {observed}", problem.name, tableau.name);
        }
    }
}

/// The order of the embedded lower-order solution, as published with each pair.
fn embedded_order(name: &str) -> Option<f64> {
    match name {
        "heun" | "fehlberg2" => Some(1.0),
        "bosh3" => Some(2.0),
        "dopri5" => Some(4.0),
        "dopri8" => Some(7.0),
        _ => None,
    }
}

/// One step of size h from the same state: the estimate shrinks like h^(q+1), q being the lower order.
#[test]
fn error_estimates_shrink_at_the_expected_rate() {
    for problem in problems() {
        for tableau in tableau::ALL {
            let estimate =
                |h: f64| trial_step(&problem.right_hand_side, tableau, 1.1, h, &problem.initial, None).error;
            let Some(order) = embedded_order(tableau.name) else {
                assert!(!tableau.estimates_error());
                assert_eq!(estimate(0.1), 0.0, "{}", tableau.name);
                continue;
            };
            let mut points = Vec::new();
            for quarter_octave in 2.. {
                let h = 2_f64.powf(-f64::from(quarter_octave) / 4.0);
                if estimate(h) < 1e-13 || h < 1e-3 {
                    break;
                }
                points.push((h.log2(), estimate(h).log2()));
            }
            let rate = slope(&points[points.len().saturating_sub(9)..]);
            let expected = order + 1.0;
            let allowed = if tableau.name == "dopri8" { 0.6 } else { 0.1 };
            assert!((rate - expected).abs() < allowed, "{}, {}: {rate}", problem.name, tableau.name);
        }
    }
}
