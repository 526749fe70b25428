//! Pixels, the boxes around them, and the attacks on them.

use super::memory::Buffer;
use super::{Cuda, launch, radius, spread};
use crate::device::{Batch, DeviceError, LabelData};

/// Labels and their weights.
pub struct Labels {
    pub(super) labels: Buffer,
    pub(super) widths: Buffer,
}

impl Cuda {
    pub(super) fn put_images(&mut self, pixels: &[u8], count: usize) -> Result<(), DeviceError> {
        debug_assert_eq!(pixels.len(), count * self.plan.input.len());
        let mut images = self.pool.bytes(pixels.len())?;
        images.write_bytes(pixels)?;
        self.images = Some(images);
        Ok(())
    }

    pub(super) fn gather_images(&mut self, indices: &[u32]) -> Result<Buffer, DeviceError> {
        let function = self.function("gather_images")?;
        let words: Vec<f32> = indices.iter().map(|i| f32::from_bits(*i)).collect();
        let chosen = self.pool.of(&words)?;
        let total = indices.len() * self.plan.input.len();
        let out = self.pool.floats(total)?;
        let Some(images) = &self.images else {
            return Err(DeviceError::Failed("no images are stored".into()));
        };
        launch!(
            self,
            function,
            spread(total),
            images.at(),
            chosen.at(),
            out.at(),
            self.picture(),
            total as i32
        );
        Ok(out)
    }

    pub(super) fn put_labels(&mut self, data: &LabelData) -> Result<Labels, DeviceError> {
        let mut labels = self.pool.bytes(data.labels.len())?;
        labels.write_bytes(&data.labels)?;
        Ok(Labels { labels, widths: self.pool.of(&data.width_weights)? })
    }

    pub(super) fn normalise(&mut self, pixels: &Buffer) -> Result<Batch<Buffer>, DeviceError> {
        let function = self.function("normalise")?;
        let out = self.like(false, pixels.len())?;
        let total = pixels.len() as i32;
        let config = spread(pixels.len());
        launch!(
            self,
            function,
            config,
            pixels.at(),
            self.normal.at(),
            out.centre.at(),
            self.picture(),
            total
        );
        Ok(out)
    }

    pub(super) fn surround(&mut self, pixels: &Buffer, reach: f64) -> Result<Batch<Buffer>, DeviceError> {
        let function = self.function("surround")?;
        let out = self.like(true, pixels.len())?;
        launch!(
            self,
            function,
            spread(pixels.len()),
            pixels.at(),
            self.normal.at(),
            reach as f32,
            out.centre.at(),
            radius(&out),
            self.picture(),
            pixels.len() as i32,
        );
        Ok(out)
    }

    pub(super) fn add_noise(
        &mut self,
        pixels: &Buffer,
        reach: f64,
        seed: u64,
    ) -> Result<Buffer, DeviceError> {
        let function = self.function("scatter_noise")?;
        let out = self.pool.floats(pixels.len())?;
        let total = pixels.len() as i32;
        let config = spread(pixels.len());
        launch!(self, function, config, pixels.at(), reach as f32, seed, out.at(), self.picture(), total);
        Ok(out)
    }

    pub(super) fn climb(
        &mut self,
        attacked: &mut Buffer,
        gradient: &Buffer,
        pixels: &Buffer,
        rate: f64,
        reach: f64,
    ) -> Result<(), DeviceError> {
        let function = self.function("ascend_sign")?;
        let total = pixels.len() as i32;
        let (rate, reach) = (rate as f32, reach as f32);
        let config = spread(pixels.len());
        launch!(self, function, config, attacked.at(), gradient.at(), pixels.at(), rate, reach, total);
        Ok(())
    }
}
