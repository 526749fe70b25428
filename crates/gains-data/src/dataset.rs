//! The known data sets and what is fixed about each of them.

use std::fmt;
use std::str::FromStr;

use crate::DataError;

/// An image classification data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dataset {
    /// Handwritten digits, 28 × 28 grey.
    Mnist,
    /// Articles of clothing, 28 × 28 grey, a drop-in replacement for MNIST.
    FashionMnist,
    /// Small photographs, 32 × 32 in colour.
    Cifar10,
}

/// Which part of a data set: the one trained on or the one tested on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// The training images.
    Train,
    /// The test images.
    Test,
}

/// Channels, height and width of every image of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
}

impl Shape {
    /// Values (and bytes in the files) per image.
    pub const fn len(self) -> usize {
        self.channels * self.height * self.width
    }
}

/// The facts of one data set; adding a set starts with a row here.
struct Facts {
    name: &'static str,
    shape: Shape,
    train_images: usize,
    test_images: usize,
    classes: [&'static str; 10],
}

const GREY_28: Shape = Shape { channels: 1, height: 28, width: 28 };

const MNIST: Facts = Facts {
    name: "mnist",
    shape: GREY_28,
    train_images: 60_000,
    test_images: 10_000,
    classes: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
};

const FASHION_MNIST: Facts = Facts {
    name: "fashion-mnist",
    shape: GREY_28,
    train_images: 60_000,
    test_images: 10_000,
    classes: [
        "t-shirt/top",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ],
};

const CIFAR10: Facts = Facts {
    name: "cifar10",
    shape: Shape { channels: 3, height: 32, width: 32 },
    train_images: 50_000,
    test_images: 10_000,
    classes: ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
};

impl Dataset {
    /// Every known data set, in the order they are listed to the user.
    pub const ALL: [Dataset; 3] = [Dataset::Mnist, Dataset::FashionMnist, Dataset::Cifar10];

    const fn facts(self) -> &'static Facts {
        match self {
            Dataset::Mnist => &MNIST,
            Dataset::FashionMnist => &FASHION_MNIST,
            Dataset::Cifar10 => &CIFAR10,
        }
    }

    /// The name used on the command line and as the folder below the data directory.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Colour channels per image: 1 for grey, 3 for red, green and blue.
    pub const fn channels(self) -> usize {
        self.facts().shape.channels
    }

    /// Rows per image.
    pub const fn height(self) -> usize {
        self.facts().shape.height
    }

    /// Columns per image.
    pub const fn width(self) -> usize {
        self.facts().shape.width
    }

    /// Number of classes; labels are `0..classes()`.
    pub const fn classes(self) -> usize {
        self.facts().classes.len()
    }

    /// What a label stands for, or `None` for a label the data set does not have.
    pub fn class_name(self, label: usize) -> Option<&'static str> {
        self.facts().classes.get(label).copied()
    }

    /// Number of images in the official split.
    pub const fn official_len(self, split: Split) -> usize {
        match split {
            Split::Train => self.facts().train_images,
            Split::Test => self.facts().test_images,
        }
    }

    pub(crate) const fn shape(self) -> Shape {
        self.facts().shape
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dataset {
    type Err = DataError;

    fn from_str(name: &str) -> Result<Self, DataError> {
        Dataset::ALL
            .into_iter()
            .find(|dataset| dataset.name() == name)
            .ok_or_else(|| DataError::UnknownDataset { name: name.to_owned() })
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Split::Train => "train",
            Split::Test => "test",
        })
    }
}

impl FromStr for Split {
    type Err = DataError;

    fn from_str(name: &str) -> Result<Self, DataError> {
        match name {
            "train" => Ok(Split::Train),
            "test" => Ok(Split::Test),
            _ => Err(DataError::UnknownSplit { name: name.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for dataset in Dataset::ALL {
            assert_eq!(dataset.to_string().parse::<Dataset>().unwrap(), dataset);
        }
        for split in [Split::Train, Split::Test] {
            assert_eq!(split.to_string().parse::<Split>().unwrap(), split);
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones_in_the_hint() {
        let error = "MNIST".parse::<Dataset>().unwrap_err();
        assert_eq!(error.to_string(), "no data set is called `MNIST`");
        assert!(error.hint().contains("mnist, fashion-mnist, cifar10"));
        assert!("validation".parse::<Split>().is_err());
    }

    #[test]
    fn class_names_end_with_the_last_class() {
        for dataset in Dataset::ALL {
            assert!(dataset.class_name(dataset.classes() - 1).is_some());
            assert_eq!(dataset.class_name(dataset.classes()), None);
        }
    }
}
