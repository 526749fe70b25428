//! `gains train`.

mod curves;
mod folder;
mod forecast;
mod live;
mod material;
mod metrics;
mod own;
mod pace;
mod record;
mod select;
mod session;
pub mod setting;
mod several;
mod source;

use std::path::{Path, PathBuf};

use gains_core::Description;
use gains_core::description::Task;
use gains_train::config::Training;
use gains_train::cpu::Cpu;
use gains_train::cuda::{Cuda, Driver};
use gains_train::engine::Engine;
use gains_train::fused::Fused;
use gains_train::program::{Blueprint, Host, Kernels, Machine, ProgramEngine};
use gains_train::{
    Checkpoint, CheckpointError, Config, Device, DeviceError, Plan, Position, StepForm, TrainError, Trainer,
    presets,
};

use self::folder::{Folder, Found};
use self::material::{Lessons, Material};
use self::metrics::Row;
use self::record::Record;
use self::select::Jury;
use self::session::{Ended, Session, Surroundings};
use self::source::Source;
use crate::cli::{DeviceArg, Global, TrainArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{note, print};
use crate::table::layout;

/// Runs the command.
pub fn run(args: &TrainArgs, global: &Global) -> Outcome {
    if args.list_presets {
        return list();
    }
    match &args.resume[..] {
        [] => {}
        [path] => return resume(path, args, global, true).map(drop),
        paths => return several::go_on(paths, args, global),
    }
    let sources = match &args.preset {
        Some(name) => vec![setting::with_inputs(setting::preset(name)?, &format!("preset '{name}'"), args)?],
        None => {
            args.config.iter().map(|path| setting::read_with_inputs(path, args)).collect::<Result<_, _>>()?
        }
    };
    let seeds = match &args.seeds[..] {
        [] => vec![args.seed],
        seeds => seeds.iter().copied().map(Some).collect(),
    };
    let mut configs = Vec::new();
    for (config, seed) in sources.iter().flat_map(|config| seeds.iter().map(move |seed| (config, *seed))) {
        configs.push(setting::change(config.clone(), &args.changes, seed, false)?);
    }
    if args.print_config {
        return print(&configs.iter().map(Config::to_toml).collect::<Vec<_>>().join("\n"));
    }
    if configs.len() > 1 {
        return several::begin(configs, args, global);
    }
    let Some(config) = configs.pop() else {
        return Err(Failure::usage("nothing to train").hint("give --preset, --config or --resume"));
    };
    let path = folder::of_run(args.out.as_deref(), &config.name, config.seed)?;
    Folder::vacant(&path, args.force)?;
    let start = Start { config, checkpoint: None };
    let create = || Folder::create(&path, args.force, resume_command(&path, args));
    train(start, args, global, create).map(drop)
}

/// Goes on with a run, changed as the command line says if that is meant.
fn resume(path: &Path, args: &TrainArgs, global: &Global, changed: bool) -> Result<Ended, Failure> {
    let before = setting::read(&Folder::config_of(path)?)?;
    let changes = if changed { &args.changes[..] } else { &[] };
    let config = setting::change(before.clone(), changes, None, true)?;
    if args.print_config {
        return print(&config.to_toml()).map(|()| Ended::Interrupted);
    }
    setting::continues(&before, &config)?;
    let folder = Folder::open(path, resume_command(path, args))?;
    if args.back {
        folder.go_back()?;
    }
    if folder.model().exists() {
        print(&format!("the run in {} is finished: {}\n", path.display(), folder.model().display()))?;
        return Ok(Ended::Finished(match &config.forecast {
            Some(_) => session::figures(&record::read::<forecast::Row>(&folder.metrics(), u32::MAX)),
            None => session::figures(&record::read::<Row>(&folder.metrics(), u32::MAX)),
        }));
    }
    let mut checkpoint = None;
    if let Some(Found { state, warning }) =
        folder.load(|bytes| Checkpoint::from_bytes(bytes).map_err(|error| unusable(&error)))?
    {
        if let Some(warning) = warning {
            note!("warning: {warning}");
        }
        checkpoint = Some(setting::take_over(state, &config)?);
    }
    train(Start { config, checkpoint }, args, global, || Ok(folder))
}

/// What is the matter with a checkpoint.
fn unusable(error: &CheckpointError) -> String {
    match error {
        CheckpointError::Earlier => error.to_string(),
        error => format!("is damaged: {error}"),
    }
}

/// Where a run starts.
struct Start {
    config: Config,
    checkpoint: Option<Checkpoint>,
}

/// What a run is made of, once all is ready.
struct Run<E: Engine> {
    engine: E,
    /// What it starts from.
    parameters: Vec<f64>,
    /// What is trained, without weights.
    description: Description,
    /// The device as the network's record names it.
    device: String,
    /// What networks are chosen by, where it is proof.
    jury: Option<Jury>,
    source: Source,
}

/// Gets everything ready before the folder is touched, then trains.
fn train(
    start: Start,
    args: &TrainArgs,
    global: &Global,
    folder: impl FnOnce() -> Result<Folder, Failure>,
) -> Result<Ended, Failure> {
    if let Some(forecast) = start.config.forecast.clone() {
        return forecast::train(start, &forecast, args, global, folder);
    }
    let material = Material::load(&start.config, args.data_dir.as_deref())?;
    let plan = match material.obstacle(&start.config) {
        Some(what) => Err(format!("fused kernels know no {what}")),
        None => Plan::pattern(&material.description).map_err(|error| error.to_string()),
    };
    let plan = match (plan, args.device) {
        (Ok(plan), DeviceArg::Cuda) => {
            let obstacle = Cuda::obstacle(&plan, &start.config, 0);
            obstacle.map_err(|e| explain(&TrainError::Device(e), None))?.map_or(Ok(plan), Err)
        }
        (plan, _) => plan,
    };
    match (plan, args.device) {
        (Ok(plan), device) => train_fused(start, material, plan, device, args, global, folder),
        (Err(_), DeviceArg::Cpu) => {
            let host = Host::<f32>::new(args.threads.map(usize::from));
            // How many threads there are changes nothing, so the network's record does not tell.
            train_program(start, material, (host, Some("cpu")), args, global, folder)
        }
        (Err(why), DeviceArg::Cuda) => {
            let kernels = Driver::new::<f32>(0).map(Kernels::<_, f32>::new);
            if kernels.is_ok() && !global.quiet {
                note!("operator by operator, since {why}");
            }
            train_program(start, material, (kernels, None), args, global, folder)
        }
    }
}

/// Trains by the large operations of a device.
fn train_fused(
    start: Start,
    material: Material,
    plan: Plan,
    device: DeviceArg,
    args: &TrainArgs,
    global: &Global,
    folder: impl FnOnce() -> Result<Folder, Failure>,
) -> Result<Ended, Failure> {
    let parameters = plan.initial_parameters(start.config.seed, start.config.initial);
    let wrong = |e| explain(&TrainError::Device(e), None);
    match device {
        DeviceArg::Cpu => {
            let threads = args.threads.map(usize::from);
            let device = Cpu::<f32>::new(&plan, &parameters, threads).map_err(wrong)?;
            // How many threads there are changes nothing, so the network's record does not tell.
            on_device(start, material, (device, "cpu".into(), plan, parameters), args, global, folder)
        }
        DeviceArg::Cuda => {
            let device = Cuda::new(&plan, &parameters, 0).map_err(wrong)?;
            let name = device.name();
            on_device(start, material, (device, name, plan, parameters), args, global, folder)
        }
    }
}

fn on_device<D: Device>(
    start: Start,
    material: Material,
    (device, name, plan, parameters): (D, String, Plan, Vec<f64>),
    args: &TrainArgs,
    global: &Global,
    folder: impl FnOnce() -> Result<Folder, Failure>,
) -> Result<Ended, Failure> {
    let failed = |error: TrainError| explain(&error, None);
    let jury = material.jury(&start.config);
    let Lessons::Images { training, test } = &material.lessons else {
        return Err(Failure::new("devices take images of the known sets"));
    };
    let most = start.config.images.unwrap_or(usize::MAX);
    let looked = (test.view(), start.config.rhythm.test_images);
    let engine = Fused::new(device, plan, (training.view(), most), looked).map_err(failed)?;
    let run = Run {
        engine,
        parameters,
        description: material.description,
        device: name,
        jury,
        source: material.own.map_or(Source::Known, Source::Own),
    };
    begin::<_, Row>(start, run, args, global, folder)
}

/// Trains any network, operator by operator, on a machine that was opened; `device` is what the network's record calls it, if
/// not by its name.
fn train_program<M: Machine>(
    start: Start,
    mut material: Material,
    (machine, device): (Result<M, DeviceError>, Option<&str>),
    args: &TrainArgs,
    global: &Global,
    folder: impl FnOnce() -> Result<Folder, Failure>,
) -> Result<Ended, Failure> {
    let failed = |error: TrainError| explain(&error, None);
    let machine = machine.map_err(|e| failed(e.into()))?;
    let device = device.map_or_else(|| machine.name(), String::from);
    let blueprint = Blueprint::new(&material.description).map_err(|e| failed(e.into()))?;
    let parameters = match material.start.take() {
        Some(tensors) => blueprint.parameters.gather(&tensors).map_err(|e| failed(e.into()))?,
        None => blueprint.parameters.initial(start.config.seed, start.config.initial),
    };
    let jury = material.jury(&start.config);
    let lessons = std::mem::replace(&mut material.lessons, Lessons::none());
    let samples = lessons.into_samples(material.description.input);
    let engine = ProgramEngine::new(machine, blueprint, &start.config, samples).map_err(failed)?;
    let run = Run {
        engine,
        parameters,
        description: material.description,
        device,
        jury,
        source: material.own.map_or(Source::Known, Source::Own),
    };
    begin::<_, Row>(start, run, args, global, folder)
}

/// Trains on an engine that is ready.
fn begin<E: Engine, R: Record>(
    start: Start,
    run: Run<E>,
    args: &TrainArgs,
    global: &Global,
    folder: impl FnOnce() -> Result<Folder, Failure>,
) -> Result<Ended, Failure> {
    let Start { config, checkpoint } = start;
    let Run { engine, parameters, description, device, jury, source } = run;
    let classes = match &description.task {
        Task::Classification { classes } => classes.clone(),
        _ => Vec::new(),
    };
    let trainer = Trainer::with(engine, config, description, &classes, &parameters)
        .map_err(|error| explain(&error, None))?;
    let surroundings = Surroundings { device, folder: folder()?, jury, source };
    Session::<E, R>::new(trainer, surroundings).run(checkpoint, args, global)
}

/// How a run that failed can go on.
struct Rescue<'a> {
    /// The command.
    resume: &'a str,
    /// The learning rate it had.
    rate: f64,
    /// Where its checkpoint stands.
    saved: Option<Position>,
    /// Whether its loss had already grown out of hand there, and if so, whether there is one from before.
    spoiled: Option<bool>,
    /// How to begin anew.
    anew: String,
}

impl std::fmt::Display for Rescue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.saved {
            Some(at) => write!(f, "a checkpoint was saved before {at}; go on from there"),
            None => write!(f, "no checkpoint was saved yet; start over"),
        }
    }
}

/// What a user can do about an error of the trainer.
fn explain(error: &TrainError, rescue: Option<Rescue<'_>>) -> Failure {
    let hint = match (error, rescue, error.hint()) {
        (TrainError::Diverged { .. }, Some(rescue), _) => {
            let change = format!("--set optimiser.rate={}", rescue.rate / 4.0);
            match (rescue.spoiled, rescue.saved) {
                (None, Some(_)) => format!("{rescue} with a lower rate: `{} {change}`", rescue.resume),
                (Some(true), _) => format!(
                    "the loss was out of hand before; go back to the last good epoch with a lower rate: `{} --back {change}`",
                    rescue.resume
                ),
                (Some(false), _) | (None, None) => {
                    let why = if rescue.spoiled.is_some() {
                        "the loss was out of hand from the first epoch, there is no good one to go back to"
                    } else {
                        "no checkpoint was saved yet"
                    };
                    format!("{why}; begin anew with a lower rate: `{} {change}`", rescue.anew)
                }
            }
        }
        (_, _, Some(hint)) => hint.into(),
        (_, Some(rescue), None) => format!("{rescue} with `{}`", rescue.resume),
        (_, None, None) => "docs/training.md says what can be trained".into(),
    };
    Failure::new(error.to_string()).hint(hint)
}

/// What to type to go on with a run.
fn resume_command(path: &Path, args: &TrainArgs) -> String {
    let mut command = format!("gains train --resume {}", quoted(path));
    if let Some(dir) = &args.data_dir {
        command += &format!(" --data-dir {}", quoted(dir));
    }
    if args.device == DeviceArg::Cuda {
        command += " --device cuda";
    }
    command
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+~:,".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn list() -> Outcome {
    let mut rows = Vec::new();
    for preset in presets::PRESETS {
        let config = setting::preset(preset.name)?;
        let method = match config.method {
            Training::Standard => "standard",
            Training::Adversarial => "adversarial",
            Training::Provable => "provable",
        };
        let form = match (config.method, config.phases.last().map(|phase| phase.step_form)) {
            (Training::Provable, Some(StepForm::Independent)) => "independent",
            (Training::Provable, Some(StepForm::Difference)) => "difference",
            _ => "–",
        };
        rows.push(vec![
            preset.name.to_string(),
            config.dataset.clone(),
            method.into(),
            config.target().map_or_else(|| "–".into(), |eps| eps.to_string()),
            config.epochs().to_string(),
            form.into(),
        ]);
    }
    print(&layout(&["name", "data set", "method", "eps", "epochs", "step form"], &rows))
}

/// Where the data sets are, for commands to copy.
fn data_flag(dir: Option<&PathBuf>) -> String {
    dir.map_or_else(String::new, |dir| format!(" --data-dir {}", quoted(dir)))
}
