//! Small networks whose exact ranges are known.

use gains_core::Shape;
use gains_core::description::{
    ControllerSpec, Description, EncoderSpec, LayerSpec, Points, RungeKutta, SolverSpec, Task,
};
use gains_core::model_file::Tensors;
use gains_ode::Observations;
use gains_testkit::Model;
use gains_verify::Method as Bounding;
use gains_verify::series::{Allowance, Perturbation};

use crate::scene::{Scene, Way, intervals};

/// One entry of state, one feature, one static. `update_bias` decides the gate: 0 makes it one half, exactly.
/// Dynamics `f(y) = y`, candidate `x` (and deviation 0), latent state the mean, decoder `z' = 0`, output `z`.
pub fn model(update_bias: f64) -> Model {
    let mut tensors = Tensors::new();
    let mut linear = |name: &str, weights: &[&[f64]], bias: &[f64]| {
        tensors.insert(format!("{name}.weight"), (vec![weights.len(), weights[0].len()], weights.concat()));
        tensors.insert(format!("{name}.bias"), (vec![bias.len()], bias.to_vec()));
        LayerSpec::Linear {
            name: name.into(),
            in_features: weights[0].len(),
            out_features: weights.len(),
            time: false,
        }
    };
    let encoder = EncoderSpec {
        initial: vec![linear("initial", &[&[1.0], &[0.0]], &[0.0, 0.0])],
        dynamics: vec![linear("dynamics", &[&[1.0]], &[0.0])],
        update: vec![linear("update", &[&[0.0, 0.0, 0.0]], &[update_bias]), LayerSpec::Sigmoid {}],
        reset: vec![linear("reset", &[&[0.0, 0.0, 0.0]], &[0.0]), LayerSpec::Sigmoid {}],
        candidate: vec![linear("candidate", &[&[0.0, 0.0, 1.0], &[0.0, 0.0, 0.0]], &[0.0, 0.0])],
        latent: vec![linear("latent", &[&[1.0, 0.0], &[0.0, 1.0]], &[0.0, 0.0])],
        lead: 0.25,
        points: Points::Observed,
    };
    let solver =
        SolverSpec { method: RungeKutta::Rk4, controller: ControllerSpec::Fixed { steps: 1 }, end_time: 1.0 };
    let layers = vec![
        LayerSpec::Ode { dynamics: vec![linear("decoder", &[&[0.0]], &[0.0])], solver },
        linear("output", &[&[1.0]], &[0.0]),
    ];
    let task = Task::forecasting(vec!["x".into()], vec!["s".into()]);
    let description =
        Description { encoder: Some(encoder), ..Description::new("exact", task, Shape::flat(1), layers) };
    Model { description, tensors }
}

fn interval(model: &Model, series: &Observations, p: &Perturbation, method: Bounding) -> (f64, f64) {
    let network = model.network();
    let scene = Scene::new(&network, series, p);
    let x = intervals(&scene.enclose(Way::of(method)).unwrap(), &[0]);
    (x.lower[0], x.upper[0])
}

/// Half the candidate and half the old state, which an Euler step of −¼ shrinks to three quarters each time:
/// `y = ½x₁ + ½·¾(½x₂ + ½·¾ s)`, points in the order of the walk.
#[test]
fn a_linear_recursion_has_its_exact_range() {
    let series = Observations {
        statics: vec![2.0],
        times: vec![0.5, 0.75],
        values: vec![1.0, -1.0],
        mask: vec![true, true],
        target_time: 0.5,
    };
    let p = Perturbation { features: vec![Allowance::within(0.25)], statics: vec![Allowance::within(0.5)] };
    let centre = 0.5 * 1.0 + 0.375 * (-0.5 + 0.375 * 2.0);
    let radius = 0.5 * 0.25 + 0.375 * (0.5 * 0.25 + 0.375 * 0.5);
    // Boxes take the Euler step's two terms for independent.
    let (low, high) = interval(&model(0.0), &series, &p, Bounding::Box);
    assert!(low < centre - radius && centre + radius < high);
    for method in [Bounding::Gains, Bounding::Tight] {
        let (low, high) = interval(&model(0.0), &series, &p, method);
        assert!(low <= centre - radius && low > centre - radius - 1e-12, "{method}: {low}");
        assert!(high >= centre + radius && high < centre + radius + 1e-12, "{method}: {high}");
    }
}

/// A gate at 1 keeps the old state and forgets the observation; one at 0 does the opposite.
#[test]
fn saturated_gates_keep_or_replace() {
    let series = Observations {
        statics: vec![2.0],
        times: vec![0.5],
        values: vec![-3.0],
        mask: vec![true],
        target_time: 0.5,
    };
    let p = Perturbation { features: vec![Allowance::within(1.0)], statics: vec![Allowance::within(0.5)] };
    for method in [Bounding::Gains, Bounding::Tight] {
        let (low, high) = interval(&model(60.0), &series, &p, method);
        assert!(
            low <= 1.125 && low > 1.124_999 && (1.875..1.875_001).contains(&high),
            "{method}: {low} {high}"
        );
        let (low, high) = interval(&model(-60.0), &series, &p, method);
        assert!(
            low <= -4.0 && low > -4.000_001 && (-2.0..-1.999_999).contains(&high),
            "{method}: {low} {high}"
        );
    }
}

/// Candidate `x` against old state `−x`, half of each: what is added is taken off again. Boxes cannot see that the
/// Euler step returns what it took, rows can.
#[test]
fn rows_see_what_cancels() {
    let mut model = model(0.0);
    // Two updates in a row at the same time with the same weights: y₂ = ½x₂ + ½(½x₁ + ½y₀); output y − y/4 = ¾y.
    model.tensors.insert("dynamics.weight".into(), (vec![1, 1], vec![-4.0]));
    let series = Observations {
        statics: vec![1.0],
        times: vec![0.5],
        values: vec![0.0],
        mask: vec![true],
        target_time: 0.5,
    };
    // The step of −¼ along −4y doubles the mean: 2s, exactly [1, 3], of which one half remains.
    let p = Perturbation { features: vec![Allowance::EXACT], statics: vec![Allowance::within(0.5)] };
    for method in [Bounding::Gains, Bounding::Tight] {
        let (low, high) = interval(&model, &series, &p, method);
        assert!((low - 0.5).abs() < 1e-12 && (high - 1.5).abs() < 1e-12, "{method}: {low} {high}");
    }
    // Along 4y the step takes off all there is: y − ¼·4y = 0. A box of the two terms is as wide as both.
    model.tensors.insert("dynamics.weight".into(), (vec![1, 1], vec![4.0]));
    let (low, high) = interval(&model, &series, &p, Bounding::Box);
    assert!(high - low > 0.9);
    let (low, high) = interval(&model, &series, &p, Bounding::Gains);
    assert!(low.abs() < 1e-12 && high.abs() < 1e-12, "{low} {high}");
}
