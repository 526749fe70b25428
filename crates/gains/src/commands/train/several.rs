//! Several runs, one after the other: seeds, configurations, or folders to go on with. Ends with what they came to, side by
//! side, and the mean.

use std::path::{Path, PathBuf};

use gains_train::Config;

use super::folder::{self, Folder};
use super::session::Ended;
use super::{Start, quoted, resume, resume_command, train};
use crate::cli::{Global, TrainArgs};
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::output::{note, print};
use crate::table::layout;

/// Begins runs. All their folders are there from the first on, so that a set that was broken off can go on as a whole.
pub fn begin(configs: Vec<Config>, args: &TrainArgs, global: &Global) -> Outcome {
    let mut paths: Vec<PathBuf> = Vec::new();
    for config in &configs {
        let path = folder::of_run(None, &config.name, config.seed)?;
        let path = match (&args.out, path.file_name()) {
            (Some(out), Some(name)) => out.join(name),
            _ => path,
        };
        if paths.contains(&path) {
            return Err(Failure::usage(format!("two runs would share the folder '{}'", path.display()))
                .hint("give them different names, with name = \"…\" in their files"));
        }
        Folder::vacant(&path, args.force)?;
        paths.push(path);
    }
    // Nothing is touched before the first run is ready.
    let lay_out = || -> Result<(), Failure> {
        for (path, config) in paths.iter().zip(&configs) {
            let folder = Folder::create(path, args.force, resume_command(path, args))?;
            folder.write(&folder.config(), config.to_toml().as_bytes())?;
        }
        Ok(())
    };
    run(&paths, args, |index, path| match index {
        0 => {
            let start = Start { config: configs[0].clone(), checkpoint: None };
            train(start, args, global, || {
                lay_out()?;
                Folder::open(path, resume_command(path, args))
            })
        }
        _ => resume(path, args, global, false),
    })
}

/// Goes on with runs.
pub fn go_on(paths: &[PathBuf], args: &TrainArgs, global: &Global) -> Outcome {
    run(paths, args, |_, path| resume(path, args, global, true))
}

/// Runs one after the other. One that fails does not keep the others from it, unless it is the first.
fn run(
    paths: &[PathBuf],
    args: &TrainArgs,
    mut one: impl FnMut(usize, &Path) -> Result<Ended, Failure>,
) -> Outcome {
    let mut figures = Vec::new();
    let mut open = Vec::new();
    let mut failed = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        if interrupt::requested() {
            open.push(path);
            continue;
        }
        match one(index, path) {
            Ok(Ended::Finished(found)) => figures.push((path, found)),
            Ok(Ended::Interrupted) => open.push(path),
            Err(failure) if index == 0 => return Err(failure),
            Err(failure) => {
                note!("error: {}: {}", quoted(path), failure.message);
                if let Some(hint) = &failure.hint {
                    note!("hint: {hint}");
                }
                failed.push(path);
            }
        }
    }
    if figures.len() > 1 {
        print(&format!("\n{}", table(&figures)))?;
    }
    if !open.is_empty() {
        note!("go on with all of them: `{}`", together(&open, args));
    }
    match failed.len() {
        0 => Ok(()),
        count => Err(Failure::new(format!("{count} of {} runs failed", paths.len()))
            .hint(format!("what is saved of them goes on with `{}`", together(&failed, args)))),
    }
}

/// What to type to go on with several runs.
fn together(paths: &[&PathBuf], args: &TrainArgs) -> String {
    let (first, others) = paths.split_first().map_or((None, paths), |(first, others)| (Some(first), others));
    let mut command = first.map_or_else(String::new, |path| resume_command(path, args));
    for path in others {
        command += &format!(" --resume {}", quoted(path));
    }
    command
}

/// What a run ended with: names as in `metrics.csv`, and values.
pub type Figures = Vec<(&'static str, Option<f64>)>;

/// Runs below each other, then mean and deviation.
fn table(runs: &[(&PathBuf, Figures)]) -> String {
    let names: Vec<&str> = runs.first().map_or_else(Vec::new, |(_, figures)| {
        let there = |name: &str| {
            let of = |figures: &Figures| figures.iter().any(|(n, value)| *n == name && value.is_some());
            runs.iter().any(|(_, figures)| of(figures))
        };
        figures.iter().map(|(name, _)| *name).filter(|name| there(name)).collect()
    });
    let value =
        |figures: &Figures, name: &str| figures.iter().find(|(n, _)| *n == name).and_then(|(_, v)| *v);
    let cell = |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{value:.4}"));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (path, figures) in runs {
        let mut row = vec![path.display().to_string()];
        row.extend(names.iter().map(|name| cell(value(figures, name))));
        rows.push(row);
    }
    let spread: Vec<(Option<f64>, Option<f64>)> = names
        .iter()
        .map(|name| mean_and_deviation(&runs.iter().filter_map(|(_, f)| value(f, name)).collect::<Vec<_>>()))
        .collect();
    for (title, part) in [("mean", 0), ("± deviation", 1)] {
        let cells = spread.iter().map(|(mean, deviation)| cell(if part == 0 { *mean } else { *deviation }));
        rows.push([title.to_string()].into_iter().chain(cells).collect());
    }
    let header: Vec<&str> = ["run"].into_iter().chain(names.iter().copied()).collect();
    layout(&header, &rows)
}

/// The mean, and the deviation of the numbers around it, of a sample (divided by n − 1).
fn mean_and_deviation(values: &[f64]) -> (Option<f64>, Option<f64>) {
    let count = values.len() as f64;
    if values.is_empty() {
        return (None, None);
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (Some(mean), (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_stand_side_by_side_with_their_mean() {
        let (a, b, c) = (PathBuf::from("a"), PathBuf::from("b"), PathBuf::from("c"));
        let run = |accuracy: f64, test: Option<f64>| -> Figures {
            vec![("accuracy", Some(accuracy)), ("test_accuracy", test), ("error", None)]
        };
        let text = table(&[(&a, run(0.5, Some(0.25))), (&b, run(0.75, None)), (&c, run(1.0, Some(0.75)))]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["run", "accuracy", "test_accuracy"], "{text}");
        assert_eq!(lines[3], ["b", "0.7500", "–"]);
        assert_eq!(lines[5], ["mean", "0.7500", "0.5000"]);
        assert_eq!(lines[6], ["±", "deviation", "0.2500", "0.3536"]);
        assert_eq!(mean_and_deviation(&[2.0]), (Some(2.0), None));
    }
}
