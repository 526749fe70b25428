//! The last layer, the loss behind it, and the ledger.

use cudarc::driver::LaunchConfig;

use super::images::Labels;
use super::memory::Buffer;
use super::{Cuda, launch, radius, shape};
use crate::device::{Batch, DeviceError, Ledger, Pull, Tally, WidthNorm};
use crate::plan::LayerPlan;

/// Floats of the ledger; it is read back when it would run over.
const LEDGER: usize = 1 << 18;

/// Losses that lie in the ledger's buffer.
pub(super) struct Recorded {
    boxes: bool,
    samples: usize,
}

/// What the kernel of the last layer is to weigh and where it is to write, 0 for nowhere.
#[derive(Default)]
struct Terms {
    weight: f64,
    width_weight: f64,
    norm: WidthNorm,
    /// Gradients of the margins.
    given: u64,
    margins: u64,
    results: u64,
}

impl Cuda {
    /// Reads the ledger's buffer into sums.
    fn settle(&mut self) -> Result<(Tally, Tally), DeviceError> {
        let total: usize = self.recorded.iter().map(|r| 4 * r.samples).sum();
        let values = if total == 0 { Vec::new() } else { self.ledger.read(total)? };
        let mut rest = &values[..];
        let mut tallies = (Tally::default(), Tally::default());
        for record in self.recorded.drain(..) {
            let (rows, after) = rest.split_at(4 * record.samples);
            rest = after;
            let tally = if record.boxes { &mut tallies.1 } else { &mut tallies.0 };
            for row in rows.chunks_exact(4) {
                tally.cross_entropy += f64::from(row[0]);
                tally.width += f64::from(row[1]);
                tally.correct += f64::from(row[2]);
                tally.samples += f64::from(row[3]);
            }
        }
        Ok(tallies)
    }

    /// The kernel of the last layer: gradients of the logits (centre and radius) and of the inputs.
    fn launch_head(
        &mut self,
        head: &LayerPlan,
        x: &Batch<Buffer>,
        labels: &Labels,
        terms: &Terms,
    ) -> Result<(Batch<Buffer>, Batch<Buffer>), DeviceError> {
        let boxes = x.radius.is_some();
        let function = self.function(if boxes { "loss_boxes" } else { "loss_points" })?;
        let (inputs, classes) = (head.input.len(), head.output.channels);
        let samples = x.centre.len() / inputs;
        let back = self.like(boxes, x.centre.len())?;
        let grads = self.like(true, samples * classes)?;
        const WARPS: usize = 4;
        launch!(
            self,
            function,
            shape(samples.div_ceil(WARPS), 1, 32 * WARPS, 4 * WARPS * 2 * classes),
            x.centre.at(),
            radius(x),
            self.parameters.after(head.weights.start),
            self.parameters.after(head.biases.start),
            labels.labels.at(),
            labels.widths.at(),
            terms.weight as f32,
            terms.width_weight as f32,
            i32::from(terms.norm == WidthNorm::Squared),
            terms.given,
            terms.margins,
            grads.centre.at(),
            radius(&grads),
            back.centre.at(),
            radius(&back),
            terms.results,
            inputs as i32,
            classes as i32,
            samples as i32,
        );
        Ok((grads, back))
    }

    pub(super) fn head_margins(
        &mut self,
        head: &LayerPlan,
        x: &Batch<Buffer>,
        labels: &Labels,
    ) -> Result<Vec<f64>, DeviceError> {
        let samples = x.centre.len() / head.input.len();
        let margins = self.pool.floats(samples * head.output.channels)?;
        let results = self.pool.floats(4 * samples)?;
        let terms = Terms { margins: margins.at(), results: results.at(), ..Terms::default() };
        self.launch_head(head, x, labels, &terms)?;
        Self::to_f64(&margins)
    }

    pub(super) fn head_loss(
        &mut self,
        head: &LayerPlan,
        x: &Batch<Buffer>,
        labels: &Labels,
        pull: Pull<'_>,
        width_weight: f64,
        norm: WidthNorm,
    ) -> Result<Batch<Buffer>, DeviceError> {
        let boxes = x.radius.is_some();
        let (inputs, classes) = (head.input.len(), head.output.channels);
        let samples = x.centre.len() / inputs;
        let used: usize = self.recorded.iter().map(|r| 4 * r.samples).sum();
        if used + 4 * samples > self.ledger.len() {
            if !self.recorded.is_empty() {
                return Err(DeviceError::Failed("the ledger is full: take it more often".into()));
            }
            self.ledger = self.pool.floats(LEDGER.max(4 * samples))?;
        }
        let (weight, given) = match pull {
            Pull::CrossEntropy(weight) => (weight, None),
            Pull::Margins(slopes) => {
                let slopes: Vec<f32> = slopes.iter().map(|slope| *slope as f32).collect();
                (0.0, Some(self.pool.of(&slopes)?))
            }
        };
        let results = self.ledger.after(used);
        let at = given.as_ref().map_or(0, Buffer::at);
        let terms = Terms { weight, width_weight, norm, given: at, margins: 0, results };
        let (grads, back) = self.launch_head(head, x, labels, &terms)?;
        if self.frozen {
            return Ok(back);
        }
        self.recorded.push(Recorded { boxes, samples });
        let function = self.function("head_gradient")?;
        const SLICES: u32 = 16;
        let config = LaunchConfig {
            grid_dim: (classes as u32, 1, 1),
            block_dim: (64, SLICES, 1),
            shared_mem_bytes: 4 * 64 * SLICES,
        };
        launch!(
            self,
            function,
            config,
            x.centre.at(),
            radius(x),
            self.parameters.after(head.weights.start),
            labels.labels.at(),
            grads.centre.at(),
            radius(&grads),
            self.gradients.after(head.weights.start),
            self.gradients.after(head.biases.start),
            i32::from(boxes),
            inputs as i32,
            classes as i32,
            samples as i32,
        );
        Ok(back)
    }

    pub(super) fn read_ledger(&mut self) -> Result<Ledger, DeviceError> {
        let (clean, robust) = self.settle()?;
        let gradient_norm = if self.updated {
            let words = self.norm.read(2)?;
            f64::from_bits(u64::from(words[0].to_bits()) | u64::from(words[1].to_bits()) << 32)
        } else {
            0.0
        };
        self.updated = false;
        Ok(Ledger { clean, robust, gradient_norm, latent: None })
    }
}
