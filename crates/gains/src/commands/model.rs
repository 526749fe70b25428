//! `gains model`.

mod show;

use std::path::Path;

use gains_core::import::import_checkpoint;

use crate::cli::{Global, ModelCommand};
use crate::failure::{Failure, Outcome};
use crate::output::{print, say};
use crate::table::layout;
use crate::{bundled, files, interrupt};

/// Larger sidecars are refused before they are read.
const LARGEST_SIDECAR: u64 = 1 << 20;

/// Runs the command.
pub fn run(command: &ModelCommand, global: &Global) -> Outcome {
    match command {
        ModelCommand::Show { file } => print(&show::describe(&files::load_model(file.as_deref())?)),
        ModelCommand::List => list(),
        ModelCommand::Import { weights, sidecar, out } => import(weights, sidecar, out, global),
    }
}

fn list() -> Outcome {
    let mut rows = Vec::new();
    for entry in &bundled::MODELS {
        let network = entry.network()?;
        rows.push(vec![
            entry.name.into(),
            network.hash.clone(),
            network.parameters().to_string(),
            entry.about.into(),
        ]);
    }
    print(&layout(&["name", "hash", "parameters", "about"], &rows))
}

fn import(weights: &Path, sidecar: &Path, out: &Path, global: &Global) -> Outcome {
    let bytes = files::read_model_file(weights)?;
    let text = files::read_text(sidecar, LARGEST_SIDECAR, "a sidecar")?;
    let model = interrupt::at_once(|| import_checkpoint(&bytes, &text)).map_err(|e| {
        Failure::new(format!("'{}': {e}", weights.display()))
            .hint("expected the tensors of a published checkpoint, and a sidecar with h0 and dataset")
    })?;
    files::write_atomically(out, &model)?;
    if global.quiet { Ok(()) } else { say!("wrote {}", out.display()) }
}
