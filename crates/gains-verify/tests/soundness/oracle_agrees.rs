//! The verifier against the exact oracle: never above it, and below it by rounding only.

use gains_core::description::{LayerSpec, RungeKutta, SolverSpec};
use gains_core::{Arithmetic, Shape};
use gains_testkit::{Gardener, Kinds, Model, controlled, fixed};
use gains_verify::{Method, StepForm};

use crate::exact::Exact;
use crate::oracle::{self, Depth};
use crate::region::{analyse, property, random_region};

/// linear, ReLU, linear, ODE (linear with time, ReLU, linear with time), linear, ReLU, linear.
fn model(random: &mut fastrand::Rng, solver: SolverSpec) -> Model {
    let input = Shape::flat(random.usize(2..4));
    let (states, hidden) = (random.usize(2..5), random.usize(2..5));
    let mut g = Gardener::new(random, Kinds::Piecewise, input);
    let mut layers = Vec::new();
    if g.random.bool() {
        layers.push(g.linear(hidden, false));
        layers.push(LayerSpec::Relu {});
    }
    layers.push(g.linear(states, false));
    let dynamics = vec![g.linear(hidden, true), LayerSpec::Relu {}, g.linear(states, true)];
    layers.push(LayerSpec::Ode { dynamics, solver });
    if g.random.bool() {
        layers.push(g.linear(hidden, false));
        layers.push(LayerSpec::Relu {});
    }
    layers.push(g.linear(2, false));
    g.finish(input, layers)
}

/// What the comparisons of one solver came to.
#[derive(Default)]
struct Tally {
    bounds: usize,
    largest_graph: usize,
    /// Units in the last place of the oracle's scale.
    ulps: f64,
}

fn compare(
    random: &mut fastrand::Rng,
    solver: impl Fn(&mut fastrand::Rng) -> SolverSpec,
    rounds: usize,
) -> [Tally; 2] {
    let mut tallies = [Tally::default(), Tally::default()];
    for round in 0..rounds {
        let solver = solver(random);
        let model = model(random, solver);
        let region = random_region(random, model.inputs(), [0.02, 0.2, 1e-6, 0.0][round % 4]);
        let property = property(random, 2);
        let network = model.network();
        for (method, depth, tally) in [(Method::Box, Depth::Boxes, 0), (Method::Linear, Depth::Rows, 1)] {
            let mode = (method, StepForm::Independent);
            let Ok((analysis, lower)) = analyse(&network, &region, &property, mode, Arithmetic::Real) else {
                continue;
            };
            // Of boxes the oracle knows those of the outputs; ours go back through the last layer besides.
            let lower = match method {
                Method::Box => {
                    let rows = property.property().rows(network.body.output_shape());
                    let plain = rows.lower_bounds(analysis.output());
                    assert!(plain.iter().zip(&lower).all(|(plain, folded)| plain <= folded));
                    plain
                }
                _ => lower,
            };
            let layers = &model.description.layers;
            let found = oracle::analyse(layers, &model.tensors, &region, &property.rows, depth);
            assert_eq!(analysis.graph_size(), found.graph, "{method} round {round}: vertices and edges");
            let tally = &mut tallies[tally];
            tally.largest_graph = tally.largest_graph.max(found.graph.0);
            for ((ours, exact), scale) in lower.iter().zip(&found.lower).zip(&found.scales) {
                let below = (exact - &Exact::from(*ours)).to_f64();
                assert!(below >= 0.0, "{method} round {round}: {ours} is {:e} too high", -below);
                tally.ulps = tally.ulps.max(below / (f64::EPSILON * scale));
                tally.bounds += 1;
            }
        }
    }
    tallies
}

#[expect(clippy::print_stdout, reason = "how close the bounds are is worth seeing")]
fn report(what: &str, tallies: &[Tally; 2], most: f64) {
    for (tally, name) in tallies.iter().zip(["box", "linear"]) {
        println!(
            "{what}, {name}: {} bounds, graphs of up to {} vertices, at most {:.0} ulp below exact",
            tally.bounds, tally.largest_graph, tally.ulps
        );
        assert!(tally.ulps <= most, "{what} {name}: {} ulp", tally.ulps);
    }
}

#[test]
fn euler_with_fixed_steps_agrees_with_the_oracle() {
    let mut random = fastrand::Rng::with_seed(71);
    let tallies = compare(&mut random, |r| fixed(RungeKutta::Euler, r.u32(1..5)), 120);
    report("euler", &tallies, 60.0);
}

#[test]
fn controlled_heun_agrees_with_the_oracle() {
    let mut random = fastrand::Rng::with_seed(72);
    let solver = |r: &mut fastrand::Rng| {
        let tolerance = 10.0_f64.powf(-0.7 - 1.5 * r.f64());
        let step = 0.2 + 0.5 * r.f64();
        controlled(RungeKutta::Heun, r.u32(2..4), tolerance, step, r.u32(0..3))
    };
    let tallies = compare(&mut random, solver, 120);
    report("heun", &tallies, 60.0);
    assert!(tallies[1].largest_graph >= 10);
}

#[test]
fn controlled_dopri5_agrees_with_the_oracle() {
    let mut random = fastrand::Rng::with_seed(73);
    let solver = |r: &mut fastrand::Rng| {
        let tolerance = 10.0_f64.powf(-0.5 - 2.0 * r.f64());
        controlled(RungeKutta::Dopri5, 2, tolerance, 0.25 + 0.4 * r.f64(), r.u32(0..2))
    };
    let tallies = compare(&mut random, solver, 40);
    report("dopri5", &tallies, 60.0);
    assert!(tallies[1].largest_graph >= 10);
}
