//! A layer's affine map on a tile of samples, as products of matrices.
//!
//! In a tile, the pixels that one row of the kernel sees from one column of the output lie side by side, and the same
//! pixels of the next row or sample one image row further on. So each row of the kernel is, for each column of the
//! output, a product of matrices as it stands: nothing is copied, and neither rows nor columns of zero padding are
//! multiplied. Kernels that jump over rows, or whose rows are short, are better off with the pixels under the kernel
//! copied side by side (*columns*) and one product for all.
//!
//! The time only moves the bias: `b + t·u`, with `u` the convolution of a plane of ones with the time's taps.

use gains_core::Shape;

use super::real::{Real, View, multiply_add};
use super::tile::resize;
use crate::plan::LayerPlan;

/// Shorter rows of the kernel are not worth a product of their own.
const SHORT: usize = 24;

/// Lane of a box: its centre goes through the weights, its radius through their magnitudes.
pub(crate) const CENTRE: usize = 0;
/// See [`CENTRE`].
pub(crate) const RADIUS: usize = 1;

/// One product: the column of the output, where its rows start, what they see of the input, and the weights for that.
#[derive(Clone, Copy, Debug)]
struct Strip {
    /// First rows.
    input_row: usize,
    output_row: usize,
    rows: usize,
    /// First columns.
    input_column: usize,
    output_column: usize,
    /// First row of weights, and how many.
    weights: usize,
    depth: usize,
}

/// A layer ready to be applied to tiles.
#[derive(Clone, Debug)]
pub(crate) struct Kernel<F> {
    pub plan: LayerPlan,
    /// Empty if the kernel works on columns.
    strips: Vec<Strip>,
    /// `[tap·in][out]`: the weights and their magnitudes.
    pub weights: [Vec<F>; 2],
    /// The same with the output first.
    pub transposed: [Vec<F>; 2],
    pub bias: Vec<F>,
    /// u, one entry per output; empty without time.
    shift: Vec<F>,
}

impl<F: Real> Kernel<F> {
    /// Geometry of a layer; the weights come with [`Self::refresh`].
    pub fn new(plan: &LayerPlan) -> Self {
        let channels = plan.input.channels;
        let one_row = plan.output.height == 1;
        let short = plan.kernel[0] > 1 && plan.kernel[1] * channels < SHORT && plan.output.positions() > 1;
        let strips = if short || (plan.stride[0] > 1 && !one_row) { Vec::new() } else { strips(plan) };
        let weights = plan.taps() * channels * plan.output.channels;
        let zeros = || [vec![F::ZERO; weights], vec![F::ZERO; weights]];
        Self {
            strips,
            weights: zeros(),
            transposed: zeros(),
            bias: vec![F::ZERO; plan.output.channels],
            shift: vec![F::ZERO; if plan.time { plan.output.len() } else { 0 }],
            plan: plan.clone(),
        }
    }

    /// Takes the layer's weights from the vector of all parameters.
    pub fn refresh(&mut self, parameters: &[F]) {
        let plan = &self.plan;
        let (outputs, rows) = (plan.output.channels, self.weights[0].len() / plan.output.channels);
        for (index, row, output) in weight_order(plan) {
            let weight = parameters[plan.weights.start + index];
            self.weights[0][row * outputs + output] = weight;
            self.weights[1][row * outputs + output] = weight.abs();
            self.transposed[0][output * rows + row] = weight;
            self.transposed[1][output * rows + row] = weight.abs();
        }
        self.bias.copy_from_slice(&parameters[plan.biases.clone()]);
        self.shift.fill(F::ZERO);
        for_time_taps(plan, |index, entry| self.shift[entry] += parameters[plan.weights.start + index]);
    }

    /// Fills a tile of outputs with `bias·b + time·u`.
    pub fn fill(&self, samples: usize, bias: bool, time: F, out: &mut Vec<F>) {
        resize(out, samples * self.plan.output.len());
        let (run, channels) = (self.plan.output.width * self.plan.output.channels, self.plan.output.channels);
        let mut line = vec![F::ZERO; run];
        for (row, rows) in out.chunks_exact_mut(samples * run).enumerate() {
            for (i, value) in line.iter_mut().enumerate() {
                *value = F::when(bias, self.bias[i % channels]);
                if self.plan.time && time != F::ZERO {
                    *value += time * self.shift[row * run + i];
                }
            }
            for values in rows.chunks_exact_mut(run) {
                values.copy_from_slice(&line);
            }
        }
    }

    /// `out += W x`, or `|W| x` in the lane of radii.
    pub fn apply(&self, lane: usize, samples: usize, x: &[F], out: &mut [F], columns: &mut Vec<F>) {
        let outputs = self.plan.output.channels;
        let weights =
            |first: usize| View { values: &self.weights[lane][first * outputs..], row: outputs, column: 1 };
        if self.strips.is_empty() {
            let (size, depth) = self.columns(samples, x, columns);
            let columns = View { values: columns, row: depth, column: 1 };
            return multiply_add([size, outputs, depth], out, outputs, columns, weights(0));
        }
        for strip in &self.strips {
            let ([from, to], [row, out_row]) = self.place(strip, samples);
            let x = View { values: &x[from..], row, column: 1 };
            let size = [strip.rows * samples, outputs, strip.depth];
            multiply_add(size, &mut out[to..], out_row, x, weights(strip.weights));
        }
    }

    /// Adds to the gradient of the weights (laid out as they are).
    pub fn weight_gradient(
        &self,
        samples: usize,
        x: &[F],
        gradient: &[F],
        weights: &mut [F],
        columns: &mut Vec<F>,
    ) {
        let outputs = self.plan.output.channels;
        if self.strips.is_empty() {
            let (size, depth) = self.columns(samples, x, columns);
            let columns = View { values: columns, row: 1, column: depth };
            let gradient = View { values: gradient, row: outputs, column: 1 };
            return multiply_add([depth, outputs, size], weights, outputs, columns, gradient);
        }
        for strip in &self.strips {
            let ([from, to], [row, out_row]) = self.place(strip, samples);
            let x = View { values: &x[from..], row: 1, column: row };
            let gradient = View { values: &gradient[to..], row: out_row, column: 1 };
            let size = [strip.depth, outputs, strip.rows * samples];
            multiply_add(size, &mut weights[strip.weights * outputs..], outputs, x, gradient);
        }
    }

    /// The gradient of the input: `Wᵀ g`, or `|W|ᵀ g`.
    pub fn input_gradient(
        &self,
        lane: usize,
        samples: usize,
        gradient: &[F],
        into: &mut Vec<F>,
        columns: &mut Vec<F>,
    ) {
        resize(into, samples * self.plan.input.len());
        into.fill(F::ZERO);
        let outputs = self.plan.output.channels;
        let rows = self.weights[lane].len() / outputs;
        let weights = |first: usize| View { values: &self.transposed[lane][first..], row: rows, column: 1 };
        if self.strips.is_empty() {
            let size = samples * self.plan.output.positions();
            resize(columns, size * rows);
            columns.fill(F::ZERO);
            let gradient = View { values: gradient, row: outputs, column: 1 };
            multiply_add([size, rows, outputs], columns, rows, gradient, weights(0));
            return self.visit_columns(samples, |column, pixel, run| {
                if let Some(pixel) = pixel {
                    for (i, c) in into[pixel..pixel + run].iter_mut().zip(&columns[column..column + run]) {
                        *i += *c;
                    }
                }
            });
        }
        for strip in &self.strips {
            let ([from, to], [row, out_row]) = self.place(strip, samples);
            let gradient = View { values: &gradient[to..], row: out_row, column: 1 };
            let size = [strip.rows * samples, strip.depth, outputs];
            multiply_add(size, &mut into[from..], row, gradient, weights(strip.weights));
        }
    }

    /// Where a strip starts in the tiles of input and output, and how far apart its rows are.
    fn place(&self, strip: &Strip, samples: usize) -> ([usize; 2], [usize; 2]) {
        let (input, output) = (self.plan.input, self.plan.output);
        let from = (strip.input_row * samples * input.width + strip.input_column) * input.channels;
        let to = (strip.output_row * samples * output.width + strip.output_column) * output.channels;
        ([from, to], [input.width * input.channels, output.width * output.channels])
    }

    /// Copies what is under the kernel side by side; returns the size of the matrix.
    fn columns(&self, samples: usize, x: &[F], columns: &mut Vec<F>) -> (usize, usize) {
        let (size, depth) =
            (samples * self.plan.output.positions(), self.plan.taps() * self.plan.input.channels);
        resize(columns, size * depth);
        self.visit_columns(samples, |column, pixel, run| {
            let target = &mut columns[column..column + run];
            match pixel {
                Some(pixel) => target.copy_from_slice(&x[pixel..pixel + run]),
                None => target.fill(F::ZERO),
            }
        });
        (size, depth)
    }

    /// For every run of entries of the columns: where it starts, where it comes from (nowhere if padding), how
    /// long it is.
    fn visit_columns(&self, samples: usize, mut visit: impl FnMut(usize, Option<usize>, usize)) {
        let Shape { height, width, channels } = self.plan.input;
        let LayerPlan { kernel, stride, padding, .. } = self.plan;
        let mut column = 0;
        for row in 0..self.plan.output.height {
            for sample in 0..samples {
                for place in 0..self.plan.output.width {
                    for ky in 0..kernel[0] {
                        let y = (row * stride[0] + ky).checked_sub(padding[0]).filter(|y| *y < height);
                        // Taps left of the image, inside it, and right of it.
                        let start = place * stride[1];
                        let left = padding[1].saturating_sub(start).min(kernel[1]);
                        let first = (start + left).saturating_sub(padding[1]);
                        let inside = width.saturating_sub(first).min(kernel[1] - left);
                        match y {
                            Some(y) if inside > 0 => {
                                if left > 0 {
                                    visit(column, None, left * channels);
                                }
                                let from = ((y * samples + sample) * width + first) * channels;
                                visit(column + left * channels, Some(from), inside * channels);
                                if left + inside < kernel[1] {
                                    let rest = kernel[1] - left - inside;
                                    visit(column + (left + inside) * channels, None, rest * channels);
                                }
                            }
                            _ => visit(column, None, kernel[1] * channels),
                        }
                        column += kernel[1] * channels;
                    }
                }
            }
        }
    }
}

/// For each column of the output and each row of the kernel, the product of what they have in common.
fn strips(plan: &LayerPlan) -> Vec<Strip> {
    let mut strips: Vec<Strip> = Vec::new();
    let channels = plan.input.channels;
    for output_column in 0..plan.output.width {
        let start = output_column * plan.stride[1];
        let left = plan.padding[1].saturating_sub(start);
        let right = (plan.input.width + plan.padding[1]).saturating_sub(start).min(plan.kernel[1]);
        if left >= right {
            continue;
        }
        for tap in 0..plan.kernel[0] {
            // Rows of the output that this row of the kernel shows something inside the image.
            let seen = |row: usize| {
                let y = (row * plan.stride[0] + tap).checked_sub(plan.padding[0]);
                y.filter(|y| *y < plan.input.height)
            };
            let mut rows = (0..plan.output.height).filter_map(|row| seen(row).map(|y| (row, y)));
            if let Some((output_row, input_row)) = rows.next() {
                strips.push(Strip {
                    input_row,
                    output_row,
                    rows: 1 + rows.count(),
                    input_column: start + left - plan.padding[1],
                    output_column,
                    weights: (tap * plan.kernel[1] + left) * channels,
                    depth: (right - left) * channels,
                });
            }
        }
    }
    strips
}

/// Positions among the layer's parameters of the weights of real inputs, with their rows `tap·in` and outputs.
pub(crate) fn weight_order(plan: &LayerPlan) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
    let (taps, channels, first) = (plan.taps(), plan.input.channels, usize::from(plan.time));
    (0..plan.output.channels).flat_map(move |output| {
        (0..channels).flat_map(move |channel| {
            (0..taps).map(move |tap| {
                let index = (output * (channels + first) + first + channel) * taps + tap;
                (index, tap * channels + channel, output)
            })
        })
    })
}

/// Calls `visit` for every weight of the time (its position among the layer's weights) and every output entry it
/// reaches.
pub(crate) fn for_time_taps(plan: &LayerPlan, mut visit: impl FnMut(usize, usize)) {
    if !plan.time {
        return;
    }
    let Shape { height, width, channels } = plan.output;
    for row in 0..height {
        for column in 0..width {
            for ky in 0..plan.kernel[0] {
                for kx in 0..plan.kernel[1] {
                    let y = (row * plan.stride[0] + ky).checked_sub(plan.padding[0]);
                    let x = (column * plan.stride[1] + kx).checked_sub(plan.padding[1]);
                    if !(y.is_some_and(|y| y < plan.input.height) && x.is_some_and(|x| x < plan.input.width))
                    {
                        continue;
                    }
                    for channel in 0..channels {
                        let index = channel * plan.channels_with_time() * plan.taps();
                        let entry = (row * width + column) * channels + channel;
                        visit(index + ky * plan.kernel[1] + kx, entry);
                    }
                }
            }
        }
    }
}
