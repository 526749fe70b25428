//! Which files make up a data set, what they are called and where they may lie.

use std::path::{Path, PathBuf};

use crate::{DataError, Dataset, Split, cifar, idx};

/// The folder inside the CIFAR-10 archive. Unpacking the archive by hand leaves
/// it in place, so files are looked for there too.
pub(crate) const CIFAR_FOLDER: &str = "cifar-10-batches-bin";

/// What one file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// An IDX file of pixels.
    Images,
    /// An IDX file of labels.
    Labels,
    /// CIFAR records: each a label and its pixels.
    Batch,
}

/// One file of a data set, under the name it is published with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataFile {
    pub dataset: Dataset,
    /// With `.gz` where it is published compressed.
    pub name: &'static str,
    pub content: Content,
    /// The number of images in the official file, which no file may exceed.
    pub most_items: usize,
}

const IDX_FILES: [(Split, Content, &str); 4] = [
    (Split::Train, Content::Images, "train-images-idx3-ubyte.gz"),
    (Split::Train, Content::Labels, "train-labels-idx1-ubyte.gz"),
    (Split::Test, Content::Images, "t10k-images-idx3-ubyte.gz"),
    (Split::Test, Content::Labels, "t10k-labels-idx1-ubyte.gz"),
];

const CIFAR_FILES: [(Split, Content, &str); 6] = [
    (Split::Train, Content::Batch, "data_batch_1.bin"),
    (Split::Train, Content::Batch, "data_batch_2.bin"),
    (Split::Train, Content::Batch, "data_batch_3.bin"),
    (Split::Train, Content::Batch, "data_batch_4.bin"),
    (Split::Train, Content::Batch, "data_batch_5.bin"),
    (Split::Test, Content::Batch, "test_batch.bin"),
];

/// Images in each CIFAR-10 batch file, training and test alike.
const CIFAR_BATCH: usize = 10_000;

impl DataFile {
    /// The files of one split, in reading order.
    pub fn of_split(dataset: Dataset, split: Split) -> impl Iterator<Item = DataFile> {
        let table: &[_] = match dataset {
            Dataset::Mnist | Dataset::FashionMnist => &IDX_FILES,
            Dataset::Cifar10 => &CIFAR_FILES,
        };
        table.iter().filter(move |(of, ..)| *of == split).map(move |&(_, content, name)| DataFile {
            dataset,
            name,
            content,
            most_items: match content {
                Content::Images | Content::Labels => dataset.official_len(split),
                Content::Batch => CIFAR_BATCH,
            },
        })
    }

    /// The files of both splits.
    pub fn all(dataset: Dataset) -> impl Iterator<Item = DataFile> {
        Self::of_split(dataset, Split::Train).chain(Self::of_split(dataset, Split::Test))
    }

    /// Where [`crate::fetch`] puts the file.
    pub fn path(&self, data_dir: &Path) -> PathBuf {
        folder(self.dataset, data_dir).join(self.name)
    }

    /// The file as it lies below `data_dir`.
    ///
    /// The place that fetching writes to is looked at first, so that fetching
    /// a set always repairs what loading complains about.
    pub fn find(&self, data_dir: &Path) -> Result<PathBuf, DataError> {
        let fetched = self.path(data_dir);
        let other = match self.name.strip_suffix(".gz") {
            Some(uncompressed) => fetched.with_file_name(uncompressed),
            None => fetched.with_file_name(CIFAR_FOLDER).join(self.name),
        };
        for path in [&fetched, &other] {
            let exists =
                path.try_exists().map_err(|source| DataError::Read { path: path.clone(), source })?;
            if exists {
                return Ok(path.clone());
            }
        }
        Err(DataError::Missing { dataset: self.dataset, path: fetched })
    }

    /// Whether the file is there and reads without complaint.
    pub fn loads(&self, data_dir: &Path) -> bool {
        let read = || -> Result<(), DataError> {
            let path = self.find(data_dir)?;
            match self.content {
                Content::Images => idx::read_images(&path, self).map(drop),
                Content::Labels => idx::read_labels(&path, self).map(drop),
                Content::Batch => cifar::read_batch(&path, self, &mut vec![], &mut vec![]),
            }
        };
        read().is_ok()
    }
}

/// The folder of a data set.
pub(crate) fn folder(dataset: Dataset, data_dir: &Path) -> PathBuf {
    data_dir.join(dataset.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_split_hold_the_official_number_of_images() {
        for dataset in Dataset::ALL {
            for split in [Split::Train, Split::Test] {
                let images: usize = DataFile::of_split(dataset, split)
                    .filter(|file| file.content != Content::Labels)
                    .map(|file| file.most_items)
                    .sum();
                assert_eq!(images, dataset.official_len(split), "{dataset} {split}");
            }
        }
    }
}
