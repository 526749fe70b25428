//! The inputs of the authors' implementation, number by number.
//!
//! Needs `GAINS_REFERENCE` (their results) and `GAINS_DATA` (the raw records); says so when it is skipped.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use gains_data::series::{Forecasts, Horizon, Order, Recordings, SeriesError, Subset, read_physionet};
use serde_json::Value;

/// Means and deviations are sums of up to half a million numbers in another order; float32 is in their times and
/// initial states only, which they keep in that format.
const TOLERANCE: f64 = 1e-6;

fn golden(folder: &Path) -> Value {
    let file = folder.join("golden/physionet_mode3_seed100_0.1.json.gz");
    let bytes = std::fs::read(file).expect("the golden file");
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Both sets of raw records, or nothing after saying that the test is skipped.
fn official(test: &str) -> Option<Recordings> {
    let read = std::env::var_os("GAINS_DATA")
        .map(|dir| read_physionet(Path::new(&dir), &|_, _| ControlFlow::Continue(())))
        .filter(|read| !matches!(read, Err(SeriesError::MissingFolder { .. })));
    match read.map(Result::unwrap) {
        Some((recordings, skipped)) if recordings.counts().found == 8000 => {
            assert!(skipped.is_empty(), "{skipped:?}");
            Some(recordings)
        }
        _ => {
            println!("SKIPPED {test}: the 8000 records of physionet2012 are not in GAINS_DATA");
            None
        }
    }
}

/// All numbers in nested lists, in order.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().unwrap()],
    }
}

/// The largest difference, relative to the size where that is above 1.
fn difference(ours: &[f64], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).fold(0.0, f64::max)
}

fn as_numbers(mask: &[bool]) -> Vec<f64> {
    mask.iter().map(|&seen| f64::from(u8::from(seen))).collect()
}

#[test]
fn inputs_are_those_of_the_reference() {
    const TEST: &str = "inputs_are_those_of_the_reference";
    let Some(folder) = std::env::var_os("GAINS_REFERENCE").map(PathBuf::from) else {
        println!("SKIPPED {TEST}: GAINS_REFERENCE is not set");
        return;
    };
    let Some(recordings) = official(TEST) else { return };
    let golden = golden(&folder);
    let forecasts = Forecasts::new(&recordings, Horizon::PAPER[2], Order::Sorted).unwrap();
    assert_eq!(forecasts.len(Subset::Train) as u64, golden["n_train"].as_u64().unwrap());
    let mut worst = difference(forecasts.statistics().mean(), &numbers(&golden["stats_mean"]));
    worst = worst.max(difference(forecasts.statistics().deviation(), &numbers(&golden["stats_std"])));
    println!("statistics differ by {worst:e}");
    assert!(worst < TOLERANCE);

    let samples = golden["samples"].as_array().unwrap();
    assert!(!samples.is_empty());
    for sample in samples {
        let id = sample["record"].as_str().unwrap();
        let series = forecasts.iter(Subset::Test).find(|series| series.id == id).expect("a test record");
        let grid = series.authors_grid();
        let compare = |name: &str, ours: &[f64]| {
            let difference = difference(ours, &numbers(&sample[name]));
            println!("{id} {name} differs by {difference:e}");
            assert!(difference < TOLERANCE, "{id} {name}: {difference:e}");
        };
        compare("obs_tp", &grid.times);
        compare("obs_data", &grid.values);
        compare("obs_mask", &as_numbers(&grid.mask));
        compare("init", &series.initial);
        compare("tp", &[series.target_time]);
        compare("target", &series.target);
        compare("target_mask", &as_numbers(&series.target_mask));
    }
}

#[test]
fn the_official_records_divide_as_documented() {
    let Some(recordings) = official("the_official_records_divide_as_documented") else { return };
    for (horizon, kept) in Horizon::PAPER.into_iter().zip([7987, 7985, 7982]) {
        for order in [Order::Sorted, Order::Shuffled(0)] {
            let forecasts = Forecasts::new(&recordings, horizon, order).unwrap();
            assert_eq!(Subset::ALL.map(|part| forecasts.len(part)), [kept - 800, 400, 400]);
            assert_eq!((forecasts.dropped().too_short, forecasts.dropped().no_target), (8000 - kept, 0));
            let later = Subset::ALL.into_iter().flat_map(|part| forecasts.iter(part).collect::<Vec<_>>());
            assert_eq!(later.filter(|series| !series.later_times.is_empty()).count(), 35);
        }
    }
}
