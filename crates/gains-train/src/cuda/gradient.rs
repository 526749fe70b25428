//! Gradients of the weights of a layer, summed over samples and stages.

use cudarc::driver::DeviceRepr;
use gains_ode::Tableau;

use super::source::gradient_bytes;
use super::step::StepMemory;
use super::{Cuda, launch, shape};
use crate::device::DeviceError;
use crate::plan::LayerPlan;

/// The rows a gradient is summed over, as kernels take them.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Rows {
    count: i32,
    batch: i32,
    time: [f32; 26],
    bias: [f32; 26],
    source: [i32; 26],
}
// SAFETY: plain numbers, laid out as the kernels' `Rows`.
unsafe impl DeviceRepr for Rows {}

impl Rows {
    pub(super) fn one(batch: usize) -> Self {
        let mut bias = [0.0; 26];
        bias[0] = 1.0;
        Self { count: 1, batch: batch as i32, time: [0.0; 26], bias, source: [0; 26] }
    }

    /// The stages of a step, and in difference form their differences as well.
    pub(super) fn stages(batch: usize, tableau: &Tableau, last: usize, memory: &StepMemory) -> Self {
        let mut rows = Self { count: 0, ..Self::one(batch) };
        let mut push = |time: f64, bias: f32, source: usize| {
            let at = rows.count as usize;
            (rows.time[at], rows.bias[at], rows.source[at]) = (time as f32, bias, source as i32);
            rows.count += 1;
        };
        for stage in 0..last {
            push(memory.time + tableau.nodes[stage] * memory.step, 1.0, stage);
        }
        if memory.lanes == 4 {
            for stage in 1..last {
                let elapsed = (tableau.nodes[stage] - tableau.nodes[stage - 1]) * memory.step;
                push(elapsed, 0.0, tableau.len() + stage - 1);
            }
        }
        rows
    }
}

impl Cuda {
    /// Adds the gradients of a layer's weights and biases: inputs and gradients in front of the activation, as addresses
    /// of centres and radii.
    pub(super) fn add_gradients(
        &mut self,
        layer: &LayerPlan,
        lanes: usize,
        (xc, xr): (u64, u64),
        (dc, dr): (u64, u64),
        rows: Rows,
    ) -> Result<(), DeviceError> {
        let kernels = self.programs.layer(layer)?;
        let positions = self.function("position_gradient")?;
        let state = self.state(layer)?;
        let shares = kernels.shares;
        launch!(
            self,
            kernels.weights[lanes - 1],
            shape(
                self.processors,
                shares.blocks,
                shares.warps * 32,
                gradient_bytes(layer, lanes, state.dynamics)
            ),
            xc,
            xr,
            dc,
            dr,
            state.w.at(),
            state.weight_slabs.at(),
            rows,
        );
        let n = layer.output.len();
        let config = shape(self.processors, n.div_ceil(256), 256, 0);
        launch!(self, positions, config, dc, state.position_slabs.at(), rows, n as i32);
        Ok(())
    }
}
