//! Properties of every kind on networks small enough to be enumerated: what is proved holds at every point of a grid, what
//! is found to break a property does, and rows are bounded behind what outputs have in common.

use gains_core::description::{Join, LayerSpec};
use gains_core::model_file::Tensors;
use gains_core::{Arithmetic, BoxVec, Network, Precision, Rows, Shape, Support};
use gains_ode::Inference;
use gains_testkit::{Model, linear};
use gains_verify::limits::Clock;
use gains_verify::property::{Condition, LinearRow, Relation};
use gains_verify::{
    Analysis, Attack, AttackLoss, Budget, Method, Problem, Property, Region, Settings, Stage, StepForm,
    Verdict, Verifier,
};

use crate::region::METHODS;

/// Four outputs of two inputs, by way of three ReLUs.
fn network(random: &mut fastrand::Rng) -> Network {
    let mut tensors = Tensors::new();
    let mut draw = |rows: usize, columns: usize| -> Vec<Vec<f64>> {
        (0..rows).map(|_| (0..columns).map(|_| f64::from(random.i8(-8..=8)) / 8.0).collect()).collect()
    };
    let (first, second, bias) = (draw(3, 2), draw(4, 3), draw(1, 4));
    fn rows(all: &[Vec<f64>]) -> Vec<&[f64]> {
        all.iter().map(Vec::as_slice).collect()
    }
    let layers = vec![
        linear(&mut tensors, "in", &rows(&first), &[0.25, -0.125, 0.0], false),
        LayerSpec::Relu {},
        linear(&mut tensors, "out", &rows(&second), &bias[0], false),
    ];
    Model::new(Shape::flat(2), layers, tensors, 4).network()
}

/// A condition of some depth on four outputs, most of it true of `near`.
fn condition(random: &mut fastrand::Rng, near: &[f64], depth: usize) -> Condition {
    if depth > 0 && random.u8(0..3) > 0 {
        let parts: Vec<Condition> =
            (0..random.usize(1..4)).map(|_| condition(random, near, depth - 1)).collect();
        return match random.u8(0..4) {
            0 => Condition::All(parts),
            1 => Condition::Any(parts),
            2 => Condition::AtLeast { needed: random.usize(1..=parts.len()), of: parts },
            _ => Condition::All(parts).negated().negated(),
        };
    }
    let label = gains_verify::property::largest(near);
    match random.u8(0..6) {
        0 => Condition::among(4, &[label, random.usize(0..4)]),
        1 => Condition::never(4, random.usize(0..4)),
        2 => Condition::top(4, label, random.usize(1..4)),
        3 => Condition::Row(LinearRow::lead(4, label, (label + 1) % 4)),
        _ => {
            let coefficients: Vec<f64> = (0..4).map(|_| 2.0 * random.f64() - 1.0).collect();
            let value: f64 = coefficients.iter().zip(near).map(|(a, y)| a * y).sum();
            let products = [(1.0, 0.5 * random.f64() - 0.05), (-1.0, value)];
            Condition::Row(LinearRow::with_products(coefficients, &products, Relation::NotBelow))
        }
    }
}

fn problem<'a>(network: &'a Network, centre: &[f64], radius: f64, property: Property) -> Problem<'a> {
    let all = gains_core::Interval::new(-10.0, 10.0);
    let (region, nominal) = (Region::ball(centre, radius, all), vec![centre.to_vec()]);
    Problem { program: &network.body, region, property, nominal, output: None }
}

#[test]
fn verdicts_about_random_properties_agree_with_a_grid() {
    let mut random = fastrand::Rng::with_seed(17);
    let (mut verified, mut falsified, mut open) = (0, 0, 0);
    for _ in 0..400 {
        let network = network(&mut random);
        let centre = [random.f64() - 0.5, random.f64() - 0.5];
        let nominal = Inference::run(&network, &centre, Precision::Float64).unwrap().output;
        let property = Property::Linear { outputs: 4, condition: condition(&mut random, &nominal, 3) };
        let radius = 0.3 * random.f64();
        let problem = problem(&network, &centre, radius, property.clone());
        let attack = Attack { steps: 15, step_size: 0.05, loss: AttackLoss::Margin, ..Attack::default() };
        let stages = [Method::Box, Method::Gains, Method::Tight, Method::Symbolic];
        let stages = [vec![Stage::Attack(attack)], Stage::bounds(&stages), vec![Stage::Branch]].concat();
        let report =
            Verifier::new(Settings { stages, ..Settings::default() }).decide(&problem, Budget::default());
        let mut least = f64::INFINITY;
        for (i, j) in (0..=20).flat_map(|i| (0..=20).map(move |j| (i, j))) {
            let at = |c: f64, k: i32| c + radius * (f64::from(k) / 10.0 - 1.0);
            let run =
                Inference::run(&network, &[at(centre[0], i), at(centre[1], j)], Precision::Float64).unwrap();
            least = least.min(property.margin_at(&run.output));
        }
        if let Some(margin) = report.margin {
            assert!(margin <= least + 1e-9, "{margin} proved, {least} seen: {property:?}");
        }
        match report.verdict {
            Verdict::Verified => {
                verified += 1;
                assert!(least > 0.0, "{least}: {property:?}");
            }
            Verdict::Falsified { witness } => {
                falsified += 1;
                let run = Inference::run(&network, &witness[0], Precision::Float64).unwrap();
                assert!(
                    problem.region.contains(&witness) && property.is_violated(&run.output),
                    "{property:?}"
                );
            }
            Verdict::Misclassified => assert!(property.is_violated(&nominal)),
            Verdict::Unknown(_) => open += 1,
        }
    }
    assert!(verified > 60 && falsified > 40 && open < 150, "{verified} {falsified} {open}");
}

/// Where all constraints must hold and the network is linear, bounds are exact.
#[test]
fn intervals_of_linear_networks_are_decided_exactly() {
    let mut tensors = Tensors::new();
    let layers = vec![linear(&mut tensors, "out", &[&[1.0, 2.0], &[-1.0, 0.5]], &[0.0, 1.0], false)];
    let network = Model::new(Shape::flat(2), layers, tensors, 2).network();
    // At (0, 0) outputs are 0 and 1; within 0.1 they move by 0.3 and 0.15.
    for method in METHODS {
        let settings = Settings { stages: vec![Stage::Bound(method)], ..Settings::default() };
        let verdict = |tolerance: f64| {
            let problem = problem(&network, &[0.0, 0.0], 0.1, Property::within(&[0.0, 1.0], tolerance));
            Verifier::new(settings.clone()).decide(&problem, Budget::default()).verdict
        };
        assert_eq!(verdict(0.3001), Verdict::Verified, "{method}");
        assert!(matches!(verdict(0.2999), Verdict::Unknown(_)), "{method}");
    }
}

/// `y₀ − y₁` of `y = (x + s, x)` is `s`, however far `x` moves: a box of the outputs has forgotten that.
#[test]
fn boxes_remember_what_outputs_have_in_common() {
    let mut tensors = Tensors::new();
    let head = linear(&mut tensors, "head", &[&[1.0, 1.0], &[1.0, 0.0]], &[0.5, 0.25], false);
    let twice = linear(&mut tensors, "twice", &[&[2.0, 0.0], &[0.0, 2.0]], &[0.0, 0.0], false);
    let residual = LayerSpec::Parallel { branches: vec![vec![twice], Vec::new()], join: Join::Add };
    let layers = vec![LayerSpec::Relu {}, residual, head];
    let network = Model::new(Shape::flat(2), layers, tensors, 2).network();
    let region = vec![BoxVec::new(vec![0.0, 0.1], vec![1.0, 0.2])];
    let lower = |method: Method, arithmetic: Arithmetic| {
        let clock = Clock::start(Budget::default());
        let form = StepForm::Independent;
        let analysis = Analysis::new(&network.body, region.clone(), method, form, arithmetic, clock).unwrap();
        let rows = Rows::new(Support::full(Shape::flat(2)), vec![1.0, -1.0]);
        analysis.bound(&rows).unwrap().lower[0]
    };
    // Three times the second input, and 0.25.
    let exact = 0.55;
    let real = lower(Method::Box, Arithmetic::Real);
    assert!(real <= exact && real > exact - 1e-12, "{real}");
    let float32 = lower(Method::Box, Arithmetic::Float32);
    assert!(float32 < real - 1e-8 && float32 > exact - 1e-4, "{float32}");
    let run = Inference::run(&network, &[0.0, f64::from(0.1_f32)], Precision::Float32).unwrap();
    assert!(f64::from((run.output[0] - run.output[1]) as f32) >= float32);
}
