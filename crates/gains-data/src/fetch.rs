//! Getting a data set from where it is published.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use crate::download::{Patience, download};
use crate::layout::{self, DataFile};
use crate::origin::{Holds, Origin, RemoteFile};
use crate::{DataError, Dataset, unpack};

/// What happens while a data set is fetched, for the caller to show.
#[derive(Debug)]
pub enum FetchEvent<'a> {
    /// The file is already there and loads, so it is not fetched.
    Kept {
        /// The file.
        name: &'a str,
    },
    /// More of a file is on disk. Sent once before the first byte, which is
    /// not byte 0 when an earlier fetch is resumed, and after every block.
    Progress {
        /// The file.
        name: &'a str,
        /// Bytes on disk.
        received: u64,
        /// Bytes of the whole file.
        total: u64,
    },
    /// The server is silent, or the next attempt is due soon. Sent every tenth
    /// of a second, for the caller to stop the fetch if it wants to.
    Waiting {
        /// The file.
        name: &'a str,
    },
    /// An attempt failed; another, perhaps at another server, follows.
    Retrying {
        /// The file.
        name: &'a str,
        /// Why the attempt failed.
        reason: &'a DataError,
    },
    /// A file is about to be unpacked from an archive.
    Unpacking {
        /// The file in the archive.
        name: &'a str,
    },
}

/// What the caller does about an event: usually it draws something. Returning
/// [`ControlFlow::Break`] stops the fetch.
pub type OnEvent<'a> = dyn FnMut(FetchEvent<'_>) -> ControlFlow<()> + 'a;

/// How a fetch ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetched {
    /// The data set is complete.
    Complete {
        /// Files downloaded just now.
        downloaded: usize,
        /// Files that were already there.
        kept: usize,
    },
    /// The callback asked to stop. What arrived is kept for the next fetch.
    Stopped,
}

/// Fetches a data set into `data_dir` with the default patience.
///
/// `mirror` is the address of a folder with the same files, to be asked instead
/// of the official places. `progress` is called often. See [`Fetch`] for what
/// is done.
///
/// # Errors
///
/// Those of [`Fetch::run`].
pub fn fetch(
    dataset: Dataset,
    data_dir: &Path,
    mirror: Option<&str>,
    progress: &mut OnEvent<'_>,
) -> Result<Fetched, DataError> {
    let mut source = Origin::official(dataset);
    if let Some(base) = mirror {
        source = source.with_mirror(base);
    }
    Fetch::new(source).run(data_dir, progress)
}

/// A fetch to be run.
///
/// Files that are there and load are left alone, so running it twice does
/// nothing the second time. Every other file is streamed to `NAME.partial`,
/// compared with its published checksum, and only then given its name: a file
/// under its own name is always whole. A `.partial` left by an earlier run is
/// continued with an HTTP range request.
#[derive(Debug, Clone)]
pub struct Fetch {
    source: Origin,
    patience: Patience,
}

impl Fetch {
    /// A fetch from `source`: four attempts per place, the pause between them
    /// growing from one second, and thirty seconds of silence per attempt.
    pub fn new(source: Origin) -> Fetch {
        Fetch {
            source,
            patience: Patience {
                attempts: 4,
                pause: Duration::from_secs(1),
                silence: Duration::from_secs(30),
            },
        }
    }

    /// Sets how many attempts in a row may get no further before a place is
    /// given up (at least one is made), and the pause before the second; the
    /// pause doubles before each further one.
    #[must_use]
    pub fn attempts(mut self, attempts: u32, pause: Duration) -> Fetch {
        self.patience.attempts = attempts;
        self.patience.pause = pause;
        self
    }

    /// Sets how long the server may be silent before an attempt is given up.
    #[must_use]
    pub fn silence(mut self, longest: Duration) -> Fetch {
        self.patience.silence = longest;
        self
    }

    /// Fetches what is missing below `data_dir`, creating folders as needed.
    ///
    /// # Errors
    ///
    /// What the last place asked gave as its reason ([`DataError::Connection`],
    /// [`DataError::Status`], [`DataError::Interrupted`],
    /// [`DataError::WrongSize`], [`DataError::WrongChecksum`]), or
    /// [`DataError::Write`] as soon as the disk fails, or [`DataError::Busy`].
    pub fn run(&self, data_dir: &Path, progress: &mut OnEvent<'_>) -> Result<Fetched, DataError> {
        let (mut downloaded, mut kept) = (0, 0);
        for remote in &self.source.files {
            let step = if self.present(remote, data_dir) {
                kept += 1;
                progress(FetchEvent::Kept { name: remote.name() })
            } else {
                downloaded += 1;
                self.bring(remote, data_dir, progress)?
            };
            if step.is_break() {
                return Ok(Fetched::Stopped);
            }
        }
        Ok(Fetched::Complete { downloaded, kept })
    }

    /// Whether everything that `remote` would give is there already.
    fn present(&self, remote: &RemoteFile, data_dir: &Path) -> bool {
        match remote.holds {
            Holds::File(file) => file.loads(data_dir),
            Holds::Archive => DataFile::all(self.source.dataset).all(|file| file.loads(data_dir)),
        }
    }

    /// Downloads one file and puts it, or what it holds, in place.
    fn bring(
        &self,
        remote: &RemoteFile,
        data_dir: &Path,
        progress: &mut OnEvent<'_>,
    ) -> Result<ControlFlow<()>, DataError> {
        let folder = layout::folder(self.source.dataset, data_dir);
        fs::create_dir_all(&folder).map_err(|source| DataError::Write { path: folder.clone(), source })?;
        let target = folder.join(remote.name());
        let verified = download(&self.source, remote, &target, self.patience, progress)?;
        let Some(mut partial) = verified else {
            return Ok(ControlFlow::Break(()));
        };
        match remote.holds {
            Holds::File(_) => partial.finish(&target)?,
            // An archive is unpacked under its partial name and never gets its
            // own, so a fetch stopped while unpacking is resumed like any other.
            Holds::Archive => {
                if unpack::unpack(&mut partial, self.source.dataset, data_dir, progress)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                partial.delete()?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
