//! `gains study`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;

use super::train;
use crate::cli::{Cli, Command, DeviceArg, Global, StudyArgs};
use crate::failure::{Failure, Outcome};
use crate::study::{self, Entry, Given, Order, Takes};
use crate::tell;

/// Runs the command.
pub fn run(args: &StudyArgs, global: &Global) -> Outcome {
    match args.name.as_deref() {
        None => list(),
        Some(_) if args.list => list(),
        Some("report") => {
            Takes::Nothing.check("`gains study report`", &args.particular())?;
            study::gather(&args.out, global.quiet)
        }
        Some(name) => {
            let entry = study::find(name)?;
            entry.takes.check(&format!("the study '{name}'"), &args.particular())?;
            let folder = args.out.join(name);
            let (device, data_dir, quiet) = (args.device, args.data.data_dir.clone(), global.quiet);
            let given = Given {
                quick: args.quick,
                networks: args.networks.clone(),
                data: args.data.clone(),
                folder: folder.clone(),
                trained: args.trained.clone(),
                changes: args.changes.clone(),
                train: Arc::new(move |order| make(order, device, data_dir.as_ref(), quiet)),
            };
            if args.commands {
                return study::commands(entry, &given);
            }
            study::run(entry, &given, &folder, args.fresh, args.threads, global)
        }
    }
}

/// Trains what a study needs by `gains train`, or goes on with it.
fn make(order: &Order, device: DeviceArg, data_dir: Option<&PathBuf>, quiet: bool) -> Outcome {
    if !quiet {
        tell::note(&format!("training {}", order.folder.display()));
    }
    let folder = order.folder.display().to_string();
    let mut words = match order.folder.join("config.toml").is_file() {
        true => vec!["train".to_string(), "--resume".into(), folder],
        false => order.words(),
    };
    words.insert(0, "gains".into());
    if device == DeviceArg::Cuda {
        words.extend(["--device".into(), "cuda".into()]);
    }
    if let Some(dir) = data_dir {
        words.extend(["--data-dir".into(), dir.display().to_string()]);
    }
    let parsed = Cli::try_parse_from(&words).map_err(|error| Failure::new(error.to_string()))?;
    match parsed.command {
        // The study's own progress bar is on the screen already.
        Command::Train(args) => train::run(&args, &Global { quiet: true }),
        _ => Err(Failure::new(format!("'{}' trains nothing", words.join(" ")))),
    }
}

fn list() -> Outcome {
    let wide = |text: fn(&Entry) -> &str| {
        study::ALL.iter().map(|entry| text(entry).chars().count()).max().unwrap_or_default()
    };
    let (name, paper) = (wide(|entry| entry.name), wide(|entry| entry.paper));
    // Texts stand to the left, other than the numbers of tables.
    let line = |cells: [&str; 3]| format!("{:name$}  {:paper$}  {}\n", cells[0], cells[1], cells[2]);
    let mut text = line(["study", "paper", "what it does"]);
    text.extend(study::ALL.iter().map(|entry| line([entry.name, entry.paper, entry.about])));
    tell::print(&text)
}
