//! Regions from subnormal to astronomic: no panic, no NaN, and no bound that a point disproves.

use gains_core::{Arithmetic, BoxVec, Interval, Precision};
use gains_ode::Inference;
use gains_testkit::{Kinds, random_model};
use gains_verify::{Settings, Stage, Verdict};

use crate::region::{
    ARITHMETICS, METHODS, MODES, analyse, budget, certify, point, property, to_float32, value,
};

const WIDTHS: [f64; 10] = [5e-324, 1e-310, 1e-40, 1e-12, 1.0, 100.0, 1e6, 1e19, 1e40, 1e150];

/// Around zero, where the width is all there is, and around one.
fn regions(inputs: usize, width: f64) -> [BoxVec; 4] {
    [
        BoxVec::new(vec![-width; inputs], vec![width; inputs]),
        BoxVec::new(vec![0.0; inputs], vec![width; inputs]),
        BoxVec::ball(&vec![1.0; inputs], width, Interval::new(f64::MIN, f64::MAX)),
        BoxVec::new(vec![width; inputs], vec![width; inputs]),
    ]
}

#[test]
fn bounds_hold_on_regions_of_every_size() {
    let mut random = fastrand::Rng::with_seed(61);
    let (mut finite, mut useless) = (0, 0);
    for round in 0..50 {
        let model = random_model(&mut random, Kinds::All);
        let network = model.network();
        let property = property(&mut random, network.outputs());
        let width = WIDTHS[round % WIDTHS.len()];
        for region in regions(model.inputs(), width) {
            for arithmetic in ARITHMETICS {
                for mode in MODES {
                    let Ok((_, lower)) = analyse(&network, &region, &property, mode, arithmetic) else {
                        useless += 1;
                        continue;
                    };
                    finite += 1;
                    for _ in 0..4 {
                        let at = point(&mut random, &region);
                        let (at, precision) = match arithmetic {
                            Arithmetic::Real => (at, Precision::Float64),
                            Arithmetic::Float32 => match to_float32(&at, &region) {
                                Some(at) => (at, Precision::Float32),
                                None => continue,
                            },
                        };
                        let run = Inference::run(&network, &at, precision).unwrap();
                        // As everywhere, a float64 run may lose 1e-12 of what passes through it.
                        let size = run.output.iter().chain(&at).fold(1.0, |m: f64, y| m.max(y.abs()));
                        for (row, bound) in property.rows.iter().zip(&lower) {
                            let reached = value(row, &run.output);
                            let forgiven = 1e-12 * size;
                            let what = format!("round {round} width {width:e} {mode:?} {arithmetic}");
                            assert!(reached >= bound - forgiven, "{what}: {reached} below {bound}");
                        }
                    }
                }
            }
        }
    }
    println!("{finite} analyses with bounds, {useless} without");
    assert!(finite > 600);
}

/// Over the whole of a huge region no honest network keeps one class; those found are checked by points.
#[test]
fn huge_regions_are_not_verified_against_the_evidence() {
    let mut random = fastrand::Rng::with_seed(62);
    for round in 0..30 {
        let model = random_model(&mut random, Kinds::All);
        let network = model.network();
        let centre = vec![0.5; model.inputs()];
        let label = Inference::run(&network, &centre, Precision::Float64).unwrap().prediction();
        for eps in [100.0, 1e6, 1e150, f64::MAX, f64::INFINITY, f64::NAN] {
            let settings = Settings { stages: Stage::bounds(&METHODS), ..Settings::default() };
            let everything = Interval::new(f64::MIN, f64::MAX);
            let report = certify(&network, (&centre, label, eps), everything, &settings, budget());
            let Verdict::Verified = report.verdict else { continue };
            let region = BoxVec::ball(&centre, eps.min(1e30), everything);
            for _ in 0..200 {
                let at = point(&mut random, &region);
                let Ok(run) = Inference::run(&network, &at, Precision::Float64) else { continue };
                assert_eq!(run.prediction(), label, "round {round} eps {eps:e}");
            }
        }
    }
}
