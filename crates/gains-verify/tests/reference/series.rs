//! Forecasts: the golden file of PhysioNet, on the authors' grid.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use gains_core::import::import_checkpoint;
use gains_core::model_file::read_model;
use gains_core::{Network, Precision};
use gains_data::series::{Forecasts, Horizon, Order, Part, read_physionet};
use gains_ode::Observations;
use gains_verify::StepForm;
use gains_verify::limits::{Budget, Clock};
use gains_verify::series::enclosure::Way;
use gains_verify::series::{
    Enclosure, ForecastProperty, ForecastSettings, ForecastVerdict, ForecastVerifier, MixForm, Perturbation,
    SeriesAttack, SeriesMethod, Target, Tolerance,
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
        let target = Target::new(&network, series.target_time).unwrap();
        let run = target.forecaster.run(&series, Precision::Float64).unwrap();
        close(run.output(), &numbers(&sample["pred"]), &format!("{record}: prediction"));
        let trajectory = &run.solution().unwrap().trajectory;
        let actions: Vec<f64> = trajectory.iter().map(|v| f64::from(v.action.code())).collect();
        close(&actions, &numbers(&sample["actions"]), &format!("{record}: actions"));
        let states: Vec<f64> = trajectory.iter().flat_map(|v| [v.time, v.step]).collect();
        close(&states, &numbers(&sample["states"]), &format!("{record}: solver states"));
        let (truth, seen) = (numbers(&sample["target"]), mask(&sample["target_mask"]));
        let property = ForecastProperty::new(&truth, &seen, run.output(), Tolerance::default()).unwrap();
        let error = gains_ode::mean_absolute_error(run.output(), &truth, &seen);
        close(&[error], &[sample["mae"].as_f64().unwrap()], &format!("{record}: mean absolute error"));

        for (eps, theirs) in sample["eps"].as_object().unwrap() {
            let what = format!("{record} eps {eps}");
            let perturbation = Perturbation::paper(&network.description.task, eps.parse().unwrap());
            let enclose = |way: Way| {
                Enclosure::new(&target, &series, &perturbation, way, Clock::start(Budget::default())).unwrap()
            };
            let authors = Way {
                mix: MixForm::Products,
                step_form: StepForm::Independent,
                ..Way::of(SeriesMethod::Box)
            };
            let boxes = enclose(authors);
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
            for method in [SeriesMethod::Box, SeriesMethod::Linear, SeriesMethod::Tight] {
                let started = Instant::now();
                let enclosure = enclose(Way::of(method));
                let ours = enclosure.intervals(&property.observed).unwrap();
                let elapsed = started.elapsed();
                let worst = property.worst(&ours);
                let together = property.worst_together(&enclosure, &ours).unwrap();
                line += &format!(
                    ", {method} {:.5} (worst {worst:.4}, together {together:.4}, {:.1} ms)",
                    ours.mean_width(),
                    1e3 * elapsed.as_secs_f64()
                );
                let mode = if method == SeriesMethod::Box { "box" } else { "gains" };
                for i in 0..ours.len() {
                    // The authors' rows are not sound, but nowhere tighter than ours where ours are tightest.
                    if method != SeriesMethod::Linear {
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
            let perturbation = Perturbation::paper(&network.description.task, eps);
            let mut sums = [(0.0, 0, 0.0); 3];
            let (mut robust, mut together, mut cascade) = (0, 0, (0, 0.0));
            for record in forecasts.iter(Part::Test).take(count) {
                let grid = record.authors_grid();
                let series = Observations {
                    statics: record.initial.iter().map(|x| f64::from(*x as f32)).collect(),
                    times: grid.times,
                    values: grid.values,
                    mask: grid.mask,
                    target_time: record.target_time,
                };
                let target = Target::new(&network, series.target_time).unwrap();
                let run = target.forecaster.run(&series, Precision::Float64).unwrap();
                let (truth, seen) = (&record.target, &record.target_mask);
                let property =
                    ForecastProperty::new(truth, seen, run.output(), Tolerance::default()).unwrap();
                let unreachable = ForecastProperty { limit: f64::INFINITY, ..property.clone() };
                let attacked = SeriesAttack::default().run(
                    &target,
                    &series,
                    &perturbation,
                    &unreachable,
                    Precision::Float64,
                    &|| false,
                );
                robust += u32::from(attacked.error < property.limit);
                let worst_run = target.forecaster.run(&attacked.worst.unwrap(), Precision::Float64).unwrap();
                for (method, sum) in
                    [SeriesMethod::Box, SeriesMethod::Linear, SeriesMethod::Tight].into_iter().zip(&mut sums)
                {
                    let started = Instant::now();
                    let clock = Clock::start(Budget::default());
                    let enclosure =
                        Enclosure::new(&target, &series, &perturbation, Way::of(method), clock).unwrap();
                    let intervals = enclosure.intervals(&property.observed).unwrap();
                    sum.2 += started.elapsed().as_secs_f64();
                    sum.0 += intervals.mean_width();
                    let apart = property.worst(&intervals);
                    sum.1 += u32::from(apart < property.limit);
                    let joint = property.worst_together(&enclosure, &intervals).unwrap();
                    assert!(attacked.error <= apart && attacked.error <= joint, "{} {method}", record.id);
                    for (i, &output) in property.observed.iter().enumerate() {
                        let value = worst_run.output()[output];
                        assert!(intervals.get(i).contains(value), "{} {method} output {output}", record.id);
                    }
                    assert!(enclosure.admits(&worst_run.solution().unwrap().trajectory));
                    if method == SeriesMethod::Tight {
                        together += u32::from(joint.min(apart) < property.limit);
                    }
                }
                let settings = ForecastSettings::default();
                let verifier = ForecastVerifier::new(&network);
                let report =
                    verifier.certify(&series, truth, seen, &perturbation, &settings, Budget::default());
                cascade.0 += u32::from(report.verdict == ForecastVerdict::Verified);
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
