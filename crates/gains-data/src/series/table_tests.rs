use super::*;

fn read(text: &str) -> Result<(Recordings, Vec<Skipped>), SeriesError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    std::fs::write(&path, text).unwrap();
    read_table(&path)
}

fn refused(text: &str) -> String {
    match read(text).unwrap_err() {
        SeriesError::Table { fault, .. } => fault.to_string(),
        other => other.to_string(),
    }
}

const EXAMPLE: &str = "\
record,time,feature,value
b,,age,70
b,0.5,pulse,80
a,2,pulse,64
b,0.5,pulse,90
a,0.125,\"pressure, mean\",101.5
a,,age,31
a,2,\"pressure, mean\",99
";

#[test]
fn lines_may_come_in_any_order() {
    let (recordings, skipped) = read(EXAMPLE).unwrap();
    assert!(skipped.is_empty());
    let features: Vec<(&str, Role)> =
        recordings.features().iter().map(|feature| (feature.name.as_str(), feature.role)).collect();
    let expected = [("age", Role::Static), ("pulse", Role::Series), ("pressure, mean", Role::Series)];
    assert_eq!(features, expected);
    let [a, b] = recordings.records() else { panic!() };
    assert_eq!((a.id(), b.id()), ("a", "b"));
    assert_eq!(a.times(), [0.125, 2.0]);
    assert_eq!(a.statics()[0].value, 31.0);
    assert_eq!(b.point(0).observations[0].value, 85.0, "the mean of 80 and 90");
    assert_eq!(recordings.counts().found, 2);
    assert_eq!(recordings.observations(), 4);
}

#[test]
fn line_ends_byte_order_marks_and_spaces_do_not_matter() {
    let plain = read(EXAMPLE).unwrap().0;
    let windows = format!("\u{feff}{}", EXAMPLE.replace('\n', "\r\n").replace(",2,", ", 2 ,"));
    let read = read(&windows).unwrap().0;
    assert_eq!(read.records(), plain.records());
    assert_ne!(read.source_digest(), plain.source_digest());
}

#[test]
fn a_bad_line_costs_its_record() {
    let text = format!(
        "{EXAMPLE}c,1,pulse,fast\nc,2,pulse,60\nd,-1,pulse,60\ne,NaN,pulse,60\nf,1,pulse,nan\ng,1,pulse,1e39\n\
         h,1,pulse,1e30\n"
    );
    let (recordings, skipped) = read(&text).unwrap();
    let ids: Vec<&str> = recordings.records().iter().map(|record| record.id()).collect();
    assert_eq!(ids, ["a", "b", "h"]);
    let reasons: Vec<(&str, String)> =
        skipped.iter().map(|skipped| (skipped.name.as_str(), skipped.reason.to_string())).collect();
    let expected = [
        ("c", "line 9 has `fast` for a value"),
        ("d", "line 11 has `-1` for a time"),
        ("e", "line 12 has `NaN` for a time"),
        ("f", "line 13 has `nan` for a value"),
        ("g", "line 14 has `1e39` for a value"),
    ];
    assert_eq!(reasons, expected.map(|(name, reason)| (name, reason.to_owned())));
    assert_eq!((recordings.counts().found, recordings.counts().skipped), (8, 5));
}

#[test]
fn what_is_no_table_is_refused() {
    assert_eq!(refused(""), "its header is `` instead of `record,time,feature,value`");
    assert_eq!(refused("id,t,x\n1,2,3\n"), "its header is `id,t,x` instead of `record,time,feature,value`");
    assert_eq!(refused("record,time,feature,value\n"), "it has no lines after the header");
    let line = |line: &str| refused(&format!("record,time,feature,value\n{line}\n"));
    assert_eq!(line("a,1,x"), "line 2 has 3 fields instead of 4");
    assert_eq!(line("a,1,x,2,"), "line 2 has 5 fields instead of 4");
    assert_eq!(line(",1,x,2"), "line 2 has no record");
    assert_eq!(line("a,1,,2"), "line 2 has no feature");
    assert_eq!(line("a,,x,2"), "no line has a time");
    assert!(line("a,1,x,2\na,,x,2").contains("`x` has a time in some lines"));
    assert!(line(&format!("{},1,x,2", "r".repeat(300))).contains("300 bytes, at most 255"));
    assert!(line("a,1,x,two").contains("all 1 records are malformed; the first, a: line 2"));
    let many: String = (0..5000).map(|i| format!("a,1,x{i},2\n")).collect();
    assert!(line(&many).contains("more than 4096 features"));
}

#[test]
fn binary_garbage_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    std::fs::write(&path, [b"record,time,feature,value\na,1,\xff\xfe,2\n".as_slice(), &[0, 1, 2]].concat())
        .unwrap();
    assert!(read_table(&path).unwrap_err().to_string().contains("UTF-8"));
    assert!(matches!(read_table(&folder.path().join("none.csv")), Err(SeriesError::Read { .. })));
    assert!(matches!(read_table(folder.path()), Err(SeriesError::Read { .. })));
}
