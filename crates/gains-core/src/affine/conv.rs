//! Convolutions; a linear layer is a convolution of a 1×1 image.

use super::{Lanes, multiply};
use crate::arithmetic::beyond_float32;
use crate::kernels::vectorised;
use crate::row_block::RowBlock;
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
    fn targets(&self, row: usize, column: usize, output: Shape) -> Vec<(usize, usize)> {
        let hit = |at: usize, tap: usize, stride: usize, padding: usize, dilation: usize, size| {
            let offset = (at + padding).checked_sub(tap * dilation)?;
            (offset % stride == 0 && offset / stride < size).then_some(offset / stride)
        };
        let mut targets = Vec::new();
        for ky in 0..self.kernel.0 {
            let y = hit(row, ky, self.stride.0, self.padding.0, self.dilation.0, output.height);
            let Some(y) = y else { continue };
            for kx in 0..self.kernel.1 {
                let x = hit(column, kx, self.stride.1, self.padding.1, self.dilation.1, output.width);
                if let Some(x) = x {
                    targets.push((ky * self.kernel.1 + kx, y * output.width + x));
                }
            }
        }
        targets
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
    /// For every input pixel: the (tap, output position) pairs it feeds.
    targets: Vec<Vec<(usize, usize)>>,
    /// A weight or bias that float32 cannot store.
    beyond_float32: Option<f64>,
    /// Most terms in one output, bias and time included.
    terms: usize,
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
        let targets = (0..input.positions())
            .map(|pixel| geometry.targets(pixel / input.width, pixel % input.width, output))
            .collect();
        let bias = bias.to_vec();
        let beyond_float32 = beyond_float32(weights.iter().chain(&bias).copied());
        let terms = taps * (input.channels + first) + 1;
        let mut conv = Self {
            input,
            output,
            geometry,
            forward,
            backward,
            bias,
            time: None,
            targets,
            beyond_float32,
            terms,
        };
        if time {
            let mut plane = TimePlane { value: vec![0.0; output.len()], magnitude: vec![0.0; output.len()] };
            for &(k, position) in conv.targets.iter().flatten() {
                for co in 0..outputs {
                    plane.value[position * outputs + co] += tap(co, 0, k);
                    plane.magnitude[position * outputs + co] += tap(co, 0, k).abs();
                }
            }
            conv.time = Some(plane);
        }
        Some(conv)
    }

    /// A linear layer from weights in `[output][input]` order, the time being input 0 if there is one.
    pub fn linear_layer(inputs: usize, weights: &[f64], bias: &[f64], time: bool) -> Option<Self> {
        Self::new(Shape::flat(inputs), ConvGeometry::POINT, weights, bias, time)
    }

    /// A weight or bias that float32 cannot store.
    pub(super) fn beyond_float32(&self) -> Option<f64> {
        self.beyond_float32
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
        self.terms
    }

    /// The same map from some entries to some others, as a linear layer: what becomes of inputs that are zero elsewhere. Its
    /// weights and its times are these numbers, its roundings those of the whole.
    pub(super) fn restricted(&self, outputs: &[u32], inputs: &[u32]) -> Self {
        let (n, m) = (inputs.len(), outputs.len());
        let mut place = vec![None; self.output.len()];
        outputs.iter().enumerate().for_each(|(at, &output)| place[output as usize] = Some(at));
        let (mut forward, mut backward) = (vec![0.0; n * m], vec![0.0; n * m]);
        let channels = (self.input.channels, self.output.channels);
        for (column, &input) in inputs.iter().enumerate() {
            let (pixel, ci) = (input as usize / channels.0, input as usize % channels.0);
            for &(k, position) in &self.targets[pixel] {
                for co in 0..channels.1 {
                    let Some(row) = place[position * channels.1 + co] else { continue };
                    let weight = self.forward[(k * channels.0 + ci) * channels.1 + co];
                    forward[column * m + row] = weight;
                    backward[row * n + column] = weight;
                }
            }
        }
        let cut = |all: &[f64]| outputs.iter().map(|&output| all[output as usize]).collect();
        let time = self
            .time
            .as_ref()
            .map(|plane| TimePlane { value: cut(&plane.value), magnitude: cut(&plane.magnitude) });
        Self {
            input: Shape::flat(n),
            output: Shape::flat(m),
            geometry: ConvGeometry::POINT,
            forward,
            backward,
            bias: outputs.iter().map(|&output| self.bias[output as usize % channels.1]).collect(),
            time,
            targets: vec![vec![(0, 0)]],
            beyond_float32: self.beyond_float32,
            terms: self.terms,
        }
    }

    pub(super) fn parameters(&self) -> usize {
        let taps = self.geometry.kernel.0 * self.geometry.kernel.1;
        self.forward.len() + self.bias.len() + if self.time.is_some() { taps * self.bias.len() } else { 0 }
    }

    pub(super) fn pull_cost(&self) -> usize {
        self.output.positions() * self.forward.len()
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

    /// `elapsed·u` and `|elapsed|·|u|`: what the time channel adds while the time moves on.
    pub(super) fn time_shift(&self, elapsed: f64) -> (Vec<f64>, Vec<f64>) {
        match &self.time {
            Some(plane) => (
                plane.value.iter().map(|u| elapsed * u).collect(),
                plane.magnitude.iter().map(|u| elapsed.abs() * u).collect(),
            ),
            None => (vec![0.0; self.output.len()], vec![0.0; self.output.len()]),
        }
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

    pub(super) fn linear(&self, x: &[f64]) -> Vec<f64> {
        let [y] = scatter(self, [x], [false]);
        y
    }

    pub(super) fn absolute(&self, m: &[f64]) -> Vec<f64> {
        let [v] = scatter(self, [m], [true]);
        v
    }

    pub(super) fn lanes(&self, centre: &[f64], radius: &[f64], magnitude: Option<&[f64]>) -> Lanes {
        match magnitude {
            None => {
                let [centre, radius] = scatter(self, [centre, radius], [false, true]);
                Lanes { centre, radius, magnitude: Vec::new() }
            }
            Some(m) => {
                let [centre, radius, magnitude] = scatter(self, [centre, radius, m], [false, true, true]);
                Lanes { centre, radius, magnitude }
            }
        }
    }

    pub(super) fn transposed(&self, gradient: &[f64]) -> Vec<f64> {
        let mut pulled = vec![0.0; self.input.len()];
        gather(self, gradient, &mut pulled);
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
    pub(super) fn pull_rows(&self, rows: &RowBlock, window: &Window) -> Rows {
        let g = self.geometry;
        let (inputs, outputs) = (self.input.channels, self.output.channels);
        let field = self.receptive_field(window);
        let mut pulled = Rows::zeros(rows.count, field);
        pulled.constant.copy_from_slice(&rows.constant);
        pulled.slack.copy_from_slice(&rows.slack);
        let width = g.kernel.0 * g.kernel.1 * inputs;
        let positions = window.height * window.width;
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
                    let y = window.top + position / window.width;
                    let x = window.left + position % window.width;
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
            let mut add = |kx: usize, count: usize| {
                let column = x * g.stride.1 + kx * g.dilation.1 - g.padding.1;
                let to = ((row - field.top) * field.width + column - field.left) * inputs;
                let from = &taps[(ky * g.kernel.1 + kx) * inputs..][..count * inputs];
                for (t, f) in target[to..to + count * inputs].iter_mut().zip(from) {
                    *t += f;
                }
            };
            // Taps that fall on the image are consecutive; without dilation so are their pixels.
            let inside = |kx: &usize| {
                (x * g.stride.1 + kx * g.dilation.1).wrapping_sub(g.padding.1) < self.input.width
            };
            let Some(first) = (0..g.kernel.1).find(inside) else { continue };
            let count = (first..g.kernel.1).take_while(inside).count();
            if g.dilation.1 == 1 {
                add(first, count);
            } else {
                (first..first + count).for_each(|kx| add(kx, 1));
            }
        }
    }
}

vectorised! {
    /// `W x` or, where `absolute`, `|W| x`, for several vectors in one sweep over the weights.
    ///
    /// Pixels are scattered to the outputs they feed; entries that are exactly zero in every lane are
    /// skipped, which after a ReLU is most of them. Outputs are handled in blocks that stay in registers
    /// while the channels of a pixel are summed up.
    fn scatter<const N: usize>(conv: &Conv2d, x: [&[f64]; N], absolute: [bool; N]) -> [Vec<f64>; N] {
        let mut y = [(); N].map(|()| vec![0.0; conv.output.len()]);
        let (inputs, outputs) = (conv.input.channels, conv.output.channels);
        let masks = absolute.map(|a| if a { u64::MAX >> 1 } else { u64::MAX });
        let mut active: Vec<(usize, [f64; N])> = Vec::with_capacity(inputs);
        for (pixel, targets) in conv.targets.iter().enumerate() {
            active.clear();
            for ci in 0..inputs {
                let mut values = [0.0; N];
                for lane in 0..N {
                    values[lane] = x[lane][pixel * inputs + ci];
                }
                if values != [0.0; N] {
                    active.push((ci, values));
                }
            }
            for &(k, position) in targets {
                let weights = &conv.forward[k * inputs * outputs..][..inputs * outputs];
                let mut first = 0;
                while first < outputs {
                    let at = position * outputs + first;
                    let block = (weights, outputs, first);
                    first += match outputs - first {
                        16.. => accumulate::<16, N>(&mut y, at, block, &active, masks),
                        8.. => accumulate::<8, N>(&mut y, at, block, &active, masks),
                        _ => accumulate::<1, N>(&mut y, at, block, &active, masks),
                    };
                }
            }
        }
        y
    }
}

/// Adds the contributions of one pixel to `B` consecutive outputs of every lane; returns `B`. A mask that
/// clears the sign bit turns a weight into its absolute value.
#[inline(always)]
fn accumulate<const B: usize, const N: usize>(
    y: &mut [Vec<f64>; N],
    at: usize,
    (weights, outputs, first): (&[f64], usize, usize),
    active: &[(usize, [f64; N])],
    masks: [u64; N],
) -> usize {
    let mut sums = [[0.0_f64; B]; N];
    for (ci, values) in active {
        let w = &weights[ci * outputs + first..][..B];
        for lane in 0..N {
            for b in 0..B {
                sums[lane][b] += f64::from_bits(w[b].to_bits() & masks[lane]) * values[lane];
            }
        }
    }
    for lane in 0..N {
        for (to, sum) in y[lane][at..at + B].iter_mut().zip(&sums[lane]) {
            *to += sum;
        }
    }
    B
}

vectorised! {
    /// `pulled += Wᵀ gradient`, skipping zero gradients.
    fn gather(conv: &Conv2d, gradient: &[f64], pulled: &mut [f64]) -> () {
        let (inputs, outputs) = (conv.input.channels, conv.output.channels);
        let taps = conv.geometry.kernel.0 * conv.geometry.kernel.1;
        for (targets, out) in conv.targets.iter().zip(pulled.chunks_exact_mut(inputs)) {
            for &(k, position) in targets {
                for (co, &g) in gradient[position * outputs..][..outputs].iter().enumerate() {
                    if g == 0.0 {
                        continue;
                    }
                    let w = &conv.backward[(co * taps + k) * inputs..][..inputs];
                    for (out, w) in out.iter_mut().zip(w) {
                        *out += w * g;
                    }
                }
            }
        }
    }
}
