//! Entries that are moved, left out, taken several times or filled up with zeros: nothing is computed.

use std::ops::Range;

use super::{ConvGeometry, Lanes};
use crate::interval::BoxVec;
use crate::row_block::RowBlock;
use crate::rows::Rows;
use crate::shape::{Shape, Window};

/// Every output is an entry of the input, or zero.
#[derive(Clone, Debug)]
pub struct Selection {
    input: Shape,
    output: Shape,
    /// Output entry `i` is input entry `source[i]`, or zero.
    source: Vec<Option<u32>>,
    purpose: Purpose,
}

/// What entries are moved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An image becomes a vector.
    Flatten,
    /// Another shape of the same entries.
    Reshape,
    /// Some channels.
    Channels,
    /// Zeros around.
    Pad,
    /// The channels of several images at one pixel come together.
    Interleave,
    /// One entry under every position of a kernel.
    Tap,
}

impl Selection {
    /// Output entry `i` is input entry `source[i]`, or zero. `None` if there are no such entries.
    pub fn of_entries(input: Shape, output: Shape, source: Vec<Option<u32>>) -> Option<Self> {
        let fits =
            source.len() == output.len() && source.iter().flatten().all(|&s| (s as usize) < input.len());
        fits.then_some(Self { input, output, source, purpose: Purpose::Reshape })
    }

    /// Channels-first flattening of an image: the order in which the weights of a following linear layer are stored.
    pub fn flatten(input: Shape) -> Self {
        Self { purpose: Purpose::Flatten, ..Self::reshape(input, Shape::flat(input.len())) }
    }

    /// The same entries in another shape of as many, both listed channel by channel.
    pub fn reshape(input: Shape, output: Shape) -> Self {
        let source = (0..output.len()).map(|i| Some(channels_last(input, channels_first(output, i)) as u32));
        Self { input, output, source: source.collect(), purpose: Purpose::Reshape }
    }

    /// Some channels of an image; `None` if it does not have them.
    pub fn channels(input: Shape, range: Range<usize>) -> Option<Self> {
        if range.is_empty() || range.end > input.channels {
            return None;
        }
        let output = Shape { channels: range.len(), ..input };
        let source = (0..output.len())
            .map(|i| Some((i / range.len() * input.channels + range.start + i % range.len()) as u32));
        Some(Self { input, output, source: source.collect(), purpose: Purpose::Channels })
    }

    /// Zero channels before and behind, zero pixels above, below, left and right.
    pub fn pad(input: Shape, channels: [usize; 2], rows: [usize; 2], columns: [usize; 2]) -> Option<Self> {
        let side = |size: usize, by: [usize; 2]| size.checked_add(by[0])?.checked_add(by[1]);
        let output = Shape::image(
            side(input.height, rows)?,
            side(input.width, columns)?,
            side(input.channels, channels)?,
        );
        let inside = |at: usize, before: usize, size: usize| at.checked_sub(before).filter(|at| *at < size);
        let source = (0..output.len()).map(|i| {
            let (pixel, channel) = (i / output.channels, i % output.channels);
            let row = inside(pixel / output.width, rows[0], input.height)?;
            let column = inside(pixel % output.width, columns[0], input.width)?;
            let channel = inside(channel, channels[0], input.channels)?;
            Some(((row * input.width + column) * input.channels + channel) as u32)
        });
        Some(Self { input, output, source: source.collect(), purpose: Purpose::Pad })
    }

    /// From images one after the other, of equal height and width, to one with the channels of all.
    pub fn interleave(images: &[Shape]) -> Option<Self> {
        let first = *images.first()?;
        if images.iter().any(|s| (s.height, s.width) != (first.height, first.width)) {
            return None;
        }
        let channels = images.iter().map(|s| s.channels).sum();
        let output = Shape { channels, ..first };
        let mut source = Vec::with_capacity(output.len());
        for pixel in 0..output.positions() {
            let mut start = 0;
            for image in images {
                source.extend((0..image.channels).map(|c| Some((start + pixel * image.channels + c) as u32)));
                start += image.len();
            }
        }
        Some(Self { input: Shape::flat(output.len()), output, source, purpose: Purpose::Interleave })
    }

    /// The entry under one tap of a kernel at all its positions. Where that lies beside the image, the nearest tap that does
    /// not: of all taps together none is left out and none is new, which is all a maximum needs.
    pub fn tap(input: Shape, geometry: ConvGeometry, tap: (usize, usize)) -> Option<Self> {
        let (height, width) = geometry.output(input)?;
        let output = Shape { height, width, ..input };
        let along = |at: usize, tap: usize, kernel: usize, stride: usize, padding: usize, size: usize| {
            let first = (at * stride).saturating_sub(padding);
            let last = (at * stride + kernel - 1).checked_sub(padding)?.min(size - 1);
            (first <= last).then(|| (at * stride + tap).saturating_sub(padding).clamp(first, last))
        };
        let (k, s, p) = (geometry.kernel, geometry.stride, geometry.padding);
        let mut source = Vec::with_capacity(output.len());
        for pixel in 0..output.positions() {
            let row = along(pixel / width, tap.0, k.0, s.0, p.0, input.height)?;
            let column = along(pixel % width, tap.1, k.1, s.1, p.1, input.width)?;
            let start = (row * input.width + column) * input.channels;
            source.extend((start..start + input.channels).map(|i| Some(i as u32)));
        }
        Some(Self { input, output, source, purpose: Purpose::Tap })
    }

    /// What entries are moved for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The entry of the input that every output is; none for zero.
    pub fn sources(&self) -> &[Option<u32>] {
        &self.source
    }

    /// Shape of the input.
    pub fn input(&self) -> Shape {
        self.input
    }

    /// Shape of the output.
    pub fn output(&self) -> Shape {
        self.output
    }

    pub(super) fn terms(&self) -> usize {
        1
    }

    pub(super) fn bias(&self, _: f64) -> Vec<f64> {
        vec![0.0; self.source.len()]
    }

    pub(super) fn bias_magnitude(&self, time: f64) -> Vec<f64> {
        self.bias(time)
    }

    pub(super) fn linear(&self, x: &[f64]) -> Vec<f64> {
        self.source.iter().map(|s| s.map_or(0.0, |s| x[s as usize])).collect()
    }

    /// A box, moved: exactly.
    pub(super) fn moved(&self, x: &BoxVec) -> BoxVec {
        BoxVec::new(self.linear(&x.lower), self.linear(&x.upper))
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

    pub(super) fn transposed(&self, gradient: &[f64]) -> Vec<f64> {
        let mut pulled = vec![0.0; self.input.len()];
        for (source, value) in self.source.iter().zip(gradient) {
            if let Some(s) = source {
                pulled[*s as usize] += *value;
            }
        }
        pulled
    }

    /// The pixels of the input that some outputs are taken from.
    fn field(&self, outputs: &[usize]) -> Window {
        let (mut rows, mut columns) = (self.input.height..0, self.input.width..0);
        for s in outputs.iter().filter_map(|&i| self.source[i]) {
            let pixel = s as usize / self.input.channels;
            let (row, column) = (pixel / self.input.width, pixel % self.input.width);
            rows = rows.start.min(row)..rows.end.max(row + 1);
            columns = columns.start.min(column)..columns.end.max(column + 1);
        }
        if rows.is_empty() {
            return Window::pixel(self.input, 0, 0);
        }
        Window {
            image: self.input,
            top: rows.start,
            left: columns.start,
            height: rows.len(),
            width: columns.len(),
        }
    }

    pub(super) fn pull_rows(&self, rows: &RowBlock, window: &Window) -> Rows {
        let outputs: Vec<usize> = window.runs().flatten().collect();
        let field = self.field(&outputs);
        let mut place = vec![0; self.input.len()];
        for (k, i) in field.runs().flatten().enumerate() {
            place[i] = k;
        }
        let moves: Vec<Option<usize>> =
            outputs.iter().map(|&i| self.source[i].map(|s| place[s as usize])).collect();
        let mut pulled = Rows::zeros(rows.count, field);
        pulled.constant.copy_from_slice(&rows.constant);
        pulled.slack.copy_from_slice(&rows.slack);
        for row in 0..rows.count {
            let to = pulled.row_mut(row);
            for (at, value) in moves.iter().zip(rows.row(row)) {
                if let Some(at) = at {
                    to[*at] += *value;
                }
            }
        }
        pulled
    }
}

/// Where entry `i` of a tensor in memory is if its entries are listed channel by channel.
fn channels_first(shape: Shape, i: usize) -> usize {
    i % shape.channels * shape.positions() + i / shape.channels
}

/// Where the entry is in memory that is the `i`-th of those listed channel by channel.
fn channels_last(shape: Shape, i: usize) -> usize {
    i % shape.positions() * shape.channels + i / shape.positions()
}
