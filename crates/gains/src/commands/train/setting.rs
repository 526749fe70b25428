//! What to train: a preset, a file or a run that is there already, with settings changed by `--set`.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::path::Path;

use gains_train::config::Problem;
use gains_train::{Checkpoint, Config, ConfigError, presets};

use crate::cli::TrainArgs;
use crate::failure::Failure;
use crate::files;

/// Larger configuration files are refused before they are read.
const LARGEST: u64 = 1 << 20;

/// The configuration of a preset.
pub fn preset(name: &str) -> Result<Config, Failure> {
    let Some(preset) = presets::find(name) else {
        let mut hint = String::from("`gains train --list-presets` shows them");
        let known = presets::PRESETS.iter().map(|preset| preset.name);
        let near = known.filter(|known| known.contains(name));
        for (index, known) in near.take(3).enumerate() {
            let _ = write!(hint, "{} {known}", if index == 0 { "; did you mean" } else { " or" });
        }
        return Err(Failure::usage(format!("there is no preset '{name}'")).hint(hint));
    };
    preset.config().map_err(|error| refuse(&format!("preset '{name}'"), &error))
}

/// The configuration in a file.
pub fn read(path: &Path) -> Result<Config, Failure> {
    Config::from_toml(&text(path)?).map_err(|error| refuse(&format!("'{}'", path.display()), &error))
}

/// The text of a configuration file.
pub fn text(path: &Path) -> Result<String, Failure> {
    files::read_text(path, LARGEST, "a configuration file")
}

/// The configuration with the changes of the command line.
///
/// A phase that is given another length has its schedules scaled with it, whatever the order of the changes, so that
/// a schedule that is set as well is as it was set. A run that has `begun` keeps its schedules.
pub fn change(
    mut config: Config,
    changes: &[String],
    seed: Option<u64>,
    begun: bool,
) -> Result<Config, Failure> {
    if !begun {
        for change in changes {
            if let Some(index) = lengthened(change) {
                let epochs = set(&config, change)?.phases[index].epochs;
                config.phases[index].stretch(epochs);
            }
        }
    }
    for change in changes {
        config = set(&config, change)?;
    }
    if let Some(seed) = seed {
        config.seed = seed;
    }
    config.adopt_solver();
    match config.problem() {
        None => Ok(config),
        Some(problem) => Err(unfit("--set", &problem)),
    }
}

/// The configuration in a file, with the inputs that flags name.
pub fn read_with_inputs(path: &Path, args: &TrainArgs) -> Result<Config, Failure> {
    let place = format!("'{}'", path.display());
    let config = Config::parse(&text(path)?).map_err(|error| refuse(&place, &error))?;
    with_inputs(config, &place, args)
}

/// A configuration with the inputs that flags name; `place` is where it comes from.
pub fn with_inputs(mut config: Config, place: &str, args: &TrainArgs) -> Result<Config, Failure> {
    let name = |path: &std::path::PathBuf| path.display().to_string();
    if args.inputs.is_some() || args.labels.is_some() || args.label_column.is_some() {
        if config.forecast.is_some() {
            return Err(Failure::usage(format!("{place} is about series, which are no inputs of this kind"))
                .hint(
                    "prepare a table with `gains data prepare csv TABLE --out FILE`, then --set dataset=FILE",
                ));
        }
        let data = config.data.get_or_insert_default();
        data.inputs = args.inputs.as_ref().map(name).or(data.inputs.take());
        data.labels = args.labels.as_ref().map(name).or(data.labels.take());
        data.label_column = args.label_column.clone().or(data.label_column.take());
    }
    config.problem().map_or(Ok(config), |problem| Err(unfit(place, &problem)))
}

/// Applies `key.path=value`.
pub fn set(config: &Config, change: &str) -> Result<Config, Failure> {
    let fail = |message: String| {
        Failure::usage(format!("--set {change}: {message}"))
            .hint("`--print-config` shows all keys, docs/training.md explains them")
    };
    let (path, text) = change
        .split_once('=')
        .ok_or_else(|| Failure::usage(format!("--set {change}: no value")).hint("write --set KEY=VALUE"))?;
    let mut root = toml::Value::Table(config.to_table().map_err(|e| fail(e.to_string()))?);
    let mut place = &mut root;
    for key in keys(path) {
        place = match place {
            toml::Value::Table(table) => {
                // Keys that may be left out are not there yet; unknown ones are found when it is read back.
                table.entry(key).or_insert_with(|| toml::Value::Table(toml::Table::new()))
            }
            toml::Value::Array(entries) => {
                let count = entries.len();
                let index = key.parse::<usize>().ok();
                index.and_then(|index| entries.get_mut(index)).ok_or_else(|| {
                    fail(format!("there is no entry '{key}', the list has {count}, counted from 0"))
                })?
            }
            _ => return Err(fail(format!("'{key}' would lie inside a single value"))),
        };
    }
    *place = value(text);
    let toml::Value::Table(table) = root else { return Err(fail("no key".into())) };
    Config::from_table(table).map_err(|e| fail(e.message().to_string()))
}

/// The phase whose number of epochs a change sets.
fn lengthened(change: &str) -> Option<usize> {
    let keys: Vec<&str> = keys(change.split_once('=')?.0).collect();
    match keys[..] {
        ["phases", index, "epochs"] => index.parse().ok(),
        _ => None,
    }
}

/// `phases[1].eps.target` and `phases.1.eps.target` alike.
fn keys(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[', ']']).map(str::trim).filter(|key| !key.is_empty())
}

/// A TOML value; what is none is taken as text, so that shells need no second pair of quotes.
fn value(text: &str) -> toml::Value {
    let line = format!("value = {text}");
    let parsed = toml::from_str::<toml::Table>(&line).ok().filter(|table| table.len() == 1);
    let parsed = parsed.and_then(|mut table| table.remove("value"));
    parsed.or_else(|| bare_fraction(text.trim())).unwrap_or_else(|| text.trim().into())
}

/// `.2` and `-.2`, which TOML does not take for numbers.
fn bare_fraction(text: &str) -> Option<toml::Value> {
    let begins = text.strip_prefix(['-', '+']).unwrap_or(text).starts_with('.');
    text.parse().ok().filter(|_| begins).map(toml::Value::Float)
}

/// An error in a configuration, in one line.
pub fn refuse(place: &str, error: &ConfigError) -> Failure {
    match error {
        ConfigError::Value(problem) => unfit(place, problem),
        ConfigError::Syntax(message) => Failure::new(format!("{place}: {}", in_one_line(message)))
            .hint("`gains train --preset quick --print-config` shows a whole configuration"),
    }
}

/// A value that makes no sense, with its remedy.
pub fn unfit(place: &str, problem: &Problem) -> Failure {
    let failure = Failure::new(format!("{place}: {problem}"));
    if problem.hint.is_empty() { failure } else { failure.hint(problem.hint.as_str()) }
}

/// TOML errors draw the offending line over several lines: this keeps the place and what is wrong.
fn in_one_line(message: &str) -> String {
    let drawing = |line: &&str| {
        line.split_once('|').is_some_and(|(gutter, _)| gutter.trim().chars().all(|c| c.is_ascii_digit()))
    };
    let lines: Vec<&str> = message.lines().filter(|line| !drawing(line)).map(str::trim).collect();
    lines.join(": ").replace("TOML parse error at ", "")
}

/// Refuses changes that a run cannot take over half way.
pub fn continues(before: &Config, after: &Config) -> Result<(), Failure> {
    let series = |config: &Config| config.forecast.as_ref().map(|series| (series.horizon, series.network));
    let [earlier, later] = [series(before), series(after)];
    let differ =
        earlier.zip(later).map(|((horizon, sizes), (ahead, others))| (horizon != ahead, sizes != others));
    let (horizon, sizes) = differ.unwrap_or_default();
    let fixed = [
        ("task", earlier.is_some() != later.is_some()),
        ("horizon", horizon),
        ("network", sizes),
        ("dataset", before.dataset != after.dataset),
        ("seed", before.seed != after.seed),
        ("batch", before.batch != after.batch),
        (if earlier.is_some() { "records" } else { "images" }, before.images != after.images),
        ("validation", before.validation != after.validation),
        ("method", before.method != after.method),
        ("network", before.network != after.network),
        ("solver", before.solver != after.solver),
        ("layers", before.layers != after.layers),
        ("model", before.model != after.model),
        ("freeze", before.freeze != after.freeze),
        ("criterion", before.criterion != after.criterion),
        ("data", before.data != after.data),
        ("input", before.input != after.input),
        ("optimiser.method", before.optimiser.method != after.optimiser.method),
    ];
    match fixed.iter().find(|(_, changed)| *changed) {
        None => Ok(()),
        Some((key, _)) => Err(Failure::usage(format!("{key} cannot change in a run that has begun"))
            .hint("start a new run with --config and --out")),
    }
}

/// A checkpoint for a configuration that may differ from its own as far as [`continues`] allows, and in how long the
/// phases are that are not over.
pub fn take_over(checkpoint: Checkpoint, config: &Config) -> Result<Checkpoint, Failure> {
    continues(&checkpoint.config, config)?;
    let Checkpoint { config: before, classes, mut state } = checkpoint;
    let refuse =
        |message: String| Err(Failure::usage(message).hint("start a new run with --config and --out"));
    if before.phases.len() != config.phases.len() {
        return refuse(format!("the run began with {} phases and cannot change that", before.phases.len()));
    }
    // Between two phases it stands at the beginning of the later one. If the earlier has become longer, it goes on.
    let at = &mut state.at;
    if let (Some(earlier), 0, 0) = (at.phase.checked_sub(1), at.epoch, at.batch) {
        let done = before.phases[earlier].epochs;
        if config.phases[earlier].epochs > done {
            (at.phase, at.epoch) = (earlier, done);
        }
    }
    for (index, (old, new)) in before.phases.iter().zip(&config.phases).enumerate() {
        let (least, fits) = match index.cmp(&at.phase) {
            Ordering::Less => (old.epochs, new.epochs == old.epochs),
            Ordering::Equal => (at.epoch, new.epochs > at.epoch || (new.epochs == at.epoch && at.batch == 0)),
            Ordering::Greater => (0, true),
        };
        if !fits {
            let key = config.phase_key(index, "epochs");
            return refuse(format!("{key}: is {}, but the run has {least} behind it", new.epochs));
        }
    }
    Ok(Checkpoint { config: config.clone(), classes, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Config {
        let text = "method = 'provable'\n[[phases]]\nepochs = 4\neps = { target = 0.01 }\n\
                    [[phases]]\nepochs = 8\neps = { target = 0.05 }";
        Config::from_toml(text).unwrap()
    }

    #[test]
    fn settings_are_changed_by_path() {
        let mut config = example();
        for change in [
            "batch=64",
            "phases[1].eps.target = 0.03",
            "phases.0.epochs=2",
            "dataset=mnist",
            "name = \"a b\"",
            "images=500",
            "network.encoder.channels=[4, 4]",
            "optimiser.schedule={ type = 'constant' }",
            "optimiser.rate=.25",
        ] {
            config = set(&config, change).unwrap_or_else(|e| panic!("{change}: {}", e.message));
        }
        assert_eq!((config.batch, config.images), (64, Some(500)));
        assert_eq!((config.dataset.as_str(), config.name.as_str()), ("mnist", "a b"));
        assert_eq!(config.phases[1].eps.unwrap().target, 0.03);
        assert_eq!(config.phases[0].epochs, 2);
        assert_eq!((config.network.encoder.channels.as_slice(), config.optimiser.rate), (&[4, 4][..], 0.25));
    }

    #[test]
    fn the_phase_a_change_lengthens_is_found() {
        assert_eq!(lengthened("phases[1].epochs = 3"), Some(1));
        assert_eq!(lengthened("phases.0.epochs=3"), Some(0));
        for other in ["phases[1].eps.length=3", "epochs=3", "phases[x].epochs=1", "phases[1].epochs", ""] {
            assert_eq!(lengthened(other), None, "{other}");
        }
    }

    #[test]
    fn changes_that_make_no_sense_are_named() {
        for (change, message) in [
            ("bach=3", "bach"),
            ("batch", "no value"),
            ("batch=many", "invalid type"),
            ("batch=-1", "invalid value"),
            ("phases[7].epochs=1", "the list has 2"),
            ("phases.x.epochs=1", "the list has 2"),
            ("batch.size=1", "inside a single value"),
            ("phases[0].eps.goal=1", "goal"),
            ("=1", "--set =1"),
            ("optimiser.rate=1e-3\nbatch=4", "invalid type"),
        ] {
            let failure = set(&example(), change).expect_err(change);
            assert!(failure.message.contains(message), "{change}: {}", failure.message);
            assert_eq!(failure.code, crate::failure::USAGE);
        }
    }

    #[test]
    fn errors_of_files_take_one_line() {
        let error = Config::from_toml("batch = 3\nbach = 4\n[[phases]]\nepochs = 3").unwrap_err();
        let failure = refuse("'f'", &error);
        assert!(
            failure.message.starts_with("'f': line 2, column 1: unknown field `bach`"),
            "{}",
            failure.message
        );
        assert_eq!(failure.message.lines().count(), 1);
    }

    #[test]
    fn what_a_run_began_with_stays() {
        let before = example();
        assert!(continues(&before, &set(&before, "optimiser.rate=1e-5").unwrap()).is_ok());
        for change in ["batch=3", "seed=1", "network.dynamics.time=false", "dataset=cifar10", "images=7"] {
            let failure = continues(&before, &set(&before, change).unwrap()).expect_err(change);
            assert!(failure.message.contains("cannot change"));
        }
    }

    #[test]
    fn unfinished_phases_may_change_their_length() {
        let at = |phase, epoch, batch| {
            let mut state = gains_train::checkpoint::State::default();
            (state.at.phase, state.at.epoch, state.at.batch) = (phase, epoch, batch);
            Checkpoint { config: example(), classes: Vec::new(), state }
        };
        let take = |checkpoint: Checkpoint, change: &str| {
            take_over(checkpoint, &set(&example(), change).unwrap())
                .map(|taken| (taken.state.at.phase, taken.state.at.epoch, taken.state.at.batch))
                .map_err(|failure| failure.message)
        };
        assert_eq!(take(at(1, 3, 5), "phases[1].epochs=4"), Ok((1, 3, 5)));
        assert_eq!(take(at(1, 3, 0), "phases[1].epochs=3"), Ok((1, 3, 0)));
        assert!(take(at(1, 3, 5), "phases[1].epochs=3").unwrap_err().contains("has 3 behind it"));
        assert!(take(at(1, 3, 5), "phases[0].epochs=5").unwrap_err().contains("has 4 behind it"));
        // A phase that is just over can be made longer, the last one too.
        assert_eq!(take(at(1, 0, 0), "phases[0].epochs=5"), Ok((0, 4, 0)));
        assert_eq!(take(at(2, 0, 0), "phases[1].epochs=9"), Ok((1, 8, 0)));
        assert_eq!(take(at(2, 0, 0), "optimiser.rate=1e-5"), Ok((2, 0, 0)));
        assert!(take(at(0, 1, 0), "phases=[]").unwrap_err().contains("2 phases"));
    }
}
