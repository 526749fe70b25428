//! Networks from the grammar of what the loader accepts, every method on each, every margin attacked.
//!
//! The short tests run fixed seeds. `scripts/fuzz.sh` runs random ones for as long as one likes.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod adapter;
mod balls;
mod failure;
mod files;
mod forecasts;
mod images;
mod kinds;
mod points;
mod properties;

use std::io::Write;
use std::time::{Duration, Instant};

use gains_testkit::Choices;
use gains_testkit::grammar::{ForecastCase, ImageCase};

use balls::BallCase;
use failure::{Subject, Tally, check};

/// Attempts at making a failing case smaller, unless `GAINS_FUZZ_ATTEMPTS` says otherwise.
fn attempts() -> usize {
    variable("GAINS_FUZZ_ATTEMPTS").and_then(|text| text.parse().ok()).unwrap_or(3000)
}

/// Checks the cases of seeds.
fn run<C: Subject>(seeds: std::ops::Range<u64>) -> Tally {
    let started = Instant::now();
    let mut tally = Tally::default();
    for seed in seeds {
        match check::<C>(seed, attempts()) {
            Ok(found) => tally.add(&found),
            Err(report) => panic!("{report}"),
        }
    }
    println!("{}: {tally:?} in {:?}", C::NAME, started.elapsed());
    tally
}

#[test]
fn no_classifier_escapes_its_bounds() {
    let tally = run::<ImageCase>(0..700);
    assert!(tally.bounded > 3 * tally.gave_up, "{tally:?}");
    assert!(tally.verified > 300 && tally.falsified > 50, "{tally:?}");
}

#[test]
fn no_classifier_escapes_its_bounds_over_a_ball() {
    let tally = run::<BallCase>(0..300);
    assert!(tally.bounded > 3 * tally.gave_up, "{tally:?}");
    assert!(tally.verified > 100 && tally.falsified > 20, "{tally:?}");
}

#[test]
fn no_forecast_escapes_its_bounds() {
    let tally = run::<ForecastCase>(0..500);
    assert!(tally.bounded > 3 * tally.gave_up, "{tally:?}");
    assert!(tally.verified > 100 && tally.falsified > 10, "{tally:?}");
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The case of `GAINS_FUZZ_CASE`, with its network as a model file beside the report.
fn one<C: Subject>() {
    let text = variable("GAINS_FUZZ_CASE").expect("GAINS_FUZZ_CASE is the seed of a case");
    let seed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let seed = seed.expect("a seed is a number");
    let case = C::draw(&mut Choices::from_seed(seed));
    println!("{case}");
    if let Some(bytes) = case.file() {
        let path = std::env::temp_dir().join(format!("{}-{seed:#x}.safetensors", C::NAME));
        std::fs::write(&path, bytes).unwrap();
        println!("written to {}", path.display());
    }
    run::<C>(seed..seed + 1);
}

#[test]
#[ignore = "repeats one case"]
fn one_image_case() {
    one::<ImageCase>();
}

#[test]
#[ignore = "repeats one case"]
fn one_ball_case() {
    one::<BallCase>();
}

#[test]
#[ignore = "repeats one case"]
fn one_forecast_case() {
    one::<ForecastCase>();
}

/// Random cases for `GAINS_FUZZ_SECONDS`. What fails is appended to `GAINS_FUZZ_FILE`, and the search goes on; the case
/// at hand stands in that file's name with `.now` behind it, for those that end the process.
#[test]
#[ignore = "runs for hours"]
fn fuzz() {
    let seconds = variable("GAINS_FUZZ_SECONDS").and_then(|s| s.parse().ok()).unwrap_or(3600);
    let path = variable("GAINS_FUZZ_FILE").unwrap_or_else(|| "fuzz-failures.txt".into());
    let mut seed =
        variable("GAINS_FUZZ_FROM").and_then(|s| s.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut tally, mut failures) = (Tally::default(), 0);
    while Instant::now() < end {
        for forecast in [false, false, true] {
            seed = seed.wrapping_add(1);
            let name = if forecast { ForecastCase::NAME } else { ImageCase::NAME };
            std::fs::write(format!("{path}.now"), format!("{name} case {seed:#x}\n")).unwrap();
            let started = Instant::now();
            let found = if forecast {
                check::<ForecastCase>(seed, attempts())
            } else {
                check::<ImageCase>(seed, attempts())
            };
            let report = match found {
                Ok(found) => {
                    tally.add(&found);
                    let elapsed = started.elapsed();
                    (elapsed > SLOW).then(|| format!("{name} case {seed:#x} took {elapsed:?}\n"))
                }
                Err(report) => Some(report),
            };
            if let Some(report) = report {
                failures += 1;
                let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
                writeln!(file, "{report}").unwrap();
            }
        }
    }
    std::fs::remove_file(format!("{path}.now")).unwrap();
    println!("{tally:?}");
    assert_eq!(failures, 0, "see {path}");
}

/// No case of this size takes so long.
const SLOW: Duration = Duration::from_secs(20);
