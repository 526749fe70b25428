//! `gains`: certified robustness of neural ODEs, from the command line.
//!
//! This crate is the only one that prints. Results go to standard output, everything else to standard
//! error.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bundled;
mod campaign;
mod cli;
mod commands;
mod failure;
mod files;
mod interrupt;
mod panics;
mod picture;
mod progress;
mod question;
mod results;
mod runner;
mod subject;
mod table;
mod tell;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { failure::USAGE } else { 0 };
            // A closed pipe (`gains --help | head`) is not worth a message.
            let _ = error.print();
            return ExitCode::from(code);
        }
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

fn report(failure: &Failure) -> ExitCode {
    if failure.is_closed_pipe() {
        return ExitCode::SUCCESS;
    }
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (red, cyan, off) = if colour { ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") } else { ("", "", "") };
    eprintln!("{red}error:{off} {}", failure.message);
    if let Some(hint) = &failure.hint {
        eprintln!("{cyan}hint:{off} {hint}");
    }
    ExitCode::from(failure.code)
}
