//! Single layers and pooling of whole batches.

use gains_core::Shape;
use rayon::prelude::*;

use super::entries::{relu, relu_back};
use super::gradient::LayerGradient;
use super::kernel::CENTRE;
use super::real::Real;
use super::tile::{Tiling, load, store};
use super::{Cpu, Tensor};
use crate::device::{Batch, DeviceError};
use crate::plan::LayerPlan;

/// What a layer remembers for its gradient: the masks of its ReLU, by part and tile.
pub struct LayerMemory(Vec<Vec<Vec<u8>>>);

impl<F: Real> Cpu<F> {
    pub(super) fn apply_layer(
        &self,
        layer: &LayerPlan,
        x: &Batch<Tensor<F>>,
    ) -> Result<(Batch<Tensor<F>>, LayerMemory), DeviceError> {
        let kernel = self.kernel(layer)?;
        let (input, output) = (layer.input, layer.output);
        let samples = x.samples(input.len())?;
        let tiling = Tiling::new(samples, input.len().max(output.len()));
        let inputs = x.lanes();
        let mut outputs = vec![vec![F::ZERO; samples * output.len()]; inputs.len()];
        let jobs: Vec<_> = tiling.parts().zip(tiling.split_lanes(&mut outputs, output.len())).collect();
        let run = |(part, mut out): (std::ops::Range<usize>, Vec<&mut [F]>)| {
            let (mut columns, mut x) = (Vec::new(), Vec::new());
            let mut lanes = vec![Vec::new(); inputs.len()];
            let mut memory = Vec::new();
            for tile in tiling.tiles(part.clone()) {
                for (lane, values) in lanes.iter_mut().enumerate() {
                    load(input, &inputs[lane][tile.start * input.len()..tile.end * input.len()], &mut x);
                    kernel.fill(tile.len(), lane == CENTRE, F::ZERO, values);
                    kernel.apply(lane, tile.len(), &x, values, &mut columns);
                }
                let mut masks = Vec::new();
                if layer.relu {
                    relu(&mut lanes, &mut masks);
                }
                memory.push(masks);
                let at = (tile.start - part.start) * output.len()..(tile.end - part.start) * output.len();
                for (values, out) in lanes.iter().zip(&mut out) {
                    store(output, values, &mut out[at.clone()]);
                }
            }
            memory
        };
        let memory = self.install(|| jobs.into_par_iter().map(run).collect());
        Ok((Batch::of_lanes(outputs), LayerMemory(memory)))
    }

    pub(super) fn pull_back_layer(
        &mut self,
        layer: &LayerPlan,
        x: &Batch<Tensor<F>>,
        memory: &LayerMemory,
        gradient: &Batch<Tensor<F>>,
        want_inputs: bool,
    ) -> Result<Option<Batch<Tensor<F>>>, DeviceError> {
        let kernel = self.kernel(layer)?;
        let (input, output) = (layer.input, layer.output);
        let samples = x.samples(input.len())?;
        if gradient.samples(output.len())? != samples || x.radius.is_some() != gradient.radius.is_some() {
            return Err(DeviceError::Failed("the gradient of a layer does not fit its input".into()));
        }
        let tiling = Tiling::new(samples, input.len().max(output.len()));
        let (inputs, ends) = (x.lanes(), gradient.lanes());
        let wanted = if want_inputs { samples * input.len() } else { 0 };
        let mut starts = vec![vec![F::ZERO; wanted]; inputs.len()];
        let mut pieces = tiling.split_lanes(&mut starts, input.len()).into_iter();
        let jobs: Vec<_> =
            tiling.parts().map(|part| (part, pieces.next().unwrap_or_default())).enumerate().collect();
        let frozen = self.frozen;
        let run = |(number, (part, mut out)): (usize, (std::ops::Range<usize>, Vec<&mut [F]>))| {
            let mut parameters = LayerGradient::default();
            parameters.reset(kernel, inputs.len() == 2, frozen);
            let (mut columns, mut below) = (Vec::new(), Vec::new());
            let (mut x, mut lanes) = (vec![Vec::new(); inputs.len()], vec![Vec::new(); inputs.len()]);
            for (index, tile) in tiling.tiles(part.clone()).enumerate() {
                for lane in 0..inputs.len() {
                    load(
                        input,
                        &inputs[lane][tile.start * input.len()..tile.end * input.len()],
                        &mut x[lane],
                    );
                    load(
                        output,
                        &ends[lane][tile.start * output.len()..tile.end * output.len()],
                        &mut lanes[lane],
                    );
                }
                if layer.relu {
                    relu_back(&mut lanes, &memory.0[number][index]);
                }
                parameters.add(kernel, tile.len(), &x, &lanes, true, F::ZERO, &mut columns);
                let at = (tile.start - part.start) * input.len()..(tile.end - part.start) * input.len();
                for (lane, out) in out.iter_mut().enumerate().filter(|_| want_inputs) {
                    kernel.input_gradient(lane, tile.len(), &lanes[lane], &mut below, &mut columns);
                    store(input, &below, &mut out[at.clone()]);
                }
            }
            parameters
        };
        let parts: Vec<_> = self.install(|| jobs.into_par_iter().map(run).collect());
        let mut gradients = std::mem::take(&mut self.gradients);
        LayerGradient::settle(self.kernel(layer)?, &parts.iter().collect::<Vec<_>>(), &mut gradients);
        self.gradients = gradients;
        Ok(want_inputs.then(|| Batch::of_lanes(starts)))
    }
}

/// Mean over the pixels of each channel.
pub(super) fn pool<F: Real>(shape: Shape, x: &Batch<Tensor<F>>) -> Result<Batch<Tensor<F>>, DeviceError> {
    x.samples(shape.len())?;
    let share = F::of(1.0 / shape.positions() as f64);
    let means = |values: &&[F]| {
        let mut means = Vec::with_capacity(values.len() / shape.positions());
        for sample in values.chunks_exact(shape.len()) {
            let mut sums = vec![F::ZERO; shape.channels];
            for pixel in sample.chunks_exact(shape.channels) {
                for (s, v) in sums.iter_mut().zip(pixel) {
                    *s += *v;
                }
            }
            means.extend(sums.iter().map(|s| *s * share));
        }
        means
    };
    Ok(Batch::of_lanes(x.lanes().iter().map(means).collect()))
}

/// The gradient of [`pool`].
pub(super) fn pool_back<F: Real>(
    shape: Shape,
    gradient: &Batch<Tensor<F>>,
) -> Result<Batch<Tensor<F>>, DeviceError> {
    gradient.samples(shape.channels)?;
    let share = F::of(1.0 / shape.positions() as f64);
    let spread = |values: &&[F]| {
        let mut all = Vec::with_capacity(values.len() * shape.positions());
        for sample in values.chunks_exact(shape.channels) {
            for _ in 0..shape.positions() {
                all.extend(sample.iter().map(|g| *g * share));
            }
        }
        all
    };
    Ok(Batch::of_lanes(gradient.lanes().iter().map(spread).collect()))
}
