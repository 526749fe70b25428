//! The images of one split, in memory.

use std::path::Path;

use crate::layout::{Content, DataFile};
use crate::{DataError, Dataset, Split, cifar, idx};

const BUNDLED_IMAGES: &[u8] = include_bytes!("../assets/fashion-mnist-100-images-idx3-ubyte.gz");
const BUNDLED_LABELS: &[u8] = include_bytes!("../assets/fashion-mnist-100-labels-idx1-ubyte.gz");

/// Images with their labels.
///
/// The pixels stay as the bytes of the files, channel plane by channel plane;
/// [`Images::image`] turns one image at a time into what a network takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    dataset: Dataset,
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Images {
    /// Reads one split from the data directory (see [`crate::locate`]).
    ///
    /// Everything is read into memory: at most 60,000 images, 147 MiB for the
    /// largest split.
    ///
    /// # Errors
    ///
    /// [`DataError::Missing`] if a file is not there, [`DataError::Read`] if it
    /// cannot be read, [`DataError::Damaged`] if its content is not what its
    /// name says, [`DataError::CountMismatch`] if images and labels do not
    /// belong together.
    pub fn load(dataset: Dataset, split: Split, data_dir: &Path) -> Result<Images, DataError> {
        let mut images = Images { dataset, pixels: Vec::new(), labels: Vec::new() };
        let mut sources = Vec::new();
        for file in DataFile::of_split(dataset, split) {
            let path = file.find(data_dir)?;
            match file.content {
                Content::Images => images.pixels = idx::read_images(&path, &file)?,
                Content::Labels => images.labels = idx::read_labels(&path, &file)?,
                Content::Batch => {
                    cifar::read_batch(&path, &file, &mut images.pixels, &mut images.labels)?;
                }
            }
            sources.push(path);
        }
        let (count, labels) = (images.pixels.len() / dataset.shape().len(), images.labels.len());
        // Only the two-file layout can disagree with itself; a CIFAR batch
        // holds each label beside its pixels.
        if let [images_path, labels_path] = sources.as_slice()
            && count != labels
        {
            return Err(DataError::CountMismatch {
                dataset,
                images_path: images_path.clone(),
                images: count,
                labels_path: labels_path.clone(),
                labels,
            });
        }
        Ok(images)
    }

    /// The first 100 images of the Fashion-MNIST test split, which are part of
    /// the program: enough to try everything without fetching anything.
    pub fn bundled() -> Images {
        let dataset = Dataset::FashionMnist;
        let path = Path::new("the bundled sample");
        let file = |content| DataFile { dataset, name: "", content, most_items: 100 };
        // The input is a constant of this crate and every test run reads it,
        // so these cannot fail in a program that was ever tested.
        Images {
            dataset,
            pixels: idx::parse_images(BUNDLED_IMAGES, path, &file(Content::Images))
                .expect("the bundled images are well formed"),
            labels: idx::parse_labels(BUNDLED_LABELS, path, &file(Content::Labels))
                .expect("the bundled labels are well formed"),
        }
    }

    /// The data set the images come from.
    pub fn dataset(&self) -> Dataset {
        self.dataset
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Colour channels per image.
    pub fn channels(&self) -> usize {
        self.dataset.channels()
    }

    /// Rows per image.
    pub fn height(&self) -> usize {
        self.dataset.height()
    }

    /// Columns per image.
    pub fn width(&self) -> usize {
        self.dataset.width()
    }

    /// Number of classes; every label is less.
    pub fn classes(&self) -> usize {
        self.dataset.classes()
    }

    /// What a label stands for, or `None` if no class has it.
    pub fn class_name(&self, label: usize) -> Option<&'static str> {
        self.dataset.class_name(label)
    }

    /// The true class of image `index`.
    ///
    /// # Panics
    ///
    /// If `index` is not less than [`Images::len`], as indexing a slice does.
    pub fn label(&self, index: usize) -> usize {
        usize::from(self.labels[index])
    }

    /// The bytes of image `index` as they are in the files.
    ///
    /// # Shapes
    ///
    /// `channels × height × width`: one whole plane per channel.
    ///
    /// # Panics
    ///
    /// If `index` is not less than [`Images::len`], as indexing a slice does.
    pub fn planes(&self, index: usize) -> &[u8] {
        let length = self.dataset.shape().len();
        &self.pixels[index * length..][..length]
    }

    /// Image `index` as numbers between 0 and 1.
    ///
    /// Each byte is divided by 255 in *single* precision and the quotient then
    /// widened. That is the number that networks trained in single precision
    /// saw, to the last bit, so the point that is verified is the point that is
    /// classified.
    ///
    /// # Shapes
    ///
    /// `height × width × channels`: the channels of a pixel lie side by side.
    ///
    /// # Panics
    ///
    /// If `index` is not less than [`Images::len`], as indexing a slice does.
    pub fn image(&self, index: usize) -> Vec<f64> {
        let planes = self.planes(index);
        let plane = self.height() * self.width();
        (0..plane)
            .flat_map(|pixel| planes.iter().skip(pixel).step_by(plane))
            .map(|&byte| f64::from(f32::from(byte) / 255.0_f32))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_come_last_and_division_is_in_single_precision() {
        let plane = 32 * 32;
        let images = Images {
            dataset: Dataset::Cifar10,
            pixels: (0..3 * plane).map(|i| (i % 251) as u8).collect(),
            labels: vec![0],
        };
        let image = images.image(0);
        assert_eq!(image.len(), 3 * plane);
        for (row, column, channel) in [(0, 0, 0), (0, 1, 2), (31, 31, 1), (7, 20, 2)] {
            let byte = ((channel * plane + row * 32 + column) % 251) as u8;
            let expected = f64::from(byte as f32 / 255.0_f32);
            assert_eq!(image[(row * 32 + column) * 3 + channel], expected);
        }
        // 1/255 differs between single and double precision.
        assert_ne!(image[3], 1.0 / 255.0);
    }

    #[test]
    fn the_bundled_sample_is_the_beginning_of_the_test_split() {
        let sample = Images::bundled();
        assert_eq!((sample.len(), sample.is_empty()), (100, false));
        assert_eq!((sample.channels(), sample.height(), sample.width()), (1, 28, 28));
        // The labels of the first ten images of the official test split.
        let first: Vec<usize> = (0..10).map(|i| sample.label(i)).collect();
        assert_eq!(first, [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]);
        for class in 0..sample.classes() {
            assert!((0..100).any(|i| sample.label(i) == class), "class {class}");
        }
        for index in 0..sample.len() {
            let image = sample.image(index);
            assert!(image.iter().all(|value| (0.0..=1.0).contains(value)));
            // A picture on black: some pixels are quite dark, some are lit.
            let black = image.iter().filter(|value| **value == 0.0).count();
            let brightest = image.iter().copied().fold(0.0, f64::max);
            assert!(black > 100 && brightest > 0.5, "image {index}");
        }
    }
}
