//! Parameters, their gradients and Adam.

use super::memory::Buffer;
use super::{Cuda, launch, shape, spread};
use crate::device::{AdamStep, DeviceError, Moments};

impl Cuda {
    pub(super) fn to_f64(buffer: &Buffer) -> Result<Vec<f64>, DeviceError> {
        Ok(buffer.read(buffer.len())?.into_iter().map(f64::from).collect())
    }

    pub(super) fn forget_gradients(&mut self) -> Result<(), DeviceError> {
        self.gradients.clear()?;
        for state in self.layers.values_mut() {
            state.weight_slabs.clear()?;
            state.position_slabs.clear()?;
        }
        Ok(())
    }

    pub(super) fn adam(&mut self, adam: &AdamStep) -> Result<(), DeviceError> {
        self.collect()?;
        let (norm, step) = (self.function("gradient_norm")?, self.function("adam")?);
        let n = self.plan.parameters;
        launch!(self, norm, shape(1, 1, 1024, 0), self.gradients.at(), n as i32, self.norm.at());
        let count = adam.count as i32;
        launch!(
            self,
            step,
            shape(n.div_ceil(256), 1, 256, 0),
            self.parameters.at(),
            self.gradients.at(),
            self.first.at(),
            self.second.at(),
            self.norm.at(),
            adam.rate as f32,
            adam.decay as f32,
            adam.beta1 as f32,
            adam.beta2 as f32,
            adam.epsilon as f32,
            adam.clip as f32,
            (1.0 - adam.beta1.powi(count)) as f32,
            (1.0 - adam.beta2.powi(count)).sqrt() as f32,
            n as i32,
        );
        self.updated = true;
        self.refresh()
    }

    pub(super) fn read_parameters(&mut self) -> Result<Vec<f64>, DeviceError> {
        Self::to_f64(&self.parameters)
    }

    pub(super) fn write_parameters(&mut self, parameters: &[f64]) -> Result<(), DeviceError> {
        let values: Vec<f32> = parameters.iter().map(|v| *v as f32).collect();
        self.parameters.write(&values)?;
        self.refresh()
    }

    pub(super) fn read_gradients(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.collect()?;
        Self::to_f64(&self.gradients)
    }

    pub(super) fn read_moments(&mut self) -> Result<Moments, DeviceError> {
        Ok(Moments { first: Self::to_f64(&self.first)?, second: Self::to_f64(&self.second)? })
    }

    pub(super) fn write_moments(&mut self, moments: &Moments) -> Result<(), DeviceError> {
        let single = |values: &[f64]| values.iter().map(|v| *v as f32).collect::<Vec<f32>>();
        self.first.write(&single(&moments.first))?;
        self.second.write(&single(&moments.second))
    }

    /// `averages ← decay · averages + (1 − decay) · parameters`.
    pub(super) fn move_averages(&mut self, decay: f64) -> Result<(), DeviceError> {
        let (scaled, add) = (self.function("scaled")?, self.function("add_to")?);
        let (n, config) = (self.plan.parameters, spread(self.plan.parameters));
        let (average, parameters) = (self.averages.at(), self.parameters.at());
        launch!(self, scaled, config, average, decay as f32, average, n as i32);
        launch!(self, add, config, average, parameters, (1.0 - decay) as f32, n as i32);
        Ok(())
    }

    pub(super) fn write_averages(&mut self, averages: &[f64]) -> Result<(), DeviceError> {
        let values: Vec<f32> = averages.iter().map(|v| *v as f32).collect();
        self.averages.write(&values)
    }
}
