//! A layer's affine map on a tile of samples, as products of matrices.
//!
//! The pixels under the kernel are laid side by side (*columns*), either whole, or only along the rows of the image:
//! then each row of the kernel is a product of its own, three times less is copied for a 3×3 kernel, and rows of
//! zero padding are never multiplied. The time only moves the bias: `b + t·u`, with `u` the convolution of a plane
//! of ones with the time's taps.

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

/// How columns are cut from an image.
#[derive(Clone, Copy, Debug)]
struct Cut {
    rows: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
}

/// One product: a stretch of rows of columns, a stretch of weights, a stretch of rows of the output.
#[derive(Clone, Copy, Debug)]
struct Product {
    columns: usize,
    outputs: usize,
    rows: usize,
    /// First weight row.
    weights: usize,
}

/// A layer ready to be applied to tiles.
#[derive(Clone, Debug)]
pub(crate) struct Kernel<F> {
    pub plan: LayerPlan,
    cut: Cut,
    /// Columns are the input itself.
    plain: bool,
    products: Vec<Product>,
    /// Entries under the kernel in one product.
    depth: usize,
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
        let whole = plan.kernel[0] > 1 && plan.kernel[1] * channels < SHORT;
        let cut = if whole {
            Cut { rows: plan.output.height, kernel: plan.kernel, stride: plan.stride, padding: plan.padding }
        } else {
            Cut {
                rows: plan.input.height,
                kernel: [1, plan.kernel[1]],
                stride: [1, plan.stride[1]],
                padding: [0, plan.padding[1]],
            }
        };
        let depth = cut.kernel[0] * cut.kernel[1] * channels;
        let products = if whole {
            vec![Product { columns: 0, outputs: 0, rows: cut.rows, weights: 0 }]
        } else {
            row_products(plan, depth)
        };
        let full_width = plan.kernel[1] == plan.input.width || plan.kernel[1] == 1;
        let plain = !whole && full_width && plan.stride[1] == 1 && plan.padding[1] == 0;
        let weights = plan.taps() * channels * plan.output.channels;
        let zeros = || [vec![F::ZERO; weights], vec![F::ZERO; weights]];
        Self {
            cut,
            plain,
            products,
            depth,
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
        let columns = self.columns(samples, x, columns);
        let (outputs, strip) = (self.plan.output.channels, samples * self.plan.output.width);
        for product in &self.products {
            multiply_add(
                [product.rows * strip, outputs, self.depth],
                &mut out[product.outputs * strip * outputs..],
                outputs,
                View { values: &columns[product.columns * strip * self.depth..], row: self.depth, column: 1 },
                View { values: &self.weights[lane][product.weights * outputs..], row: outputs, column: 1 },
            );
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
        let columns = self.columns(samples, x, columns);
        let (outputs, strip) = (self.plan.output.channels, samples * self.plan.output.width);
        for product in &self.products {
            multiply_add(
                [self.depth, outputs, product.rows * strip],
                &mut weights[product.weights * outputs..],
                outputs,
                View { values: &columns[product.columns * strip * self.depth..], row: 1, column: self.depth },
                View { values: &gradient[product.outputs * strip * outputs..], row: outputs, column: 1 },
            );
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
        let (outputs, strip) = (self.plan.output.channels, samples * self.plan.output.width);
        if !self.plain {
            resize(columns, self.cut.rows * strip * self.depth);
            columns.fill(F::ZERO);
        }
        let target = if self.plain { &mut *into } else { &mut *columns };
        let rows = self.weights[lane].len() / outputs;
        for product in &self.products {
            multiply_add(
                [product.rows * strip, self.depth, outputs],
                &mut target[product.columns * strip * self.depth..],
                self.depth,
                View { values: &gradient[product.outputs * strip * outputs..], row: outputs, column: 1 },
                View { values: &self.transposed[lane][product.weights..], row: rows, column: 1 },
            );
        }
        if !self.plain {
            self.visit_columns(samples, |column, pixel, run| {
                if let Some(pixel) = pixel {
                    for (i, c) in into[pixel..pixel + run].iter_mut().zip(&columns[column..column + run]) {
                        *i += *c;
                    }
                }
            });
        }
    }

    fn columns<'a>(&self, samples: usize, x: &'a [F], columns: &'a mut Vec<F>) -> &'a [F] {
        if self.plain {
            return x;
        }
        resize(columns, self.cut.rows * samples * self.plan.output.width * self.depth);
        self.visit_columns(samples, |column, pixel, run| {
            let target = &mut columns[column..column + run];
            match pixel {
                Some(pixel) => target.copy_from_slice(&x[pixel..pixel + run]),
                None => target.fill(F::ZERO),
            }
        });
        columns
    }

    /// For every run of entries of the columns: where it starts, where it comes from (nowhere if padding), how
    /// long it is.
    fn visit_columns(&self, samples: usize, mut visit: impl FnMut(usize, Option<usize>, usize)) {
        let Shape { height, width, channels } = self.plan.input;
        let Cut { rows, kernel, stride, padding } = self.cut;
        let mut column = 0;
        for row in 0..rows {
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

/// One product for each row of the kernel (for each row of the output, if it jumps over rows of the input).
fn row_products(plan: &LayerPlan, depth: usize) -> Vec<Product> {
    let mut products = Vec::new();
    for tap in 0..plan.kernel[0] {
        let source = |row: usize| {
            (row * plan.stride[0] + tap).checked_sub(plan.padding[0]).filter(|y| *y < plan.input.height)
        };
        for row in 0..plan.output.height {
            let Some(columns) = source(row) else { continue };
            match products.last_mut() {
                Some(Product { weights, outputs, rows, .. })
                    if plan.stride[0] == 1 && *weights == tap * depth && *outputs + *rows == row =>
                {
                    *rows += 1;
                }
                _ => products.push(Product { columns, outputs: row, rows: 1, weights: tap * depth }),
            }
        }
    }
    products
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
