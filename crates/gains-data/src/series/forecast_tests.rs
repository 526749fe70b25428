use super::super::feature::{PHYSIONET, physionet_features};
use super::super::record::Builder;
use super::super::recordings::Counts;
use super::*;

/// Values by name at times in steps of three minutes; without a time they are static.
type Values<'a> = &'a [(Option<u32>, &'a str, f32)];

fn feature(name: &str) -> u16 {
    PHYSIONET.iter().position(|row| row.0 == name).unwrap() as u16
}

fn physionet(records: &[Values<'_>]) -> Recordings {
    let build = |(index, values): (usize, &Values<'_>)| {
        let mut builder = Builder::default();
        builder.point(0.0);
        for &(step, name, value) in *values {
            match step {
                None => builder.constant(feature(name), value),
                Some(step) => builder.at(f64::from(step) * 0.05, feature(name), value),
            }
        }
        builder.finish(format!("{}", 100 + index))
    };
    Recordings {
        kind: Kind::PhysioNet2012,
        features: physionet_features(),
        records: records.iter().enumerate().map(build).collect(),
        order: Order::Sorted,
        source: [0; 16],
        counts: Counts::default(),
    }
}

const DAY: u32 = 480;

/// Three records of which the first alone is trained on.
fn with_fillers(first: Values<'_>) -> Recordings {
    let filler: Values<'_> = &[(Some(0), "HR", 1.0), (Some(DAY), "HR", 2.0)];
    physionet(&[first, filler, filler])
}

fn first(recordings: &Recordings, hours: f64) -> Series {
    let horizon = Horizon::new(hours).unwrap();
    let forecasts = Forecasts::new(recordings, horizon, Order::Sorted).unwrap();
    forecasts.series(Subset::Train, 0)
}

/// Position among the 35.
fn column(name: &str) -> usize {
    PHYSIONET.iter().filter(|row| row.1 == Role::Series).position(|row| row.0 == name).unwrap()
}

#[test]
fn each_mode_keeps_what_lies_far_enough_back() {
    let steps = [0, 100, 200, 300, 400, 500, 600];
    let values: Vec<_> = steps.iter().map(|&step| (Some(step), "HR", step as f32)).collect();
    let recordings = with_fillers(&values);
    let kept = |hours: f64| first(&recordings, hours).times.len();
    // The last is at 30 h; 6 h are 120 steps, and so on.
    assert_eq!((kept(6.0), kept(12.0), kept(24.0)), (5, 4, 2));
    let series = first(&recordings, 24.0);
    assert_eq!(series.times, [0.0, f64::from(5.0_f32 / 48.0)]);
    assert_eq!(series.target_time, f64::from(30.0_f32 / 48.0));
    assert!(series.target_mask[column("HR")]);
    assert_eq!(series.target_mask.iter().filter(|&&seen| seen).count(), 1);
    assert!(series.later_times.is_empty());
}

#[test]
fn exactly_a_day_before_is_decided_in_float32_as_the_reference_does() {
    // float32 has 24.1 a little above and 46.6 a little below, so that 22.6 is more than 46.6 − 24.
    for (last, stays) in [(482, true), (932, false)] {
        let values = [(Some(0), "HR", 1.0), (Some(last - DAY), "HR", 2.0), (Some(last), "HR", 3.0)];
        let hours = |step: u32| (f64::from(step) * 0.05) as f32;
        assert_eq!(hours(last - DAY) <= hours(last) - 24.0, stays, "{last}");
        assert_eq!(first(&with_fillers(&values), 24.0).times.len(), if stays { 2 } else { 1 }, "{last}");
    }
}

#[test]
fn short_records_are_dropped() {
    let long: Values<'_> = &[(Some(0), "HR", 1.0), (Some(DAY), "HR", 2.0)];
    let short: Values<'_> = &[(Some(0), "HR", 1.0), (Some(DAY - 1), "HR", 2.0)];
    let alone: Values<'_> = &[(Some(0), "HR", 1.0)];
    let no_target: Values<'_> = &[(Some(0), "HR", 1.0), (Some(9), "GCS", 8.0), (Some(DAY), "MechVent", 1.0)];
    let recordings = physionet(&[short, long, alone, long, no_target, long]);
    let forecasts = Forecasts::new(&recordings, Horizon(24.0), Order::Sorted).unwrap();
    assert_eq!(forecasts.dropped(), Dropped { too_short: 2, no_target: 1 });
    assert_eq!(Subset::ALL.map(|part| forecasts.series(part, 0).id), ["101", "103", "105"]);
    let error = Forecasts::new(&recordings, Horizon(25.0), Order::Sorted).unwrap_err();
    assert!(matches!(error, SeriesError::TooFew { records: 6, kept: 0, .. }), "{error}");
    let few = physionet(&[long, long]);
    assert!(Forecasts::new(&few, Horizon(24.0), Order::Sorted).is_err());
}

#[test]
fn the_target_is_the_last_point_with_a_feature_of_the_series() {
    let series = first(
        &with_fillers(&[
            (Some(0), "Weight", 70.0),
            (Some(10), "HR", 60.0),
            (Some(20), "K", 4.0),
            (Some(20), "GCS", 3.0),
            (Some(30), "MechVent", 1.0),
            (Some(10), "GCS", 9.0),
            (Some(900), "GCS", 15.0),
        ]),
        24.0,
    );
    let time = |step: u32| f64::from((f64::from(step) * 0.05) as f32 / 48.0);
    assert_eq!(series.times, [time(0), time(10)]);
    assert_eq!(series.target_time, time(20));
    assert!(series.target_mask[column("K")]);
    assert_eq!(series.later_times, [time(30), time(900)]);
    // Nothing at or after the target is given away.
    assert_eq!(series.initial[4..], [9.0, 0.0]);
    let grid = series.authors_grid();
    assert_eq!(grid.times, [time(0), time(10), time(20), time(30), time(900), 1.0]);
    assert!(grid.mask[2 * 35..].iter().all(|&seen| !seen));
}

#[test]
fn the_initial_state_has_descriptors_the_mean_gcs_and_ventilation() {
    let series = first(
        &with_fillers(&[
            (None, "Age", 54.0),
            (None, "Gender", 1.0),
            (None, "ICUType", 4.0),
            (Some(0), "HR", 60.0),
            (Some(1), "GCS", 16.0),
            (Some(2), "GCS", 8.0),
            (Some(3), "GCS", 1.0),
            (Some(4), "MechVent", 1.0),
            (Some(900), "GCS", 14.0),
            (Some(900), "HR", 70.0),
        ]),
        24.0,
    );
    // Age is its own mean; Height is missing; GCS is clipped to 3..15 and (15 + 8 + 3) / 3.
    assert_eq!(series.initial, [0.0, 1.0, 0.0, 4.0, 26.0 / 3.0, 1.0]);
    assert_eq!(series.times.len(), 5, "points with nothing of the series stay in the grid");
    assert!(series.mask[35..].iter().all(|&seen| !seen));
    let none = first(&with_fillers(&[(Some(0), "HR", 60.0), (Some(900), "HR", 70.0)]), 24.0);
    assert_eq!(none.initial, [0.0; 6]);
}

#[test]
fn values_are_clipped_and_normalised_with_the_population_of_the_training_part() {
    let recordings = with_fillers(&[
        (Some(0), "Temp", 20.0),
        (Some(1), "Temp", 36.0),
        (Some(2), "Temp", 99.0),
        (Some(2), "FiO2", 0.4),
        (Some(2), "SaO2", 97.0),
        (Some(3), "K", 4.0),
        (Some(900), "Temp", 37.0),
    ]);
    let forecasts = Forecasts::new(&recordings, Horizon(24.0), Order::Sorted).unwrap();
    let statistics = forecasts.statistics();
    let temp = feature("Temp") as usize;
    // 32, 36, 45 and the target's 37 have mean 37.5 and variance (30.25 + 2.25 + 56.25 + 0.25) / 4.
    assert_eq!(statistics.mean()[temp], 37.5);
    assert!((statistics.deviation()[temp] - 22.25_f64.sqrt()).abs() < 1e-15);
    assert_eq!(statistics.mean()[feature("HR") as usize], 0.0, "not of the training part");
    assert_eq!(statistics.deviation()[feature("HR") as usize], 1.0);
    assert_eq!(statistics.deviation()[feature("K") as usize], 1.0, "always the same");
    assert_eq!(statistics.deviation()[feature("SaO2") as usize], 100.0);
    let series = forecasts.series(Subset::Train, 0);
    let at = |row: usize, name: &str| series.values[row * 35 + column(name)];
    assert!((at(0, "Temp") + 5.5 / 22.25_f64.sqrt()).abs() < 1e-15);
    assert_eq!(at(2, "FiO2"), f64::from(0.4_f32));
    assert_eq!(at(2, "SaO2"), 0.97);
    assert_eq!(at(3, "K"), 0.0);
    assert!(series.mask[3 * 35 + column("K")] && !series.mask[3 * 35 + column("Temp")]);
    let raw = statistics.to_raw(temp, series.target[column("Temp")]);
    assert!((raw - 37.0).abs() < 1e-12);
}

#[test]
fn the_authors_grid_ends_at_one_once() {
    let early = first(&with_fillers(&[(Some(0), "HR", 60.0), (Some(900), "HR", 70.0)]), 24.0);
    assert_eq!(early.authors_grid().times, [0.0, f64::from(45.0_f32 / 48.0), 1.0]);
    let late = first(&with_fillers(&[(Some(0), "HR", 60.0), (Some(960), "HR", 70.0)]), 24.0);
    let grid = late.authors_grid();
    assert_eq!(grid.times, [0.0, 1.0]);
    assert_eq!((grid.values.len(), grid.mask.len()), (70, 70));
    assert_eq!(grid.mask.iter().filter(|&&seen| seen).count(), 1);
}

#[test]
fn a_table_has_its_own_unit_of_time() {
    let build = |index: usize| {
        let mut builder = Builder::default();
        builder.constant(0, index as f32);
        for (time, value) in [(0.0, 1.0), (1e9, 3.0), (1e9 + 1.0, 5.0 + index as f32)] {
            builder.at(time, 1, value);
        }
        builder.finish(index.to_string())
    };
    let named = |name: &str, role| Feature { name: name.into(), role };
    let recordings = Recordings {
        kind: Kind::Csv,
        features: vec![named("age", Role::Static), named("x", Role::Series)],
        records: (1..=4).map(build).collect(),
        order: Order::Sorted,
        source: [0; 16],
        counts: Counts::default(),
    };
    let forecasts = Forecasts::new(&recordings, Horizon(1.0), Order::Sorted).unwrap();
    assert_eq!(Subset::ALL.map(|part| forecasts.len(part)), [2, 1, 1]);
    assert_eq!(forecasts.statistics().span(), 1e9 + 1.0);
    let series = forecasts.series(Subset::Test, 0);
    assert_eq!((series.times.len(), series.target_time), (2, 1.0));
    // Ages 1 and 2 are trained on: mean 1.5, deviation 0.5.
    assert_eq!(series.initial, [5.0]);
    assert_eq!(series.width(), 1);
}

#[test]
fn horizons_are_positive_times() {
    assert_eq!("24h".parse::<Horizon>().unwrap(), Horizon::PAPER[2]);
    assert_eq!("0.5".parse::<Horizon>().unwrap().ahead(), 0.5);
    for text in ["", "h", "0", "-6h", "nan", "inf", "6 h", "six"] {
        assert!(text.parse::<Horizon>().is_err(), "{text}");
    }
}
