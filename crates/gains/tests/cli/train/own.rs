//! `gains train` on samples of one's own, of any network: whole runs, certified; taken up again; and what is refused.

use std::path::{Path, PathBuf};
use std::process::Output;

use gains_core::description::LayerSpec;

use crate::inputs::npy;
use crate::support::{gains, records, stderr, stdout, text};

/// A folder with the tables and configurations of the tests.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/train");
        for name in ["moons.csv", "moons.toml", "breast-cancer.csv", "breast-cancer.toml"] {
            std::fs::copy(data.join(name), place.path().join(name)).unwrap();
        }
        Self(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn train(&self, flags: &str) -> Output {
        gains(&["train", "--threads", "1"])
            .args(flags.split(' '))
            .current_dir(self.0.path())
            .output()
            .unwrap()
    }

    fn trained(&self, flags: &str) -> String {
        let output = self.train(flags);
        assert!(output.status.success(), "{flags}: {}", stderr(&output));
        stdout(&output)
    }

    /// Demands an error of one line with a hint of one line, and that nothing was begun.
    fn refused(&self, flags: &str, message: &str) -> String {
        let output = self.train(flags);
        let said = stderr(&output);
        assert!(!output.status.success(), "{flags} succeeded");
        assert!(said.starts_with("error:") && said.contains(message), "{flags}: {said}");
        assert!(said.contains("\nhint:") && said.lines().count() == 2, "{flags}: {said}");
        assert!(!self.path("run").exists(), "{flags}");
        said
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The part of samples that `gains eval` proves, with the flags that the end of training names.
    fn certified(&self, said: &str) -> (f64, f64) {
        let command = said.lines().find(|line| line.trim().starts_with("gains eval")).unwrap();
        let words = command.split_whitespace().skip(1);
        let results = self.path("results.jsonl");
        let flags = ["--method", "tight", "--out", text(&results)];
        let output = gains(&[]).args(words).args(flags).current_dir(self.0.path()).output().unwrap();
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        let verdicts: Vec<String> =
            records(&results).iter().map(|line| line["verdict"].as_str().unwrap().to_string()).collect();
        let with = |word: &str| verdicts.iter().filter(|verdict| *verdict == word).count() as f64;
        let count = verdicts.len() as f64;
        assert!(count > 20.0, "{verdicts:?}");
        (with("verified") / count, 1.0 - with("misclassified") / count)
    }
}

const MOONS: &str = "--config moons.toml --inputs moons.csv --label-column moon --out run";

#[test]
fn points_of_the_plane_are_trained_provably_from_a_table() {
    let place = Place::new();
    let said = place.trained(&format!("{MOONS} --quiet"));
    assert!(said.contains("--inputs run/test.csv --label-column moon --eps 0.1"), "{said}");
    let (certified, right) = place.certified(&said);
    assert!(certified > 0.7 && right > 0.82, "{certified} {right}\n{said}");
    for name in ["config.toml", "metrics.csv", "metrics.jsonl", "split.json", "test.csv", "model.safetensors"]
    {
        assert!(place.path("run").join(name).exists(), "{name}");
    }
    let (description, _) = gains_core::model_file::read_parts(&place.read("run/model.safetensors")).unwrap();
    assert!(
        description.training["best_epoch"].as_u64().unwrap() >= 15,
        "eps is reached at 60 % of 25 epochs"
    );
}

#[test]
fn columns_of_different_units_are_trained_in_deviations() {
    let place = Place::new();
    let said = place.trained("--config breast-cancer.toml --out run --quiet");
    assert!(said.contains("--feature-eps run/feature-eps.csv"), "{said}");
    let (certified, right) = place.certified(&said);
    assert!(certified > 0.8 && right > 0.9, "{certified} {right}\n{said}");
    let radii = String::from_utf8(place.read("run/feature-eps.csv")).unwrap();
    assert!(radii.starts_with("feature,eps\nradius,") && radii.lines().count() == 11, "{radii}");
    let (description, _) = gains_core::model_file::read_parts(&place.read("run/model.safetensors")).unwrap();
    assert!(matches!(description.layers[0], LayerSpec::Normalize { .. }));
    // Going on from there with a part held fixed.
    let config = String::from_utf8(place.read("breast-cancer.toml")).unwrap();
    let start = config.find("[[layers]]").unwrap();
    let end = config.find("[optimiser]").unwrap();
    let tuned = format!(
        "model = 'run/model.safetensors'\nfreeze = ['encoder']\n{}{}",
        &config[..start],
        &config[end..]
    )
    .replace("standardise = true\n", "")
    .replace("epochs = 30", "epochs = 1");
    std::fs::write(place.path("tuned.toml"), tuned).unwrap();
    place.trained("--config tuned.toml --out more --quiet");
    let tensors = |name: &str| gains_core::model_file::read_parts(&place.read(name)).unwrap().1;
    let (before, after) = (tensors("run/model.safetensors"), tensors("more/model.safetensors"));
    assert!(
        before["encoder.weight"] == after["encoder.weight"] && before["head.weight"] != after["head.weight"]
    );
}

#[test]
fn a_run_on_a_table_is_taken_up_again_with_the_same_bits() {
    let place = Place::new();
    let short = format!("{MOONS} --set phases[0].epochs=4 --set selection.every=1 --quiet");
    place.trained(&short);
    let whole = place.read("run/model.safetensors");
    std::fs::remove_file(place.path("run/model.safetensors")).unwrap();
    // From the checkpoint before the last epoch.
    std::fs::rename(
        place.path("run/checkpoint.previous.safetensors"),
        place.path("run/checkpoint.safetensors"),
    )
    .unwrap();
    place.trained("--resume run --quiet");
    assert!(place.read("run/model.safetensors") == whole);
    assert_eq!(String::from_utf8(place.read("run/metrics.csv")).unwrap().lines().count(), 5);
}

#[test]
fn numbers_are_predicted_from_a_table() {
    let place = Place::new();
    let config = "name = 'line'\nbatch = 16\nmethod = 'provable'\ncriterion = { type = 'squared' }\n\
                  [data]\ninputs = 'line.csv'\nlabel_column = 'z'\n[selection]\nby = 'accuracy'\npatience = 30\n\
                  [optimiser]\nmethod = 'sgd'\nrate = 0.05\ndecay = 0.0\n[[layers]]\ntype = 'linear'\nname = 'a'\n\
                  in_features = 2\nout_features = 1\n[[phases]]\nepochs = 25\neps = { target = 0.01 }";
    std::fs::write(place.path("line.toml"), config).unwrap();
    let mut random = fastrand::Rng::with_seed(4);
    let rows = (0..80).map(|_| {
        let (x, y) = (random.f64(), random.f64());
        format!("{x},{y},{}\n", 0.5 * x - 0.3 * y + 0.2)
    });
    std::fs::write(place.path("line.csv"), format!("x,y,z\n{}", rows.collect::<String>())).unwrap();
    let said = place.trained("--config line.toml --out run --quiet");
    assert!(said.contains("mean absolute error 0.0"), "{said}");
    let metrics = String::from_utf8(place.read("run/metrics.csv")).unwrap();
    let column =
        |name: &str| metrics.lines().next().unwrap().split(',').position(|cell| cell == name).unwrap();
    let last: Vec<&str> = metrics.lines().last().unwrap().split(',').collect();
    assert!(last[column("test_error")].parse::<f64>().unwrap() < 0.05, "{metrics}");
    assert!(last[column("accuracy")].is_empty());
}

/// The network and the recipe of a preset on images that are no known set: of their size, for their classes, with their mean.
#[test]
fn a_preset_is_trained_on_images_of_ones_own() {
    let place = Place::new();
    let (count, side) = (40_usize, 14_usize);
    // One class is bright on the left, the other on the right.
    let class = |image: usize| image % 2;
    let pixel = |at: usize| {
        let (image, column) = (at / (side * side), at % side);
        let bright = (column < side / 2) == (class(image) == 0);
        (if bright { 0.75 } else { 0.25 }) + (at % 7) as f32 / 100.0
    };
    let values: Vec<u8> = (0..count * side * side).flat_map(|at| pixel(at).to_le_bytes()).collect();
    std::fs::write(place.path("x.npy"), npy("<f4", &[count, 1, side, side], &values)).unwrap();
    let labels: String = (0..count).map(|image| format!("{}\n", ["left", "right"][class(image)])).collect();
    std::fs::write(place.path("y.csv"), format!("class\n{labels}")).unwrap();
    let flags = "--preset quick --inputs x.npy --labels y.csv --set batch=7 --set phases[0].epochs=8 --set phases[1].epochs=2 \
                 --set network.encoder={channels=[4],kernel=5} --set network.dynamics.channels=[4] --set data.range=[0,1]";
    let said = place.trained(&format!("{flags} --out run"));
    // The test part is chosen, as nothing of it was written down as a table.
    let split: serde_json::Value = serde_json::from_slice(&place.read("run/split.json")).unwrap();
    let mut test: Vec<usize> = serde_json::from_value(split["test"].clone()).unwrap();
    test.sort_unstable();
    let chosen = said.split(" --samples ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let indices = chosen.split(',').flat_map(|part| match part.split_once("..") {
        Some((first, end)) => (first.parse::<usize>().unwrap()..end.parse().unwrap()).collect(),
        None => vec![part.parse().unwrap()],
    });
    assert_eq!(indices.collect::<Vec<_>>(), test, "{said}");
    let file = gains_core::model_file::read_parts(&place.read("run/model.safetensors")).unwrap();
    let description = file.0;
    assert_eq!((description.input.height, description.input.width), (side, side));
    assert_eq!(description.dataset, None);
    assert!(
        matches!(&description.layers[0], LayerSpec::Normalize { mean, std } if (mean[0] - 0.53).abs() < 0.01 && (std[0] - 0.25).abs() < 0.01),
        "{:?}",
        description.layers[0]
    );
    let metrics = String::from_utf8(place.read("run/metrics.csv")).unwrap();
    let column = metrics.lines().next().unwrap().split(',').position(|cell| cell == "accuracy").unwrap();
    let last: f64 = metrics.lines().last().unwrap().split(',').nth(column).unwrap().parse().unwrap();
    assert!(last > 0.9, "{metrics}");
    std::fs::remove_dir_all(place.path("run")).unwrap();
    place.refused(&format!("{flags} --set network.encoder.kernel=15 --out run"), "larger images");
    place.refused(&format!("{flags} --set data.augment.shift=14 --out run"), "data.augment.shift: 14 pixels");
    place.refused("--preset quick --inputs moons.csv --label-column moon --out run", "larger images");
    let numbers =
        "--preset quick --inputs moons.csv --label-column moon --set criterion={type=\"squared\"} --out run";
    place.refused(numbers, "layers");
}

#[test]
fn bad_configurations_and_bad_tables_are_named() {
    let place = Place::new();
    let with = |change: &str| format!("{MOONS} --set {change}");
    place.refused("--config moons.toml --inputs none.csv --label-column moon --out run", "none.csv");
    place.refused("--config moons.toml --inputs moons.csv --label-column sun --out run", "sun");
    place.refused("--config moons.toml --inputs moons.csv --out run", "classes");
    place.refused(
        "--config moons.toml --inputs moons.csv --label-column x --out run",
        "not the number of a class",
    );
    place.refused(&with("data.validation=0.95"), "data.validation");
    place.refused(&with("data.validation=0"), "selection");
    place.refused(&with("data.range=[1,0]"), "data.range");
    place.refused(&with("data.class_weights=[1,2,3]"), "class_weights");
    place.refused(&with("data.class_weights=foo"), "must be \"equal\", \"balanced\" or a number");
    place.refused(&with("data.augment.shift=1"), "the samples are none");
    place.refused(&with("data.augment.flip=true"), "the samples are none");
    place.refused(&with("layers[0].out_features=7"), "features");
    place.refused(&with("layers[1].type=rely"), "rely");
    place.refused(&with("freeze=[\"nothing\"]"), "'nothing'");
    place.refused(&with("phases[0].eps.over=[0.7,0.2]"), "eps.over");
    place.refused(&with("optimiser.method=adamant"), "adamant");
    place.refused(&with("optimiser.warmup=2"), "optimiser.warmup");
    place.refused(&with("criterion={type=\"squared\"}"), "output");
    place.refused(&with("input={height=1,width=1,channels=3}"), "the network takes");
    for (name, table) in [
        ("empty", ""),
        ("torn", "x,y,moon\n1,2\n"),
        ("nan", "x,y,moon\n1,nan,0\n2,3,1\n"),
        ("one", "x,y,moon\n1,2,0\n1,3,0\n"),
    ] {
        std::fs::write(place.path(&format!("{name}.csv")), table).unwrap();
        place.refused(&format!("--config moons.toml --inputs {name}.csv --label-column moon --out run"), "");
    }
    let both = "name = 'x'\nmodel = 'm'\n[[layers]]\ntype = 'relu'\n[[phases]]\nepochs = 1";
    std::fs::write(place.path("both.toml"), both).unwrap();
    place.refused("--config both.toml --out run", "model");
    let mixed = "name = 'x'\n[network]\nmean = [1.0]\n[[layers]]\ntype = 'relu'\n[[phases]]\nepochs = 1";
    std::fs::write(place.path("mixed.toml"), mixed).unwrap();
    place.refused("--config mixed.toml --out run", "network");
    std::fs::write(place.path("none.toml"), "model = 'none.safetensors'\n[data]\ninputs = 'moons.csv'\nlabel_column = 'moon'\n[[phases]]\nepochs = 1").unwrap();
    place.refused("--config none.toml --out run", "none.safetensors");
}

#[test]
fn several_seeds_end_with_their_mean() {
    let place = Place::new();
    let common =
        "--config moons.toml --inputs moons.csv --label-column moon --set phases[0].epochs=2 --quiet";
    let said = place.trained(&format!("{common} --seeds 3,4 --out many"));
    assert!(said.contains("\nmean ") && said.contains("\n± deviation "), "{said}");
    let table: Vec<&str> = said.lines().skip_while(|line| !line.starts_with("run ")).collect();
    assert!(table[0].contains("accuracy") && table[2].starts_with("many/moons-seed3"), "{said}");
    // Each is the run it would be alone.
    place.trained(&format!("{common} --seed 4 --out alone"));
    assert!(place.read("many/moons-seed4/model.safetensors") == place.read("alone/model.safetensors"));
    let again = place.trained("--resume many/moons-seed3 --resume many/moons-seed4");
    assert!(again.contains("is finished") && again.ends_with(&format!("{}\n", table.join("\n"))), "{again}");
    std::fs::copy(place.path("moons.toml"), place.path("other.toml")).unwrap();
    let both = "--config moons.toml --config other.toml --inputs moons.csv --label-column moon";
    place.refused(both, "two runs would share the folder");
    let named = std::fs::read_to_string(place.path("moons.toml")).unwrap().replace("'moons'", "'others'");
    std::fs::write(place.path("other.toml"), named.replace("\"moons\"", "\"others\"")).unwrap();
    let said = place.trained(&format!("{both} --set phases[0].epochs=1 --quiet"));
    assert!(said.contains("runs/others-seed") && said.contains("\nmean "), "{said}");
}

#[cfg(unix)]
#[test]
fn several_runs_that_are_broken_off_go_on_together() {
    let place = Place::new();
    let flags = "--config moons.toml --inputs moons.csv --label-column moon --seeds 3,4 --out many --set phases[0].epochs=90000";
    let mut command = gains(&["train", "--threads", "1"]);
    let child =
        command.args(flags.split(' ')).current_dir(place.0.path()).stderr(std::process::Stdio::piped());
    let child = child.spawn().unwrap();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !place.path("many/moons-seed3/checkpoint.safetensors").exists() {
        assert!(std::time::Instant::now() < limit, "the run does not get on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    super::scene::signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("--resume many/moons-seed3 --resume many/moons-seed4"), "{said}");
    assert!(place.path("many/moons-seed4/config.toml").exists());
}

/// Gradient descent with a rate far too large multiplies the loss of a line in every batch.
#[test]
fn a_loss_that_explodes_ends_the_run_and_leaves_the_last_good_epoch() {
    let place = Place::new();
    let config = "name = 'line'\nbatch = 16\ncriterion = { type = 'squared' }\n[data]\ninputs = 'line.csv'\n\
                  label_column = 'z'\n[optimiser]\nmethod = 'sgd'\nrate = 10.0\nbeta1 = 0.0\nclip = 1e30\ndecay = 0.0\n\
                  [[layers]]\ntype = 'linear'\nname = 'a'\nin_features = 2\nout_features = 1\n[[phases]]\nepochs = 4";
    std::fs::write(place.path("line.toml"), config).unwrap();
    let rows = (0..80).map(|i| format!("{},{},{}\n", i % 7, i % 5, (i % 7) as f64 * 0.5));
    std::fs::write(place.path("line.csv"), format!("x,y,z\n{}", rows.collect::<String>())).unwrap();
    let output = place.train("--config line.toml --out run --set optimiser.rate=1");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the loss grew from") && said.contains("there is no good one"), "{said}");
    assert!(said.contains("--config run/config.toml --out run --force --set optimiser.rate=0.25"), "{said}");
    assert_eq!(String::from_utf8(place.read("run/metrics.csv")).unwrap().lines().count(), 2, "{said}");
    let checkpoint = place.read("run/checkpoint.safetensors");
    assert!(gains_train::Checkpoint::from_bytes(&checkpoint).unwrap().state.at.epoch == 1);
    // From the first epoch on with a rate that does.
    place.trained("--resume run --quiet --set optimiser.rate=0.01");
    assert_eq!(String::from_utf8(place.read("run/metrics.csv")).unwrap().lines().count(), 5);
}

/// A neural ODE that has no time hardly moves anything.
#[test]
fn a_run_whose_dynamics_do_nothing_says_so_while_it_goes_on() {
    let place = Place::new();
    let short = "--set layers[2].solver.end_time=0.01 --set layers[2].solver.controller.minimum_step=0.01";
    let flags = format!(
        "{MOONS} --set phases[0].epochs=2 {short} --set layers[2].solver.controller.initial_step=0.01"
    );
    let output = place.train(&flags);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("hardly does anything").count(), 1, "{said}");
    assert!(said.contains("--set phases[0].loss.alive=1"), "{said}");
    let refused = stderr(&place.train("--resume run --back"));
    assert!(refused.contains("has no epoch from before a warning"), "{refused}");
}

#[test]
fn presets_about_series_take_no_samples() {
    Place::new().refused(
        "--preset physionet-6h-standard --inputs moons.csv --label-column moon --out run",
        "about series",
    );
}

#[test]
fn tables_ask_for_a_device_where_one_is_wanted() {
    let place = Place::new();
    let output =
        place.train(&format!("{MOONS} --device cuda --set phases[0].epochs=4 --set selection.every=1"));
    let said = stderr(&output);
    if output.status.success() {
        assert!(
            said.contains("operator by operator, since fused kernels know no samples of your own"),
            "{said}"
        );
    } else {
        assert!(said.starts_with("error:") && said.contains("CUDA") && said.contains("\nhint:"), "{said}");
        assert!(said.contains("--device cpu") && !place.path("run").exists(), "{said}");
    }
}
