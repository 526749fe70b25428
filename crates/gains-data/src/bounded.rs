//! Reading files of which nothing is known but their path.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file.
///
/// Anything else is refused before it is opened: opening a FIFO waits for whoever writes to it, and what a device
/// gives may never end.
///
/// # Errors
///
/// The system's, or one that says what is there instead of a file.
pub fn open_file(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() {
        return File::open(path);
    }
    let error = if kind.is_dir() { io::ErrorKind::IsADirectory } else { io::ErrorKind::Unsupported };
    Err(io::Error::new(error, format!("it is {}, not a file", describe(kind))))
}

/// The whole content of a regular file that holds at most `most` bytes.
///
/// # Errors
///
/// Those of [`open_file`], and [`io::ErrorKind::FileTooLarge`] with the size.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_file(path)?;
    let size = file.metadata()?.len();
    if size > most {
        let problem = format!("it has {size} bytes, at most {most} are read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    read_bounded(file, most)
}

/// Everything a source gives, if that is at most `most` bytes; one byte more is read to tell.
///
/// # Errors
///
/// The system's, and [`io::ErrorKind::FileTooLarge`].
pub fn read_bounded(source: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let problem = format!("it has more than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(bytes)
}

fn describe(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if kind.is_fifo() {
            return "a FIFO";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    if kind.is_dir() { "a folder" } else { "something else" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"12345").unwrap();
        assert_eq!(read_file(&path, 5).unwrap(), b"12345");
        let error = read_file(&path, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "it has 5 bytes, at most 4 are read");
        let error = read_file(folder.path(), 5).unwrap_err();
        assert_eq!(error.to_string(), "it is a folder, not a file");
        assert!(read_bounded(io::repeat(0), 1000).unwrap_err().to_string().contains("more than 1000"));
    }

    #[cfg(unix)]
    #[test]
    fn what_never_ends_is_not_even_opened() {
        assert_eq!(open_file(Path::new("/dev/zero")).unwrap_err().to_string(), "it is a device, not a file");
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        // Opening it would wait for ever.
        assert_eq!(open_file(&fifo).unwrap_err().to_string(), "it is a FIFO, not a file");
    }
}
