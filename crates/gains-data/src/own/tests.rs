//! Every format with known content, and what is refused.

use std::fs;
use std::path::Path;

use super::fuzz::samples;
use super::*;

fn parsed(name: &str, bytes: &[u8]) -> Result<OwnInputs, OwnError> {
    parse_inputs(bytes, Path::new(name), None)
}

fn refused(name: &str, bytes: &[u8], what: &str) {
    let error = parsed(name, bytes).unwrap_err();
    assert!(error.to_string().contains(what), "{name}: {error}");
    assert!(!error.hint().is_empty() && !error.to_string().contains('\n'), "{error}");
}

#[test]
fn all_formats_hold_the_same_numbers() {
    for (name, bytes) in samples() {
        let inputs = parsed(name, &bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((inputs.samples, inputs.entries()), (3, 2), "{name}");
        assert_eq!(inputs.sample(2), [5.0, 6.0], "{name}");
    }
}

/// Formats are told by their content where the name does not say.
#[test]
fn names_need_not_tell_the_format() {
    for (name, bytes) in samples() {
        let inputs = parsed("data", &bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(inputs.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "{name}");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut packed, &bytes).unwrap();
        let again = parsed("data.gz", &packed.finish().unwrap()).unwrap();
        assert_eq!(again, inputs, "{name}");
    }
}

#[test]
fn arrays_of_all_types_come_out_exactly() {
    let half = |kind: &str, bytes: &[u8]| parsed("x.npy", &fuzz::npy(kind, "2,", bytes)).unwrap().values;
    assert_eq!(half("<f4", &[0, 0, 0, 63, 0, 0, 0, 191]), [0.5, -0.5]);
    assert_eq!(half(">f8", &[63, 224, 0, 0, 0, 0, 0, 0, 191, 224, 0, 0, 0, 0, 0, 0]), [0.5, -0.5]);
    assert_eq!(half("|u1", &[0, 255]), [0.0, 255.0]);
    assert_eq!(half("|i1", &[0, 255]), [0.0, -1.0]);
    assert_eq!(half("<i2", &[1, 0, 255, 255]), [1.0, -1.0]);
    assert_eq!(half("|b1", &[0, 1]), [0.0, 1.0]);
    let large = fuzz::npy("<i8", "1,", &(i64::MAX - 1).to_le_bytes());
    refused("x.npy", &large, "float64 cannot hold exactly");
    refused("x.npy", &fuzz::npy("<f2", "1,", &[0, 0]), "type <f2");
    refused("x.npy", &fuzz::npy("<f8", "", &[0; 8]), "single number");
    refused("x.npy", &fuzz::npy("<f8", "0,2", &[]), "no sample");
    refused("x.npy", &fuzz::npy("<f8", "1000000000000,", &[]), "claims 8000000000000 bytes");
    refused("x.npy", &fuzz::npy("<f8", "18446744073709551615,2", &[]), "claims more");
    refused("x.npy", &fuzz::npy("<f8", &"(".repeat(5000), &[]), "no dictionary");
}

#[test]
fn fortran_order_is_put_right() {
    let mut bytes = fuzz::npy("|u1", "2,3", &[1, 4, 2, 5, 3, 6]);
    let at = bytes.windows(5).position(|w| w == b"False").unwrap();
    bytes[at..at + 5].copy_from_slice(b"True ");
    assert_eq!(parsed("x.npy", &bytes).unwrap().values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn tables_and_lines_name_what_is_wrong() {
    refused("x.csv", b"1,2\n3,4\n", "first line is '1,2'");
    refused("x.csv", b"a,a\n3,4\n", "two columns 'a'");
    refused("x.csv", b"a,b\n3,4,5\n", "not a table");
    refused("x.csv", b"a,b\n3,x\n", "line 2, column 'b' is 'x'");
    refused("x.csv", b"a,b\n3,inf\n", "sample 0, column 'b' is inf");
    refused("x.csv", b"a,b\n", "no sample");
    refused("x.jsonl", b"{\"x\": [1, 2]}\n{\"x\": [1]}\n", "line 2: its x has the axes [1]");
    refused("x.jsonl", b"{\"x\": [[1], 2]}\n", "different depth");
    refused("x.jsonl", b"{\"x\": [1, [2]]}\n", "different depth");
    refused("x.jsonl", b"{\"x\": [1], \"y\": 0}\n{\"x\": [1]}\n", "line 2: either all");
    refused("x.jsonl", b"{\"x\": [1], \"z\": 0}\n", "key 'z'");
    refused("x.jsonl", b"{\"x\": [1e400]}\n", "line 1");
    refused("x.jsonl", b"{\"x\": [1], \"x\": [2]}\n", "line 1: it says 'x' twice");
    refused("x.jsonl", b"{\"y\": 1, \"x\": [1], \"label\": 2}\n", "twice");
    refused("-", b"[1,2]", "line 1: it is no JSON object");
    refused("-", b" \n", "it is empty");
    refused("x.csv", b"", "it is empty");
    refused("x.jsonl", &b"[".repeat(100_000), "line 1");
    refused("x", b"\xff\xfe\xfd", "neither");
    refused("x", b"\x89PNG\r\n", "one picture");
    let labelled = parse_inputs(b"a,y\n1,cat\n2,3\n", Path::new("x.csv"), Some("y")).unwrap();
    assert_eq!(labelled.labels, Some(vec![Label::Name("cat".into()), Label::Written("3".into(), 3.0)]));
    assert_eq!((labelled.columns, labelled.values), (Some(vec!["a".into()]), vec![1.0, 2.0]));
}

#[test]
fn labels_may_be_several_numbers() {
    let two =
        |labels: Vec<Label>| labels == [Label::Numbers(vec![0.5, 2.0]), Label::Numbers(vec![-1.0, 0.0])];
    let table = |column: &str| {
        parse_inputs(b"p,a,q\n0.5,7,2\n-1,8,0\n", Path::new("x.csv"), Some(column)).map_err(|e| e.to_string())
    };
    let inputs = table("p, q").unwrap();
    assert_eq!((inputs.columns, inputs.values), (Some(vec!["a".into()]), vec![7.0, 8.0]));
    assert!(two(inputs.labels.unwrap()));
    assert_eq!(table("q,p").unwrap().labels.unwrap()[0], Label::Numbers(vec![2.0, 0.5]));
    assert!(table("p,p").unwrap_err().contains("twice") && table("p,r").unwrap_err().contains("'r'"));
    let lines = b"{\"x\": [1], \"y\": [0.5, 2]}\n{\"x\": [2], \"y\": [-1, 0]}\n";
    assert!(two(parsed("x.jsonl", lines).unwrap().labels.unwrap()));
    refused("x.jsonl", b"{\"x\": [1], \"y\": [0.5, 2]}\n{\"x\": [2], \"y\": [1]}\n", "line 2: its y");
    refused("x.jsonl", b"{\"x\": [1], \"y\": [[1, 2]]}\n", "not a list of numbers");
    let doubles: Vec<u8> = [0.5_f64, 2.0, -1.0, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut archive = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
    for (name, axes) in [("x.npy", "2,2"), ("y.npy", "2,2")] {
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        io::Write::write_all(&mut archive, &fuzz::npy("<f8", axes, &doubles)).unwrap();
    }
    let archive = archive.finish().unwrap().into_inner();
    assert!(two(parsed("x.npz", &archive).unwrap().labels.unwrap()));
}

/// Samples of folders that are called so, one of each but of those whose name begins with `-`.
fn in_folders(names: &[&str]) -> OwnInputs {
    let held = names.iter().enumerate().filter(|(_, name)| !name.starts_with('-'));
    let labels: Vec<Label> = held.map(|(class, _)| Label::Number(class as f64)).collect();
    OwnInputs {
        samples: labels.len(),
        shape: vec![1, 1, 1],
        values: vec![0.0; labels.len()],
        numbers: Numbers::Pixels,
        columns: None,
        labels: Some(labels),
        classes: Some(names.iter().map(ToString::to_string).collect()),
    }
}

/// A picture of one class is never taken for one of another.
#[test]
fn folders_are_classes_by_name_or_all_by_order() {
    let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let known = names(&["0", "1", "2"]);
    let classes = |folders: &[&str]| in_folders(folders).classes_in(3, &known);
    assert_eq!(classes(&["2"]), Ok(known.clone()));
    assert_eq!(classes(&["a", "b", "c"]), Ok(names(&["a", "b", "c"])));
    let strange = |name: &str, why| Err((name.to_owned(), why));
    assert_eq!(classes(&["1", "cat"]), strange("cat", Strange::OthersFit));
    assert_eq!(classes(&["0", "1", "cat"]), strange("cat", Strange::OthersFit));
    assert_eq!(classes(&["cat"]), strange("cat", Strange::Count));
    assert_eq!(classes(&["-cache", "cat", "dog"]), strange("-cache", Strange::Empty));
    // As text 10 is between 1 and 2: which order is meant?
    assert_eq!(classes(&["10", "8", "9"]), strange("8", Strange::Order));
    assert_eq!(classes(&["08", "09", "10"]), Ok(names(&["08", "09", "10"])));
    assert_eq!(classes(&["class1", "class10", "class2"]), strange("class2", Strange::Order));
    assert_eq!(classes(&["n-1", "n-10", "n-2"]), strange("n-2", Strange::Order));
    assert_eq!(classes(&["0.5", "10.5", "2.5"]), strange("2.5", Strange::Order));
    assert_eq!(classes(&["é1", "é2", "ü"]), Ok(names(&["é1", "é2", "ü"])));
    assert_eq!(in_folders(&["0", "2"]).classes_in(3, &known), Ok(known));
}

/// What is known of samples stands in files with samples, too, beside numbers that may look like it.
#[test]
fn files_with_samples_say_what_is_known_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join(name), bytes).unwrap();
        folder.path().join(name)
    };
    let lines = write("a.jsonl", b"{\"x\": [1], \"y\": 0}\n{\"x\": [0], \"y\": 1}\n");
    assert_eq!(read_labels(&lines).unwrap(), [Label::Number(0.0), Label::Number(1.0)]);
    assert_eq!(read_truth(&lines).unwrap().values, [0.0, 1.0]);
    let lines = write("b.jsonl", b"{\"x\": [1, 2], \"y\": [5, 7]}\n");
    let truth = read_truth(&lines).unwrap();
    assert_eq!((truth.samples, truth.shape, truth.values), (1, vec![2], vec![5.0, 7.0]));
    assert!(read_truth(&write("c.jsonl", b"{\"x\": [1], \"y\": \"cat\"}\n")).is_err());
    assert!(read_truth(&write("d.jsonl", b"{\"x\": [5, 7]}\n")).is_err(), "x is not what is known");
    let table = read_truth(&write("e.csv", b"p,q\n5,7\n")).unwrap();
    assert_eq!((table.columns, table.values), (Some(vec!["p".into(), "q".into()]), vec![5.0, 7.0]));
    let double = |v: [f64; 1]| fuzz::npy("<f8", "1,1", &v[0].to_le_bytes());
    let mut archive = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
    for (name, value) in [("x", 1.0), ("y", 5.0), ("val_x", 2.0), ("val_y", 6.0)] {
        archive.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        io::Write::write_all(&mut archive, &double([value])).unwrap();
    }
    let path = write("f.npz", &archive.finish().unwrap().into_inner());
    let key = |key: &str| PathBuf::from(format!("{}:{key}", path.display()));
    assert_eq!(read_truth(&path).unwrap().values, [5.0]);
    assert_eq!(read_truth(&key("val_y")).unwrap().values, [6.0]);
    assert_eq!(read_labels(&path).unwrap(), [Label::Number(5.0)]);
    assert_eq!(read_inputs(&path, None).unwrap().labels, Some(vec![Label::Number(5.0)]));
    assert_eq!(read_inputs(&key("x"), None).unwrap().labels, Some(vec![Label::Number(5.0)]));
    let other = read_inputs(&key("val_x"), None).unwrap();
    assert_eq!((other.values, other.labels), (vec![2.0], None), "y is of x");
}

/// Classes may be called by numbers that are not their own.
#[test]
fn labels_of_tables_are_names_where_all_of_them_are() {
    let names: Vec<String> = ["1", "2", "x"].map(String::from).to_vec();
    let classes = |table: &str| {
        let inputs = parse_inputs(table.as_bytes(), Path::new("x.csv"), Some("y")).unwrap();
        classes_of(&inputs.labels.unwrap(), names.len(), &names)
    };
    assert_eq!(classes("a,y\n0,1\n0,2\n0,1\n"), Ok(vec![0, 1, 0]));
    assert_eq!(classes("a,y\n0,1\n0,x\n"), Ok(vec![0, 2]));
    assert_eq!(classes("a,y\n0,1\n0,2\n0,0\n"), Ok(vec![1, 2, 0]), "0 is no name, so all are numbers");
    assert_eq!(classes("a,y\n0,1\n0,3\n"), Err(1));
    assert_eq!(classes("a,y\n0,0.5\n"), Err(0));
    // Arrays hold numbers, and text in lines of JSON is a name.
    let one = [Label::Number(1.0), Label::Name("1".into())];
    assert_eq!(classes_of(&one, names.len(), &names), Ok(vec![1, 0]));
}

#[test]
fn what_is_hidden_is_no_class_and_no_picture() {
    let folder = tempfile::tempdir().unwrap();
    for (class, picture) in [("10", "a.png"), ("9", ".b.png"), (".cache", "c.png"), ("9", "d.png")] {
        fs::create_dir_all(folder.path().join(class)).unwrap();
        let kind = (png::ColorType::Grayscale, png::BitDepth::Eight);
        fs::write(folder.path().join(class).join(picture), fuzz::png(1, 1, kind, &[7])).unwrap();
    }
    let inputs = read_inputs(folder.path(), None).unwrap();
    assert_eq!((inputs.samples, inputs.classes), (2, Some(vec!["10".into(), "9".into()])));
}

#[test]
fn pictures_of_one_size_are_read_class_by_class() {
    use png::{BitDepth, ColorType};
    let folder = tempfile::tempdir().unwrap();
    let save = |name: &str, width: u32, kind: (ColorType, BitDepth), data: &[u8]| {
        fs::write(folder.path().join(name), fuzz::png(width, 1, kind, data)).unwrap();
    };
    let grey = (ColorType::Grayscale, BitDepth::Eight);
    fs::create_dir(folder.path().join("b")).unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    save("b/0.png", 2, grey, &[10, 11]);
    save("a/0.png", 2, grey, &[20, 21]);
    let inputs = read_inputs(folder.path(), None).unwrap();
    assert_eq!(inputs.named_labels(), Some(vec![Label::Name("a".into()), Label::Name("b".into())]));
    assert_eq!((inputs.shape, inputs.values), (vec![1, 2, 1], vec![20.0, 21.0, 10.0, 11.0]));
    assert_eq!(inputs.classes, Some(vec!["a".into(), "b".into()]));
    assert_eq!(inputs.labels, Some(vec![Label::Number(0.0), Label::Number(1.0)]));
    save("a/1.png", 2, (ColorType::Grayscale, BitDepth::Sixteen), &[255, 255, 1, 1]);
    assert_eq!(read_inputs(folder.path(), None).unwrap().sample(1), [255.0, 1.0]);
    save("a/2.png", 2, (ColorType::GrayscaleAlpha, BitDepth::Eight), &[7, 255, 8, 255]);
    assert_eq!(read_inputs(folder.path(), None).unwrap().sample(2), [7.0, 8.0]);
    let refused = |what: &str| {
        let error = read_inputs(folder.path(), None).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    save("b/2.png", 3, grey, &[0, 0, 0]);
    refused("it is 1x3x1, those before are 1x2x1");
    save("b/2.png", 2, (ColorType::Rgb, BitDepth::Eight), &[0; 6]);
    refused("it is 1x2x3, those before are 1x2x1");
    save("b/2.png", 2, (ColorType::GrayscaleAlpha, BitDepth::Eight), &[7, 255, 8, 254]);
    refused("transparent");
    assert!(read_inputs(tempfile::tempdir().unwrap().path(), None).is_err());
}

/// A header that claims a picture of 10⁹ pixels costs nothing.
#[test]
fn huge_pictures_are_refused_before_they_are_made() {
    let mut bytes = fuzz::png(5, 4, (png::ColorType::Grayscale, png::BitDepth::Eight), &[0; 20]);
    bytes[16..24].copy_from_slice(&[0, 0, 128, 0, 0, 0, 128, 0]);
    let checksum = {
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[12..29]);
        crc.sum()
    };
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    let error = pictures::picture(&bytes, &mut Vec::new()).unwrap_err();
    assert!(error.contains("32768 times 32768"), "{error}");
}
