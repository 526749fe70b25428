//! Folders of raw PhysioNet records, through to what a network sees.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use gains_data::series::{
    Forecasts, Horizon, Malformed, Order, Recordings, SeriesError, Skipped, Subset, physionet_file,
    read_physionet,
};

fn go_on(_: usize, _: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A record of two days with a pulse every hour.
fn record(id: usize) -> String {
    let mut text =
        format!("Time,Parameter,Value\n00:00,RecordID,{id}\n00:00,Age,{}\n00:00,Weight,-1\n", 20 + id % 70);
    for hour in 0..=47 {
        text += &format!("{hour:02}:07,HR,{}\n", 60 + (id + hour) % 30);
    }
    text
}

/// `count` records, half of them in each set.
fn write(dir: &Path, count: usize) {
    for set in ["set-a", "set-b"] {
        fs::create_dir_all(dir.join("physionet2012").join(set)).unwrap();
    }
    for id in 1000..1000 + count {
        let set = if id < 1000 + count / 2 { "set-a" } else { "set-b" };
        fs::write(dir.join("physionet2012").join(set).join(format!("{id}.txt")), record(id)).unwrap();
    }
}

#[test]
fn both_sets_are_read_in_order_whatever_the_threads_do() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 60);
    let calls = AtomicUsize::new(0);
    let (recordings, skipped) = read_physionet(dir.path(), &|done, total| {
        calls.fetch_add(1, Ordering::Relaxed);
        assert!(done <= total && total == 60);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(calls.into_inner(), 60);
    assert!(skipped.is_empty());
    let ids: Vec<&str> = recordings.records().iter().map(|record| record.id()).collect();
    assert_eq!(ids, (1000..1060).map(|id| id.to_string()).collect::<Vec<_>>());
    let (again, _) = read_physionet(dir.path(), &go_on).unwrap();
    assert_eq!(again, recordings);
    assert_eq!(recordings.counts().found, 60);
    assert_eq!((recordings.points(), recordings.observations()), (60 * 49, 60 * 49));
    assert_eq!(recordings.seen()[..5], [60, 0, 0, 0, 60]);

    let file = physionet_file(dir.path());
    fs::write(&file, recordings.to_bytes()).unwrap();
    assert_eq!(Recordings::read(&file).unwrap(), recordings);
    // Naming the folder itself does as well.
    let (inside, _) = read_physionet(&dir.path().join("physionet2012"), &go_on).unwrap();
    assert_eq!(inside, recordings);

    fs::write(dir.path().join("physionet2012/set-b/1059.txt"), record(1059).replace("HR,6", "HR,7")).unwrap();
    assert_ne!(read_physionet(dir.path(), &go_on).unwrap().0.source_digest(), recordings.source_digest());
}

#[test]
fn malformed_records_are_left_out_and_named() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 10);
    let set = dir.path().join("physionet2012/set-a");
    fs::write(set.join("1.txt"), "").unwrap();
    fs::write(set.join("2.txt"), record(3)).unwrap();
    fs::write(set.join("4.txt"), &record(4)[..200]).unwrap();
    fs::write(set.join("5.txt"), [0xff, 0, 1, 2]).unwrap();
    fs::write(set.join("1009.txt"), record(1009)).unwrap();
    fs::create_dir(set.join("6.txt")).unwrap();
    fs::write(set.join("README"), "no record").unwrap();
    let (recordings, skipped) = read_physionet(dir.path(), &go_on).unwrap();
    let rules: Vec<(&str, &str)> = skipped.iter().map(|s| (s.name.as_str(), s.reason.rule())).collect();
    let expected = [
        ("set-a/1.txt", "empty"),
        ("set-a/2.txt", "other record number"),
        ("set-a/4.txt", "cut off"),
        ("set-a/5.txt", "not text"),
        ("set-a/6.txt", "unreadable"),
        ("set-b/1009.txt", "second of its name"),
    ];
    assert_eq!(rules, expected);
    assert!(skipped.contains(&Skipped { name: "set-a/1.txt".into(), reason: Malformed::Empty }));
    assert_eq!((recordings.counts().found, recordings.counts().skipped), (16, 6));
    assert_eq!(recordings.records().len(), 10);
}

#[test]
fn missing_and_empty_folders_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let error = read_physionet(dir.path(), &go_on).unwrap_err();
    assert!(matches!(error, SeriesError::MissingFolder { .. }), "{error}");
    assert!(error.to_string().contains("set-a") && error.hint().contains("physionet.org"));
    write(dir.path(), 0);
    let error = read_physionet(dir.path(), &go_on).unwrap_err();
    assert!(matches!(error, SeriesError::NoRecords { .. }), "{error}");
    fs::write(dir.path().join("physionet2012/set-a/7.txt"), "").unwrap();
    let error = read_physionet(dir.path(), &go_on).unwrap_err();
    assert_eq!(error.to_string(), "all 1 records are malformed; the first, set-a/7.txt: empty");
}

#[test]
fn reading_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 40);
    let stop = |done, _| if done >= 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    assert!(matches!(read_physionet(dir.path(), &stop), Err(SeriesError::Stopped)));
}

#[test]
fn parts_do_not_overlap_and_repeat_with_the_seed() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 60);
    let (recordings, _) = read_physionet(dir.path(), &go_on).unwrap();
    let parts = |order| {
        let forecasts = Forecasts::new(&recordings, Horizon::PAPER[2], order).unwrap();
        Subset::ALL.map(|part| forecasts.iter(part).map(|series| series.id).collect::<Vec<_>>())
    };
    let shuffled = parts(Order::Shuffled(5));
    assert_eq!(shuffled, parts(Order::Shuffled(5)));
    assert_ne!(shuffled, parts(Order::Shuffled(6)));
    assert_eq!(shuffled.each_ref().map(Vec::len), [54, 3, 3]);
    let mut all = shuffled.concat();
    all.sort_unstable();
    assert_eq!(all, parts(Order::Sorted).concat());
    assert_eq!(parts(Order::Sorted)[2], ["1057", "1058", "1059"]);
}
