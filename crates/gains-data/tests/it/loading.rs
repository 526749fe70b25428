//! Reading good files and refusing bad ones.

use std::path::Path;

use gains_data::{Damage, DataError, Dataset, Images, Split};
use tempfile::TempDir;

use crate::files::{TEST_IMAGES, TEST_LABELS, cifar_batch, gzip, header, idx_images, idx_labels, put};

/// A data directory with an MNIST test split of the given (uncompressed) files.
fn mnist(images: &[u8], labels: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &format!("mnist/{TEST_IMAGES}"), images);
    put(dir.path(), &format!("mnist/{TEST_LABELS}"), labels);
    dir
}

fn load(dir: &TempDir) -> Result<Images, DataError> {
    Images::load(Dataset::Mnist, Split::Test, dir.path())
}

/// The damage of the file called `name`, after checking what is said about it.
fn damage(outcome: Result<Images, DataError>, name: &str) -> Damage {
    let error = outcome.unwrap_err();
    assert!(error.to_string().contains(name), "{error}");
    assert!(error.hint().contains("delete it and run `gains data fetch"));
    match error {
        DataError::Damaged { damage, .. } => damage,
        other => panic!("not damage: {other}"),
    }
}

fn images_damage(images: &[u8]) -> Damage {
    damage(load(&mnist(images, &idx_labels(3))), TEST_IMAGES)
}

fn labels_damage(labels: &[u8]) -> Damage {
    damage(load(&mnist(&idx_images(3), labels)), TEST_LABELS)
}

#[test]
fn plain_and_gzipped_files_load_alike() {
    let plain = load(&mnist(&idx_images(12), &idx_labels(12))).unwrap();
    assert_eq!((plain.len(), plain.label(11)), (12, 1));
    assert_eq!(plain.planes(11), &idx_images(12)[16 + 11 * 784..]);

    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in [(TEST_IMAGES, idx_images(12)), (TEST_LABELS, idx_labels(12))] {
        put(dir.path(), &format!("mnist/{name}.gz"), &gzip(&bytes));
    }
    assert_eq!(load(&dir).unwrap(), plain);

    // Decompressed on the way but still called `.gz`.
    put(dir.path(), &format!("mnist/{TEST_IMAGES}.gz"), &idx_images(12));
    assert_eq!(load(&dir).unwrap(), plain);
}

#[test]
fn a_missing_file_is_named_with_the_command_that_fetches_it() {
    let dir = tempfile::tempdir().unwrap();
    for dataset in Dataset::ALL {
        let error = Images::load(dataset, Split::Train, dir.path()).unwrap_err();
        assert!(matches!(error, DataError::Missing { .. }), "{error}");
        let command = format!("run `gains data fetch {dataset}`");
        assert!(error.hint().contains(&command));
    }
    // One of the two files is not enough.
    put(dir.path(), &format!("mnist/{TEST_IMAGES}"), &idx_images(1));
    assert!(load(&dir).unwrap_err().to_string().contains(TEST_LABELS));
}

#[test]
fn a_folder_in_place_of_a_file_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("mnist").join(TEST_IMAGES)).unwrap();
    assert!(matches!(load(&dir), Err(DataError::Read { .. })));
}

#[test]
fn another_format_is_recognised_by_its_magic_number() {
    let swapped = images_damage(&idx_labels(3));
    assert_eq!(swapped.to_string(), "it begins with 0x00000801 instead of 0x00000803");
    assert!(matches!(labels_damage(b"<html>"), Damage::Magic { expected: 0x801, .. }));
}

#[test]
fn images_of_another_size_are_refused() {
    let mut file = header(&[0x803, 1, 32, 28]);
    file.extend([0; 32 * 28]);
    assert!(matches!(images_damage(&file), Damage::ImageSize { expected: [28, 28], found: [32, 28] }));
}

#[test]
fn absurd_headers_are_refused_before_allocating() {
    assert!(matches!(
        images_damage(&header(&[0x803, u32::MAX, u32::MAX, u32::MAX])),
        Damage::TooManyItems { most: 10_000, found: u32::MAX }
    ));
    assert!(matches!(labels_damage(&header(&[0x801, 10_001])), Damage::TooManyItems { found: 10_001, .. }));
}

#[test]
fn truncated_files_say_how_much_is_there() {
    let whole = idx_images(3);
    let ends_at = |length: usize| match images_damage(&whole[..length]) {
        Damage::Truncated { expected, found } => (expected, found),
        other => panic!("not truncated: {other}"),
    };
    assert_eq!(ends_at(whole.len() - 1), (whole.len(), whole.len() - 1));
    assert_eq!(ends_at(16), (whole.len(), 16));
    assert_eq!(ends_at(14), (16, 14));
    assert_eq!(ends_at(0), (4, 0));
    assert!(matches!(labels_damage(&idx_labels(3)[..10]), Damage::Truncated { expected: 11, found: 10 }));
}

#[test]
fn a_gzip_stream_cut_anywhere_is_damaged() {
    let whole = gzip(&idx_images(3));
    for length in [3, 12, 100, whole.len() / 2, whole.len() - 1] {
        assert!(matches!(images_damage(&whole[..length]), Damage::Truncated { .. }), "cut at {length}");
    }
}

#[test]
fn a_gzip_stream_with_a_changed_byte_is_damaged() {
    let whole = gzip(&idx_images(3));
    for position in [whole.len() - 6, whole.len() / 2] {
        let mut changed = whole.clone();
        changed[position] ^= 0x10;
        // Caught by the checksum at the end at the latest.
        let caught = images_damage(&changed);
        assert!(
            matches!(caught, Damage::Gzip(_) | Damage::TrailingBytes { .. } | Damage::Truncated { .. }),
            "{caught}"
        );
    }
}

#[test]
fn bytes_after_the_end_are_refused() {
    let mut plain = idx_images(3);
    let expected_length = plain.len();
    plain.push(0);
    for file in [plain.clone(), gzip(&plain)] {
        match images_damage(&file) {
            Damage::TrailingBytes { expected } => assert_eq!(expected, expected_length),
            other => panic!("not trailing: {other}"),
        }
    }
    let mut after_gzip = gzip(&idx_images(3));
    after_gzip.extend(b"garbage after the stream");
    assert!(matches!(images_damage(&after_gzip), Damage::Gzip(_)));
}

#[test]
fn a_gzip_bomb_is_cut_off() {
    let mut bomb = idx_images(1);
    bomb.resize(1 << 26, 0);
    assert!(matches!(images_damage(&gzip(&bomb)), Damage::TrailingBytes { expected: 800 }));
}

#[test]
fn a_label_without_class_is_refused() {
    let mut file = idx_labels(3);
    file[8 + 2] = 10;
    assert!(matches!(labels_damage(&file), Damage::Label { index: 2, label: 10, classes: 10 }));
}

#[test]
fn images_and_labels_must_be_as_many() {
    let error = load(&mnist(&idx_images(3), &idx_labels(4))).unwrap_err();
    assert!(matches!(error, DataError::CountMismatch { images: 3, labels: 4, .. }));
    assert!(error.hint().contains("delete both"));
}

/// A CIFAR-10 test split of one file.
fn cifar(bytes: &[u8]) -> Result<Images, DataError> {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "cifar10/test_batch.bin", bytes);
    Images::load(Dataset::Cifar10, Split::Test, dir.path())
}

#[test]
fn cifar_batches_are_joined_in_order() {
    let dir = tempfile::tempdir().unwrap();
    for batch in 1..=5_u8 {
        // Some unpacked by hand, some where fetching puts them.
        let folder = if batch % 2 == 0 { "cifar10/cifar-10-batches-bin" } else { "cifar10" };
        put(dir.path(), &format!("{folder}/data_batch_{batch}.bin"), &cifar_batch(&[batch, 9]));
    }
    let load = |path: &Path| Images::load(Dataset::Cifar10, Split::Train, path);
    let images = load(dir.path()).unwrap();
    let labels: Vec<usize> = (0..images.len()).map(|index| images.label(index)).collect();
    assert_eq!(labels, [1, 9, 2, 9, 3, 9, 4, 9, 5, 9]);
    assert_eq!(images.class_name(9), Some("truck"));
    // Red, green and blue of each pixel side by side.
    let expected = [2.0_f32, 52.0, 102.0].map(|byte| f64::from(byte / 255.0));
    for pixel in images.image(2).chunks(3) {
        assert_eq!(pixel, expected);
    }

    std::fs::remove_file(dir.path().join("cifar10/data_batch_3.bin")).unwrap();
    let error = load(dir.path()).unwrap_err();
    assert!(error.to_string().contains("data_batch_3.bin"), "{error}");
}

#[test]
fn damaged_cifar_batches_are_refused() {
    let refused = |bytes: &[u8]| damage(cifar(bytes), "test_batch.bin");
    let two = cifar_batch(&[1, 2]);
    assert!(matches!(refused(&two[..6145]), Damage::Truncated { expected: 6146, found: 6145 }));
    assert!(matches!(refused(b""), Damage::Truncated { expected: 3073, found: 0 }));
    assert!(matches!(refused(&cifar_batch(&[1, 99])), Damage::Label { index: 1, label: 99, .. }));
    let mut long = cifar_batch(&[0; 10_000]);
    assert_eq!(cifar(&long).unwrap().len(), 10_000);
    long.push(0);
    assert!(matches!(refused(&long), Damage::TrailingBytes { expected: 30_730_000 }));
}
