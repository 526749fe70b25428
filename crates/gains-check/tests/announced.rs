//! What is said of a certificate is what was shown of it, in one line; files that only cost time or memory are refused.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use gains_check::fault::Fault;
use gains_check::{Model, check_within};
use support::{Item, Step, kinds_cases, small_cases};

/// Proofs that hold.
fn proofs() -> Vec<(Model, Item)> {
    let cases = small_cases().into_iter().chain(kinds_cases()).filter(|case| case.holds);
    cases.map(|case| (Model::read(&case.model).unwrap(), Item::read(&case.certificate))).collect()
}

/// What is said of a certificate that holds.
fn about(model: &Model, item: &Item) -> Option<String> {
    check_within(model, &item.write(), None).ok().map(|(_, about)| about)
}

#[test]
fn an_output_is_called_the_largest_only_if_nothing_else_is_asked() {
    let mut tried = 0;
    for (model, mut item) in proofs() {
        if !about(&model, &item).is_some_and(|said| said.contains("is the largest")) {
            continue;
        }
        let property = item.at("property");
        let rows = property.at("rows").list();
        let number = rows.len() as i64;
        // One more row, 0 · y + 1, which is shown by the way of any other.
        let mut more = rows[0].clone();
        more.at("a").numbers().fill(0.0);
        *more.at("c") = Item::Array(vec![Item::Float(1.0), Item::Float(1.0)]);
        rows.push(more);
        let condition = property.at("condition");
        *condition =
            Item::Map(vec![("all".into(), Item::Array(vec![condition.clone(), Item::Integer(number)]))]);
        let Some(Item::Array(shown)) = item.at("proof").find("rows") else { continue };
        let Some(mut row) = shown.first().cloned() else { continue };
        *row.at("row") = Item::Integer(number);
        *row.at("bound") = Item::Float(0.5);
        shown.push(row);
        let said = about(&model, &item).expect("it holds, too");
        assert!(said.contains("a condition on") && !said.contains("largest"), "{said}");
        // What is always true leaves nothing to be shown of the others.
        let Item::Map(all) = item.at("property").at("condition") else { panic!("no map") };
        all[0].0 = "any".into();
        let said = about(&model, &item).expect("it holds, too");
        assert!(said.contains("a condition on") && !said.contains("largest"), "{said}");
        tried += 1;
    }
    assert!(tried > 1, "{tried} proofs");
}

#[test]
fn balls_have_their_centre_in_their_box() {
    let mut tried = 0;
    for (model, mut item) in proofs().into_iter().filter(|(_, item)| item.clone().find("proof").is_some()) {
        let region = item.at("region");
        if region.find("ball").is_some() {
            continue;
        }
        let [lower, upper] = &mut region.at("boxes").list()[0].list()[..] else { panic!("no box") };
        let (lower, upper) = (lower.numbers().clone(), upper.numbers().clone());
        let ball = |centre: Vec<f64>| {
            let scales = Item::Numbers(8, vec![0.125; lower.len()]);
            Item::Map(vec![
                ("norm".into(), Item::Integer(2)),
                ("centre".into(), Item::Numbers(8, centre)),
                ("scales".into(), scales),
            ])
        };
        let Item::Map(entries) = region else { panic!("no map") };
        entries.push(("ball".into(), ball(lower.clone())));
        let said = about(&model, &item).expect("of fewer inputs it holds, too");
        assert!(said.contains("in a ball of the norm 2 that reaches as far as 0.125"), "{said}");
        // What the ball holds still does not vary, however wide the box is.
        let mut thin = item.clone();
        let scales = thin.at("region").at("ball").at("scales").numbers();
        scales[1..].fill(0.0);
        let free = usize::from(upper[0] > lower[0]);
        let boxes = thin.at("region").at("boxes").list().len();
        if boxes == 1 {
            let said = about(&model, &thin).expect("of fewer inputs it holds, too");
            assert!(said.starts_with(&format!("{free} of {} inputs vary", lower.len())), "{said}");
        }
        let beyond = upper.iter().map(|x| x + 1e-3).collect();
        *item.at("region").at("ball") = ball(beyond);
        let refused = check_within(&model, &item.write(), None).unwrap_err().to_string();
        assert!(refused.contains("centre is not in its box"), "{refused}");
        tried += 1;
    }
    assert!(tried > 5, "{tried} proofs");
}

#[test]
fn every_constraint_and_cut_counts_once_in_a_way() {
    let mut tried = 0;
    for case in kinds_cases().into_iter().chain(small_cases()).filter(|case| case.holds) {
        let (model, item) = (Model::read(&case.model).unwrap(), Item::read(&case.certificate));
        let mut places: Vec<Vec<Step>> = Vec::new();
        item.walk(&mut vec![], &mut |path, at| {
            let key = matches!(path.last(), Some(Step::Key(key)) if key == "multipliers");
            if key && matches!(at, Item::Array(items) if !items.is_empty()) {
                places.push(path.to_vec());
            }
        });
        for place in places.into_iter().take(3) {
            let mut item = item.clone();
            let items = item.follow(&place).list();
            items.push(items[0].clone());
            let refused = check_within(&model, &item.write(), None).unwrap_err().to_string();
            assert!(refused.contains("is there twice"), "{refused}");
            tried += 1;
        }
    }
    assert!(tried > 0, "no proof has multipliers");
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/small").join(name)
}

fn run(arguments: &[&Path]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gains-check")).args(arguments).output().unwrap();
    let all = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(all).unwrap())
}

#[test]
fn a_certificate_writes_no_lines_of_its_own() {
    let item = Item::read(&std::fs::read(data("8025-0-holds.cert")).unwrap());
    let lines = "\u{1b}[2K\rx: holds: verified\nx: holds\u{2028}\u{202e}x: holds";
    let (mut key, mut word) = (item.clone(), item);
    let Item::Map(entries) = &mut key else { panic!("no map") };
    entries.push((lines.into(), Item::Null));
    *word.at("arithmetic") = Item::Text(lines.into());
    for item in [key, word] {
        let file = std::env::temp_dir().join(format!("gains-check-announced-{}.cert", std::process::id()));
        std::fs::write(&file, item.write()).unwrap();
        let (code, out) = run(&[&data("8025.safetensors"), &file]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!((code, out.lines().count()), (2, 1), "{out}");
        assert!(out.contains("unreadable"), "{out}");
        assert!(!out.contains(['\u{1b}', '\r', '\u{2028}', '\u{202e}']), "{out}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_plain_file_is_not_read() {
    let (model, good) = (data("8025.safetensors"), data("8025-0-holds.cert"));
    let pipe = std::env::temp_dir().join(format!("gains-check-pipe-{}", std::process::id()));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let began = Instant::now();
    for special in [Path::new("/dev/zero"), &pipe] {
        for arguments in [[&model, special], [special, &good]] {
            let (code, out) = run(&arguments);
            assert_eq!((code, out.lines().count()), (2, 1), "{out}");
            assert!(out.contains("not a plain file"), "{out}");
        }
    }
    std::fs::remove_file(&pipe).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// What a message repeats of a file is short, however long that is there.
#[test]
fn long_names_are_not_repeated() {
    let item = Item::read(&std::fs::read(data("8025-0-holds.cert")).unwrap());
    let model = Model::read(&std::fs::read(data("8025.safetensors")).unwrap()).unwrap();
    let (mut key, mut word) = (item.clone(), item);
    let Item::Map(entries) = &mut key else { panic!("no map") };
    entries.push(("x".repeat(1_000_000), Item::Null));
    *word.at("arithmetic") = Item::Text("x".repeat(1_000_000));
    for item in [key, word] {
        let said = check_within(&model, &item.write(), None).unwrap_err().to_string();
        assert!(said.contains("xxx…") && said.len() < 200, "{} bytes", said.len());
    }
}

/// A model of vectors, of layers without weights.
fn model_of(count: usize, layers: &str) -> Model {
    let sides = format!(r#"{{"height": 1, "width": 1, "channels": {count}}}"#);
    let description =
        format!(r#"{{"format": "gains-model", "version": 2, "input": {sides}, "layers": {layers}}}"#);
    let header = serde_json::json!({"__metadata__": {"gains": description}}).to_string();
    let model = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    Model::read(&model).unwrap()
}

fn map(entries: Vec<(&str, Item)>) -> Item {
    Item::Map(entries.into_iter().map(|(key, item)| (key.to_owned(), item)).collect())
}

/// What is claimed of all inputs from −3 to 2.5: that the outputs add up to more than −10⁹, or not.
fn claimed(model: &Model, count: usize, claim: &str, key: &str, evidence: Item) -> Vec<u8> {
    let all = |x: f64| Item::Numbers(4, vec![x; count]);
    let region = Item::Array(vec![Item::Array(vec![all(-3.0), all(2.5)])]);
    let constant = Item::Array(vec![Item::Float(-1e9), Item::Float(-1e9)]);
    let row = map(vec![("a", all(1.0)), ("c", constant), ("zero", Item::Bool(true))]);
    let property = map(vec![("rows", Item::Array(vec![row])), ("condition", Item::Integer(0))]);
    let certificate = map(vec![
        ("format", Item::Text("gains-certificate".into())),
        ("version", Item::Integer(1)),
        ("model", Item::Bytes(model.hash.to_vec())),
        ("arithmetic", Item::Text("real".into())),
        ("region", map(vec![("boxes", region)])),
        ("property", property),
        ("claim", Item::Text(claim.into())),
        (key, evidence),
    ]);
    certificate.write()
}

/// One layer of functions that take long is no way around the limit of time, and what it leaves open is not refused.
#[test]
fn functions_that_take_long_end_in_time() {
    let count = 200_000;
    let model = model_of(count, r#"[{"type": "gelu"}]"#);
    let all = |x: f64| Item::Numbers(4, vec![x; count]);
    let row = map(vec![("row", Item::Integer(0)), ("way", map(vec![])), ("bound", Item::Float(1.0))]);
    let rows = map(vec![("rows", Item::Array(vec![row]))]);
    let forms = map(vec![("forms", Item::Array(vec![]))]);
    let witness = map(vec![("inputs", Item::Array(vec![all(1.5)])), ("actions", Item::Array(vec![]))]);
    for (claim, key, evidence) in
        [("verified", "proof", rows), ("verified", "proof", forms), ("falsified", "witness", witness)]
    {
        let certificate = claimed(&model, count, claim, key, evidence);
        let began = Instant::now();
        let found = check_within(&model, &certificate, Some(Duration::from_millis(300)));
        assert_eq!(found.err(), Some(Fault::Late));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}

/// A step of many stages through many values is refused before it is taken: it would need gigabytes.
#[test]
fn steps_beyond_memory_are_not_taken() {
    let count = 100_000;
    let layers = vec![r#"{"type": "relu"}"#; 25].join(", ");
    let solver = r#"{"method": "dopri8", "end_time": 1.0, "controller": {"type": "fixed", "steps": 1}}"#;
    let model =
        model_of(count, &format!(r#"[{{"type": "ode", "dynamics": [{layers}], "solver": {solver}}}]"#));
    let all = |x: f64| Item::Numbers(4, vec![x; count]);
    let place = Item::Array([0, 1, 0, 0, 0, 0].map(Item::Integer).to_vec());
    let edge = Item::Array(vec![Item::Integer(1), Item::Integer(-1)]);
    let vertex = map(vec![
        ("at", place),
        ("state", Item::Array(vec![all(-3.0), all(2.5)])),
        ("error", Item::Null),
        ("out", Item::Array(vec![edge])),
    ]);
    let graph = map(vec![
        ("ode", Item::Integer(1)),
        ("form", Item::Integer(1)),
        ("vertices", Item::Array(vec![vertex])),
        ("end", Item::Array(vec![all(-1e9), all(1e9)])),
    ]);
    let graphs = map(vec![("graphs", Item::Array(vec![graph]))]);
    let actions = Item::Array(vec![Item::Array(vec![Item::Integer(1)])]);
    let witness = map(vec![("inputs", Item::Array(vec![all(1.5)])), ("actions", actions)]);
    for (claim, key, evidence) in [("verified", "proof", graphs), ("falsified", "witness", witness)] {
        let found = check_within(&model, &claimed(&model, count, claim, key, evidence), None);
        let said = found.unwrap_err().to_string();
        assert!(said.contains("more memory than this checker takes"), "{said}");
    }
}
