//! `gains data prepare`.

use std::path::{Path, PathBuf};

use gains_data::series::{Order, Recordings};

use crate::support::{fails, ok, run, stderr, stdout, text};

/// Twenty records of two days.
fn raw(folder: &Path) -> PathBuf {
    let set = folder.join("physionet2012/set-a");
    std::fs::create_dir_all(&set).unwrap();
    for id in 100..120 {
        let head =
            format!("Time,Parameter,Value\n00:00,RecordID,{id}\n00:00,Age,{}\n00:00,Weight,-1\n", id - 50);
        let lines: String = (1..48).map(|hour| format!("{hour:02}:00,HR,{}\n", 60 + hour % 7)).collect();
        std::fs::write(set.join(format!("{id}.txt")), head + &lines).unwrap();
    }
    set
}

#[test]
fn physionet_is_prepared_listed_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(folder.path());
    assert!(ok(&["data", "list", "--data-dir", dir]).contains("physionet2012: missing"));
    let set = raw(folder.path());
    assert!(ok(&["data", "list", "--data-dir", dir]).contains("physionet2012: raw; run"));

    std::fs::write(set.join("7.txt"), "Time,Parameter,Value\n00:00,HR,fast\n").unwrap();
    std::fs::write(set.join("8.txt"), "").unwrap();
    std::fs::write(set.join("120.txt"), "Time,Parameter,Value\n05:00,HR,60\n01:00,Mood,3\n").unwrap();
    let output = run(&["data", "prepare", "physionet2012", "--data-dir", dir, "--split-seed", "9"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let errors = stderr(&output);
    assert!(errors.contains("skipped set-a/7.txt: line 2 has `fast` for a value\n"), "{errors}");
    assert!(errors.contains("skipped set-a/8.txt: empty\n"), "{errors}");
    let printed = stdout(&output);
    let line = |words: &str| {
        let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(printed.lines().any(|line| squeezed(line) == words), "no line '{words}' in\n{printed}");
    };
    line("records found 23");
    line("records skipped 2");
    line("bad value 1");
    line("empty 1");
    line("records kept 21");
    line("put in order 1");
    line("lines ignored 1");
    line("features of the series 35");
    line("features of the initial state 6");
    line("24h 18 1 1 1 0");
    assert!(printed.contains("shuffled with seed 9"), "{printed}");

    let file = folder.path().join("physionet2012/physionet2012.series");
    let recordings = Recordings::read(&file).unwrap();
    assert_eq!((recordings.records().len(), recordings.order()), (21, Order::Shuffled(9)));
    assert!(ok(&["data", "list", "--data-dir", dir]).contains("physionet2012: 21 records, prepared"));
    let names = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(names, 2, "no partial file stays behind");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    assert!(ok(&["data", "list", "--data-dir", dir]).contains("physionet2012: damaged"));

    let other = folder.path().join("other.series");
    let quiet =
        ["data", "prepare", "physionet2012", "--data-dir", dir, "--out", text(&other), "--sorted", "-q"];
    let output = run(&quiet);
    assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
    assert_eq!(Recordings::read(&other).unwrap().order(), Order::Sorted);
}

#[test]
fn many_malformed_records_are_named_up_to_twenty() {
    let folder = tempfile::tempdir().unwrap();
    let set = raw(folder.path());
    for id in 0..25 {
        std::fs::write(set.join(format!("{id}.txt")), "").unwrap();
    }
    let output = run(&["data", "prepare", "physionet2012", "--data-dir", text(folder.path())]);
    assert!(output.status.success());
    assert_eq!(stderr(&output).lines().count(), 21);
    assert!(stderr(&output).ends_with("and 5 more\n"));
}

#[test]
fn tables_are_prepared() {
    let folder = tempfile::tempdir().unwrap();
    let (table, out) = (folder.path().join("t.csv"), folder.path().join("t.series"));
    let lines: String = (0..9).map(|t| format!("a{},{t},pulse,{}\n", t % 3, 60 + t)).collect();
    std::fs::write(&table, format!("record,time,feature,value\na1,,age,50\n{lines}b,x,pulse,1\n")).unwrap();
    let output = run(&["data", "prepare", "csv", text(&table), "--out", text(&out)]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "skipped b: line 12 has `x` for a time\n");
    assert!(stdout(&output).starts_with("csv is in "), "{}", stdout(&output));
    let recordings = Recordings::read(&out).unwrap();
    assert_eq!((recordings.records().len(), recordings.features().len()), (3, 2));

    std::fs::write(&table, "time,value\n1,2\n").unwrap();
    let message = fails(&["data", "prepare", "csv", text(&table), "--out", text(&out)], 1, "`time,value`");
    assert!(message.contains("hint: docs/data-formats.md"), "{message}");
    assert_eq!(Recordings::read(&out).unwrap(), recordings, "what was there stays");
}

#[test]
fn what_cannot_be_prepared_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(folder.path());
    let prepare = ["data", "prepare", "physionet2012", "--data-dir"];
    let message = fails(&[&prepare[..], &["/nonexistent"]].concat(), 1, "physionet2012 is not there");
    assert!(message.contains("hint: unpack set-a and set-b"), "{message}");
    std::fs::create_dir_all(folder.path().join("physionet2012/set-b")).unwrap();
    fails(&[&prepare[..], &[dir]].concat(), 1, "holds no records");
    raw(folder.path());

    for flags in [&["--split-seed", "many"][..], &["--split-seed", "-1"], &["--sorted", "--split-seed", "1"]]
    {
        fails(&[&prepare[..], &[dir], flags].concat(), 2, "--split-seed");
    }
    fails(&["data", "prepare", "imagenet"], 2, "imagenet");
    fails(&["data", "prepare", "csv"], 2, "--out");
    fails(&["data", "prepare", "csv", "/nonexistent.csv", "--out", "x"], 1, "cannot read `/nonexistent.csv`");

    // A file where a folder should be cannot be written into, not even by root.
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let out = blocked.join("x.series");
    for out in [text(&out), "/nonexistent/x.series", dir] {
        let message = fails(&[&prepare[..], &[dir, "--out", out]].concat(), 1, "cannot write");
        assert!(message.contains("--out"), "{message}");
    }
    fails(&[&prepare[..], &[dir, "--out", ""]].concat(), 2, "");
}
