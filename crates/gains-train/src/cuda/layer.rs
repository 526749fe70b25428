//! Layers and poolings.

use gains_core::Shape;

use super::gradient::Rows;
use super::memory::Buffer;
use super::source::image_bytes;
use super::{Cuda, lanes, launch, radius, shape, spread};
use crate::device::{Batch, DeviceError};
use crate::plan::LayerPlan;

impl Cuda {
    pub(super) fn apply_layer(
        &mut self,
        layer: &LayerPlan,
        x: &Batch<Buffer>,
    ) -> Result<(Batch<Buffer>, Buffer), DeviceError> {
        let kernels = self.programs.layer(layer)?;
        let samples = x.centre.len() / layer.input.len();
        let total = samples * layer.output.len();
        let y = self.like(x.radius.is_some(), total)?;
        let mask = self.pool.bytes(total)?;
        let config = shape(samples, 1, kernels.shares.forward.1, image_bytes(layer.input, lanes(x)));
        launch!(
            self,
            kernels.forward[lanes(x) - 1],
            config,
            x.centre.at(),
            radius(x),
            self.state(layer)?.w.at(),
            self.parameters.after(layer.biases.start),
            y.centre.at(),
            radius(&y),
            mask.at(),
        );
        Ok((y, mask))
    }

    pub(super) fn pull_back_layer(
        &mut self,
        layer: &LayerPlan,
        x: &Batch<Buffer>,
        mask: &Buffer,
        gradient: &Batch<Buffer>,
        inputs: bool,
    ) -> Result<Option<Batch<Buffer>>, DeviceError> {
        let kernels = self.programs.layer(layer)?;
        let lanes = lanes(x);
        let samples = x.centre.len() / layer.input.len();
        let total = samples * layer.output.len();
        let front = self.like(lanes == 2, total)?;
        launch!(
            self,
            kernels.gate[lanes - 1],
            spread(total),
            gradient.centre.at(),
            radius(gradient),
            mask.at(),
            front.centre.at(),
            radius(&front),
            total as i32,
        );
        if !self.frozen {
            let (xs, ds) = ((x.centre.at(), radius(x)), (front.centre.at(), radius(&front)));
            self.add_gradients(layer, lanes, xs, ds, Rows::one(samples))?;
        }
        if !inputs {
            return Ok(None);
        }
        let back = self.like(lanes == 2, x.centre.len())?;
        launch!(
            self,
            kernels.back[lanes - 1],
            shape(samples, 1, kernels.shares.back.1, image_bytes(layer.output, lanes)),
            front.centre.at(),
            radius(&front),
            self.state(layer)?.wt.at(),
            back.centre.at(),
            radius(&back),
        );
        Ok(Some(back))
    }

    pub(super) fn mean(&mut self, image: Shape, x: &Batch<Buffer>) -> Result<Batch<Buffer>, DeviceError> {
        let function = self.function("pool_forward")?;
        let total = x.centre.len() / image.positions();
        let y = self.like(x.radius.is_some(), total)?;
        let positions = image.positions() as i32;
        for (from, to) in std::iter::once((&x.centre, &y.centre)).chain(x.radius.iter().zip(&y.radius)) {
            launch!(self, function, spread(total), from.at(), to.at(), positions, total as i32);
        }
        Ok(y)
    }

    pub(super) fn pull_back_mean(
        &mut self,
        image: Shape,
        g: &Batch<Buffer>,
    ) -> Result<Batch<Buffer>, DeviceError> {
        let function = self.function("pool_backward")?;
        let total = g.centre.len() * image.positions();
        let x = self.like(g.radius.is_some(), total)?;
        let positions = image.positions() as i32;
        for (from, to) in std::iter::once((&g.centre, &x.centre)).chain(g.radius.iter().zip(&x.radius)) {
            launch!(self, function, spread(total), from.at(), to.at(), positions, total as i32);
        }
        Ok(x)
    }
}
