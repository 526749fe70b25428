//! Reading whole files and writing them so that nothing half-written is ever seen.

use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};

use gains_core::model_file::{Tensors, read_model, read_parts};
use gains_core::{Description, ModelError, Network};

use crate::bundled;
use crate::failure::Failure;

/// Larger model files are refused before they are read.
const LARGEST_MODEL: u64 = 1 << 30;

/// Reads a model from a file, a bundled one by its name, or the default one.
pub fn load_model(path: Option<&Path>) -> Result<Network, Failure> {
    parse_model(path, read_model)
}

/// Reads a model, as [`load_model`] does, as a description and weights that can still be changed.
pub fn load_parts(path: Option<&Path>) -> Result<(Description, Tensors), Failure> {
    parse_model(path, read_parts)
}

fn parse_model<T>(path: Option<&Path>, parse: impl Fn(&[u8]) -> Result<T, ModelError>) -> Result<T, Failure> {
    let bytes = match path.map(|path| (path, bundled::find(path))) {
        Some((path, None)) if !path.exists() => {
            let missing = Failure::reading(path, &std::io::ErrorKind::NotFound.into());
            return Err(
                missing.hint("check the path; bundled networks go by their names, see `gains model list`")
            );
        }
        Some((path, None)) => Cow::from(read_limited(path)?),
        Some((_, Some(entry))) => Cow::from(entry.bytes),
        None => Cow::from(bundled::MODELS[0].bytes),
    };
    parse(&bytes).map_err(|error| {
        let hint = match error {
            ModelError::NoDescription => {
                "turn bare weights into a model with `gains model import WEIGHTS --sidecar FILE.json --out MODEL`"
            }
            ModelError::Container(_) => "is it a complete .safetensors file? try copying it again",
            _ => "`gains model show` reads the same file; see docs/model-format.md",
        };
        let name = path.map_or_else(|| "bundled model".into(), |path| path.display().to_string());
        Failure::new(format!("'{name}': {error}")).hint(hint)
    })
}

/// Reads a file of sensible size.
pub fn read_limited(path: &Path) -> Result<Vec<u8>, Failure> {
    let size = std::fs::metadata(path).map_err(|e| Failure::reading(path, &e))?.len();
    if size > LARGEST_MODEL {
        return Err(Failure::new(format!("'{}' is {size} bytes, at most {LARGEST_MODEL}", path.display()))
            .hint("is this really a model file?"));
    }
    std::fs::read(path).map_err(|e| Failure::reading(path, &e))
}

/// Writes a file under a temporary name beside it, then renames it.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let fail = |e: std::io::Error| Failure::writing(path, &e);
    let mut name = path.file_name().map(|n| n.to_os_string()).ok_or_else(|| {
        Failure::usage(format!("'{}' is not a file name", path.display())).hint("give a file, not a folder")
    })?;
    name.push(format!(".{}.partial", std::process::id()));
    let temporary: PathBuf = path.with_file_name(name);
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        fail(error)
    })
}

/// Writes what a command was asked for to its `--out`, if there is one; `-` is standard output. Says whether it was that.
pub fn deliver(out: Option<&Path>, bytes: &[u8]) -> Result<bool, Failure> {
    let stdout = out == Some(Path::new("-"));
    match out {
        Some(_) if stdout => std::io::stdout().lock().write_all(bytes).map_err(|e| Failure::printing(&e))?,
        Some(path) => write_atomically(path, bytes)?,
        None => {}
    }
    Ok(stdout)
}
