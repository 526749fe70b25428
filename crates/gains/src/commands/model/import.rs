//! `gains model import`: weights and what is known of their network become a model file.

use std::path::Path;

use gains_core::ModelError;
use gains_core::import::{Imported, import_checkpoint, import_state_dict, template};

use crate::cli::{Global, ImportArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{print, say};
use crate::{files, interrupt};

/// Larger sidecars are refused before they are read.
const LARGEST_SIDECAR: u64 = 1 << 20;
/// Larger descriptions are refused before they are read.
const LARGEST_DESCRIPTION: u64 = 4 << 20;

/// Runs the command.
pub fn run(args: &ImportArgs, global: &Global) -> Outcome {
    let weights = files::read_model_file(&args.weights)?;
    let failed = |hint: &'static str| {
        move |error: ModelError| {
            let hint = match &error {
                ModelError::Pickle => files::out_of_pickles(&args.weights),
                ModelError::TensorType { .. } => {
                    "save the weights as float32, with `.float()` in PyTorch".into()
                }
                ModelError::Container(_) => "is it a complete .safetensors file? try copying it again".into(),
                _ => hint.to_string(),
            };
            let of_description = matches!(error, ModelError::Description(_) | ModelError::Version { .. });
            let file = args.description.as_ref().filter(|_| of_description).unwrap_or(&args.weights);
            Failure::new(format!("'{}': {error}", file.display())).hint(hint)
        }
    };
    if args.describe {
        let text = interrupt::at_once(|| template(&weights)).map_err(failed("give a safetensors file"))?;
        return print(&(text + "\n"));
    }
    let imported = match (&args.description, &args.sidecar) {
        (Some(description), _) => {
            let text = files::read_text(description, LARGEST_DESCRIPTION, "a description")?;
            interrupt::at_once(|| import_state_dict(&weights, &text)).map_err(failed(
                "docs/model-format.md says what a description holds; `gains model import WEIGHTS --describe` begins one",
            ))?
        }
        (None, Some(sidecar)) => {
            let text = files::read_text(sidecar, LARGEST_SIDECAR, "a sidecar")?;
            let model = interrupt::at_once(|| import_checkpoint(&weights, &text)).map_err(failed(
                "expected the tensors of a published checkpoint, and a sidecar with h0 and dataset; \
                 other networks are imported with --description",
            ))?;
            Imported { model, without_bias: Vec::new() }
        }
        (None, None) => return Err(Failure::usage("neither --description nor --sidecar is given")),
    };
    match &args.out {
        Some(out) => write(&imported, out, global),
        None => Err(Failure::usage("there is no --out MODEL to write to")),
    }
}

fn write(imported: &Imported, out: &Path, global: &Global) -> Outcome {
    files::write_atomically(out, &imported.model)?;
    if global.quiet {
        return Ok(());
    }
    if !imported.without_bias.is_empty() {
        say!("without a bias, so that it is zero: {}", imported.without_bias.join(", "))?;
    }
    say!("wrote {}", out.display())
}
