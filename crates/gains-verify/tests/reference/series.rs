//! Forecasts: the golden file of PhysioNet, on the authors' grid.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use gains_core::Arithmetic;
use gains_core::import::import_checkpoint;
use gains_core::model_file::read_model;
use gains_core::operator::blend::Blend;
use gains_core::{Network, Precision};
use gains_data::series::{Forecasts, Horizon, Order, Subset, read_physionet};
use gains_ode::{Observations, SeriesProgram};
use gains_verify::property::Tolerance;
use gains_verify::series::{Perturbation, forecast_problem};
use gains_verify::{
    Analysis, Attack, Budget, Clock, Hunt, Method, Problem, Property, Settings, StepForm, Verdict, Verifier,
};
use serde_json::Value;

use crate::support;

pub fn network(folder: &Path, name: &str) -> Network {
    let base = folder.join("weights/physionet");
    let weights = std::fs::read(base.join(format!("{name}.safetensors"))).expect("weights");
    let sidecar = std::fs::read_to_string(base.join(format!("{name}.json"))).expect("sidecar");
    let model = import_checkpoint(&weights, &sidecar).expect("the importer reads the authors' files");
    read_model(&model).expect("and what it writes can be read")
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().unwrap()],
    }
}

fn mask(value: &Value) -> Vec<bool> {
    numbers(value).iter().map(|m| *m != 0.0).collect()
}

fn observations(sample: &Value) -> Observations {
    Observations {
        statics: numbers(&sample["init"]),
        times: numbers(&sample["obs_tp"]),
        values: numbers(&sample["obs_data"]),
        mask: mask(&sample["obs_mask"]),
        target_time: numbers(&sample["tp"])[0],
    }
}

fn problem<'a>(
    program: &'a SeriesProgram,
    series: &Observations,
    target: (&[f64], &[bool]),
    perturbation: &Perturbation,
) -> Problem<'a> {
    let (tolerance, clock) = (Tolerance::default(), Clock::start(Budget::default()));
    forecast_problem(program, series, target, perturbation, tolerance, Arithmetic::Real, clock).unwrap()
}

fn enclose<'a>(problem: &Problem<'a>, method: Method, form: StepForm) -> Analysis<'a> {
    let clock = Clock::start(Budget::default());
    Analysis::new(problem.program, problem.region.outer.clone(), method, form, Arithmetic::Real, clock)
        .unwrap()
}

const METHODS: [Method; 3] = [Method::Box, Method::Gains, Method::Tight];

fn close(ours: &[f64], theirs: &[f64], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (a, b) in ours.iter().zip(theirs) {
        assert!((a - b).abs() <= 1e-6, "{what}: {a} against {b}");
    }
}

#[test]
fn forecasts_agree_with_the_golden_file() {
    let Some(folder) = support::folder("forecasts_agree_with_the_golden_file") else { return };
    let path = folder.join("golden/physionet_mode3_seed100_0.1.json.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let network = network(&folder, "prov_eps0.1_mode3_seed100");
    let mut compared = 0;
    for sample in golden["samples"].as_array().unwrap() {
        let record = sample["record"].as_str().unwrap();
        let series = observations(sample);
        let forecaster = gains_ode::Forecaster::new(&network, series.target_time).unwrap();
        let run = forecaster.run(&series, Precision::Float64).unwrap();
        close(run.output(), &numbers(&sample["pred"]), &format!("{record}: prediction"));
        let trajectory = run.trajectory().unwrap();
        let actions: Vec<f64> = trajectory.iter().map(|v| f64::from(v.action.code())).collect();
        close(&actions, &numbers(&sample["actions"]), &format!("{record}: actions"));
        let states: Vec<f64> = trajectory.iter().flat_map(|v| [v.time, v.step]).collect();
        close(&states, &numbers(&sample["states"]), &format!("{record}: solver states"));
        let (truth, seen) = (numbers(&sample["target"]), mask(&sample["target_mask"]));
        let error = gains_ode::mean_absolute_error(run.output(), &truth, &seen);
        close(&[error], &[sample["mae"].as_f64().unwrap()], &format!("{record}: mean absolute error"));

        for (eps, theirs) in sample["eps"].as_object().unwrap() {
            let what = format!("{record} eps {eps}");
            let perturbation = Perturbation::of_task(&network.description.task, eps.parse().unwrap());
            let laid_out = |blend| SeriesProgram::new(&network, &series, blend).unwrap();
            let (authors, exact) = (laid_out(Blend::Products), laid_out(Blend::Exact));
            let asked = |program| problem(program, &series, (&truth, &seen), &perturbation);
            let (theirs_asked, ours_asked) = (asked(&authors), asked(&exact));
            let Property::Errors(property) = &ours_asked.property else { panic!() };
            let boxes = enclose(&theirs_asked, Method::Box, StepForm::Independent);
            let graph = boxes.graph_size();
            assert_eq!(vec![graph.0 as f64, graph.1 as f64], numbers(&theirs["graph"]), "{what}: graph");
            let ends = |mode: &str, end: &str| numbers(&theirs[mode][end]);
            let plain = boxes.intervals(&property.observed).unwrap();
            close(&plain.lower, &ends("box", "lb"), &format!("{what}: box"));
            close(&plain.upper, &ends("box", "ub"), &format!("{what}: box"));
            close(&[property.worst(&plain)], &[theirs["box"]["mae_worst"].as_f64().unwrap()], &what);
            let mut line = format!("{what}: widths: box (authors) {:.5}", plain.mean_width());
            let theirs_tight: f64 =
                ends("gains", "ub").iter().zip(ends("gains", "lb")).map(|(u, l)| u - l).sum::<f64>()
                    / plain.len() as f64;
            line += &format!(", linear (authors) {theirs_tight:.5}");
            for method in METHODS {
                let started = Instant::now();
                let enclosure = enclose(&ours_asked, method, StepForm::Difference);
                let ours = enclosure.intervals(&property.observed).unwrap();
                let elapsed = started.elapsed();
                let worst = property.worst(&ours);
                let together = enclosure.worst_together(property, &ours).unwrap();
                line += &format!(
                    ", {method} {:.5} (worst {worst:.4}, together {together:.4}, {:.1} ms)",
                    ours.mean_width(),
                    1e3 * elapsed.as_secs_f64()
                );
                let mode = if method == Method::Box { "box" } else { "gains" };
                for i in 0..ours.len() {
                    // The authors' rows are not sound, but nowhere tighter than ours where ours are tightest.
                    if method != Method::Gains {
                        assert!(ours.lower[i] >= ends(mode, "lb")[i] - 1e-6, "{what} {method}: output {i}");
                        assert!(ours.upper[i] <= ends(mode, "ub")[i] + 1e-6, "{what} {method}: output {i}");
                    }
                }
                compared += 1;
            }
            println!("{line}, limit {:.4}", property.limit);
        }
    }
    assert_eq!(compared, 27);
}

/// The authors' provable networks on test records of their own grid: how wide bounds are, how long they take, and
/// that no attack leaves them. `GAINS_RECORDS` says how many records, 12 if it does not.
#[test]
fn test_records_are_bounded_and_attacked() {
    const TEST: &str = "test_records_are_bounded_and_attacked";
    let Some(folder) = support::folder(TEST) else { return };
    let read = std::env::var_os("GAINS_DATA")
        .and_then(|dir| read_physionet(Path::new(&dir), &|_, _| ControlFlow::Continue(())).ok());
    let Some((recordings, _)) = read else {
        println!("SKIPPED {TEST}: the records of physionet2012 are not in GAINS_DATA");
        return;
    };
    let count = std::env::var("GAINS_RECORDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    for (name, mode) in [("prov_eps0.1", 2), ("prov_eps0.2", 2), ("prov_eps0.1", 0)] {
        let network = network(&folder, &format!("{name}_mode{}_seed100", mode + 1));
        let forecasts = Forecasts::new(&recordings, Horizon::PAPER[mode], Order::Sorted).unwrap();
        for eps in [0.05, 0.1, 0.2] {
            let perturbation = Perturbation::of_task(&network.description.task, eps);
            let mut sums = [(0.0, 0, 0.0); 3];
            let (mut robust, mut together, mut cascade) = (0, 0, (0, 0.0));
            for record in forecasts.iter(Subset::Test).take(count) {
                let grid = record.authors_grid();
                let series = Observations {
                    statics: record.initial.iter().map(|x| f64::from(*x as f32)).collect(),
                    times: grid.times,
                    values: grid.values,
                    mask: grid.mask,
                    target_time: record.target_time,
                };
                let (truth, seen) = (&record.target, &record.target_mask);
                let program = SeriesProgram::new(&network, &series, Blend::Exact).unwrap();
                let asked = problem(&program, &series, (truth, seen), &perturbation);
                let Property::Errors(property) = &asked.property else { panic!() };
                let forecaster = gains_ode::Forecaster::new(&network, series.target_time).unwrap();
                let hunt = Hunt::new(&asked, Precision::Float64, Clock::start(Budget::default()));
                let attacked = hunt.run(&Attack { exhaustive: true, ..Attack::default() });
                let error = property.limit - attacked.margin;
                robust += u32::from(attacked.margin > 0.0);
                let worst_series = program.series(&series, &attacked.worst.unwrap());
                let worst_run = forecaster.run(&worst_series, Precision::Float64).unwrap();
                for (method, sum) in METHODS.into_iter().zip(&mut sums) {
                    let started = Instant::now();
                    let enclosure = enclose(&asked, method, StepForm::Difference);
                    let intervals = enclosure.intervals(&property.observed).unwrap();
                    sum.2 += started.elapsed().as_secs_f64();
                    sum.0 += intervals.mean_width();
                    let apart = property.worst(&intervals);
                    sum.1 += u32::from(apart < property.limit);
                    let joint = enclosure.worst_together(property, &intervals).unwrap();
                    assert!(error <= apart + 1e-12 && error <= joint + 1e-12, "{} {method}", record.id);
                    for (i, &output) in property.observed.iter().enumerate() {
                        let value = worst_run.output()[output];
                        assert!(intervals.get(i).contains(value), "{} {method} output {output}", record.id);
                    }
                    assert!(enclosure.graphs().all(|graph| graph.admits(worst_run.trajectory().unwrap())));
                    if method == Method::Tight {
                        together += u32::from(joint.min(apart) < property.limit);
                    }
                }
                let settings = Settings::cascade(program.program(), eps, None);
                let report = Verifier::new(settings).decide(&asked, Budget::default());
                cascade.0 += u32::from(report.verdict == Verdict::Verified);
                cascade.1 += report.elapsed.as_secs_f64();
            }
            let part = |sum: f64| sum / count as f64;
            println!(
                "{name} mode {} eps {eps}: {count} records, withstand PGD {robust}; certified box {}, linear {}, tight {}, \
                 tight and together {together}, cascade {} in {:.1} ms; widths {:.4} {:.4} {:.4}; ms {:.1} {:.1} {:.1}",
                mode + 1,
                sums[0].1,
                sums[1].1,
                sums[2].1,
                cascade.0,
                1e3 * part(cascade.1),
                part(sums[0].0),
                part(sums[1].0),
                part(sums[2].0),
                1e3 * part(sums[0].2),
                1e3 * part(sums[1].2),
                1e3 * part(sums[2].2),
            );
            assert!(sums[0].1 <= sums[1].1 && sums[1].1 <= sums[2].1 && sums[2].1 <= together);
            assert!(together <= robust);
        }
    }
}
