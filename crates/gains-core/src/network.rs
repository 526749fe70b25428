//! Networks ready to run: descriptions bound to their weights.

use crate::description::Description;
use crate::program::Program;
use crate::series_encoder::SeriesEncoder;
use crate::shape::Shape;

/// A network bound to its weights.
#[derive(Clone, Debug)]
pub struct Network {
    /// The description it was built from.
    pub description: Description,
    /// What makes the input of the body out of a series; for forecasting only.
    pub encoder: Option<SeriesEncoder>,
    /// From the input, or the latent state of a series, to the outputs.
    pub body: Program,
    /// Content hash of the file it came from: the first 16 hexadecimal digits of its SHA-256.
    pub hash: String,
}

impl Network {
    /// Shape of the input.
    pub fn input(&self) -> Shape {
        self.description.input
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.body.output_shape().len()
    }

    /// Number of trained parameters.
    pub fn parameters(&self) -> usize {
        self.encoder.as_ref().map_or(0, SeriesEncoder::parameters) + self.body.parameters()
    }
}
