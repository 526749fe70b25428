//! `gains train` for networks that forecast series.

mod material;
mod report;
mod session;

use std::path::Path;

use gains_train::config::Problem;
use gains_train::series::{
    ForecastCheckpoint, ForecastConfig, ForecastMethod, ForecastTrainer, Names, PerturbationConfig,
    continues, presets,
};

use self::material::Material;
use self::session::Session;
use super::folder::{Folder, Found};
use super::{explain, folder, resume_command, setting};
use crate::cli::{DeviceArg, Global, TrainArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{note, print};

/// The configuration that is asked for, if it is one of forecasting.
pub fn asked(args: &TrainArgs) -> Result<Option<ForecastConfig>, Failure> {
    let path = match (&args.preset, &args.config, &args.resume) {
        (Some(name), _, _) => {
            let config = presets::find(name).map(|preset| preset.config()).transpose();
            return config.map_err(|error| setting::refuse(&format!("preset '{name}'"), &error));
        }
        (_, Some(path), _) => path.clone(),
        (_, _, Some(path)) => Folder::config_of(path)?,
        _ => return Ok(None),
    };
    let text = setting::text(&path)?;
    let meant = ForecastConfig::is_meant_by(&text).then(|| ForecastConfig::from_toml(&text));
    meant.transpose().map_err(|error| setting::refuse(&format!("'{}'", path.display()), &error))
}

/// The presets as rows of a table.
pub fn rows() -> Result<Vec<Vec<String>>, Failure> {
    let row = |preset: &presets::ForecastPreset| {
        let config =
            preset.config().map_err(|e| setting::refuse(&format!("preset '{}'", preset.name), &e))?;
        let provable = config.method == ForecastMethod::Provable;
        Ok(vec![
            preset.name.to_string(),
            config.dataset.clone(),
            if provable { "provable" } else { "standard" }.into(),
            config.eps.map_or_else(|| "–".into(), |eps| eps.target.to_string()),
            config.epochs.to_string(),
            if provable { "independent" } else { "–" }.into(),
        ])
    };
    presets::PRESETS.iter().map(row).collect()
}

/// Trains, or goes on with a run.
pub fn run(before: ForecastConfig, args: &TrainArgs, global: &Global) -> Outcome {
    let config = change(before.clone(), args)?;
    if args.print_config {
        return print(&config.to_toml());
    }
    if args.device == DeviceArg::Cuda {
        return Err(Failure::usage("forecasting networks are trained on the CPU").hint("leave --device out"));
    }
    if let Some(path) = &args.resume {
        return resume(path, &before, config, args, global);
    }
    let path = folder::of_run(args.out.as_deref(), &config.name, config.seed)?;
    Folder::vacant(&path, args.force)?;
    let create = || Folder::create(&path, args.force, resume_command(&path, args));
    train(config, None, args, global, create)
}

/// The configuration with the changes of the command line.
fn change(mut config: ForecastConfig, args: &TrainArgs) -> Result<ForecastConfig, Failure> {
    for change in &args.changes {
        config = setting::set(&config, change)?;
    }
    if let Some(seed) = args.seed {
        config.seed = seed;
    }
    config.problem().map_or(Ok(config), |problem| Err(setting::unfit("--set", &problem)))
}

fn resume(
    path: &Path,
    before: &ForecastConfig,
    config: ForecastConfig,
    args: &TrainArgs,
    global: &Global,
) -> Outcome {
    let unfit = |problem: Problem| Failure::usage(problem.to_string()).hint(problem.hint);
    continues(before, &config).map_err(unfit)?;
    let folder = Folder::open(path, resume_command(path, args))?;
    if folder.model().exists() {
        return print(&format!("the run in {} is finished: {}\n", path.display(), folder.model().display()));
    }
    let found = folder.load(|bytes| ForecastCheckpoint::from_bytes(bytes).map_err(|e| e.to_string()))?;
    let checkpoint = match found {
        None => None,
        Some(Found { state: ForecastCheckpoint { config: own, state }, warning }) => {
            if let Some(warning) = warning {
                note!("warning: {warning}");
            }
            continues(&own, &config).map_err(unfit)?;
            let done = state.at.epoch + u32::from(state.at.batch > 0);
            if config.epochs < done {
                return Err(Failure::usage(format!(
                    "epochs: is {}, but the run has begun {done}",
                    config.epochs
                ))
                .hint("start a new run with --config and --out"));
            }
            Some(ForecastCheckpoint { config: config.clone(), state })
        }
    };
    train(config, checkpoint, args, global, || Ok(folder))
}

/// Refuses names of `perturbation` that the data do not have; the paper's, which stand there unless others are given, are
/// only told.
fn check_perturbed(config: &ForecastConfig, names: &Names) -> Outcome {
    let usual = PerturbationConfig::default();
    let PerturbationConfig { bounded, statics } = &config.perturbation;
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
        if config.method == ForecastMethod::Provable {
            note!("note: {what}; passed over, --set perturbation.{key}=[] says so");
        }
    }
    Ok(())
}

/// Gets everything ready before the folder is touched, then trains.
fn train(
    config: ForecastConfig,
    checkpoint: Option<ForecastCheckpoint>,
    args: &TrainArgs,
    global: &Global,
    folder: impl FnOnce() -> Result<Folder, Failure>,
) -> Outcome {
    let Material { names, training, validation, record } = Material::load(&config, args.data_dir.as_deref())?;
    check_perturbed(&config, &names)?;
    let threads = args.threads.map(usize::from);
    let trainer =
        ForecastTrainer::new(config, names, training, validation, threads).map_err(|e| explain(&e, None))?;
    Session::new(trainer, record, folder()?).run(checkpoint, global)
}
