//! Files and folders that one process has for itself.

use std::fmt;
use std::fs::{File, TryLockError};

/// Another process has it.
#[derive(Debug)]
pub struct Taken {
    by: Option<u32>,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another run")?;
        self.by.map_or(Ok(()), |process| write!(f, " (process {process})"))
    }
}

/// Makes a file ours for as long as it is open. Where the file system has no locks, we go without.
pub fn take(file: &File) -> Result<(), Taken> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Taken { by: holder(file) }),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// The process that holds the lock, where the system tells.
#[cfg(target_os = "linux")]
fn holder(file: &File) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let inode = format!(":{}", file.metadata().ok()?.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 4711 fd:01:131074 0 EOF
    let fields = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    let held = |fields: &Vec<String>| fields.get(5).is_some_and(|place| place.ends_with(&inode));
    locks.lines().map(fields).find(held)?.get(4)?.parse().ok()
}

#[cfg(not(target_os = "linux"))]
fn holder(_file: &File) -> Option<u32> {
    None
}
