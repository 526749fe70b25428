//! `gains model`.

mod adapt;
mod import;
pub mod show;

use std::path::{Path, PathBuf};

use crate::cli::{Global, ModelCommand};
use crate::failure::{Failure, Outcome};
use crate::output::{print, say};
use crate::table::layout;
use crate::{bundled, files};

/// Runs the command.
pub fn run(command: &ModelCommand, global: &Global) -> Outcome {
    match command {
        ModelCommand::Show { file } => print(&show::describe(&files::load_model(file.as_deref())?)),
        ModelCommand::List => list(),
        ModelCommand::Export { name, out } => export(name, out.as_deref(), global),
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

fn export(name: &str, out: Option<&Path>, global: &Global) -> Outcome {
    let Some(entry) = bundled::MODELS.iter().find(|entry| entry.name == name) else {
        let failure = Failure::new(format!("there is no bundled network '{name}'"));
        return Err(failure.hint("`gains model list` names them; a model file of yours is one already"));
    };
    let out = out.map_or_else(|| PathBuf::from(format!("{name}.safetensors")), Path::to_path_buf);
    files::write_atomically(&out, entry.bytes)?;
    if global.quiet { Ok(()) } else { say!("wrote {}", out.display()) }
}
