//! `gains completions`.

use clap::CommandFactory;

use crate::cli::{Cli, CompletionArgs};
use crate::failure::Outcome;

/// Runs the command.
pub fn run(args: &CompletionArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gains", &mut script);
    use std::io::Write as _;
    std::io::stdout().lock().write_all(&script).map_err(|e| crate::failure::Failure::printing(&e))
}
