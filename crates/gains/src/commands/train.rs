//! `gains train`.

mod curves;
mod folder;
mod forecast;
mod live;
mod material;
mod metrics;
mod own;
mod pace;
mod select;
mod session;
pub mod setting;

use std::path::{Path, PathBuf};

use gains_train::config::Method;
use gains_train::cpu::Cpu;
use gains_train::cuda::Cuda;
use gains_train::engine::Engine;
use gains_train::fused::Fused;
use gains_train::program::{Blueprint, ProgramEngine};
use gains_train::{Checkpoint, Config, Device, Plan, Position, StepForm, TrainError, Trainer, presets};

use self::folder::{Folder, Found};
use self::material::{Lessons, Material};
use self::select::Jury;
use self::session::{Session, Surroundings};
use crate::cli::{DeviceArg, Global, TrainArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{note, print};
use crate::table::layout;

/// Runs the command.
pub fn run(args: &TrainArgs, global: &Global) -> Outcome {
    if args.list_presets {
        return list();
    }
    if let Some(config) = forecast::asked(args)? {
        return forecast::run(config, args, global);
    }
    let config = match (&args.preset, &args.config, &args.resume) {
        (Some(name), _, _) => {
            setting::with_inputs(setting::preset(name)?, &format!("preset '{name}'"), args)?
        }
        (_, Some(path), _) => setting::read_with_inputs(path, args)?,
        (_, _, Some(path)) => return resume(path, args, global),
        _ => return Err(Failure::usage("nothing to train").hint("give --preset, --config or --resume")),
    };
    let config = setting::change(config, args)?;
    if args.print_config {
        return print(&config.to_toml());
    }
    let path = folder::of_run(args.out.as_deref(), &config.name, config.seed)?;
    Folder::vacant(&path, args.force)?;
    let start = Start { config, checkpoint: None };
    train(start, args, global, || Folder::create(&path, args.force, resume_command(&path, args)))
}

/// Goes on with a run.
fn resume(path: &Path, args: &TrainArgs, global: &Global) -> Outcome {
    let before = setting::read(&Folder::config_of(path)?)?;
    let config = setting::change(before.clone(), args)?;
    if args.print_config {
        return print(&config.to_toml());
    }
    setting::continues(&before, &config)?;
    let folder = Folder::open(path, resume_command(path, args))?;
    if folder.model().exists() {
        return print(&format!("the run in {} is finished: {}\n", path.display(), folder.model().display()));
    }
    let mut checkpoint = None;
    if let Some(Found { state, warning }) =
        folder.load(|bytes| Checkpoint::from_bytes(bytes).map_err(|e| e.to_string()))?
    {
        if let Some(warning) = warning {
            note!("warning: {warning}");
        }
        checkpoint = Some(setting::take_over(state, &config)?);
    }
    train(Start { config, checkpoint }, args, global, || Ok(folder))
}

/// Where a run starts.
struct Start {
    config: Config,
    checkpoint: Option<Checkpoint>,
}

/// Gets everything ready before the folder is touched, then trains.
fn train(
    start: Start,
    args: &TrainArgs,
    global: &Global,
    folder: impl FnOnce() -> Result<Folder, Failure>,
) -> Outcome {
    let material = Material::load(&start.config, args.data_dir.as_deref())?;
    let plan = match material.obstacle(&start.config) {
        Some(what) => Err(format!("{what} are trained with on the CPU only")),
        None => Plan::pattern(&material.description).map_err(|error| error.to_string()),
    };
    match (plan, args.device) {
        (Ok(plan), device) => train_fused(start, material, plan, device, args, global, folder),
        (Err(_), DeviceArg::Cpu) => train_program(start, material, args, global, folder),
        (Err(why), DeviceArg::Cuda) => Err(Failure::usage(format!("--device cuda: {why}")).hint(
            "leave --device out; CUDA trains convolutions with ReLUs, one neural ODE of them, pooling and a linear layer",
        )),
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
) -> Outcome {
    let parameters = plan.initial_parameters(start.config.seed);
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
) -> Outcome {
    let failed = |error: TrainError| explain(&error, None);
    let jury = material.jury(&start.config);
    let Lessons::Images { training, test } = &material.lessons else {
        return Err(Failure::new("devices take images of the known sets"));
    };
    let most = start.config.images.unwrap_or(usize::MAX);
    let looked = (test.view(), start.config.rhythm.test_images);
    let engine = Fused::new(device, plan, (training.view(), most), looked).map_err(failed)?;
    begin(start, material, engine, &parameters, (name, jury), args, global, folder)
}

/// Trains any network, operator by operator, on the CPU.
fn train_program(
    start: Start,
    mut material: Material,
    args: &TrainArgs,
    global: &Global,
    folder: impl FnOnce() -> Result<Folder, Failure>,
) -> Outcome {
    let failed = |error: TrainError| explain(&error, None);
    let blueprint = Blueprint::new(&material.description).map_err(|e| failed(e.into()))?;
    let parameters = match material.start.take() {
        Some(tensors) => blueprint.parameters.gather(&tensors).map_err(|e| failed(e.into()))?,
        None => blueprint.parameters.initial(start.config.seed),
    };
    let jury = material.jury(&start.config);
    let lessons = std::mem::replace(&mut material.lessons, Lessons::none());
    let samples = lessons.into_samples(material.description.input);
    let threads = args.threads.map(usize::from);
    let engine = ProgramEngine::<f32>::new(blueprint, &start.config, samples, threads).map_err(failed)?;
    begin(start, material, engine, &parameters, ("cpu".into(), jury), args, global, folder)
}

/// Trains on an engine that is ready.
fn begin<E: Engine>(
    start: Start,
    material: Material,
    engine: E,
    parameters: &[f64],
    (device, jury): (String, Option<Jury>),
    args: &TrainArgs,
    global: &Global,
    folder: impl FnOnce() -> Result<Folder, Failure>,
) -> Outcome {
    let Start { config, checkpoint } = start;
    let classes = material.classes();
    let trainer = Trainer::with(engine, config, material.description, &classes, parameters)
        .map_err(|error| explain(&error, None))?;
    let surroundings = Surroundings { device, folder: folder()?, jury, own: material.own };
    Session::new(trainer, surroundings).run(checkpoint, args, global)
}

/// How a run that failed can go on.
struct Rescue<'a> {
    /// The command.
    resume: &'a str,
    /// The learning rate it had.
    rate: f64,
    /// Where its checkpoint stands.
    saved: Option<Position>,
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
            let rate = rescue.rate / 4.0;
            format!("{rescue} with a lower rate: `{} --set optimiser.rate={rate}`", rescue.resume)
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
            Method::Standard => "standard",
            Method::Adversarial => "adversarial",
            Method::Provable => "provable",
        };
        let form = match (config.method, config.phases.last().map(|phase| phase.step_form)) {
            (Method::Provable, Some(StepForm::Independent)) => "independent",
            (Method::Provable, Some(StepForm::Difference)) => "difference",
            _ => "–",
        };
        rows.push(vec![
            preset.name.to_string(),
            config.dataset.clone(),
            method.into(),
            target(&config).map_or_else(|| "–".into(), |eps| eps.to_string()),
            config.epochs().to_string(),
            form.into(),
        ]);
    }
    rows.extend(forecast::rows()?);
    print(&layout(&["name", "data set", "method", "eps", "epochs", "step form"], &rows))
}

/// The perturbation a run ends with.
fn target(config: &Config) -> Option<f64> {
    config.phases.iter().rev().find_map(|phase| phase.eps).map(|eps| eps.target)
}

/// Where the data sets are, for commands to copy.
fn data_flag(dir: Option<&PathBuf>) -> String {
    dir.map_or_else(String::new, |dir| format!(" --data-dir {}", quoted(dir)))
}
