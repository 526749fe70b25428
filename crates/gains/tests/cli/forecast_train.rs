//! `gains train` of forecasting networks: settings, whole runs, runs taken up again.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use gains_core::Precision;
use gains_core::model_file::read_model;
use gains_data::series::{Forecasts, Horizon, Recordings, Subset};
use gains_ode::{Forecaster, Observations, mean_absolute_error};

use crate::support::{fails, gains, ok, stderr, stdout, text};

const TINY: &str = "\
task = 'forecasting'
name = 'tiny'
dataset = 'waves.series'
horizon = 10.0
seed = 7
batch = 16
epochs = 3
method = 'provable'
eps = { target = 0.05, start = 1, length = 2 }
ratio = [{ from = 0, value = 0.5 }, { from = 2, value = 1.0 }]

[network]
state = 5
dynamics = 6
gates = 7
transform = 6
latent = 3
decoder = 6

[selection]
from = 1
";

/// Sixty series of two features, prepared, and a configuration small enough for them.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut table = String::from("record,time,feature,value\n");
        let mut random = fastrand::Rng::with_seed(2);
        for record in 0..60 {
            let phase = 6.0 * random.f64();
            let _ = writeln!(table, "r{record},,age,{phase}");
            for hour in (0..30).filter(|hour| *hour == 29 || random.f64() < 0.5) {
                let wave = (phase + f64::from(hour) / 4.0).sin();
                let _ =
                    writeln!(table, "r{record},{hour},pulse,{wave}\nr{record},{hour},temp,{}", 2.0 * wave);
            }
        }
        std::fs::write(folder.path().join("waves.csv"), table).unwrap();
        std::fs::write(folder.path().join("tiny.toml"), TINY).unwrap();
        let (csv, out) = (folder.path().join("waves.csv"), folder.path().join("waves.series"));
        ok(&["data", "prepare", "csv", text(&csv), "--out", text(&out)]);
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn train(&self, flags: &str) -> Output {
        let mut command = gains(&["train"]);
        command.args(flags.split(' ')).current_dir(self.0.path()).output().unwrap()
    }

    fn trained(&self, flags: &str) -> Output {
        let output = self.train(flags);
        assert!(output.status.success(), "{flags}\n{}", stderr(&output));
        output
    }

    fn refused(&self, flags: &str, code: i32, message: &str) {
        let output = self.train(flags);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{flags}\n{text}");
        assert!(text.contains(message) && text.contains("\nhint:"), "{flags} should say '{message}'\n{text}");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

#[test]
fn forecast_train_makes_a_network_that_forecasts_as_it_was_judged() {
    let scene = Scene::new();
    let output = scene.trained("--config tiny.toml --out run --threads 1");
    assert!(stderr(&output).contains("epoch 3/3  loss ") && stderr(&output).contains("worst case"));
    assert!(
        stdout(&output).contains("trained tiny in ") && stdout(&output).contains("gains certify --model")
    );
    let metrics = String::from_utf8(scene.read("run/metrics.csv")).unwrap();
    assert!(
        metrics.starts_with("epoch,eps,rho,q,loss,clean,robust,likelihood,divergence,mae,worst_mae,width,")
    );
    assert_eq!(metrics.lines().count(), 4);
    assert!(String::from_utf8(scene.read("run/curves.svg")).unwrap().contains("validation series"));
    scene.trained("--config run/config.toml --out again --threads 3");
    assert!(scene.read("run/model.safetensors") == scene.read("again/model.safetensors"));
    assert!(ok(&["model", "show", text(&scene.path("run/model.safetensors"))]).contains("validation_error"));

    // The paper's names are not in this table, and nothing else is looked for than what the network was made for.
    assert!(stderr(&output).contains("perturbation.statics names Age, Height"), "{}", stderr(&output));
    let printed = fails(
        &["predict", "--model", text(&scene.path("run/model.safetensors"))],
        2,
        "was made for 'waves.series'",
    );
    assert!(printed.contains("--series waves.series"), "{printed}");

    let network = read_model(&scene.read("run/model.safetensors")).unwrap();
    let expected = network.description.training["validation_error"].as_f64().unwrap();
    let recordings = Recordings::read(&scene.path("waves.series")).unwrap();
    let forecasts = Forecasts::new(&recordings, Horizon::new(10.0).unwrap(), recordings.order()).unwrap();
    // No more series than the test has are asked for.
    let records = format!(" --records 0..{}\n", forecasts.len(Subset::Test));
    assert!(stdout(&output).contains(&records), "{}", stdout(&output));
    let errors = forecasts.iter(Subset::Validation).map(|series| {
        let forecaster = Forecaster::new(&network, series.target_time).unwrap();
        let seen = Observations {
            statics: series.initial,
            times: series.times,
            values: series.values,
            mask: series.mask,
            target_time: series.target_time,
        };
        let forecast = forecaster.run(&seen, Precision::Float32).unwrap();
        mean_absolute_error(forecast.output(), &series.target, &series.target_mask)
    });
    let count = forecasts.len(Subset::Validation) as f64;
    let found = errors.sum::<f64>() / count;
    assert!((found - expected).abs() < 1e-4, "{found} {expected}");
}

#[test]
fn forecast_train_goes_on_to_the_same_bits() {
    let scene = Scene::new();
    let mut command = gains(&["train", "--config", "tiny.toml", "--out", "cut", "--set", "epochs=100000"]);
    let mut child =
        command.current_dir(scene.0.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let epochs = || {
        let text = std::fs::read_to_string(scene.path("cut/metrics.csv"));
        text.map_or(0, |text| text.lines().count().saturating_sub(1))
    };
    let limit = Instant::now() + Duration::from_secs(60);
    while epochs() < 3 {
        assert!(Instant::now() < limit, "the run does not get on");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let last = format!("--set epochs={}", epochs() + 2);
    scene.refused("--resume cut --set batch=3", 2, "batch cannot change");
    scene.refused("--resume cut --set epochs=1", 2, "epochs: is 1, but the run has");
    scene.trained(&format!("--resume cut {last}"));
    scene.trained(&format!("--config tiny.toml --out smooth {last}"));
    assert!(scene.read("cut/model.safetensors") == scene.read("smooth/model.safetensors"));
    assert!(stdout(&scene.trained("--resume cut")).contains("is finished"));
}

#[test]
fn forecast_train_refuses_what_makes_no_sense() {
    let scene = Scene::new();
    scene.refused("--config tiny.toml --set bach=3", 2, "unknown field `bach`");
    scene.refused("--config tiny.toml --set batch=0", 1, "batch: is 0");
    scene.refused(
        "--config tiny.toml --set method=standard",
        1,
        "eps: standard training has no perturbation",
    );
    scene.refused("--config tiny.toml --set dataset=none.series", 1, "none.series");
    scene.refused(
        "--config tiny.toml --set perturbation.statics=['height']",
        2,
        "which the data do not have",
    );
    scene.refused("--config tiny.toml --set horizon=1000", 1, "1000");
    scene.refused("--config tiny.toml --device cuda", 2, "trained on the CPU");
    scene.refused("--preset physionet-24h-standard --data-dir .", 1, "physionet2012");
    let hint = fails(&["train", "--preset", "physionet-24h"], 2, "no preset 'physionet-24h'");
    assert!(hint.contains("physionet-24h-standard"), "{hint}");
    let printed = ok(&["train", "--preset", "physionet-6h-provable-0.2", "--print-config"]);
    assert!(printed.contains("horizon = 6.0\n") && printed.contains("target = 0.2\n"), "{printed}");
    assert!(ok(&["train", "--list-presets"]).contains("physionet-12h-provable-0.1"));
    assert!(!scene.path("runs").exists());
}
