//! Forecasting models: certify, eval, attack, predict, forecast.

use std::path::{Path, PathBuf};

use gains_core::LatentOde;
use gains_core::description::{ControlledSpec, ControllerSpec, Points, RungeKutta, SolverSpec, Task};
use gains_core::latent_ode::tensor_shapes;
use gains_core::model_file::{Tensors, write_model};
use serde_json::Value;

use crate::support::{fails, model_file, ok, records, run, stderr, stdout, text};

/// A folder with a model for `pulse`, `pressure` and `age`, and 40 prepared records for it.
pub struct Scene {
    folder: tempfile::TempDir,
    pub model: String,
    pub series: String,
}

/// A small network; its weights shrink with `gain`.
fn network(path: &Path, features: &[&str], gain: f64) {
    let sizes = LatentOde { state: 3, dynamics: (4, 1), gates: 4, transform: 4, latent: 2, decoder: (4, 1) };
    let solver = SolverSpec {
        method: RungeKutta::Dopri5,
        controller: ControllerSpec::ControlledAdaptive(ControlledSpec {
            factor: 2,
            tolerance: 0.005,
            initial_step: 0.25,
            minimum_step: 0.05,
            rejections_after_clipping: 1,
        }),
        end_time: 1.0,
    };
    let names = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let mut description = sizes.description(names(features), names(&["age"]), Points::Observed, solver);
    description.name = "tiny".into();
    if let Task::Forecasting { horizon, .. } = &mut description.task {
        *horizon = Some(6.0);
    }
    let mut random = fastrand::Rng::with_seed(7);
    let mut tensors = Tensors::new();
    for (name, shape) in tensor_shapes(&description) {
        let count = shape.iter().product::<usize>();
        let values = (0..count).map(|_| f64::from((gain * (random.f64() - 0.5)) as f32)).collect();
        tensors.insert(name, (shape, values));
    }
    std::fs::write(path, write_model(&description, &tensors).unwrap()).unwrap();
}

fn table() -> String {
    let mut lines = String::from("record,time,feature,value\n");
    for id in 0..40 {
        lines += &format!("r{id},,age,{}\n", 30 + id);
        for hour in 0..12 {
            lines += &format!("r{id},{hour},pulse,{}\n", 60 + (7 * id + 5 * hour) % 30);
            if hour % 3 == id % 3 {
                lines += &format!("r{id},{hour},pressure,{}\n", 90 + (3 * id + hour) % 20);
            }
        }
    }
    lines + "short,,age,50\nshort,0,pulse,70\n"
}

impl Scene {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        network(&path("tiny.safetensors"), &["pulse", "pressure"], 1.0);
        std::fs::write(path("table.csv"), table()).unwrap();
        let (table, series) = (path("table.csv"), path("tiny.series"));
        ok(&["data", "prepare", "csv", text(&table), "--out", text(&series), "--sorted"]);
        let model = text(&path("tiny.safetensors")).to_owned();
        Self { model, series: text(&series).to_owned(), folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn args<'a>(&'a self, command: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
        [&[command, "--model", &self.model, "--series", &self.series], rest].concat()
    }

    pub fn ok(&self, command: &str, rest: &[&str]) -> String {
        ok(&self.args(command, rest))
    }

    pub fn fails(&self, command: &str, rest: &[&str], code: i32, message: &str) -> String {
        let printed = fails(&self.args(command, rest), code, message);
        assert!(printed.contains("hint:") || printed.contains("--help"), "{rest:?}\n{printed}");
        printed
    }
}

pub fn number(line: &Value, key: &str) -> f64 {
    line[key].as_f64().unwrap_or_else(|| panic!("no {key} in {line}"))
}

#[test]
fn records_are_certified_and_a_run_goes_on_where_it_stopped() {
    let scene = Scene::new();
    let out = scene.path("results.jsonl");
    let flags = ["--part", "train", "--eps", "0.001,3", "--out", text(&out)];
    let printed = scene.ok("certify", &[&flags[..], &["--records", "0..4"]].concat());
    assert!(printed.contains("6 ahead"), "the horizon is the model's\n{printed}");
    assert!(printed.contains("certified %") && printed.contains("adversarial %"), "{printed}");
    let lines = records(&out);
    assert_eq!(lines.len(), 8);
    for line in &lines {
        let (mae, limit) = (number(line, "mae"), number(line, "limit"));
        assert!((limit - (1.1 * mae + 0.01)).abs() < 1e-9);
        match line["verdict"].as_str().unwrap() {
            "verified" => assert!(number(line, "certified_mae") < limit && line["reason"].is_null()),
            "falsified" => {
                assert!(number(line, "attacked_mae") >= limit);
                assert!(line["witness"]["values"].is_array() && line["witness"]["statics"].is_array());
            }
            "unknown" => assert!(line["reason"].is_string()),
            other => panic!("{other}"),
        }
        if let (Some(attacked), Some(certified)) =
            (line["attacked_mae"].as_f64(), line["certified_mae"].as_f64())
        {
            assert!(attacked <= certified, "{line}");
        }
        assert!(line["record"].as_str().unwrap().starts_with('r'));
        assert!(line["question"].as_str().unwrap().contains("nu 0.1, delta 0.01"));
        assert_eq!((number(line, "nu"), number(line, "horizon")), (0.1, 6.0));
        assert_eq!((&line["data"], &line["split"]), (&"csv".into(), &"train".into()));
    }
    assert!(lines.iter().any(|l| l["verdict"] == "verified"), "nothing is certified at 0.001");

    // A killed run leaves half a line, which is done again.
    let whole = std::fs::read_to_string(&out).unwrap();
    let kept: usize = whole.lines().take(3).map(|l| l.len() + 1).sum();
    std::fs::write(&out, &whole[..kept + 20]).unwrap();
    let again = run(&scene.args("certify", &[&flags[..], &["--records", "0..4", "--resume"]].concat()));
    assert!(again.status.success() && stderr(&again).contains("3 of 8 results are there already"));
    let mut found: Vec<(u64, String)> =
        records(&out).iter().map(|l| (l["index"].as_u64().unwrap(), l["eps"].to_string())).collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 8);

    // Another question is another file.
    scene.fails("certify", &[&flags[..], &["--nu", "0.5", "--resume"]].concat(), 2, "nu 0.1");
    scene.fails("certify", &flags, 2, "exists already");
}

#[test]
fn csv_lines_have_a_header_and_go_on_too() {
    let scene = Scene::new();
    let out = scene.path("results.csv");
    let flags = ["--part", "train", "--records", "0..2", "--format", "csv", "--out", text(&out)];
    scene.ok("certify", &flags);
    let written = std::fs::read_to_string(&out).unwrap();
    assert!(written.starts_with("index,record,eps,verdict,reason,mae,limit,certified_mae,attacked_mae,"));
    assert_eq!(written.lines().count(), 3);
    let again = run(&scene.args("certify", &[&flags[..], &["--resume"]].concat()));
    assert!(stderr(&again).contains("2 of 2 results are there already"), "{}", stderr(&again));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), written);
    let stdout = scene.ok("certify", &["--part", "train", "--records", "0..2", "--out", "-"]);
    assert_eq!(stdout.lines().count(), 2, "the table goes to standard error\n{stdout}");
}

#[test]
fn methods_agree_about_what_they_prove() {
    let scene = Scene::new();
    let bound = |method: &str| {
        let flags = ["--part", "train", "--records", "1", "--eps", "0.01", "--attack-steps", "0"];
        let printed = scene.ok("certify", &[&flags[..], &["--method", method, "--out", "-"]].concat());
        let line: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
        assert_eq!(line["method"], method);
        number(&line, "certified_mae")
    };
    let (wide, linear, tight) = (bound("box"), bound("linear"), bound("tight"));
    assert!(tight <= linear + 1e-12 && linear <= wide + 1e-12, "{wide} {linear} {tight}");
    let gains = bound("gains");
    assert!(tight <= gains + 1e-12 && gains <= linear + 1e-12, "{linear} {gains} {tight}");
    assert!(["symbolic", "stepwise", "auto"].iter().all(|method| bound(method).is_finite()));
}

#[test]
fn only_what_is_named_moves() {
    let scene = Scene::new();
    let certified = |flags: &[&str]| {
        let base = ["--part", "train", "--records", "2", "--eps", "0.5", "--method", "tight", "--out", "-"];
        let printed = scene.ok("certify", &[&base[..], flags].concat());
        let line: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
        (number(&line, "certified_mae"), number(&line, "mae"))
    };
    let (all, mae) = certified(&[]);
    let (pulse, _) = certified(&["--features", "pulse"]);
    let (both, _) = certified(&["--features", "pulse,pressure"]);
    let (nothing, _) = certified(&["--features", "pulse", "--feature-eps", "pulse=0"]);
    let (with_age, _) = certified(&["--features", "pulse,pressure,age"]);
    assert!((both - all).abs() < 1e-12);
    assert!(pulse < all && with_age > all, "{pulse} {all} {with_age}");
    assert!((nothing - mae).abs() < 1e-6, "{nothing} {mae}");
}

#[test]
fn errors_stand_beside_each_other() {
    let scene = Scene::new();
    let out = scene.path("eval.jsonl");
    let flags = ["--part", "train", "--records", "0..3", "--eps", "0.05", "--steps", "20"];
    let printed = scene.ok("eval", &[&flags[..], &["--out", text(&out)]].concat());
    for column in ["mae", "attacked mae", "certified mae", "adversarial %", "certified %"] {
        assert!(printed.contains(column), "{column}\n{printed}");
    }
    for line in records(&out) {
        assert!(number(&line, "mae") <= number(&line, "certified_mae"));
        assert!(number(&line, "attacked_mae") <= number(&line, "certified_mae"));
        assert_eq!(line["method"], "eval-auto");
    }
    let printed = scene.ok("attack", &[&flags[..], &["--out", "-", "--nu", "0", "--delta", "0"]].concat());
    let lines: Vec<Value> = printed.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    for line in &lines {
        // Any growth of the error breaks a tolerance of 0.
        assert_eq!(line["found"], true, "{line}");
        assert!(number(line, "attacked_mae") >= number(line, "mae"));
        assert!(line["witness"]["values"].is_array());
    }
}

#[test]
fn a_limit_without_room_is_unknown() {
    let scene = Scene::new();
    let out = scene.path("none.jsonl");
    let flags = ["--part", "train", "--records", "0..2", "--eps", "0.001", "--nu", "0", "--delta", "0"];
    let flags = [&flags[..], &["--out", text(&out)]].concat();
    scene.ok("certify", &flags);
    for line in records(&out) {
        assert_eq!(line["verdict"], "unknown", "{line}");
        assert!(line["reason"].as_str().unwrap().contains("leave no room"), "{line}");
    }
    scene.ok("certify", &[&flags[..], &["--resume"]].concat());
}

#[test]
fn predictions_are_listed() {
    let scene = Scene::new();
    let printed = scene.ok("predict", &[]);
    assert!(printed.contains("mean absolute error") && printed.contains("over 2 records"), "{printed}");
    let printed = scene.ok("predict", &["--part", "validation", "--json", "--horizon", "3"]);
    for line in printed.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["prediction"]["pulse"].is_number() && line["truth"].is_object());
        assert_eq!(number(&line, "time"), 11.0);
    }
}

#[test]
fn one_record_is_predicted_with_a_band_and_drawn() {
    let scene = Scene::new();
    let (svg, json) = (scene.path("f.svg"), scene.path("f.json"));
    let flags = ["--record", "r3", "--eps", "0.2", "--svg", text(&svg), "--json", text(&json)];
    let printed = scene.ok("forecast", &flags);
    for word in ["pulse", "pressure", "band low", "attacked", "truth", "mean absolute error", "6 ahead"] {
        assert!(printed.contains(word), "{word}\n{printed}");
    }
    let value: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    for feature in value["features"].as_array().unwrap() {
        let of = |key: &str| number(feature, key);
        assert!(of("low") <= of("prediction") && of("prediction") <= of("high"), "{feature}");
        assert!(of("low") <= of("attacked") && of("attacked") <= of("high"), "{feature}");
        assert!((40.0..200.0).contains(&of("prediction")), "in the units of the table: {feature}");
    }
    assert!(number(&value, "attacked_mae") <= number(&value, "certified_mae"));
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.contains("pulse") && picture.contains("pressure") && picture.contains("</svg>"));
    scene.ok("forecast", &[&flags[..], &["--plot", "pulse"]].concat());
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.contains("pulse") && !picture.contains("pressure"));
    scene.ok("forecast", &["--record", "r3", "--features", "pulse", "--method", "box", "--eps", "0"]);
}

#[test]
fn what_cannot_be_forecast_is_explained() {
    let scene = Scene::new();
    let bare = |rest: &[&str], message: &str| {
        let printed = fails(&[&["certify", "--model", &scene.model[..]], rest].concat(), 1, message);
        assert!(printed.contains("hint:"), "{printed}");
        printed
    };
    let printed = bare(&["--data-dir", text(scene.folder.path())], "there is no prepared file");
    assert!(printed.contains("gains data prepare physionet2012"), "{printed}");
    bare(&["--series", "/nonexistent.series"], "cannot read");
    bare(&["--series", text(&scene.path("table.csv"))], "damaged");

    for eps in ["nan", "-0.1", "inf", "much"] {
        scene.fails("certify", &["--eps", eps], 2, "--eps");
        scene.fails("forecast", &["--record", "r1", "--eps", eps], 2, "--eps");
    }
    scene.fails("certify", &["--eps", "0.1,0.1"], 2, "twice");
    scene.fails("certify", &["--records", "5..5"], 2, "selects nothing");
    let printed = scene.fails("certify", &["--records", "0..3"], 2, "the test part has 2");
    assert!(printed.contains("--samples 0..2"), "{printed}");
    let printed = scene.fails("certify", &["--features", "pulse,mood"], 2, "there is no feature 'mood'");
    assert!(printed.contains("pulse, pressure, age"), "{printed}");
    scene.fails("attack", &["--feature-eps", "mood=1"], 2, "there is no feature 'mood'");
    for bad in ["pulse", "pulse=x", "pulse=-1", "pulse=nan"] {
        scene.fails("certify", &["--feature-eps", bad], 2, "--feature-eps");
    }
    scene.fails("eval", &["--feature-eps", "pulse=1", "--feature-eps", "pulse=2"], 2, "twice");
    scene.fails("certify", &["--nu", "-1"], 2, "--nu");
    for bad in ["soon", "0", "-3h", "nan"] {
        scene.fails("predict", &[&format!("--horizon={bad}")], 2, "--horizon");
    }
    scene.fails("predict", &["--horizon", "100h"], 1, "reach 100 into the future");

    let printed = scene.fails("forecast", &["--record", "r99"], 2, "there is no record 'r99'");
    assert!(printed.contains("near it are"), "{printed}");
    scene.fails("forecast", &["--record", "short"], 2, "nothing to predict 6 ahead");
    scene.fails("forecast", &["--record", "r1", "--svg", "x.svg", "--plot", "mood"], 2, "'mood'");
    scene.fails("forecast", &["--record", "r1", "--svg", "/nonexistent/x.svg"], 1, "cannot write");

    let other = scene.path("other.safetensors");
    for (features, message) in
        [(&["pulse", "mood"][..], "'mood' at place 2"), (&["pulse", "pressure", "mood"], "3 features")]
    {
        network(&other, features, 1.0);
        let printed = fails(&["certify", "--model", text(&other), "--series", &scene.series], 2, message);
        assert!(printed.contains("hint:") && printed.contains("--series"), "{printed}");
    }
}

#[test]
fn networks_beyond_bounds_are_unknown_or_falsified() {
    let scene = Scene::new();
    let wild = scene.path("wild.safetensors");
    network(&wild, &["pulse", "pressure"], 60.0);
    let args = ["certify", "--model", text(&wild), "--series", &scene.series, "--part", "train"];
    let flags = ["--records", "0..2", "--eps", "0.3", "--timeout", "5", "--out", "-"];
    let output = run(&[&args[..], &flags[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    for line in stdout(&output).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_ne!(line["verdict"], "verified", "{line}");
    }
}

#[test]
fn flags_of_the_other_kind_of_model_are_refused() {
    let scene = Scene::new();
    for (command, flags) in [
        ("certify", &["--data", "mnist"][..]),
        ("eval", &["--split", "train"]),
        ("eval", &["--loss", "margin"]),
        ("attack", &["--loss", "margin"]),
        ("predict", &["--data", "mnist"]),
    ] {
        scene.fails(command, flags, 2, "is for models that tell classes apart");
    }
    for (command, flags) in [
        ("certify", &["--horizon", "24h"][..]),
        ("certify", &["--nu", "0.2"]),
        ("attack", &["--part", "test"]),
        ("attack", &["--delta", "0"]),
        ("predict", &["--series", "x.series"]),
        ("eval", &["--sorted"]),
        ("certify", &["--method", "stepwise"]),
        ("trajectory", &["--method", "stepwise"]),
    ] {
        let printed = fails(&[&[command], flags].concat(), 2, "is for forecasting models");
        assert!(printed.contains("hint:"), "{printed}");
    }
    let images = model_file(scene.folder.path());
    let args = ["forecast", "--model", text(&images), "--record", "r1", "--series", &scene.series];
    fails(&args, 2, "does not forecast series");
}

#[test]
fn the_bundled_network_forecasts_out_of_the_box() {
    let printed = ok(&["forecast"]);
    assert!(printed.contains("pond, record ") && printed.contains("temperature"), "{printed}");
    assert!(printed.contains("certified "), "{printed}");
    fails(&["forecast", "--record", "r1"], 2, "there is no record 'r1'");
    let table = ok(&["certify", "--model", "pond", "--eps", "0.01,0.1"]);
    assert!(table.contains("on 12 records"), "{table}");
}

#[test]
fn help_tells_about_forecasting() {
    for command in ["certify", "eval", "attack"] {
        let help = ok(&[command, "--help"]);
        for word in ["Forecasting models", "--horizon", "--series", "--features", "--nu", "--records"] {
            assert!(help.contains(word), "{command}: {word}");
        }
    }
    assert!(ok(&["predict", "--help"]).contains("--part"));
    let help = ok(&["forecast", "--help"]);
    assert!(help.contains("--record") && help.contains("--svg") && help.contains("certified"));
}

/// A network takes records on the scale it was trained on, not on that of whatever records it is shown.
#[test]
fn records_are_normalised_as_in_training() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // The same waves around other means.
    let series = |name: &str, mean: f64| {
        let mut table = String::from("record,time,feature,value\n");
        for id in 0..30 {
            table += &format!("p{id},,depth,{}\n", 2.0 + 0.05 * f64::from(id));
            for hour in (0..48).step_by(4) {
                let wave = 3.0 * f64::from((id + hour) % 7) / 7.0;
                table += &format!("p{id},{hour},temperature,{}\n", mean + wave);
                table +=
                    &format!("p{id},{hour},inflow,{}\np{id},{hour},level,{}\n", 0.1 * wave, 2.0 + 0.1 * wave);
            }
        }
        let (csv, out) = (path(&format!("{name}.csv")), path(&format!("{name}.series")));
        std::fs::write(&csv, table).unwrap();
        ok(&["data", "prepare", "csv", text(&csv), "--out", text(&out)]);
        text(&out).to_owned()
    };
    let (cold, warm) = (series("cold", 13.0), series("warm", 35.0));
    let asked = |series: &str, out: &Path| {
        let flags = ["--series", series, "--samples", "0..1", "--eps", "0.001", "--out", text(out)];
        ok(&[&["certify", "--model", "pond", "--quiet"], &flags[..]].concat());
        records(out).remove(0)
    };
    let (cold, warm) = (asked(&cold, &path("cold.jsonl")), asked(&warm, &path("warm.jsonl")));
    assert!(cold["question"].as_str().unwrap().contains("normalised as in training"), "{cold}");
    // Seven deviations away the forecast is another one; by their own means both would look alike.
    assert!((number(&cold, "mae") - number(&warm, "mae")).abs() > 0.1, "{cold}\n{warm}");
}
