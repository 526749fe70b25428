//! `gains train` of networks that forecast series: what they learn from, and what is told of it.

mod material;
mod metrics;

use gains_train::Config;
use gains_train::config::Training;
use gains_train::series::{ForecastConfig, Names, PerturbationConfig, SeriesEngine};

use self::material::Material;
pub use self::metrics::Row;
use super::folder::Folder;
use super::session::Ended;
use super::source::Source;
use super::{Start, begin, explain};
use crate::cli::{DeviceArg, Global, TrainArgs};
use crate::failure::{Failure, Outcome};
use crate::output::note;

/// Gets everything ready before the folder is touched, then trains.
pub fn train(
    start: Start,
    forecast: &ForecastConfig,
    args: &TrainArgs,
    global: &Global,
    folder: impl FnOnce() -> Result<Folder, Failure>,
) -> Result<Ended, Failure> {
    if args.device == DeviceArg::Cuda {
        return Err(Failure::usage("forecasting networks are trained on the CPU").hint("leave --device out"));
    }
    let config = &start.config;
    let material = Material::load(config, forecast, args.data_dir.as_deref())?;
    check_perturbed(config, forecast, &material.names)?;
    let (description, network) = material.network;
    let parameters = network.initial_parameters(config.seed);
    let threads = args.threads.map(usize::from);
    let made = (&description, network);
    let engine = SeriesEngine::<f32>::new(config, made, material.training, material.validation, threads)
        .map_err(|e| explain(&e, None))?;
    let run = super::Run {
        engine,
        parameters,
        description,
        device: "cpu".into(),
        jury: None,
        source: Source::Series { record: material.record, test: material.test },
    };
    begin::<_, Row>(start, run, args, global, folder)
}

/// Refuses names of `perturbation` that the data do not have; the paper's, which stand there unless others are given, are
/// only told.
fn check_perturbed(config: &Config, forecast: &ForecastConfig, names: &Names) -> Outcome {
    let usual = PerturbationConfig::default();
    let PerturbationConfig { bounded, statics } = &forecast.perturbation;
    let lists = [
        ("bounded", bounded, usual.bounded, &names.features),
        ("statics", statics, usual.statics, &names.statics),
    ];
    for (key, asked, usual, there) in lists {
        let missing: Vec<&str> =
            asked.iter().filter(|name| !there.contains(name)).map(String::as_str).collect();
        if missing.is_empty() {
            continue;
        }
        let what = format!("perturbation.{key} names {}, which the data do not have", missing.join(", "));
        if *asked != usual {
            let there = if there.is_empty() { "none".into() } else { there.join(", ") };
            return Err(Failure::usage(what).hint(format!("there are {there}")));
        }
        if config.method == Training::Provable {
            note!("note: {what}; passed over, --set perturbation.{key}=[] says so");
        }
    }
    Ok(())
}
