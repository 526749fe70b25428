//! Networks for series: random small latent ODEs, asked how much worse their forecasts become, or whether they stay within
//! bounds.

use std::time::Duration;

use gains_check::automaton::Action;
use gains_check::fault::Deadline;
use gains_check::interval::Interval;
use gains_check::series::Laid;
use gains_check::{value, witness};
use gains_core::operator::blend::Blend;
use gains_core::{Arithmetic, Precision};
use gains_ode::{Inference, Observations, SeriesProgram, Watch};
use gains_testkit::latent;
use gains_verify::certificate::NotWritten;
use gains_verify::property::Tolerance;
use gains_verify::series::{Perturbation, forecast_problem, series_problem};
use gains_verify::{Attack, Budget, Clock, Method, Problem, Property, Settings, Stage, StepForm};

use crate::{Both, Outcome};

fn budget() -> Budget<'static> {
    Budget { timeout: Some(Duration::from_secs(5)), vertices: 200, ..Budget::default() }
}

/// A random network and series with what is asked of its forecast.
pub fn drawn(seed: u64, look: impl FnOnce(&Both, &Observations, &Problem<'_>, &mut fastrand::Rng)) {
    let mut random = fastrand::Rng::with_seed(seed);
    let both = Both::new(&latent::model(seed, 1.0 + 2.0 * random.f64()));
    let mut series = latent::series(seed, random.usize(1..6));
    if seed % 11 == 10 {
        series.target_time = 0.0;
    }
    let encoder = both.network.encoder.as_ref().unwrap();
    let program = SeriesProgram::new(&both.network, &series, Blend::Exact).unwrap();
    let perturbation = Perturbation::of_features(encoder, 10_f64.powf(-2.5 + 2.5 * random.f64()));
    let (arithmetic, clock) = (Arithmetic::Real, Clock::start(budget()));
    let problem = if seed.is_multiple_of(3) {
        let far = 10_f64.powf(-3.5 + 3.0 * random.f64());
        let within = |nominal: &[f64]| Ok(Property::within(nominal, far));
        series_problem(&program, &series, &perturbation, arithmetic, clock, within)
    } else {
        let truth: Vec<f64> = (0..latent::FEATURES).map(|_| random.f64() - 0.5).collect();
        let mask: Vec<bool> = (0..latent::FEATURES).map(|i| i == 1 || random.bool()).collect();
        let tolerance = Tolerance { relative: 0.0, absolute: 10_f64.powf(-4.0 + 3.0 * random.f64()) };
        forecast_problem(&program, &series, (&truth, &mask), &perturbation, tolerance, arithmetic, clock)
    };
    look(&both, &series, &problem.unwrap(), &mut random);
}

/// What came of one of them, by a random method.
fn one(seed: u64) -> Outcome {
    let mut outcome = Outcome::Undecided;
    drawn(seed, |both, series, problem, random| {
        let step_form = if random.bool() { StepForm::Difference } else { StepForm::Independent };
        let method = [Method::Box, Method::Gains, Method::Linear, Method::Tight][random.usize(0..4)];
        let settings = match random.bool() {
            true => Settings::cascade(problem.program, problem.region.radius, Some(Attack::default())),
            false => Settings { stages: Stage::bounds(&[method]), step_form, ..Settings::default() },
        };
        outcome = both.ask_about(Some(series), problem, settings, budget());
    });
    outcome
}

#[test]
fn verdicts_about_forecasts_have_certificates() {
    let (mut verified, mut falsified, mut missing) = (0, 0, Vec::new());
    for seed in 0..150 {
        match one(seed) {
            Outcome::Undecided => {}
            Outcome::Falsified => falsified += 1,
            Outcome::Verified(_) => verified += 1,
            Outcome::NotWritten(why) => {
                assert!(!matches!(why, NotWritten::Unspoken(_)), "seed {seed}: {why}");
                missing.push((seed, why));
            }
        }
    }
    println!("{verified} verified, {falsified} falsified, not written: {missing:?}");
    assert!(verified > 40 && falsified > 20 && missing.len() * 20 < verified, "{missing:?}");
}

/// What stands in a certificate of a series: the key `series`, as bytes.
fn bytes_of(series: &Observations) -> Vec<u8> {
    use ciborium::Value;
    let numbers = |tag, bytes| Value::Tag(tag, Box::new(Value::Bytes(bytes)));
    let times = series.times.iter().flat_map(|t| t.to_le_bytes()).collect();
    let observed = series.mask.iter().map(|&seen| u8::from(seen)).collect();
    let text = |key: &str| Value::Text(key.into());
    let map = Value::Map(vec![
        (text("times"), numbers(86, times)),
        (text("observed"), numbers(64, observed)),
        (text("target"), Value::Float(series.target_time)),
    ]);
    let mut bytes = Vec::new();
    ciborium::into_writer(&map, &mut bytes).unwrap();
    bytes
}

/// Both programs lay networks out alike: as many values, the same forecast, every decision of the solver.
#[test]
fn both_programs_forecast_the_same() {
    let mut same = 0;
    for seed in 0..200 {
        drawn(seed, |both, series, problem, _| {
            let inputs: Vec<&[f64]> = problem.nominal.iter().map(Vec::as_slice).collect();
            let run = Inference::run_within(problem.program, &inputs, Precision::Float64, &Watch::default())
                .unwrap();
            let mut solutions = run.solutions();
            let said = bytes_of(series);
            let network = Laid::out(&both.checked, &value::read(&said).unwrap()).unwrap().network;
            assert_eq!((network.nodes.len(), network.inputs()), (run.values.len(), inputs.len()), "{seed}");
            let points = inputs.iter().map(|x| x.iter().map(|&x| Interval::point(x)).collect()).collect();
            let outputs = witness::run(&network, points, Deadline::default(), &mut |ode, state| {
                let (end, moves) = witness::solve(ode, state, 100_000, Deadline::default())?;
                let theirs = &solutions.next().unwrap().trajectory;
                assert_eq!(moves.len(), theirs.len(), "{seed}");
                for (own, their) in moves.iter().zip(theirs) {
                    let code =
                        [Action::Reject, Action::Keep, Action::Increase][usize::from(their.action.code())];
                    let after = |action| ode.solver.after(own.place, action);
                    assert_eq!(after(own.action), after(code), "{seed}");
                }
                Ok(end)
            });
            // Within rounding of a threshold nothing can be said.
            let Ok(outputs) = outputs else { return };
            for (own, their) in outputs.iter().zip(&run.output) {
                let room = 1e-9 * (1.0 + their.abs()) + 4.0 * (own.high - own.low);
                assert!(own.low - room <= *their && *their <= own.high + room, "{seed}: {own:?} {their}");
            }
            same += 1;
        });
    }
    assert!(same > 190, "{same}");
}
