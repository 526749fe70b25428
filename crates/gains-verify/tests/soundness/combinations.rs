//! Case distinctions for any combination of linear constraints: parts may meet *any* by different ones, and what is proved
//! of the whole region must hold at every point.

use std::sync::atomic::{AtomicUsize, Ordering};

use gains_core::description::{LayerSpec, RungeKutta};
use gains_core::model_file::Tensors;
use gains_core::{Arithmetic, Interval, Network, Precision, Shape};
use gains_ode::Inference;
use gains_testkit::{Kinds, Model, fixed, linear};
use gains_verify::property::{Condition, LinearRow};
use gains_verify::{Budget, Problem, Property, Region, Report, Settings, Verdict, Verifier};

use crate::branching::{FRONTS, branching, fronted, precision, sharp};
use crate::region::{ARITHMETICS, descend, point, to_float32};

const INPUTS: Interval = Interval::new(-3.0, 3.0);

/// Decides with a budget that runs out after so many questions.
fn decide(problem: &Problem<'_>, settings: &Settings, patience: usize) -> Report {
    let asked = AtomicUsize::new(0);
    let interrupted = || asked.fetch_add(1, Ordering::Relaxed) >= patience;
    let budget = Budget { vertices: 150, interrupted: &interrupted, ..Budget::default() };
    Verifier::new(settings.clone()).decide(problem, budget)
}

/// A combination of some depth over two outputs that is no conjunction.
fn condition(random: &mut fastrand::Rng, depth: usize) -> Condition {
    if depth == 0 || random.u8(0..4) == 0 {
        let mut number = || 2.0 * random.f64() - 1.0;
        return Condition::Row(LinearRow::new(vec![number(), number()], 0.5 * number()));
    }
    let parts: Vec<Condition> = (0..random.usize(2..4)).map(|_| condition(random, depth - 1)).collect();
    match random.u8(0..4) {
        0 => Condition::All(parts),
        1 => Condition::AtLeast { needed: random.usize(1..=parts.len()), of: parts },
        _ => Condition::Any(parts),
    }
}

/// The same with a number added to all constants, which the margin rises by.
fn raised(condition: Condition, by: f64) -> Condition {
    let each = |parts: Vec<Condition>| parts.into_iter().map(|part| raised(part, by)).collect();
    match condition {
        Condition::Row(row) => Condition::Row(LinearRow { constant: row.constant + by, ..row }),
        Condition::All(parts) => Condition::All(each(parts)),
        Condition::Any(parts) => Condition::Any(each(parts)),
        Condition::AtLeast { needed, of } => Condition::AtLeast { needed, of: each(of) },
    }
}

fn least(network: &Network, property: &Property, points: &[Vec<f64>], precision: Precision) -> Option<f64> {
    let margin = |p: &Vec<f64>| Some(property.margin_at(&Inference::run(network, p, precision).ok()?.output));
    points
        .iter()
        .map(margin)
        .collect::<Option<Vec<f64>>>()
        .map(|m| m.into_iter().fold(f64::INFINITY, f64::min))
}

/// Random networks and combinations whose least margin seen is a little above zero, or below: no point of the region is
/// below what case distinctions prove.
#[test]
fn no_point_escapes_the_margin_of_a_combination() {
    let mut random = fastrand::Rng::with_seed(411);
    let (mut split, mut verified) = (0, 0);
    for round in 0..60 * FRONTS {
        let kinds = if round % 3 == 0 { Kinds::All } else { Kinds::Piecewise };
        let model = match round % 2 {
            0 => fronted(&mut random, kinds, round / 2 % FRONTS),
            _ => sharp(&mut random, round / 2),
        };
        let network = model.network();
        let centre: Vec<f64> =
            (0..model.inputs()).map(|_| f64::from((2.0 * random.f64() - 1.0) as f32)).collect();
        let eps = [0.1, 0.4, 1.0, 0.2][round % 4] * (0.5 + random.f64());
        let region = Region::ball(&centre, eps, INPUTS);
        let mut points: Vec<Vec<f64>> = (0..80).map(|_| point(&mut random, &region.outer[0])).collect();
        let mut asked = condition(&mut random, 3);
        for row in asked.rows() {
            let start = point(&mut random, &region.outer[0]);
            points.push(descend(&network, &row.coefficients, start, &region.outer[0]));
        }
        let of = |condition: Condition| Property::Linear { outputs: 2, condition };
        let Some(seen) = least(&network, &of(asked.clone()), &points, Precision::Float64) else { continue };
        if round % 9 != 8 {
            asked = raised(asked, [0.15, 1e-6, 0.05, 0.4, 0.02][round % 5] * eps.min(1.0) + 1e-5 - seen);
        }
        let conjunction = asked.is_conjunction();
        let property = of(asked);
        let arithmetic = ARITHMETICS[usize::from(round % 8 == 7)];
        let what = format!("round {round} {arithmetic}: {property:?}");
        let nominal = vec![centre.clone()];
        let problem =
            Problem { program: &network.body, region, property: property.clone(), nominal, output: None };
        let auto = Settings { arithmetic, ..Settings::cascade(&network.body, eps, None) };
        for settings in [branching(arithmetic, 1 + round % 2), auto] {
            let report = decide(&problem, &settings, 2500);
            let inside = points.iter().filter_map(|point| match arithmetic {
                Arithmetic::Real => Some(point.clone()),
                Arithmetic::Float32 => to_float32(point, &problem.region.outer[0]),
            });
            let inside: Vec<Vec<f64>> = inside.collect();
            let Some(seen) = least(&network, &property, &inside, precision(arithmetic)) else { continue };
            let proven = report.margin.unwrap_or(f64::NEG_INFINITY);
            assert!(seen >= proven - 1e-11, "{what}: {seen} below {proven}");
            match &report.verdict {
                Verdict::Verified => assert!(proven > 0.0 && seen > -1e-11, "{what}: verified, but {seen}"),
                Verdict::Falsified { witness } => {
                    let run = Inference::run(&network, &witness[0], precision(arithmetic)).unwrap();
                    assert!(
                        problem.region.contains(witness) && property.is_violated(&run.output),
                        "{what}: no witness"
                    );
                }
                _ => {}
            }
            let by_cases = report.stages.last().is_some_and(|s| s.name == "branch" || s.name == "slopes");
            split += usize::from(by_cases && !conjunction);
            verified += usize::from(by_cases && !conjunction && report.verdict == Verdict::Verified);
        }
    }
    println!("{split} combinations by cases, {verified} of them verified");
    assert!(split > 100 && verified > 10, "{split} {verified}");
}

/// `y = (relu(x + s), relu(s − x))` behind an ODE that holds still.
fn two_sides(shift: f64) -> Network {
    let mut tensors = Tensors::new();
    let front = linear(&mut tensors, "in", &[&[1.0], &[-1.0]], &[shift, shift], false);
    let still = linear(&mut tensors, "g", &[&[0.0; 2], &[0.0; 2]], &[0.0, 0.0], false);
    let ode = LayerSpec::Ode { dynamics: vec![still], solver: fixed(RungeKutta::Euler, 2) };
    let out = linear(&mut tensors, "out", &[&[1.0, 0.0], &[0.0, 1.0]], &[0.0, 0.0], false);
    Model::new(Shape::flat(1), vec![front, LayerSpec::Relu {}, ode, out], tensors, 2).network()
}

/// One of two outputs is below 0.1 over `[−1, 1]`: neither is everywhere, so that only cases tell; and where both are at
/// 0.1 or above in the middle, nothing verifies it.
#[test]
fn different_parts_may_meet_it_by_different_constraints() {
    let below = |output: usize| {
        let mut coefficients = vec![0.0; 2];
        coefficients[output] = -1.0;
        Condition::Row(LinearRow::new(coefficients, 0.1))
    };
    let always = || Condition::Row(LinearRow::new(vec![0.0, 0.0], 1.0));
    let either = || Condition::Any(vec![below(0), below(1)]);
    let ways = [
        either(),
        Condition::AtLeast { needed: 2, of: vec![below(0), always(), below(1)] },
        Condition::All(vec![always(), Condition::Any(vec![Condition::All(vec![below(0)]), below(1)])]),
    ];
    for (shift, holds) in [(0.0, true), (0.05, true), (0.0999, true), (0.1, false), (0.3, false)] {
        let network = two_sides(shift);
        for (way, condition) in ways.iter().enumerate() {
            for arithmetic in ARITHMETICS {
                let problem = Problem {
                    program: &network.body,
                    region: Region::ball(&[0.0], 1.0, INPUTS),
                    property: Property::Linear { outputs: 2, condition: condition.clone() },
                    nominal: vec![vec![0.9]],
                    output: None,
                };
                let report = decide(&problem, &branching(arithmetic, 1), 20_000);
                let what = format!("{shift} {way} {arithmetic}: {:?}", report.verdict);
                assert_eq!(report.verdict == Verdict::Verified, holds, "{what}");
                assert!(report.margin <= Some(0.1 - shift + 1e-9), "{what}: {:?}", report.margin);
            }
        }
    }
}
