//! Convolutions and linear layers: products of matrices whose entries are looked up where they lie.

use std::sync::Arc;

use super::fixed::Table;
use super::launcher::{Argument, Launcher};
use super::learning::{DeviceGradients, DeviceWeights};
use super::values::DeviceValues;
use super::{Kernels, launch};
use crate::cpu::Real;
use crate::program::ops::layer::OUTSIDE;
use crate::program::ops::{Clock, Layer};

/// Rows and columns of a tile of a product.
const TILE: usize = 64;
/// Least rows of a slab of sums over rows, and most slabs of a product.
const STRETCH: usize = 256;
const MOST_SLABS: usize = 64;

/// From where a kernel sees a pixel, tap by tap.
fn positions(layer: &Layer) -> Vec<i32> {
    let [input, _] = layer.shapes();
    let taps = layer.taps();
    let mut positions = vec![-1; input.positions() * taps];
    for (at, pixel) in layer.pixels().iter().enumerate().filter(|(_, pixel)| **pixel != OUTSIDE) {
        positions[*pixel as usize * taps + at % taps] = (at / taps) as i32;
    }
    positions
}

impl<L: Launcher, F: Real> Kernels<L, F> {
    fn layer_table(&self, layer: &Layer) -> Arc<Table<L::Memory>> {
        let pixels = layer.pixels();
        self.table(pixels.as_ptr() as usize, || Table::Layer {
            _keep: pixels.clone(),
            pixels: self
                .put_ints(pixels.iter().map(|pixel| if *pixel == OUTSIDE { -1 } else { *pixel as i32 })),
            positions: self.put_ints(positions(layer).into_iter()),
        })
    }

    /// What the kernels of layers take first.
    fn geometry(&self, layer: &Layer, table: &Table<L::Memory>) -> [Argument; 8] {
        let [input, output] = layer.shapes();
        let (pixels, positions) = match table {
            Table::Layer { pixels, positions, .. } => (self.at(pixels), self.at(positions)),
            _ => (0, 0),
        };
        [
            pixels.into(),
            positions.into(),
            input.channels.into(),
            output.channels.into(),
            layer.taps().into(),
            input.positions().into(),
            output.positions().into(),
            layer.uses_time().into(),
        ]
    }

    /// `W x + b + t·u`, or of changes `W d + t·u`.
    pub(super) fn layer(
        &self,
        layer: &Layer,
        weights: &DeviceWeights<L::Memory>,
        x: &DeviceValues<L::Memory>,
        clock: Clock,
    ) -> DeviceValues<L::Memory> {
        let [_, output] = layer.shapes();
        let out = self.blank(x.rows, output.len(), x.is_box());
        let (rows, outputs) = (x.rows * output.positions(), output.channels);
        let table = self.layer_table(layer);
        let bias = if clock.biased { self.after(&weights.values, layer.biases().start) } else { 0 };
        let numbers = [(&weights.values, bias, clock.time), (&weights.magnitudes, 0, 0.0)];
        for ((x, y), (factors, bias, time)) in x.lanes().zip(out.lanes()).zip(numbers) {
            let factors = self.after(factors, layer.weights().start);
            let rest =
                [self.at(x).into(), factors.into(), bias.into(), time.into(), self.at(y).into(), rows.into()];
            let blocks = [rows.div_ceil(TILE), outputs.div_ceil(TILE), 1];
            self.launch("layer_forward", blocks, &[&self.geometry(layer, &table)[..], &rest].concat());
        }
        out
    }

    /// Adds the gradients of weights and biases; that of the input, if it is wanted.
    pub(super) fn layer_back(
        &self,
        layer: &Layer,
        weights: &DeviceWeights<L::Memory>,
        x: &DeviceValues<L::Memory>,
        clock: Clock,
        gradient: &DeviceValues<L::Memory>,
        into: &DeviceGradients<L::Memory>,
        wanted: bool,
    ) -> Option<DeviceValues<L::Memory>> {
        let [input, output] = layer.shapes();
        let table = self.layer_table(layer);
        let rows = x.rows * output.positions();
        if clock.biased {
            let into = self.after(&into.signed, layer.biases().start);
            self.add_columns(&gradient.centre, rows, output.channels, into);
        }
        let lanes = x.lanes().zip(gradient.lanes());
        let sums = [Some(&into.signed), into.magnitudes.as_ref()];
        for (((x, g), sum), time) in lanes.zip(sums).zip([clock.time, 0.0]) {
            if let Some(sum) = sum {
                let into = self.after(sum, layer.weights().start);
                self.add_weights(layer, &table, (x, g, rows), time, into);
            }
        }
        if !wanted {
            return None;
        }
        let part = self.blank_like(x);
        let rows = x.rows * input.positions();
        let factors = [&weights.values, &weights.magnitudes];
        for ((g, factors), part) in gradient.lanes().zip(factors).zip(part.lanes()) {
            let factors = self.after(factors, layer.weights().start);
            let rest = [self.at(g).into(), factors.into(), self.at(part).into(), rows.into()];
            let blocks = [rows.div_ceil(TILE), input.channels.div_ceil(TILE), 1];
            self.launch("layer_back", blocks, &[&self.geometry(layer, &table)[..], &rest].concat());
        }
        Some(part)
    }

    fn add_weights(
        &self,
        layer: &Layer,
        table: &Table<L::Memory>,
        (x, g, rows): (&L::Memory, &L::Memory, usize),
        time: f64,
        into: u64,
    ) {
        let (depth, outputs) = layer.sizes();
        let stretch = rows.div_ceil(MOST_SLABS).max(STRETCH);
        let count = rows.div_ceil(stretch);
        let slabs = self.floats(count * outputs * depth);
        let rest = [
            self.at(x).into(),
            self.at(g).into(),
            time.into(),
            self.at(&slabs).into(),
            stretch.into(),
            rows.into(),
        ];
        let blocks = [outputs.div_ceil(TILE), depth.div_ceil(TILE), count];
        self.launch("layer_weights", blocks, &[&self.geometry(layer, table)[..], &rest].concat());
        self.add_slabs(&slabs, count, outputs * depth, into);
    }

    /// `into += ` the sum of every column.
    fn add_columns(&self, g: &L::Memory, rows: usize, columns: usize, into: u64) {
        let count = rows.div_ceil(STRETCH);
        let slabs = self.floats(count * columns);
        let blocks = super::spread(count * columns);
        let to = self.at(&slabs);
        launch!(self, "column_sums", blocks, self.at(g), columns, STRETCH, rows, to, count * columns);
        self.add_slabs(&slabs, count, columns, into);
    }

    fn add_slabs(&self, slabs: &L::Memory, count: usize, n: usize, into: u64) {
        launch!(self, "add_slabs", super::spread(n), self.at(slabs), count, into, n);
    }
}
