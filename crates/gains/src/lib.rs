//! `gains`: certified robustness of neural ODEs, from the command line and for other programs.
//!
//! [`run`] is the command line: it is the only one that prints, in `output`; results go to standard output, everything
//! else to standard error. [`library`] answers the same questions about samples in memory, and prints nothing.

mod bundled;
mod campaign;
mod certificates;
mod cli;
mod commands;
mod failure;
mod files;
mod interrupt;
pub mod library;
mod lock;
mod output;
mod panics;
mod picture;
mod progress;
mod property;
mod question;
mod results;
mod runner;
mod selection;
mod study;
mod subject;
mod table;
mod tell;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

use cli::{Cli, Command};
use failure::Failure;

/// Runs the program: `arguments` are its name and what was typed behind it. Returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let matches = Cli::command().try_get_matches_from(arguments);
    let (cli, matches) = match matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches))) {
        Ok(both) => both,
        Err(error) => return explain(&error),
    };
    if let Err(failure) = cli::apart(&matches) {
        return report(&failure);
    }
    interrupt::install();
    let global = cli.global;
    let outcome = match cli.command {
        Command::Certify(args) => commands::certify::run(&args, &global),
        Command::Eval(args) => commands::eval::run(&args, &global),
        Command::Radius(args) => commands::radius::run(&args, &global),
        Command::Attack(args) => commands::attack::run(&args, &global),
        Command::Challenge(args) => commands::challenge::run(&args, &global),
        Command::Train(args) => commands::train::run(&args, &global),
        Command::Predict(args) => commands::predict::run(&args, &global),
        Command::Forecast(args) => commands::forecast::run(&args, &global),
        Command::Trajectory(args) => commands::trajectory::run(&args, &global),
        Command::Report(args) => commands::report::run(&args, &global),
        Command::Model(command) => commands::model::run(&command, &global),
        Command::Data(command) => commands::data::run(&command, &global),
        Command::Study(args) => commands::study::run(&args, &global),
        Command::Bench(args) => commands::bench::run(&args, &global),
        Command::Completions(args) => commands::completions::run(&args),
    };
    match outcome {
        Ok(()) if interrupt::requested() => failure::INTERRUPTED,
        Ok(()) => 0,
        Err(failure) => report(&failure),
    }
}

/// Prints what the parser of the command line says: its complaint, or the help that was asked for.
fn explain(error: &clap::Error) -> u8 {
    match error.print() {
        // Where complaints are told, a complaint that cannot be told is silence.
        _ if error.use_stderr() => failure::USAGE,
        Ok(()) => 0,
        Err(trouble) => report(&Failure::printing(&trouble)),
    }
}

fn report(failure: &Failure) -> u8 {
    if failure.is_closed_pipe() {
        return 0;
    }
    output::complain("error:", output::Tone::Error, &failure.message);
    if let Some(hint) = &failure.hint {
        output::complain("hint:", output::Tone::Hint, hint);
    }
    failure.code
}
