//! Where each data set is published, and how its files are recognised.

use crate::Dataset;
use crate::layout::DataFile;

/// The places that serve a data set and the files they serve.
///
/// [`Origin::official`] is the only way to make one. The fields can then be
/// changed, for a private copy with other sizes and checksums, but a source
/// always provides files that [`crate::Images::load`] knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Address of the folder with the files, asked first.
    pub base: String,
    /// Further addresses, asked in this order when the ones before fail.
    pub fallbacks: Vec<String>,
    /// The files in that folder.
    pub files: Vec<RemoteFile>,
    pub(crate) dataset: Dataset,
}

/// One file to download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its size; a server that offers another size is refused at once.
    pub bytes: u64,
    /// Its MD5 checksum in hexadecimal.
    pub md5: String,
    pub(crate) name: &'static str,
    pub(crate) holds: Holds,
}

/// What a downloaded file turns into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// It is a file of the data set.
    File(DataFile),
    /// It is a gzipped tar archive of all files of the data set.
    Archive,
}

/// Name in the data set's folder, size, checksum.
type Row = (&'static str, u64, &'static str);

// MD5 is no defence against a malicious server, and Fashion-MNIST comes over
// plain HTTP. But these are the only checksums that the three projects publish,
// and against damage and mix-ups they suffice. What arrives is treated as
// untrusted input when it is loaded.

const MNIST: [Row; 4] = [
    ("train-images-idx3-ubyte.gz", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    ("train-labels-idx1-ubyte.gz", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
    ("t10k-images-idx3-ubyte.gz", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
    ("t10k-labels-idx1-ubyte.gz", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
];

const FASHION_MNIST: [Row; 4] = [
    ("train-images-idx3-ubyte.gz", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    ("train-labels-idx1-ubyte.gz", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
    ("t10k-images-idx3-ubyte.gz", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
    ("t10k-labels-idx1-ubyte.gz", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
];

const CIFAR10: [Row; 1] = [("cifar-10-binary.tar.gz", 170_052_171, "c32a1d4ab5d03f1284b67883e8d87530")];

impl Origin {
    /// The places where the authors, or those who took over from them, publish
    /// the data set.
    pub fn official(dataset: Dataset) -> Origin {
        let (base, fallbacks, rows): (_, &[&str], &[Row]) = match dataset {
            // The author's own server refuses automatic downloads by now.
            Dataset::Mnist => (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                &["https://storage.googleapis.com/cvdf-datasets/mnist/"],
                &MNIST,
            ),
            Dataset::FashionMnist => {
                ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", &[], &FASHION_MNIST)
            }
            Dataset::Cifar10 => ("https://www.cs.toronto.edu/~kriz/", &[], &CIFAR10),
        };
        let remote = |&(name, bytes, md5): &Row| RemoteFile {
            bytes,
            md5: md5.to_owned(),
            name,
            holds: DataFile::all(dataset).find(|file| file.name == name).map_or(Holds::Archive, Holds::File),
        };
        Origin {
            base: base.to_owned(),
            fallbacks: fallbacks.iter().map(|&place| place.to_owned()).collect(),
            files: rows.iter().map(remote).collect(),
            dataset,
        }
    }

    /// The same files from one other place.
    #[must_use]
    pub fn with_mirror(self, base: &str) -> Origin {
        Origin { base: base.to_owned(), fallbacks: Vec::new(), ..self }
    }

    /// The data set that the files make up.
    pub fn dataset(&self) -> Dataset {
        self.dataset
    }
}

impl RemoteFile {
    /// Its name in the folder.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its address below `base`, with or without a slash at the end.
    pub(crate) fn address(&self, base: &str) -> String {
        format!("{}/{}", base.trim_end_matches('/'), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_loading_needs_is_provided() {
        for dataset in Dataset::ALL {
            let source = Origin::official(dataset);
            let archive = source.files.iter().any(|file| file.holds == Holds::Archive);
            for needed in DataFile::all(dataset) {
                let direct = source.files.iter().any(|file| file.holds == Holds::File(needed));
                assert!(archive || direct, "{dataset}: {}", needed.name);
            }
            assert_eq!(archive, dataset == Dataset::Cifar10);
            assert!(source.files.iter().all(|file| file.md5.len() == 32));
        }
    }

    #[test]
    fn a_mirror_replaces_all_places_and_addresses_join_with_one_slash() {
        let source = Origin::official(Dataset::Mnist);
        assert_eq!(source.fallbacks.len(), 1);
        for base in ["http://mirror/x", "http://mirror/x/"] {
            let source = source.clone().with_mirror(base);
            assert!(source.fallbacks.is_empty());
            assert_eq!(source.files[3].address(&source.base), "http://mirror/x/t10k-labels-idx1-ubyte.gz");
        }
    }
}
