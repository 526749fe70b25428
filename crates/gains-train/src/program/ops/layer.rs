//! Convolutions; a linear layer is one of a 1×1 image.
//!
//! The input becomes a matrix with a row for every position of the kernel (`patches`), in the order of the weights
//! of a model file, so that everything is a product of matrices. The time is one more channel, before the others.

use std::ops::Range;
use std::sync::Arc;

use gains_core::Shape;
use gains_core::affine::ConvGeometry;
use rayon::prelude::*;

use super::{Clock, Weights};
use crate::cpu::Real;
use crate::cpu::real::{View, multiply_add};
use crate::gradients::Gradients;
use crate::matrix::Matrix;

/// Entries of patches that one thread takes at a time, roughly.
const BLOCK: usize = 1 << 16;
/// Where a kernel looks at padding.
pub(in crate::program) const OUTSIDE: u32 = u32::MAX;

/// A convolution or a linear layer.
#[derive(Clone, Debug)]
pub struct Layer {
    input: Shape,
    output: Shape,
    time: bool,
    /// Where the weights are among the parameters, as in model files: output, (time and) input, row, column.
    weights: Range<usize>,
    biases: Range<usize>,
    taps: usize,
    /// The pixel under every tap at every position.
    pixels: Arc<[u32]>,
}

impl Layer {
    /// A layer whose weights begin at `start`; none if the kernel does not fit.
    pub fn new(
        input: Shape,
        geometry: ConvGeometry,
        outputs: usize,
        time: bool,
        start: usize,
    ) -> Option<Self> {
        let (height, width) = geometry.output(input)?;
        let output = Shape::image(height, width, outputs);
        let (g, mut pixels) = (geometry, Vec::new());
        let pixel = |at: usize, tap: usize, stride: usize, padding: usize, dilation: usize, size: usize| {
            (at * stride + tap * dilation).checked_sub(padding).filter(|at| *at < size)
        };
        for position in 0..output.positions() {
            for tap in 0..g.kernel.0 * g.kernel.1 {
                let (ky, kx) = (tap / g.kernel.1, tap % g.kernel.1);
                let row = pixel(position / width, ky, g.stride.0, g.padding.0, g.dilation.0, input.height);
                let column = pixel(position % width, kx, g.stride.1, g.padding.1, g.dilation.1, input.width);
                let both = row.zip(column).map(|(row, column)| (row * input.width + column) as u32);
                pixels.push(both.unwrap_or(OUTSIDE));
            }
        }
        let taps = g.kernel.0 * g.kernel.1;
        let count = outputs * (input.channels + usize::from(time)) * taps;
        let weights = start..start + count;
        let biases = weights.end..weights.end + outputs;
        Some(Self { input, output, time, weights, biases, taps, pixels: pixels.into() })
    }

    /// Where its weights are.
    pub fn weights(&self) -> Range<usize> {
        self.weights.clone()
    }

    /// Where its biases are.
    pub fn biases(&self) -> Range<usize> {
        self.biases.clone()
    }

    /// Entries of a patch, and outputs.
    pub fn sizes(&self) -> (usize, usize) {
        ((self.input.channels + usize::from(self.time)) * self.taps, self.output.channels)
    }

    /// Whether a row of the input is a patch as it is: a linear layer.
    pub fn is_plain(&self) -> bool {
        !self.time && self.taps == 1 && self.pixels[..] == [0]
    }

    /// Shapes of input and output.
    pub fn shapes(&self) -> [Shape; 2] {
        [self.input, self.output]
    }

    /// Positions of the kernel's entries.
    pub fn taps(&self) -> usize {
        self.taps
    }

    /// The pixel under every tap at every position.
    pub(in crate::program) fn pixels(&self) -> &Arc<[u32]> {
        &self.pixels
    }

    /// Samples in a block of work; it depends on nothing but the layer.
    fn block(&self) -> usize {
        (BLOCK / (self.sizes().0 * self.output.positions())).max(1)
    }

    /// Whether the layer depends on the time.
    pub fn uses_time(&self) -> bool {
        self.time
    }

    /// `W x + b + t·u`, or of changes `W d + t·u`.
    pub fn forward<F: Real>(&self, weights: &Weights<F>, x: &Matrix<F>, clock: Clock) -> Matrix<F> {
        let mut out = Matrix::zeros(x.rows, self.output.len(), x.is_box());
        let (_, outputs) = self.sizes();
        if clock.biased {
            for row in out.centre.chunks_exact_mut(outputs) {
                row.copy_from_slice(&weights.values[self.biases.clone()]);
            }
        }
        let numbers = [(&weights.values, clock.time), (&weights.magnitudes, 0.0)];
        for ((lane, to), (factors, time)) in x.lanes().zip([&mut out.centre, &mut out.radius]).zip(numbers) {
            self.multiply(&factors[self.weights.clone()], lane, time, to);
        }
        out
    }

    fn multiply<F: Real>(&self, factors: &[F], lane: &[F], time: f64, out: &mut [F]) {
        let (depth, outputs) = self.sizes();
        let (from, to) = (self.input.len() * self.block(), self.output.len() * self.block());
        lane.par_chunks(from).zip(out.par_chunks_mut(to)).for_each(|(x, out)| {
            let patches = self.patches(x, time);
            let rows = out.len() / outputs;
            let left = View { values: &patches, row: depth, column: 1 };
            multiply_add(
                [rows, outputs, depth],
                out,
                outputs,
                left,
                View { values: factors, row: 1, column: depth },
            );
        });
    }

    /// Adds the gradients of weights and biases; returns that of the input, if it is wanted.
    pub fn backward<F: Real>(
        &self,
        weights: &Weights<F>,
        x: &Matrix<F>,
        clock: Clock,
        gradient: &Matrix<F>,
        into: &mut Gradients<F>,
        wanted: bool,
    ) -> Option<Matrix<F>> {
        let (_, outputs) = self.sizes();
        if clock.biased {
            let sums = &mut into.signed[self.biases.clone()];
            for row in gradient.centre.chunks_exact(outputs) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum += *value;
                }
            }
        }
        let sums = [&mut into.signed, &mut into.magnitudes].map(|all| all.get_mut(self.weights.clone()));
        for (((lane, on), sum), time) in x.lanes().zip(gradient.lanes()).zip(sums).zip([clock.time, 0.0]) {
            if let Some(sum) = sum {
                self.add_weights(lane, on, time, sum);
            }
        }
        if !wanted {
            return None;
        }
        let mut part = x.zeros_like();
        let factors = [&weights.values, &weights.magnitudes];
        for ((on, factors), to) in gradient.lanes().zip(factors).zip([&mut part.centre, &mut part.radius]) {
            self.pull(&factors[self.weights.clone()], on, to);
        }
        Some(part)
    }

    /// `sum += gradientᵀ · patches`, block by block in their order.
    fn add_weights<F: Real>(&self, lane: &[F], gradient: &[F], time: f64, sum: &mut [F]) {
        let (depth, outputs) = self.sizes();
        let blocks = lane.par_chunks(self.input.len() * self.block());
        let gradients = gradient.par_chunks(self.output.len() * self.block());
        let parts: Vec<Vec<F>> = blocks
            .zip(gradients)
            .map(|(x, gradient)| {
                let patches = self.patches(x, time);
                let mut part = vec![F::ZERO; outputs * depth];
                let left = View { values: gradient, row: 1, column: outputs };
                let right = View { values: &patches[..], row: depth, column: 1 };
                multiply_add([outputs, depth, gradient.len() / outputs], &mut part, depth, left, right);
                part
            })
            .collect();
        for part in parts {
            for (sum, value) in sum.iter_mut().zip(part) {
                *sum += value;
            }
        }
    }

    /// From the gradient of the output to that of the input.
    fn pull<F: Real>(&self, factors: &[F], gradient: &[F], part: &mut [F]) {
        let (depth, outputs) = self.sizes();
        let (from, to) = (self.input.len() * self.block(), self.output.len() * self.block());
        part.par_chunks_mut(from).zip(gradient.par_chunks(to)).for_each(|(part, gradient)| {
            let rows = gradient.len() / outputs;
            let mut patches = vec![F::ZERO; rows * depth];
            let left = View { values: gradient, row: outputs, column: 1 };
            let right = View { values: factors, row: depth, column: 1 };
            multiply_add([rows, depth, outputs], &mut patches, depth, left, right);
            self.fold(&patches, part);
        });
    }

    /// A row for every sample and position.
    fn patches<'x, F: Real>(&self, x: &'x [F], time: f64) -> std::borrow::Cow<'x, [F]> {
        if self.is_plain() {
            return x.into();
        }
        let (depth, _) = self.sizes();
        let (channels, taps, first) = (self.input.channels, self.taps, usize::from(self.time));
        let samples = x.len() / self.input.len();
        let mut patches = vec![F::ZERO; samples * self.output.positions() * depth];
        let rows = patches.chunks_exact_mut(depth).zip(self.pixels.chunks_exact(taps).cycle());
        for (row, (patch, pixels)) in rows.enumerate() {
            let sample = &x[row / self.output.positions() * self.input.len()..][..self.input.len()];
            for (tap, pixel) in pixels.iter().enumerate().filter(|(_, pixel)| **pixel != OUTSIDE) {
                let entries = &sample[*pixel as usize * channels..][..channels];
                if self.time {
                    patch[tap] = F::of(time);
                }
                for (channel, value) in entries.iter().enumerate() {
                    patch[(first + channel) * taps + tap] = *value;
                }
            }
        }
        patches.into()
    }

    /// Adds gradients of patches up to those of the entries they were taken from.
    fn fold<F: Real>(&self, patches: &[F], part: &mut [F]) {
        if self.is_plain() {
            return part.copy_from_slice(patches);
        }
        let (depth, _) = self.sizes();
        let (channels, taps, first) = (self.input.channels, self.taps, usize::from(self.time));
        let rows = patches.chunks_exact(depth).zip(self.pixels.chunks_exact(taps).cycle());
        for (row, (patch, pixels)) in rows.enumerate() {
            let sample = &mut part[row / self.output.positions() * self.input.len()..][..self.input.len()];
            for (tap, pixel) in pixels.iter().enumerate().filter(|(_, pixel)| **pixel != OUTSIDE) {
                let entries = &mut sample[*pixel as usize * channels..][..channels];
                for (channel, sum) in entries.iter_mut().enumerate() {
                    *sum += patch[(first + channel) * taps + tap];
                }
            }
        }
    }
}
