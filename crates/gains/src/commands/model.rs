//! `gains model`.

mod adapt;
mod import;
pub mod show;

use crate::cli::{Global, ModelCommand};
use crate::failure::Outcome;
use crate::output::print;
use crate::table::layout;
use crate::{bundled, files};

/// Runs the command.
pub fn run(command: &ModelCommand, global: &Global) -> Outcome {
    match command {
        ModelCommand::Show { file } => print(&show::describe(&files::load_model(file.as_deref())?)),
        ModelCommand::List => list(),
        ModelCommand::Import(args) => import::run(args, global),
        ModelCommand::Adapt(args) => adapt::run(args, global),
    }
}

fn list() -> Outcome {
    let mut rows = Vec::new();
    let mut about = String::new();
    for entry in &bundled::MODELS {
        let network = entry.network()?;
        rows.push(vec![entry.name.into(), network.hash.clone(), network.parameters().to_string()]);
        about.push_str(&format!("\n{}\n  {}", entry.name, entry.about));
    }
    print(&format!("{}{about}\n", layout(&["name", "hash", "parameters"], &rows)))
}
