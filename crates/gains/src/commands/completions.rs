//! `gains completions`.

use clap::CommandFactory;

use crate::cli::{Cli, CompletionArgs};
use crate::failure::Outcome;

/// Runs the command.
pub fn run(args: &CompletionArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gains", &mut script);
    crate::output::hand_over(&script)
}
