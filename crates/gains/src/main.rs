//! `gains`: certified robustness of neural ODEs, from the command line.
//!
//! This crate is the only one that prints, in [`output`]. Results go to standard output, everything else to
//! standard error.

mod bundled;
mod campaign;
mod cli;
mod commands;
mod failure;
mod files;
mod interrupt;
mod output;
mod panics;
mod picture;
mod progress;
mod question;
mod results;
mod runner;
mod subject;
mod table;
mod tell;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    interrupt::install();
    let global = cli.global;
    let outcome = match cli.command {
        Command::Certify(args) => commands::certify::run(&args, &global),
        Command::Eval(args) => commands::eval::run(&args, &global),
        Command::Attack(args) => commands::attack::run(&args, &global),
        Command::Challenge(args) => commands::challenge::run(&args, &global),
        Command::Train(args) => commands::train::run(&args, &global),
        Command::Predict(args) => commands::predict::run(&args, &global),
        Command::Forecast(args) => commands::forecast::run(&args, &global),
        Command::Trajectory(args) => commands::trajectory::run(&args, &global),
        Command::Model(command) => commands::model::run(&command, &global),
        Command::Data(command) => commands::data::run(&command, &global),
        Command::Bench(args) => commands::bench::run(&args, &global),
        Command::Completions(args) => commands::completions::run(&args),
    };
    match outcome {
        Ok(()) if interrupt::requested() => ExitCode::from(failure::INTERRUPTED),
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

/// Prints what the parser of the command line says: its complaint, or the help that was asked for.
fn explain(error: &clap::Error) -> ExitCode {
    match error.print() {
        // Where complaints are told, a complaint that cannot be told is silence.
        _ if error.use_stderr() => ExitCode::from(failure::USAGE),
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => report(&Failure::printing(&trouble)),
    }
}

fn report(failure: &Failure) -> ExitCode {
    if failure.is_closed_pipe() {
        return ExitCode::SUCCESS;
    }
    output::complain("error:", output::Tone::Error, &failure.message);
    if let Some(hint) = &failure.hint {
        output::complain("hint:", output::Tone::Hint, hint);
    }
    ExitCode::from(failure.code)
}
