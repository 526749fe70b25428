//! What is written must be none of what is read.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::ArgMatches;

use crate::failure::{Failure, Outcome};

/// Flags that name files to write.
const WRITTEN: [&str; 4] = ["out", "svg", "json", "csv"];

/// Refuses a command line on which a file to be written is named as something to be read as well: it would be lost.
pub fn apart(matches: &ArgMatches) -> Outcome {
    if let Some((_, inner)) = matches.subcommand() {
        return apart(inner);
    }
    let all: Vec<(&str, &OsStr)> = matches
        .ids()
        .filter_map(|id| Some((id.as_str(), matches.try_get_raw(id.as_str()).ok()??)))
        .flat_map(|(id, values)| values.map(move |value| (id, value)))
        .collect();
    let (written, read): (Vec<_>, Vec<_>) = all.into_iter().partition(|(id, _)| WRITTEN.contains(id));
    let read: Vec<PathBuf> = read.iter().flat_map(|(_, value)| files_in(value)).collect();
    for (id, value) in written {
        if let Some(file) = existing(Path::new(value)).filter(|file| read.contains(file)) {
            return Err(Failure::usage(format!("--{id} would replace '{}', which is read", file.display()))
                .hint("write to another file"));
        }
    }
    Ok(())
}

/// The files that a value names: by itself, behind a name (`NAME=FILE`), or in a list of two (`LOWER,UPPER`).
fn files_in(value: &OsStr) -> Vec<PathBuf> {
    let text = value.to_string_lossy();
    let parts = text.split(['=', ',']).map(Path::new);
    std::iter::once(Path::new(value)).chain(parts).filter_map(existing).collect()
}

fn existing(path: &Path) -> Option<PathBuf> {
    path.is_file().then(|| path.canonicalize().ok())?
}
