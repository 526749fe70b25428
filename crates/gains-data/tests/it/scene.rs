//! A fetch with everything around it: files, server, directory.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gains_data::{DataError, Dataset, Fetch, Fetched, Images, Origin, Split};
use md5::{Digest, Md5};
use tempfile::TempDir;

use crate::files::{TEST_IMAGES, TEST_LABELS, TRAIN_IMAGES, TRAIN_LABELS, gzip, idx_images, idx_labels};
use crate::server::{Fault, Server};

pub type Files = HashMap<String, Vec<u8>>;

/// MNIST with 300 training images (some 240 kB of noise) and 2 test images.
pub fn mnist_files() -> Files {
    [
        (TRAIN_IMAGES, idx_images(300)),
        (TRAIN_LABELS, idx_labels(300)),
        (TEST_IMAGES, idx_images(2)),
        (TEST_LABELS, idx_labels(2)),
    ]
    .map(|(name, bytes)| (format!("{name}.gz"), gzip(&bytes)))
    .into()
}

/// The official table with the sizes and checksums of `files`.
pub fn source(dataset: Dataset, files: &Files, base: &str) -> Origin {
    let mut source = Origin::official(dataset).with_mirror(base);
    for remote in &mut source.files {
        let bytes = &files[remote.name()];
        remote.bytes = bytes.len() as u64;
        remote.md5 = md5(bytes);
    }
    source
}

/// A checksum as the official tables write it.
pub fn md5(bytes: &[u8]) -> String {
    let digest = Md5::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A fetch in its surroundings.
pub struct Scene {
    pub files: Files,
    pub server: Server,
    pub dir: TempDir,
    pub fetch: Fetch,
}

impl Scene {
    pub fn mnist(faults: Vec<Fault>) -> Scene {
        Scene::new(Dataset::Mnist, mnist_files(), faults)
    }

    pub fn new(dataset: Dataset, files: Files, faults: Vec<Fault>) -> Scene {
        let server = Server::start(files.clone(), faults);
        let fetch = Fetch::new(source(dataset, &files, &server.base())).attempts(3, Duration::from_millis(1));
        Scene { files, server, dir: tempfile::tempdir().unwrap(), fetch }
    }

    pub fn run(&self) -> Result<Fetched, DataError> {
        self.fetch.run(self.dir.path(), &mut |_| ControlFlow::Continue(()))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("mnist").join(name)
    }

    /// The first file fetched, the large one.
    pub fn first(&self) -> (String, &[u8]) {
        let name = format!("{TRAIN_IMAGES}.gz");
        let bytes = &self.files[&name];
        (name, bytes)
    }

    pub fn first_partial(&self) -> PathBuf {
        self.path(&format!("{TRAIN_IMAGES}.gz.partial"))
    }

    /// Asserts that all files are there, equal to the served ones, and alone.
    pub fn assert_complete(&self) {
        for (name, bytes) in &self.files {
            assert_eq!(&fs::read(self.path(name)).unwrap(), bytes, "{name}");
        }
        assert_eq!(names(&self.dir.path().join("mnist")).len(), 4);
        let images = Images::load(Dataset::Mnist, Split::Train, self.dir.path()).unwrap();
        assert_eq!(images.len(), 300);
    }
}

/// What is in a directory.
pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
