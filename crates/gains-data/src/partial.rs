//! The unfinished file beside the one being downloaded.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use md5::{Digest, Md5};

use crate::DataError;

/// `NAME.partial`, locked against a second process for as long as it is open.
///
/// It outlives a fetch that breaks off or is stopped, so that the next one can
/// go on from it, and it turns into the file proper by being renamed.
pub(crate) struct Partial {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Partial {
    /// Opens what an earlier fetch left of `target`, or begins anew.
    pub fn open(target: &Path) -> Result<Partial, DataError> {
        let path = partial_name(target);
        let failed = |source| DataError::Write { path: path.clone(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            // Some network file systems have no locks. Then two fetches at once
            // can spoil each other's file, which the checksum shows.
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => return Err(DataError::Busy { path }),
        }
        let length = file.metadata().map_err(failed)?.len();
        Ok(Partial { path, file, length })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes there so far.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Forgets the content.
    pub fn restart(&mut self) -> Result<(), DataError> {
        if self.length == 0 {
            return Ok(());
        }
        self.file.set_len(0).map_err(|e| self.failed(e))?;
        self.length = 0;
        Ok(())
    }

    /// Adds to the end.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.file
            .seek(SeekFrom::Start(self.length))
            .and_then(|_| self.file.write_all(bytes))
            .map_err(|e| self.failed(e))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// The content from the beginning. This is the same handle that holds the
    /// lock: on Windows no other handle could read.
    pub fn content(&mut self) -> Result<&mut File, DataError> {
        self.file.seek(SeekFrom::Start(0)).map_err(|e| self.failed(e))?;
        Ok(&mut self.file)
    }

    /// The MD5 checksum of the content in lowercase hexadecimal.
    pub fn md5(&mut self) -> Result<String, DataError> {
        let path = self.path.clone();
        let unreadable = |source| DataError::Read { path, source };
        let mut hasher = Md5::new();
        hash(self.content()?, &mut hasher).map_err(unreadable)?;
        let digest = hasher.finalize();
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Makes it the finished file. A damaged file of that name is replaced.
    pub fn finish(self, target: &Path) -> Result<(), DataError> {
        self.file
            .sync_all()
            .and_then(|()| fs::rename(&self.path, target))
            .map_err(|source| DataError::Write { path: target.to_owned(), source })
    }

    /// Deletes it.
    pub fn delete(self) -> Result<(), DataError> {
        fs::remove_file(&self.path).map_err(|e| self.failed(e))
    }

    fn failed(&self, source: io::Error) -> DataError {
        DataError::Write { path: self.path.clone(), source }
    }
}

/// The name of the unfinished file for `target`.
pub(crate) fn partial_name(target: &Path) -> PathBuf {
    let mut name = OsString::from(target);
    name.push(".partial");
    PathBuf::from(name)
}

fn hash(input: &mut File, hasher: &mut Md5) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_its_content_and_its_checksum_is_the_published_kind() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("file.gz");
        let mut partial = Partial::open(&target).unwrap();
        partial.append(b"ab").unwrap();
        assert!(matches!(Partial::open(&target), Err(DataError::Busy { .. })));
        drop(partial);

        let mut partial = Partial::open(&target).unwrap();
        assert_eq!(partial.len(), 2);
        partial.append(b"c").unwrap();
        // RFC 1321, appendix A.5: MD5 ("abc").
        assert_eq!(partial.md5().unwrap(), "900150983cd24fb0d6963f7d28e17f72");
        partial.finish(&target).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"abc");
        assert!(!partial_name(&target).exists());
    }
}
