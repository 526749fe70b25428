//! Small files in the formats of the data sets, written from their published
//! descriptions rather than with the code under test.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

pub const TRAIN_IMAGES: &str = "train-images-idx3-ubyte";
pub const TRAIN_LABELS: &str = "train-labels-idx1-ubyte";
pub const TEST_IMAGES: &str = "t10k-images-idx3-ubyte";
pub const TEST_LABELS: &str = "t10k-labels-idx1-ubyte";

/// An IDX header: magic number and dimensions.
pub fn header(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// An image file with bytes that do not compress, so that sizes stay large.
pub fn idx_images(count: u32) -> Vec<u8> {
    let mut file = header(&[0x803, count, 28, 28]);
    file.extend(noise(count as usize * 28 * 28));
    file
}

/// A label file with labels 0, 1, …, 9, 0, 1, ….
pub fn idx_labels(count: u32) -> Vec<u8> {
    let mut file = header(&[0x801, count]);
    file.extend((0..count).map(|index| (index % 10) as u8));
    file
}

/// CIFAR records with the given labels; the pixels of plane `c` are `50 c + label`.
pub fn cifar_batch(labels: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for &label in labels {
        file.push(label);
        for plane in 0..3 {
            file.extend([50 * plane + label; 32 * 32]);
        }
    }
    file
}

/// The bytes, gzipped.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Writes a file, creating the folders above it.
pub fn put(dir: &Path, name: &str, bytes: &[u8]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Bytes of a linear congruential generator (the constants are Knuth's).
fn noise(length: usize) -> impl Iterator<Item = u8> {
    let mut state = 1_u64;
    (0..length).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
}
