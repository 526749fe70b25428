//! Networks from the grammar of what the loader accepts: every order of every operator.
//!
//! [`layers`] writes layers, [`weights`] fills them, [`image`] and [`forecast`] make whole cases of them: a network, a
//! region of its inputs, and where to start looking for an input that breaks what is proved. Tensors are small
//! (at most [`MOST_ENTRIES`] entries) and odd: 1×N and N×1 images, strides that never see the far edge, padding larger
//! than the image, channels that are dead, activations one after the other, outputs that are an image.

pub mod forecast;
pub mod image;
pub mod layers;
pub mod solver;
pub mod weights;

pub use forecast::ForecastCase;
pub use image::ImageCase;

/// Entries of the largest tensor between two layers.
pub const MOST_ENTRIES: usize = 40;
