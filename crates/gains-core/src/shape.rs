//! Shapes of the tensors that flow between layers.

use serde::{Deserialize, Serialize};

/// Height × width × channels; a flat vector is a 1×1 image with as many channels as features.
///
/// Every tensor in memory is *channels last*: entry `(row, column, channel)` lies at
/// `(row * width + column) * channels + channel`. A convolution then touches contiguous runs of
/// channels, and a linear layer is a convolution of a 1×1 image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Channels, or features of a flat vector.
    pub channels: usize,
}

impl Shape {
    /// An image.
    pub const fn image(height: usize, width: usize, channels: usize) -> Self {
        Self { height, width, channels }
    }

    /// A vector of `features` entries.
    pub const fn flat(features: usize) -> Self {
        Self::image(1, 1, features)
    }

    /// Number of entries.
    pub const fn len(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// True if there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of pixels.
    pub const fn positions(&self) -> usize {
        self.height * self.width
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not `positions() == 1`: the product may overflow in a description that is about to be refused.
        if (self.height, self.width) == (1, 1) {
            write!(f, "{}", self.channels)
        } else {
            write!(f, "{}x{}x{}", self.channels, self.height, self.width)
        }
    }
}

/// A rectangle of pixels, with all their channels, inside an image of shape `image`.
///
/// Rows of linear bounds live on windows: a row that bounds one pixel of a convolution's output
/// only sees that pixel's receptive field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The image the window is cut from.
    pub image: Shape,
    /// First row.
    pub top: usize,
    /// First column.
    pub left: usize,
    /// Number of rows.
    pub height: usize,
    /// Number of columns.
    pub width: usize,
}

impl Window {
    /// The whole image.
    pub const fn full(image: Shape) -> Self {
        Self { image, top: 0, left: 0, height: image.height, width: image.width }
    }

    /// One pixel.
    pub const fn pixel(image: Shape, row: usize, column: usize) -> Self {
        Self { image, top: row, left: column, height: 1, width: 1 }
    }

    /// Number of entries, channels included.
    pub const fn len(&self) -> usize {
        self.height * self.width * self.image.channels
    }

    /// True if there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the window is the whole image.
    pub fn is_full(&self) -> bool {
        *self == Self::full(self.image)
    }

    /// The runs of consecutive entries of the image that make up the window, one per row of pixels.
    pub fn runs(&self) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let w = *self;
        let run = w.width * w.image.channels;
        (0..w.height).map(move |row| {
            let start = ((w.top + row) * w.image.width + w.left) * w.image.channels;
            start..start + run
        })
    }

    /// The entries of `whole` (a tensor of the image's shape) inside the window.
    pub fn cut<T: Copy>(&self, whole: &[T]) -> Vec<T> {
        let mut part = Vec::with_capacity(self.len());
        for run in self.runs() {
            part.extend_from_slice(&whole[run]);
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_cuts_the_expected_entries() {
        let image = Shape::image(3, 4, 2);
        let whole: Vec<usize> = (0..image.len()).collect();
        let window = Window { image, top: 1, left: 2, height: 2, width: 2 };
        assert_eq!(window.cut(&whole), vec![12, 13, 14, 15, 20, 21, 22, 23]);
        assert_eq!(Window::full(image).cut(&whole), whole);
    }
}
