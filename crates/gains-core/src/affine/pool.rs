//! Average pooling.

use super::{ConvGeometry, Lanes};
use crate::row_block::RowBlock;
use crate::rows::Rows;
use crate::shape::{Shape, Window};

/// Average pooling; padded zeros count into the average, as PyTorch does by default.
#[derive(Clone, Debug)]
pub struct AveragePool {
    input: Shape,
    output: Shape,
    weight: f64,
    /// For each output position, the input positions it averages.
    sources: Vec<Vec<usize>>,
}

impl AveragePool {
    /// Pooling with the given kernel; `None` if it does not fit.
    pub fn new(input: Shape, geometry: ConvGeometry) -> Option<Self> {
        let (height, width) = geometry.output(input)?;
        let output = Shape::image(height, width, input.channels);
        let mut sources = vec![Vec::new(); output.positions()];
        for (position, sources) in sources.iter_mut().enumerate() {
            let (y, x) = (position / width, position % width);
            for ky in 0..geometry.kernel.0 {
                for kx in 0..geometry.kernel.1 {
                    let row =
                        (y * geometry.stride.0 + ky * geometry.dilation.0).wrapping_sub(geometry.padding.0);
                    let column =
                        (x * geometry.stride.1 + kx * geometry.dilation.1).wrapping_sub(geometry.padding.1);
                    if row < input.height && column < input.width {
                        sources.push(row * input.width + column);
                    }
                }
            }
        }
        let weight = 1.0 / (geometry.kernel.0 * geometry.kernel.1) as f64;
        Some(Self { input, output, weight, sources })
    }

    /// Mean over all pixels.
    pub fn global(input: Shape) -> Option<Self> {
        Self::new(input, ConvGeometry { kernel: (input.height, input.width), ..ConvGeometry::POINT })
    }

    /// The input pixels under every position of the output, and what their entries are multiplied with.
    pub fn sources(&self) -> (&[Vec<usize>], f64) {
        (&self.sources, self.weight)
    }

    pub(super) fn input(&self) -> Shape {
        self.input
    }

    pub(super) fn output(&self) -> Shape {
        self.output
    }

    pub(super) fn terms(&self) -> usize {
        self.sources.iter().map(Vec::len).max().unwrap_or(0) + 1
    }

    pub(super) fn bias(&self, _: f64) -> Vec<f64> {
        vec![0.0; self.output.len()]
    }

    pub(super) fn bias_magnitude(&self, time: f64) -> Vec<f64> {
        self.bias(time)
    }

    pub(super) fn linear(&self, x: &[f64]) -> Vec<f64> {
        let channels = self.input.channels;
        let mut y = vec![0.0; self.output.len()];
        for (sources, y) in self.sources.iter().zip(y.chunks_exact_mut(channels)) {
            for &s in sources {
                for (y, x) in y.iter_mut().zip(&x[s * channels..][..channels]) {
                    *y += self.weight * x;
                }
            }
        }
        y
    }

    pub(super) fn absolute(&self, m: &[f64]) -> Vec<f64> {
        self.linear(m)
    }

    pub(super) fn lanes(&self, centre: &[f64], radius: &[f64], magnitude: Option<&[f64]>) -> Lanes {
        Lanes {
            centre: self.linear(centre),
            radius: self.linear(radius),
            magnitude: magnitude.map(|m| self.linear(m)).unwrap_or_default(),
        }
    }

    fn back(&self, from: &[f64], first_position: impl Iterator<Item = usize>, to: &mut [f64]) {
        let channels = self.input.channels;
        for (position, from) in first_position.zip(from.chunks_exact(channels)) {
            for &s in &self.sources[position] {
                for (to, from) in to[s * channels..][..channels].iter_mut().zip(from) {
                    *to += self.weight * from;
                }
            }
        }
    }

    pub(super) fn transposed(&self, gradient: &[f64]) -> Vec<f64> {
        let mut pulled = vec![0.0; self.input.len()];
        self.back(gradient, 0..self.output.positions(), &mut pulled);
        pulled
    }

    pub(super) fn pull_rows(&self, rows: &RowBlock, w: &Window) -> Rows {
        let mut pulled = Rows::zeros(rows.count, Window::full(self.input));
        pulled.constant.copy_from_slice(&rows.constant);
        pulled.slack.copy_from_slice(&rows.slack);
        for row in 0..rows.count {
            let positions = (0..w.height * w.width)
                .map(|i| (w.top + i / w.width) * self.output.width + w.left + i % w.width);
            self.back(rows.row(row), positions, pulled.row_mut(row));
        }
        pulled
    }
}
