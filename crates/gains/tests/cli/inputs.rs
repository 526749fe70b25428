//! Inputs of one's own, in every format, by every command.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use gains_core::Shape;
use gains_core::description::{LayerSpec, RungeKutta, Task};
use gains_core::model_file::{Tensors, write_model};
use gains_testkit::{Model, fixed, linear};
use serde_json::Value;

use super::support::{fails, gains, ok, records, run, stderr, stdout, text};

/// An array of NumPy.
pub fn npy(kind: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let axes: String = shape.iter().map(|axis| format!("{axis},")).collect();
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({axes}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn doubles(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Inputs decay, their order stays: class 0 if the first of two numbers is larger.
///
/// The margin over a region is `c·(x₀ − x₁)` at its worst, with `c` about 1/e.
fn two(folder: &Path) -> PathBuf {
    saved(folder, "two", two_numbers())
}

fn two_numbers() -> Model {
    let mut tensors = Tensors::new();
    let first = linear(&mut tensors, "in", &[&[1.0, 0.0], &[0.0, 1.0]], &[0.0, 0.0], false);
    let dynamics = vec![linear(&mut tensors, "f", &[&[-1.0, 0.0], &[0.0, -1.0]], &[0.0, 0.0], false)];
    let last = linear(&mut tensors, "out", &[&[1.0, 0.0], &[0.0, 1.0]], &[0.0, 0.0], false);
    let layers = vec![first, LayerSpec::Ode { dynamics, solver: fixed(RungeKutta::Rk4, 4) }, last];
    Model::new(Shape::flat(2), layers, tensors, 2)
}

/// A network that takes minutes to run once.
fn endless(folder: &Path) -> PathBuf {
    let (dynamics, solver) = (vec![LayerSpec::Tanh {}], fixed(RungeKutta::Rk4, 1_000_000));
    let layers = vec![LayerSpec::Ode { dynamics, solver }; 100];
    saved(folder, "endless", Model::new(Shape::flat(2), layers, Tensors::new(), 2))
}

/// A picture of 3 channels, 2 rows and 4 columns: class 0 if channel 2 at (1, 3) is brighter than channel 0 at (0, 1).
fn colours(folder: &Path) -> PathBuf {
    saved(folder, "colours", picture())
}

fn picture() -> Model {
    let mut tensors = Tensors::new();
    let (mut a, mut b) = ([0.0; 24], [0.0; 24]);
    a[23] = 1.0;
    b[1] = 1.0;
    let first = linear(&mut tensors, "in", &[&a, &b], &[0.0, 0.0], false);
    let dynamics = vec![linear(&mut tensors, "f", &[&[-1.0, 0.0], &[0.0, -1.0]], &[0.0, 0.0], false)];
    let ode = LayerSpec::Ode { dynamics, solver: fixed(RungeKutta::Rk4, 4) };
    let layers = vec![LayerSpec::Flatten {}, first, ode];
    Model::new(Shape::image(2, 4, 3), layers, tensors, 2)
}

fn saved(folder: &Path, name: &str, model: Model) -> PathBuf {
    let path = folder.join(format!("{name}.safetensors"));
    fs::write(&path, write_model(&model.description, &model.tensors).unwrap()).unwrap();
    path
}

struct Scene {
    folder: tempfile::TempDir,
    model: PathBuf,
}

impl Scene {
    fn new(model: fn(&Path) -> PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = model(folder.path());
        Self { folder, model }
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        text(&path).into()
    }

    fn path(&self, name: &str) -> String {
        text(&self.folder.path().join(name)).into()
    }

    /// Two samples of class 0 and one of class 1.
    fn points(&self) -> (String, String) {
        let x = self.write("x.npy", npy("<f8", &[3, 2], &doubles(&[0.7, 0.3, 0.9, 0.1, 0.2, 0.6])));
        let y = self.write("y.npy", npy("|u1", &[3], &[0, 0, 1]));
        (x, y)
    }

    fn ask<'a>(&'a self, command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&[command, "--model", text(&self.model), "--quiet"], more].concat()
    }

    /// The lines of a run.
    fn lines(&self, command: &str, more: &[&str]) -> Vec<Value> {
        let out = self.path("out.jsonl");
        let _ = fs::remove_file(&out);
        ok(&self.ask(command, &[more, &["--out", &out]].concat()));
        records(Path::new(&out))
    }

    fn verdicts(&self, more: &[&str]) -> Vec<String> {
        let lines = self.lines("certify", more);
        lines.iter().map(|line| line["verdict"].as_str().unwrap().to_owned()).collect()
    }

    fn predictions(&self, more: &[&str]) -> Vec<(Option<u64>, u64)> {
        let printed = ok(&self.ask("predict", &[more, &["--json"]].concat()));
        let lines = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["label"].as_u64(), line["prediction"].as_u64().unwrap())).collect()
    }
}

const ALL: [(Option<u64>, u64); 3] = [(Some(0), 0), (Some(0), 0), (Some(1), 1)];

#[test]
fn every_format_says_the_same() {
    let scene = Scene::new(two);
    let (x, y) = scene.points();
    assert_eq!(scene.predictions(&["--inputs", &x, "--labels", &y]), ALL);
    let unlabelled = [(None, 0), (None, 0), (None, 1)];
    assert_eq!(scene.predictions(&["--inputs", &x]), unlabelled);

    let table = scene.write("x.csv", "a,species,b\n0.7,0,0.3\n0.9,0,0.1\n0.2,1,0.6\n");
    assert_eq!(scene.predictions(&["--inputs", &table, "--label-column", "species"]), ALL);
    let labels = scene.write("y.csv", "species\n0\n0\n1\n");
    assert_eq!(scene.predictions(&["--inputs", &x, "--labels", &labels]), ALL);

    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for (name, file) in [("x.npy", &x), ("y.npy", &y), ("other.npy", &x)] {
        archive.start_file(name, options).unwrap();
        archive.write_all(&fs::read(file).unwrap()).unwrap();
    }
    let archive = scene.write("both.npz", archive.finish().unwrap().into_inner());
    assert_eq!(scene.predictions(&["--inputs", &archive]), ALL);
    assert_eq!(scene.predictions(&["--inputs", &format!("{archive}:other"), "--labels", &y]), ALL);
    fails(&scene.ask("predict", &["--inputs", &format!("{archive}:z")]), 1, "it has no array 'z'");

    let mut idx = vec![0, 0, 13, 2, 0, 0, 0, 3, 0, 0, 0, 2];
    idx.extend([0.7_f32, 0.3, 0.9, 0.1, 0.2, 0.6].iter().flat_map(|v| v.to_be_bytes()));
    let idx = scene.write("x-idx2", idx);
    let labels = scene.write("y-idx1", [0, 0, 8, 1, 0, 0, 0, 3, 0, 0, 1]);
    assert_eq!(scene.predictions(&["--inputs", &idx, "--labels", &labels]), ALL);

    let lines =
        "{\"x\": [0.7, 0.3], \"y\": 0}\n{\"x\": [0.9, 0.1], \"y\": \"0\"}\n{\"x\": [0.2, 0.6], \"y\": 1}\n";
    let mut child = gains(&scene.ask("predict", &["--inputs", "-", "--json"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let printed = stdout(&child.wait_with_output().unwrap());
    assert_eq!(printed.lines().count(), 3, "{printed}");
    assert!(printed.lines().all(|line| line.contains("\"prediction\":")), "{printed}");
}

/// Pictures, flat rows and arrays with channels first or last are one and the same picture.
#[test]
fn pictures_lie_as_the_network_takes_them() {
    let scene = Scene::new(colours);
    let place = |channel: usize, row: usize, column: usize| channel * 8 + row * 4 + column;
    let mut planes = [0_u8; 24];
    planes[place(2, 1, 3)] = 200;
    planes[place(0, 0, 1)] = 100;
    let pixels: Vec<u8> = (0..24).map(|at| planes[place(at % 3, at / 12, at / 3 % 4)]).collect();
    let first = scene.write("first.npy", npy("|u1", &[1, 3, 2, 4], &planes));
    let last = scene.write("last.npy", npy("|u1", &[1, 2, 4, 3], &pixels));
    let flat = scene.write("flat.npy", npy("|u1", &[1, 24], &planes));
    let by_pixel = scene.write("by-pixel.npy", npy("|u1", &[1, 24], &pixels));
    let mut picture = Vec::new();
    let mut encoder = png::Encoder::new(&mut picture, 4, 2);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    fs::create_dir_all(scene.folder.path().join("png/0")).unwrap();
    fs::write(scene.folder.path().join("png/0/0.png"), picture).unwrap();
    let folder = scene.path("png");
    let logits = |more: &[&str]| {
        let printed = ok(&scene.ask("predict", &[more, &["--json"]].concat()));
        let line: Value = serde_json::from_str(&printed).unwrap();
        (line["logits"][0].as_f64().unwrap(), line["logits"][1].as_f64().unwrap())
    };
    let (bright, dark) = logits(&["--inputs", &first]);
    assert!(bright > 70.0 && dark > 35.0 && bright > dark, "bytes as they are: {bright} {dark}");
    assert_eq!(logits(&["--inputs", &last]), (bright, dark));
    assert_eq!(logits(&["--inputs", &flat]), (bright, dark));
    assert_eq!(logits(&["--inputs", &by_pixel, "--layout", "nhwc"]), (bright, dark));
    let scaled = logits(&["--inputs", &first, "--scale", "255"]);
    assert!((scaled.0 - bright / 255.0).abs() < 1e-6);
    assert_eq!(logits(&["--inputs", &folder]), scaled, "pictures are divided by 255");
    let predicted = ok(&scene.ask("predict", &["--inputs", &folder]));
    assert!(predicted.contains("1 of 1 correct"), "{predicted}");
    let wrong = scene.write("wrong.npy", npy("|u1", &[1, 4, 2, 3], &planes));
    fails(&scene.ask("predict", &["--inputs", &wrong]), 2, "the model takes 3x2x4 images");
}

/// Labels of tables and folders of pictures go by the names the model has for its classes, which may be numbers of others.
#[test]
fn classes_go_by_their_names() {
    let renamed = |mut model: Model, names: [&str; 2]| {
        let folder = tempfile::tempdir().unwrap();
        model.description.task = Task::Classification { classes: names.map(String::from).to_vec() };
        let model = saved(folder.path(), "renamed", model);
        Scene { folder, model }
    };
    let scene = renamed(two_numbers(), ["1", "0"]);
    let table = scene.write("x.csv", "a,species,b\n0.7,1,0.3\n0.9,1,0.1\n0.2,0,0.6\n");
    assert_eq!(scene.predictions(&["--inputs", &table, "--label-column", "species"]), ALL);
    let scene = renamed(picture(), ["dark", "bright"]);
    // Pixel by pixel, channel 0 at (0, 1) has the number 3, and channel 2 at (1, 3) is the last.
    for (name, place) in [("bright", 3), ("dark", 23)] {
        let mut pixels = [0_u8; 24];
        pixels[place] = 200;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 4, 2);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
        fs::create_dir_all(scene.folder.path().join("png").join(name)).unwrap();
        fs::write(scene.folder.path().join("png").join(name).join("0.png"), bytes).unwrap();
    }
    let png = scene.path("png");
    assert_eq!(scene.predictions(&["--inputs", &png]), [(Some(1), 1), (Some(0), 0)]);
    // No picture is taken for one of another class than its folder says.
    let ask = scene.ask("predict", &["--inputs", &png]);
    fs::rename(Path::new(&png).join("dark"), Path::new(&png).join("cat")).unwrap();
    assert!(fails(&ask, 2, "the folder 'cat' of 'png' is no class").contains("(dark, bright)"));
    let labels = scene.write("y.csv", "class\nbright\ndark\n");
    let labelled = scene.predictions(&["--inputs", &png, "--labels", &labels]);
    assert_eq!(labelled, [(Some(1), 1), (Some(0), 0)]);
    fs::remove_dir_all(Path::new(&png).join("bright")).unwrap();
    fails(&ask, 2, "1 are not one for each of its 2");
    fs::create_dir(Path::new(&png).join("tree")).unwrap();
    fails(&ask, 2, "'tree' holds no pictures: is it a class?");
    fs::copy(Path::new(&png).join("cat/0.png"), Path::new(&png).join("tree/1.png")).unwrap();
    assert_eq!(scene.predictions(&["--inputs", &png]), [(Some(0), 0), (Some(1), 0)]);
}

/// Networks that predict several numbers are told the truth by tables and lines of JSON, too.
#[test]
fn several_numbers_are_labels_of_regression() {
    let mut model = two_numbers();
    model.description.task = Task::Regression { outputs: Vec::new(), units: Default::default() };
    let folder = tempfile::tempdir().unwrap();
    let model = saved(folder.path(), "numbers", model);
    let scene = Scene { folder, model };
    let lines = scene.write("x.jsonl", "{\"x\": [0.5, 0.25], \"y\": [0.2, 0.1]}\n");
    let table = scene.write("x.csv", "a,p,b,q\n0.5,0.2,0.25,0.1\n");
    let said = |more: &[&str]| ok(&scene.ask("predict", &[more, &["--json"]].concat()));
    let of_table = said(&["--inputs", &table, "--label-column", "p,q"]);
    assert_eq!(said(&["--inputs", &lines]), of_table);
    assert!(of_table.contains("0.2") && of_table.contains("0.1"), "{of_table}");
    let ask = scene.ask("predict", &["--inputs", &table, "--label-column", "p"]);
    fails(&ask, 2, "");
    // A file that says itself what is known of its samples is not asked for its inputs instead.
    let asked_twice = said(&["--inputs", &lines, "--labels", &lines]);
    assert_eq!(said(&["--inputs", &lines]), asked_twice);
}

/// Columns of known values are those of the outputs, by name.
#[test]
fn known_values_are_of_the_outputs_they_are_named_after() {
    let mut model = two_numbers();
    let outputs = vec!["p".to_owned(), "q".to_owned()];
    model.description.task = Task::Regression { outputs, units: Default::default() };
    let folder = tempfile::tempdir().unwrap();
    let model = saved(folder.path(), "named", model);
    let scene = Scene { folder, model };
    let table = scene.write("x.csv", "a,p,b,q\n0.5,0.2,0.25,0.1\n");
    let ask = ["predict", "--inputs", &table, "--label-column"];
    let of = |columns| scene.ask("predict", &[&ask[1..], &[columns]].concat());
    ok(&of("p,q"));
    fails(&of("q,p"), 2, "known values are called q, p, the outputs p, q");
    let inputs = scene.write("i.csv", "a,b\n0.5,0.25\n");
    for (header, fine) in [("p,q", true), ("q,p", false), ("u,v", true)] {
        let known = scene.write("y.csv", format!("{header}\n0.2,0.1\n"));
        let ask = scene.ask("predict", &["--inputs", &inputs, "--labels", &known]);
        if fine { drop(ok(&ask)) } else { drop(fails(&ask, 2, "in the order of the outputs")) }
    }
    let odd = scene.write("y.csv", "p,q\n0.2,0.1\n0.2,0.3\n");
    fails(&scene.ask("predict", &["--inputs", &inputs, "--labels", &odd]), 2, "2 times 2 known values");
}

/// The margin of (0.7, 0.3) is 0.4 less twice eps, √2 eps, or eps.
#[test]
fn norms_are_told_apart_exactly() {
    let scene = Scene::new(two);
    let x = scene.write("x.csv", "a,b,y\n0.7,0.3,0\n");
    let asked = |norm: &str, eps: &str, method: &str| {
        let flags = ["--inputs", &x, "--label-column", "y", "--norm", norm, "--eps", eps, "--method", method];
        scene.verdicts(&flags)
    };
    for method in ["auto", "tight", "gains"] {
        let decided = |norm: &str, holds: &str, breaks: &str| {
            assert_eq!(asked(norm, holds, method), ["verified"], "norm {norm} at {holds}, {method}");
            assert_eq!(asked(norm, breaks, method), ["falsified"], "norm {norm} at {breaks}, {method}");
        };
        decided("inf", "0.199", "0.201");
        decided("2", "0.282", "0.3");
        decided("1", "0.399", "0.45");
    }
}

/// Without a label the network is asked for one, and with `within` for its outputs: within the limit.
#[test]
fn limits_hold_for_the_sample_itself() {
    let scene = Scene::new(endless);
    let x = scene.write("x.csv", "a,b\n0.7,0.3\n");
    let near = r#"{"require": {"each": "all", "within": 0.1}}"#;
    let near = scene.write("near.json", near);
    for more in [&[][..], &["--property", &near]] {
        let flags = [&["--inputs", &x, "--eps", "0.01", "--timeout", "0.3"], more].concat();
        let began = std::time::Instant::now();
        let line = &scene.lines("certify", &flags)[0];
        assert_eq!(line["reason_code"], "time", "{line}");
        assert!(began.elapsed().as_secs() < 10, "took {:?}", began.elapsed());
    }
}

#[test]
fn ranges_and_radii_of_features_and_boxes_say_what_moves() {
    let scene = Scene::new(two);
    let x = scene.write("x.csv", "a,b,y\n0.7,0.3,0\n");
    let base = ["--inputs", &x, "--label-column", "y"];
    let verdict = |more: &[&str]| scene.verdicts(&[&base[..], more].concat()).concat();
    assert_eq!(verdict(&["--eps", "0.25"]), "falsified");
    assert_eq!(verdict(&["--eps", "0.25", "--range", "a=0.6,1"]), "verified", "a stays above b");
    assert_eq!(verdict(&["--eps", "0.25", "--range", "0.3,0.7"]), "falsified");
    assert_eq!(verdict(&["--eps", "0.39", "--features", "a"]), "verified");
    assert_eq!(verdict(&["--eps", "0.25", "--feature-eps", "b=0.1"]), "verified");
    assert_eq!(verdict(&["--eps", "0.39", "--feature-eps", "1=0"]), "verified", "by number");
    // One entry by its name and its number: which radius counts would depend on the order.
    for (flag, first, second) in [("--feature-eps", "b=0.1", "1=0.3"), ("--range", "a=0.6,1", "0=0,1")] {
        for twice in [[first, second], [second, first]] {
            let args = [&base[..], &["--eps", "0.25", flag, twice[0], flag, twice[1]]].concat();
            let output = run(&scene.ask("certify", &args));
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            assert!(stderr(&output).contains("names one entry twice, as"), "{}", stderr(&output));
        }
    }
    assert_eq!(verdict(&["--eps", "50/255"]), "verified");
    assert_eq!(verdict(&["--eps", "52/255"]), "falsified");
    let radii = scene.write("radii.csv", "feature,eps\na,0.25\nb,0.1\n");
    assert_eq!(verdict(&["--eps", "0.3", "--feature-eps", &radii]), "verified");
    let ranges = scene.write("ranges.csv", "feature,low,high\na,0.6,1\nb,0,1\n");
    assert_eq!(verdict(&["--eps", "0.25", "--range", &ranges]), "verified");
    let lower = scene.write("lower.npy", npy("<f8", &[2, 2], &doubles(&[0.6, -5.0, 0.2, 0.3])));
    let upper = scene.write("upper.npy", npy("<f8", &[2, 2], &doubles(&[0.8, 0.5, 0.8, 0.3])));
    let boxes = format!("{lower},{upper}");
    assert_eq!(scene.verdicts(&["--box", &boxes]), ["verified", "falsified"]);
    let labels = scene.write("labels.npy", npy("|u1", &[2], &[0, 1]));
    assert_eq!(scene.verdicts(&["--box", &boxes, "--labels", &labels]), ["verified", "misclassified"]);
    let lines = scene.lines("certify", &["--box", &boxes]);
    assert_eq!((lines[0]["eps"].as_f64(), lines[0]["label"].as_u64()), (Some(0.0), None));
    fails(&scene.ask("certify", &["--box", &boxes, "--eps", "0.1"]), 2, "cannot be used with");
    fails(&scene.ask("certify", &["--box", &boxes, "--norm", "2"]), 2, "does not go with --box");
    fails(&scene.ask("certify", &["--box", &format!("{upper},{lower}")]), 2, "goes from 0.8 to 0.6");
    let all = [&base[..], &["--range", "0.4,1"]].concat();
    fails(&scene.ask("certify", &all), 2, "sample 0, column 'b' is 0.3, not between 0.4 and 1");
}

/// Every command takes them, results name them, and only the same question goes on.
#[test]
fn every_command_takes_them() {
    let scene = Scene::new(two);
    let (x, y) = scene.points();
    let base = ["--inputs", &x, "--labels", &y, "--eps", "0.05"];
    let lines = scene.lines("certify", &base);
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line["verdict"] == "verified" && line["norm"] == "inf"), "{lines:?}");
    assert!(lines[0]["inputs_hash"].as_str().is_some_and(|hash| hash.len() == 16));
    let out = scene.path("out.jsonl");
    let resume =
        |more: &[&str]| scene.ask("certify", &[more, &["--out", &out, "--resume"]].concat()).join("\t");
    let again = resume(&base);
    ok(&again.split('\t').collect::<Vec<_>>());
    for (more, difference) in [
        (vec!["--norm", "2"], "norm inf there, 2 here"),
        (vec!["--range", "-1,1"], "range nothing there, [-1.0,1.0] here"),
        (vec!["--feature-eps", "0=0"], "feature_eps"),
        (vec!["--scale", "2"], "inputs_hash"),
    ] {
        let other = resume(&[&base[..], &more].concat());
        fails(&other.split('\t').collect::<Vec<_>>(), 2, difference);
    }
    let challenge = |more: &[&str]| {
        [&["challenge", &out, "--model", text(&scene.model), "--quiet", "--points", "50"], more]
            .concat()
            .join("\t")
    };
    let given = challenge(&["--inputs", &x, "--labels", &y]);
    assert!(ok(&given.split('\t').collect::<Vec<_>>()).contains("150"));
    let other = scene.write("other.npy", npy("<f8", &[3, 2], &doubles(&[0.7, 0.3, 0.9, 0.1, 0.2, 0.5])));
    let other = challenge(&["--inputs", &other, "--labels", &y]);
    fails(&other.split('\t').collect::<Vec<_>>(), 2, "about another question");
    fails(&challenge(&[]).split('\t').collect::<Vec<_>>(), 2, "the results are about 'x.npy'");

    let evaluated =
        scene.lines("eval", &["--inputs", &x, "--labels", &y, "--eps", "0.05,0.25", "--norm", "2"]);
    assert_eq!(evaluated.len(), 6);
    let attacked = scene.lines("attack", &["--inputs", &x, "--labels", &y, "--eps", "0.25"]);
    assert_eq!(attacked.iter().filter(|line| line["found"] == true).count(), 2, "{attacked:?}");
    assert!(ok(&scene.ask("trajectory", &["--inputs", &x, "--sample", "1"])).contains("certified margin"));
    assert!(
        ok(&scene.ask("bench", &["--inputs", &x, "--labels", &y, "--rounds", "1"])).contains("3 correct")
    );
    let shown = ok(&scene.ask("certify", &["--inputs", &x]));
    assert!(shown.contains("no labels: does the predicted class stay?"), "{shown}");
}

#[test]
fn a_witness_lies_in_its_ball() {
    let scene = Scene::new(two);
    let x = scene.write("x.csv", "a,b\n0.7,0.3\n");
    for (norm, eps) in [("2", 0.3), ("1", 0.45)] {
        let eps_text = eps.to_string();
        let lines = scene.lines("certify", &["--inputs", &x, "--norm", norm, "--eps", &eps_text]);
        let witness: Vec<f64> = serde_json::from_value(lines[0]["witness"].clone()).unwrap();
        let (a, b) = ((witness[0] - 0.7).abs(), (witness[1] - 0.3).abs());
        let length = if norm == "2" { (a * a + b * b).sqrt() } else { a + b };
        assert!(length <= eps && witness[0] <= witness[1], "{norm}: {witness:?} is {length} away");
    }
}

#[test]
fn bad_inputs_are_told_in_one_line() {
    let scene = Scene::new(two);
    let (x, _) = scene.points();
    let ask = |more: &[&str]| scene.ask("certify", more).join("\t");
    let refused = |more: &[&str], code: i32, message: &str| {
        fails(&ask(more).split('\t').collect::<Vec<_>>(), code, message);
    };
    let wide = scene.write("wide.csv", "a,b,c\n1,2,3\n");
    refused(&["--inputs", &wide], 2, "the model takes vectors of 2 numbers, 'wide.csv' has 3 columns");
    let odd = scene.write("odd.csv", "a,b\n1,nan\n");
    refused(&["--inputs", &odd], 1, "sample 0, column 'b' is NaN");
    let infinite = scene.write("inf.npy", npy("<f4", &[1, 2], &[0, 0, 128, 127, 0, 0, 0, 0]));
    refused(&["--inputs", &infinite], 1, "sample 0, entry 0 is inf");
    let words = scene.write("words.csv", "a,b\n1,two\n");
    refused(&["--inputs", &words], 1, "line 2, column 'b' is 'two', not a number");
    let huge = scene.write("huge.npy", npy("<f8", &[1_000_000_000_000, 2], &[]));
    refused(&["--inputs", &huge], 1, "claims 16000000000000 bytes of numbers, 0 are there");
    let labels = scene.write(
        "l.npy",
        npy("<i8", &[3], &[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]),
    );
    refused(&["--inputs", &x, "--labels", &labels], 2, "the label of sample 2 is 7");
    let few = scene.write("few.npy", npy("|u1", &[2], &[0, 1]));
    refused(&["--inputs", &x, "--labels", &few], 2, "2 labels for 3 inputs");
    refused(&["--inputs", &scene.path("none.npy")], 1, "cannot read");
    refused(&["--inputs", &x, "--label-column", "y"], 1, "it has no columns with names");
    refused(&["--inputs", &wide, "--label-column", "y"], 1, "it has no column 'y'; there are: a, b, c");
    refused(&["--inputs", &x, "--samples", "0..4"], 2, "asks for sample 3, there are 3");
    refused(&["--inputs", &x, "--feature-eps", "z=1"], 2, "there is no feature 'z'");
    refused(&["--inputs", &x, "--range", "1,0"], 2, "1 is above 0");
    refused(&["--inputs", &x, "--eps", "1/0"], 2, "not finite");
    refused(&["--inputs", &x, "--nu", "0.1"], 2, "--nu is for forecasting models");
    refused(&["--scale", "2"], 2, "--scale is for inputs of your own");
    refused(&["--inputs", &x, "--data", "mnist"], 2, "cannot be used with");
    refused(&["--data", "iris"], 2, "there are mnist, fashion-mnist, cifar10");
    assert!(!Path::new(&scene.path("out.jsonl")).exists());
    let told = stderr(&run(&scene.ask("certify", &["--data", "mnist", "--data-dir", &scene.path("")])));
    assert!(told.starts_with("error:"), "{told}");
}

/// Settings name entries, and the same numbers under other names are another question.
#[test]
fn results_about_other_entries_are_not_gone_on_with() {
    let scene = Scene::new(two);
    let x = scene.write("x.csv", "a,b\n0.7,0.3\n");
    let out = scene.path("named.jsonl");
    let ask = |more: &[&str]| {
        let flags = [&["--inputs", &x, "--eps", "0.05", "--features", "a", "--out", &out], more].concat();
        scene.ask("certify", &flags).join("\t")
    };
    let (first, again) = (ask(&[]), ask(&["--resume"]));
    ok(&first.split('\t').collect::<Vec<_>>());
    ok(&again.split('\t').collect::<Vec<_>>());
    scene.write("x.csv", "b,a\n0.7,0.3\n");
    fails(&again.split('\t').collect::<Vec<_>>(), 2, "inputs_hash");
    let challenge = ["challenge", &out, "--model", text(&scene.model), "--quiet", "--inputs", &x];
    fails(&challenge, 2, "about another question");
}

/// Bytes mean what they meant in training, unless something else is said.
#[test]
fn bytes_are_divided_as_in_training() {
    let mut model = two_numbers();
    model.description.training = serde_json::json!({"config": "seed = 1\n[data]\nscale = 4.0\n"});
    let folder = tempfile::tempdir().unwrap();
    let model = saved(folder.path(), "trained", model);
    let scene = Scene { folder, model };
    let bytes = scene.write("x.npy", npy("|u1", &[1, 2], &[2, 1]));
    let quarters = scene.write("q.npy", npy("<f8", &[1, 2], &doubles(&[0.5, 0.25])));
    let logits = |inputs: &str, more: &[&str]| {
        let printed = ok(&scene.ask("predict", &[&["--inputs", inputs, "--json"], more].concat()));
        serde_json::from_str::<Value>(&printed).unwrap()["logits"].clone()
    };
    assert_eq!(logits(&bytes, &[]), logits(&quarters, &[]), "floats are taken as they are");
    assert_ne!(logits(&bytes, &["--scale", "1"]), logits(&bytes, &[]));
    let said = question_of(&scene, &quarters);
    assert!(said.contains("trained on inputs divided by 4"), "{said}");
}

/// What certify writes about the question of some inputs.
fn question_of(scene: &Scene, inputs: &str) -> String {
    scene.lines("certify", &["--inputs", inputs, "--eps", "0.01"])[0]["question"]
        .as_str()
        .unwrap_or_default()
        .into()
}
