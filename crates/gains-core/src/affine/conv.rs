//! Convolutions; a linear layer is a convolution of a 1×1 image.

use super::{Lanes, multiply};
use crate::rows::Rows;
use crate::shape::{Shape, Window};

/// Kernel, stride, padding and dilation, each as (vertical, horizontal).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvGeometry {
    /// Kernel size.
    pub kernel: (usize, usize),
    /// Stride.
    pub stride: (usize, usize),
    /// Zero padding on both sides.
    pub padding: (usize, usize),
    /// Dilation.
    pub dilation: (usize, usize),
}

impl ConvGeometry {
    /// A 1×1 kernel.
    pub const POINT: Self = Self { kernel: (1, 1), stride: (1, 1), padding: (0, 0), dilation: (1, 1) };

    /// Output height and width, if the kernel fits.
    pub fn output(&self, input: Shape) -> Option<(usize, usize)> {
        let side = |size: usize, kernel: usize, stride: usize, padding: usize, dilation: usize| {
            let reach = dilation.checked_mul(kernel.checked_sub(1)?)?.checked_add(1)?;
            Some(size.checked_add(padding.checked_mul(2)?)?.checked_sub(reach)? / stride + 1)
        };
        Some((
            side(input.height, self.kernel.0, self.stride.0, self.padding.0, self.dilation.0)?,
            side(input.width, self.kernel.1, self.stride.1, self.padding.1, self.dilation.1)?,
        ))
    }

    /// For one input pixel: every (tap, output position) it feeds.
    fn targets(&self, row: usize, column: usize, output: Shape, into: &mut Vec<(usize, usize)>) {
        let hit = |at: usize, tap: usize, stride: usize, padding: usize, dilation: usize, size| {
            let offset = (at + padding).checked_sub(tap * dilation)?;
            (offset % stride == 0 && offset / stride < size).then_some(offset / stride)
        };
        into.clear();
        for ky in 0..self.kernel.0 {
            let y = hit(row, ky, self.stride.0, self.padding.0, self.dilation.0, output.height);
            let Some(y) = y else { continue };
            for kx in 0..self.kernel.1 {
                let x = hit(column, kx, self.stride.1, self.padding.1, self.dilation.1, output.width);
                if let Some(x) = x {
                    into.push((ky * self.kernel.1 + kx, y * output.width + x));
                }
            }
        }
    }
}

/// The contribution of the time channel: a constant plane of value `t`, zero padded like the rest.
#[derive(Clone, Debug)]
struct TimePlane {
    /// Output for `t = 1`.
    value: Vec<f64>,
    /// Sum of absolute taps, for the rounding of `value` and of its use.
    magnitude: Vec<f64>,
}

/// A two-dimensional convolution, optionally with the time as an extra input channel.
#[derive(Clone, Debug)]
pub struct Conv2d {
    input: Shape,
    output: Shape,
    geometry: ConvGeometry,
    /// Taps as `[ky][kx][input channel][output channel]`: a pixel is scattered to runs of outputs.
    forward: Vec<f64>,
    /// Taps as `[output channel][ky][kx][input channel]`: rows are pulled back by one matrix product.
    backward: Vec<f64>,
    bias: Vec<f64>,
    time: Option<TimePlane>,
}

impl Conv2d {
    /// A convolution from weights in `[output channel][input channel][ky][kx]` order. With `time`, input
    /// channel 0 of the weights belongs to the time and the rest to the image.
    ///
    /// Returns `None` if the kernel does not fit the image or the weights do not fit the shapes.
    pub fn new(
        input: Shape,
        geometry: ConvGeometry,
        weights: &[f64],
        bias: &[f64],
        time: bool,
    ) -> Option<Self> {
        let (kh, kw) = geometry.kernel;
        let taps = kh * kw;
        let outputs = bias.len();
        let first = usize::from(time);
        if weights.len() != outputs * (input.channels + first) * taps {
            return None;
        }
        let (height, width) = geometry.output(input)?;
        let output = Shape::image(height, width, outputs);
        let tap = |co: usize, ci: usize, k: usize| weights[(co * (input.channels + first) + ci) * taps + k];
        let mut forward = vec![0.0; taps * input.channels * outputs];
        let mut backward = forward.clone();
        for co in 0..outputs {
            for ci in 0..input.channels {
                for k in 0..taps {
                    let w = tap(co, ci + first, k);
                    forward[(k * input.channels + ci) * outputs + co] = w;
                    backward[(co * taps + k) * input.channels + ci] = w;
                }
            }
        }
        let mut conv = Self { input, output, geometry, forward, backward, bias: bias.to_vec(), time: None };
        if time {
            let mut plane = TimePlane { value: vec![0.0; output.len()], magnitude: vec![0.0; output.len()] };
            conv.for_each_pixel(|_, targets| {
                for &(k, position) in targets {
                    for co in 0..outputs {
                        plane.value[position * outputs + co] += tap(co, 0, k);
                        plane.magnitude[position * outputs + co] += tap(co, 0, k).abs();
                    }
                }
            });
            conv.time = Some(plane);
        }
        Some(conv)
    }

    /// A linear layer from weights in `[output][input]` order, the time being input 0 if there is one.
    pub fn linear_layer(inputs: usize, weights: &[f64], bias: &[f64], time: bool) -> Option<Self> {
        Self::new(Shape::flat(inputs), ConvGeometry::POINT, weights, bias, time)
    }

    /// Shape of the input.
    pub fn input(&self) -> Shape {
        self.input
    }

    /// Shape of the output.
    pub fn output(&self) -> Shape {
        self.output
    }

    /// Kernel, stride, padding, dilation.
    pub fn geometry(&self) -> ConvGeometry {
        self.geometry
    }

    pub(super) fn terms(&self) -> usize {
        let taps = self.geometry.kernel.0 * self.geometry.kernel.1;
        taps * (self.input.channels + usize::from(self.time.is_some())) + 1
    }

    pub(super) fn parameters(&self) -> usize {
        let taps = self.geometry.kernel.0 * self.geometry.kernel.1;
        self.forward.len() + self.bias.len() + if self.time.is_some() { taps * self.bias.len() } else { 0 }
    }

    pub(super) fn uses_time(&self) -> bool {
        self.time.is_some()
    }

    pub(super) fn bias(&self, time: f64) -> Vec<f64> {
        self.spread(time, |plane| &plane.value, |b| b)
    }

    pub(super) fn bias_magnitude(&self, time: f64) -> Vec<f64> {
        self.spread(time.abs(), |plane| &plane.magnitude, f64::abs)
    }

    fn spread(
        &self,
        time: f64,
        plane: impl Fn(&TimePlane) -> &Vec<f64>,
        bias: impl Fn(f64) -> f64,
    ) -> Vec<f64> {
        let mut all = Vec::with_capacity(self.output.len());
        for _ in 0..self.output.positions() {
            all.extend(self.bias.iter().map(|&b| bias(b)));
        }
        if let Some(t) = &self.time {
            for (value, p) in all.iter_mut().zip(plane(t)) {
                *value += time * p;
            }
        }
        all
    }

    fn for_each_pixel(&self, mut visit: impl FnMut(usize, &[(usize, usize)])) {
        let mut targets = Vec::with_capacity(self.geometry.kernel.0 * self.geometry.kernel.1);
        for row in 0..self.input.height {
            for column in 0..self.input.width {
                self.geometry.targets(row, column, self.output, &mut targets);
                visit(row * self.input.width + column, &targets);
            }
        }
    }

    pub(super) fn linear(&self, x: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; self.output.len()];
        let (inputs, outputs) = (self.input.channels, self.output.channels);
        pulp::Arch::new().dispatch(|| {
            self.for_each_pixel(|pixel, targets| {
                for ci in 0..inputs {
                    let value = x[pixel * inputs + ci];
                    if value == 0.0 {
                        continue;
                    }
                    for &(k, position) in targets {
                        let w = &self.forward[(k * inputs + ci) * outputs..][..outputs];
                        let y = &mut y[position * outputs..][..outputs];
                        for co in 0..outputs {
                            y[co] += w[co] * value;
                        }
                    }
                }
            });
        });
        y
    }

    pub(super) fn absolute(&self, m: &[f64]) -> Vec<f64> {
        self.lanes(&vec![0.0; m.len()], m, None).radius
    }

    /// Scatters centres, radii and magnitudes; entries that are exactly zero are skipped, which after a
    /// ReLU is most of them.
    pub(super) fn lanes(&self, centre: &[f64], radius: &[f64], magnitude: Option<&[f64]>) -> Lanes {
        let size = self.output.len();
        let mut lanes = Lanes {
            centre: vec![0.0; size],
            radius: vec![0.0; size],
            magnitude: if magnitude.is_some() { vec![0.0; size] } else { Vec::new() },
        };
        let (inputs, outputs) = (self.input.channels, self.output.channels);
        pulp::Arch::new().dispatch(|| {
            self.for_each_pixel(|pixel, targets| {
                for ci in 0..inputs {
                    let at = pixel * inputs + ci;
                    let (c, r) = (centre[at], radius[at]);
                    let m = magnitude.map_or(0.0, |m| m[at]);
                    if c == 0.0 && r == 0.0 && m == 0.0 {
                        continue;
                    }
                    for &(k, position) in targets {
                        let w = &self.forward[(k * inputs + ci) * outputs..][..outputs];
                        let to = position * outputs..(position + 1) * outputs;
                        let centres = &mut lanes.centre[to.clone()];
                        let radii = &mut lanes.radius[to.clone()];
                        for co in 0..outputs {
                            centres[co] += w[co] * c;
                            radii[co] += w[co].abs() * r;
                        }
                        if magnitude.is_some() {
                            let magnitudes = &mut lanes.magnitude[to];
                            for co in 0..outputs {
                                magnitudes[co] += w[co].abs() * m;
                            }
                        }
                    }
                }
            });
        });
        lanes
    }

    pub(super) fn transposed(&self, gradient: &[f64]) -> Vec<f64> {
        let mut pulled = vec![0.0; self.input.len()];
        let (inputs, outputs) = (self.input.channels, self.output.channels);
        pulp::Arch::new().dispatch(|| {
            self.for_each_pixel(|pixel, targets| {
                for &(k, position) in targets {
                    let g = &gradient[position * outputs..][..outputs];
                    let out = &mut pulled[pixel * inputs..][..inputs];
                    for (co, &g) in g.iter().enumerate().filter(|(_, g)| **g != 0.0) {
                        let taps = self.geometry.kernel.0 * self.geometry.kernel.1;
                        let w = &self.backward[(co * taps + k) * inputs..][..inputs];
                        for ci in 0..inputs {
                            out[ci] += w[ci] * g;
                        }
                    }
                }
            });
        });
        pulled
    }

    /// The pixels of the input that a window of the output sees.
    fn receptive_field(&self, window: &Window) -> Window {
        let side = |start: usize, length: usize, kernel, stride, padding: usize, dilation, size: usize| {
            let first: usize = start * stride;
            let last: usize = (start + length - 1) * stride + (kernel - 1) * dilation;
            let first = first.saturating_sub(padding).min(size.saturating_sub(1));
            let last = last.saturating_sub(padding).min(size.saturating_sub(1));
            (first, last - first + 1)
        };
        let g = self.geometry;
        let (top, height) = side(
            window.top,
            window.height,
            g.kernel.0,
            g.stride.0,
            g.padding.0,
            g.dilation.0,
            self.input.height,
        );
        let (left, width) = side(
            window.left,
            window.width,
            g.kernel.1,
            g.stride.1,
            g.padding.1,
            g.dilation.1,
            self.input.width,
        );
        Window { image: self.input, top, left, height, width }
    }

    /// `A ↦ A W` on windows: one matrix product per chunk of rows, then the taps are added into place.
    pub(super) fn pull_rows(&self, rows: &Rows) -> Rows {
        let g = self.geometry;
        let (inputs, outputs) = (self.input.channels, self.output.channels);
        let field = self.receptive_field(&rows.window);
        let mut pulled = Rows::zeros(rows.count, field);
        pulled.constant.copy_from_slice(&rows.constant);
        pulled.slack.copy_from_slice(&rows.slack);
        let width = g.kernel.0 * g.kernel.1 * inputs;
        let positions = rows.window.height * rows.window.width;
        if g.kernel == (1, 1) && g.stride == (1, 1) && g.padding == (0, 0) {
            multiply(
                rows.count * positions,
                outputs,
                inputs,
                &rows.coefficients,
                &self.backward,
                &mut pulled.coefficients,
            );
            return pulled;
        }
        let chunk = (65_536 / (positions * width).max(1)).clamp(1, rows.count.max(1));
        let mut product = vec![0.0; chunk * positions * width];
        for first in (0..rows.count).step_by(chunk) {
            let count = chunk.min(rows.count - first);
            let a = &rows.coefficients[first * positions * outputs..][..count * positions * outputs];
            multiply(count * positions, outputs, width, a, &self.backward, &mut product);
            for row in 0..count {
                let target = pulled.row_mut(first + row);
                for position in 0..positions {
                    let y = rows.window.top + position / rows.window.width;
                    let x = rows.window.left + position % rows.window.width;
                    let taps = &product[(row * positions + position) * width..][..width];
                    self.add_taps(taps, y, x, &field, target);
                }
            }
        }
        pulled
    }

    fn add_taps(&self, taps: &[f64], y: usize, x: usize, field: &Window, target: &mut [f64]) {
        let g = self.geometry;
        let inputs = self.input.channels;
        for ky in 0..g.kernel.0 {
            let row = (y * g.stride.0 + ky * g.dilation.0).wrapping_sub(g.padding.0);
            if row >= self.input.height {
                continue;
            }
            for kx in 0..g.kernel.1 {
                let column = (x * g.stride.1 + kx * g.dilation.1).wrapping_sub(g.padding.1);
                if column >= self.input.width {
                    continue;
                }
                let to = ((row - field.top) * field.width + column - field.left) * inputs;
                let from = &taps[(ky * g.kernel.1 + kx) * inputs..][..inputs];
                for (t, f) in target[to..to + inputs].iter_mut().zip(from) {
                    *t += f;
                }
            }
        }
    }
}
