//! The IDX format of MNIST and Fashion-MNIST, plain or gzipped.
//!
//! A file is a magic number, one length per dimension, and then the bytes, row
//! by row, all numbers big-endian 32-bit. The magic number is `0x0000_08DD`:
//! 8 stands for unsigned bytes, `DD` is the number of dimensions.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::DataError;
use crate::bounded::open_file;
use crate::error::Damage;
use crate::layout::DataFile;

const IMAGES_MAGIC: u32 = 0x0000_0803;
const LABELS_MAGIC: u32 = 0x0000_0801;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The pixels of an image file, one image after the other.
pub(crate) fn read_images(path: &Path, file: &DataFile) -> Result<Vec<u8>, DataError> {
    parse_images(open(path)?, path, file)
}

/// The labels of a label file, each less than the number of classes.
pub(crate) fn read_labels(path: &Path, file: &DataFile) -> Result<Vec<u8>, DataError> {
    parse_labels(open(path)?, path, file)
}

/// [`read_images`] from any reader; `path` is for error messages.
pub(crate) fn parse_images(input: impl BufRead, path: &Path, file: &DataFile) -> Result<Vec<u8>, DataError> {
    let mut input = Input::new(input, path, file)?;
    input.magic(IMAGES_MAGIC)?;
    let count = input.count()?;
    let found = [input.word()?, input.word()?];
    let shape = file.dataset.shape();
    let expected = [shape.height, shape.width];
    if found.map(u64::from) != expected.map(|length| length as u64) {
        return Err(input.damaged(Damage::ImageSize { expected, found }));
    }
    input.rest(count * shape.len())
}

/// [`read_labels`] from any reader; `path` is for error messages.
pub(crate) fn parse_labels(input: impl BufRead, path: &Path, file: &DataFile) -> Result<Vec<u8>, DataError> {
    let mut input = Input::new(input, path, file)?;
    input.magic(LABELS_MAGIC)?;
    let count = input.count()?;
    let labels = input.rest(count)?;
    let classes = file.dataset.classes();
    match labels.iter().position(|&label| usize::from(label) >= classes) {
        None => Ok(labels),
        Some(index) => Err(input.damaged(Damage::Label { index, label: labels[index], classes })),
    }
}

fn open(path: &Path) -> Result<BufReader<File>, DataError> {
    open_file(path).map(BufReader::new).map_err(|source| DataError::Read { path: path.to_owned(), source })
}

/// A decompressed stream that knows how far it has been read.
struct Input<'a> {
    bytes: Box<dyn Read + 'a>,
    position: usize,
    path: &'a Path,
    file: &'a DataFile,
}

impl<'a> Input<'a> {
    /// Whether to decompress is decided by the first bytes, not by the name:
    /// some browsers and servers decompress without renaming. No IDX file
    /// begins like a gzip file.
    fn new(mut raw: impl BufRead + 'a, path: &'a Path, file: &'a DataFile) -> Result<Self, DataError> {
        let start = raw.fill_buf().map_err(|source| DataError::Read { path: path.to_owned(), source })?;
        // The multi-member decoder also complains about bytes after the end.
        let bytes: Box<dyn Read + 'a> =
            if start.starts_with(&GZIP_MAGIC) { Box::new(MultiGzDecoder::new(raw)) } else { Box::new(raw) };
        Ok(Input { bytes, position: 0, path, file })
    }

    fn magic(&mut self, expected: u32) -> Result<(), DataError> {
        let found = self.word()?;
        if found == expected { Ok(()) } else { Err(self.damaged(Damage::Magic { expected, found })) }
    }

    /// The length of the first dimension. Refusing more than the official file
    /// has is what bounds the memory that a forged header can ask for.
    fn count(&mut self) -> Result<usize, DataError> {
        let found = self.word()?;
        let most = self.file.most_items;
        usize::try_from(found)
            .ok()
            .filter(|&count| count <= most)
            .ok_or_else(|| self.damaged(Damage::TooManyItems { most, found }))
    }

    fn word(&mut self) -> Result<u32, DataError> {
        let bytes = self.take(4)?;
        Ok(bytes.into_iter().fold(0, |word, byte| word << 8 | u32::from(byte)))
    }

    /// The next `length` bytes, which must be the last ones.
    fn rest(&mut self, length: usize) -> Result<Vec<u8>, DataError> {
        let bytes = self.take(length)?;
        // Asking for one byte more also makes the decoder compare its checksum.
        match self.read_up_to(1) {
            (extra, _) if !extra.is_empty() => {
                Err(self.damaged(Damage::TrailingBytes { expected: self.position }))
            }
            (_, Err(source)) => Err(self.failed(source, self.position)),
            (_, Ok(())) => Ok(bytes),
        }
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>, DataError> {
        let expected = self.position + length;
        let (bytes, outcome) = self.read_up_to(length);
        self.position += bytes.len();
        match outcome {
            Err(source) => Err(self.failed(source, expected)),
            Ok(()) if bytes.len() < length => {
                Err(self.damaged(Damage::Truncated { expected, found: self.position }))
            }
            Ok(()) => Ok(bytes),
        }
    }

    /// Reads until `length` bytes, the end, or an error, whatever comes first.
    fn read_up_to(&mut self, length: usize) -> (Vec<u8>, io::Result<()>) {
        let mut bytes = Vec::with_capacity(length);
        let limited = &mut self.bytes.as_mut().take(length as u64);
        let outcome = limited.read_to_end(&mut bytes).map(drop);
        (bytes, outcome)
    }

    /// The gzip decoder reports damage through I/O error kinds that reading a
    /// file does not produce.
    fn failed(&self, source: io::Error, expected: usize) -> DataError {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.damaged(Damage::Truncated { expected, found: self.position })
            }
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => self.damaged(Damage::Gzip(source)),
            _ => DataError::Read { path: self.path.to_owned(), source },
        }
    }

    fn damaged(&self, damage: Damage) -> DataError {
        DataError::Damaged { dataset: self.file.dataset, path: self.path.to_owned(), damage }
    }
}
