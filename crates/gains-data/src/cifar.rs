//! The binary version of CIFAR-10.
//!
//! A batch file has no header. It is a sequence of records of 3073 bytes: the
//! label, then the red, the green and the blue plane, each row by row.

use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::DataError;
use crate::bounded::open_file;
use crate::error::Damage;
use crate::layout::DataFile;

/// Appends the images and labels of one batch file.
///
/// An empty file counts as truncated: with no header to say that there are no
/// images, it is far more likely a download that never began. On an error the
/// two vectors hold the records before it.
pub(crate) fn read_batch(
    path: &Path,
    file: &DataFile,
    pixels: &mut Vec<u8>,
    labels: &mut Vec<u8>,
) -> Result<(), DataError> {
    let unreadable = |source| DataError::Read { path: path.to_owned(), source };
    let damaged = |damage| DataError::Damaged { dataset: file.dataset, path: path.to_owned(), damage };
    let classes = file.dataset.classes();
    let mut input = BufReader::new(open_file(path).map_err(unreadable)?);
    let mut record = vec![0; 1 + file.dataset.shape().len()];
    for index in 0.. {
        let start = index * record.len();
        let found = fill(&mut input, &mut record).map_err(unreadable)?;
        if found == 0 && index > 0 {
            break;
        }
        if index == file.most_items {
            return Err(damaged(Damage::TrailingBytes { expected: start }));
        }
        if found < record.len() {
            return Err(damaged(Damage::Truncated { expected: start + record.len(), found: start + found }));
        }
        let (label, planes) = (record[0], &record[1..]);
        if usize::from(label) >= classes {
            return Err(damaged(Damage::Label { index, label, classes }));
        }
        labels.push(label);
        pixels.extend_from_slice(planes);
    }
    Ok(())
}

/// Fills `buffer` unless the input ends first; returns how much was read.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
