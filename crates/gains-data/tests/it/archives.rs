//! Fetching a data set that comes as an archive.

use std::ops::ControlFlow;

use gains_data::{DataError, Dataset, FetchEvent, Fetched, Images, Split};

use crate::files::{cifar_batch, gzip};
use crate::scene::{Files, Scene, names};

const ARCHIVE: &str = "cifar-10-binary.tar.gz";

/// An archive of the six batches with the given label each, less `leave_out`,
/// and a few entries that must not be unpacked.
fn cifar_files(leave_out: &str) -> Files {
    let mut builder = tar::Builder::new(Vec::new());
    let mut add = |name: &str, bytes: &[u8]| {
        let mut header = tar::Header::new_gnu();
        // Written directly, since the safe way refuses `..`.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, bytes).unwrap();
    };
    let inside = "cifar-10-batches-bin";
    add(&format!("{inside}/readme.html"), b"readme");
    add("../escaped.bin", b"outside");
    add(&format!("{inside}/../../test_batch.bin"), b"outside");
    for (label, name) in [
        "data_batch_1.bin",
        "data_batch_2.bin",
        "data_batch_3.bin",
        "data_batch_4.bin",
        "data_batch_5.bin",
        "test_batch.bin",
    ]
    .into_iter()
    .enumerate()
    .filter(|(_, name)| *name != leave_out)
    {
        add(&format!("{inside}/{name}"), &cifar_batch(&[label as u8; 3]));
    }
    let archive = gzip(&builder.into_inner().unwrap());
    [(ARCHIVE.to_owned(), archive)].into()
}

#[test]
fn an_archive_gives_its_six_files_and_nothing_else() {
    let scene = Scene::new(Dataset::Cifar10, cifar_files(""), vec![]);
    let folder = scene.dir.path().join("cifar10");
    let one = Fetched::Complete { downloaded: 1, kept: 0 };

    // Stopped while unpacking: the archive waits under its partial name.
    let stopped = scene.fetch.run(scene.dir.path(), &mut |event| match event {
        FetchEvent::Unpacking { name: "data_batch_3.bin" } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert_eq!(stopped.unwrap(), Fetched::Stopped);
    assert!(folder.join(format!("{ARCHIVE}.partial")).exists());

    assert_eq!(scene.run().unwrap(), one);
    assert_eq!(scene.server.log(), [ARCHIVE]);
    assert_eq!(names(scene.dir.path()), ["cifar10"]);
    assert_eq!(names(&folder).len(), 6);
    let train = Images::load(Dataset::Cifar10, Split::Train, scene.dir.path()).unwrap();
    let labels: Vec<usize> = (0..5).map(|batch| train.label(3 * batch)).collect();
    assert_eq!(labels, [0, 1, 2, 3, 4]);
    let test = Images::load(Dataset::Cifar10, Split::Test, scene.dir.path()).unwrap();
    assert_eq!((test.len(), test.label(0)), (3, 5));

    let kept = Fetched::Complete { downloaded: 0, kept: 1 };
    assert_eq!(scene.run().unwrap(), kept);
}

#[test]
fn an_archive_without_an_expected_file_is_refused() {
    let scene = Scene::new(Dataset::Cifar10, cifar_files("data_batch_4.bin"), vec![]);
    let error = scene.run().unwrap_err();
    assert!(
        matches!(&error, DataError::MissingMember { member, .. } if member.ends_with("data_batch_4.bin")),
        "{error}"
    );
}
