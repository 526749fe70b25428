//! Solver steps: one kernel there, one back, one for the gradients of the weights.

use cudarc::driver::DeviceRepr;
use gains_core::Shape;
use gains_core::description::RungeKutta;
use gains_ode::Tableau;

use super::gradient::Rows;
use super::memory::Buffer;
use super::{Cuda, launch, radius, shape};
use crate::device::{Batch, DeviceError, StepForm, Trial};
use crate::plan::OdePlan;

/// Floats that a sample's image takes in the buffers of a solver step, where every layer's part is aligned for vectors of
/// four: `Sizes` of the kernels.
fn padded(shape: Shape) -> usize {
    shape.len().next_multiple_of(4)
}

/// What a solver step remembers.
pub struct StepMemory {
    method: RungeKutta,
    pub(super) lanes: usize,
    pub(super) time: f64,
    pub(super) step: f64,
    inputs: Buffer,
    masks: Buffer,
    /// Telescoped ends of the state (difference form) or signs of the error.
    marks: Buffer,
    end_masks: Buffer,
}

/// Pointers to the layers of a stretch, as kernels take them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Weights([[u64; 8]; 4]);
// SAFETY: plain addresses, laid out as the kernels' `Weights`.
unsafe impl DeviceRepr for Weights {}

impl Cuda {
    fn net(&self, ode: &OdePlan) -> Result<Weights, DeviceError> {
        let mut all = [[0; 8]; 4];
        for (i, layer) in ode.dynamics.iter().enumerate() {
            let state = self.state(layer)?;
            all[0][i] = state.w.at();
            all[1][i] = state.wt.at();
            all[2][i] = self.parameters.after(layer.biases.start);
            all[3][i] = state.shift.at();
        }
        Ok(Weights(all))
    }

    pub(super) fn take_step(
        &mut self,
        ode: &OdePlan,
        method: RungeKutta,
        form: StepForm,
        x: &Batch<Buffer>,
        time: f64,
        step: f64,
        keep: bool,
    ) -> Result<Trial<Cuda>, DeviceError> {
        let lanes = match (&x.radius, form) {
            (None, _) => 1,
            (Some(_), StepForm::Independent) => 2,
            (Some(_), StepForm::Difference) => 4,
        };
        let kernels = self.programs.step(ode, method, lanes)?;
        let stages = Tableau::of(method).len();
        let n = ode.state().len();
        let samples = x.centre.len() / n;
        let end = self.like(lanes > 1, x.centre.len())?;
        let errors = self.pool.floats(4 * samples)?;
        let net = self.net(ode)?;
        let memory = if keep {
            let inputs: usize = ode.dynamics.iter().map(|layer| padded(layer.input)).sum();
            let outputs: usize = ode.dynamics.iter().map(|layer| padded(layer.output)).sum();
            let (groups, mask_bytes, marks) = match lanes {
                4 => (2 * (2 * stages - 1), 2, stages * samples * n),
                _ => (lanes * stages, 1, samples * n),
            };
            Some(StepMemory {
                method,
                lanes,
                time,
                step,
                inputs: self.pool.floats(groups * samples * inputs)?,
                masks: self.pool.bytes(mask_bytes * stages * samples * outputs)?,
                marks: self.pool.bytes(marks)?,
                end_masks: self.pool.bytes(if lanes == 4 { samples * n } else { 0 })?,
            })
        } else {
            None
        };
        let address = |pick: fn(&StepMemory) -> &Buffer| memory.as_ref().map_or(0, |m| pick(m).at());
        let (inputs, masks, marks) = (address(|m| &m.inputs), address(|m| &m.masks), address(|m| &m.marks));
        let config = shape(samples, 1, kernels.shares.threads, kernels.shares.shared);
        let (xc, xr, yc, yr) = (x.centre.at(), radius(x), end.centre.at(), radius(&end));
        let (time, step, batch) = (time as f32, step as f32, samples as i32);
        if lanes == 4 {
            let scratch = self.pool.floats(samples * kernels.shares.memory)?;
            let end_masks = address(|m| &m.end_masks);
            launch!(
                self,
                kernels.forward,
                config,
                xc,
                xr,
                time,
                step,
                net,
                yc,
                yr,
                errors.at(),
                inputs,
                masks,
                marks,
                end_masks,
                scratch.at(),
                batch
            );
        } else {
            launch!(
                self,
                kernels.forward,
                config,
                xc,
                xr,
                time,
                step,
                net,
                yc,
                yr,
                errors.at(),
                inputs,
                masks,
                marks,
                batch
            );
        }
        Ok(Trial { end, errors, memory })
    }

    pub(super) fn pull_back_step(
        &mut self,
        ode: &OdePlan,
        x: &Batch<Buffer>,
        memory: &StepMemory,
        gradient: &Batch<Buffer>,
        error_weight: f64,
    ) -> Result<Batch<Buffer>, DeviceError> {
        let tableau = Tableau::of(memory.method);
        let kernels = self.programs.step(ode, memory.method, memory.lanes)?;
        let samples = x.centre.len() / ode.state().len();
        let last = if error_weight == 0.0 { tableau.solution_stages() } else { tableau.len() };
        let boxes = memory.lanes > 1;
        let groups = if memory.lanes == 4 { 2 * last - 1 } else { last };
        let sides = 1 + usize::from(boxes);
        let outputs: usize = ode.dynamics.iter().map(|layer| padded(layer.output)).sum();
        let grads =
            if self.frozen { None } else { Some(self.pool.floats(sides * groups * samples * outputs)?) };
        let back = self.like(boxes, x.centre.len())?;
        let net = self.net(ode)?;
        let config = shape(samples, 1, kernels.shares.threads, kernels.shares.shared);
        let (gc, gr) = (gradient.centre.at(), radius(gradient));
        let (xc, xr) = (back.centre.at(), radius(&back));
        let (step, weight) = (memory.step as f32, error_weight as f32);
        let (masks, marks, ends) = (memory.masks.at(), memory.marks.at(), memory.end_masks.at());
        let (batch, stop) = (samples as i32, last as i32);
        let out = grads.as_ref().map_or(0, Buffer::at);
        let scratch = self.pool.floats(samples * kernels.shares.memory)?;
        if memory.lanes == 4 {
            launch!(
                self,
                kernels.backward,
                config,
                gc,
                gr,
                step,
                weight,
                net,
                masks,
                marks,
                ends,
                scratch.at(),
                out,
                xc,
                xr,
                batch,
                stop
            );
        } else {
            launch!(
                self,
                kernels.backward,
                config,
                gc,
                gr,
                step,
                weight,
                net,
                masks,
                marks,
                out,
                xc,
                xr,
                batch,
                stop
            );
        }
        if let Some(grads) = grads {
            let rows = Rows::stages(samples, tableau, last, memory);
            let kept = if memory.lanes == 4 { 2 * tableau.len() - 1 } else { tableau.len() };
            let (mut inputs_at, mut grads_at) = (0, 0);
            for layer in &ode.dynamics {
                let (inputs, outputs) = (samples * layer.input.len(), samples * layer.output.len());
                let xs = (
                    memory.inputs.after(inputs_at),
                    memory.inputs.after(inputs_at + (sides - 1) * kept * inputs),
                );
                let ds = (grads.after(grads_at), grads.after(grads_at + (sides - 1) * groups * outputs));
                self.add_gradients(layer, sides, xs, ds, rows)?;
                inputs_at += sides * kept * samples * padded(layer.input);
                grads_at += sides * groups * samples * padded(layer.output);
            }
        }
        Ok(back)
    }
}
