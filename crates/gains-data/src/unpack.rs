//! Taking the expected files, and nothing else, out of an archive.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use tar::Archive;

use crate::layout::{CIFAR_FOLDER, DataFile};
use crate::partial::{Partial, partial_name};
use crate::{DataError, Dataset, FetchEvent, OnEvent};

/// Unpacks every file of the data set from a gzipped tar archive.
///
/// Where a file goes is decided by our own table; a path in the archive is only
/// compared with it. So no archive, however made, can write anywhere else.
/// Entries of other names and kinds are skipped.
pub(crate) fn unpack(
    partial: &mut Partial,
    dataset: Dataset,
    data_dir: &Path,
    progress: &mut OnEvent<'_>,
) -> Result<ControlFlow<()>, DataError> {
    let path = partial.path().to_owned();
    let broken = |source| DataError::Archive { path: path.clone(), source };
    let mut missing: Vec<DataFile> = DataFile::all(dataset).collect();
    let compressed = io::BufReader::new(partial.content()?);
    let mut archive = Archive::new(GzDecoder::new(compressed));
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let inside = entry.path().map_err(broken)?.into_owned();
        let Some(index) = missing.iter().position(|file| inside == Path::new(CIFAR_FOLDER).join(file.name))
        else {
            continue;
        };
        let file = missing.swap_remove(index);
        if progress(FetchEvent::Unpacking { name: file.name }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let most = (file.most_items * (1 + dataset.shape().len())) as u64;
        if entry.size() > most {
            let size = entry.size();
            let reason = format!("{} has {size} bytes, more than {most}", inside.display());
            return Err(broken(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        write_out(&mut entry, &file.path(data_dir), &path)?;
        if missing.is_empty() {
            break;
        }
    }
    match missing.first() {
        None => Ok(ControlFlow::Continue(())),
        Some(file) => Err(DataError::MissingMember { path, member: format!("{CIFAR_FOLDER}/{}", file.name) }),
    }
}

/// Writes one member under a partial name first, so that a file under its own
/// name is always whole.
fn write_out(entry: &mut impl Read, target: &Path, archive: &Path) -> Result<(), DataError> {
    let unfinished = partial_name(target);
    let outcome = copy(entry, &unfinished, archive)
        .and_then(|()| fs::rename(&unfinished, target).map_err(|source| write_error(target, source)));
    if outcome.is_err() {
        // It cannot be continued and may be what fills the disk. The error that
        // matters is the first one.
        let _ = fs::remove_file(&unfinished);
    }
    outcome
}

/// Like [`io::copy`], but says which side failed.
fn copy(entry: &mut impl Read, to: &Path, archive: &Path) -> Result<(), DataError> {
    let mut output = File::create(to).map_err(|source| write_error(to, source))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = match entry.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => {
                return Err(DataError::Archive { path: PathBuf::from(archive), source });
            }
        };
        output.write_all(&buffer[..count]).map_err(|source| write_error(to, source))?;
    }
    output.sync_all().map_err(|source| write_error(to, source))
}

fn write_error(path: &Path, source: io::Error) -> DataError {
    DataError::Write { path: path.to_owned(), source }
}
