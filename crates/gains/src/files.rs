//! Reading whole files and writing them so that nothing half-written is ever seen.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gains_core::model_file::{Tensors, read_model, read_parts};
use gains_core::{Description, ModelError, Network};

use crate::failure::{Failure, Outcome};
use crate::{bundled, interrupt, output};

/// Larger model files are refused before they are read.
const LARGEST_MODEL: u64 = 1 << 30;

/// The folder with the data sets.
pub fn locate(data_dir: Option<&Path>) -> Result<PathBuf, Failure> {
    Ok(gains_data::locate(data_dir, |name| std::env::var_os(name))?)
}

/// Reads a model from a file, a bundled one by its name, or the default one.
pub fn load_model(path: Option<&Path>) -> Result<Network, Failure> {
    parse_model(path, read_model)
}

/// Reads a model, as [`load_model`] does, as a description and weights that can still be changed.
pub fn load_parts(path: Option<&Path>) -> Result<(Description, Tensors), Failure> {
    parse_model(path, read_parts)
}

fn parse_model<T>(path: Option<&Path>, parse: impl Fn(&[u8]) -> Result<T, ModelError>) -> Result<T, Failure> {
    interrupt::at_once(|| parse_bytes(path, parse))
}

/// A model file, a bundled one by its name, or the default one, as it is.
pub fn model_bytes(path: Option<&Path>) -> Result<Cow<'static, [u8]>, Failure> {
    Ok(match path.map(|path| (path, bundled::find(path))) {
        Some((path, None)) => {
            if let Err(error) = path.metadata() {
                return Err(Failure::reading(path, &error)
                    .hint("check the path; bundled networks go by their names, see `gains model list`"));
            }
            Cow::from(read_model_file(path)?)
        }
        Some((_, Some(entry))) => Cow::from(entry.bytes),
        None => Cow::from(bundled::MODELS[0].bytes),
    })
}

fn parse_bytes<T>(path: Option<&Path>, parse: impl Fn(&[u8]) -> Result<T, ModelError>) -> Result<T, Failure> {
    let bytes = model_bytes(path)?;
    parse(&bytes).map_err(|error| no_model(path, &error))
}

/// The content of a file is no model.
pub fn no_model(path: Option<&Path>, error: &ModelError) -> Failure {
    let hint = match error {
            ModelError::NoDescription => {
                "turn bare weights into a model with `gains model import WEIGHTS --description FILE.json --out MODEL`"
                    .into()
            }
            ModelError::Pickle => out_of_pickles(path.unwrap_or(Path::new("net.pt"))),
            ModelError::Container(_) => "is it a complete .safetensors file? try copying it again".into(),
            ModelError::Version { .. } => "a newer gains wrote the file; update this one".into(),
            _ => "docs/model-format.md says what a model file holds".to_string(),
        };
    let name = path.map_or_else(|| "bundled model".into(), |path| path.display().to_string());
    Failure::new(format!("'{name}': {error}")).hint(hint)
}

/// What to type in Python to get the weights out of a file of `torch.save`.
pub fn out_of_pickles(path: &Path) -> String {
    let (from, to) = (path.display(), path.with_extension("safetensors"));
    format!(
        "save the weights as safetensors, in Python: import torch, safetensors.torch; \
         state = torch.load({:?}, map_location=\"cpu\", weights_only=True); \
         safetensors.torch.save_file({{k: v.contiguous() for k, v in state.items()}}, {:?})",
        from.to_string(),
        to.display().to_string()
    )
}

/// Reads a model or checkpoint file.
pub fn read_model_file(path: &Path) -> Result<Vec<u8>, Failure> {
    read(path, LARGEST_MODEL, "a model file")
}

/// Reads a whole file of at most `most` bytes that should be `what` ("a model file").
///
/// Devices, folders and FIFOs are refused at once; the pipe that standard input may be is read.
pub fn read(path: &Path, most: u64, what: &str) -> Result<Vec<u8>, Failure> {
    let bytes = interrupt::at_once(|| match open_pipe(path) {
        Some(pipe) => pipe.and_then(|pipe| gains_data::read_bounded(pipe, most)),
        None => gains_data::read_file(path, most),
    });
    bytes.map_err(|error| {
        let failure = Failure::reading(path, &error);
        match error.kind() {
            io::ErrorKind::FileTooLarge => failure.hint(format!("is this really {what}?")),
            io::ErrorKind::Unsupported => failure
                .hint("give a file; what another program writes can come through a pipe, as /dev/stdin"),
            io::ErrorKind::IsADirectory => failure.hint(format!("give the path of {what} in it")),
            _ => failure,
        }
    })
}

/// Reads a whole text file, as [`read`] does.
pub fn read_text(path: &Path, most: u64, what: &str) -> Result<String, Failure> {
    String::from_utf8(read(path, most, what)?).map_err(|_| {
        Failure::new(format!("cannot read '{}': it is not text in UTF-8", path.display()))
            .hint(format!("is this really {what}?"))
    })
}

/// The pipe behind `/dev/stdin` or a shell's `<(command)`. It is open already, so this does not wait, as opening a
/// FIFO by its name would.
fn open_pipe(path: &Path) -> Option<io::Result<File>> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let inherited = ["/dev/stdin", "/dev/fd", "/proc"].iter().any(|place| path.starts_with(place));
        if inherited && std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
            return Some(File::open(path));
        }
    }
    let _ = path;
    None
}

/// Writes a file under a temporary name beside it, then renames it. A device or pipe is simply written to.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Outcome {
    if is_special(path) {
        // Opening a FIFO waits for whoever reads from it.
        let written = interrupt::at_once(|| {
            OpenOptions::new().write(true).open(path).and_then(|mut f| f.write_all(bytes))
        });
        return written.map_err(|error| Failure::writing(path, &error));
    }
    if path.file_name().is_none() {
        return Err(Failure::usage(format!("'{}' is not a file name", path.display()))
            .hint("give a file, not a folder"));
    }
    let temporary = temporary(path);
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        Failure::writing(path, &error)
    })
}

/// Refuses a place that [`write_atomically`] could not write to, before the work whose result goes there.
pub fn check_target(path: &Path) -> Outcome {
    if is_special(path) {
        // Opening a FIFO waits for whoever reads from it; what a device takes is only known by writing.
        return Ok(());
    }
    if path.is_dir() || path.file_name().is_none() {
        return Err(Failure::usage(format!("'{}' is a folder", path.display())).hint("give a file in it"));
    }
    let temporary = temporary(path);
    let tried = File::create(&temporary);
    let _ = std::fs::remove_file(&temporary);
    tried.map(drop).map_err(|error| Failure::writing(path, &error))
}

/// A name beside a file for what is not finished.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

/// Whether a path is something that must not be replaced by a file: `/dev/stdout`, a FIFO.
fn is_special(path: &Path) -> bool {
    let other = |found: std::fs::Metadata| !found.is_file() && !found.is_dir();
    path.starts_with("/dev") || std::fs::metadata(path).is_ok_and(other)
}

/// Whether a flag names standard output.
pub fn is_stdout(out: Option<&Path>) -> bool {
    out == Some(Path::new("-"))
}

/// Writes what a command was asked for to its `--out`, if there is one; `-` is standard output. The answer is
/// whether it went there.
pub fn deliver(out: Option<&Path>, bytes: &[u8]) -> Result<bool, Failure> {
    let stdout = is_stdout(out);
    match out {
        Some(_) if stdout => output::hand_over(bytes)?,
        Some(path) => write_atomically(path, bytes)?,
        None => {}
    }
    Ok(stdout)
}
