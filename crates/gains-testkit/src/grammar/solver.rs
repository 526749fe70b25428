//! Solvers of ODE blocks: every tableau, every controller.

use gains_core::description::{ControlledSpec, ControllerSpec, RungeKutta, SolverSpec};
use gains_ode::Tableau;

use crate::choices::Choices;

/// All tableaux, the cheap ones first.
pub const METHODS: [RungeKutta; 9] = [
    RungeKutta::Euler,
    RungeKutta::Heun,
    RungeKutta::Midpoint,
    RungeKutta::Fehlberg2,
    RungeKutta::Bosh3,
    RungeKutta::Rk4,
    RungeKutta::Rk38,
    RungeKutta::Dopri5,
    RungeKutta::Dopri8,
];

/// Controlled adaptive steps of any kind, not more than about thirty of them.
fn controlled(choices: &mut Choices, end_time: f64) -> ControllerSpec {
    let part = |x: f64| f64::from((x * end_time) as f32);
    ControllerSpec::ControlledAdaptive(ControlledSpec {
        factor: choices.pick(&[2, 3, 4, 7]),
        tolerance: f64::from(10.0_f64.powf(-0.2 - 2.5 * choices.unit()) as f32),
        initial_step: part(choices.pick(&[0.5, 0.3, 0.15, 1.0, 1.7])),
        minimum_step: part(choices.pick(&[0.2, 0.08, 0.04, 0.6, 3.0])),
        rejections_after_clipping: choices.pick(&[1, 0, 2, 4]),
    })
}

/// A solver. One in fifty cannot be verified: its steps lie on no grid.
pub fn solver(choices: &mut Choices) -> SolverSpec {
    let end_time = choices.pick(&[1.0, 0.5, 2.0, 1e-3]);
    let style = choices.below(50);
    let estimating: Vec<RungeKutta> =
        METHODS.into_iter().filter(|method| Tableau::of(*method).estimates_error()).collect();
    let (method, controller) = match style {
        49 => {
            let controller = ControllerSpec::Adaptive {
                tolerance: 0.01,
                initial_step: 0.1,
                safety: 0.9,
                shrink: 0.2,
                grow: 10.0,
            };
            (RungeKutta::Dopri5, controller)
        }
        0..25 => {
            let steps = choices.pick(&[1, 1, 2, 3]);
            (choices.pick(&METHODS), ControllerSpec::Fixed { steps })
        }
        _ => (choices.pick(&estimating), controlled(choices, end_time)),
    };
    SolverSpec { method, controller, end_time }
}
