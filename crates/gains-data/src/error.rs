//! What can go wrong, with the numbers, and what to do about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::Dataset;

/// Why a data set could not be named, found, read or fetched.
///
/// [`DataError::hint`] gives the remedy as a separate line.
#[derive(Debug, Error)]
pub enum DataError {
    /// A data set name that is none of [`Dataset::ALL`].
    #[error("no data set is called `{name}`")]
    UnknownDataset {
        /// What was asked for.
        name: String,
    },
    /// A split that is neither `train` nor `test`.
    #[error("no split is called `{name}`")]
    UnknownSplit {
        /// What was asked for.
        name: String,
    },
    /// No data directory was given and the environment suggests none.
    #[error("there is no place for data sets: no home directory is known")]
    NoDataDir,
    /// A file of the data set is not there.
    #[error("{dataset} is not there: `{}` does not exist", path.display())]
    Missing {
        /// The data set asked for.
        dataset: Dataset,
        /// Where its first missing file belongs.
        path: PathBuf,
    },
    /// A file is there but the system does not let us read it.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file is not what its name says.
    #[error("`{}` is damaged: {damage}", path.display())]
    Damaged {
        /// The data set it belongs to.
        dataset: Dataset,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Images and labels each read well but do not belong together.
    #[error(
        "`{}` holds {images} images but `{}` holds {labels} labels",
        images_path.display(),
        labels_path.display()
    )]
    CountMismatch {
        /// The data set they belong to.
        dataset: Dataset,
        /// The file of images.
        images_path: PathBuf,
        /// How many images it holds.
        images: usize,
        /// The file of labels.
        labels_path: PathBuf,
        /// How many labels it holds.
        labels: usize,
    },
    /// The server could not be reached, or did not answer with HTTP.
    #[error("cannot fetch {url}: {source}")]
    Connection {
        /// The address asked for.
        url: String,
        /// What the HTTP client says; boxed because it is large.
        source: Box<ureq::Error>,
    },
    /// The server answered with something other than the file.
    #[error("cannot fetch {url}: the server answered with status {status}")]
    Status {
        /// The address asked for.
        url: String,
        /// The HTTP status code.
        status: u16,
    },
    /// The transfer broke off, again and again. What arrived is kept.
    #[error("the transfer of {url} broke off after {received} of {total} bytes: {source}")]
    Interrupted {
        /// The address asked for.
        url: String,
        /// Bytes on disk now.
        received: u64,
        /// Bytes of the whole file.
        total: u64,
        /// Why the last attempt ended.
        source: io::Error,
    },
    /// The server offers a file of another size.
    #[error("{url} has {found} bytes instead of {expected}")]
    WrongSize {
        /// The address asked for.
        url: String,
        /// The published size.
        expected: u64,
        /// The size announced or, if none was, the bytes seen so far.
        found: u64,
    },
    /// The whole file arrived but is not the published one. It has been deleted.
    #[error("{url} has MD5 checksum {found} instead of {expected}")]
    WrongChecksum {
        /// The address it came from.
        url: String,
        /// The published checksum.
        expected: String,
        /// The checksum of what arrived.
        found: String,
    },
    /// Another process holds the lock on the unfinished file.
    #[error("`{}` is being written by another process", path.display())]
    Busy {
        /// The unfinished file.
        path: PathBuf,
    },
    /// A folder or file could not be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// An archive with the right checksum could not be unpacked.
    #[error("cannot unpack `{}`: {source}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What the unpacker says.
        source: io::Error,
    },
    /// An archive lacks a file that it should hold.
    #[error("`{}` does not hold `{member}`", path.display())]
    MissingMember {
        /// The archive.
        path: PathBuf,
        /// The file looked for.
        member: String,
    },
}

/// In what way a file is not what its name says.
#[derive(Debug, Error)]
pub enum Damage {
    /// The first four bytes are those of another format.
    #[error("it begins with {found:#010x} instead of {expected:#010x}")]
    Magic {
        /// The magic number of the format.
        expected: u32,
        /// The number in the file.
        found: u32,
    },
    /// The images have another size than those of the data set.
    #[error(
        "its images are {} x {} instead of {} x {}",
        found[0], found[1], expected[0], expected[1]
    )]
    ImageSize {
        /// Rows and columns of the data set.
        expected: [usize; 2],
        /// Rows and columns in the header.
        found: [u32; 2],
    },
    /// The header announces more than the official file has.
    #[error("its header announces {found} items where the official file has {most}")]
    TooManyItems {
        /// Items in the official file.
        most: usize,
        /// Items in the header.
        found: u32,
    },
    /// The file ends too early. Sizes are after decompression.
    #[error("it ends after {found} of {expected} bytes")]
    Truncated {
        /// Bytes that the header, or the record begun, calls for.
        expected: usize,
        /// Bytes there are.
        found: usize,
    },
    /// The file goes on too long. Sizes are after decompression.
    #[error("it goes on after the {expected} bytes it should have")]
    TrailingBytes {
        /// Bytes that the header, or the official file, calls for.
        expected: usize,
    },
    /// A label stands for no class.
    #[error("label number {index} is {label}, but there are {classes} classes")]
    Label {
        /// Position in the file, from 0.
        index: usize,
        /// The label.
        label: u8,
        /// Labels must be less than this.
        classes: usize,
    },
    /// Decompression failed.
    #[error("it does not decompress: {0}")]
    Gzip(io::Error),
}

impl DataError {
    /// What to do about it: a line for the user, without a final full stop.
    pub fn hint(&self) -> String {
        match self {
            DataError::UnknownDataset { .. } => {
                let names = Dataset::ALL.map(Dataset::name).join(", ");
                format!("the data sets are {names}")
            }
            DataError::UnknownSplit { .. } => "the splits are train, test".to_owned(),
            DataError::NoDataDir => "pass --data-dir, or set GAINS_DATA".to_owned(),
            DataError::Missing { dataset, .. } => format!(
                "run `gains data fetch {dataset}`, or point --data-dir at the directory with `{dataset}/`"
            ),
            DataError::Read { .. } => "check that it is a file that you may read".to_owned(),
            DataError::Damaged { dataset, .. } => {
                format!("delete it and run `gains data fetch {dataset}`")
            }
            DataError::CountMismatch { dataset, .. } => {
                format!("delete both and run `gains data fetch {dataset}`")
            }
            DataError::Connection { .. } => {
                "check the network connection and the proxy, or name another server with --mirror".to_owned()
            }
            DataError::Status { .. } | DataError::WrongSize { .. } => {
                "the file may have moved, or a login page is in the way; \
                 name another server with --mirror"
                    .to_owned()
            }
            DataError::Interrupted { .. } => {
                "fetch again: the transfer goes on where it broke off".to_owned()
            }
            DataError::WrongChecksum { .. } => {
                "fetch again; if it happens twice, the server's copy is not the published one, \
                 so name another with --mirror"
                    .to_owned()
            }
            DataError::Busy { .. } => "wait for the other fetch to end".to_owned(),
            DataError::Write { source, .. } => write_hint(source.kind()).to_owned(),
            DataError::Archive { .. } | DataError::MissingMember { .. } => {
                "delete it and fetch again".to_owned()
            }
        }
    }
}

fn write_hint(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on the disk and fetch again, or choose another place with --data-dir"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a directory that you may write to with --data-dir"
        }
        _ => "choose another place with --data-dir",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_forbidden_one_have_their_own_hints() {
        let hint = |kind: io::ErrorKind| {
            let path = PathBuf::from("x");
            let source = kind.into();
            DataError::Write { path, source }.hint()
        };
        assert!(hint(io::ErrorKind::StorageFull).contains("make room"));
        assert!(hint(io::ErrorKind::PermissionDenied).contains("may write"));
        assert!(hint(io::ErrorKind::InvalidInput).contains("--data-dir"));
    }
}
